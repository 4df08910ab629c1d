"""The saved traces to bugs of idempotent producing: they go wrong with their bug and nowhere without it, for ever.

Each is a file of `spec.codec`: the machine's constants and what falls, then every action with the state after it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from model_tests.bugs.idempotence import IDEMPOTENCE_BUGS
from model_tests.harness.counterexamples import FOLDER, Failure
from model_tests.lockstep.idempotence import CORRECT, IdempotenceLockstep, failure_of
from spec.codec import constants, read_trace
from spec.idempotence_state import State
from spec.traces import Trace, replay

FILES = sorted((FOLDER / "idempotence").glob("*.jsonl"))
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def saved(path: Path) -> tuple[str, Trace[State]]:
    """The invariant that falls, and the way there."""
    lines = path.read_text(encoding="utf-8").splitlines()
    machine = IDEMPOTENCE_BUGS[path.stem].twin.machine()
    header = json.loads(lines[0])
    assert header["constants"] == constants(machine), "the file is of a model with other constants"
    return header["violates"], read_trace(machine, lines)


def test_every_bug_has_a_file() -> None:
    assert {path.stem for path in FILES} == set(IDEMPOTENCE_BUGS)


@every_file
def test_the_specification_goes_the_saved_way_and_the_invariant_falls_in_its_last_step(path: Path) -> None:
    invariant, trace = saved(path)
    replayed = replay(IDEMPOTENCE_BUGS[path.stem].twin.machine(), trace.actions)
    assert replayed.trace == trace
    assert replayed.violation is not None
    assert replayed.violation.invariant == invariant


@every_file
def test_the_cores_go_it_too_and_not_without_the_bug(path: Path) -> None:
    invariant, trace = saved(path)
    bug = IDEMPOTENCE_BUGS[path.stem]
    failure = failure_of(IdempotenceLockstep(bug.twin.machine(), bug.roles), trace.actions)
    assert failure is not None
    assert (failure.expected.kind, failure.expected.name) == (Failure.INVARIANT, invariant)
    assert len(failure.actions) == len(trace.actions)
    correct = bug.twin.correct_machine()
    assert replay(correct, trace.actions).violation is None
    assert failure_of(IdempotenceLockstep(correct, CORRECT), trace.actions) is None

"""Every historical bug is found by the explorer, in its small model, by an invariant that it is known to break."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

import pytest

from tidegauge.spec.bugs import BUGS, Bug
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import NotEnabled
from tidegauge.spec.kernel.traces import Violation
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import State

every_bug = pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)


@cache
def found(name: str) -> Violation[State]:
    """The shortest counterexample to the bug."""
    exploration = explore(BUGS[name].machine())
    assert exploration.violations, f"{name} was not found among {exploration.distinct} states"
    return exploration.violations[0]


@every_bug
def test_the_explorer_finds_the_bug_by_an_invariant_that_it_breaks(bug: Bug[Replication]) -> None:
    assert found(bug.name).invariant in bug.violates


@every_bug
def test_the_counterexample_is_harmless_without_the_bug(bug: Bug[Replication]) -> None:
    machine = bug.correct_machine()
    state = next(iter(machine.initial()))
    for action in found(bug.name).trace.actions:
        with suppress(NotEnabled):
            state = machine.step(state, action)
        assert all(holds(state) for holds in machine.invariants.values())


@every_bug
def test_a_bug_overrides_one_rule_or_two_and_no_action(bug: Bug[Replication]) -> None:
    own = {name for name, value in vars(bug.buggy).items() if callable(value) and not name.startswith("_")}
    assert 1 <= len(own) <= 2
    assert all(hasattr(Replication, rule) for rule in own)
    assert bug.buggy.action_types is Replication.action_types

"""Every saved counterexample goes wrong with its bug, on specification, cores and cluster, and nowhere without it."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tidegauge.model_tests.harness.counterexamples.files import FOLDER, CounterexampleError, Failure, load, replay_line
from tidegauge.model_tests.harness.counterexamples.replay import Level, levels_of, replay, replay_file
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.report.plain_steps import PlainSteps
from tidegauge.model_tests.harness.report.replayed import figure_of
from tidegauge.spec.kernel.explaining import BECAUSE
from tidegauge.spec.kernel.narrating import narrate
from tidegauge.spec.kernel.traces import UnknownMemberError
from tidegauge.spec.registry import REGISTRY, NotRegisteredError

FILES = sorted(FOLDER.glob("*.json"))


def test_every_bug_of_the_zoo_has_a_counterexample() -> None:
    assert {load(path).bug for path in FILES} >= set(HARNESS.bugs)


def levels_in(path: Path) -> list[Level]:
    """Those that the file's machine is bound to, and that have its bug; its actions are not looked at."""
    head = json.loads(path.read_text(encoding="utf-8"))
    return levels_of(REGISTRY.read(head["machine"]), head["bug"])


REPLAYS = [(path, level) for path in FILES for level in levels_in(path)]


@pytest.mark.parametrize(
    ("path", "level"), [pytest.param(path, level, id=f"{level.value}-{path.stem}") for path, level in REPLAYS]
)
def test_it_fails_with_its_bug_and_passes_without(path: Path, level: Level) -> None:
    counterexample = load(path)
    without = replay(counterexample, level, with_bug=False)
    assert not without.failed, f"{without.words}\nreplay: {replay_line(path)}"
    if counterexample.bug is not None:
        assert replay(counterexample, level).failed, f"the bug no longer shows: {replay_line(path)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_on_the_specification_the_expected_invariant_is_violated_in_the_last_step(path: Path) -> None:
    counterexample = load(path)
    (done,) = replay_file(path, "spec")
    assert done.failure == counterexample.expected
    assert done.at == len(counterexample.actions), "a shortest counterexample has no action to spare"
    if counterexample.expected.kind is Failure.INVARIANT:
        assert done.values[BECAUSE], "the conditions that make the invariant false are told"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_its_steps_count_alike_in_words_in_the_list_and_in_the_diagram(path: Path) -> None:
    """From 1, the initial state being number 0."""
    counterexample = load(path)
    (done,) = replay_file(path, "spec")
    figure = figure_of(counterexample, done, replay_line(path))
    assert [step.action for step in figure.steps[1:]] == [action.name for action in done.trace.actions]
    told = [line for line in narrate(done.trace) if not line.startswith(" ")]
    assert told[0] == "0. initial state"
    assert told[done.at or 0].startswith(f"{done.at}. {figure.steps[-1].action}")
    is_drawn = not isinstance(HARNESS.of(counterexample.machine).steps, PlainSteps)
    assert any(step.arrows for step in figure.steps) is is_drawn


def raised(value: Any, by: int) -> Any:
    """A part of a file with every number raised."""
    if isinstance(value, dict):
        return {name: raised(inner, by) for name, inner in value.items()}
    if isinstance(value, list):
        return [raised(inner, by) for inner in value]
    return value + by if type(value) is int else value


@pytest.mark.parametrize("by", [7, -9])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_actions_that_name_nobody_are_refused_and_no_bug_of_this_project(path: Path, by: int, tmp_path: Path) -> None:
    """Or they are never enabled, and skipped: what an editor of the file may write is no reason to crash."""
    file = json.loads(path.read_text())
    file["actions"] = raised(file["actions"], by)
    edited = tmp_path / path.name
    edited.write_text(json.dumps(file))
    with suppress(CounterexampleError, UnknownMemberError):
        (done,) = replay_file(edited, "spec")
        assert len(done.skipped) + len(done.trace.steps) <= len(file["actions"])


def test_a_machine_that_nothing_implements_says_so_whatever_its_bug() -> None:
    unbound = next(path for path in FILES if not HARNESS.of(load(path).machine).sides)
    with pytest.raises(NotRegisteredError, match="has no binding to the cores"):
        replay_file(unbound, "cores")


def test_there_is_no_other_level() -> None:
    with pytest.raises(ValueError, match="no level 'moon': use spec, cores, cluster or all"):
        replay_file(FILES[0], "moon")

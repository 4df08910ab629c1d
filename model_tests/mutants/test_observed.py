"""What is observed of a machine notices a changed rule, and is asked of the machines that may run it."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.mutants.campaign import all_mutants, installer, parts_for
from tidegauge.model_tests.mutants.patching import patcher_of
from tidegauge.model_tests.mutants.rings import Part, Ring, made_by, modules_of, observed, observed_parts
from tidegauge.model_tests.mutants.rooms import ROOMS
from tidegauge.model_tests.mutants.trials import running_all, trial
from tidegauge.model_tests.spec.observed import OBSERVED
from tidegauge.model_tests.spec.walked import machine_of

ROOM = next(room for room in ROOMS if room.name == "spec: authentication")
FILE = "spec/authentication/machine.py"


@pytest.fixture(scope="module", name="parts")
def _parts() -> list[Part]:
    return list(observed_parts(1, ROOM.files))


def test_a_machine_has_a_part_for_each_kind_of_observation_and_each_holds_without_a_mutant(parts: list[Part]) -> None:
    assert [part.name for part in parts] == [f"observed walks: {what} of authentication" for what in OBSERVED]
    assert {part.ring for part in parts} == {Ring.OBSERVED}
    assert [part.check(None) for part in parts] == [""] * len(parts)


def test_a_changed_rule_is_noticed(parts: list[Part]) -> None:
    guard = next(one for room, one in all_mutants() if room == ROOM.name and "guard `if" in one.name)
    patcher = patcher_of([guard.function.module])  # type: ignore[union-attr]
    asked = list(parts_for(ROOM.name, guard, parts, {part.name: running_all(part) for part in parts}))
    killed = trial(installer(guard, patcher), asked)
    assert killed is not None
    assert killed.ring is Ring.OBSERVED


@pytest.mark.parametrize("now", [["one", "another"], ["one"], ["one", "two", "three"]])
def test_the_first_line_that_is_another_one_is_told(now: list[str]) -> None:
    lines = ["one", "two"]
    part = observed("what", lambda: iter(lines), frozenset())
    assert part.check(None) == ""
    lines[:] = now
    differing = 2 if len(now) > 2 else 1
    assert part.check(None) == f"line {differing} of what is another one"


def test_a_part_that_is_known_to_run_a_file_is_not_measured(parts: list[Part]) -> None:
    assert all(part.runs is not None and FILE in part.runs for part in parts)
    assert all(running_all(part).runs(FILE, range(1, 3)) for part in parts)
    assert not any(running_all(part).runs("spec/lag/machine.py", range(1, 3)) for part in parts)


@pytest.mark.parametrize(
    ("name", "folder", "runs", "not_run"),
    [
        ("replication", "spec/replication", "properties", "extensions.damage"),
        ("damage", "spec/replication/extensions", "extensions.damage", "extensions.reads"),
        ("composed-replication", "spec/replication", "extensions.damage", ""),
    ],
)
def test_a_machine_runs_what_its_classes_import(name: str, folder: str, runs: str, not_run: str) -> None:
    machine = machine_of(name)
    assert made_by(machine) == folder
    assert f"tidegauge.spec.replication.{runs}" in modules_of(machine)
    assert f"tidegauge.spec.replication.{not_run}" not in modules_of(machine)


def test_the_second_round_asks_every_machine_that_runs_a_file() -> None:
    file = ("spec/membership/placement.py",)
    names = [{part.name.partition(" of ")[2] for part in observed_parts(rounds, file)} for rounds in (1, 2)]
    assert names[0] == {"membership", "succession", "placement", "moves"}
    assert names[1] >= names[0]

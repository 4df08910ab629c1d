"""One registration gives a machine exploration, lockstep, simulation, replay, a report, and a name for commands.

The toy of `toy_machine` is registered while a test runs. `docs/extending.md` goes the same way, step by step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegauge.__main__ import run
from tidegauge.model_tests.harness.counterexamples.files import (
    Counterexample,
    Expected,
    Failure,
    Found,
    load,
    save,
)
from tidegauge.model_tests.harness.counterexamples.replay import Level, replay, replay_file
from tidegauge.model_tests.harness.lockstep.checked import failure_of
from tidegauge.model_tests.harness.lockstep.hypothesis_machine import drive
from tidegauge.model_tests.harness.lockstep.minimising import counterexample_of
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.registry import HARNESS, Registration, Side, registered
from tidegauge.model_tests.harness.report.diagram import sequence_diagram
from tidegauge.model_tests.harness.report.model import Verdict
from tidegauge.model_tests.harness.report.plain_steps import PlainSteps
from tidegauge.model_tests.harness.report.replayed import figure_of
from tidegauge.model_tests.harness.verification.parts import explored
from tidegauge.model_tests.harness.verification.run import explore_stage
from tidegauge.model_tests.harness_tests.toy_machine import LAZY, Deliver, ForgetfulStore, Send, Toy, toy_registered
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.model import Model
from tidegauge.spec.kernel.simulation import simulate
from tidegauge.spec.registry import REGISTRY, NotRegisteredError


@pytest.fixture(autouse=True)
def toy() -> Iterator[Registration]:
    with toy_registered() as registration:
        yield registration


def test_it_is_explored() -> None:
    found = explore(REGISTRY.machine("toy"), converges=True)
    assert found.holds
    assert found.complete
    assert not found.unreached
    assert not found.never_enabled


def test_its_bug_is_found_by_the_explorer() -> None:
    (violation,) = explore(REGISTRY.machine("toy", "toy_1")).violations
    assert violation.invariant == "StoredOnce"
    assert [action.name for action in violation.trace.actions] == ["Send", "Deliver", "Deliver"]


def test_its_goal_is_reached_for_good_unless_nothing_is_stored() -> None:
    found = explore(REGISTRY.machine("toy", "toy_2"), converges=True)
    assert not found.violations
    assert found.convergence is not None
    (lasso,) = found.convergence.lassos
    assert lasso.goal == "what is sent gets stored"
    assert lasso.stem.actions == (Send(),)
    assert [step.action for step in lasso.cycle] == [Deliver(0, repeated=True)]


def test_it_is_simulated() -> None:
    assert simulate(REGISTRY.machine("toy"), seed=1, count=50).holds
    assert not simulate(REGISTRY.machine("toy", "toy_1"), seed=1, count=50).holds


def test_its_cores_do_what_it_says_and_wrong_ones_differ(toy: Registration) -> None:
    taken = [found for found in toy.walks(1, 50) if found.failure is None]
    assert len(taken) == 50
    assert {type(action) for found in taken for action in found.actions} == {Send, Deliver}
    found = toy.first_failure(1, 50, roles=ForgetfulStore)
    assert found is not None
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE


def test_specification_and_cores_with_the_same_bug_agree_until_the_invariant_is_violated(toy: Registration) -> None:
    bug = HARNESS.bug("toy_1")
    found = toy.first_failure(1, 50, roles=bug.roles, wrong=bug.twin.buggy)
    assert found is not None
    assert found.failure is not None
    assert found.failure.expected == Expected(Failure.INVARIANT, "StoredOnce")


def test_hypothesis_drives_its_cores(toy: Registration) -> None:
    assert drive(toy.hypothesis_rules(), toy.bind(Side.CORES), name="cores", examples=50, steps=20).holds
    run = drive(toy.hypothesis_rules(), toy.bind(Side.CORES, ForgetfulStore), name="cores", examples=50, bug="toy_1")
    assert run.counterexample is not None
    assert [action.name for action in run.counterexample.actions] == ["Send", "Deliver", "Deliver"]


def saved(folder: Path) -> Path:
    """The counterexample of the toy's bug."""
    (violation,) = explore(REGISTRY.machine("toy", "toy_1")).violations
    expected = Expected(Failure.INVARIANT, violation.invariant)
    save(Counterexample(Toy(1), "toy_1", violation.trace.actions, expected, Found("explorer")), folder / "toy_1.json")
    return folder / "toy_1.json"


def test_its_counterexample_is_saved_loaded_and_replayed(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert json.loads(path.read_text())["machine"] == {"name": "toy", "constants": {"max_messages": 1}}
    on_spec, on_cores = replay_file(path)
    assert (on_spec.failure, on_spec.at) == (Expected(Failure.INVARIANT, "StoredOnce"), 3)
    assert (on_cores.failure, on_cores.at) == (Expected(Failure.DIFFERENCE, "stored[1]"), 3)
    assert not any(done.failed for done in replay_file(path, with_bug=False))


def test_what_it_is_not_bound_to_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotRegisteredError, match="toy has no binding to the cluster"):
        replay_file(saved(tmp_path), "cluster")


def test_a_difference_in_its_cores_is_minimised(toy: Registration) -> None:
    actions = [Send(), Send(), Deliver(1), Deliver(0, repeated=True), Deliver(0)]
    failure = failure_of(CoresLockstep(Toy(), ForgetfulStore), actions)
    assert failure is not None
    found = counterexample_of(toy.bind(Side.CORES, ForgetfulStore), Toy(), failure.actions, Found("by hand"))
    assert found.actions == (Send(), Deliver(0, repeated=True), Deliver(0))


def test_it_is_drawn(tmp_path: Path, toy: Registration) -> None:
    counterexample = load(saved(tmp_path))
    done = replay(counterexample, Level.SPEC)
    page = str(sequence_diagram(figure_of(counterexample, done, "")))
    assert ">state<" in page
    assert "on the way" in page
    assert "message 0, repeated True" in page
    assert "high watermark" not in page
    assert [step.parties[0].values["stored"] for step in PlainSteps()(done.trace)] == ["[]", "[]", "[0]", "[0, 0]"]


def test_its_name_is_on_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["explore", "toy", "max_messages=3"]) == 0
    assert "every reachable state" in capsys.readouterr().out
    assert run(["explore", "toy", "--bug", "toy_1"]) == 1
    assert "StoredOnce is violated" in capsys.readouterr().out
    assert run(["replay", str(saved(tmp_path)), "--out", str(tmp_path / "figure")]) == 1
    out = capsys.readouterr().out
    assert "on the spec: step 3: StoredOnce is violated" in out
    assert "on the cores: step 3: the implementation differs after Deliver" in out
    assert "not replayed on the cluster: " in out
    assert 'class="diagram"' in (tmp_path / "figure" / "index.html").read_text(encoding="utf-8")


def test_a_verification_says_of_each_goal_whether_it_is_reached_for_good() -> None:
    shown = explored("toy-one")
    assert shown.explored.for_good == {"what is sent gets stored": ""}
    assert shown.explored.components == 2
    assert shown.violation is None
    lazy = Model("toy-lazy", LAZY.machine(), "nothing is stored")
    with registered("lazy-toy", LAZY.machine(), models=(lazy,)):
        shown = explored("toy-lazy")
    assert shown.explored.for_good == {"what is sent gets stored": "not after 1 actions"}
    assert shown.violation == "not reached for good: what is sent gets stored"
    stage = explore_stage([shown])
    assert stage.verdict is Verdict.VIOLATED
    assert "toy-lazy: not reached for good: what is sent gets stored" in stage.result


def test_its_lasso_is_written_replayed_and_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "toy_2.json"
    assert run(["explore", "toy", "--bug", "toy_2", "--counterexample", str(path)]) == 1
    out = capsys.readouterr().out
    assert "not reached for good: what is sent gets stored" in out
    assert "after 1 action fair steps lead to this state alone, for ever:" in out
    assert "↻ from here on round and round:\n2. Deliver(message=0, repeated=True)" in out
    assert json.loads(path.read_text())["cycle"] == [{"Deliver": {"message": 0, "repeated": True}}]
    assert run(["replay", str(path), "--out", str(tmp_path / "figure")]) == 1
    out = capsys.readouterr().out
    assert "on the spec: not reached for good: what is sent gets stored: fair steps lead to this state alone" in out
    assert "on the cores: step 2: the implementation differs after Deliver" in out
    page = (tmp_path / "figure" / "index.html").read_text(encoding="utf-8")
    assert "not reached for good: what is sent gets stored" in page
    assert 'class="band loop" id="step-2"' in page
    assert 'class="band" id="step-1"' in page
    assert "↻ From here on the steps lead round and round." in page
    assert '<a href="#step-1">step 1</a>: step 2 may follow for ever.' in page
    assert run(["replay", str(path), "--without-bug"]) == 0
    assert "on the spec: nothing goes wrong" in capsys.readouterr().out


def test_no_trace_of_it_is_left(toy: Registration) -> None:
    with (
        pytest.raises(ValueError, match="toy, toy-one: there is a machine or a model of that name already"),
        toy_registered(),
    ):
        pass
    assert HARNESS["toy"] is toy

"""The lockstep itself: quiet when both sides agree, it names the field when they don't, and minimises what it finds."""

from __future__ import annotations

from typing import Any

import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.counterexamples.replay import SpecBinding
from tidegauge.model_tests.harness.lockstep.hypothesis_machine import drive
from tidegauge.model_tests.harness.lockstep.lockstep import Difference, Lockstep
from tidegauge.model_tests.harness.lockstep.minimising import Trials, difference_of, minimise
from tidegauge.model_tests.harness.lockstep.replication_rules import ReplicationRules
from tidegauge.model_tests.harness.lockstep.replication_walks import BROKERS, large_machine, quiet_round
from tidegauge.spec.bugs import BUGS
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.replication.actions import Append, SendFetch
from tidegauge.spec.replication.faults import Crash, ExpireSession, Restart
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Acks, State

EXAMPLES = amount(80, deep=120)


def with_bug(name: str, machine: Machine[Any]) -> SpecBinding:
    """The specification with a bug of the zoo, as if it were an implementation."""
    return SpecBinding(BUGS[name].switched_on(machine))


def test_the_specification_agrees_with_itself() -> None:
    run = drive(ReplicationRules, SpecBinding, name="itself", examples=EXAMPLES)
    assert run.holds, run.difference
    assert run.examples >= EXAMPLES
    never = {kind.__name__ for kind in Replication.action_types} - set(run.actions)
    rare = {"HoldFetch", "RetryAlterPartition", "DisconnectController", "UncleanElection", "PullMetadata"}
    assert never <= rare, "in so few examples rare ones may be missed, but no others"


@pytest.mark.parametrize(
    "bug",
    ["kafka_1211", "kafka_14139", pytest.param("kafka_7128", marks=pytest.mark.deep), "high_watermark_by_majority"],
)
def test_a_rule_that_differs_is_found_and_minimised(bug: str) -> None:
    run = drive(ReplicationRules, lambda machine: with_bug(bug, machine), name="spec", examples=200, seed=1, bug=bug)
    assert run.counterexample is not None
    assert run.walks_to_failure is not None
    assert run.counterexample.bug == bug
    actions = run.counterexample.actions
    assert difference_of(lambda m: with_bug(bug, m), run.counterexample.machine, actions) is not None
    for left_out in range(len(actions)):
        shorter = actions[:left_out] + actions[left_out + 1 :]
        assert difference_of(lambda m: with_bug(bug, m), run.counterexample.machine, shorter) is None


def test_the_same_seed_finds_the_same() -> None:
    runs = [
        drive(ReplicationRules, lambda m: with_bug("kafka_1211", m), name="spec", examples=50, seed=3) for _ in range(2)
    ]
    assert runs[0] == runs[1]


def test_actions_that_are_not_enabled_are_skipped() -> None:
    lockstep = Lockstep(large_machine(), SpecBinding(large_machine()))
    assert not lockstep.perform(Restart(0))
    assert lockstep.perform(Crash(0, 0))
    assert lockstep.actions == [Crash(0, 0)]


def test_the_first_difference_is_told_by_path_with_both_values() -> None:
    class Forgetful(SpecBinding):
        """Loses what is appended."""

        def perform(self, action: Action, before: State) -> None:
            if not isinstance(action, Append):
                super().perform(action, before)

    lockstep = Lockstep(large_machine(), Forgetful(large_machine()))
    assert lockstep.perform(SendFetch(1))
    with pytest.raises(Difference, match=r"replicas\[0\].log\[0\]: specification Record\(epoch=0, value=0\)") as found:
        lockstep.perform(Append(0, Acks.LEADER))
    assert found.value.path == "replicas[0].log[0]"


def test_an_implementation_that_raises_differs() -> None:
    class Broken(SpecBinding):
        def perform(self, action: Action, before: State) -> None:
            raise ZeroDivisionError("a slip")

    with pytest.raises(Difference, match="error: specification none, implementation ZeroDivisionError: a slip"):
        Lockstep(large_machine(), Broken(large_machine())).perform(SendFetch(1))


def test_what_an_implementation_never_does_is_skipped_on_both_sides() -> None:
    class Immortal(SpecBinding):
        def can_perform(self, action: Action, before: State) -> bool:
            return not isinstance(action, Crash)

    lockstep = Lockstep(large_machine(), Immortal(large_machine()))
    assert not lockstep.perform(Crash(0, 0))
    assert lockstep.state.replicas[0].running


def test_quiet_rounds_bring_everyone_back_in_sync() -> None:
    machine = large_machine()
    lockstep = Lockstep(machine, SpecBinding(machine))
    for harm in (Append(0, Acks.ALL), ExpireSession(1), Crash(2, 0)):
        assert lockstep.perform(harm)
    for _ in range(4):
        for action in quiet_round(lockstep):
            lockstep.perform(action)
    state = lockstep.state
    assert state.controller.isr == (0, 1, 2)
    assert {replica.log for replica in state.replicas} == {state.replicas[0].log}
    assert state.history.acknowledged == (0,)


def test_minimising_what_does_not_differ_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fail"):
        minimise(SpecBinding, large_machine(), [Append(0, Acks.ALL)])


def test_what_came_of_actions_is_recalled_without_another_implementation() -> None:
    made: list[SpecBinding] = []

    class Forgetful(SpecBinding):
        """Loses what is appended in epoch 0 while broker 2 is down."""

        def perform(self, action: Action, before: State) -> None:
            if not isinstance(action, Append) or before.replicas[2].running:
                super().perform(action, before)

    def bind(machine: Machine[Any]) -> SpecBinding:
        made.append(Forgetful(machine))
        return made[-1]

    append, crash = Append(0, Acks.ALL), Crash(2, 0)
    trials = Trials(bind, large_machine())
    performed, difference = trials.perform([append, Restart(1), crash, Restart(0), append, Crash(1, 0)])
    assert list(performed) == [append, crash, append]
    assert difference is not None
    for same in ([append, crash, append], [append, Restart(0), crash, append, crash]):
        assert trials.perform(same) == (performed, difference)
    assert trials.perform([append, crash]) == ([append, crash], None)
    assert len(made) == 1
    assert trials.perform([append, append]) == ([append, append], None), "nobody has tried it"
    assert trials.perform([crash, append])[1] is not None
    assert len(made) == 3


def test_there_are_rules_for_each_broker() -> None:
    names = {name for name in vars(ReplicationRules) if name.startswith("crash_")}
    assert names == {f"crash_{broker}" for broker in range(BROKERS)}

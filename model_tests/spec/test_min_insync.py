"""min.insync.replicas that changes: explored, broken on purpose, and driven on the controller's core."""

from __future__ import annotations

from random import Random

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.configs import ConfigChange
from tidegauge.impl.metadata.config_resources import ConfigResourceType
from tidegauge.impl.metadata.topic_configs import DYNAMIC_DEFAULTS
from tidegauge.impl.partition.messages import AlterPartitionRequest
from tidegauge.model_tests.controller.controlled_cluster import CONFIG, TOPIC, ControlledCluster
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import NotEnabled
from tidegauge.spec.replication.extensions.min_insync import (
    Append,
    ChangeMinInsync,
    Commit,
    KeepsTheEligible,
    Lapse,
    MinInsync,
    MinInsyncAction,
    MinInsyncState,
    ProposeIsr,
    RaisesNoEpoch,
    ReceiveProposal,
    Unfence,
    accepts,
)

COMPLETE = "LeaderCandidateCompleteness"


def test_nobody_is_elected_who_lacks_committed_records() -> None:
    found = explore(MinInsync(max_changes=1))
    assert found.complete
    assert found.holds, found.violations
    assert not found.unreached
    assert all(action.enabled for action in found.coverage)


LARGER = [
    MinInsync(),
    MinInsync(brokers=3, max_changes=1, max_lapses=0),
    MinInsync(brokers=3, max_changes=1, max_shrinks=0),
]


@pytest.mark.deep
@pytest.mark.parametrize("machine", LARGER, ids=repr)
def test_nor_in_larger_models(machine: MinInsync) -> None:
    """249,431, 40,080 and 39,933 states. Three brokers with a lapse and a shrink have more than a search can bear."""
    found = explore(machine)
    assert found.complete
    assert found.holds, found.violations


@pytest.mark.parametrize("wrong", [RaisesNoEpoch, KeepsTheEligible])
def test_each_half_of_the_rule_is_needed(wrong: type[MinInsync]) -> None:
    found = explore(wrong(max_changes=1))
    assert [violation.invariant for violation in found.violations] == [COMPLETE]


def test_a_leader_that_does_not_know_commits_without_whom_the_controller_holds_for_eligible() -> None:
    """What happens without the raised epoch, step by step."""
    machine = RaisesNoEpoch()
    state = next(s for s in machine.initial() if s.partition.min_insync == 1)
    for action in (Append(0), ProposeIsr(0, 1), ChangeMinInsync(2)):
        state = machine.step(state, action)
    state = machine.step(state, ReceiveProposal(state.proposals[0]))
    assert state.partition.elr == (1,)
    (answer,) = [action for action in machine.actions(state) if action.name == "ReceiveAnswer"]
    state = machine.step(machine.step(state, answer), Commit(0))
    assert not machine.invariants[COMPLETE](state)


def test_an_action_that_is_not_enabled_says_why() -> None:
    machine = MinInsync()
    with pytest.raises(NotEnabled, match="broker 1 does not think it leads"):
        machine.step(next(iter(machine.initial())), Append(1))


# --- the controller's core beside the machine ------------------------------------------------------------------------


class Driven:
    """A controller that does what the machine's actions say."""

    def __init__(self, machine: MinInsync, state: MinInsyncState) -> None:
        self.cluster = ControlledCluster(
            machine.brokers, config=attrs.evolve(CONFIG, dynamic_settings=DYNAMIC_DEFAULTS)
        )
        self.cluster.create(*range(machine.brokers), configs={"min.insync.replicas": str(state.partition.min_insync)})

    def do(self, before: MinInsyncState, action: MinInsyncAction) -> None:
        controller = self.cluster.controller
        if isinstance(action, ChangeMinInsync):
            change = ConfigChange("min.insync.replicas", 0, str(action.value))
            assert (
                self.cluster.commit(controller.configs.alter(ConfigResourceType.TOPIC, TOPIC, [change])).error
                is ErrorCode.none
            )
        elif isinstance(action, Lapse):
            self.cluster.commit(controller.members.fence(action.broker))
        elif isinstance(action, Unfence):
            self.cluster.heartbeat(action.broker)
        elif isinstance(action, ReceiveProposal):
            asked = action.proposal
            answer = self.cluster.commit(
                controller.isr_changes.alter(
                    TOPIC,
                    0,
                    AlterPartitionRequest(
                        broker_id=asked.leader,
                        broker_epoch=self.cluster.epochs[asked.leader],
                        leader_epoch=asked.leader_epoch,
                        partition_epoch=asked.partition_epoch,
                        isr=tuple((member, self.cluster.epochs[member]) for member in asked.isr),
                    ),
                )
            )
            assert (answer.error is ErrorCode.none) == accepts(before.partition, asked)

    @property
    def standing(self) -> tuple[object, ...]:
        partition = self.cluster.partition
        return (
            partition.leader,
            partition.leader_epoch,
            partition.partition_epoch,
            tuple(sorted(partition.isr)),
            tuple(sorted(partition.elr)),
            int(self.cluster.controller.image.topics[TOPIC].configs["min.insync.replicas"]),
        )


def standing(state: MinInsyncState) -> tuple[object, ...]:
    partition = state.partition
    return (
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
        partition.isr,
        partition.elr,
        partition.min_insync,
    )


def walk(machine: MinInsync, seed: int, steps: int = 40) -> None:
    """A random walk of the machine with the controller's core beside it."""
    dice = Random(seed)
    state = dice.choice(list(machine.initial()))
    driven = Driven(machine, state)
    for _ in range(steps):
        enabled = list(machine.actions(state))
        if not enabled:
            return
        action = dice.choice(enabled)
        driven.do(state, action)
        state = machine.step(state, action)
        assert driven.standing == standing(state), action


LARGE = {"brokers": 3, "max_records": 3, "max_changes": 9, "max_lapses": 9, "max_shrinks": 9}


@pytest.mark.parametrize("seed", range(100))
def test_the_controller_does_what_the_machine_says(seed: int) -> None:
    walk(MinInsync(**LARGE), seed)


@pytest.mark.parametrize("wrong", [RaisesNoEpoch, KeepsTheEligible])
def test_the_controller_does_not_what_a_wrong_machine_says(wrong: type[MinInsync]) -> None:
    differing = 0
    for seed in range(50):
        try:
            walk(wrong(**LARGE), seed)
        except AssertionError:
            differing += 1
    assert differing > 10

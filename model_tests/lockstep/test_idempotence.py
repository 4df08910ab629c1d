"""Idempotent producers and the replicas that remember them do what the specification says, action by action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.records.markers import MarkerRecord
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.idempotence import STEPS, IdempotentCores
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.lockstep.checked import CheckedLockstep, InvariantViolated, failure_of
from tidegauge.model_tests.harness.lockstep.lockstep import Difference
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.models import IDEMPOTENCE_MODELS, QUICK_IDEMPOTENCE
from tidegauge.spec.idempotence.partition import Fetch, FillSegment, ReceiveProduce
from tidegauge.spec.idempotence.producer import Send
from tidegauge.spec.idempotence.state import State
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action, Invariant
from tidegauge.spec.kernel.traces import replay

WALKS = amount(60, deep=150)
HARNESSED = HARNESS["idempotence"]


def test_every_action_of_the_specification_has_a_step() -> None:
    assert set(STEPS) == set(Idempotence.action_types)


def test_random_walks_find_no_difference_take_every_action_and_reach_the_goals() -> None:
    taken: set[type[Action]] = set()
    wanted: set[str] = set()
    reached: set[str] = set()
    for number in range(WALKS):
        found = HARNESSED.walk(1, number)
        assert found.failure is None, f"walk {number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        if number < 60:
            goals = found.machine.sometimes
            wanted.update(goals)
            states = replay(found.machine, found.actions).trace.states
            reached.update(name for name, holds in goals.items() if name not in reached and any(map(holds, states)))
    assert taken == set(Idempotence.action_types)
    assert wanted - reached <= {"all records are acknowledged"}, "which takes longer than a walk"


@pytest.mark.deep
def test_many_walks_find_no_difference() -> None:
    for seed in range(100, 104):
        for number in range(500):
            found = HARNESSED.walk(seed, number, length=160)
            assert found.failure is None, f"seed {seed}, walk {number}: {found.failure.words}"


@pytest.mark.parametrize("name", QUICK_IDEMPOTENCE)
def test_the_ways_to_a_models_goals_are_the_cores_ways_too(name: str) -> None:
    machine = IDEMPOTENCE_MODELS[name].machine
    for goal, trace in explore(machine).reached.items():
        failure = failure_of(CoresLockstep(machine), trace.actions)
        assert failure is None, f"{goal}: {failure.words}"


def test_a_walk_is_a_function_of_its_seed_and_number() -> None:
    assert [HARNESSED.walk(5, number) for number in range(10)] == [HARNESSED.walk(5, number) for number in range(10)]
    assert HARNESSED.walk(5).actions != HARNESSED.walk(6).actions


class ForgetsTheEpoch(ProducerStates):
    def take_in(
        self, header: BatchHeader, base_offset: int, marker: MarkerRecord | None = None
    ) -> AbortedTransaction | None:
        return super().take_in(header._replace(producer_epoch=7), base_offset, marker)


def test_a_difference_names_the_action_and_the_field() -> None:
    pair = CoresLockstep(Idempotence(), Roles(producers=ForgetsTheEpoch))
    pair.perform(Send(0))
    with pytest.raises(Difference) as caught:
        pair.perform(ReceiveProduce(pair.state.requests[0]))
    assert caught.value.path == "replicas[0].producers[0].epoch"
    assert "after ReceiveProduce" in str(caught.value)


def test_a_snapshot_that_says_something_else_is_a_difference() -> None:
    """The files are compared too, as they lie on the disk."""
    pair = CoresLockstep(Idempotence(segments=True))
    for _ in range(2):
        pair.perform(Send(0))
        pair.perform(ReceiveProduce(pair.state.requests[0]))
        pair.perform(FillSegment(0))
    (shot,) = pair.state.replicas[0].snapshots
    assert shot.offset == 1
    assert cast(IdempotentCores, pair.binding).abstraction(pair.state).replicas[0].snapshots == (shot,)
    cast(IdempotentCores, pair.binding).brokers[0].log.producers.entries[0].epoch = 3
    failure = failure_of(pair, [Fetch(1)])
    assert failure is not None
    assert failure.expected.kind is Failure.DIFFERENCE


class NothingIsAcknowledged(Idempotence):
    """A machine that forbids what must happen."""

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {"NothingAcknowledged": lambda state: not state.acknowledged}


def test_a_violated_invariant_ends_the_lockstep_though_both_sides_agree() -> None:
    machine = NothingIsAcknowledged(brokers=1)
    pair = CheckedLockstep(machine, IdempotentCores(machine))
    pair.perform(Send(0))
    with pytest.raises(InvariantViolated) as caught:
        pair.perform(ReceiveProduce(pair.state.requests[0]))
    assert caught.value.invariant == "NothingAcknowledged"

"""The cores do what the specification says, action by action."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import FollowerFetch
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.bugs import BUGS
from tidegauge.model_tests.harness.cores.replication import CORRECT, Roles
from tidegauge.model_tests.harness.cores.steps import STEPS, ReplicationCores
from tidegauge.model_tests.harness.cores.stored_log import StoredLog
from tidegauge.model_tests.harness.counterexamples.files import Failure, load, save
from tidegauge.model_tests.harness.lockstep.checked import CheckedLockstep, InvariantViolated, failure_of
from tidegauge.model_tests.harness.lockstep.hypothesis_machine import drive
from tidegauge.model_tests.harness.lockstep.lockstep import Difference
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.lockstep.replication_rules import ReplicationRules
from tidegauge.model_tests.harness.lockstep.replication_walks import large_machine
from tidegauge.model_tests.harness.lockstep.walks import Walk
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Action, Invariant
from tidegauge.spec.kernel.traces import replay
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Acks, Error, Replica, State

WALKS = amount(90, deep=300)
HARNESSED = HARNESS["replication"]
SEED_OF_BUG = 3


def test_every_action_of_the_specification_has_a_step() -> None:
    assert set(STEPS) == set(Replication.action_types)


@pytest.mark.parametrize(
    "machine",
    [
        Replication(),
        Replication(brokers=2, min_insync_replicas=2),
        Replication(brokers=5, initial_leader=3, initial_isr=(1, 3)),
        Replication(unclean_leader_election=True),
    ],
    ids=["default", "two brokers", "given leader and ISR", "unclean election"],
)
def test_the_cores_begin_where_the_specification_begins(machine: Replication) -> None:
    pair = CoresLockstep(machine)
    assert pair.binding.abstraction(pair.state) == next(iter(machine.initial()))


@cache
def walked() -> tuple[Walk[Any], ...]:
    """Walks of one seed, at which several tests look."""
    return tuple(HARNESSED.walks(1, WALKS))


def test_random_walks_find_no_difference_and_take_every_action() -> None:
    taken: set[type[Action]] = set()
    for found in walked():
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
    assert taken == set(Replication.action_types)


def test_the_cores_over_stored_logs_do_what_the_specification_says() -> None:
    """Record batches, segments, leader epochs and recovery in place of records in memory."""
    stored = Roles(log=StoredLog)
    for found in HARNESSED.walks(2, amount(15, deep=40), roles=stored):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
    buggy = attrs.evolve(BUGS["kafka_1211"].roles, log=StoredLog)
    assert HARNESSED.first_failure(SEED_OF_BUG, 50, roles=buggy) is not None


def test_random_walks_reach_what_a_search_must_have_reached() -> None:
    reached: set[str] = set()
    for found in walked()[:100]:
        goals = found.machine.sometimes
        for state in replay(found.machine, found.actions).trace.states:
            reached.update(goal for goal, holds in goals.items() if goal not in reached and holds(state))
    assert reached == set(large_machine(unclean_leader_election=True).sometimes)


@pytest.mark.deep
def test_many_walks_find_no_difference() -> None:
    for seed in range(100, 110):
        for found in HARNESSED.walks(seed, 1_000, length=200):
            assert found.failure is None, f"seed {seed}, walk {found.number}: {found.failure.words}"


def test_a_walk_is_a_function_of_its_seed_and_number() -> None:
    bug = BUGS["kafka_1211"]
    twice = [[HARNESSED.walk(5, number, roles=bug.roles) for number in range(amount(10, deep=30))] for _ in range(2)]
    assert twice[0] == twice[1]
    assert any(found.failure for found in twice[0])
    assert HARNESSED.walk(5).actions != HARNESSED.walk(6).actions


def test_hypothesis_finds_no_difference() -> None:
    run = drive(ReplicationRules, HARNESSED.bind(Side.CORES), name="cores", examples=amount(25, deep=60), steps=40)
    assert run.holds, run.difference
    assert run.steps > 1_000


def test_hypothesis_shrinks_a_bug_to_a_short_counterexample_that_can_be_saved(tmp_path: Path) -> None:
    bug = BUGS["high_watermark_by_majority"]
    run = drive(
        ReplicationRules, HARNESSED.bind(Side.CORES, bug.roles), name="cores", examples=200, steps=40, bug=bug.name
    )
    assert run.counterexample is not None
    assert len(run.counterexample.actions) <= 8
    save(run.counterexample, tmp_path / "found.json")
    again = load(tmp_path / "found.json")
    failure = failure_of(CoresLockstep(again.machine, bug.roles), again.actions)
    assert failure is not None
    assert failure.expected == again.expected
    assert failure_of(CoresLockstep(again.machine, CORRECT), again.actions) is None


class NeverFollowsHighWatermark(PartitionReplica):
    def follow_high_watermark(self, leader_high_watermark: int) -> None:
        pass


class Breaks(PartitionReplica):
    def append_error(self, acks: int) -> ErrorCode:
        raise ZeroDivisionError("broken")


def one_record_replicated(pair: CheckedLockstep[Replication]) -> list[Action]:
    """Append, then fetch twice: the record is replicated, then committed, then known to be."""
    taken: list[Action] = [protocol.Append(0)]
    pair.perform(taken[0])
    for _ in range(3):
        for follower in (1, 2):
            pair.perform(protocol.SendFetch(follower))
            pair.perform(protocol.ReceiveFetch(pair.state.network.fetches[0]))
            pair.perform(protocol.ReceiveFetchResponse(pair.state.network.fetch_responses[0]))
    return pair.actions


def test_a_difference_names_the_action_the_field_and_both_values() -> None:
    pair = CoresLockstep(large_machine(), Roles(replica=NeverFollowsHighWatermark))
    with pytest.raises(Difference) as caught:
        one_record_replicated(pair)
    assert caught.value.path == "replicas[2].high_watermark"
    assert "after ReceiveFetchResponse" in str(caught.value)
    assert "replicas[2].high_watermark: specification 1, implementation 0" in str(caught.value)


def test_a_core_that_raises_is_a_difference() -> None:
    failure = failure_of(CoresLockstep(large_machine(), Roles(replica=Breaks)), [protocol.Append(0)])
    assert failure is not None
    assert failure.expected.kind is Failure.DIFFERENCE
    assert "ZeroDivisionError: broken" in failure.words


def test_an_action_that_is_not_enabled_is_skipped_on_both_sides() -> None:
    pair = CoresLockstep(large_machine())
    before = pair.state
    assert not pair.perform(faults.Restart(0))
    assert pair.state is before
    assert pair.actions == []


@attrs.frozen
class NothingIsCommitted(Replication):
    """A machine that forbids what must happen."""

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {"NothingCommitted": lambda state: not state.history.committed}


def test_a_violated_invariant_ends_the_lockstep_though_both_sides_agree() -> None:
    machine = NothingIsCommitted(bounds=Bounds())
    with pytest.raises(InvariantViolated) as caught:
        one_record_replicated(CheckedLockstep(machine, ReplicationCores(machine)))
    assert caught.value.invariant == "NothingCommitted"


def test_acknowledgements_are_compared_too() -> None:
    pair = CoresLockstep(large_machine())
    one_record_replicated(pair)
    assert pair.state.history.acknowledged == (0,)
    assert isinstance(pair.binding, ReplicationCores)
    pair.binding.completed.clear()
    with pytest.raises(Difference, match=r"history\.acknowledged"):
        pair.perform(protocol.Append(0, Acks.LEADER))


def test_a_late_refusal_does_not_void_a_later_proposal() -> None:
    """The response to a leader's first proposal arrives when the controller has already written its second one."""
    pair = CoresLockstep(Replication(max_records=1, bounds=Bounds(ShrinkIsr=0, ExpireSession=2)))

    def fetch_of_broker_1_is_proposed() -> None:
        pair.perform(protocol.SendFetch(1))
        pair.perform(protocol.ReceiveFetch(pair.state.network.fetches[0]))
        pair.perform(protocol.ReceiveFetchResponse(pair.state.network.fetch_responses[0]))
        pair.perform(control.ReceiveAlterPartition(pair.state.network.alters[0]))

    first: list[Action] = [faults.ExpireSession(1), control.ApplyMetadata(0), control.ApplyMetadata(1)]
    assert all(map(pair.perform, first))
    fetch_of_broker_1_is_proposed()
    (refusal,) = pair.state.network.alter_responses
    assert refusal.error is Error.INELIGIBLE_REPLICA
    then: list[Action] = [faults.ExpireSession(2), *first[1:], faults.Unfence(1)]
    assert all(map(pair.perform, then))
    fetch_of_broker_1_is_proposed()
    assert pair.state.controller.isr == (0, 1)
    assert pair.perform(control.ReceiveAlterPartitionResponse(refusal))
    assert pair.perform(protocol.Append(0))
    assert pair.state.replicas[0].high_watermark == 0


def test_a_crash_keeps_the_prefix_that_the_action_says_and_forgets_the_rest() -> None:
    pair = CoresLockstep(large_machine())
    one_record_replicated(pair)
    pair.perform(protocol.Append(0))
    pair.perform(faults.CheckpointHighWatermark(0))
    pair.perform(faults.Crash(0, kept=1))
    pair.perform(faults.Restart(0))
    restarted = pair.binding.abstraction(pair.state).replicas[0]
    assert restarted == Replica(log=restarted.log, flushed=1, high_watermark=1, checkpoint=1)
    assert len(restarted.log) == 1


class SaysItsLogStartsLater(PartitionReplica):
    """A follower that has log starts where the machine has none."""

    def fetch_request(self, broker_epoch: int) -> FollowerFetch | None:
        fetch = super().fetch_request(broker_epoch)
        return None if fetch is None else fetch._replace(log_start_offset=1)


def test_what_an_extension_adds_to_messages_is_read_beside_a_machine_without_it() -> None:
    found = HARNESSED.first_failure(1, 5, roles=Roles(replica=SaysItsLogStartsLater))
    assert found is not None
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE
    assert "FollowerLogStart" in found.failure.words

"""An action that may not happen says why, and a rule that refuses says what is wrong with a request."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.spec.replication.walk import PLENTY, Walk
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Action, NotEnabled
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.actions import (
    Append,
    HoldFetch,
    ReceiveFetch,
    ReceiveFetchResponse,
    advance_high_watermark,
)
from tidegauge.spec.replication.composed import everything
from tidegauge.spec.replication.control import ApplyMetadata, PullMetadata
from tidegauge.spec.replication.extensions.directories import FailedDirectory, LoseTail
from tidegauge.spec.replication.extensions.reassignment import StartReassignment
from tidegauge.spec.replication.extensions.retention import DeleteRecords, Retention, WriteLogStart
from tidegauge.spec.replication.faults import Disconnect
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import AlterPartitionRequest, Error, FetchRequest, FetchResponse, Replica

FETCH = FetchRequest(1, 0, 0, 0, -1, 0)
QUIET = Bounds()


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (ReceiveFetch(FETCH), r"no such fetch is on its way: FetchRequest\(follower=1"),
        (HoldFetch(FETCH), r"no such fetch is on its way: FetchRequest\(follower=1"),
        (ReceiveFetchResponse(FetchResponse(FETCH)), r"no such response is on its way: FetchResponse\("),
        (PullMetadata(0), "in this model a broker acts on metadata at once"),
        (Disconnect(1, 0), "broker 1 waits for nothing from broker 0"),
    ],
)
def test_what_is_not_on_its_way_can_not_arrive(action: Action, why: str) -> None:
    with pytest.raises(NotEnabled, match=why):
        Walk(Replication(bounds=PLENTY)).do(action)


def test_a_fetch_arrives_as_often_as_the_model_lets_it() -> None:
    walk = Walk(Replication(bounds=QUIET)).ask(1)
    with pytest.raises(NotEnabled, match="no more duplicates in this model"):
        walk.do(ReceiveFetch(walk.asked(1), duplicate=True))
    with pytest.raises(NotEnabled, match="no response has -1 records"):
        walk.do(ReceiveFetch(walk.asked(1), records=-1))


def test_a_broker_pulls_again_when_it_has_acted_on_what_it_pulled() -> None:
    walk = Walk(Replication(delayed_metadata=True, bounds=PLENTY))
    replica = attrs.evolve(walk.state.replicas[1], pulled=walk.machine.metadata(walk.state.controller))
    walk.state = walk.state.with_replica(1, replica)
    with pytest.raises(NotEnabled, match="broker 1 has yet to act on what it pulled"):
        walk.do(PullMetadata(1))


def test_metadata_that_are_older_than_what_a_broker_knows_change_nothing() -> None:
    machine = Replication(delayed_metadata=True)
    (state,) = machine.initial()
    known = attrs.evolve(state.replicas[1], partition_epoch=3)
    state = state.with_replica(1, attrs.evolve(known, pulled=machine.metadata(state.controller)))
    assert machine.step(state, ApplyMetadata(1)).replicas[1] == known


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (LoseTail(0, 0), "broker 0 has not stopped with a failed directory"),
        (StartReassignment((1, 1)), r"\(1, 1\) does not name brokers, each once"),
        (StartReassignment(()), r"\(\) does not name brokers, each once"),
        (WriteLogStart(0, 1), "broker 0 can write down 0 to 0"),
    ],
)
def test_an_extensions_action_says_why_it_may_not_happen(action: Action, why: str) -> None:
    with pytest.raises(NotEnabled, match=why):
        Walk(Replication(extensions=everything()).without_bounds()).do(action)


def test_a_disk_keeps_what_was_flushed_and_at_most_what_was_there() -> None:
    walk = Walk(Replication(max_records=2, extensions=everything()).without_bounds()).do(Append(0))
    stopped = attrs.evolve(walk.state.replicas[0], running=False)
    state = walk.state.with_replica(0, with_part(stopped, FailedDirectory(failed=True)))
    with pytest.raises(NotEnabled, match="the disk of broker 0 has 0 to 1 records"):
        walk.machine.step(state, LoseTail(0, 1))
    assert walk.machine.step(state, LoseTail(0, 0)).replicas[0].log == ()


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (DeleteRecords(0, 1), "no more deletions in this model"),
        (WriteLogStart(0, 1), "no more crashes in this model"),
        (StartReassignment((1,)), "no more reassignments in this model"),
    ],
)
def test_what_the_bounds_rule_out_does_not_happen(action: Action, why: str) -> None:
    with pytest.raises(NotEnabled, match=why):
        Walk(Replication(bounds=QUIET, extensions=everything())).do(action)


def test_without_deletions_retention_has_no_goal() -> None:
    machine = Replication(bounds=QUIET, extensions=(Retention(),))
    assert machine.sometimes.keys() == Replication(bounds=QUIET).sometimes.keys()


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (AlterPartitionRequest(0, 0, 0, 0, ((0, 0), (1, 0))), Error.OK),
        (AlterPartitionRequest(0, 7, 0, 0, ((0, 7),)), Error.STALE_BROKER_EPOCH),
        (AlterPartitionRequest(0, 0, -1, 0, ((0, 0),)), Error.FENCED_LEADER_EPOCH),
        (AlterPartitionRequest(0, 0, 1, 0, ((0, 0),)), Error.INVALID_REQUEST),
        (AlterPartitionRequest(1, 0, 0, 0, ((1, 0),)), Error.INVALID_REQUEST),
        (AlterPartitionRequest(0, 0, 0, 5, ((0, 0),)), Error.INVALID_UPDATE_VERSION),
        (AlterPartitionRequest(0, 0, 0, 0, ((0, 0), (1, 4))), Error.INELIGIBLE_REPLICA),
    ],
)
def test_an_isr_change_is_refused_for_what_is_wrong_with_it(request_: AlterPartitionRequest, error: Error) -> None:
    machine = Replication()
    (state,) = machine.initial()
    assert machine.alter_partition_error(state.controller, request_) is error


# --- what a high watermark promises ------------------------------------------------------------------------------


class CommitsAlone(Replication):
    """The leader's own log is enough, however few are in sync."""

    def next_high_watermark(self, leader: Replica, broker: int) -> int:
        return leader.log_end_offset


def test_nothing_is_acknowledged_while_too_few_are_in_sync() -> None:
    machine = CommitsAlone(brokers=2, min_insync_replicas=2)
    (state,) = machine.initial()
    state = machine.step(state, Append(0))
    assert (len(state.history.committed), state.history.acknowledged) == (1, (0,))
    alone = state.with_replica(0, attrs.evolve(state.replicas[0], isr=(0,), high_watermark=0))
    alone = attrs.evolve(alone, history=attrs.evolve(alone.history, committed=(), acknowledged=()))
    moved = advance_high_watermark(machine, alone, 0)
    assert (len(moved.history.committed), moved.history.acknowledged) == (1, ())


def test_a_leader_that_an_unclean_election_has_overtaken_promises_nothing() -> None:
    machine = CommitsAlone(brokers=2)
    (state,) = machine.initial()
    overtaken = attrs.evolve(state, history=attrs.evolve(state.history, superseded_epoch=1))
    after = machine.step(overtaken, Append(0))
    assert after.replicas[0].high_watermark == 1
    assert (after.history.committed, after.history.acknowledged) == ((), ())

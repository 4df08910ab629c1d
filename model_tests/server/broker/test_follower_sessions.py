"""Followers in fetch sessions (KIP-227): what they name, what silence means to them, and how they begin again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.partition.messages import FollowerFetch, PartitionFetchResponse
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.server.broker.fetch_schedule import Lane
from tidegauge.impl.server.broker.follower_sessions import FollowerSession
from tidegauge.impl.server.requests.reads import PartitionRead, ReadOutcome, fetch_response
from tidegauge.impl.wire.fetch_messages import INITIAL_EPOCH, NO_SESSION, FetchRequest, FetchResponse
from tidegauge.model_tests.simulated import simulated

TOPIC = "00000000-0000-0000-0000-00000000000a"
A, B = (TOPIC, 0), (TOPIC, 1)
LIMITS = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, "partition_max_bytes": 1 << 20}
RECORDS = build_batch([Record(0, 0, None, b"v")])


def at(offset: int, epoch: int = 3) -> FollowerFetch:
    return FollowerFetch(2, 7, epoch, offset, epoch)


def named(request: FetchRequest) -> list[tuple[int, int]]:
    return [(one.index, one.fetch_offset) for topic in request.topics for one in topic.partitions]


def responded(session_id: int, **responses: PartitionFetchResponse) -> FetchResponse:
    """The responses for a (partition 0) and b (partition 1)."""
    indexes = {"a": 0, "b": 1}
    reads = {name: PartitionRead("", indexes[name], 0, 1, topic_id=TOPIC) for name in responses}
    message = fetch_response([ReadOutcome(reads[name], response) for name, response in responses.items()])
    message.session_id = session_id
    return message


def begun() -> FollowerSession:
    """A session in which the replicas of both partitions have taken a high watermark of 5."""
    session = FollowerSession()
    request = session.request([(A, at(5)), (B, at(5))], **LIMITS)
    assert (request.session_id, request.session_epoch, named(request)) == (NO_SESSION, INITIAL_EPOCH, [(0, 5), (1, 5)])
    told = PartitionFetchResponse(high_watermark=5, log_start_offset=0)
    assert session.receive(responded(99, a=told, b=told)) is not None
    for key in (A, B):
        session.take(key)
    return session


def test_only_what_has_changed_is_named() -> None:
    session = begun()
    request = session.request([(A, at(6)), (B, at(5))], **LIMITS)
    assert (request.session_id, request.session_epoch, named(request)) == (99, 1, [(0, 6)])
    assert (request.replica_id, request.replica_epoch, request.forgotten) == (2, 7, [])
    session.receive(responded(99))
    request = session.request([(A, at(6)), (B, at(5))], **LIMITS)
    assert (request.session_epoch, named(request), request.replica_id) == (2, [], 2)


def test_a_partition_that_is_not_wanted_any_more_is_forgotten_and_named_again_when_it_is_back() -> None:
    session = begun()
    request = session.request([(B, at(5))], **LIMITS)
    assert [(topic.topic_id, topic.partitions) for topic in request.forgotten] == [(TOPIC, [0])]
    session.receive(responded(99))
    assert named(session.request([(A, at(5)), (B, at(5))], **LIMITS)) == [(0, 5)]


def test_a_partition_at_rest_is_asked_for_without_a_word_until_it_is_roused() -> None:
    session, hosted = begun(), Mock()
    assert session.rest(A, hosted, at(5))
    assert not session.rest(B, hosted, at(6)), "B would be asked for differently"
    request = session.request([(B, at(5))], **LIMITS)
    assert (named(request), request.forgotten, request.replica_id) == ([], [], 2)
    assert session.receive(responded(99)) == {}
    request = session.request([], **LIMITS)
    assert ([topic.partitions for topic in request.forgotten], request.replica_epoch) == ([[1]], 7)
    assert session.rouse(A) is not None
    assert session.rouse(A) is None
    assert session.take_roused() == [hosted]
    session.receive(responded(99))
    assert [topic.partitions for topic in session.request([], **LIMITS).forgotten] == [[0]]


@pytest.mark.parametrize("ends", [lambda session: session.end(), lambda session: session.rouse_other_epochs(8)])
def test_nothing_rests_beyond_the_session_or_the_broker_epoch(ends: Callable[[FollowerSession], None]) -> None:
    session, hosted = begun(), Mock()
    assert session.rest(A, hosted, at(5))
    session.rouse_other_epochs(7)
    assert session.has_resting
    ends(session)
    assert not session.has_resting
    assert session.take_roused() == [hosted]


def test_nothing_rests_where_the_leader_keeps_no_session_or_the_response_was_not_taken() -> None:
    session, hosted = begun(), Mock()
    told = PartitionFetchResponse(high_watermark=5, log_start_offset=0)
    session.request([(A, at(5)), (B, at(6))], **LIMITS)
    session.receive(responded(99, b=told))
    assert not session.rest(B, hosted, at(6)), "its replica has not taken the response"
    session.take(B)
    assert session.rest(B, hosted, at(6))
    session.request([(A, at(5))], **LIMITS)
    session.receive(responded(NO_SESSION, a=told))
    session.take(A)
    assert not session.rest(A, hosted, at(5)), "the next request is a full one"
    assert not session.has_resting


def test_silence_is_the_last_response_and_nothing_to_do_for_who_has_taken_it() -> None:
    session = begun()
    session.request([(A, at(5)), (B, at(5, epoch=4))], **LIMITS)
    told = PartitionFetchResponse(leader=-1, high_watermark=5, log_start_offset=0)
    assert session.receive(responded(99)) == {B: told}, "B asks in another epoch, and must take it again"
    assert (session.is_taken(A), session.is_taken(B)) == (True, False)
    session.take(B)
    session.request([(A, at(5)), (B, at(5, epoch=4))], **LIMITS)
    assert session.receive(responded(99)) == {}
    session.request([(A, at(5)), (B, at(5, epoch=4))], **LIMITS)
    assert session.receive(responded(99), repeat=True) == {A: told, B: told}


def test_records_are_told_once_and_the_high_watermark_that_came_with_them_holds() -> None:
    session = begun()
    session.request([(A, at(5)), (B, at(5))], **LIMITS)
    got = session.receive(
        responded(99, a=PartitionFetchResponse(high_watermark=6, log_start_offset=0, records=RECORDS))
    )
    assert got is not None
    assert got[A].records == RECORDS
    session.request([(A, at(6)), (B, at(5))], **LIMITS)
    assert session.receive(responded(99)) == {A: PartitionFetchResponse(high_watermark=6, log_start_offset=0)}


def test_an_error_is_not_repeated_by_silence() -> None:
    session = begun()
    session.request([(A, at(5)), (B, at(5))], **LIMITS)
    session.receive(responded(99, a=PartitionFetchResponse(ErrorCode.not_leader_or_follower)))
    session.take(A)
    session.request([(A, at(5)), (B, at(5))], **LIMITS)
    assert session.receive(responded(99)) == {}
    assert not session.is_taken(A)


@pytest.mark.parametrize(
    ("error", "session_id"),
    [
        (ErrorCode.fetch_session_id_not_found, NO_SESSION),
        (ErrorCode.invalid_fetch_session_epoch, 99),
        (ErrorCode.fetch_session_topic_id_error, 99),
    ],
)
def test_a_refused_session_begins_with_a_full_fetch_again(error: ErrorCode, session_id: int) -> None:
    session = begun()
    session.request([(A, at(5)), (B, at(5))], **LIMITS)
    assert session.receive(FetchResponse([], error_code=error)) is None
    request = session.request([(A, at(5)), (B, at(5))], **LIMITS)
    assert (request.session_id, request.session_epoch, len(named(request))) == (session_id, INITIAL_EPOCH, 2)


def test_a_leader_without_room_for_a_session_is_asked_for_everything_each_time() -> None:
    session = FollowerSession()
    for _ in range(3):
        request = session.request([(A, at(5))], **LIMITS)
        assert (request.session_id, request.session_epoch, named(request)) == (NO_SESSION, INITIAL_EPOCH, [(0, 5)])
        session.receive(responded(NO_SESSION, a=PartitionFetchResponse(high_watermark=5, log_start_offset=0)))


def test_epochs_wrap_to_1() -> None:
    session = begun()
    session.epoch = (1 << 31) - 1
    session.request([(A, at(5))], **LIMITS)
    session.receive(responded(99))
    assert session.epoch == 1


# --- between brokers ------------------------------------------------------------------------------------------------


class Recorded:
    """The fetches that reach a broker from followers, as (session epoch, partitions named)."""

    def __init__(self, cluster: Cluster, broker: int) -> None:
        self.fetches: list[tuple[int, int]] = []
        sessions = cluster.broker(broker).fetch_sessions
        begin = sessions.begin

        def record(request: FetchRequest, **how: Any) -> Any:
            if request.replica_id >= 0:
                self.fetches.append((request.session_epoch, len(named(request))))
            return begin(request, **how)

        sessions.begin = record  # type: ignore[method-assign]


@simulated
async def test_quiet_partitions_are_named_once() -> None:
    async with Cluster(brokers=2, seed=1) as cluster, cluster.client() as client:
        await cluster.create_topic("t", assignments=[[0, 1]] * 50)
        for index in range(50):
            await client.produce("t", b"x", partition=index)
        await trio.sleep(5)
        recorded = Recorded(cluster, 0)
        await trio.sleep(20)
        assert len(recorded.fetches) > 30
        assert all(epoch > 0 for epoch, _ in recorded.fetches)
        assert sum(named for _, named in recorded.fetches) == 0
        await client.produce("t", b"y", partition=7)
        await trio.sleep(5)
        assert cluster.replica(1, "t", 7).log_end_offset == cluster.replica(1, "t", 7).high_watermark == 2


@simulated
async def test_followers_go_on_when_their_leader_has_lost_their_sessions() -> None:
    async with Cluster(brokers=3, seed=2, trace=True) as cluster, cluster.client() as client:
        await cluster.create_topic("t", assignments=[[0, 1, 2]] * 4)
        for number in range(3):
            for index in range(4):
                await client.produce("t", b"x", partition=index)
            await trio.sleep(2)
            sessions = cluster.broker(0).fetch_sessions
            assert len(sessions) > 0
            sessions._sessions.clear()
            recorded = Recorded(cluster, 0)
            await trio.sleep(2)
            assert INITIAL_EPOCH in [epoch for epoch, _ in recorded.fetches]
            for index in range(4):
                assert cluster.isr("t", index) == (0, 1, 2)
                assert cluster.replica(1, "t", index).high_watermark == number + 1


@simulated
async def test_followers_begin_again_with_a_leader_that_counts_differently_or_has_restarted() -> None:
    async with Cluster(brokers=2, seed=3) as cluster, cluster.client() as client:
        await cluster.create_topic("t", assignments=[[0, 1]] * 3)
        await client.produce("t", b"x", partition=1)
        await trio.sleep(2)
        fetcher = cluster.broker(1).fetchers.session(0, Lane.QUIET)
        assert fetcher is not None
        before = fetcher.id
        fetcher.epoch += 5
        await trio.sleep(3)
        assert fetcher.id not in (before, NO_SESSION)
        await cluster.crash(0, lose_unsynced=False)
        await cluster.restart(0)
        await trio.sleep(10)
        await client.produce("t", b"y", partition=1)
        await trio.sleep(2)
        assert cluster.replica(1, "t", 1).high_watermark == 2
        assert cluster.isr("t", 1) == (0, 1)

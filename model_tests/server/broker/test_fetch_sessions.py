"""Fetch sessions (KIP-227): what an incremental fetch reads, what its response has, and which session is evicted."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.partition.messages import EpochEndOffset, PartitionFetchResponse
from tidegauge.impl.server.broker.fetch_sessions import EVICTION_MS, FetchSessions, SessionFetch
from tidegauge.impl.server.requests.reads import PartitionRead, ReadOutcome
from tidegauge.impl.wire.channel import Channel
from tidegauge.impl.wire.fetch_messages import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from tidegauge.model_tests.simulated import simulated

BY_NAME = 12


def fetch(
    *partitions: int, session: int = 0, epoch: int = 0, forget: tuple[int, ...] = (), **more: Any
) -> FetchRequest:
    """A fetch of these partitions of t from offset 0 on."""
    topics = [FetchTopic("t", "", [FetchPartition(index, 0, 1_000) for index in partitions])] if partitions else []
    forgotten = [ForgottenTopic("t", "", list(forget))] if forget else []
    return FetchRequest(topics, 0, 1, session_id=session, session_epoch=epoch, forgotten=forgotten, **more)


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, count(1).__next__)


def begin(cache: FetchSessions, request: FetchRequest, now_ms: int = 0, *, by_id: bool = False) -> SessionFetch:
    begun = cache.begin(request, uses_topic_ids=by_id, now_ms=now_ms)
    assert isinstance(begun, SessionFetch)
    return begun


def asked(begun: SessionFetch) -> list[int]:
    return [one.partition for one in begun.reads]


# --- the cache -----------------------------------------------------------------------------------------------------


def test_an_incremental_fetch_reads_what_the_session_has() -> None:
    cache = sessions()
    assert begin(cache, fetch(0, 1, 2)).session_id == 1
    assert asked(begin(cache, fetch(session=1, epoch=1))) == [0, 1, 2]
    assert asked(begin(cache, fetch(3, session=1, epoch=2, forget=(1,)))) == [0, 2, 3]
    assert asked(begin(cache, fetch(session=1, epoch=3))) == [0, 2, 3]


def test_a_partition_that_is_named_again_is_asked_for_as_it_is_named_last() -> None:
    cache = sessions()
    begin(cache, fetch(0, 1))
    again = fetch(session=1, epoch=1)
    again.topics = [FetchTopic("t", "", [FetchPartition(0, 7, 9)])]
    begun = begin(cache, again)
    assert [(one.partition, one.offset, one.max_bytes) for one in begun.reads] == [(0, 7, 9), (1, 0, 1_000)]


@pytest.mark.parametrize(
    ("request_", "by_id", "error"),
    [
        (fetch(session=9, epoch=1), False, ErrorCode.fetch_session_id_not_found),
        (fetch(session=1, epoch=2), False, ErrorCode.invalid_fetch_session_epoch),
        (fetch(session=1, epoch=1), True, ErrorCode.fetch_session_topic_id_error),
    ],
)
def test_fetches_that_are_not_of_the_session_are_refused(request_: FetchRequest, by_id: bool, error: ErrorCode) -> None:
    cache = sessions()
    begin(cache, fetch(0))
    assert cache.begin(request_, uses_topic_ids=by_id, now_ms=0) is error
    assert asked(begin(cache, fetch(session=1, epoch=1))) == [0], "the session is as it was"


def test_a_session_ends_when_asked_to_and_when_nothing_is_left_in_it() -> None:
    cache = sessions()
    begin(cache, fetch(0))
    assert begin(cache, fetch(0, session=1, epoch=-1)).session_id == 0
    assert len(cache) == 0
    begin(cache, fetch(0))
    assert begin(cache, fetch(session=2, epoch=1, forget=(0,))).session_id == 0
    assert len(cache) == 0
    begin(cache, fetch(0))
    assert begin(cache, fetch(0, session=3)).session_id == 4, "a full fetch ends the session that it names"
    assert (len(cache), cache.partitions) == (1, 1)


def test_epochs_wrap_to_1() -> None:
    cache = sessions()
    begun = begin(cache, fetch(0))
    assert begun.session is not None
    begun.session.epoch = (1 << 31) - 1
    begin(cache, fetch(session=1, epoch=(1 << 31) - 1))
    assert begun.session.epoch == 1


def test_a_session_that_is_not_used_makes_room() -> None:
    cache = sessions(slots=2)
    begin(cache, fetch(0))
    begin(cache, fetch(0), now_ms=1)
    assert begin(cache, fetch(0), now_ms=EVICTION_MS).session_id == 0, "both are in use"
    assert begin(cache, fetch(0), now_ms=EVICTION_MS + 1).session_id == 3
    assert cache.begin(fetch(session=1, epoch=1), uses_topic_ids=False, now_ms=EVICTION_MS + 2) is (
        ErrorCode.fetch_session_id_not_found
    )
    assert cache.evictions == 1


def test_a_larger_session_drives_out_a_smaller_one_that_is_old() -> None:
    cache = sessions(slots=2)
    begin(cache, fetch(0))
    begin(cache, fetch(0, 1, 2))
    for epoch, now_ms in ((1, EVICTION_MS), (2, EVICTION_MS + 1)):
        begin(cache, fetch(session=1, epoch=epoch), now_ms)
        begin(cache, fetch(session=2, epoch=epoch), now_ms)
        larger = begin(cache, fetch(0, 1), now_ms)
        assert larger.session_id == (0 if now_ms == EVICTION_MS else 3)
    assert asked(begin(cache, fetch(session=2, epoch=3), EVICTION_MS + 1)) == [0, 1, 2]
    assert begin(cache, fetch(0, 1), EVICTION_MS + 1).session_id == 0, "none is less and old enough"


def test_a_follower_drives_out_a_consumer_at_any_time_and_never_the_other_way_round() -> None:
    cache = sessions(slots=1)
    begin(cache, fetch(0, 1, 2))
    assert begin(cache, fetch(0, replica_id=5)).session_id == 2
    assert begin(cache, fetch(0, 1, 2)).session_id == 0
    begin(cache, fetch(session=2, epoch=1, replica_id=5), EVICTION_MS)
    assert begin(cache, fetch(0, 1, 2), EVICTION_MS + 1).session_id == 0


def test_without_slots_there_are_no_sessions() -> None:
    assert begin(sessions(slots=0), fetch(0)).session_id == 0


@pytest.mark.parametrize(
    "error",
    [
        PartitionFetchResponse(diverging_epoch=EpochEndOffset(0, 0), high_watermark=5, log_start_offset=0),
        PartitionFetchResponse(ErrorCode.kafka_storage_error, high_watermark=5, log_start_offset=0),
    ],
)
def test_a_partition_is_in_the_response_once_more_when_its_error_is_over(error: PartitionFetchResponse) -> None:
    cache = sessions()
    begun = begin(cache, fetch(0))
    normal = PartitionFetchResponse(high_watermark=5, log_start_offset=0)
    sent = []
    for epoch, response in enumerate((normal, normal, error, normal, normal)):
        outcomes = [ReadOutcome(PartitionRead("t", 0, 0, 1_000), response)]
        sent.append(bool(begun.to_send(outcomes)))
        begun = begin(cache, fetch(session=1, epoch=epoch + 1))
    assert sent == [True, False, True, True, False]


# --- at a broker ---------------------------------------------------------------------------------------------------


def bytes_read(response: FetchResponse) -> dict[int, int]:
    """Bytes of records by partition, in the order of the response."""
    return {data.index: len(data.records or b"") for topic in response.topics for data in topic.partitions}


@simulated
async def test_only_partitions_with_news_are_in_the_response() -> None:
    async with Cluster(brokers=1, seed=1) as cluster, cluster.client() as client:
        await cluster.create_topic("t", partitions=3)
        channel: Channel = client._channel(cluster.broker(0).address)
        full = await channel.request(fetch(0, 1, 2), version=BY_NAME)
        assert (full.session_id > 0, bytes_read(full)) == (True, {0: 0, 1: 0, 2: 0})
        session = full.session_id

        async def next_fetch(epoch: int, *partitions: int) -> FetchResponse:
            response: FetchResponse = await channel.request(
                fetch(*partitions, session=session, epoch=epoch), version=BY_NAME
            )
            assert (response.error_code, response.session_id) == (ErrorCode.none, session)
            return response

        assert bytes_read(await next_fetch(1)) == {}
        await client.produce("t", b"x", partition=1)
        await client.produce("t", b"x", partition=0)
        assert list(bytes_read(await next_fetch(2))) == [0, 1]
        assert list(bytes_read(await next_fetch(3))) == [0, 1], "records are sent as long as they are asked for"
        assert list(bytes_read(await next_fetch(4, 7))) == [0, 1, 7]
        assert list(bytes_read(await next_fetch(5))) == [7, 0, 1], "records move a partition to the end"
        late = await channel.request(fetch(session=session, epoch=5), version=BY_NAME)
        assert (late.error_code, late.session_id, late.topics) == (ErrorCode.invalid_fetch_session_epoch, 0, [])

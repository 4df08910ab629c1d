"""The replica manager as a coordinator uses it: it appends to an internal topic, awaits the outcome, and reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.partition.leader import ACKS_ALL
from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch, decode_batches
from tidegauge.impl.server.broker.appends import AppendOutcome, AppendState, PartitionAppend
from tidegauge.impl.server.broker.record_deletions import AT_ONCE, PartitionDeletion
from tidegauge.impl.server.broker.replica_manager import ReplicaManager
from tidegauge.impl.server.pace import line
from tidegauge.impl.server.requests.reads import PartitionRead, ReadOutcome
from tidegauge.model_tests.simulated import simulated

T = TypeVar("T")
OFFSETS = "__consumer_offsets"
PARTITION = 3
TIMEOUT_MS = 5_000
UNKNOWN_TOPIC_ID = "11111111-1111-4111-8111-111111111111"


def batch(*values: bytes) -> bytes:
    return build_batch([Record(number, 1_000 + number, b"group", value) for number, value in enumerate(values)])


def appends(*values: bytes, partition: int = PARTITION) -> list[PartitionAppend]:
    return [PartitionAppend(OFFSETS, partition, batch(*values))]


@asynccontextmanager
async def coordinator(brokers: int = 3, **settings: str) -> AsyncIterator[tuple[Cluster, ReplicaManager]]:
    """A cluster whose broker 0 leads every partition of an internal topic, and that broker's replica manager."""
    config: dict[str, object] = {"min.insync.replicas": min(2, brokers), "replica.lag.time.max.ms": 2_000}
    config |= {name.replace("_", "."): value for name, value in settings.items()}
    async with Cluster(brokers, seed=1, config=config) as cluster:
        await cluster.create_topic(OFFSETS, assignments=[list(range(brokers))] * (PARTITION + 1))
        yield cluster, cluster.broker(0).replicas


async def append(replicas: ReplicaManager, *values: bytes, timeout_ms: float = TIMEOUT_MS) -> AppendOutcome:
    (outcome,) = await replicas.append(appends(*values), acks=ACKS_ALL, timeout_ms=timeout_ms)
    return outcome


async def read(replicas: ReplicaManager, offset: int, timeout_ms: float = 0) -> ReadOutcome:
    wanted = PartitionRead(OFFSETS, PARTITION, offset, 1 << 20)
    (outcome,) = await replicas.read([wanted], max_bytes=1 << 20, timeout_ms=timeout_ms)
    return outcome


def values(outcome: ReadOutcome) -> list[bytes | None]:
    return [record.value for record in decode_batches(in_memory(outcome.response.records))]


async def cut_off_followers(cluster: Cluster) -> None:
    """Nothing commits from now on: the ISR would have one member, and it takes two."""
    await cluster.crash(1)
    await cluster.crash(2)


# --- append --------------------------------------------------------------------------------------------------------


@simulated
async def test_a_coordinator_appends_to_an_internal_topic_awaits_the_commit_and_reads() -> None:
    async with coordinator() as (_, replicas):
        outcome = await append(replicas, b"a", b"b")
        assert (outcome.state, outcome.error) == (AppendState.COMMITTED, ErrorCode.none)
        assert (outcome.base_offset, outcome.end_offset) == (0, 2)
        found = await read(replicas, 0)
        assert (found.response.error, found.response.high_watermark) == (ErrorCode.none, 2)
        assert values(found) == [b"a", b"b"]


@simulated
async def test_an_append_wakes_the_fetches_that_followers_have_held() -> None:
    async with coordinator(replica_fetch_wait_max_ms="4000") as (_, replicas):
        await trio.sleep(1)
        begun = trio.current_time()
        assert (await append(replicas, b"a")).state is AppendState.COMMITTED
        assert trio.current_time() < begun + 0.5


@pytest.mark.parametrize("acks", [0, 1])
def test_without_acks_all_an_append_is_over_at_the_leader(acks: int) -> None:
    @simulated
    async def run() -> None:
        async with coordinator() as (cluster, replicas):
            await cut_off_followers(cluster)
            begun = trio.current_time()
            (outcome,) = await replicas.append(appends(b"a"), acks=acks, timeout_ms=TIMEOUT_MS)
            assert (outcome.state, outcome.base_offset) == (AppendState.APPENDED, 0)
            assert trio.current_time() == begun

    run()


@simulated
async def test_what_is_not_committed_when_the_wait_ends_is_pending_and_no_error() -> None:
    async with coordinator() as (cluster, replicas):
        await cut_off_followers(cluster)
        begun = trio.current_time()
        outcome = await append(replicas, b"a", timeout_ms=500)
        assert trio.current_time() == pytest.approx(begun + 0.5)
        assert (outcome.state, outcome.error) == (AppendState.PENDING, ErrorCode.none)
        assert (outcome.base_offset, outcome.end_offset) == (0, 1)
        assert values(await read(replicas, 0)) == [], "it is not committed yet"
        await cluster.restart(1)
        await cluster.wait_for_isr(OFFSETS, {0, 1}, PARTITION)
        assert values(await read(replicas, 0, timeout_ms=10_000)) == [b"a"], "a pending append may commit later"


@simulated
async def test_appends_to_several_partitions_have_outcomes_in_order_each_its_own() -> None:
    async with coordinator(brokers=1) as (_, replicas):
        wanted = [
            PartitionAppend(OFFSETS, 1, batch(b"a")),
            PartitionAppend("missing", 0, batch(b"b")),
            PartitionAppend(OFFSETS, 2, b"damaged"),
            PartitionAppend(OFFSETS, 0, None),
            PartitionAppend(OFFSETS, 0, batch(b"c"), topic_id=UNKNOWN_TOPIC_ID),
            PartitionAppend(OFFSETS, PARTITION, batch(b"d", b"e")),
        ]
        outcomes = await replicas.append(wanted, acks=ACKS_ALL, timeout_ms=TIMEOUT_MS)
        assert [(one.state, one.error) for one in outcomes] == [
            (AppendState.COMMITTED, ErrorCode.none),
            (AppendState.REFUSED, ErrorCode.unknown_topic_or_partition),
            (AppendState.REFUSED, ErrorCode.corrupt_message),
            (AppendState.REFUSED, ErrorCode.invalid_record),
            (AppendState.REFUSED, ErrorCode.unknown_topic_id),
            (AppendState.COMMITTED, ErrorCode.none),
        ]
        assert [one.base_offset for one in outcomes] == [0, -1, -1, -1, -1, 0]


@simulated
async def test_a_control_batch_is_appended_for_a_coordinator_and_refused_from_a_client() -> None:
    async with coordinator() as (_, replicas):
        marker = build_batch(
            [Record(0, 7, b"\x00\x00\x00\x01", b"\x00" * 6)], producer=ProducerIdentity(9, 2, -1), control=True
        )
        append = [PartitionAppend(OFFSETS, PARTITION, marker)]
        (refused,) = await replicas.append(append, acks=ACKS_ALL, timeout_ms=TIMEOUT_MS)
        assert (refused.state, refused.error) == (AppendState.REFUSED, ErrorCode.invalid_record)
        (done,) = await replicas.append(append, acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, origin=Origin.BROKER)
        assert (done.state, done.base_offset, done.end_offset) == (AppendState.COMMITTED, 0, 1)


@simulated
async def test_records_that_break_a_rule_are_refused_and_named() -> None:
    async with coordinator(brokers=1, log_cleanup_policy="compact") as (_, replicas):
        records = build_batch([Record(0, 7, b"k", b"v"), Record(1, 7, None, b"v")])
        (outcome,) = await replicas.append(
            [PartitionAppend(OFFSETS, PARTITION, records)], acks=ACKS_ALL, timeout_ms=TIMEOUT_MS
        )
        assert (outcome.state, outcome.error) == (AppendState.REFUSED, ErrorCode.invalid_record)
        assert [number for number, _ in outcome.record_errors] == [1]
        assert "no key" in (outcome.message or "")


@simulated
async def test_a_replica_that_does_not_lead_refuses() -> None:
    async with coordinator() as (cluster, _):
        outcome = await append(cluster.broker(1).replicas, b"a")
        assert (outcome.state, outcome.error) == (AppendState.REFUSED, ErrorCode.not_leader_or_follower)
        assert cluster.broker(1).replicas.known_leader(OFFSETS, PARTITION) == (0, 0)


@simulated
async def test_an_isr_that_is_too_small_refuses() -> None:
    async with coordinator() as (cluster, replicas):
        await cut_off_followers(cluster)
        await cluster.wait_for_isr(OFFSETS, {0}, PARTITION)
        outcome = await append(replicas, b"a")
        assert (outcome.state, outcome.error) == (AppendState.REFUSED, ErrorCode.not_enough_replicas)


@simulated
async def test_nobody_can_tell_what_becomes_of_an_append_whose_leader_changes_while_it_waits() -> None:
    async with coordinator() as (cluster, replicas):
        cluster.network.partition({"broker-0"}, {"broker-1", "broker-2"})
        outcomes: list[AppendOutcome] = []

        async def wait() -> None:
            outcomes.append(await append(replicas, b"a", timeout_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(0.1)
            await cluster.reassign(OFFSETS, [1, 2], partition=PARTITION)
            begun = trio.current_time()
        assert trio.current_time() < begun + 30, "it does not wait for its timeout"
        assert (outcomes[0].state, outcomes[0].error) == (AppendState.UNKNOWN, ErrorCode.not_leader_or_follower)
        assert outcomes[0].base_offset == 0


@simulated
async def test_a_log_directory_that_fails_while_an_append_waits_ends_the_wait() -> None:
    async with coordinator(log_dirs="one,two") as (cluster, replicas):
        await cut_off_followers(cluster)
        partition = replicas.get(OFFSETS, PARTITION)
        assert partition is not None
        outcomes: list[AppendOutcome] = []

        async def wait() -> None:
            outcomes.append(await append(replicas, b"a", timeout_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(0.1)
            begun = trio.current_time()
            assert replicas.storage_failed(partition, OSError("gone")) is ErrorCode.kafka_storage_error
        assert trio.current_time() == begun
        assert (outcomes[0].state, outcomes[0].error) == (AppendState.UNKNOWN, ErrorCode.kafka_storage_error)
        refused = await append(replicas, b"b")
        assert (refused.state, refused.error) == (AppendState.REFUSED, ErrorCode.kafka_storage_error)
        assert (await read(replicas, 0)).response.error is ErrorCode.kafka_storage_error


@simulated
async def test_a_caller_that_gives_up_waits_for_nothing_any_more() -> None:
    """As one does whose peer is gone: its way to wait raises."""

    async def for_a_moment(wait: Callable[[], Awaitable[T]], /) -> T:
        with trio.move_on_after(0.2):
            return await wait()
        raise ConnectionResetError("the peer is gone")

    async with coordinator() as (cluster, replicas):
        await cut_off_followers(cluster)
        with pytest.raises(ConnectionResetError):
            await replicas.append(appends(b"a"), acks=ACKS_ALL, timeout_ms=60_000, wait=for_a_moment)
        assert len(replicas.effects.produces) == 0


# --- read and delete -----------------------------------------------------------------------------------------------


@simulated
async def test_a_read_waits_for_what_is_committed_next() -> None:
    async with coordinator() as (_, replicas):
        await append(replicas, b"a")
        found: list[ReadOutcome] = []

        async def wait() -> None:
            found.append(await read(replicas, 1, timeout_ms=10_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            assert not found
            await append(replicas, b"b")
        assert values(found[0]) == [b"b"]


@simulated
async def test_a_read_that_finds_nothing_in_its_time_is_empty() -> None:
    async with coordinator(brokers=1) as (_, replicas):
        begun = trio.current_time()
        found = await read(replicas, 0, timeout_ms=500)
        assert trio.current_time() == pytest.approx(begun + 0.5)
        assert (found.response.error, values(found)) == (ErrorCode.none, [])


@simulated
async def test_reads_of_several_partitions_have_outcomes_in_order_and_an_error_ends_the_wait() -> None:
    async with coordinator(brokers=1) as (_, replicas):
        await append(replicas, b"a")
        reads = [PartitionRead(name, PARTITION, 1, 1 << 20) for name in (OFFSETS, "missing")]
        begun = trio.current_time()
        outcomes = await replicas.read(reads, max_bytes=1 << 20, timeout_ms=10_000)
        assert trio.current_time() == begun
        assert [one.read for one in outcomes] == reads
        assert [one.response.error for one in outcomes] == [ErrorCode.none, ErrorCode.unknown_topic_or_partition]


@simulated
async def test_deleting_records_waits_for_live_followers_and_is_pending_until_they_have() -> None:
    async with coordinator() as (cluster, replicas):
        await append(replicas, b"a", b"b")
        wanted = [PartitionDeletion(OFFSETS, PARTITION, 1), PartitionDeletion("missing", 0, 1)]
        done, refused = await replicas.delete_records(wanted, timeout_ms=TIMEOUT_MS)
        assert (done.error, done.is_pending, done.low_watermark) == (ErrorCode.none, False, 1)
        assert (refused.error, refused.is_pending) == (ErrorCode.unknown_topic_or_partition, False)
        cluster.network.partition({"broker-0"}, {"broker-1", "broker-2"})
        (waiting,) = await replicas.delete_records([PartitionDeletion(OFFSETS, PARTITION, 2)], timeout_ms=500)
        assert (waiting.error, waiting.is_pending, waiting.low_watermark) == (ErrorCode.none, True, -1)


@simulated
async def test_records_of_many_partitions_are_deleted_in_slices() -> None:
    async with coordinator() as (_, replicas):
        await append(replicas, b"a", b"b")
        many = [PartitionDeletion("missing", index, 1) for index in range(3 * AT_ONCE)]
        many[2 * AT_ONCE] = PartitionDeletion(OFFSETS, PARTITION, 1)
        before = line().passes
        outcomes = await replicas.delete_records(many, timeout_ms=TIMEOUT_MS)
        assert line().passes - before == 3
        assert len(outcomes) == len(many)
        assert [one.low_watermark for one in outcomes if one.error is ErrorCode.none] == [1]
        assert outcomes[2 * AT_ONCE].error is ErrorCode.none


@simulated
async def test_an_append_that_is_committed_before_its_wait_begins_does_not_wait() -> None:
    async with coordinator() as (_cluster, replicas):

        async def wait(begin: Callable[[], Awaitable[T]], /) -> T:
            await trio.sleep(1)  # as a connection does that first sends earlier responses
            return await begin()

        begun = trio.current_time()
        (outcome,) = await replicas.append(appends(b"v"), acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, wait=wait)
        assert outcome.state is AppendState.COMMITTED
        assert trio.current_time() - begun < 2


@simulated
async def test_a_read_sees_records_that_came_before_its_wait_began() -> None:
    async with coordinator(brokers=1) as (_cluster, replicas):

        async def wait(begin: Callable[[], Awaitable[T]], /) -> T:
            assert (await append(replicas, b"v")).state is AppendState.COMMITTED
            return await begin()

        begun = trio.current_time()
        wanted = [PartitionRead(OFFSETS, PARTITION, 0, 1 << 20)]
        (outcome,) = await replicas.read(wanted, max_bytes=1 << 20, timeout_ms=TIMEOUT_MS, wait=wait)
        assert values(outcome) == [b"v"]
        assert trio.current_time() - begun < 2

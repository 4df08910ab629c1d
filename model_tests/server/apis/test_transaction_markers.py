"""Markers over the wire: WriteTxnMarkers, and what Fetch, ListOffsets and DescribeProducers say of transactions.

No coordinator is asked here: the test appends what transactional producers would, and ends their transactions itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.describe_producers.v0.request import TopicRequest as DescribedTopic
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v11.response import ListOffsetsPartitionResponse
from kio.schema.types import BrokerId, ProducerId
from kio.schema.write_txn_markers.v2.request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch
from tidegauge.impl.server.broker.appends import PartitionAppend
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.fetch_messages import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionFetched,
)
from tidegauge.impl.wire.primitives import NO_WAIT, TopicName, i8, i16, i32, i64
from tidegauge.model_tests.server.asking import Asker, asker, asking, forbid
from tidegauge.model_tests.simulated import simulated

BY_NAME = 12
LATEST = -1
UNCOMMITTED, COMMITTED = 0, 1


@asynccontextmanager
async def led_by_0(brokers: int = 1, config: dict[str, Any] | None = None) -> AsyncIterator[tuple[Cluster, Asker]]:
    """A cluster with the topic `t`, which its broker 0 leads, and a connection to that one."""
    async with asking(brokers, config, topic=None) as (cluster, peer):
        await cluster.create_topic("t", assignments=[list(range(brokers))])
        yield cluster, peer


async def produce(
    cluster: Cluster, producer: int, sequence: int, *, epoch: int = 0, at_ms: int = 1_000, transactional: bool = True
) -> None:
    who = ProducerIdentity(producer, epoch, sequence)
    batch = build_batch([Record(0, at_ms, None, b"v")], producer=who, transactional=transactional)
    partition = cluster.broker(0).replicas.get("t", 0)
    assert partition is not None
    verifications = partition.replica.verifications
    verifications.confirm(verifications.begin(producer, epoch))
    (outcome,) = await cluster.broker(0).replicas.append([PartitionAppend("t", 0, batch)], acks=-1, timeout_ms=5_000)
    assert outcome.error is ErrorCode.none


async def end(
    peer: Asker, producer: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0, topic: str = "t"
) -> ErrorCode:
    """Write a marker of transaction version 1; its error."""
    marker = WritableTxnMarker(
        producer_id=ProducerId(producer),
        producer_epoch=i16(epoch),
        transaction_result=commit,
        topics=(WritableTxnMarkerTopic(name=TopicName(topic), partition_indexes=(i32(0),)),),
        coordinator_epoch=i32(coordinator_epoch),
        transaction_version=i8(1),
    )
    response = await peer.ask(WriteTxnMarkersRequest(markers=(marker,)))
    (result,) = response.markers
    assert (result.producer_id, result.topics[0].name) == (producer, topic)
    error: ErrorCode = result.topics[0].partitions[0].error_code
    return error


async def fetch(peer: Asker, isolation_level: int, offset: int = 0, max_wait_ms: int = 0) -> PartitionFetched:
    asked = [FetchTopic("t", "", [FetchPartition(0, offset, 1 << 20)])]
    response = await peer.ask(FetchRequest(asked, max_wait_ms, 1, isolation_level=isolation_level), BY_NAME)
    (partition,) = response.topics[0].partitions
    assert isinstance(partition, PartitionFetched)
    return partition


async def list_offset(peer: Asker, isolation_level: int, timestamp: int = LATEST) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(partition_index=i32(0), current_leader_epoch=i32(-1), timestamp=i64(timestamp))
    topic = ListOffsetsTopic(name=TopicName("t"), partitions=(asked,))
    response = await peer.ask(
        ListOffsetsRequest(
            replica_id=BrokerId(-1), isolation_level=i8(isolation_level), topics=(topic,), timeout=NO_WAIT
        )
    )
    found: ListOffsetsPartitionResponse = response.topics[0].partitions[0]
    return found


@simulated
async def test_a_consumer_reads_what_was_committed_and_is_told_what_was_aborted() -> None:
    async with led_by_0(brokers=3) as (cluster, peer):
        await produce(cluster, 7, 0)
        await produce(cluster, 8, 0)
        assert await end(peer, 7, commit=False) is ErrorCode.none
        read = await fetch(peer, COMMITTED)
        assert (read.high_watermark, read.last_stable_offset) == (3, 1), "8 is open since offset 1"
        assert read.aborted_transactions == [AbortedTransaction(7, 0)]
        everything = await fetch(peer, UNCOMMITTED)
        assert len(everything.records or b"") > len(read.records or b"")
        assert (everything.last_stable_offset, everything.aborted_transactions) == (1, None)
        assert (await list_offset(peer, COMMITTED)).offset == 1
        assert (await list_offset(peer, UNCOMMITTED)).offset == 3
        assert await end(peer, 8, commit=True) is ErrorCode.none
        read = await fetch(peer, COMMITTED)
        assert (read.last_stable_offset, read.records) == (4, (await fetch(peer, UNCOMMITTED)).records)
        assert (await list_offset(peer, COMMITTED)).offset == 4


@simulated
async def test_a_consumer_that_waits_for_a_transaction_is_woken_by_its_end() -> None:
    async with led_by_0(brokers=3) as (cluster, peer):
        await produce(cluster, 7, 0)
        begun = trio.current_time()
        other = await asker(cluster)

        async def end_later() -> None:
            await trio.sleep(2)
            await end(peer, 7, commit=True)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_later)
            read = await fetch(other, COMMITTED, max_wait_ms=30_000)
        assert 2 <= trio.current_time() - begun < 4
        assert read.last_stable_offset == 2


@simulated
async def test_a_time_is_looked_for_among_what_is_stable() -> None:
    async with led_by_0() as (cluster, peer):
        await produce(cluster, 6, 0, transactional=False)
        await produce(cluster, 7, 0, at_ms=1_005)
        assert (await list_offset(peer, COMMITTED, 1_000)).offset == 0
        assert (await list_offset(peer, UNCOMMITTED, 1_005)).offset == 1
        assert (await list_offset(peer, COMMITTED, 1_005)).offset == -1


@simulated
async def test_who_leads_and_who_is_fenced_is_told_partition_by_partition() -> None:
    async with led_by_0(brokers=3) as (cluster, peer):
        await produce(cluster, 7, 0, epoch=5)
        assert await end(peer, 7, epoch=4, commit=True) is ErrorCode.invalid_producer_epoch
        assert await end(peer, 7, epoch=5, commit=True, coordinator_epoch=2) is ErrorCode.none
        assert await end(peer, 7, epoch=5, commit=True, coordinator_epoch=1) is ErrorCode.transaction_coordinator_fenced
        assert await end(peer, 7, commit=True, topic="missing") is ErrorCode.unknown_topic_or_partition
        follower = await asker(cluster, 1)
        assert await end(follower, 7, epoch=5, commit=True) is ErrorCode.not_leader_or_follower


@simulated
async def test_brokers_and_who_may_alter_the_cluster_write_markers_and_nobody_else() -> None:
    """The latter end a hanging transaction (KIP-1037)."""
    brokers, operators = ((right, ResourceType.CLUSTER, "*") for right in (Operation.CLUSTER_ACTION, Operation.ALTER))
    async with led_by_0() as (cluster, _):
        for forbidden in ((brokers,), (operators,)):
            forbid(cluster, *forbidden)
            assert await end(await asker(cluster), 7, commit=True) is ErrorCode.none
        forbid(cluster, brokers, operators)
        assert await end(await asker(cluster), 7, commit=True) is ErrorCode.cluster_authorization_failed


@simulated
async def test_a_marker_that_is_not_committed_in_time_has_timed_out() -> None:
    config = {"min.insync.replicas": 2, "replica.lag.time.max.ms": 3_600_000, "broker.session.timeout.ms": 3_600_000}
    async with led_by_0(brokers=2, config=config) as (cluster, peer):
        await produce(cluster, 7, 0)
        cluster.network.partition({"broker-0"}, {"broker-1"})
        assert await end(peer, 7, commit=True) is ErrorCode.request_timed_out
        assert (await fetch(peer, COMMITTED)).last_stable_offset == 0


@simulated
async def test_the_producers_of_a_partition_are_described_with_their_transactions() -> None:
    async with led_by_0() as (cluster, peer):
        await produce(cluster, 7, 0)
        await end(peer, 7, commit=True, coordinator_epoch=4)
        await produce(cluster, 7, 1)
        topic = DescribedTopic(name=TopicName("t"), partition_indexes=(i32(0),))
        response = await peer.ask(DescribeProducersRequest(topics=(topic,)))
        (state,) = response.topics[0].partitions[0].active_producers
        assert (state.producer_id, state.coordinator_epoch, state.current_txn_start_offset) == (7, 4, 2)


@simulated
async def test_a_restarted_broker_knows_the_transactions_that_were_open() -> None:
    async with led_by_0() as (cluster, peer):
        await produce(cluster, 7, 0)
        await end(peer, 7, commit=False)
        await produce(cluster, 7, 1)
        partition = cluster.broker(0).replicas.get("t", 0)
        assert partition is not None
        partition.log.flush()
        await cluster.crash(0)
        await cluster.restart(0)
        again = await asker(cluster)
        read = await fetch(again, COMMITTED)
        while read.high_watermark < 3:
            await trio.sleep(0.1)
            read = await fetch(again, COMMITTED)
        assert (read.high_watermark, read.last_stable_offset) == (3, 2)
        assert read.aborted_transactions == [AbortedTransaction(7, 0)]

"""Produce and Fetch against running brokers: every version, and what each error and limit looks like on the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.records.batches import Compression
from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch, decode_batches
from tidegauge.impl.server.broker.replica_reader import LEADER_MOVED
from tidegauge.impl.server.settings.server_config import RACK_AWARE_SELECTOR
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.apis import BROKER_APIS, PRODUCE_SERVED_FROM, ApiKey
from tidegauge.impl.wire.channel import Channel, NoResponseError
from tidegauge.impl.wire.fetch_messages import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionFetched,
)
from tidegauge.impl.wire.produce_messages import (
    PartitionProduced,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tidegauge.model_tests.server.asking import forbid
from tidegauge.model_tests.simulated import simulated

PRODUCE = range(PRODUCE_SERVED_FROM, BROKER_APIS[ApiKey.PRODUCE].highest + 1)
FETCH = range(BROKER_APIS[ApiKey.FETCH].lowest, BROKER_APIS[ApiKey.FETCH].highest + 1)
BY_NAME = 12
UNKNOWN_ID = "11111111-1111-4111-8111-111111111111"


def batch(*values: bytes, **more: Any) -> bytes:
    return build_batch([Record(nth, 7, None, value) for nth, value in enumerate(values)], **more)


GOOD = batch(b"x")


class Asker:
    """Somebody who asks the brokers of a cluster in any version."""

    def __init__(self, cluster: Cluster, channels: list[Channel]) -> None:
        self.cluster = cluster
        self.channels = channels

    def named(self, topic: str, version: int) -> tuple[str, str]:
        """(name, id) as this version says it."""
        if version <= BY_NAME:
            return topic, ""
        known = self.cluster.controller.controller.image.topics.get(topic)
        return "", UNKNOWN_ID if known is None else known.topic_id

    async def produce(
        self,
        records: bytes | None,
        *,
        topic: str = "t",
        version: int = 13,
        broker: int = 0,
        acks: int = -1,
        **more: Any,
    ) -> PartitionProduced:
        name, topic_id = self.named(topic, version)
        request = ProduceRequest(acks, 1_000, [ProduceTopic(name, topic_id, [ProducePartition(0, records)])], **more)
        response: ProduceResponse = await self.channels[broker].request(request, version=version)
        return response.topics[0].partitions[0]

    async def fetch(
        self, offset: int, *, topic: str = "t", version: int = 18, broker: int = 0, **more: Any
    ) -> PartitionFetched:
        name, topic_id = self.named(topic, version)
        asked = FetchPartition(
            0,
            offset,
            more.pop("partition_max_bytes", 1 << 20),
            more.pop("leader_epoch", -1),
            more.pop("last_epoch", -1),
        )
        request = FetchRequest([FetchTopic(name, topic_id, [asked])], more.pop("max_wait_ms", 0), 1, **more)
        response: FetchResponse = await self.channels[broker].request(request, version=version)
        return response.topics[0].partitions[0]


@asynccontextmanager
async def asking(brokers: int = 1, **more: Any) -> AsyncIterator[Asker]:
    """A cluster with t-0 on all brokers, led by broker 0."""
    async with Cluster(brokers=brokers, seed=1, **more) as cluster, trio.open_nursery() as nursery:
        await cluster.create_topic("t", assignments=[list(range(brokers))])
        network = cluster.network.host("asker")
        yield Asker(cluster, [Channel(network, broker.address, "asker", nursery) for broker in cluster.brokers])
        nursery.cancel_scope.cancel()


def values(fetched: PartitionFetched) -> list[bytes | None]:
    return [record.value for record in decode_batches(in_memory(fetched.records or b""))]


# --- versions ------------------------------------------------------------------------------------------------------


@simulated
async def test_records_are_produced_and_fetched_in_every_version() -> None:
    async with asking() as asker:
        for offset, version in enumerate(PRODUCE):
            produced = await asker.produce(batch(b"%d" % version), version=version)
            assert (produced.error_code, produced.base_offset) == (ErrorCode.none, offset)
            assert produced.log_start_offset == (0 if version >= 5 else -1)
        for version in FETCH:
            fetched = await asker.fetch(0, version=version)
            assert (fetched.error_code, fetched.high_watermark) == (ErrorCode.none, len(PRODUCE))
            assert fetched.last_stable_offset == len(PRODUCE)
            assert values(fetched) == [b"%d" % produced_in for produced_in in PRODUCE]


@simulated
async def test_unknown_topics_are_unknown_by_what_they_were_called() -> None:
    async with asking() as asker:
        for version in PRODUCE:
            expected = ErrorCode.unknown_topic_id if version > BY_NAME else ErrorCode.unknown_topic_or_partition
            assert (await asker.produce(GOOD, topic="u", version=version)).error_code is expected
        for version in FETCH:
            expected = ErrorCode.unknown_topic_id if version > BY_NAME else ErrorCode.unknown_topic_or_partition
            assert (await asker.fetch(0, topic="u", version=version)).error_code is expected


@simulated
async def test_a_topic_id_of_another_incarnation_is_no_name_for_this_one() -> None:
    async with asking() as asker:
        hosted = asker.cluster.broker(0).replicas.get("t", 0)
        assert hosted is not None
        hosted.topic_id = UNKNOWN_ID
        assert (await asker.fetch(0)).error_code is ErrorCode.inconsistent_topic_id
        assert (await asker.produce(GOOD)).error_code is ErrorCode.unknown_topic_id
        assert (await asker.produce(GOOD, version=BY_NAME)).error_code is ErrorCode.none


# --- produce -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "version", "error", "message"),
    [
        (None, 13, ErrorCode.invalid_record, "no record batch in 0 bytes"),
        (GOOD[:60], 13, ErrorCode.invalid_record, "no record batch in 60 bytes"),
        (GOOD + GOOD, 13, ErrorCode.invalid_record, "send one batch for each partition"),
        (GOOD[:16] + b"\x01" + GOOD[17:], 13, ErrorCode.invalid_record, "message format 1"),
        (GOOD[:-1], 13, ErrorCode.corrupt_message, "batch length"),
        (batch(b"x" * 99, compression=Compression.ZSTD), 6, ErrorCode.unsupported_compression_type, None),
        (batch(b"x" * 99, compression=Compression.ZSTD), 7, ErrorCode.none, None),
        (GOOD, 3, ErrorCode.none, None),
    ],
)
@simulated
async def test_a_partition_takes_one_intact_batch(
    records: bytes | None, version: int, error: ErrorCode, message: str | None
) -> None:
    async with asking() as asker:
        produced = await asker.produce(records, version=version)
        assert (produced.error_code, produced.base_offset) == (error, 0 if error is ErrorCode.none else -1)
        assert message is None or message in (produced.error_message or "")
        assert asker.cluster.replica(0, "t").log_end_offset == (1 if error is ErrorCode.none else 0)


@simulated
async def test_a_producer_is_told_the_time_that_the_broker_stamped() -> None:
    for kind, stamps in (("LogAppendTime", True), ("CreateTime", False)):
        async with asking(config={"log.message.timestamp.type": kind}) as asker:
            produced = await asker.produce(GOOD)
            (stored,) = decode_batches(in_memory((await asker.fetch(0)).records or b""))
            assert produced.log_append_time_ms == (stored.timestamp if stamps else -1)
            assert stored.timestamp == (asker.cluster.broker(0).clock.now_ms() if stamps else 7)


@pytest.mark.parametrize(("kind", "stamps"), [("LogAppendTime", True), ("CreateTime", False)])
def test_a_repeat_is_told_the_largest_time_of_the_batch_that_is_there(kind: str, stamps: bool) -> None:
    """As Apache Kafka responses it, whatever kind of time the topic has."""

    @simulated
    async def run() -> None:
        async with asking(config={"log.message.timestamp.type": kind}) as asker:
            records = batch(b"x", b"y", producer=ProducerIdentity(7, 0, 0))
            first = await asker.produce(records)
            await trio.sleep(3)
            repeat = await asker.produce(records)
            assert (repeat.error_code, repeat.base_offset) == (ErrorCode.none, 0)
            assert repeat.log_append_time_ms == (first.log_append_time_ms if stamps else 7)

    run()


@pytest.mark.parametrize("apart", [False, True])
def test_of_a_partition_that_is_named_twice_the_last_records_count(apart: bool) -> None:
    @simulated
    async def run() -> None:
        async with asking() as asker:
            name, topic_id = asker.named("t", 13)
            data = [
                ProducePartition(0, batch(b"first")),
                ProducePartition(1, GOOD),
                ProducePartition(0, batch(b"last")),
            ]
            parts = [[one] for one in data] if apart else [data]
            request = ProduceRequest(-1, 1_000, [ProduceTopic(name, topic_id, part) for part in parts])
            response: ProduceResponse = await asker.channels[0].request(request, version=13)
            assert all(topic.partitions for topic in response.topics)
            responses = [(one.index, one.error_code, one.base_offset) for t in response.topics for one in t.partitions]
            assert responses == [(1, ErrorCode.unknown_topic_or_partition, -1), (0, ErrorCode.none, 0)]
            assert values(await asker.fetch(0)) == [b"last"]
            nothing = ProduceTopic(name, topic_id, [ProducePartition(0, GOOD), ProducePartition(0, None)])
            response = await asker.channels[0].request(ProduceRequest(-1, 1_000, [nothing]), version=13)
            assert [one.error_code for one in response.topics[0].partitions] == [ErrorCode.invalid_record]
            assert values(await asker.fetch(0)) == [b"last"]

    run()


@simulated
async def test_what_is_committed_stays_so_while_other_partitions_of_the_request_wait() -> None:
    async with asking(brokers=2) as asker:
        await asker.cluster.create_topic("u", assignments=[[0]])
        await asker.cluster.crash(1)
        topics = [ProduceTopic(*asker.named(name, 13), [ProducePartition(0, GOOD)]) for name in ("u", "t")]
        request = ProduceRequest(-1, 1_000, topics)
        responses: list[ProduceResponse] = []

        async def ask() -> None:
            responses.append(await asker.channels[0].request(request, version=13))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(0.5)
            partitions = asker.cluster.broker(0).replicas
            committed = partitions.get("u", 0)
            assert committed is not None
            committed.replica.resign()
            partitions.effects.produces.wake(("t", 0))
        assert [one.error_code for topic in responses[0].topics for one in topic.partitions] == [
            ErrorCode.none,
            ErrorCode.request_timed_out,
        ]


@simulated
async def test_a_producer_is_told_which_records_were_refused_and_why() -> None:
    async with asking(config={"log.cleanup.policy": "compact"}) as asker:
        keyed_and_not = build_batch([Record(0, 7, b"k", b"v"), Record(1, 7, None, b"v"), Record(2, 7, None, b"v")])
        produced = await asker.produce(keyed_and_not)
        assert produced.error_code is ErrorCode.invalid_record
        assert [refused.batch_index for refused in produced.record_errors] == [1, 2]
        assert "no key" in (produced.record_errors[0].message or "")


@simulated
async def test_the_response_of_the_wrong_broker_names_the_right_one() -> None:
    async with asking(brokers=2) as asker:
        for version in (9, 10, 13):
            name, topic_id = asker.named("t", version)
            request = ProduceRequest(1, 1_000, [ProduceTopic(name, topic_id, [ProducePartition(0, GOOD)])])
            response = await asker.channels[1].request(request, version=version)
            data = response.topics[0].partitions[0]
            address = asker.cluster.broker(0).address
            told = [(node.node_id, node.host, node.port) for node in response.node_endpoints]
            assert data.error_code is ErrorCode.not_leader_or_follower
            assert (data.leader_id, data.leader_epoch) == ((0, 0) if version >= 10 else (-1, -1))
            assert told == ([(0, address.host, address.port)] if version >= 10 else [])
        response = await asker.channels[0].request(
            FetchRequest([FetchTopic("", asker.named("t", 18)[1], [FetchPartition(0, 0, 9, 5)])], 0, 1)
        )
        assert response.topics[0].partitions[0].error_code is ErrorCode.unknown_leader_epoch
        assert response.node_endpoints == [], "only for a leader that moved"


@simulated
async def test_an_error_that_cannot_be_told_closes_the_connection() -> None:
    async with asking(brokers=2) as asker:
        with pytest.raises(NoResponseError):
            await asker.produce(GOOD, broker=1, acks=0)
        assert "NOT_LEADER_OR_FOLLOWER for a produce with acks=0" in asker.cluster.broker(1).closed_connections


@simulated
async def test_the_clusters_own_topics_are_not_written_to() -> None:
    async with asking() as asker:
        async with asker.cluster.client() as client:
            await client.create_topic("__consumer_offsets", 1, 1)
        await asker.cluster.settle_metadata()
        produced = await asker.produce(GOOD, topic="__consumer_offsets")
        assert produced.error_code is ErrorCode.invalid_topic_exception


@simulated
async def test_transactional_records_need_a_transactional_id() -> None:
    async with asking() as asker:
        produced = await asker.produce(batch(b"x", transactional=True))
        assert produced.error_code is ErrorCode.transactional_id_authorization_failed


@simulated
async def test_a_transactional_id_without_transactional_records_means_nothing() -> None:
    async with asking() as asker:
        forbid(asker.cluster, (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "*"))
        produced = await asker.produce(GOOD, transactional_id="x")
        assert produced.error_code is ErrorCode.none


@simulated
async def test_a_consumer_that_says_what_it_read_last_is_told_where_the_logs_part() -> None:
    async with asking() as asker:
        await asker.produce(batch(b"a", b"b"))

        async def compared(offset: int, epoch: int) -> tuple[ErrorCode, tuple[int, int], list[bytes | None]]:
            fetched = await asker.fetch(offset, last_epoch=epoch)
            return fetched.error_code, (fetched.diverging_epoch, fetched.diverging_end_offset), values(fetched)

        assert await compared(1, 0) == (ErrorCode.none, (-1, -1), [b"a", b"b"])
        assert await compared(2, 0) == (ErrorCode.none, (-1, -1), []), "all of the epoch was read"
        assert await compared(6, 0) == (ErrorCode.none, (0, 2), []), "no error, though it is beyond the end"
        assert await compared(0, 5) == (ErrorCode.offset_out_of_range, (-1, -1), []), "there was no such epoch"
        assert await compared(6, -1) == (ErrorCode.offset_out_of_range, (-1, -1), [])
        stale = await asker.fetch(6, last_epoch=0, leader_epoch=9)
        assert stale.error_code is ErrorCode.unknown_leader_epoch


@simulated
async def test_a_leader_that_moved_is_told_from_version_16_on() -> None:
    async with asking(2) as asker:
        for version in (11, 12, 15, 16):
            fetched = await asker.fetch(0, version=version, broker=1, leader_epoch=-1, replica_id=0)
            assert fetched.error_code in LEADER_MOVED
            assert (fetched.leader_id, fetched.leader_epoch) == ((0, 0) if version >= 16 else (-1, -1))
        ahead = await asker.fetch(0, leader_epoch=9)
        assert (ahead.error_code, ahead.leader_id) == (ErrorCode.unknown_leader_epoch, -1), "nobody has moved"


@simulated
async def test_topics_that_are_zstd_are_for_clients_that_know_it() -> None:
    async with asking() as asker:
        await asker.cluster.create_topic("z", config={"compression.type": "zstd"})
        await asker.produce(GOOD, topic="z")
        for version in (9, 10):
            fetched = await asker.fetch(0, topic="z", version=version)
            known = version >= 10
            assert fetched.error_code is (ErrorCode.none if known else ErrorCode.unsupported_compression_type)
            assert bool(fetched.records) is known


@simulated
async def test_a_directory_that_failed_is_told_to_clients_that_know_of_such() -> None:
    async with asking(config={"log.dirs": "one,two"}) as asker:
        partition = asker.cluster.broker(0).replicas.get("t", 0)
        assert partition is not None
        asker.cluster.broker(0).replicas.storage_failed(partition, OSError("gone"))
        assert (await asker.fetch(0, version=6)).error_code is ErrorCode.kafka_storage_error
        assert (await asker.fetch(0, version=5)).error_code is ErrorCode.not_leader_or_follower


# --- fetch ---------------------------------------------------------------------------------------------------------


@simulated
async def test_the_first_batch_comes_whole_and_no_other_goes_beyond_the_limits() -> None:
    async with asking() as asker:
        for name in ("a", "b"):
            await asker.cluster.create_topic(name)
            for _ in range(3):
                await asker.produce(batch(bytes(500)), topic=name)
        size = len(batch(bytes(500)))

        async def sizes(max_bytes: int, partition_max_bytes: int) -> list[int]:
            topics = [
                FetchTopic("", asker.named(name, 18)[1], [FetchPartition(0, 0, partition_max_bytes)])
                for name in ("t", "a", "b")
            ]
            response = await asker.channels[0].request(FetchRequest(topics, 0, 1, max_bytes))
            return [len(topic.partitions[0].records) for topic in response.topics]

        assert await sizes(1, 1) == [0, size, 0]
        assert await sizes(size + 1, 1 << 20) == [0, size, 0]
        assert await sizes(2 * size, 1 << 20) == [0, 2 * size, 0]
        assert await sizes(2 * size, size) == [0, size, size]
        assert await sizes(1 << 20, 1) == [0, size, 0], "the limit of a partition holds for all but the first"


@simulated
async def test_no_response_is_larger_than_the_broker_lets_it_be() -> None:
    async with asking(config={"fetch.max.bytes": 1_200}) as asker:
        for _ in range(4):
            await asker.produce(batch(bytes(500)))
        fetched = await asker.fetch(0, max_wait_ms=9_000)
        assert len(fetched.records or b"") == 2 * len(batch(bytes(500)))


@simulated
async def test_an_offset_inside_a_batch_brings_the_whole_batch() -> None:
    async with asking() as asker:
        await asker.produce(batch(b"a", b"b", b"c"))
        assert values(await asker.fetch(2)) == [b"a", b"b", b"c"]
        assert values(await asker.fetch(3)) == []
        out = await asker.fetch(4)
        assert (out.error_code, out.high_watermark) == (ErrorCode.offset_out_of_range, -1)


@simulated
async def test_a_fetch_waits_for_as_many_bytes_as_it_asks_for() -> None:
    async with asking() as asker:
        size = len(GOOD)
        request = FetchRequest([FetchTopic("t", "", [FetchPartition(0, 0, 1 << 20)])], 5_000, 2 * size)
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:

            async def produce_twice() -> None:
                async with asker.cluster.client() as client:
                    for _ in range(2):
                        await trio.sleep(1)
                        await client.produce("t", b"x")

            nursery.start_soon(produce_twice)
            response = await asker.channels[0].request(request, version=BY_NAME)
        assert trio.current_time() - begun == pytest.approx(2, abs=0.5)
        assert len(response.topics[0].partitions[0].records) == 2 * size


@simulated
async def test_a_partition_may_be_named_twice_in_one_fetch() -> None:
    async with asking() as asker:
        twice = [FetchPartition(0, 0, 1_000), FetchPartition(0, 0, 1_000)]
        response = await asker.channels[0].request(FetchRequest([FetchTopic("t", "", twice)], 500, 1), version=BY_NAME)
        assert [data.error_code for data in response.topics[0].partitions] == [ErrorCode.none] * 2


RACKS = {"config": {"replica.selector.class": RACK_AWARE_SELECTOR}, "racks": ["a", "b", "b"]}


@simulated
async def test_a_consumer_is_sent_to_the_follower_in_its_rack() -> None:
    async with asking(brokers=3, **RACKS) as asker:
        await asker.produce(GOOD)
        await trio.sleep(1)
        for rack, preferred in (("b", {1, 2}), ("a", {-1}), ("c", {-1}), ("", {-1})):
            fetched = await asker.fetch(0, rack_id=rack, max_wait_ms=10_000)
            assert fetched.preferred_read_replica in preferred
            assert values(fetched) == ([b"x"] if preferred == {-1} else []), "no records beside the advice"
            assert fetched.high_watermark == 1
        assert (await asker.fetch(9, rack_id="b")).error_code is ErrorCode.offset_out_of_range
        assert (await asker.fetch(0, rack_id="b", version=10)).preferred_read_replica == -1


@simulated
async def test_a_consumer_in_the_rack_of_the_leader_stays_there() -> None:
    async with asking(brokers=3, config=RACKS["config"], racks=["a", "a", "b"]) as asker:
        await asker.produce(GOOD)
        await trio.sleep(1)
        assert (await asker.fetch(0, rack_id="a")).preferred_read_replica == -1
        assert (await asker.fetch(0, rack_id="b")).preferred_read_replica == 2


@simulated
async def test_only_followers_that_hold_the_offset_are_preferred() -> None:
    async with asking(brokers=3, **RACKS) as asker:
        asker.cluster.pause(1)
        await asker.produce(GOOD, acks=1)
        await trio.sleep(0.5)
        assert (await asker.fetch(0, rack_id="b")).preferred_read_replica == 2, "it holds more"
        leader = asker.cluster.replica(0, "t")
        asker.cluster.pause(2)
        await trio.sleep(1)
        for follower in (1, 2):
            leader.remote_replicas[follower].log_end_offset = 0
        assert (await asker.fetch(1, rack_id="b")).preferred_read_replica == -1, "nobody holds it"


@simulated
async def test_a_follower_gives_consumers_what_it_knows_to_be_committed() -> None:
    async with asking(brokers=2) as asker:
        await asker.produce(GOOD)
        await trio.sleep(1)
        assert values(await asker.fetch(0, broker=1)) == [b"x"]
        assert (await asker.fetch(0, broker=1, version=10)).error_code is ErrorCode.not_leader_or_follower
        asker.cluster.replica(1, "t").high_watermark = 0
        behind = await asker.fetch(0, broker=1)
        assert (behind.error_code, values(behind)) == (ErrorCode.none, [])
        assert (await asker.fetch(2, broker=1)).error_code is ErrorCode.offset_out_of_range


@simulated
async def test_a_follower_wakes_consumers_when_it_learns_of_the_high_watermark() -> None:
    async with asking(brokers=2) as asker, trio.open_nursery() as nursery:
        begun = trio.current_time()

        async def later() -> None:
            await trio.sleep(1)
            await asker.produce(GOOD)

        nursery.start_soon(later)
        assert values(await asker.fetch(0, broker=1, max_wait_ms=60_000)) == [b"x"]
        assert trio.current_time() - begun < 3

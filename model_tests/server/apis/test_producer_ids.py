"""InitProducerId, AllocateProducerIds, DescribeProducers, and what Produce responses to idempotent producers."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.types import ProducerId, TransactionalId

from tidegauge.impl.controller.producer_ids import BLOCK_SIZE, LAST_PRODUCER_ID, ProducerIdsBlock
from tidegauge.impl.metadata.records import ProducerIdsRecord
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey, request_class
from tidegauge.impl.wire.codecs import encode_request
from tidegauge.impl.wire.primitives import TopicName, i16, i32, millis
from tidegauge.impl.wire.produce_messages import ProducePartition, ProduceRequest, ProduceTopic
from tidegauge.impl.wire.versions import convert
from tidegauge.model_tests.controller.controlled_cluster import ControlledCluster, successor
from tidegauge.model_tests.server.asking import Asker, asker, asking, forbid
from tidegauge.model_tests.simulated import simulated

VERSIONS = range(BROKER_APIS[ApiKey.INIT_PRODUCER_ID].lowest, BROKER_APIS[ApiKey.INIT_PRODUCER_ID].highest + 1)


def init(transactional_id: str | None = None, producer_id: int = -1, epoch: int = -1, version: int = 5) -> Any:
    request = InitProducerIdRequest(
        transactional_id=None if transactional_id is None else TransactionalId(transactional_id),
        transaction_timeout=millis(1_000),
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(epoch),
    )
    return convert(request, request_class(ApiKey.INIT_PRODUCER_ID, version))


def batch(sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0, timestamp: int = 0) -> bytes:
    records = [Record(n, timestamp, None, b"%d" % (sequence + n)) for n in range(count)]
    return build_batch(records, producer=ProducerIdentity(producer, epoch, sequence))


async def produce(ask: Asker, records: bytes, acks: int = -1) -> tuple[ErrorCode, int, str | None]:
    request = ProduceRequest(acks, 5_000, [ProduceTopic("t", "", [ProducePartition(0, records)])])
    data = (await ask.ask(request, version=12)).topics[0].partitions[0]
    return data.error_code, data.base_offset, data.error_message


# --- producer ids ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_an_idempotent_producer_gets_a_new_id_in_epoch_0(version: int) -> None:
    @simulated
    async def run() -> None:
        async with asking(topic=None) as (_, ask):
            responses = [await ask.ask(init(version=version)) for _ in range(3)]
            assert [(a.error_code, a.producer_id, a.producer_epoch) for a in responses] == [
                (ErrorCode.none, number, 0) for number in range(3)
            ]

    run()


@simulated
async def test_what_id_it_had_before_does_not_matter_without_a_transactional_id() -> None:
    async with asking(topic=None) as (_, ask):
        assert (await ask.ask(init(producer_id=7, epoch=3))).producer_id == 0
        assert (await ask.ask(init(producer_id=7))).error_code is ErrorCode.invalid_request
        assert (await ask.ask(init(epoch=7))).error_code is ErrorCode.invalid_request


@simulated
async def test_a_transactional_id_is_asked_about_at_its_coordinator_with_the_right_to_it() -> None:
    async with asking(topic=None) as (cluster, ask):
        response = await ask.ask(init("tx"))
        assert (response.error_code, response.producer_id, response.producer_epoch) == (
            ErrorCode.not_coordinator,
            -1,
            -1,
        )
        assert (await ask.ask(init(""))).error_code is ErrorCode.invalid_request
        forbid(cluster, (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "tx"))
        refused = await (await asker(cluster)).ask(init("tx"))
        assert refused.error_code is ErrorCode.transactional_id_authorization_failed


@simulated
async def test_brokers_take_ids_from_blocks_of_their_own() -> None:
    async with asking(brokers=3, topic=None) as (cluster, _):
        askers = [await asker(cluster, broker) for broker in range(3)]
        ids = [(await ask.ask(init())).producer_id for _ in range(2) for ask in askers]
        assert ids == [0, BLOCK_SIZE, 2 * BLOCK_SIZE, 1, BLOCK_SIZE + 1, 2 * BLOCK_SIZE + 1]


@simulated
async def test_many_at_once_get_ids_of_their_own_across_a_blocks_end() -> None:
    async with asking(topic=None) as (cluster, ask):
        await ask.ask(init())
        cluster.broker(0).producer_ids._next = BLOCK_SIZE - 3
        found: list[int] = []

        async def one() -> None:
            found.append((await (await asker(cluster)).ask(init())).producer_id)

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(one)
        assert sorted(found) == list(range(BLOCK_SIZE - 3, BLOCK_SIZE + 5))


@simulated
async def test_no_id_is_given_twice_by_brokers_and_controllers_that_come_back() -> None:
    async with asking(brokers=2, topic=None) as (cluster, ask):
        seen = [(await ask.ask(init())).producer_id, (await (await asker(cluster, 1)).ask(init())).producer_id]
        await cluster.restart_controller()
        await cluster.crash(0)
        await cluster.restart(0)
        await cluster.broker(0).unfenced.wait()
        response = await (await asker(cluster)).ask(init())
        assert response.error_code is ErrorCode.none
        assert response.producer_id == 2 * BLOCK_SIZE
        assert seen == [0, BLOCK_SIZE]


@simulated
async def test_without_a_controller_clients_are_asked_to_wait() -> None:
    async with asking(topic=None) as (cluster, ask):
        cluster.isolate("controller")
        assert (await ask.ask(init())).error_code is ErrorCode.coordinator_load_in_progress


@simulated
async def test_an_id_is_for_who_may_write_something() -> None:
    """IDEMPOTENT_WRITE on the cluster, or (KIP-679) WRITE on any topic."""
    anywhere = (Operation.WRITE, ResourceType.TOPIC, "*")
    on_cluster = (Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "*")
    async with asking(topic=None) as (cluster, _):
        for forbidden, error in (
            ((anywhere,), ErrorCode.none),
            ((on_cluster,), ErrorCode.none),
            ((on_cluster, anywhere), ErrorCode.cluster_authorization_failed),
        ):
            forbid(cluster, *forbidden)
            assert (await (await asker(cluster)).ask(init())).error_code is error


def test_blocks_are_decided_by_the_controller_and_survive_it() -> None:
    cluster = ControlledCluster(brokers=2)
    assert cluster.commit(cluster.controller.producer_ids.allocate(0, cluster.epochs[0])) == ProducerIdsBlock(0)
    assert cluster.commit(cluster.controller.producer_ids.allocate(1, cluster.epochs[1])) == ProducerIdsBlock(
        BLOCK_SIZE
    )
    assert cluster.commit(cluster.controller.producer_ids.allocate(9, 0)) is ErrorCode.broker_id_not_registered
    assert (
        cluster.commit(cluster.controller.producer_ids.allocate(0, cluster.epochs[0] - 1))
        is ErrorCode.stale_broker_epoch
    )
    assert cluster.log.read(0)[-1] == ProducerIdsRecord(1, cluster.epochs[1], 2 * BLOCK_SIZE)
    after = successor(cluster.log)
    block = cluster.log.commit(after, after.producer_ids.allocate(0, cluster.epochs[0]))
    assert block == ProducerIdsBlock(2 * BLOCK_SIZE)


def test_ids_come_to_an_end() -> None:
    cluster = ControlledCluster(brokers=1)
    cluster.controller.image.next_producer_id = LAST_PRODUCER_ID - BLOCK_SIZE + 1
    assert (
        cluster.commit(cluster.controller.producer_ids.allocate(0, cluster.epochs[0])) is ErrorCode.unknown_server_error
    )


# --- producing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [1, -1])
def test_a_repeat_is_acknowledged_where_it_is_and_a_gap_refused(acks: int) -> None:
    @simulated
    async def run() -> None:
        async with asking(brokers=2) as (cluster, ask):
            assert await produce(ask, batch(0, 2), acks) == (ErrorCode.none, 0, None)
            assert await produce(ask, batch(2), acks) == (ErrorCode.none, 2, None)
            assert await produce(ask, batch(0, 2), acks) == (ErrorCode.none, 0, None)
            error, offset, message = await produce(ask, batch(4), acks)
            assert (error, offset) == (ErrorCode.out_of_order_sequence_number, -1)
            assert message is not None
            assert "sequence 4" in message
            assert (await produce(ask, batch(0, epoch=1), acks))[:2] == (ErrorCode.none, 3)
            assert (await produce(ask, batch(3), acks))[0] is ErrorCode.invalid_producer_epoch
            partition = cluster.broker(0).replicas.get("t", 0)
            assert partition is not None
            assert partition.log.log_end_offset == 4

    run()


@simulated
async def test_a_batch_with_acks_0_is_checked_too() -> None:
    async with asking() as (cluster, ask):
        partition = cluster.broker(0).replicas.get("t", 0)
        assert partition is not None
        await produce(ask, batch(0))
        request = ProduceRequest(0, 5_000, [ProduceTopic("t", "", [ProducePartition(0, batch(0))])])
        await ask.stream.send_all(encode_request(request, 99, "asker", version=12))
        assert await produce(ask, batch(1)) == (ErrorCode.none, 1, None)
        assert partition.log.log_end_offset == 2


@simulated
async def test_a_repeat_with_acks_all_waits_for_the_high_watermark_as_the_first_did() -> None:
    async with asking(brokers=2) as (cluster, ask):
        await cluster.crash(1)
        responses: list[Any] = []

        async def one(on: Asker) -> None:
            responses.append(await produce(on, batch(0)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, ask)
            await trio.sleep(0.01)
            nursery.start_soon(one, await asker(cluster))
            await trio.sleep(0.5)
            assert responses == []
            await cluster.restart(1)
        assert responses == [(ErrorCode.none, 0, None)] * 2


@simulated
async def test_a_new_leader_knows_what_the_old_one_has_acknowledged() -> None:
    async with asking(brokers=3) as (cluster, ask):
        leader = cluster.leader("t")
        ask = await asker(cluster, leader)
        for sequence in range(7):
            assert await produce(ask, batch(sequence)) == (ErrorCode.none, sequence, None)
        await cluster.crash(leader)
        successor = await asker(cluster, await cluster.wait_for_leader("t", other_than=leader))
        for sequence in (2, 6, 4):
            assert await produce(successor, batch(sequence)) == (ErrorCode.none, sequence, None)
        assert (await produce(successor, batch(1)))[0] is ErrorCode.out_of_order_sequence_number
        assert await produce(successor, batch(7)) == (ErrorCode.none, 7, None)


@simulated
async def test_a_broker_that_restarts_knows_what_it_has_acknowledged() -> None:
    async with asking() as (cluster, ask):
        now_ms = cluster.broker(0).clock.now_ms()
        for sequence in range(7):
            await produce(ask, batch(sequence, timestamp=now_ms))
        cluster.broker(0).actions.flush()
        await cluster.crash(0)
        await cluster.restart(0)
        await cluster.wait_for_leader("t")
        again = await asker(cluster)
        assert await produce(again, batch(3)) == (ErrorCode.none, 3, None)
        assert await produce(again, batch(7)) == (ErrorCode.none, 7, None)


@simulated
async def test_idle_producers_expire_on_time() -> None:
    config = {"producer.id.expiration.ms": 5_000, "producer.id.expiration.check.interval.ms": 1_000}
    async with asking(config=config) as (cluster, ask):
        partition = cluster.broker(0).replicas.get("t", 0)
        assert partition is not None
        now_ms = cluster.broker(0).clock.now_ms()
        await produce(ask, batch(0, timestamp=now_ms))
        await trio.sleep(4)
        assert 7 in partition.replica.producers.entries
        await trio.sleep(3)
        assert partition.replica.producers.entries == {}
        assert (await produce(ask, batch(1)))[0] is ErrorCode.none


# --- DescribeProducers -----------------------------------------------------------------------------------------------


def describe(*partitions: int, topic: str = "t") -> DescribeProducersRequest:
    named = TopicRequest(name=TopicName(topic), partition_indexes=tuple(map(i32, partitions)))
    return DescribeProducersRequest(topics=(named,))


@simulated
async def test_a_leader_describes_its_producers() -> None:
    async with asking(brokers=2) as (cluster, _):
        leader = cluster.leader("t")
        ask = await asker(cluster, leader)
        await produce(ask, batch(0, 3))
        await produce(ask, batch(0, epoch=2, producer=3))
        (topic,) = (await ask.ask(describe(0, 9))).topics
        found = [
            (p.producer_id, p.producer_epoch, p.last_sequence, p.last_timestamp, p.coordinator_epoch,
             p.current_txn_start_offset)
            for p in topic.partitions[0].active_producers
        ]  # fmt: skip
        assert found == [(3, 2, 0, 0, -1, -1), (7, 0, 2, 0, -1, -1)]
        assert topic.partitions[1].error_code is ErrorCode.unknown_topic_or_partition
        follower = await asker(cluster, 1 - leader)
        (elsewhere,) = (await follower.ask(describe(0))).topics[0].partitions
        assert elsewhere.error_code is ErrorCode.not_leader_or_follower
        forbid(cluster, (Operation.READ, ResourceType.TOPIC, "t"), brokers=(leader,))
        (refused,) = (await (await asker(cluster, leader)).ask(describe(0))).topics[0].partitions
        assert (refused.error_code, refused.active_producers) == (ErrorCode.topic_authorization_failed, ())
        (none,) = (await follower.ask(describe(0, topic="a b"))).topics[0].partitions
        assert none.error_code is ErrorCode.invalid_topic_exception

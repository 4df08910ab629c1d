"""The native client's transactions and its consumer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from kio.schema.errors import ErrorCode
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest

from tidegauge.impl.client.client import Client, ClientConfig
from tidegauge.impl.client.committed_offsets import GroupOffsets
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.partition_reader import PartitionReader
from tidegauge.impl.client.transactional import TransactionalProducer
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.wire.primitives import i8, i16, millis
from tidegauge.model_tests.simulated import simulated

FEW = {"transaction.state.log.num.partitions": 2, "offsets.topic.num.partitions": 1}


LEVELS = pytest.mark.parametrize("level", [0, 1, 2])
"""Of the feature `transaction.version`."""


@asynccontextmanager
async def running(brokers: int = 1, level: int = 2) -> AsyncIterator[tuple[Cluster, Client]]:
    async with Cluster(brokers=brokers, seed=1, config=FEW) as cluster:
        await cluster.create_topic("t", assignments=[list(range(brokers))] * 2)
        async with cluster.client() as client:
            if level < 2:
                await change(client, level)
            yield cluster, client


async def change(client: Client, level: int) -> None:
    """Set the level of `transaction.version`."""
    update = FeatureUpdateKey(
        feature="transaction.version", max_version_level=i16(level), upgrade_type=i8(1 + (level < 2))
    )
    response = await client.ask_any(UpdateFeaturesRequest(timeout=millis(1_000), feature_updates=(update,)))
    assert response.error_code is ErrorCode.none, response
    await trio.sleep(1)


async def read(client: Client, *, committed: bool = True, partition: int = 0) -> list[bytes | None]:
    """All that there is once nothing is undecided."""
    async with PartitionReader(client, "t", partition, read_committed=committed) as consumer:
        values: list[bytes | None] = []
        end = (await client.list_offsets("t", partition=partition)).offset
        while consumer.position < end:
            values += [record.value for record in await consumer.poll()]
        return values


@LEVELS
@simulated
async def test_a_transaction_is_all_or_nothing_over_its_partitions(level: int) -> None:
    async with running(3, level=level) as (_, client):
        producer = TransactionalProducer(client, "tx")
        async with producer.transaction() as transaction:
            await transaction.produce("t", b"1", b"2")
            await transaction.produce("t", b"3", partition=1)

        async def fail() -> None:
            async with producer.transaction() as transaction:
                await transaction.produce("t", b"4")
                await transaction.produce("t", b"5", partition=1)
                raise RuntimeError("mine")

        with pytest.raises(RuntimeError, match="mine"):
            await fail()
        async with producer.transaction():
            pass
        async with producer.transaction() as transaction:
            await transaction.produce("t", b"6")
        assert await read(client) == [b"1", b"2", b"6"]
        assert await read(client, partition=1) == [b"3"]
        assert await read(client, committed=False) == [b"1", b"2", b"4", b"6"], "and no marker"


@LEVELS
@simulated
async def test_a_zombie_is_fenced_and_stays_so(level: int) -> None:
    async with running(level=level) as (_, client):
        zombie, young = (TransactionalProducer(client, "tx") for _ in range(2))
        async with zombie.transaction() as transaction:
            await transaction.produce("t", b"1")

        async def be_late() -> None:
            async with zombie.transaction() as transaction:
                await transaction.produce("t", b"2")
                async with young.transaction() as other:
                    await other.produce("t", b"3")
                await transaction.produce("t", b"4")

        with pytest.raises(KafkaError, match="INVALID_PRODUCER_EPOCH"):
            await be_late()
        with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
            await be_late()
        assert await read(client) == [b"1", b"3"]


@simulated
async def test_nothing_joins_a_transaction_after_its_block() -> None:
    """It would begin another one, or be part of the next."""
    async with running() as (_, client):
        async with TransactionalProducer(client, "tx").transaction() as transaction:
            await transaction.produce("t", b"1")
        for late in (transaction.produce("t", b"2"), transaction.commit_offsets("g", {("t", 0): 1})):
            with pytest.raises(RuntimeError, match="the transaction is over"):
                await late
        assert await read(client, committed=False) == [b"1"]


@LEVELS
@simulated
async def test_a_transaction_whose_record_was_not_taken_is_aborted_though_the_caller_goes_on(level: int) -> None:
    async with running(level=level) as (cluster, client):
        producer = TransactionalProducer(client, "tx")

        async def go_on() -> None:
            async with producer.transaction() as transaction:
                await transaction.produce("t", b"1")
                cluster.fail_produces("MESSAGE_TOO_LARGE")
                with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
                    await transaction.produce("t", b"2")
                with pytest.raises(KafkaError, match="can only be aborted"):
                    await transaction.produce("t", b"3")

        with pytest.raises(KafkaError, match="TRANSACTION_ABORTABLE"):
            await go_on()
        async with producer.transaction() as transaction:
            await transaction.produce("t", b"4")
        assert await read(client) == [b"4"]


@LEVELS
@simulated
async def test_a_commit_that_nobody_could_tell_of_is_doubted_and_the_next_one_begins_anew(level: int) -> None:
    async with running(level=level) as (cluster, client):
        producer = TransactionalProducer(client, "tx")
        dropped = cluster.drop_connections("EndTxn", None, carried_out=True)

        async def commit(value: bytes) -> None:
            async with producer.transaction(timeout_ms=1_000) as transaction:
                await transaction.produce("t", value)

        with pytest.raises(KafkaError) as doubted:
            await commit(b"1")
        assert (doubted.value.maybe_done, dropped.hits > 1, producer.epoch) == (True, True, -1)
        dropped.cancel()
        await commit(b"2")
        assert await read(client) == [b"1", b"2"]


@simulated
async def test_a_zombie_whose_first_attempt_got_no_response_does_not_know_what_became_of_it() -> None:
    async with running() as (cluster, _):
        for request, value in (("Produce", b"1"), ("EndTxn", b"2")):
            async with cluster.client(config=ClientConfig(retry_backoff_ms=500)) as patient:
                zombie, young = TransactionalProducer(patient, request), TransactionalProducer(patient, request)
                dropped = cluster.drop_connections(request, 1, carried_out=True)
                doubted: list[KafkaError] = []

                async def transact(zombie: TransactionalProducer = zombie, value: bytes = value) -> None:
                    async with zombie.transaction() as transaction:
                        await transaction.produce("t", value)

                async def be_late(
                    transact: Callable[[], Awaitable[None]] = transact, doubted: list[KafkaError] = doubted
                ) -> None:
                    with pytest.raises(KafkaError, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH") as fenced:
                        await transact()
                    doubted.append(fenced.value)

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(be_late)
                    while not dropped.hits:  # noqa: ASYNC110 - virtual time
                        await trio.sleep(0.01)
                    await young.begin()
            assert [error.maybe_done for error in doubted] == [True], request
            async with cluster.client() as client:
                is_there = value in await read(client, committed=request == "EndTxn")
            assert is_there, "the first attempt was carried out"


@LEVELS
@simulated
async def test_a_groups_offsets_are_committed_with_the_transaction_and_told_when_it_is_decided(level: int) -> None:
    async with running(3, level=level) as (cluster, client):
        producer, group = TransactionalProducer(client, "tx"), GroupOffsets(client, "g")
        assert await group.committed("t") is None
        async with producer.transaction() as transaction:
            await transaction.produce("t", b"1")
            await transaction.commit_offsets("g", {("t", 0): 5})
            await transaction.commit_offsets("g", {("t", 1): 7}, metadata="seven")
        assert await group.committed_with_metadata("t", 1) == (7, "seven")
        assert (await group.committed("t"), await group.committed("t", 1)) == (5, 7)

        async def change_mind() -> None:
            async with producer.transaction() as transaction:
                await transaction.commit_offsets("g", {("t", 0): 9})
                with pytest.raises(KafkaError, match="UNSTABLE_OFFSET_COMMIT"):
                    await group.committed("t", timeout_ms=300)
                raise RuntimeError("mine")

        with pytest.raises(RuntimeError, match="mine"):
            await change_mind()
        assert await group.committed_with_metadata("t") == (5, "")
        zombie, producer = producer, TransactionalProducer(client, "tx")
        await producer.begin()

        async def be_late() -> None:
            async with zombie.transaction() as transaction:
                await transaction.commit_offsets("g", {("t", 0): 9})

        with pytest.raises(KafkaError, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
            await be_late()
        assert (zombie.is_fenced, await group.committed("t")) == (True, 5)
        await cluster.crash(cluster.leader("__consumer_offsets"))
        assert await group.committed("t") == 5, "of the next coordinator"


@simulated
async def test_offsets_of_nobody_and_no_offsets_are_refused() -> None:
    async with running() as (_, client):
        with pytest.raises(ValueError, match="the group is empty"):
            GroupOffsets(client, "")
        async with TransactionalProducer(client, "tx").transaction() as transaction:
            with pytest.raises(ValueError, match="name a group, and give at least one offset"):
                await transaction.commit_offsets("g", {})


@LEVELS
@simulated
async def test_transactions_go_on_through_the_crash_of_any_broker(level: int) -> None:
    async with running(3, level=level) as (cluster, client):
        producer = TransactionalProducer(client, "tx")
        expected: list[bytes] = []
        for crashed in (0, 1):
            for nth in range(2):
                value = b"%d-%d" % (crashed, nth)
                async with producer.transaction() as transaction:
                    await transaction.produce("t", value)
                    if nth == 1:
                        await cluster.crash(crashed)
                    await transaction.produce("t", value + b"-behind")
                expected += [value, value + b"-behind"]
            await cluster.restart(crashed)
            with trio.fail_after(60):
                await cluster.wait_for_isr("t", range(3))
        assert await read(client) == expected


@simulated
async def test_a_producer_follows_the_version_of_the_protocol_between_two_transactions() -> None:
    """Up with a new epoch, so that nothing that it had sent before joins what follows (KAFKA-18227)."""
    async with running(3, level=1) as (_, client):
        producer = TransactionalProducer(client, "tx", version_max_age_ms=100)
        known: list[tuple[int, int]] = []
        for nth, level in enumerate((1, 1, 2, 2, 0, 0, 2)):
            await change(client, level)
            async with producer.transaction() as transaction:
                await transaction.produce("t", b"%d" % nth)
                await transaction.commit_offsets("g", {("t", 0): nth})
                known.append((producer.version, producer.epoch))
        assert known == [(1, 0), (1, 0), (2, 1), (2, 2), (1, 3), (1, 3), (2, 4)]
        assert await read(client) == [b"%d" % nth for nth in range(7)]
        assert await GroupOffsets(client, "g").committed("t") == 6


@simulated
async def test_who_did_not_learn_its_next_epoch_asks_for_it_again_and_is_not_fenced() -> None:
    """With the change of version it goes on under a new epoch; who asks twice with the former one is told it."""
    async with running(3, level=1) as (cluster, client):
        producer = TransactionalProducer(client, "tx", version_max_age_ms=100)
        async with producer.transaction() as transaction:
            await transaction.produce("t", b"0")
        await change(client, 2)
        dropped = cluster.drop_connections("InitProducerId", 1, carried_out=True)
        with pytest.raises(KafkaError, match="NETWORK_EXCEPTION"):
            async with producer.transaction(timeout_ms=50) as transaction:
                pytest.fail("it has no epoch")
        assert dropped.hits == 1
        async with producer.transaction() as transaction:
            await transaction.produce("t", b"1")
            assert (producer.version, producer.epoch) == (2, 1)
        assert await read(client) == [b"0", b"1"]


@simulated
async def test_in_version_1_no_transaction_follows_under_an_epoch_of_which_a_request_was_lost() -> None:
    """It may yet arrive, and nothing tells it from one of the next transaction."""
    async with running(3, level=1) as (cluster, client):
        producer = TransactionalProducer(client, "tx")
        for nth, lost in enumerate(("AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")):
            async with producer.transaction() as transaction:
                before = producer.epoch
                dropped = cluster.drop_connections(lost, 1, carried_out=True)
                await transaction.produce("t", b"%d" % nth)
                await transaction.commit_offsets("g", {("t", 0): nth})
            assert dropped.hits == 1, lost
            async with producer.transaction() as transaction:
                await transaction.produce("t", b"+")
                assert producer.epoch == before + 1, lost
        assert await read(client) == [value for nth in range(5) for value in (b"%d" % nth, b"+")]


@simulated
async def test_a_producer_that_does_not_know_yet_of_an_older_version_loses_nothing() -> None:
    """Its epoch stays, and so do its sequences: a record that began anew would be taken for a repeat."""
    async with running() as (_, client):
        producer = TransactionalProducer(client, "tx")
        for nth in range(4):
            async with producer.transaction() as transaction:
                await transaction.produce("t", b"%d" % nth)
            if nth == 0:
                await change(client, 1)
        assert producer.version == 1, "it has asked, for its epoch stayed"
        assert await read(client) == [b"0", b"1", b"2", b"3"]

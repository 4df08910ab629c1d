"""The native client consumes as a member of a group and commits its offsets in transactions (KIP-447)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.committed_offsets import GroupOffsets
from tidegauge.impl.client.consumer import Consumer
from tidegauge.impl.client.consumer_config import ConsumerConfig
from tidegauge.impl.client.errors import CommitFailedError, KafkaError
from tidegauge.impl.client.membership import GroupMetadata
from tidegauge.impl.client.partition_reader import PartitionReader
from tidegauge.impl.client.transactional import TransactionalProducer
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.model_tests.simulated import simulated

FEW = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 100,
}
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
INPUTS = [("in", 0), ("in", 1)]


@asynccontextmanager
async def running() -> AsyncIterator[Client]:
    async with Cluster(brokers=1, seed=1, config=FEW) as cluster:
        await cluster.create_topic("in", partitions=2, replication_factor=1)
        await cluster.create_topic("out", partitions=1, replication_factor=1)
        async with cluster.client() as client:
            for partition in range(2):
                await client.produce("in", b"1", b"2", partition=partition)
            yield client


def member(client: Client, protocol: str, **more: Any) -> Consumer:
    settings = {
        "group_id": "g",
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
        **more,
    }
    if protocol == "classic":
        settings |= {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 200}
    return Consumer(client, ConsumerConfig(**settings))


async def until_owned(*owned: tuple[Consumer, int]) -> None:
    """Let members poll until each has as many partitions as it is to have."""
    with trio.fail_after(60):
        while any(len(one.assignment) != number for one, number in owned):
            for one, _ in owned:
                await one.poll(20)


async def committed_output(client: Client) -> list[bytes | None]:
    async with PartitionReader(client, "out", read_committed=True) as reader:
        return [record.value for record in await reader.poll(max_wait_ms=200)]


async def process(client: Client, whose: GroupMetadata) -> None:
    """A transaction whose offsets are committed under this membership."""
    async with TransactionalProducer(client, f"tx-{whose.identity.member_id}").transaction() as transaction:
        await transaction.produce("out", b"never")
        await transaction.commit_offsets(whose, dict.fromkeys(INPUTS, 2))


async def refusal(client: Client, whose: GroupMetadata) -> ErrorCode:
    """The error of such a transaction; it aborts."""
    with pytest.raises(KafkaError) as refused:
        await process(client, whose)
    assert await committed_output(client) == []
    assert [await GroupOffsets(client, "g").committed("in", one) for one in range(2)] == [None, None]
    return refused.value.code


@PROTOCOLS
@simulated
async def test_a_transaction_of_a_member_that_has_lost_a_partition_is_refused_and_aborts(protocol: str) -> None:
    async with running() as client, member(client, protocol) as one, member(client, protocol) as two:
        await one.subscribe(["in"])
        await until_owned((one, 2))
        former = one.group_metadata()
        assert former.identity == one.identity
        await two.subscribe(["in"])
        await until_owned((one, 1), (two, 1))
        assert await refusal(client, former) is ErrorCode.illegal_generation
        present = one.group_metadata()
        async with TransactionalProducer(client, "tx").transaction() as transaction:
            await transaction.produce("out", b"once")
            await transaction.commit_offsets(present, dict.fromkeys(one.assignment, 2))
        assert await committed_output(client) == [b"once"]
        assert await two.committed(*INPUTS) == {place: 2 if place in one.assignment else None for place in INPUTS}


@simulated
async def test_a_member_commits_in_a_transaction_of_a_former_epoch_what_it_still_has() -> None:
    """As out of transactions (KIP-1251): who has not been told of an epoch yet loses no work by it."""
    async with running() as client, member(client, "consumer") as one, member(client, "consumer") as two:
        await one.subscribe(["in"])
        await until_owned((one, 2))
        former = one.group_metadata()
        await two.subscribe(["in"])
        await until_owned((one, 1), (two, 1))
        assert former.identity.generation < one.identity.generation
        async with TransactionalProducer(client, "tx").transaction() as transaction:
            await transaction.commit_offsets(former, dict.fromkeys(one.assignment, 2))
        assert await two.committed(*one.assignment) == dict.fromkeys(one.assignment, 2)


@PROTOCOLS
@simulated
async def test_who_names_a_group_alone_is_believed_though_it_has_members(protocol: str) -> None:
    """As clients of before KIP-447, and those that name no member (aiokafka, kafka-python) yet."""
    async with running() as client, member(client, protocol) as one:
        await one.subscribe(["in"])
        await until_owned((one, 2))
        async with TransactionalProducer(client, "tx").transaction() as transaction:
            await transaction.commit_offsets("g", dict.fromkeys(INPUTS, 2))
        assert await one.committed(*INPUTS) == dict.fromkeys(INPUTS, 2)


@PROTOCOLS
@simulated
async def test_a_transaction_of_a_member_that_has_left_is_refused(protocol: str) -> None:
    async with running() as client, member(client, protocol) as one, member(client, protocol) as two:
        await one.subscribe(["in"])
        await until_owned((one, 2))
        former = one.group_metadata()
        await one.unsubscribe()
        await two.subscribe(["in"])
        await until_owned((two, 2))
        assert await refusal(client, former) is ErrorCode.unknown_member_id


@simulated
async def test_a_transaction_of_a_static_members_former_process_is_refused() -> None:
    settings = {"group_instance_id": "i"}
    async with running() as client, member(client, "classic", **settings) as one:
        await one.subscribe(["in"])
        await until_owned((one, 2))
        former = one.group_metadata()
        assert former.instance_id == "i"
        async with member(client, "classic", **settings) as two:
            await two.subscribe(["in"])
            await until_owned((two, 2))
            assert await refusal(client, former) is ErrorCode.fenced_instance_id


@simulated
async def test_who_is_no_member_says_the_group_alone_and_who_has_no_part_of_a_generation_is_told() -> None:
    async with running() as client, member(client, "classic") as one, member(client, "classic", group_id=None) as none:
        await one.assign(INPUTS)
        assert one.group_metadata() == GroupMetadata("g")
        await one.unsubscribe()
        await one.subscribe(["in"])
        with pytest.raises(CommitFailedError, match="no member of its group now"):
            one.group_metadata()
        with pytest.raises(RuntimeError, match="set group_id"):
            none.group_metadata()
        with pytest.raises(ValueError, match="name a group"):
            await process(client, GroupMetadata(""))

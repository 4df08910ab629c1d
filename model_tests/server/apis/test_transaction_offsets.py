"""Offsets in transactions: let in by their coordinator, unstable while they are open, decided by their markers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import attrs
import pytest
import trio
from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.txn_offset_commit.v5 import request as commit_5
from kio.schema.types import GroupId, ProducerId, TransactionalId
from kio.static.primitive import i32Timedelta

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.server.broker.transaction_verifier import TransactionVerifier
from tidegauge.impl.wire.apis import ApiKey, request_class
from tidegauge.impl.wire.primitives import TopicName, i8, i16, i32, i64
from tidegauge.impl.wire.versions import convert
from tidegauge.model_tests.server.apis.test_consumer_groups import Member
from tidegauge.model_tests.server.apis.test_group_offsets import (
    SETTINGS,
    Asked,
    coordinator_of,
    grouped,
    leader,
    until,
)
from tidegauge.model_tests.server.asking import Asker, asker
from tidegauge.model_tests.simulated import simulated

NONE = ErrorCode.none
UNSTABLE = ErrorCode.unstable_offset_commit
ID = TransactionalId("x")
GROUP = GroupId("g")
MEMBERS_FROM = 3
"""The version of TxnOffsetCommit from which it says whose offsets they are (KIP-447)."""
VERSION_1, VERSION_2 = 4, 5
"""Versions of TxnOffsetCommit and EndTxn by which clients of a version of transactions speak."""


async def responded(peer: Asker, request: Any, is_final: Callable[[Any], bool]) -> Any:
    """The first response that is not to be asked for again."""
    while True:
        if is_final(response := await peer.ask(request)):
            return response
        await trio.sleep(0.1)


@attrs.define
class Producer:
    """A transactional producer without a memory of its own."""

    peer: Asker
    producer_id: int = -1
    epoch: int = -1
    version: int = VERSION_2

    async def begin(self) -> None:
        """Find the coordinator, and get an epoch."""
        find = FindCoordinatorRequest(key_type=i8(1), coordinator_keys=(ID,))
        await responded(self.peer, find, lambda response: response.coordinators[0].error_code is NONE)
        init = InitProducerIdRequest(
            transactional_id=ID,
            transaction_timeout=i32Timedelta.parse(timedelta(seconds=60)),
            producer_id=ProducerId(-1),
            producer_epoch=i16(-1),
        )
        given = await responded(self.peer, init, lambda response: response.error_code is NONE)
        self.producer_id, self.epoch = given.producer_id, given.producer_epoch

    async def commit(self, group: Asker, offset: int, **fields: Any) -> ErrorCode:
        """TxnOffsetCommit of the first partition of `t`, sent as long as the group's coordinator is not ready."""
        partition = commit_5.TxnOffsetCommitRequestPartition(
            partition_index=i32(0), committed_offset=i64(offset), committed_metadata=None
        )
        values: dict[str, Any] = {
            "transactional_id": ID,
            "group_id": GROUP,
            "producer_id": ProducerId(self.producer_id),
            "producer_epoch": i16(self.epoch),
            "topics": (commit_5.TxnOffsetCommitRequestTopic(name=TopicName("t"), partitions=(partition,)),),
            **fields,
        }
        request = commit_5.TxnOffsetCommitRequest(**values)
        spoken = convert(request, request_class(ApiKey.TXN_OFFSET_COMMIT, self.version))
        loading = ErrorCode.coordinator_load_in_progress
        response = await responded(group, spoken, lambda found: found.topics[0].partitions[0].error_code is not loading)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    async def add_offsets(self) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=ID,
            producer_id=ProducerId(self.producer_id),
            producer_epoch=i16(self.epoch),
            group_id=GROUP,
        )
        added = await responded(
            self.peer, request, lambda response: response.error_code is not ErrorCode.concurrent_transactions
        )
        return ErrorCode(added.error_code)

    async def end(self, *, commits: bool) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=ID,
            producer_id=ProducerId(self.producer_id),
            producer_epoch=i16(self.epoch),
            committed=commits,
        )
        ended = await self.peer.ask(convert(request, request_class(ApiKey.END_TXN, self.version)))
        if self.version == VERSION_2 and ended.error_code is NONE:
            self.producer_id, self.epoch = ended.producer_id, ended.producer_epoch
        return ErrorCode(ended.error_code)


@asynccontextmanager
async def writing(
    version: int = VERSION_2, brokers: int = 1, **settings: object
) -> AsyncIterator[tuple[Asked, Producer]]:
    async with grouped(brokers, transaction_state_log_num_partitions=1, **settings) as asked:
        producer = Producer(asked.peer, version=version)
        await producer.begin()
        yield asked, producer


async def decided(asked: Asked) -> tuple[int, str] | ErrorCode:
    """What is told once no transaction may change it any more."""
    while True:
        (told,) = await asked.fetch(0, stable=True)
        if told is not UNSTABLE:
            return told
        await trio.sleep(0.1)


@pytest.mark.parametrize("version", [VERSION_1, VERSION_2], ids=["version 1", "version 2"])
@simulated
async def test_an_offset_counts_when_its_transaction_commits_and_is_unstable_until_then(version: int) -> None:
    async with writing(version) as (asked, producer):
        assert await asked.commit((0, 1)) == [NONE]
        known = 1
        for offset, commits in ((2, True), (3, False), (4, True)):
            if version == VERSION_1:
                assert await producer.commit(asked.peer, offset) is ErrorCode.transaction_abortable, "it is not added"
                assert await producer.add_offsets() is NONE
            assert await producer.commit(asked.peer, offset) is NONE
            assert await producer.commit(asked.peer, offset) is NONE, "once more says the same"
            assert await asked.fetch(0) == [(known, "")]
            assert await asked.fetch(0, stable=True) == [UNSTABLE]
            assert await producer.end(commits=commits) is NONE
            known = offset if commits else known
            assert await decided(asked) == (known, "")
        assert not asked.core().offsets.pending


@simulated
async def test_who_may_not_commit_in_a_transaction_is_told_why() -> None:
    async with writing() as (asked, producer):
        other = attrs.evolve(producer, producer_id=producer.producer_id + 1)
        assert await other.commit(asked.peer, 1) is ErrorCode.invalid_producer_id_mapping
        assert await producer.commit(asked.peer, 1, generation_id=i32(3)) is ErrorCode.illegal_generation
        assert await producer.commit(asked.peer, 1, group_id=GroupId("")) is ErrorCode.invalid_group_id
        unknown = commit_5.TxnOffsetCommitRequestPartition(
            partition_index=i32(9), committed_offset=i64(1), committed_metadata=None
        )
        topics = (commit_5.TxnOffsetCommitRequestTopic(name=TopicName("t"), partitions=(unknown,)),)
        assert await producer.commit(asked.peer, 1, topics=topics) is ErrorCode.unknown_topic_or_partition
        assert await producer.commit(asked.peer, 1) is NONE
        zombie = attrs.evolve(producer)
        await producer.begin()
        assert await zombie.commit(asked.peer, 2) is ErrorCode.invalid_producer_epoch
        assert await zombie.add_offsets() is ErrorCode.producer_fenced
        assert await decided(asked) == (-1, ""), "the new process has had it aborted"


@pytest.mark.parametrize("version", range(6))
@simulated
async def test_a_member_of_another_epoch_is_refused_by_the_error_that_producers_abort_upon(version: int) -> None:
    """In all versions, of which those below 3 have no member to name; TxnOffsetCommit has no STALE_MEMBER_EPOCH."""
    async with writing(VERSION_2 if version == VERSION_2 else VERSION_1) as (asked, producer):
        producer.version = version
        assert (await Member(asked.peer).beat()).error_code is NONE
        assert version == VERSION_2 or await producer.add_offsets() is NONE
        says: dict[str, Any] = {"generation_id": i32(9), "member_id": "m"} if version >= MEMBERS_FROM else {}
        expected = ErrorCode.illegal_generation if says else NONE
        assert await producer.commit(asked.peer, 5, **says) is expected
        if says:
            assert await producer.commit(asked.peer, 5, **{**says, "generation_id": i32(2)}) is NONE


@simulated
async def test_an_offset_of_a_topic_that_is_deleted_while_its_transaction_is_verified_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The group has read nothing of the one that has the name again."""
    async with writing() as (asked, producer):
        verify = TransactionVerifier.verify

        async def late(verifier: TransactionVerifier, *args: Any, **fields: Any) -> Any:
            verified = await verify(verifier, *args, **fields)
            await asked.cluster.delete_topic("t")
            await asked.cluster.create_topic("t", partitions=2)
            return verified

        monkeypatch.setattr(TransactionVerifier, "verify", late)
        assert await producer.commit(asked.peer, 5) is ErrorCode.unknown_topic_or_partition
        assert await producer.end(commits=False) is NONE
        assert await producer.commit(asked.peer, 5) is ErrorCode.unknown_topic_or_partition
        monkeypatch.undo()
        assert await producer.end(commits=False) is NONE
        assert await producer.commit(asked.peer, 5) is NONE


@simulated
async def test_a_member_commits_in_a_transaction_what_it_has_and_has_had_since() -> None:
    async with writing() as (asked, producer):
        one, two = Member(asked.peer), Member(asked.peer, "n")
        await one.beat()
        await two.beat()
        says = {"member_id": "m", "generation_id": i32(2)}
        assert await producer.commit(asked.peer, 1, **says) is NONE, "the target is of a later epoch by now"
        for _ in range(2):
            await one.beat()
        assert (one.epoch, one.partitions) == (3, [0])
        assert await producer.commit(asked.peer, 2, **says) is NONE, "it is behind (KIP-1251)"


@simulated
async def test_a_new_coordinator_of_the_group_knows_what_is_open_and_gets_its_marker() -> None:
    async with writing(brokers=3, transaction_state_log_replication_factor=3) as (asked, producer):
        cluster = asked.cluster
        topic = cluster.broker(0).metadata.image.topics["__transaction_state"]
        producer.peer = await asker(cluster, topic.partitions[0].leader)
        await producer.begin()
        assert await asked.commit((0, 1)) == [NONE]
        assert await producer.commit(asked.peer, 2) is NONE
        former = asked.coordinator
        cluster.isolate(former)
        other = (former + 1) % 3
        await until(lambda: leader(cluster, other) not in (-1, former))
        found = await coordinator_of(cluster, ask=other)
        moved = attrs.evolve(asked, peer=await asker(cluster, found), coordinator=found)
        assert await moved.fetch(0, stable=True) == [UNSTABLE]
        assert await moved.fetch(0) == [(1, "")]
        cluster.heal()
        await trio.sleep(5)
        topic = cluster.broker(found).metadata.image.topics["__transaction_state"]
        producer.peer = await asker(cluster, topic.partitions[0].leader)
        while (error := await producer.end(commits=True)) is not NONE:
            assert error in (ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator), error
            await trio.sleep(0.2)
        assert await decided(moved) == (2, "")


@simulated
async def test_the_offsets_topic_is_there_before_its_partition_joins_a_transaction() -> None:
    async with Cluster(1, seed=1, config={**SETTINGS, "transaction.state.log.num.partitions": 1}) as cluster:
        producer = Producer(await asker(cluster, 0), version=VERSION_1)
        await producer.begin()
        assert "__consumer_offsets" not in cluster.broker(0).metadata.image.topics
        assert await producer.add_offsets() is NONE
        assert "__consumer_offsets" in cluster.broker(0).metadata.image.topics

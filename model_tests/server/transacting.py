"""A transactional producer that sends each request as it is told, in either version of the protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kio.schema.end_txn.v4.request import EndTxnRequest as EndTxnRequestV4
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest as InitProducerIdRequestV6
from kio.schema.types import ProducerId, TransactionalId

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch, decode_batches
from tidegauge.impl.wire.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from tidegauge.impl.wire.primitives import TopicName, i8, i16, i32, millis
from tidegauge.impl.wire.produce_messages import ProducePartition, ProduceRequest, ProduceTopic
from tidegauge.model_tests.server.asking import Asker, asker

TRANSACTION = i8(1)
BY_NAME = 12
BEGINNING_MS = 1_577_836_800_000
"""About what the clocks of simulated clusters say: a log of records of several days is read in several pieces."""
FEW: Mapping[str, Any] = {"transaction.state.log.num.partitions": 2}
"""Settings of a cluster whose transaction log does not take long to create."""


@attrs.define(eq=False)
class Transacting:
    """One process of a transactional id; its requests go to broker `leader`, or to the coordinator."""

    cluster: Cluster
    version: int = 2
    name: str = "tx"
    timeout_ms: int = 60_000
    leader: int = 0
    producer_id: int = -1
    epoch: int = -1
    two_phase: bool = False
    """Whether a database decides with it (KIP-939)."""
    ongoing: tuple[int, int] = (-1, -1)
    """The producer id and the epoch of the transaction that it has taken over."""
    sequences: dict[tuple[str, int], int] = attrs.field(factory=dict)
    askers: dict[int, Asker] = attrs.field(factory=dict)

    async def peer(self, broker: int) -> Asker:
        if broker not in self.askers:
            self.askers[broker] = await asker(self.cluster, broker)
        return self.askers[broker]

    async def coordinator(self) -> int:
        """The broker that coordinates; raises AssertionError where there is none."""
        request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=(self.name,))
        (found,) = (await (await self.peer(self.leader)).ask(request)).coordinators
        assert found.error_code is ErrorCode.none, found
        return int(found.node_id)

    async def ask_coordinator(self, request: Any) -> Any:
        return await (await self.peer(await self.coordinator())).ask(request)

    async def init(self, *, goes_on: bool = False, patient: bool = True, keeps: bool | None = None) -> ErrorCode:
        """Begin; `goes_on` with the id and the epoch that it has (KIP-360), `keeps` what is prepared or not (KIP-939).

        Without `keeps` it speaks version 5, which has no such field.
        """
        fields: dict[str, Any] = {
            "transactional_id": TransactionalId(self.name),
            "transaction_timeout": millis(self.timeout_ms),
            "producer_id": ProducerId(self.producer_id if goes_on else -1),
            "producer_epoch": i16(self.epoch if goes_on else -1),
        }
        request: InitProducerIdRequest | InitProducerIdRequestV6 = InitProducerIdRequest(**fields)
        if keeps is not None:
            request = InitProducerIdRequestV6(**fields, enable2_pc=self.two_phase, keep_prepared_txn=keeps)
        while True:
            response = await self.ask_coordinator(request)
            error: ErrorCode = response.error_code
            if not patient or error not in PATIENT:
                break
            await trio.sleep(0.05)
        if error is ErrorCode.none:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            if keeps is not None:
                self.ongoing = response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
            self.sequences.clear()
        return error

    async def add(self, topic: str = "t", *partitions: int) -> ErrorCode:
        """Add partitions (0 if none is named) by themselves, as a client of version 1 does; the error of the first."""
        indexes = tuple(map(i32, partitions or (0,)))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TransactionalId(self.name),
            v3_and_below_producer_id=ProducerId(self.producer_id),
            v3_and_below_producer_epoch=i16(self.epoch),
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=TopicName(topic), partitions=indexes),),
        )
        response = await self.ask_coordinator(request)
        error: ErrorCode = response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        return error

    async def write(self, value: bytes, topic: str = "t", partition: int = 0) -> ErrorCode:
        """Produce one record, and let the next one follow it if it was taken."""
        sequence = self.sequences.get((topic, partition), 0)
        who = ProducerIdentity(self.producer_id, self.epoch, sequence)
        batch = build_batch([Record(0, BEGINNING_MS, None, value)], producer=who, transactional=True)
        request = ProduceRequest(
            -1, 5_000, [ProduceTopic(topic, "", [ProducePartition(partition, batch)])], transactional_id=self.name
        )
        response = await (await self.peer(self.leader)).ask(request, 12 if self.version >= 2 else 11)
        error: ErrorCode = response.topics[0].partitions[0].error_code
        if error is ErrorCode.none:
            self.sequences[topic, partition] = sequence + 1
        return error

    async def write_patiently(self, value: bytes, topic: str = "t", partition: int = 0) -> None:
        """The same, again while the coordinator is not ready."""
        if self.version < 2:
            while (error := await self.add(topic, partition)) in PATIENT:  # noqa: ASYNC110
                await trio.sleep(0.05)
            assert error is ErrorCode.none, error
        while (error := await self.write(value, topic, partition)) in UNREADY:  # noqa: ASYNC110
            await trio.sleep(0.05)
        assert error is ErrorCode.none, error

    async def end(self, *, commit: bool) -> ErrorCode:
        """Commit or abort; version 2 gives the next epoch with it."""
        kind = EndTxnRequest if self.version >= 2 else EndTxnRequestV4
        request = kind(
            transactional_id=TransactionalId(self.name),
            producer_id=ProducerId(self.producer_id),
            producer_epoch=i16(self.epoch),
            committed=commit,
        )
        response = await self.ask_coordinator(request)
        error: ErrorCode = response.error_code
        if error is ErrorCode.none and self.version >= 2:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self.sequences.clear()
        return error

    async def read(self, topic: str = "t", partition: int = 0, *, committed: bool = True) -> list[bytes | None]:
        """The values that a consumer of this isolation level sees now."""
        asked = [FetchTopic(topic, "", [FetchPartition(partition, 0, 1 << 20)])]
        request = FetchRequest(asked, 0, 1, isolation_level=int(committed))
        response = await (await self.peer(self.leader)).ask(request, BY_NAME)
        (found,) = response.topics[0].partitions
        assert found.error_code is ErrorCode.none, found.error_code
        aborted = {(one.producer_id, one.first_offset) for one in found.aborted_transactions or ()}
        return visible(bytes(found.records or b""), aborted)

    async def until_read(self, expected: list[bytes], topic: str = "t", partition: int = 0) -> None:
        """Until committed records are these: markers come after the response."""
        while await self.read(topic, partition) != expected:  # noqa: ASYNC110 - virtual time, bounded by the test
            await trio.sleep(0.05)


def visible(records: bytes, aborted: set[tuple[int, int]]) -> list[bytes | None]:
    """What is left of fetched records, as clients leave out those of aborted transactions."""
    from tidegauge.impl.records.batches import headers

    values: list[bytes | None] = []
    skipping: set[int] = set()
    waiting = sorted(aborted, key=lambda one: one[1])
    for position, header in headers(records):
        while waiting and waiting[0][1] <= header.last_offset:
            skipping.add(waiting.pop(0)[0])
        if header.is_control:
            skipping.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipping):
            values += [record.value for record in decode_batches(records[position : position + header.size])]
    return values


PATIENT = (
    ErrorCode.concurrent_transactions,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)
UNREADY = (ErrorCode.not_enough_replicas, ErrorCode.not_leader_or_follower)


@asynccontextmanager
async def transacting(
    version: int = 2, brokers: int = 1, config: Mapping[str, Any] | None = None, *, trace: bool = True
) -> AsyncIterator[Transacting]:
    """A cluster with the topic `t` of two partitions, led by broker 0, and a producer that has begun."""
    async with Cluster(brokers=brokers, seed=1, config={**FEW, **(config or {})}, trace=trace) as cluster:
        await cluster.create_topic("t", assignments=[list(range(brokers))] * 2)
        producer = Transacting(cluster, version)
        assert await producer.init() is ErrorCode.none
        yield producer

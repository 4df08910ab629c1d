"""A transactional producer: records in several partitions become visible together, or not at all (KIP-98, KIP-890).

    producer = TransactionalProducer(client, "payments")
    async with producer.transaction() as transaction:
        await transaction.produce("orders", b"1")
        await transaction.produce("bills", b"1")

The block's end commits, an exception aborts; first it waits for what other tasks are still sending in it. A transaction
in which a record was not acknowledged is never committed, even if the caller has caught the error. A commit whose
outcome nobody could tell raises KafkaError with `maybe_done`.

Version 2 of the protocol (`transaction.version` 2): a partition joins a transaction by the first record, and the
coordinator's response to the end gives the epoch of the next transaction. Version 1: the producer adds each partition
and group first, the leader verifies that, and one epoch has many transactions. So a request of version 1 that was lost
might arrive in the next transaction: there is none under that epoch. After anything that leaves the coordinator's state
unknown the producer begins again (InitProducerId), which aborts what is open and fences any other process of the
transactional id.

Which version the cluster has is asked when a producer begins, and between two transactions when that was long ago. A
producer that changes to version 2 gets a new epoch first.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import trio
from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.end_txn.v4.request import EndTxnRequest as EndTxnRequestV4
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kio.schema.types import GroupId, ProducerId, TransactionalId

from tidegauge.impl.client import requests
from tidegauge.impl.client.coordinators import GROUP, TRANSACTION, Coordinator
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.membership import GroupMetadata
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch
from tidegauge.impl.wire.apis import ApiKey, request_class
from tidegauge.impl.wire.channel import NoResponseError
from tidegauge.impl.wire.primitives import TopicName, i16, i32, i64, millis
from tidegauge.impl.wire.versions import convert

if TYPE_CHECKING:
    from tidegauge.impl.client.client import Client

R = TypeVar("R")
Offsets = Mapping[tuple[str, int], int]
"""(topic, partition) -> the offset to go on from."""

ALL: Final = -1
SENT_AGAIN: Final = frozenset(
    {
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.concurrent_transactions,
    }
)
"""Errors of a leader after which a batch is sent again, besides those that every producer tries again upon."""
FENCED: Final = frozenset({ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch})
_SEQUENCES: Final = 1 << 31
VERSION_MAX_AGE_MS: Final = 300_000
"""As clients ask for metadata anew (`metadata.max.age.ms`)."""
_VERIFIED_PRODUCE: Final = 11
"""The last version of Produce that adds no partition."""
_VERIFIED_OFFSETS: Final = 4
"""The last version of TxnOffsetCommit that adds none."""
_FEATURE: Final = "transaction.version"
_EPOCH_PER_TRANSACTION: Final = 2
"""The level of the feature from which on each transaction has an epoch of its own (KIP-890)."""


class TransactionalProducer:
    """The producer of one transactional id; one transaction at a time."""

    def __init__(
        self,
        client: Client,
        transactional_id: str,
        *,
        transaction_timeout_ms: int = 60_000,
        version_max_age_ms: float = VERSION_MAX_AGE_MS,
    ) -> None:
        """`transaction_timeout_ms`: after so long the coordinator aborts what was not ended.

        `version_max_age_ms`: after so long the cluster is asked again which version of the protocol it has.
        """
        if not transactional_id:
            raise ValueError("the transactional id is empty: give one that no other application has")
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1
        """-1: it has to begin again."""
        self.version = _EPOCH_PER_TRANSACTION
        """Of the protocol, 1 or 2, as far as it knows."""
        self._version_until = -math.inf
        self._version_max_age = version_max_age_ms / 1000
        self._added: set[tuple[str, int] | str] = set()
        """The partitions and groups that the coordinator knows of (version 1)."""
        self._lost = 0
        """How many records had no response, and may yet arrive."""
        self._lost_before = 0
        self._timeout_ms = transaction_timeout_ms
        self._client = client
        self._coordinator = Coordinator(client, TRANSACTION, transactional_id)
        self._groups: dict[str, Coordinator] = {}
        self._sequences: dict[tuple[str, int], int] = {}
        self._is_open = False
        self._begins = False
        """Whether it has asked for another epoch, and does not know whether it has been given one."""
        self.is_fenced = False
        """Whether another process has the transactional id: this one can do nothing any more."""

    def transaction(self, timeout_ms: float | None = None) -> Transaction:
        """A transaction, to be used as `async with`; each of its requests may take `timeout_ms`."""
        return Transaction(self, timeout_ms)

    async def begin(self, timeout_ms: float | None = None) -> None:
        """Get an epoch, and abort and fence whatever had one before. The first transaction does so by itself.

        One that goes on under a new epoch is fenced where another process has begun since (KIP-360). Raises KafkaError.
        """
        await self._learn_version(timeout_ms)
        goes_on = self.epoch >= 0
        request = InitProducerIdRequest(
            transactional_id=TransactionalId(self.transactional_id),
            transaction_timeout=millis(self._timeout_ms),
            producer_id=ProducerId(self.producer_id if goes_on else -1),
            producer_epoch=i16(self.epoch if goes_on else -1),
        )
        self._begins = True
        response = await self._ask_coordinator(request, timeout_ms)
        self._begins = False
        self._take(response.producer_id, response.producer_epoch)

    def _take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    async def _learn_version(self, timeout_ms: float | None) -> None:
        """Ask the coordinator which version of the protocol the cluster has. Raises KafkaError."""
        request = ApiVersionsRequest(client_software_name="tidegauge", client_software_version="0")
        response = await self._coordinator.ask(request, _error_code, timeout_ms)
        levels = {one.name: one.max_version_level for one in response.finalized_features}
        self.version = 2 if levels.get(_FEATURE, 0) >= _EPOCH_PER_TRANSACTION else 1
        self._version_until = trio.current_time() + self._version_max_age

    # --- for transactions ------------------------------------------------------------------------------------------

    async def open(self, timeout_ms: float | None) -> None:
        """Begin a transaction. Raises KafkaError, and RuntimeError while another one is open."""
        if self._is_open:
            raise RuntimeError(f"{self.transactional_id!r} has a transaction open: end that one first")
        if self.is_fenced:
            raise KafkaError(ErrorCode.producer_fenced, f"another process has begun as {self.transactional_id!r}")
        self._is_open = True
        try:
            version = self.version
            if self.epoch >= 0 and trio.current_time() >= self._version_until:
                await self._learn_version(timeout_ms)
            if self.epoch < 0 or self.version > version or self._begins:
                await self.begin(timeout_ms)
            self._lost_before = self._losses()
        except BaseException:
            self._is_open = False
            raise

    async def end(self, timeout_ms: float | None, *, commit: bool) -> None:
        """End the transaction. Raises KafkaError."""
        kind = EndTxnRequest if self.version == _EPOCH_PER_TRANSACTION else EndTxnRequestV4
        request = kind(
            transactional_id=TransactionalId(self.transactional_id),
            producer_id=ProducerId(self.producer_id),
            producer_epoch=i16(self.epoch),
            committed=commit,
        )
        epoch, self.epoch = self.epoch, -1
        response = await self._ask_coordinator(request, timeout_ms)
        if self.version == _EPOCH_PER_TRANSACTION:
            if (response.producer_id, response.producer_epoch) != (self.producer_id, epoch):
                self._take(response.producer_id, response.producer_epoch)
                return
            self._version_until = -math.inf  # the cluster has an older version by now: epoch and sequences go on
        if self._losses() == self._lost_before:
            self.epoch = epoch

    def _losses(self) -> int:
        """How many requests had no response so far."""
        return self._lost + self._coordinator.lost + sum(one.lost for one in self._groups.values())

    def close(self, *, is_unknown: bool = False) -> None:
        """The transaction is over; `is_unknown`: nobody knows how far it came."""
        self._is_open = False
        self._added.clear()
        if is_unknown:
            self.epoch = -1

    async def append(self, topic: str, partition: int, values: tuple[bytes, ...], timeout_ms: float | None) -> int:
        """Append one batch of the transaction; returns its offset. Raises KafkaError."""
        client, key = self._client, (topic, partition)
        budget_ms = client.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = trio.current_time() + budget_ms / 1000
        sequence = self._sequences.get(key, 0)
        now_ms = client._clock.now_ms()
        batch = build_batch(
            [Record(nth, now_ms, None, value) for nth, value in enumerate(values)],
            producer=ProducerIdentity(self.producer_id, self.epoch, sequence),
            transactional=True,
        )
        requests.check_size(len(batch), client.config.message_max_bytes)

        if self.version < _EPOCH_PER_TRANSACTION:
            await self._add_partition(topic, partition, budget_ms)
        version = None if self.version == _EPOCH_PER_TRANSACTION else _VERIFIED_PRODUCE
        maybe_done = False

        async def attempt() -> int:
            nonlocal maybe_done
            route = await client._routes.leader(client, topic, partition)
            left_ms = max(1, math.ceil((deadline - trio.current_time()) * 1000))
            request = requests.produce(route, batch, ALL, left_ms)
            request.transactional_id = self.transactional_id
            try:
                wait_ms = left_ms + client.config.request_timeout_ms
                return requests.produced(await client._ask(route.address, request, wait_ms, version=version))
            except NoResponseError:
                maybe_done = True
                self._lost += 1
                raise
            except KafkaError as error:
                maybe_done |= error.maybe_done or error.code in (SENT_AGAIN - {ErrorCode.concurrent_transactions})
                if error.code in SENT_AGAIN:
                    raise KafkaError(ErrorCode.network_exception, str(error), maybe_done=True) from error
                raise

        try:
            offset = await client._repeat(attempt, topic, budget_ms, is_safe=_is_always_safe)
        except KafkaError as error:
            if maybe_done and not error.maybe_done:
                message = f"{error}; an earlier attempt may have been appended"
                raise KafkaError(error.code, message, maybe_done=True) from error
            raise
        self._sequences[key] = (sequence + len(values)) % _SEQUENCES
        return offset

    async def _add_partition(self, topic: str, partition: int, timeout_ms: float | None) -> None:
        """Have a partition join the transaction (version 1). Raises KafkaError: nothing was appended."""
        if (topic, partition) in self._added:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TransactionalId(self.transactional_id),
            v3_and_below_producer_id=ProducerId(self.producer_id),
            v3_and_below_producer_epoch=i16(self.epoch),
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=TopicName(topic), partitions=(i32(partition),)),),
        )
        await self._joined((topic, partition), request, _first_partition_error, timeout_ms)

    async def _add_group(self, group: GroupId, timeout_ms: float | None) -> None:
        """Have the partition of a group's offsets join the transaction (version 1). Raises KafkaError."""
        if group in self._added:
            return
        request = AddOffsetsToTxnRequest(
            transactional_id=TransactionalId(self.transactional_id),
            producer_id=ProducerId(self.producer_id),
            producer_epoch=i16(self.epoch),
            group_id=group,
        )
        await self._joined(group, request, _error_code, timeout_ms)

    async def _joined(
        self,
        what: tuple[str, int] | str,
        request: Any,
        error_of: Callable[[Any], ErrorCode],
        timeout_ms: float | None,
    ) -> None:
        try:
            await self._fenced_by(self._coordinator.ask(request, error_of, timeout_ms))
        except KafkaError as error:
            raise KafkaError(error.code, f"{what} did not join the transaction: {error}") from error
        self._added.add(what)

    async def _ask_coordinator(self, request: Any, timeout_ms: float | None) -> Any:
        """The coordinator's response. Raises KafkaError."""
        return await self._fenced_by(self._coordinator.ask(request, _error_code, timeout_ms))

    async def commit_offsets(
        self, member: GroupMetadata, offsets: Offsets, metadata: str | None, timeout_ms: float | None
    ) -> None:
        """Have a group's offsets committed with the transaction, in one request. Raises KafkaError."""
        group = GroupId(member.group_id)
        if group not in self._groups:
            self._groups[group] = Coordinator(self._client, GROUP, group)
        if self.version < _EPOCH_PER_TRANSACTION:
            await self._add_group(group, timeout_ms)
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            one = TxnOffsetCommitRequestPartition(
                partition_index=i32(partition), committed_offset=i64(offset), committed_metadata=metadata
            )
            topics.setdefault(topic, []).append(one)
        request = TxnOffsetCommitRequest(
            transactional_id=TransactionalId(self.transactional_id),
            group_id=group,
            producer_id=ProducerId(self.producer_id),
            producer_epoch=i16(self.epoch),
            generation_id=i32(member.identity.generation),
            member_id=member.identity.member_id,
            group_instance_id=member.instance_id,
            topics=tuple(
                TxnOffsetCommitRequestTopic(name=TopicName(name), partitions=tuple(partitions))
                for name, partitions in topics.items()
            ),
        )
        if self.version < _EPOCH_PER_TRANSACTION:
            request = convert(request, request_class(ApiKey.TXN_OFFSET_COMMIT, _VERIFIED_OFFSETS))
        await self._fenced_by(self._groups[group].ask(request, _first_error, timeout_ms))

    async def _fenced_by(self, response: Awaitable[R]) -> R:
        """What was asked of a coordinator; an error that fences is remembered."""
        try:
            return await response
        except KafkaError as error:
            self.is_fenced |= error.code in FENCED
            raise


class Transaction:
    """One transaction."""

    def __init__(self, producer: TransactionalProducer, timeout_ms: float | None) -> None:
        self._producer = producer
        self._timeout_ms = timeout_ms
        self._locks: dict[tuple[str, int], trio.Lock] = {}
        self._failure: KafkaError | None = None
        self._is_empty = True
        self._is_over = False
        self._parts = 0
        """How many are on their way."""
        self._landed = trio.Event()

    async def __aenter__(self) -> Self:
        await self._producer.open(self._timeout_ms)
        return self

    async def produce(self, topic: str, *values: bytes, partition: int = 0) -> int:
        """Append one batch of records with these values; returns the offset of the first.

        Raises KafkaError, and RuntimeError once the block has ended.
        """
        if not values:
            raise ValueError("produce without values: give at least one")
        async with self._part(), self._locks.setdefault((topic, partition), trio.Lock()):
            return await self._attempted(lambda: self._producer.append(topic, partition, values, self._timeout_ms))

    async def commit_offsets(
        self, group: str | GroupMetadata, offsets: Offsets, *, metadata: str | None = None
    ) -> None:
        """Let the group go on from these offsets, if the transaction is committed.

        Raises KafkaError, and RuntimeError once the block has ended.
        `group`: its name, or `Consumer.group_metadata()` of a member. Only what a member says of itself is refused when
        its partitions are somebody else's by now (ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID), and the
        transaction with it (KIP-447); a group's name alone is believed.
        `metadata`: what the broker keeps beside each offset, as long as `offset.metadata.max.bytes` (4096).
        """
        member = GroupMetadata(group) if isinstance(group, str) else group
        if not member.group_id or not offsets:
            raise ValueError(
                f"offsets {dict(offsets)} of group {member.group_id!r}: name a group, and give at least one offset"
            )
        async with self._part():
            await self._attempted(lambda: self._producer.commit_offsets(member, offsets, metadata, self._timeout_ms))

    @asynccontextmanager
    async def _part(self) -> AsyncIterator[None]:
        """Something that is sent in the transaction: the end waits for it. Raises RuntimeError after the end."""
        if self._is_over:
            raise RuntimeError("the transaction is over: what belongs to it is sent within its block")
        self._parts += 1
        try:
            yield
        finally:
            self._parts -= 1
            if not self._parts:
                self._landed.set()

    async def landed(self) -> None:
        """Wait until nothing of the transaction is on its way: it might join a later one (librdkafka 3575)."""
        if self._parts:
            self._landed = trio.Event()
            await self._landed.wait()

    async def _attempted(self, attempt: Callable[[], Awaitable[R]]) -> R:
        """A part of the transaction; without it there is no commit."""
        if self._failure is not None:
            raise KafkaError(ErrorCode.transaction_abortable, f"the transaction can only be aborted: {self._failure}")
        self._is_empty = False
        try:
            return await attempt()
        except KafkaError as error:
            self._failure = error
            raise
        except BaseException:
            self._failure = KafkaError(ErrorCode.request_timed_out, "a part was given up", maybe_done=True)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit; or abort, for an exception of the block or for a record that was not acknowledged."""
        self._is_over = True
        if error is None:
            await self._or_unknown(self.landed)
        if self._is_empty and not self._parts:
            self._producer.close()
            return
        if error is None and self._failure is None:
            await self._ended(lambda: self._producer.end(self._timeout_ms, commit=True))
            return
        with trio.move_on_after(ABORT_S, shield=True) as scope:
            await self.landed()
            await self._ended(lambda: self._aborted(is_told=error is None))
        if scope.cancelled_caught:
            self._producer.close(is_unknown=True)
        if error is None:
            raise KafkaError(ErrorCode.transaction_abortable, f"aborted: {self._failure}")

    async def _aborted(self, *, is_told: bool) -> None:
        """Abort; an error of that is told only where there is no other one. A new epoch aborts as well."""
        try:
            await self._producer.end(self._timeout_ms, commit=False)
        except KafkaError:
            self._producer.close(is_unknown=True)
            if is_told:
                raise

    async def _or_unknown(self, step: Callable[[], Awaitable[None]]) -> None:
        """A step of the end; where it fails nobody knows how far the transaction came."""
        try:
            await step()
        except BaseException:
            self._producer.close(is_unknown=True)
            raise

    async def _ended(self, end: Callable[[], Awaitable[None]]) -> None:
        await self._or_unknown(end)
        # In version 1 a record that was given up would be the next one of its epoch (KIP-360).
        self._producer.close(is_unknown=self._failure is not None and self._producer.version < _EPOCH_PER_TRANSACTION)


ABORT_S: Final = 10.0
"""How long a block that has failed waits for its abort; later the next transaction aborts it, or its time-out does."""


def _error_code(response: Any) -> ErrorCode:
    error: ErrorCode = response.error_code
    return error


def _first_partition_error(response: Any) -> ErrorCode:
    errors = (
        one.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for one in topic.results_by_partition
    )
    return next((error for error in errors if error is not ErrorCode.none), ErrorCode.none)


def _first_error(response: Any) -> ErrorCode:
    """The first of the partitions' errors; none where all are committed."""
    errors = (one.error_code for topic in response.topics for one in topic.partitions)
    return next((error for error in errors if error is not ErrorCode.none), ErrorCode.none)


def _is_always_safe(_: KafkaError) -> bool:
    """The leader knows a repeat by its sequence."""
    return True

"""A transactional producer: records in several partitions become visible together, or not at all (KIP-98, KIP-890).

    producer = TransactionalProducer(client, "payments")
    async with producer.transaction() as transaction:
        await transaction.produce("orders", b"1")
        await transaction.produce("bills", b"1")

The block's end commits, an exception aborts. A transaction in which a record was not acknowledged is never committed,
even if the caller has caught the error. A commit whose outcome nobody could tell raises KafkaError with `maybe_done`.

Version 2 of the protocol: a partition joins a transaction by the first record, and the coordinator's response to the
end gives the epoch of the next transaction. After anything that leaves the coordinator's state unknown the producer
begins again (InitProducerId), which aborts what is open and fences any other process of the transactional id.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import trio
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
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch
from tidegauge.impl.wire.channel import NoResponseError
from tidegauge.impl.wire.primitives import TopicName, i16, i32, i64, millis

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


class TransactionalProducer:
    """The producer of one transactional id; one transaction at a time."""

    def __init__(self, client: Client, transactional_id: str, *, transaction_timeout_ms: int = 60_000) -> None:
        """`transaction_timeout_ms`: after so long the coordinator aborts what was not ended."""
        if not transactional_id:
            raise ValueError("the transactional id is empty: give one that no other application has")
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1
        """-1: it has to begin again."""
        self._timeout_ms = transaction_timeout_ms
        self._client = client
        self._coordinator = Coordinator(client, TRANSACTION, transactional_id)
        self._groups: dict[str, Coordinator] = {}
        self._sequences: dict[tuple[str, int], int] = {}
        self._is_open = False
        self.is_fenced = False
        """Whether another process has the transactional id: this one can do nothing any more."""

    def transaction(self, timeout_ms: float | None = None) -> Transaction:
        """A transaction, to be used as `async with`; each of its requests may take `timeout_ms`."""
        return Transaction(self, timeout_ms)

    async def begin(self, timeout_ms: float | None = None) -> None:
        """Get an epoch, and abort and fence whatever had one before. The first transaction does so by itself.

        Raises KafkaError.
        """
        request = InitProducerIdRequest(
            transactional_id=TransactionalId(self.transactional_id), transaction_timeout=millis(self._timeout_ms)
        )
        response = await self._ask_coordinator(request, timeout_ms)
        self._take(response.producer_id, response.producer_epoch)

    def _take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    # --- for transactions ------------------------------------------------------------------------------------------

    async def open(self, timeout_ms: float | None) -> None:
        """Begin a transaction. Raises KafkaError, and RuntimeError while another one is open."""
        if self._is_open:
            raise RuntimeError(f"{self.transactional_id!r} has a transaction open: end that one first")
        if self.is_fenced:
            raise KafkaError(ErrorCode.producer_fenced, f"another process has begun as {self.transactional_id!r}")
        self._is_open = True
        try:
            if self.epoch < 0:
                await self.begin(timeout_ms)
        except BaseException:
            self._is_open = False
            raise

    async def end(self, timeout_ms: float | None, *, commit: bool) -> None:
        """End the transaction. Raises KafkaError."""
        request = EndTxnRequest(
            transactional_id=TransactionalId(self.transactional_id),
            producer_id=ProducerId(self.producer_id),
            producer_epoch=i16(self.epoch),
            committed=commit,
        )
        self.epoch = -1
        response = await self._ask_coordinator(request, timeout_ms)
        self._take(response.producer_id, response.producer_epoch)

    def close(self, *, is_unknown: bool = False) -> None:
        """The transaction is over; `is_unknown`: nobody knows how far it came."""
        self._is_open = False
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

        maybe_done = False

        async def attempt() -> int:
            nonlocal maybe_done
            route = await client._routes.leader(client, topic, partition)
            left_ms = max(1, math.ceil((deadline - trio.current_time()) * 1000))
            request = requests.produce(route, batch, ALL, left_ms)
            request.transactional_id = self.transactional_id
            try:
                response = await client._ask(route.address, request, left_ms + client.config.request_timeout_ms)
                return requests.produced(response)
            except NoResponseError:
                maybe_done = True
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

    async def _ask_coordinator(self, request: Any, timeout_ms: float | None) -> Any:
        """The coordinator's response. Raises KafkaError."""
        return await self._fenced_by(self._coordinator.ask(request, _error_code, timeout_ms))

    async def commit_offsets(self, group: GroupId, offsets: Offsets, timeout_ms: float | None) -> None:
        """Have a group's offsets committed with the transaction, in one request. Raises KafkaError."""
        if group not in self._groups:
            self._groups[group] = Coordinator(self._client, GROUP, group)
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            one = TxnOffsetCommitRequestPartition(
                partition_index=i32(partition), committed_offset=i64(offset), committed_metadata=None
            )
            topics.setdefault(topic, []).append(one)
        request = TxnOffsetCommitRequest(
            transactional_id=TransactionalId(self.transactional_id),
            group_id=group,
            producer_id=ProducerId(self.producer_id),
            producer_epoch=i16(self.epoch),
            topics=tuple(
                TxnOffsetCommitRequestTopic(name=TopicName(name), partitions=tuple(partitions))
                for name, partitions in topics.items()
            ),
        )
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

    async def __aenter__(self) -> Self:
        await self._producer.open(self._timeout_ms)
        return self

    async def produce(self, topic: str, *values: bytes, partition: int = 0) -> int:
        """Append one batch of records with these values; returns the offset of the first. Raises KafkaError."""
        if not values:
            raise ValueError("produce without values: give at least one")
        async with self._locks.setdefault((topic, partition), trio.Lock()):
            return await self._attempted(lambda: self._producer.append(topic, partition, values, self._timeout_ms))

    async def commit_offsets(self, group: str, offsets: Offsets) -> None:
        """Let the group go on from these offsets, if the transaction is committed. Raises KafkaError."""
        if not group or not offsets:
            raise ValueError(f"offsets {dict(offsets)} of group {group!r}: name a group, and give at least one offset")
        await self._attempted(lambda: self._producer.commit_offsets(GroupId(group), offsets, self._timeout_ms))

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
        if self._is_empty:
            self._producer.close()
            return
        if error is None and self._failure is None:
            await self._ended(lambda: self._producer.end(self._timeout_ms, commit=True))
            return
        with trio.move_on_after(ABORT_S, shield=True) as scope:
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

    async def _ended(self, end: Callable[[], Awaitable[None]]) -> None:
        try:
            await end()
        except BaseException:
            self._producer.close(is_unknown=True)
            raise
        self._producer.close()


ABORT_S: Final = 10.0
"""How long a block that has failed waits for its abort; later the next transaction aborts it, or its time-out does."""


def _error_code(response: Any) -> ErrorCode:
    error: ErrorCode = response.error_code
    return error


def _first_error(response: Any) -> ErrorCode:
    """The first of the partitions' errors; none where all are committed."""
    errors = (one.error_code for topic in response.topics for one in topic.partitions)
    return next((error for error in errors if error is not ErrorCode.none), ErrorCode.none)


def _is_always_safe(_: KafkaError) -> bool:
    """The leader knows a repeat by its sequence."""
    return True

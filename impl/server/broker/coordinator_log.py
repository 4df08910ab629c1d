"""The log of a coordinator: the partitions of its internal topic that this broker leads, loaded and appended to.

Theory of operation
-------------------
A coordinator keeps all that it must not forget in a compacted topic. The leader of a partition of that topic is the
coordinator of the keys in it, and what it knows of them is a function of the partition's log:

    a leader epoch begins here   `new_state`, `replay` of each batch up to the log's end, `load`, then `loaded`
    append                       the batch is committed, then its `apply` is called; both in the order of the log
    the leader epoch ends        `resigned`; what was not applied by then never is

Only what is committed is replayed or applied: what another leader may come without, nobody was told. So a load ends no
sooner than the high watermark has reached the end that the log had when the epoch began, and a new epoch begins from
the log again, also where the same broker leads in it.

An append is made at once, before `append` first waits: appends come into the log in the order of the calls. One whose
commit takes longer than its caller waits is applied all the same when it is committed.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.leader import ACKS_ALL
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.records.batches import BatchHeader, RecordError, checked_header, extents
from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.records.markers import MarkerRecord, marker_record
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.records.payload import NO_PRODUCER, ProducerIdentity, Record, build_batch, decode_records
from tidegauge.impl.server.broker.appends import (
    COMMITTED,
    PENDING,
    REFUSED,
    AppendOutcome,
    PartitionAppend,
    PartitionMarker,
)
from tidegauge.impl.server.pace import Pace
from tidegauge.impl.server.requests.reads import PartitionRead

if TYPE_CHECKING:
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.broker.partition import Partition, TopicPartition
    from tidegauge.impl.server.broker.replica_manager import ReplicaManager
    from tidegauge.impl.server.broker.tasks import BrokerTasks

S = TypeVar("S")

LOGGER: Final = logging.getLogger(__name__)
_RECORD_UNITS: Final = 20
"""Of work, as `impl.server.pace` counts it, to decode and replay one record."""
RELOAD_S: Final = 1
"""Before a log that could not be read is read again."""


class LoggedBatch(NamedTuple):
    """A batch of a coordinator's log, as it is replayed."""

    header: BatchHeader
    records: Sequence[Record]
    """A record without a value deletes its key; a marker's batch has none."""
    marker: MarkerRecord | None
    """What a control batch says."""


class Apply(Protocol):
    """What an append changes in its coordinator's state."""

    def __call__(self, base_offset: int, /) -> None:
        """Called once the batch is committed, with the offset of its first record."""


@attrs.define(eq=False, repr=False)
class _Append:
    """An append that is in the log and not applied yet."""

    base_offset: int
    end_offset: int
    apply: Apply
    is_applied: bool = False
    begun: float = attrs.field(factory=trio.current_time)


@attrs.define(eq=False, repr=False)
class Led(Generic[S]):
    """A partition of the topic, in one leader epoch of this broker."""

    index: int
    leader_epoch: int
    state: S
    is_loaded: bool = False
    is_led: bool = True
    """False once the epoch has ended: nothing of it counts any more."""
    settled: trio.Event = attrs.field(factory=trio.Event)
    """Set once it is loaded, or the epoch has ended."""
    appends: deque[_Append] = attrs.field(factory=deque)
    """In the order of the log."""

    @property
    def waits_s(self) -> float:
        """For how long the oldest append has not been committed, in seconds; 0 where there is none."""
        return trio.current_time() - self.appends[0].begun if self.appends else 0.0


class Coordinator(Protocol[S]):
    """What has its log here."""

    def new_state(self, index: int, leader_epoch: int) -> S:
        """What is known of an empty partition."""

    def replay(self, state: S, batch: LoggedBatch) -> int:
        """Take in a batch of the log; returns how many records it passed over, as of versions that are not known here.

        Raises ValueError for bytes that are no record.
        """

    async def load(self, led: Led[S], pace: Pace) -> int:
        """All was replayed: what takes long is done now, while requests still wait. Returns and raises as `replay`."""

    def loaded(self, led: Led[S]) -> None:
        """Requests are served from now on, and what the log has left open is taken up."""

    def resigned(self, led: Led[S]) -> None:
        """The epoch has ended."""


def _nothing() -> None:
    """What most appends do when they come to nothing."""


class CoordinatorLog(Generic[S]):
    """One coordinator's topic, at one broker."""

    def __init__(
        self,
        topic: str,
        coordinator: Coordinator[S],
        replicas: ReplicaManager,
        tasks: BrokerTasks,
        clock: Clock,
        load_bytes: Callable[[], int],
    ) -> None:
        """`load_bytes`: how many are read at once while a partition is loaded."""
        self.topic = topic
        self._coordinator = coordinator
        self._replicas = replicas
        self._tasks = tasks
        self._clock = clock
        self._load_bytes = load_bytes
        self._led: dict[int, Led[S]] = {}

    def __iter__(self) -> Iterator[Led[S]]:
        """The partitions that are loaded, in the order of their indexes."""
        return iter([self._led[index] for index in sorted(self._led) if self._led[index].is_loaded])

    @property
    def every(self) -> list[Led[S]]:
        """The same, and those that are being loaded."""
        return [self._led[index] for index in sorted(self._led)]

    @property
    def is_leading(self) -> bool:
        """Whether this broker leads a partition of the topic, loaded or not."""
        return bool(self._led)

    @property
    def is_loading(self) -> bool:
        """Whether it leads one that is not loaded yet."""
        return not all(led.is_loaded for led in self._led.values())

    def led(self, index: int) -> Led[S] | ErrorCode:
        """The partition, if this broker is its coordinator: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS."""
        led = self._led.get(index)
        if led is None:
            return ErrorCode.not_coordinator
        return led if led.is_loaded else ErrorCode.coordinator_load_in_progress

    # --- leader epochs -------------------------------------------------------------------------------------------

    def leadership_changed(self, partition: Partition) -> None:
        """A leader epoch has begun, here or elsewhere, or the replica is gone."""
        self._resign(partition.index)
        replica = partition.replica
        if partition.is_gone or not replica.is_leader:
            return
        state = self._coordinator.new_state(partition.index, replica.leader_epoch)
        led = self._led[partition.index] = Led(partition.index, replica.leader_epoch, state)
        self._tasks.start_soon(self._load, partition, led)

    def _resign(self, index: int) -> None:
        led = self._led.pop(index, None)
        if led is not None:
            led.is_led = False
            led.settled.set()
            led.appends.clear()
            self._coordinator.resigned(led)

    async def _load(self, partition: Partition, led: Led[S]) -> None:
        """Replay the log up to the end that it has now, once that is committed.

        What cannot be read for want of room or descriptors is read again; a disk that fails ends the epoch.
        """
        replica, key = partition.replica, partition.key
        end = 0 if partition.is_gone else replica.log_end_offset
        await self._until_committed(key, led, lambda: replica.high_watermark >= end)
        if not led.is_led:
            return
        is_told = False
        while led.is_led:
            pace = Pace(until_running=self._clock.until_running)
            try:
                passed_over = await self._replay(partition, led, end, pace)
                if led.is_led:
                    passed_over += await self._coordinator.load(led, pace)
            except (RecordError, ValueError, OSError) as error:
                is_passing = isinstance(error, OSError)
                if led.is_led and not is_told:
                    self._tell_not_loaded(led, error, is_passing=is_passing)
                    is_told = True
                if not is_passing and led.is_led:
                    self._resign(led.index)
            else:
                if led.is_led:
                    led.is_loaded = True
                    self._coordinator.loaded(led)
                    led.settled.set()
                    self._tell_passed_over(led, passed_over)
                return
            await trio.sleep(RELOAD_S)
            await self._clock.until_running()
            if led.is_led:
                led.state = self._coordinator.new_state(led.index, led.leader_epoch)

    def _tell_not_loaded(self, led: Led[S], error: Exception, *, is_passing: bool) -> None:
        log_event(
            LOGGER,
            logging.ERROR,
            "coordinator not loaded",
            partition=f"{self.topic}-{led.index}",
            why=error,
            next="it is tried again until it can be read, and its keys have no coordinator meanwhile"
            if is_passing
            else "its keys have no coordinator until that is mended, or a broker with a whole log leads",
        )

    def _tell_passed_over(self, led: Led[S], records: int) -> None:
        if records:
            log_event(
                LOGGER,
                logging.WARNING,
                "records passed over",
                partition=f"{self.topic}-{led.index}",
                records=records,
                why="of versions that are not known here: an upgrade that was undone has left them, perhaps",
                next="they stay in the log, and count for nothing",
            )

    async def _replay(self, partition: Partition, led: Led[S], end: int, pace: Pace) -> int:
        """Returns how many records were passed over. Raises RecordError, ValueError or OSError."""
        offset, passed_over = partition.log.log_start_offset, 0
        while offset < end and led.is_led:
            read = PartitionRead(self.topic, led.index, offset, self._load_bytes(), led.leader_epoch)
            (outcome,) = await self._replicas.read([read], max_bytes=read.max_bytes)
            response = outcome.response
            if response.error is ErrorCode.kafka_storage_error:
                raise OSError(f"nothing can be read from offset {offset}: KAFKA_STORAGE_ERROR")
            if response.error is not ErrorCode.none:
                raise ValueError(f"nothing can be read from offset {offset}: {response.error.name.upper()}")
            batches = in_memory(response.records)
            if not batches:
                break  # the cleaner has taken what was there
            for extent in extents(batches):
                batch = _logged(batches, extent.position)
                await pace.did(_RECORD_UNITS * (len(batch.records) + 1))
                if not led.is_led:
                    return 0
                try:
                    passed_over += self._coordinator.replay(led.state, batch)
                except (RecordError, ValueError) as error:
                    raise ValueError(f"the batch from offset {batch.header.base_offset} on: {error}") from error
                offset = extent.next_offset
        return passed_over

    async def _until_committed(self, key: TopicPartition, led: Led[S], is_committed: Callable[[], bool]) -> None:
        """Wait until it is, or the epoch has ended."""

        def ready() -> bool | None:
            return True if not led.is_led or is_committed() else None

        if ready() is None:
            await self._replicas.effects.produces.until([key], ready, math.inf)

    async def until_applied(self, led: Led[S], end: int) -> None:
        """Wait until what the partition's log had below `end` is loaded or applied, or the epoch has ended."""
        await led.settled.wait()
        partition = self._replicas.get(self.topic, led.index)
        if partition is None:
            return
        replica = partition.replica
        await self._until_committed(partition.key, led, lambda: replica.high_watermark >= end)
        committed = [one for one in led.appends if one.end_offset <= end]
        if led.is_led and committed:
            self._apply(led, committed[-1])

    # --- append --------------------------------------------------------------------------------------------------

    async def append(
        self,
        led: Led[S],
        records: Sequence[tuple[bytes, bytes | None]],
        apply: Apply,
        *,
        timeout_ms: float,
        producer: ProducerIdentity = NO_PRODUCER,
        drop: Callable[[], None] = _nothing,
    ) -> ErrorCode:
        """Append keys with their values (None deletes one) in one batch; NONE once it is committed and applied.

        With a `producer` the batch is part of that one's transaction. `drop` is called instead of `apply` for a batch
        that will never be in the log. Neither is, once the epoch has ended.

        Errors: COORDINATOR_NOT_AVAILABLE when it could not be appended, or is not committed in time and may be yet;
        NOT_COORDINATOR when the epoch has ended, and nobody knows what becomes of it; UNKNOWN_SERVER_ERROR for a batch
        that is too large; INVALID_PRODUCER_EPOCH and INVALID_TXN_STATE for a producer that is fenced, or whose
        transaction is not open here and is not verified.
        """
        partition = self._replicas.get(self.topic, led.index)
        if not led.is_led or partition is None:
            return ErrorCode.not_coordinator
        if producer is not NO_PRODUCER:
            refusal = partition.replica.coordinators_batch_error(producer.producer_id, producer.producer_epoch)
            if refusal is not ErrorCode.none:
                drop()
                return refusal
            partition.replica.end_verification(producer.producer_id)
        now_ms = self._clock.now_ms()
        batch = build_batch(
            [Record(nth, now_ms, key, value) for nth, (key, value) in enumerate(records)],
            producer=producer,
            transactional=producer is not NO_PRODUCER,
        )
        begins = partition.log.log_end_offset
        waiting = _Append(begins, begins + len(records), apply)
        append = PartitionAppend(self.topic, led.index, batch)
        outcome = await self._appended(
            partition,
            led,
            waiting,
            partial(self._replicas.append, [append], acks=ACKS_ALL, timeout_ms=timeout_ms, origin=Origin.BROKER),
        )
        if outcome.state is REFUSED and led.is_led:
            drop()
        if waiting.is_applied:
            return ErrorCode.none
        if outcome.state is REFUSED:
            return ERRORS.get(outcome.error, outcome.error)
        if not led.is_led:
            return ErrorCode.not_coordinator
        return ErrorCode.coordinator_not_available if outcome.state is PENDING else ERRORS[outcome.error]

    async def append_marker(
        self, led: Led[S], marker: PartitionMarker, apply: Apply, *, timeout_ms: float
    ) -> ErrorCode:
        """End a producer's transaction in the partition; NONE once the marker is committed and applied.

        Errors: those of a marker; NOT_LEADER_OR_FOLLOWER when the epoch has ended, and REQUEST_TIMED_OUT when the
        marker is not committed in time, and may be yet.
        """
        partition = self._replicas.get(self.topic, led.index)
        if not led.is_led or partition is None:
            return ErrorCode.not_leader_or_follower
        begins = partition.log.log_end_offset
        waiting = _Append(begins, begins + 1, apply)
        submit = partial(self._replicas.append_markers, [marker], timeout_ms=timeout_ms, pace=Pace())
        outcome = await self._appended(partition, led, waiting, submit)
        if waiting.is_applied:
            return ErrorCode.none
        if outcome.state is not REFUSED and not led.is_led:
            return ErrorCode.not_leader_or_follower
        return ErrorCode.request_timed_out if outcome.state is PENDING else outcome.error

    async def _appended(
        self,
        partition: Partition,
        led: Led[S],
        waiting: _Append,
        submit: Callable[[], Awaitable[Sequence[AppendOutcome]]],
    ) -> AppendOutcome:
        """Append, and apply what was appended when it is committed, or later when that takes too long.

        `submit` appends before it first waits.
        """
        led.appends.append(waiting)
        try:
            (outcome,) = await submit()
        except trio.Cancelled:
            self._tasks.start_soon(self._apply_later, partition, led, waiting)  # the client that asked is gone
            raise
        if outcome.state is REFUSED:
            if waiting in led.appends:
                led.appends.remove(waiting)
        elif not led.is_led:
            pass  # whether it was applied is known, and it never will be
        elif outcome.state is COMMITTED or outcome.error is ErrorCode.not_enough_replicas_after_append:
            self._apply(led, waiting)
        else:
            self._tasks.start_soon(self._apply_later, partition, led, waiting)
        return outcome

    async def _apply_later(self, partition: Partition, led: Led[S], waiting: _Append) -> None:
        """Nobody waits for the append any more."""
        replica = partition.replica
        await self._until_committed(partition.key, led, lambda: replica.high_watermark >= waiting.end_offset)
        if led.is_led:
            self._apply(led, waiting)

    def _apply(self, led: Led[S], last: _Append) -> None:
        """Apply what is committed up to `last`: of two appends that one high watermark has passed either task may be
        the first to run.
        """
        while led.appends and not last.is_applied:
            first = led.appends.popleft()
            first.is_applied = True
            first.apply(first.base_offset)


def _logged(batches: bytes | bytearray | memoryview, position: int) -> LoggedBatch:
    header = checked_header(batches, position)
    if header.is_control:
        return LoggedBatch(header, (), marker_record(batches, position))
    return LoggedBatch(header, decode_records(batches, position), None)


ERRORS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}
"""What clients of a coordinator are told of an append that has failed."""

"""Writing markers: WriteTxnMarkers to the leaders of the partitions of prepared transactions, until all have them.

Each marker has one task, which ends when the core waits for no partition of it any more: all have acknowledged it, or
another broker coordinates. A partition that has no leader now, or whose leader refuses or does not respond, is tried
again after retry.backoff.ms. One whose topic was deleted has nothing left to end.

A refusal for an epoch does not pass with time, and is logged. TRANSACTION_COORDINATOR_FENCED says that a later
coordinator has written there: this one stops. INVALID_PRODUCER_EPOCH says that the partition knows a later epoch of the
producer, which no coordinator has given away: the marker is sent there again ever more seldom, at last every
`REFUSED_MAX_MS`. A repeat of a marker is no such case: partitions take it (KAFKA-19999).

To one broker goes one request at a time, with all markers that have come meanwhile.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final

import attrs
import trio
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId

from tidegauge.impl.coordinators.transactions.coordinator import TransactionCoordinator
from tidegauge.impl.coordinators.transactions.messages import Append, Marker
from tidegauge.impl.coordinators.transactions.metadata import TopicPartition
from tidegauge.impl.partition.registration import NO_LEADER
from tidegauge.impl.ports.repeated_lines import RepeatedLines
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError
from tidegauge.impl.wire.primitives import TopicName, i8, i16, i32

if TYPE_CHECKING:
    from kio.schema.write_txn_markers.v2.request import WritableTxnMarker
    from kio.schema.write_txn_markers.v2.response import WriteTxnMarkersResponse

    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.broker.coordination_trace import CoordinationTrace
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.peers import Peers
    from tidegauge.impl.server.broker.tasks import BrokerTasks

LOGGER: Final = logging.getLogger(__name__)
AT_ONCE: Final = 1_000
"""Partitions of one marker in a request."""
IN_A_REQUEST: Final = 4_000
"""Markers and partitions in a request: less than half of the elements that it may have (`wire.element_limits`)."""
REFUSED_MAX_MS: Final = 30_000
"""The longest wait before a marker that was refused for its producer's epoch is sent again."""
LATER_COORDINATOR: Final = ErrorCode.transaction_coordinator_fenced
LATER_EPOCH: Final = ErrorCode.invalid_producer_epoch
WHY: Final = {
    LATER_COORDINATOR: "a later coordinator has written markers there",
    LATER_EPOCH: "the partition knows a later epoch of the producer",
}
NEXT: Final = {
    LATER_COORDINATOR: "it is not sent again, and the later coordinator completes the transaction; if there is none, "
    "elect leaders of that partition of the transaction log until its leader epoch is greater",
    LATER_EPOCH: "it is sent there again ever more seldom, and the transaction stays prepared until it is taken or the "
    "topic is deleted",
}
_Key = tuple[int, int, str, int, int]


@attrs.define(eq=False, repr=False)
class _MarkerPart:
    """A marker for some partitions of one broker, and which of them have it."""

    marker: Marker
    partitions: Sequence[TopicPartition]
    written: frozenset[TopicPartition] = frozenset()
    refused: Mapping[TopicPartition, ErrorCode] = attrs.field(factory=dict)
    """Those that have refused it for an epoch."""
    done: trio.Event = attrs.field(factory=trio.Event)


class _Refusals:
    """Where one marker was refused for its producer's epoch, and from when on it is to be sent there again."""

    def __init__(self) -> None:
        self._until: dict[TopicPartition, float] = {}
        self._waits_ms: dict[TopicPartition, int] = {}

    def due(self, partitions: Set[TopicPartition], now: float) -> set[TopicPartition]:
        """Those to which the marker is to be sent now."""
        return {one for one in partitions if self._until.get(one, now) <= now}

    def note(self, tried: Set[TopicPartition], refused: Set[TopicPartition], retry_ms: int, now: float) -> None:
        """Each refusal in a row doubles the wait."""
        for one in tried - refused:
            self._until.pop(one, None)
            self._waits_ms.pop(one, None)
        for one in refused:
            wait_ms = max(retry_ms, min(2 * self._waits_ms.get(one, retry_ms), REFUSED_MAX_MS))
            self._waits_ms[one], self._until[one] = wait_ms, now + wait_ms / 1000

    def pause(self, partitions: Set[TopicPartition], retry_ms: int, now: float) -> float:
        """Seconds until the marker is to be sent to any of these."""
        return min(max(0.0, self._until.get(one, now + retry_ms / 1000) - now) for one in partitions)


class MarkerSender:
    """Has markers written."""

    def __init__(
        self,
        core: Callable[[], TransactionCoordinator],
        complete: Callable[[Append[None]], None],
        metadata: MetadataCache,
        peers: Peers,
        tasks: BrokerTasks,
        clock: Clock,
        trace: CoordinationTrace,
        *,
        retry_ms: Callable[[], int | None],
    ) -> None:
        """`complete` appends a complete record; without `retry_ms` each marker is sent once."""
        self._core = core
        self._complete = complete
        self._metadata = metadata
        self._peers = peers
        self._tasks = tasks
        self._clock = clock
        self._trace = trace
        self._retry_ms = retry_ms
        self._sending: set[_Key] = set()
        self._parts: dict[int, list[_MarkerPart]] = {}
        """By broker; one that is here has a task that sends them."""
        self._lines = RepeatedLines()

    def send(self, markers: Iterable[Marker]) -> None:
        """Have these markers written; those that are being written already are left to their task."""
        for marker in markers:
            key = _key(marker)
            if key not in self._sending:
                self._sending.add(key)
                self._tasks.start_soon(self._write, marker, key)

    async def _write(self, marker: Marker, key: _Key) -> None:
        refusals, told = _Refusals(), False
        try:
            while unmarked := self._core().unmarked(marker):
                refused: dict[TopicPartition, ErrorCode] = {}
                tried = refusals.due(unmarked, trio.current_time())
                await self._write_once(marker, tried, refused)
                retry_ms, left = self._retry_ms(), self._core().unmarked(marker)
                if refused and left and not told:
                    self._tell(marker, refused)
                    told = True
                if retry_ms is None or not left or LATER_COORDINATOR in refused.values():
                    return
                now = trio.current_time()
                refusals.note(tried, refused.keys(), retry_ms, now)
                await trio.sleep(refusals.pause(left, retry_ms, now))
                await self._clock.until_running()
        finally:
            self._sending.discard(key)

    def _tell(self, marker: Marker, refused: Mapping[TopicPartition, ErrorCode]) -> None:
        """Log that a marker was refused for an epoch: once for each marker."""
        error = LATER_COORDINATOR if LATER_COORDINATOR in refused.values() else LATER_EPOCH
        first = min(one for one in refused if refused[one] is error)
        self._lines.log_event(
            LOGGER,
            logging.ERROR,
            "marker refused",
            partition=f"{first.topic}-{first.partition}",
            transactional_id=marker.transactional_id,
            producer_id=marker.producer_id,
            producer_epoch=marker.epoch,
            coordinator_epoch=marker.coordinator_epoch,
            why=WHY[error],
            next=NEXT[error],
        )

    async def _write_once(
        self, marker: Marker, unmarked: Set[TopicPartition], refused: dict[TopicPartition, ErrorCode]
    ) -> None:
        """Send the marker to each of these once; `refused` gets those that refuse it for an epoch."""
        by_leader, gone = self._routes(unmarked)
        if gone:
            self._acknowledge(marker, gone)
        if len(by_leader) == 1:
            ((leader, partitions),) = by_leader.items()
            await self._write_at(leader, marker, partitions, refused)
        else:
            async with trio.open_nursery() as nursery:
                for leader, partitions in by_leader.items():
                    nursery.start_soon(self._write_at, leader, marker, partitions, refused)

    def _routes(
        self, partitions: Set[TopicPartition]
    ) -> tuple[Mapping[int, list[TopicPartition]], set[TopicPartition]]:
        """The partitions by their leaders, and those that were deleted; one without a leader is neither."""
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        gone = set()
        for one in sorted(partitions):
            registration = self._metadata.image.partition(one.topic, one.partition)
            if registration is None:
                gone.add(one)
            elif registration.leader != NO_LEADER:
                by_leader[registration.leader].append(one)
        return by_leader, gone

    def _acknowledge(self, marker: Marker, partitions: Set[TopicPartition]) -> None:
        self._trace.acknowledged(marker, self._core().unmarked(marker), partitions)
        append = self._core().marker_written(marker, partitions, self._clock.now_ms())
        if append is not None:
            self._complete(append)

    # --- requests --------------------------------------------------------------------------------------------------

    async def _write_at(
        self,
        broker_id: int,
        marker: Marker,
        partitions: Sequence[TopicPartition],
        refused: dict[TopicPartition, ErrorCode],
    ) -> None:
        """Send a marker to one broker, and tell the core who has it."""
        starts = range(0, len(partitions), AT_ONCE)
        parts = [_MarkerPart(marker, partitions[start : start + AT_ONCE]) for start in starts]
        if broker_id in self._parts:
            self._parts[broker_id] += parts
        else:
            self._parts[broker_id] = parts.copy()
            self._tasks.start_soon(self._send_all, broker_id)
        for part in parts:
            await part.done.wait()
            refused.update(part.refused)
            if part.written:
                self._acknowledge(marker, part.written)

    async def _send_all(self, broker_id: int) -> None:
        """Send what there is for a broker until there is nothing more."""
        while self._parts[broker_id]:
            batch = self._take(broker_id)
            try:
                await self._request(broker_id, batch)
            finally:
                for part in batch:
                    part.done.set()
        del self._parts[broker_id]

    def _take(self, broker_id: int) -> list[_MarkerPart]:
        """The parts of the next request."""
        parts, size = self._parts[broker_id], 0
        for count, part in enumerate(parts):
            size += 1 + len(part.partitions)
            if count and size > IN_A_REQUEST:
                self._parts[broker_id] = parts[count:]
                return parts[:count]
        self._parts[broker_id] = []
        return parts

    async def _request(self, broker_id: int, parts: Sequence[_MarkerPart]) -> None:
        from kio.schema.write_txn_markers.v2.request import WriteTxnMarkersRequest

        channel = self._peers.channel(broker_id, "markers")
        if channel is None:
            return
        try:
            response = await channel.request(WriteTxnMarkersRequest(markers=tuple(map(_message, parts))))
        except (UnreachableError, NoResponseError):
            return
        _note(parts, response)
        await self._clock.until_running()


def _key(marker: Marker) -> _Key:
    return marker.log_partition, marker.coordinator_epoch, marker.transactional_id, marker.producer_id, marker.epoch


def _message(part: _MarkerPart) -> WritableTxnMarker:
    from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WritableTxnMarkerTopic

    marker = part.marker
    topics: dict[str, list[i32]] = defaultdict(list)
    for one in part.partitions:
        topics[one.topic].append(i32(one.partition))
    return WritableTxnMarker(
        producer_id=ProducerId(marker.producer_id),
        producer_epoch=i16(marker.epoch),
        transaction_result=marker.is_commit,
        topics=tuple(
            WritableTxnMarkerTopic(name=TopicName(name), partition_indexes=tuple(indexes))
            for name, indexes in topics.items()
        ),
        coordinator_epoch=i32(marker.coordinator_epoch),
        transaction_version=i8(marker.transaction_version),
    )


def _note(parts: Sequence[_MarkerPart], response: WriteTxnMarkersResponse) -> None:
    """Which partitions have the markers, and which refuse them: the results are in the order of the request."""
    for part, result in zip(parts, response.markers, strict=True):
        errors = {
            TopicPartition(topic.name, partition.partition_index): partition.error_code
            for topic in result.topics
            for partition in topic.partitions
        }
        part.written = frozenset(one for one, error in errors.items() if error is ErrorCode.none)
        part.refused = {one: error for one, error in errors.items() if error in WHY}

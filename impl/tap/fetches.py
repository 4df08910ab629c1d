"""What a Fetch request asks for, and what its response gives the client: the records that a client's library keeps.

A response has whole batches: a library leaves out the records before its position, control batches, and with
read_committed the records of aborted transactions, of which the response says where they begin (KIP-98). The tap leaves
out the same. With a fetch session (KIP-227) a request names only what has changed since the one before.
"""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.impl.records.batches import Buffer, RecordError, checked_header, extents
from tidegauge.impl.records.markers import ABORT_MARKER, marker_record
from tidegauge.impl.tap.ends import Ends
from tidegauge.impl.tap.exchange import Exchange, Line
from tidegauge.impl.tap.identities import identities
from tidegauge.impl.tap.topic_names import INTERNAL, TopicNames
from tidegauge.impl.wire.fetch_messages import (
    NO_SESSION,
    AbortedTransaction,
    FetchRequest,
    FetchResponse,
    PartitionFetched,
)

READ_COMMITTED: Final = 1
MOST_POSITIONS: Final = 100_000
"""Positions of one connection that are kept; of a fetch beyond them nobody knows where it began."""

Place = tuple[str, str, int]


@attrs.define(eq=False)
class Sessions:
    """What one connection has told of its positions, and of which high watermarks it was told."""

    session_id: int = NO_SESSION
    positions: dict[Place, int] = attrs.field(factory=dict)
    high_watermarks: dict[Place, int] = attrs.field(factory=dict)

    def asked(self, request: FetchRequest) -> dict[Place, int]:
        """The position in each partition that a request is about, as far as is known."""
        if request.session_epoch <= 0 or request.session_id != self.session_id:
            positions: dict[Place, int] = {}
            if request.session_epoch > 0:  # an incremental one of a session that is not known
                self.session_id = request.session_id
            self.positions = positions
        positions = self.positions
        for forgotten in request.forgotten:
            for index in forgotten.partitions:
                positions.pop((forgotten.name, forgotten.topic_id, index), None)
        for topic in request.topics:
            for partition in topic.partitions:
                positions[topic.name, topic.topic_id, partition.index] = partition.fetch_offset
        if len(positions) > MOST_POSITIONS:
            positions.clear()
        return positions

    def is_news(self, place: Place, high_watermark: int) -> bool:
        """Whether the client was told another high watermark before."""
        if self.high_watermarks.get(place) == high_watermark:
            return False
        if len(self.high_watermarks) > MOST_POSITIONS:
            self.high_watermarks.clear()
        self.high_watermarks[place] = high_watermark
        return True


@attrs.define
class Read:
    """The records of a partition that a client keeps."""

    offsets: list[int] = attrs.field(factory=list)
    values: list[int] = attrs.field(factory=list)
    transactional: bool = False
    """Whether a batch, or a control batch, of a transaction was among them."""
    compacted: bool = False
    """Whether a batch lacks records that it once had."""
    note: str | None = None


def note_request(exchange: Exchange, request: FetchRequest, sessions: Sessions) -> None:
    """Note where a consumer's fetch begins; a replica's own is nobody's operation."""
    if request.replica_id < 0:
        exchange.asked = (request.isolation_level, sessions.asked(request))


def responded(
    exchange: Exchange, response: FetchResponse, at: int, topics: TopicNames, sessions: Sessions, ends: Ends
) -> list[Line]:
    """An operation for each partition of which the response says something new, or less than others were told."""
    if exchange.asked is None or response.error_code:
        return []
    isolation, positions = exchange.asked
    sessions.session_id = response.session_id
    lines: list[Line] = []
    for topic in response.topics:
        label = topics.label(topic.name, topic.topic_id)
        if label in INTERNAL:
            continue
        for fetched in topic.partitions:
            place = topic.name, topic.topic_id, fetched.index
            if fetched.error_code:
                continue
            position = positions.get(place)
            read = read_records(fetched, position, isolation)
            # The same high watermark again is no news, unless the log is known to be longer: then it is stale.
            news = sessions.is_news(place, fetched.high_watermark)
            news |= ends.is_behind(label, fetched.index, fetched.high_watermark)
            ends.learn(label, fetched.index, fetched.high_watermark)
            if not (read.values or news or read.note or read.transactional or read.compacted):
                continue
            line = exchange.line("fetch", len(lines), topic=label, partition=fetched.index, position=position)
            lines.append({**line, "return": at, **_told(fetched, read, isolation)})
    return lines


def _told(fetched: PartitionFetched, read: Read, isolation: int) -> Line:
    fields: Line = {"isolation": isolation, "high_watermark": fetched.high_watermark}
    if fetched.last_stable_offset >= 0:
        fields["last_stable_offset"] = fetched.last_stable_offset
    if read.values:
        fields["values"] = read.values
        first, last = read.offsets[0], read.offsets[-1]
        # Offsets that rise, and as many of them as there is room for, have no gap; the first one says all.
        is_run = last - first + 1 == len(read.offsets) and read.offsets == list(range(first, last + 1))
        fields["offsets"] = first if is_run else read.offsets
    if read.transactional:
        fields["transactional"] = True
    if read.compacted:
        fields["compacted"] = True
    if read.note:
        fields["note"] = read.note
    return fields


def read_records(fetched: PartitionFetched, position: int | None, isolation: int) -> Read:
    """What a client keeps of a partition's response; as far as its batches can be read."""
    read = Read()
    records = fetched.records
    if not records or not isinstance(records, bytes | bytearray | memoryview):
        return read
    waiting = sorted(fetched.aborted_transactions or (), key=lambda one: -one.first_offset)
    aborted: set[int] = set()
    try:
        for extent in extents(records):
            _take(read, records, extent.position, position, isolation, waiting, aborted)
    except RecordError as error:
        read.note = f"not read further: {error}"
    return read


def _take(
    read: Read,
    records: Buffer,
    at: int,
    position: int | None,
    isolation: int,
    waiting: list[AbortedTransaction],
    aborted: set[int],
) -> None:
    """Take the records of the batch at a position of the buffer."""
    header = checked_header(records, at)
    while waiting and waiting[-1].first_offset <= header.last_offset:
        aborted.add(waiting.pop().producer_id)
    read.transactional |= header.is_transactional
    if header.is_control:
        marker = marker_record(records, at)
        if marker is not None and marker.kind == ABORT_MARKER:
            aborted.discard(header.producer_id)
        return
    if header.records_count <= header.last_offset_delta:
        read.compacted = True
    if isolation == READ_COMMITTED and header.is_transactional and header.producer_id in aborted:
        return
    deltas, values = identities(memoryview(records)[at:], header)
    base = header.base_offset
    for delta, value in zip(deltas, values, strict=True):
        if position is None or base + delta >= position:
            read.offsets.append(base + delta)
            read.values.append(value)

"""The histories of topics without transactions: one for each topic, and more where nobody knows what lies between.

Others may write to a topic as well, who do not go through the tap. A record of theirs that was read is written down as
an acknowledged one (acks=1: it may be lost) from the beginning on, and so are offsets of which nothing at all is known.
Where there are too many of these, the log below and the log above are two histories.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import attrs

from tidegauge.linearizability.history import UNKNOWN, Isolation, Kind, Operation, Outcome
from tidegauge.linearizability.tapped.attempts import Produce
from tidegauge.linearizability.tapped.lines import Fetched, Listed
from tidegauge.linearizability.tapped.naming import Sightings, named, names
from tidegauge.linearizability.tapped.numbering import Numbering

MOST_UNKNOWN: Final = 10_000
"""Neighbouring offsets of which nothing is known that are taken for records of others."""
LONGEST_RUN: Final = 1000
OTHERS: Final = '{"note": "sent by others"}'
NOBODY_KNOWS: Final = '{"note": "nobody has read it"}'


@attrs.define(eq=False)
class Partition:
    """What was done to one partition."""

    topic: str
    number: int
    produces: list[Produce] = attrs.field(factory=list)
    fetches: list[Fetched] = attrs.field(factory=list)
    lists: list[Listed] = attrs.field(factory=list)
    unread: bool = False
    """Whether a batch was sent that could not be read."""


@attrs.define
class Others:
    """Records that others have sent: how many were read."""

    records: int = 0


def rows_of_sends(partition: Partition, sightings: Sightings) -> list[Operation]:
    """What clients have sent. An idempotent producer's batch acknowledged at two places was also read at the second."""
    rows = []
    for one, values in zip(partition.produces, names(partition.produces, sightings), strict=True):
        sent = one.sent
        rows.append(
            Operation(
                index=0,
                process=sent.process,
                kind=Kind.PRODUCE,
                outcome=one.outcome,
                topic=partition.topic,
                partition=partition.number,
                call=one.call,
                returned=one.returned,
                offset=UNKNOWN if one.offset is None else one.offset,
                values=values,
                acks=sent.acks,
            )
        )
        for other in one.elsewhere:
            assert other.offset is not None
            rows.append(
                Operation(
                    index=0,
                    process=other.process,
                    kind=Kind.FETCH,
                    outcome=Outcome.OK,
                    topic=partition.topic,
                    partition=partition.number,
                    call=other.call,
                    returned=other.returned,
                    offset=other.offset,
                    values=values,
                    meta='{"note": "acknowledged here as well"}',
                )
            )
    return rows


def rows_of_fetches(partition: Partition, numbering: Numbering, *, compacted: bool) -> Iterator[Operation]:
    """What clients were given; of a compacted topic each run by itself, for what is between may have been cleaned."""
    for fetch in partition.fetches:
        values = tuple(named(value, offset) for value, offset in zip(fetch.values, fetch.offsets, strict=True))
        row = Operation(
            index=0,
            process=fetch.process if fetch.position is not None else numbering.process(),
            kind=Kind.FETCH,
            outcome=Outcome.OK,
            topic=partition.topic,
            partition=partition.number,
            call=fetch.call,
            returned=fetch.returned,
            offset=UNKNOWN if fetch.position is None else fetch.position,
            values=values,
            offsets=fetch.offsets if values else None,
            high_watermark=fetch.high_watermark if fetch.high_watermark >= 0 else None,
            isolation=Isolation(fetch.isolation),
            last_stable_offset=fetch.last_stable_offset,
        )
        if not compacted or not values:
            yield row
            continue
        for start, stop in runs(fetch.offsets):
            yield attrs.evolve(
                row,
                process=numbering.process(),
                offset=UNKNOWN,
                values=values[start:stop],
                offsets=fetch.offsets[start:stop],
            )


def runs(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(start, stop) of each run of neighbouring offsets."""
    start = 0
    for number in range(1, len(offsets) + 1):
        if number == len(offsets) or offsets[number] != offsets[number - 1] + 1:
            yield start, number
            start = number


def rows_of_lists(partition: Partition) -> Iterator[Operation]:
    """Which ends clients were told."""
    for one in partition.lists:
        yield Operation(
            index=0,
            process=one.process,
            kind=Kind.LIST_OFFSETS,
            outcome=Outcome.OK,
            topic=partition.topic,
            partition=partition.number,
            call=one.call,
            returned=one.returned,
            offset=one.offset,
        )


def strange(rows: Iterable[Operation], partition: Partition) -> list[tuple[int, int, int]]:
    """(offset, name, value) of each record that was read and that nobody has sent through the tap, by offset."""
    known = {
        value for row in rows if row.kind is Kind.PRODUCE and row.outcome is not Outcome.FAIL for value in row.values
    }
    found: dict[int, tuple[int, int]] = {}
    for fetch in partition.fetches:
        for value, offset in zip(fetch.values, fetch.offsets, strict=True):
            name = named(value, offset)
            if name not in known:
                found.setdefault(name, (offset, value))
    return sorted((offset, name, value) for name, (offset, value) in found.items())


def sent_by_others(
    partition: Partition, found: Sequence[tuple[int, int, int]], numbering: Numbering
) -> Iterator[Operation]:
    """Rows for records that others have sent: acknowledged with acks=1, from the beginning on."""
    start = 0
    for number in range(1, len(found) + 1):
        goes_on = number < len(found) and found[number][0] == found[number - 1][0] + 1
        if goes_on and number - start < LONGEST_RUN:
            continue
        values = tuple(name for _, name, _ in found[start:number])
        yield _weak(partition, found[start][0], values, numbering, OTHERS)
        start = number


def _weak(partition: Partition, offset: int, values: tuple[int, ...], numbering: Numbering, meta: str) -> Operation:
    return Operation(
        index=0,
        process=numbering.process(),
        kind=Kind.PRODUCE,
        outcome=Outcome.OK,
        topic=partition.topic,
        partition=partition.number,
        call=0,
        returned=0,
        offset=offset,
        values=values,
        acks=1,
        meta=meta,
    )


# --- what nobody knows -----------------------------------------------------------------------------------------------


def pieces(partition: Partition, rows: list[Operation], numbering: Numbering) -> Iterator[list[Operation]]:
    """The rows with offsets filled of which nothing is known; in several histories where that is too many."""
    cover = sorted(_covered(rows))
    filled: list[Operation] = []
    cuts: list[int] = []
    end = cover[0][0] if cover else 0
    for start, stop in cover:
        gap = start - end
        if gap > MOST_UNKNOWN:
            cuts.append(start)
        elif gap > 0:
            for low in range(end, start, LONGEST_RUN):
                values = numbering.values(min(LONGEST_RUN, start - low))
                filled.append(_weak(partition, low, values, numbering, NOBODY_KNOWS))
        end = max(end, stop)
    if not cuts:
        yield rows + filled
        return
    bounds = [0, *cuts, 1 << 62]
    for low, high in pairwise(bounds):
        yield [piece for row in rows + filled if (piece := _within(row, low, high)) is not None]


def _covered(rows: Iterable[Operation]) -> Iterator[tuple[int, int]]:
    """[start, stop) of offsets with a record that is known, and of those that somebody mentions: [offset, offset)."""
    for row in rows:
        if row.outcome is not Outcome.OK:
            continue
        if row.high_watermark is not None:
            yield row.high_watermark, row.high_watermark
        if row.offset != UNKNOWN:
            yield row.offset, row.offset
        if row.kind is Kind.FETCH:
            for start, stop in runs(row.placed):
                if row.placed and row.placed[start] != UNKNOWN:
                    yield row.placed[start], row.placed[stop - 1] + 1
        elif row.kind is Kind.PRODUCE and row.offset != UNKNOWN:
            yield row.offset, row.offset + len(row.values)


def _within(row: Operation, low: int, high: int) -> Operation | None:
    """What a row says of the offsets [low, high); None where that is nothing."""
    first = row.placed[0] if row.values else row.offset
    if first == UNKNOWN or not low <= first < high:
        return None
    if row.high_watermark is not None and row.high_watermark >= high:
        row = attrs.evolve(row, high_watermark=None)
    if row.kind is Kind.FETCH and row.offset != UNKNOWN and row.offset < low:
        row = attrs.evolve(row, offset=UNKNOWN)
    return row

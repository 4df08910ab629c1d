"""What the operations on one partition claim, row by row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import attrs

from tidegauge.linearizability.evidence import is_strong, until
from tidegauge.linearizability.history import NEVER, UNKNOWN, Kind, Operation, Outcome
from tidegauge.linearizability.log import Level


@attrs.frozen
class Write:
    """A value's produce and its number in the batch."""

    operation: Operation
    number: int


@attrs.frozen
class Claim:
    """`operation` says that the log was at least, or at most, `length` long."""

    length: int
    operation: Operation


@attrs.frozen(slots=False, eq=False)
class Evidence:
    """The operations on one partition of one history, by index."""

    rows: Sequence[Operation]
    level: Level

    @cached_property
    def produces(self) -> list[Operation]:
        return [row for row in self.rows if row.kind is Kind.PRODUCE]

    @cached_property
    def fetches(self) -> list[Operation]:
        return [row for row in self.rows if row.kind is Kind.FETCH and row.outcome is Outcome.OK]

    @cached_property
    def lists(self) -> list[Operation]:
        return [row for row in self.rows if row.kind is Kind.LIST_OFFSETS and row.outcome is Outcome.OK]

    @cached_property
    def elections(self) -> list[Operation]:
        return [row for row in self.rows if row.kind is Kind.ELECTION]

    @cached_property
    def settled(self) -> int:
        """From when reads are trusted to see the end of the log."""
        return max((row.call for row in self.rows if row.kind is Kind.SETTLED), default=NEVER)

    @cached_property
    def began(self) -> dict[int, tuple[int, Operation | None]]:
        """Where each fetch began, by index, and the earlier fetch that tells it; see `positions.began`."""
        return began(self.rows)

    def position(self, fetch: Operation) -> int:
        """Where the fetch began; UNKNOWN where nobody knows."""
        return self.began.get(fetch.index, (UNKNOWN, None))[0]

    @cached_property
    def writes(self) -> dict[int, Write]:
        """The write of each value."""
        return {value: Write(row, number) for row in self.produces for number, value in enumerate(row.values)}

    @cached_property
    def sightings(self) -> dict[int, list[tuple[int, Operation]]]:
        """Where and by whom each value was read."""
        seen: dict[int, list[tuple[int, Operation]]] = defaultdict(list)
        for row in self.fetches:
            for value, offset in zip(row.values, row.placed, strict=True):
                seen[value].append((offset, row))
        return seen

    @cached_property
    def base(self) -> dict[int, int]:
        """The base offset of each batch that is certainly in the log, by the index of its produce."""
        placed = {row.index: row.offset for row in self.produces if is_strong(row)}
        for value, seen in self.sightings.items():
            write = self.writes.get(value)
            if write is not None:
                placed.setdefault(write.operation.index, seen[0][0] - write.number)
        return placed

    @cached_property
    def holders(self) -> dict[int, list[tuple[int, Operation]]]:
        """Who says which value is at each offset."""
        held: dict[int, list[tuple[int, Operation]]] = defaultdict(list)
        for row in self.produces:
            base = self.base.get(row.index)
            if base is None:
                continue
            places = row.placed if is_strong(row) else range(base, base + len(row.values))
            for value, offset in zip(row.values, places, strict=True):
                held[offset].append((value, row))
        for row in self.fetches:
            for value, offset in zip(row.values, row.placed, strict=True):
                held[offset].append((value, row))
        if self.elections:
            for offset, value, row in self._moved():
                held[offset].append((value, row))
        return held

    def _moved(self) -> Iterator[tuple[int, int, Operation]]:
        """The rest of each batch, around a record that was read elsewhere than where an election has lost the batch."""
        for row in self.fetches:
            for value, offset in zip(row.values, row.placed, strict=True):
                write = self.writes.get(value)
                if write is None or len(write.operation.values) == 1:
                    continue
                base = self.base.get(write.operation.index, UNKNOWN)
                if self.exposed_from(write.operation) <= base and offset - write.number != base:
                    for number, other in enumerate(write.operation.values):
                        if other != value:
                            yield offset - write.number + number, other, row

    @cached_property
    def at_least(self) -> list[Claim]:
        """Every claim that the log reached a length, in the order of index."""
        claims = []
        for row in self.rows:
            length = UNKNOWN
            if row.kind is Kind.PRODUCE and is_strong(row):
                length = row.offset + len(row.values)
            elif row.kind is Kind.LIST_OFFSETS and row.outcome is Outcome.OK:
                length = row.offset
            elif row.kind is Kind.FETCH and row.outcome is Outcome.OK:
                end = row.placed[-1] + 1 if row.values else UNKNOWN
                length = max(end, UNKNOWN if row.high_watermark is None else row.high_watermark)
            if length != UNKNOWN and row.returned is not None:
                claims.append(Claim(length, row))
        return claims

    @cached_property
    def at_most(self) -> list[Claim]:
        """Every claim that the log was no longer than a length, in the order of index."""
        claims = []
        for row in self.rows:
            length: int | None = None
            if row.kind is Kind.PRODUCE:
                length = self.base.get(row.index)
            elif row.outcome is Outcome.OK and (self.level is Level.STRICT or row.call >= self.settled):
                length = self._short(row)
            if length is not None:
                claims.append(Claim(length, row))
        return claims

    @cached_property
    def log_start(self) -> int:
        """The smallest offset that anybody mentions."""
        mentions = [claim.length for claim in self.at_most if claim.operation.kind is Kind.PRODUCE]
        mentions += [row.offset for row in self.produces if is_strong(row)]
        mentions += [row.offset for row in self.lists]
        for row in self.fetches:
            mentions += [row.offset] if row.offset != UNKNOWN else []
            mentions += row.placed[:1]
            mentions += [row.high_watermark] if row.high_watermark is not None else []
        return min(mentions, default=0)

    def exposed_from(self, operation: Operation) -> int:
        """The offset from which a declared loss may have taken what the operation saw; NEVER if there is none."""
        return min((e.offset for e in self.elections if operation.call < until(e)), default=NEVER)

    def excused(self, lost: Operation, other: Operation, offset: int) -> bool:
        """May an unclean election have lost what `lost` saw at `offset` or beyond, before `other` took effect?"""
        return any(e.offset <= offset and lost.call < until(e) and until(other) >= e.call for e in self.elections)

    def seen_after(self, values: Iterable[int], time: int) -> bool:
        """Was one of the values read by a fetch that was called at or after `time`?"""
        return any(row.call >= time for value in values for _, row in self.sightings.get(value, ()))

    def _short(self, row: Operation) -> int | None:
        """How short a linearizable read says that the log was."""
        if row.kind is Kind.LIST_OFFSETS:
            return row.offset
        if row.kind is not Kind.FETCH:
            return None
        if row.high_watermark is not None:
            return row.high_watermark
        position = self.position(row)
        return None if row.values or position == UNKNOWN else position


def began(rows: Iterable[Operation]) -> dict[int, tuple[int, Operation | None]]:
    """Where the fetches of one partition began, by index: the position, and the earlier fetch that tells it.

    The latter is None where the request has the position; a fetch is left out where nobody knows it.
    """
    found: dict[int, tuple[int, Operation | None]] = {}
    ends: dict[int, tuple[int, Operation]] = {}
    for row in rows:
        if row.kind is not Kind.FETCH or row.outcome is Outcome.FAIL:
            continue
        if row.outcome is Outcome.INFO:
            ends.pop(row.process, None)
            continue
        if row.offset != UNKNOWN:
            found[row.index] = (row.offset, None)
        elif row.process in ends:
            found[row.index] = ends[row.process]
        if row.values:
            ends[row.process] = (row.placed[-1] + 1, row)
        elif row.offset != UNKNOWN:
            ends[row.process] = (row.offset, row)
    return found

"""May unknown produces fill the holes of a log?

A hole is an offset below the known end of the log that no known record holds. A batch of unknown outcome may fill it if
it was called before the deadline: the earliest return of an operation that knew the log to reach beyond. Batches
of one record need no search: deadlines grow with the offset, so the earliest call goes to the lowest hole. Longer
batches must tile the runs of holes, which is a small exact-cover search; it is memoised, and bounded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from enum import Enum

import attrs

from tidegauge.linearizability.evidence import Claim, Evidence, is_strong, is_weak
from tidegauge.linearizability.history import NEVER, Operation, Outcome


class Filling(Enum):
    """Can all holes be filled?"""

    FILLED = "filled"
    IMPOSSIBLE = "impossible"
    UNDECIDED = "undecided"


@attrs.frozen
class Hole:
    """Offsets [start, stop) that nobody is known to hold; a batch there ends by `limit`, where a known record is."""

    start: int
    stop: int
    limit: int


@attrs.frozen(slots=False)
class Deadlines:
    """When the log is known to have reached each length: `when[k]` from length `lengths[k - 1] + 1` to `lengths[k]`."""

    lengths: tuple[int, ...]
    when: tuple[int, ...]

    @classmethod
    def of(cls, claims: Sequence[Claim]) -> Deadlines:
        ordered = sorted(claims, key=lambda claim: claim.length)
        when: list[int] = []
        earliest = NEVER
        for claim in reversed(ordered):
            assert claim.operation.returned is not None
            earliest = min(earliest, claim.operation.returned)
            when.append(earliest)
        return cls(tuple(claim.length for claim in ordered), tuple(reversed(when)))

    @property
    def end(self) -> int:
        return self.lengths[-1] if self.lengths else 0

    def beyond(self, offset: int) -> int:
        """By when the log was longer than `offset`."""
        at = bisect_right(self.lengths, offset)
        return self.when[at] if at < len(self.when) else NEVER


def checked_claims(evidence: Evidence) -> list[Claim]:
    """The claims on the log's length, each cut to what no declared loss may have taken."""
    if not evidence.elections:
        return evidence.at_least
    return [
        attrs.evolve(claim, length=min(claim.length, evidence.exposed_from(claim.operation)))
        for claim in evidence.at_least
    ]


def find_holes(evidence: Evidence, end: int) -> Iterator[Hole]:
    """The runs of offsets from the log start to `end` without a known record."""
    at = evidence.log_start
    for offset in sorted(evidence.holders):
        if offset > at:
            yield Hole(at, min(offset, end), offset)
        at = max(at, offset + 1)
        if at >= end:
            return
    if at < end:
        yield Hole(at, end, NEVER)


def fill(evidence: Evidence, limit: int) -> tuple[Filling, Hole | None]:
    """Fill the holes; if that fails, the first hole that stays open. Gives up after `limit` steps."""
    deadlines = Deadlines.of(checked_claims(evidence))
    holes = list(find_holes(evidence, deadlines.end))
    if not holes:
        return Filling.FILLED, None
    loose = [row for row in evidence.produces if row.index not in evidence.base and row.outcome is not Outcome.FAIL]
    records = sum(len(row.values) for row in loose)
    # More holes than unknown records: no need to enumerate what may be a very long run.
    if sum(hole.stop - hole.start for hole in holes) > records:
        return Filling.IMPOSSIBLE, max(holes, key=lambda hole: hole.stop - hole.start)
    return _Search(deadlines, loose, limit).run(holes)


class _Search:
    """Depth first over the holes, from the lowest offset; remembers what failed."""

    def __init__(self, deadlines: Deadlines, loose: Sequence[Operation], limit: int) -> None:
        self.deadlines = deadlines
        self.pinned: dict[int, list[Operation]] = {}
        calls: dict[int, list[int]] = {}
        for row in loose:
            if is_weak(row):
                self.pinned.setdefault(row.offset, []).append(row)
            elif not is_strong(row):
                calls.setdefault(len(row.values), []).append(row.call)
        self.sizes = tuple(sorted(calls))
        self.calls = {size: sorted(calls[size]) for size in self.sizes}
        self.limit = limit

    def choices(self, hole: Hole, used: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Ways to fill the first offsets of `hole`: how many, and the unknown batches of each size used so far."""
        deadline = self.deadlines.beyond(hole.start)
        room = hole.limit - hole.start
        for size in {len(row.values) for row in self.pinned.get(hole.start, ()) if row.call <= deadline}:
            if size <= room:
                yield size, used
        for number, size in enumerate(self.sizes):
            # All calls before this deadline are before the later ones too, so only their number matters.
            if size <= room and used[number] < bisect_right(self.calls[size], deadline):
                yield size, (*used[:number], used[number] + 1, *used[number + 1 :])

    def run(self, holes: Sequence[Hole]) -> tuple[Filling, Hole | None]:
        failed: set[tuple[int, int, tuple[int, ...]]] = set()
        deepest = (0, holes[0].start)
        stack: list[tuple[int, int, tuple[int, ...]]] = [(0, holes[0].start, (0,) * len(self.sizes))]
        steps = 0
        while stack:
            number, at, used = stack.pop()
            if at >= holes[number].stop:
                number += 1
                if number == len(holes):
                    return Filling.FILLED, None
                at = holes[number].start
            if (number, at, used) in failed:
                continue
            failed.add((number, at, used))
            deepest = max(deepest, (number, at))
            steps += 1
            if steps > self.limit:
                return Filling.UNDECIDED, None
            hole = attrs.evolve(holes[number], start=at)
            stack.extend((number, at + size, after) for size, after in self.choices(hole, used))
        return Filling.IMPOSSIBLE, attrs.evolve(holes[deepest[0]], start=deepest[1])

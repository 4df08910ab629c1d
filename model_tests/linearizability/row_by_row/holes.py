"""Which holes there are, and what may fill them, row by row. Whether it does is for `linearizability.holes`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from tidegauge.linearizability.evidence import is_weak
from tidegauge.linearizability.history import NEVER, UNKNOWN, Operation, Outcome
from tidegauge.linearizability.holes import Batches, Deadlines, Filling, Hole
from tidegauge.linearizability.holes import fill as decide
from tidegauge.model_tests.linearizability.row_by_row.evidence import Claim, Evidence


def deadlines_of(claims: Sequence[Claim]) -> Deadlines:
    ordered = sorted(claims, key=lambda claim: claim.length)
    when: list[int] = []
    earliest = NEVER
    for claim in reversed(ordered):
        assert claim.operation.returned is not None
        earliest = min(earliest, claim.operation.returned)
        when.append(earliest)
    return Deadlines(tuple(claim.length for claim in ordered), tuple(reversed(when)))


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


def losable(evidence: Evidence) -> frozenset[int]:
    """The offsets whose known record a declared loss may have taken, so that another one may be there now."""
    if not evidence.elections:
        return frozenset()
    exposed = {row.index: evidence.exposed_from(row) for row in evidence.rows}
    return frozenset(
        offset for offset, held in evidence.holders.items() if all(exposed[row.index] <= offset for _, row in held)
    )


def movable(evidence: Evidence) -> list[Operation]:
    """The batches that somebody has placed, where an election may have lost each of them and brought it elsewhere."""
    if not evidence.elections:
        return []
    exposed = {row.index: evidence.exposed_from(row) for row in evidence.rows}
    found = []
    for row in evidence.produces:
        seen = [one for value in row.values for one in evidence.sightings.get(value, ())]
        if row.outcome is Outcome.OK and row.offset != UNKNOWN:
            seen.append((row.offset, row))
        if seen and all(exposed[one.index] <= offset for offset, one in seen):
            found.append(row)
    return found


def fill(evidence: Evidence, limit: int) -> tuple[Filling, Hole | None]:
    """Fill the holes; if that fails, the first hole that stays open. Gives up after `limit` steps."""
    deadlines = deadlines_of(checked_claims(evidence))
    holes = list(find_holes(evidence, deadlines.end))
    if not holes:
        return Filling.FILLED, None
    loose = [row for row in evidence.produces if row.index not in evidence.base and row.outcome is not Outcome.FAIL]
    free, start = losable(evidence), evidence.log_start
    moved = movable(evidence)
    records = sum(len(row.values) for row in {row.index: row for row in (*loose, *moved)}.values())
    # More holes than unknown records: no need to enumerate what may be a very long run.
    if sum(hole.stop - hole.start for hole in holes) > records:
        return Filling.IMPOSSIBLE, max(holes, key=lambda hole: hole.stop - hole.start)
    if holes[0].start == start:
        # A batch may begin below the smallest offset that anybody mentions, and reach over it.
        longest = max(len(row.values) for row in (*loose, *moved))
        free |= frozenset(range(max(0, start - longest + 1), start))
    earliest: dict[tuple[int, int], int] = {}
    for row in moved:
        key = len(row.values), evidence.exposed_from(row)
        earliest[key] = min(row.call, earliest.get(key, NEVER))
    batches = Batches(
        [(len(row.values), row.call) for row in loose if not is_weak(row)],
        [(row.offset, len(row.values), row.call) for row in loose if is_weak(row)],
        earliest,
        free,
    )
    return decide(holes, batches, deadlines, limit)

"""The closer look at one partition of one history: which anomaly it is, and the operations that prove it.

Each finder below yields the occurrences of its anomalies with a witness that a person can check. `check_partition`
keeps the first of each kind and counts the rest. The rules, and what an unclean election excuses, are those of
docs/history.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from tidegauge.linearizability.anomaly import Anomaly, Name
from tidegauge.linearizability.evidence import is_strong, is_weak, until
from tidegauge.linearizability.findings.looking import HOLE_STEPS
from tidegauge.linearizability.history import NEVER, UNKNOWN, Kind, Operation, Outcome
from tidegauge.linearizability.holes import Filling
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.witness import Finding, finding
from tidegauge.model_tests.linearizability.row_by_row.evidence import Claim, Evidence
from tidegauge.model_tests.linearizability.row_by_row.holes import checked_claims, fill
from tidegauge.model_tests.linearizability.row_by_row.polls import find_poll_anomalies

Seen = tuple[int, Operation]
"""An offset, and the operation that says what is there."""


def check_partition(
    rows: Sequence[Operation], level: Level = Level.KAFKA, hole_steps: int = HOLE_STEPS
) -> tuple[Anomaly, ...]:
    """All anomalies of one partition of one history, by name. `rows` are its operations in order of index."""
    evidence = Evidence(rows, level)
    found = list(find_reused_values(evidence))
    if not found:
        for finder in FINDERS:
            found.extend(finder(evidence))
        found.extend(find_unfillable_holes(evidence, hole_steps))
    first: dict[Name, Finding] = {}
    counts: dict[Name, int] = {}
    for one in found:
        first.setdefault(one.name, one)
        counts[one.name] = counts.get(one.name, 0) + 1
    return tuple(
        Anomaly(
            history=rows[0].history,
            name=name,
            topic=rows[0].topic,
            partition=rows[0].partition,
            operations=tuple(row.index for row in one.operations),
            count=counts[name],
            witness=one.witness,
        )
        for name, one in first.items()
    )


def find_reused_values(evidence: Evidence) -> Iterator[Finding]:
    """A value that two produces sent: the history cannot be checked."""
    first: dict[int, Operation] = {}
    for row in evidence.produces:
        for value in row.values:
            if value in first:
                reason = f"both sent the value {value}: give each record, and each attempt to send it, its own"
                yield finding(Name.REUSED_VALUE, reason, first[value], row)
            first[value] = row


def find_bad_reads(evidence: Evidence) -> Iterator[Finding]:
    """Reads of what was never written, or failed, or is above the high watermark that came with it."""
    for value, seen in evidence.sightings.items():
        write = evidence.writes.get(value)
        offset, reader = seen[0]
        if write is None:
            yield finding(Name.UNWRITTEN_READ, f"nobody produced the value {value} that was read at {offset}", reader)
        elif write.operation.outcome is Outcome.FAIL:
            reason = f"the produce of {value} failed, so it did not happen, yet it was read at {offset}"
            yield finding(Name.ABORTED_READ, reason, write.operation, reader)
    for row in evidence.fetches:
        if row.values and row.high_watermark is not None and row.placed[-1] >= row.high_watermark:
            reason = f"it read up to {row.placed[-1]}, and the high watermark with it is {row.high_watermark}"
            yield finding(Name.READ_BEYOND_HIGH_WATERMARK, reason, row)


def find_duplicates(evidence: Evidence) -> Iterator[Finding]:
    """A value at two offsets. Only an unclean election excuses that: the new leader may have another copy of it."""
    for value, write in evidence.writes.items():
        seen = list(evidence.sightings.get(value, ()))
        acknowledged = write.operation.placed[write.number]
        if write.operation.outcome is Outcome.OK and acknowledged != UNKNOWN:
            seen.insert(0, (acknowledged, write.operation))
        if len({offset for offset, _ in seen}) > 1 and (pair := _doubled(evidence, seen)) is not None:
            (offset, one), (other_offset, other) = pair
            reason = f"the value {value} is at {offset} for one and at {other_offset} for the other"
            yield finding(Name.DUPLICATE, reason, one, other)


def _doubled(evidence: Evidence, seen: Sequence[Seen]) -> tuple[Seen, Seen] | None:
    """Two of them at different offsets, which no election excuses."""
    for at, (offset, one) in enumerate(seen):
        for other_offset, other in seen[at + 1 :]:
            if other_offset != offset and not _may_have_moved(evidence, (offset, one), (other_offset, other)):
                return (offset, one), (other_offset, other)
    return None


def _may_have_moved(evidence: Evidence, a: Seen, b: Seen) -> bool:
    """Whether an election may have lost one copy of what both saw, or of its batch, and brought another one."""
    lowest = min(a[0], b[0])
    return evidence.excused(a[1], b[1], lowest) or evidence.excused(b[1], a[1], lowest)


def find_torn_batches(evidence: Evidence) -> Iterator[Finding]:
    """A batch whose records are not at neighbouring offsets in their order."""
    for row in evidence.produces:
        places = list(row.placed) if row.outcome is Outcome.OK else [UNKNOWN] * len(row.values)
        says = [row] * len(row.values)
        if (is_strong(row) or is_weak(row)) and row.placed[0] != row.offset:
            reason = f"its response says {row.offset}, and that its first record is at {row.placed[0]}"
            yield finding(Name.INT_SEND_SKIP, reason, row)
        for number, value in enumerate(row.values):
            seen = evidence.sightings.get(value)
            if seen and places[number] == UNKNOWN:
                places[number], says[number] = seen[0]
        known = [(number, place) for number, place in enumerate(places) if place != UNKNOWN]
        if known and known[0][1] < known[0][0]:
            reason = f"record {known[0][0]} of the batch is at {known[0][1]}, which leaves no room for those before it"
            yield finding(Name.INT_SEND_SKIP, reason, row)
        for (i, a), (j, b) in pairwise(known):
            if b - a != j - i and _may_have_moved(evidence, (a, says[i]), (b, says[j])):
                continue
            if b <= a:
                yield finding(Name.INT_NONMONOTONIC_SEND, f"records {i} and {j} of the batch are at {a} and {b}", row)
            elif b - a != j - i:
                yield finding(Name.INT_SEND_SKIP, f"records {i} and {j} of the batch are at {a} and {b}", row)


def find_disagreements(evidence: Evidence) -> Iterator[Finding]:
    """Two values at one offset; and the acknowledged one that nobody ever read is lost."""
    for offset, held in sorted(evidence.holders.items()):
        if len({value for value, _ in held}) == 1:
            continue
        pair = _disagreement(evidence, offset, held)
        if pair is None:
            continue
        (value, one), (other_value, other) = pair
        reason = f"offset {offset} holds {value} for one and {other_value} for the other"
        yield finding(Name.INCONSISTENT_OFFSETS, reason, one, other)
        for mine, row, rival in ((value, one, other), (other_value, other, one)):
            if is_strong(row) and row.kind is Kind.PRODUCE and not evidence.sightings.get(mine):
                reason = f"{mine} was acknowledged at {offset}, where another value is, and nobody ever read it"
                yield finding(Name.LOST_WRITE, reason, row, rival)


def _disagreement(
    evidence: Evidence, offset: int, held: Sequence[tuple[int, Operation]]
) -> tuple[tuple[int, Operation], tuple[int, Operation]] | None:
    for at, (value, one) in enumerate(held):
        for other_value, other in held[at + 1 :]:
            if value == other_value or evidence.excused(one, other, offset) or evidence.excused(other, one, offset):
                continue
            return (value, one), (other_value, other)
    return None


def find_contradictions(evidence: Evidence) -> Iterator[Finding]:
    """An operation that found the log shorter than another had already known it to be."""
    for bound, claim in contradictions(evidence):
        name = _name_of_contradiction(evidence, claim, bound)
        before, after = claim.operation, bound.operation
        reason = (
            f"the log was at least {claim.length} long when #{before.index} returned at {before.returned}, but "
            f"#{after.index}, called at {after.call}, found it at most {bound.length} long"
        )
        _, earlier = evidence.began.get(after.index, (UNKNOWN, None))
        if earlier is None or after.high_watermark is not None:
            yield finding(name, reason, before, after)
        else:
            yield finding(name, f"{reason}, polling on from where #{earlier.index} ended", before, earlier, after)
        both = before.kind is Kind.PRODUCE and after.kind is Kind.PRODUCE
        if both and before.process == after.process and is_strong(after):
            reason = f"process {after.process} sent to {before.offset} and then to {after.offset}"
            yield finding(Name.NONMONOTONIC_SEND, reason, before, after)


def contradictions(evidence: Evidence) -> Iterator[tuple[Claim, Claim]]:
    """Each (at most, at least) pair of rule 2, the strongest for each bound, that no one election excuses."""
    unexcused: dict[int, _Reached] = {}
    for bound in evidence.at_most:
        # What was called before this time and claims more than the bound may have been lost before the bound was seen.
        since = max(
            (until(e) for e in evidence.elections if e.offset <= bound.length and until(bound.operation) >= e.call),
            default=-1,
        )
        if since not in unexcused:
            unexcused[since] = _Reached([claim for claim in evidence.at_least if claim.operation.call >= since])
        claim = unexcused[since].before(bound.operation.call)
        if claim is not None and claim.length > bound.length:
            yield bound, claim


class _Reached:
    """The longest length known by each time."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        ordered = sorted(claims, key=lambda claim: until(claim.operation))
        self.times = [until(claim.operation) for claim in ordered]
        self.best: list[Claim] = []
        for claim in ordered:
            longer = not self.best or claim.length > self.best[-1].length
            self.best.append(claim if longer else self.best[-1])

    def before(self, time: int) -> Claim | None:
        """The greatest claim of an operation that returned before `time`."""
        at = bisect_left(self.times, time)
        return self.best[at - 1] if at else None


def _name_of_contradiction(evidence: Evidence, claim: Claim, bound: Claim) -> Name:
    before, after = claim.operation, bound.operation
    if before.kind is Kind.LIST_OFFSETS or not before.values:
        return Name.STALE_READ if after.kind is Kind.FETCH else Name.END_OFFSET_REGRESSION
    beyond = [value for value, place in zip(before.values, before.placed, strict=True) if place >= bound.length]
    survived = evidence.seen_after(beyond, after.call)
    if after.kind is Kind.PRODUCE:
        return Name.APPEND_BELOW_END if survived else Name.LOST_WRITE
    if not survived and after.call >= evidence.settled:
        return Name.LOST_WRITE
    if before.kind is Kind.FETCH and after.kind is Kind.LIST_OFFSETS:
        return Name.END_OFFSET_REGRESSION
    return Name.STALE_READ


def find_unfillable_holes(evidence: Evidence, steps: int) -> Iterator[Finding]:
    """Offsets below the end of the log that neither a known record nor an unknown produce can hold."""
    filling, hole = fill(evidence, steps)
    if filling is Filling.UNDECIDED:
        reason = f"whether unknown batches can fill its holes was not decided in {steps} steps"
        yield finding(Name.UNDECIDED, reason, evidence.rows[0])
    if hole is None:
        return
    knew = [claim for claim in checked_claims(evidence) if claim.length > hole.start]
    first = min(knew, key=lambda claim: claim.operation.returned or NEVER)
    where = f"offset {hole.start}" if hole.stop == hole.start + 1 else f"offsets {hole.start} to {hole.stop - 1}"
    reason = (
        f"the log was at least {first.length} long when #{first.operation.index} returned at "
        f"{first.operation.returned}, but no produce accounts for {where}"
    )
    yield finding(Name.OFFSET_HOLE, reason, first.operation)


FINDERS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    find_bad_reads,
    find_duplicates,
    find_torn_batches,
    find_disagreements,
    find_contradictions,
    find_poll_anomalies,
)

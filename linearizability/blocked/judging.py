"""Judge one history in blocks: the verdict, anomalies and coverage of `check`, or why blocks cannot give them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise

import attrs
import numpy as np

from tidegauge.linearizability.anomaly import Anomaly
from tidegauge.linearizability.blocked.batches import meet_batches
from tidegauge.linearizability.blocked.emit import (
    BOUND,
    LATE,
    NOWHERE,
    PASSED,
    PASSES,
    SHOWN,
    SUSPECTS,
    TOO_MANY,
    Pair,
    emit_lengths,
    emit_records,
)
from tidegauge.linearizability.blocked.evidence import (
    KnownInBlocks,
    Taken,
    first_to_know,
    gathered,
    strongest,
    take,
)
from tidegauge.linearizability.blocked.flow import Blocks, Flow
from tidegauge.linearizability.blocked.holes import Holed, holed
from tidegauge.linearizability.blocked.offsets import BEYOND, HOLDER, HOLDERS, Passes, holders, meet_offsets
from tidegauge.linearizability.blocked.parcels import Parcel, kept, opened
from tidegauge.linearizability.blocked.positions import Ended, carried, ended
from tidegauge.linearizability.blocked.scan import Scanned, scan
from tidegauge.linearizability.blocked.values import COUNTED, COVERED, REUSED, UNPLACED, meet_values
from tidegauge.linearizability.blocked.whole import Sizes, Whole
from tidegauge.linearizability.check import Verdicts, verdicts_of
from tidegauge.linearizability.coverage import MOST_NAMED, Coverage, Gap
from tidegauge.linearizability.findings.holes import unfillable
from tidegauge.linearizability.findings.looking import FINDERS, HOLE_STEPS
from tidegauge.linearizability.findings.occurrences import Occurrences, in_words
from tidegauge.linearizability.findings.values import find_reused_values
from tidegauge.linearizability.history import NEVER, Ints, Operations
from tidegauge.linearizability.holes import Filling, Hole
from tidegauge.linearizability.judged import PARTS, Judged
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.rows import Rows

FARTHEST = 1 << 42
"""More runs of offsets than a partition may have."""
MOST_PLACES = 1 << 18
"""More partitions than a history may have that is judged in blocks."""


@attrs.frozen
class NotForBlocks:
    """Why blocks do not judge a history."""

    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"one task judges it, since it has {' and '.join(self.reasons)}"


def judge(
    blocks: Blocks,
    history: int,
    level: Level = Level.KAFKA,
    sizes: Sizes | None = None,
    hole_steps: int = HOLE_STEPS,
    named: int = MOST_NAMED,
) -> Verdicts | NotForBlocks:
    """Judge `history`, whose rows are well formed. `named` is how many partitions are named that are not covered."""
    sizes = Sizes() if sizes is None else sizes
    looks: list[Scanned] = blocks.each(partial(_look, sizes.run)).all()
    return judge_scanned(blocks, history, looks, level, sizes, hole_steps, named)


def _look(run: int, block: int, operations: Operations) -> Iterator[Scanned]:
    yield scan(block, operations, run)


def judge_scanned(
    blocks: Blocks, history: int, looks: Sequence[Scanned], level: Level, sizes: Sizes, hole_steps: int, named: int
) -> Verdicts | NotForBlocks:
    """The same where the blocks have been looked at, in whatever order."""
    looks = sorted(looks, key=lambda look: look.block)
    reasons = _reasons(looks, sizes)
    if reasons:
        return NotForBlocks(reasons)
    whole = Whole.of(looks, level, sizes)
    if whole.polls:
        said = sorted(blocks.each(partial(_ended, whole)).all(), key=lambda pair: pair[0])
        before = carried([one for _, one in said])
        whole = attrs.evolve(whole, ended={block: one for (block, _), one in zip(said, before, strict=True)})
    offsets = _sent(blocks, whole)
    summary = sizes.summary
    parcels: list[Parcel] = [one for _, one in offsets.meet(summary + 1, partial(meet_offsets, whole)).all()]
    found = list(holed(whole, parcels))
    many = {one.kind.removeprefix(TOO_MANY).strip() for one in parcels if one.kind.startswith(TOO_MANY)}
    if many - {UNPLACED} or (many and found):
        return NotForBlocks((f"more than {sizes.share:,} {' and '.join(sorted(many))} in a part",))
    anomalies = _Case(blocks, whole, offsets, parcels, found, hole_steps).anomalies()
    if anomalies is None:
        return NotForBlocks((f"more than {sizes.evidence:,} rows that break rules",))
    covered = _coverage(whole, history, parcels, named)
    histories, rows = np.array([history], np.int64), np.array([whole.rows], np.int64)
    return Verdicts(histories, rows, verdicts_of(histories, anomalies), tuple(anomalies), None, covered)


def _reasons(looks: Sequence[Scanned], sizes: Sizes) -> tuple[str, ...]:
    reasons = {reason for look in looks for reason in look.not_for_blocks}
    if any(later.first <= earlier.last for earlier, later in pairwise(looks)):
        reasons.add("rows that are not in order of index")
    if any((look.reached >> sizes.run).max(initial=0) >= FARTHEST for look in looks):
        reasons.add("offsets far apart")
    if len({place for look in looks for place in look.places}) >= MOST_PLACES:
        reasons.add(f"{MOST_PLACES:,} partitions or more")
    return tuple(sorted(reasons))


def _ended(whole: Whole, block: int, operations: Operations) -> Iterator[tuple[int, Ended]]:
    part = whole.part(block, operations)
    yield block, ended(part.rows, part.first)


def _sent(blocks: Blocks, whole: Whole) -> Flow:
    """All that is said of offsets."""
    buckets = whole.sizes.summary + 1
    values = blocks.each(partial(_records, whole)).meet(buckets, partial(meet_values, whole))
    batches = values.meet(buckets, partial(meet_batches, whole))
    return batches.beside(blocks.each(partial(_lengths, whole)))


def _records(whole: Whole, block: int, operations: Operations) -> Iterator[Pair]:
    yield from emit_records(whole, whole.part(block, operations))


def _lengths(whole: Whole, block: int, operations: Operations) -> Iterator[Pair]:
    yield from emit_lengths(whole, whole.part(block, operations))


@attrs.frozen(eq=False)
class _Case:
    """What was found in a history, and what the finders make of it."""

    blocks: Blocks
    whole: Whole
    offsets: Flow
    parcels: Sequence[Parcel]
    holed: Sequence[Holed]
    steps: int

    def anomalies(self) -> list[Anomaly] | None:
        """All anomalies, by partition; None where too many rows break rules."""
        reused = opened(self.parcels, REUSED, ("place", "row"))
        spoiled = np.unique(reused["place"])
        suspects = opened(self.parcels, SUSPECTS, ("row",))["row"]
        beyond = opened(self.parcels, BEYOND, BOUND)
        beyond = kept(beyond, ~np.isin(beyond["place"], spoiled))
        proving = np.unique(np.concatenate((suspects, beyond["row"], reused["row"])))
        if len(proving) > self.whole.sizes.evidence:
            return None
        broken = self._broken(proving)
        stuck = [one for one in self.holed if one.place not in spoiled and (one.place in broken or not one.is_plain)]
        filled = [(one, *one.fill(self.steps)) for one in stuck]
        undecided = [one.place for one, filling, _ in filled if filling is Filling.UNDECIDED]
        impossible = [(one.place, hole) for one, _, hole in filled if hole is not None]
        if not len(proving) and not undecided and not impossible:
            return []
        knew = first_to_know(self.blocks, self.whole, [(place, hole.start) for place, hole in impossible])
        first = self.whole.begins[undecided] if undecided else np.zeros(0, np.int64)
        before = strongest(self.blocks, self.whole, beyond["place"], beyond["call"]) if len(beyond["row"]) else knew[:0]
        settled = self.whole.settled_rows
        proving = np.concatenate((proving, before))
        taken = gathered(self.blocks, self.whole, proving, (knew, first, settled, self._passed()))
        return self._found(taken, spoiled, first, [hole for _, hole in impossible], knew)

    def _broken(self, proving: Ints) -> frozenset[int]:
        """The partitions of rows that break rules. Only where there are holes does anybody ask."""
        if not self.holed or not len(proving):
            return frozenset()
        return frozenset(take(self.blocks, self.whole, proving).place.tolist())

    def _passed(self) -> Ints:
        """Who holds the first of the offsets that each fetch passed over."""
        passed = opened(self.parcels, PASSES, PASSED)
        if not len(passed["place"]):
            return passed["place"]
        passes = Passes(*(passed[name] for name in PASSED))
        meeting = partial(holders, self.whole, passes)
        held = opened(
            (one for _, one in self.offsets.meet(self.whole.sizes.summary + 1, meeting).all()), HOLDERS, HOLDER
        )
        first = np.full(len(passed["place"]), NEVER, np.int64)
        np.minimum.at(first, held["passed"], held["offset"])
        mine = kept(held, held["offset"] == first[held["passed"]])
        return np.concatenate((mine["row"], mine["witness"]))

    def _found(self, taken: Taken, spoiled: Ints, first: Ints, holes: Sequence[Hole], knew: Ints) -> list[Anomaly]:
        """What the finders find in the rows, in the order in which `look` does."""
        bad = np.isin(taken.place, spoiled)
        anomalies = [(one, place) for place, one in self._reused(taken.of(np.flatnonzero(bad)))]
        others = taken.of(np.flatnonzero(~bad))
        if len(others.numbers):
            known = KnownInBlocks.of_taken(others, self.whole)
            found = self._by_finders(known, _at(others.numbers, first), holes, _at(others.numbers, knew))
            anomalies += [(one, self._place(one)) for one in in_words(others.operations, found)]
        return [one for one, _ in sorted(anomalies, key=lambda pair: pair[1])]

    def _by_finders(
        self, known: KnownInBlocks, undecided: Ints, holes: Sequence[Hole], knew: Ints
    ) -> Iterator[Occurrences]:
        for finder in FINDERS:
            yield from finder(known)
        yield from unfillable(known, self.steps, undecided, holes, knew)

    def _reused(self, taken: Taken) -> Iterable[tuple[int, Anomaly]]:
        if not len(taken.numbers):
            return
        for one in in_words(taken.operations, find_reused_values(Rows.of(taken.operations))):
            yield self._place(one), one

    def _place(self, anomaly: Anomaly) -> int:
        return self.whole.places.index((anomaly.topic, anomaly.partition))


def _at(numbers: Ints, wanted: Ints) -> Ints:
    """Where each of `wanted` is among the numbers, which are in no order."""
    order = np.argsort(numbers, kind="stable")
    return order[np.searchsorted(numbers, wanted, sorter=order)]


def _coverage(whole: Whole, history: int, parcels: Sequence[Parcel], named: int) -> Coverage:
    counted, shown = opened(parcels, COVERED, COUNTED), opened(parcels, LATE, SHOWN)
    count = len(whole.places)
    records, unconfirmed = np.zeros(count, np.int64), np.zeros(count, np.int64)
    lowest, known = np.full(count, NEVER, np.int64), whole.low.copy()
    np.add.at(records, counted["place"], counted["records"])
    np.add.at(unconfirmed, counted["place"], counted["unconfirmed"])
    np.minimum.at(lowest, counted["place"], counted["lowest"])
    np.maximum.at(known, shown["place"], shown["end"])
    open_ends = whole.reached > known
    partial_places = np.flatnonzero((unconfirmed > 0) | open_ends)
    partial_places = partial_places[np.argsort(whole.begins[partial_places], kind="stable")]
    gaps = tuple(
        Gap(
            history=history,
            topic=whole.places[place][0],
            partition=whole.places[place][1],
            records=int(records[place]),
            unconfirmed=int(unconfirmed[place]),
            first=int(lowest[place]) if unconfirmed[place] else None,
            open_end=bool(open_ends[place]),
            settled=bool(whole.since[place] != NEVER),
        )
        for place in partial_places[:named].tolist()
    )
    nowhere = int(opened(parcels, NOWHERE, ("rows",))["rows"].sum())
    flags = {
        "records": whole.has_records,
        "holes": whole.has_records,
        "positions": whole.has_fetches and not nowhere,
    }
    parts = sum(1 << PARTS.index(name) for name, is_judged in flags.items() if is_judged)
    return Coverage(
        records=np.array([records.sum()]),
        unconfirmed=np.array([unconfirmed.sum()]),
        open_ends=np.array([open_ends.sum()]),
        partitions=len(partial_places),
        gaps=gaps,
        judged=Judged(np.array([parts], np.int64), np.array([nowhere], np.int64)),
    )

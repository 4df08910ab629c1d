"""Offsets below the end of the log that neither a known record nor an unknown produce can hold: rule 3 of `log`.

Where only batches of one record may fill the holes there is no search: deadlines grow with the offset, so the k-th hole
takes the k-th of them, in order of call. Everything else is for `holes.fill`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import attrs
import numpy as np

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.arrays import expand
from tidegauge.linearizability.findings.known import Known
from tidegauge.linearizability.findings.occurrences import Occurrences, occurrences
from tidegauge.linearizability.history import NEVER, UNKNOWN, Flags, Ints, Outcome
from tidegauge.linearizability.holes import Batches, Deadlines, Filling, Hole, fill


def find_unfillable_holes(known: Known, steps: int) -> Iterator[Occurrences]:
    """Partitions with holes that nothing fills, and those of which a search of `steps` steps does not tell."""
    holed = _Holed(known)
    impossible: list[tuple[int, Hole]] = []
    undecided: list[int] = []
    for group in np.flatnonzero(np.diff(holed.first)).tolist():
        filling, hole = holed.fill(group, steps)
        if filling is Filling.UNDECIDED:
            undecided.append(int(np.searchsorted(known.rows.group, group)))
        if hole is not None:
            impossible.append((group, hole))

    knew = np.array([holed.first_to_know(group, hole.start) for group, hole in impossible], np.int64)
    yield from unfillable(known, steps, np.array(undecided, np.int64), [hole for _, hole in impossible], knew)


def unfillable(known: Known, steps: int, undecided: Ints, holes: Sequence[Hole], knew: Ints) -> Iterator[Occurrences]:
    """The partitions of the rows `undecided`, of which `steps` steps do not tell; and `holes`, each with the row that
    was the first to know that the log is longer.
    """
    ops, group = known.rows.ops, known.rows.group

    def not_told(k: int) -> str:
        return f"whether unknown batches can fill its holes was not decided in {steps} steps"

    yield occurrences(Name.UNDECIDED, group[undecided], (undecided,), not_told)
    least = np.minimum(known.at_least, known.exposed)

    def unaccounted(k: int) -> str:
        hole = holes[k]
        where = f"offset {hole.start}" if hole.stop == hole.start + 1 else f"offsets {hole.start} to {hole.stop - 1}"
        return (
            f"the log was at least {least[knew[k]]} long when #{ops.index[knew[k]]} returned at "
            f"{ops.returned[knew[k]]}, but no produce accounts for {where}"
        )

    yield occurrences(Name.OFFSET_HOLE, group[knew], (knew,), unaccounted)


@attrs.frozen(eq=False, slots=False)
class _Holed:
    """The holes of every partition, and what may fill them."""

    known: Known

    @cached_property
    def least(self) -> Ints:
        """How long each row says that the log was at least, cut to what no declared loss may have taken."""
        return np.minimum(self.known.at_least, self.known.exposed)

    @cached_property
    def claims(self) -> Ints:
        """The rows that say so, by partition."""
        return np.flatnonzero(self.known.at_least != UNKNOWN)

    @cached_property
    def end(self) -> Ints:
        """The greatest length of each partition's log that is known."""
        end = np.zeros(self.known.rows.groups, np.int64)
        np.maximum.at(end, self.known.rows.group[self.claims], self.least[self.claims])
        return end

    @cached_property
    def _runs(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Each run of offsets without a known record: its partition, start and stop, and the known record behind it."""
        held, groups = self.known.holders, self.known.rows.groups
        ends = np.searchsorted(held.group, np.arange(groups), side="right")
        limit = np.insert(held.offset, ends, NEVER)
        group = np.insert(held.group, ends, np.arange(groups))
        before = np.concatenate(([-1], limit[:-1]))
        before[np.concatenate(([True], group[1:] != group[:-1]))] = -1
        start = np.maximum(before + 1, self.known.log_start[group])
        stop = np.minimum(limit, self.end[group])
        there = np.flatnonzero(start < stop)
        return group[there], start[there], stop[there], limit[there]

    @cached_property
    def first(self) -> Ints:
        """The number of each partition's first run, and how many there are."""
        counts = np.bincount(self._runs[0], minlength=self.known.rows.groups)
        return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)

    @cached_property
    def _loose(self) -> Ints:
        """The produces that may be in the log, but nobody says where."""
        rows = self.known.rows
        produces = rows.produces
        loose: Ints = produces[~self.known.placed[produces] & (rows.ops.outcome[produces] != Outcome.FAIL)]
        return loose

    @cached_property
    def _losable(self) -> Flags:
        """Whether all who say what is at a place were exposed, so that another record may be there now."""
        held = self.known.holders
        losable = np.ones(len(held.offset), np.bool_)
        losable[held.place[self.known.exposed[held.row] > held.offset[held.place]]] = False
        return losable

    @cached_property
    def _movable(self) -> Flags:
        """Whether each row is a batch that somebody has placed, where an election may have lost every such claim."""
        known, ops = self.known, self.known.rows.ops
        said, stays = np.zeros(len(ops), np.bool_), np.zeros(len(ops), np.bool_)
        responded = np.concatenate((known.rows.strong, known.rows.weak))
        said[responded] = True
        stays[responded] = known.exposed[responded] > ops.offset[responded]
        read, reader = known.rows.read
        batch, _ = known.read_batch
        written = batch >= 0
        said[batch[written]] = True
        kept = written & (known.exposed[reader] > known.offsets[read])
        stays[batch[kept]] = True
        movable: Flags = said & ~stays
        return movable

    def _mine(self, rows: Ints, group: int) -> Ints:
        """Those of `rows`, which are in order, that are of the partition."""
        of = self.known.rows.group[rows]
        return rows[np.searchsorted(of, group) : np.searchsorted(of, group, side="right")]

    def deadlines(self, group: int) -> tuple[Ints, Ints]:
        """Lengths that the log of the partition is known to have had, rising, and by when it had each of them."""
        claims = self._mine(self.claims, group)
        claims = claims[np.argsort(self.least[claims], kind="stable")]
        returned = self.known.rows.ops.returned[claims]
        return self.least[claims], np.minimum.accumulate(returned[::-1])[::-1]

    def first_to_know(self, group: int, offset: int) -> int:
        """The row that knew first that the log is longer than `offset`."""
        claims = self._mine(self.claims, group)
        beyond = claims[self.least[claims] > offset]
        return int(beyond[np.argmin(self.known.rows.ops.returned[beyond])])

    def fill(self, group: int, steps: int) -> tuple[Filling, Hole | None]:
        """Fill the holes of a partition that has some; if that fails, the first that stays open."""
        known, ops = self.known, self.known.rows.ops
        _, starts, stops, limits = (column[self.first[group] : self.first[group + 1]] for column in self._runs)
        loose = self._mine(self._loose, group)
        elections = bool(known.elections.counts[group])
        moved = loose[:0]
        if elections:
            produces = self._mine(known.rows.produces, group)
            moved = produces[self._movable[produces]]
        able = np.union1d(loose, moved)
        sizes = known.rows.counts[able]
        # More holes than unknown records: no need to enumerate what may be a very long run.
        if (stops - starts).sum() > sizes.sum():
            longest = int(np.argmax(stops - starts))
            return Filling.IMPOSSIBLE, Hole(int(starts[longest]), int(stops[longest]), int(limits[longest]))
        lengths, when = self.deadlines(group)
        pinned = known.weak[loose]
        if not elections and not pinned.any() and (sizes == 1).all():
            return fill_with_single_records(starts, stops, limits, np.sort(ops.call[loose]), lengths, when)
        free = self._free(group, int(starts[0]), int(sizes.max()), elections)
        earliest: dict[tuple[int, int], int] = {}
        for row in moved.tolist():
            key = int(known.rows.counts[row]), int(known.exposed[row])
            earliest[key] = min(int(ops.call[row]), earliest.get(key, NEVER))
        there, anywhere = loose[pinned], loose[~pinned]
        columns = (ops.offset[there], known.rows.counts[there], ops.call[there])
        batches = Batches(
            loose=list(zip(known.rows.counts[anywhere].tolist(), ops.call[anywhere].tolist(), strict=True)),
            pinned=list(zip(*(column.tolist() for column in columns), strict=True)),
            moved=earliest,
            free=free,
        )
        holes = [Hole(*one) for one in zip(starts.tolist(), stops.tolist(), limits.tolist(), strict=True)]
        return fill(holes, batches, Deadlines(lengths.tolist(), when.tolist()), steps)

    def _free(self, group: int, first_hole: int, longest: int, elections: bool) -> frozenset[int]:
        """Offsets without a hole that a batch may take besides."""
        free: frozenset[int] = frozenset()
        if elections:
            held = self.known.holders
            low, high = np.searchsorted(held.group, group), np.searchsorted(held.group, group, side="right")
            free = frozenset(held.offset[low:high][self._losable[low:high]].tolist())
        start = int(self.known.log_start[group])
        if first_hole == start:
            # A batch may begin below the smallest offset that anybody mentions, and reach over it.
            free |= frozenset(range(max(0, start - longest + 1), start))
        return free


def fill_with_single_records(
    starts: Ints, stops: Ints, limits: Ints, calls: Ints, lengths: Ints, when: Ints
) -> tuple[Filling, Hole | None]:
    """Match the k-th hole with the k-th call, of which there are as many at least."""
    last = when[np.searchsorted(lengths, stops - 1, side="right")]
    alone = np.flatnonzero(np.searchsorted(calls, last, side="right") < stops - starts)
    if len(alone):
        return Filling.IMPOSSIBLE, Hole(int(starts[alone[0]]), int(stops[alone[0]]), int(limits[alone[0]]))
    holes = expand(starts, stops - starts)
    at = np.searchsorted(lengths, holes, side="right")
    late = np.flatnonzero(calls[: len(holes)] > when[at])
    if not len(late):
        return Filling.FILLED, None
    offset = int(holes[late[0]])
    run = int(np.searchsorted(starts, offset, side="right")) - 1
    return Filling.IMPOSSIBLE, Hole(offset, int(stops[run]), int(limits[run]))

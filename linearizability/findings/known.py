"""What the operations of the flagged partitions say, as arrays: the evidence that every finder reads."""

from __future__ import annotations

from functools import cached_property

import attrs
import numpy as np

from tidegauge.linearizability.arrays import runs, spread, stacked, value_slots
from tidegauge.linearizability.findings.elections import Elections, exposed_from
from tidegauge.linearizability.history import NEVER, UNKNOWN, Flags, Ints
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.positions import told
from tidegauge.linearizability.rows import Rows


@attrs.frozen(eq=False)
class Holders:
    """Who says which value is at which offset; of one offset produces come first, then fetches, in order of index."""

    place: Ints
    """The number of the (partition, offset) of each, in order of both."""
    value: Ints
    """The slot of the value."""
    row: Ints
    group: Ints
    """The partition of each place."""
    offset: Ints
    """The offset of each place."""

    @cached_property
    def first(self) -> Ints:
        """The first holder of each place."""
        first = np.empty(len(self.offset), np.int64)
        first[self.place[::-1]] = np.arange(len(self.place))[::-1]
        return first


@attrs.frozen(eq=False, slots=False)
class Known:
    """The flagged partitions, whose operations are neighbours and in order of index; no value is produced twice."""

    rows: Rows
    level: Level

    @cached_property
    def offsets(self) -> Ints:
        """The offset of each record, UNKNOWN where nobody knows."""
        return self.rows.ops.record_offsets()

    @cached_property
    def elections(self) -> Elections:
        return Elections.of(self.rows)

    @cached_property
    def exposed(self) -> Ints:
        """The offset from which a declared loss may have taken what each row saw; NEVER where there is none."""
        return exposed_from(self.rows)

    @cached_property
    def strong(self) -> Flags:
        """Whether each row is an acknowledged produce that must not be lost."""
        return self._flags(self.rows.strong)

    @cached_property
    def weak(self) -> Flags:
        """Whether each row is an acknowledged produce that may be lost, but is nowhere but at its offset."""
        return self._flags(self.rows.weak)

    def _flags(self, rows: Ints) -> Flags:
        flags = np.zeros(len(self.rows.ops), np.bool_)
        flags[rows] = True
        return flags

    @cached_property
    def _told(self) -> tuple[Ints, Ints]:
        return told(self.rows.ops, self.rows.group, self.rows.fetches)

    @property
    def position(self) -> Ints:
        """Where each completed fetch began; UNKNOWN where nobody knows."""
        return self._told[0]

    @cached_property
    def teller(self) -> Ints:
        """For each row the earlier fetch that tells where it began; −1 where its request does, or where it is none."""
        tellers = np.full(len(self.rows.ops), -1, np.int64)
        tellers[self.rows.fetches] = self._told[1]
        return tellers

    # --- records -----------------------------------------------------------------------------------------------------

    @cached_property
    def _slots(self) -> tuple[Ints, Ints, int]:
        """The slot of the value of each record written and of each one read, and how many slots there are."""
        (wrote, writer), (read, reader) = self.rows.written, self.rows.read
        group = self.rows.group
        everything = np.concatenate((wrote, read))
        of = np.concatenate((group[writer], group[reader]))
        none = np.zeros(0, np.int64)
        slot, _, size = value_slots(of, self.rows.ops.values[everything], none, none)
        return slot[: len(wrote)], slot[len(wrote) :], size

    @property
    def written_slot(self) -> Ints:
        return self._slots[0]

    @property
    def read_slot(self) -> Ints:
        return self._slots[1]

    @property
    def slots(self) -> int:
        """How many slots there are: one for each value of a partition, and some that no value has."""
        return self._slots[2]

    @cached_property
    def values(self) -> Ints:
        """The value of each slot."""
        (wrote, _), (read, _) = self.rows.written, self.rows.read
        values = np.zeros(self.slots, np.int64)
        values[self.written_slot] = self.rows.ops.values[wrote]
        values[self.read_slot] = self.rows.ops.values[read]
        return values

    @cached_property
    def slot_of_value(self) -> Ints:
        """The slot of each value of the table; −1 of those that are neither written nor read."""
        (wrote, _), (read, _) = self.rows.written, self.rows.read
        slots = np.full(len(self.rows.ops.values), -1, np.int64)
        slots[wrote], slots[read] = self.written_slot, self.read_slot
        return slots

    @cached_property
    def number(self) -> Ints:
        """The number within its batch of each record written."""
        wrote, writer = self.rows.written
        return wrote - self.rows.ops.starts[writer]

    @cached_property
    def writing(self) -> Ints:
        """For each slot which of the records written it is; −1 where nobody produced the value."""
        writing = np.full(self.slots, -1, np.int64)
        writing[self.written_slot] = np.arange(len(self.written_slot))
        return writing

    @cached_property
    def first_sighting(self) -> Ints:
        """For each slot the first of the records read that is it; −1 where nobody read it."""
        first = np.full(self.slots, -1, np.int64)
        first[self.read_slot[::-1]] = np.arange(len(self.read_slot))[::-1]
        return first

    @cached_property
    def last_read(self) -> Ints:
        """For each slot the call of the last fetch that returned it; −1 where none did."""
        last = np.full(self.slots, -1, np.int64)
        np.maximum.at(last, self.read_slot, self.rows.ops.call[self.rows.read[1]])
        return last

    @cached_property
    def read_batch(self) -> tuple[Ints, Ints]:
        """For each record read the row that produced it, −1 where nobody did, and where its batch then begins."""
        read, _ = self.rows.read
        writing = self.writing[self.read_slot]
        there = np.flatnonzero(writing >= 0)
        batch, begins = np.full(len(read), -1, np.int64), self.offsets[read].copy()
        batch[there] = self.rows.written[1][writing[there]]
        begins[there] -= self.number[writing[there]]
        return batch, begins

    @cached_property
    def base(self) -> Ints:
        """The base offset of each row's batch if it is certainly in the log, by its response or its first sighting."""
        ops = self.rows.ops
        base = np.full(len(ops), UNKNOWN, np.int64)
        batch, begins = self.read_batch
        there = np.flatnonzero(batch >= 0)[::-1]
        base[batch[there]] = begins[there]
        base[self.rows.strong] = ops.offset[self.rows.strong]
        return base

    @cached_property
    def placed(self) -> Flags:
        """Whether each row's batch is certainly in the log; where its base offset is wrong, even negative, as well."""
        placed = self.strong.copy()
        batch, _ = self.read_batch
        placed[batch[batch >= 0]] = True
        return placed

    @cached_property
    def holders(self) -> Holders:
        """Who says which value is at each offset."""
        (wrote, writer), (read, reader) = self.rows.written, self.rows.read
        there = np.flatnonzero(self.placed[writer])
        by_response = self.strong[writer[there]]
        around = self.base[writer[there]] + self.number[there]
        offset = [np.where(by_response, self.offsets[wrote[there]], around), self.offsets[read]]
        slot, row = [self.written_slot[there], self.read_slot], [writer[there], reader]
        if len(self.elections.rows):
            for parts, more in zip((offset, slot, row), self._moved(), strict=True):
                parts.append(more)
        held, value, says = np.concatenate(offset), np.concatenate(slot), np.concatenate(row)
        return self._placed_holders(held, value, says)

    def _placed_holders(self, held: Ints, value: Ints, says: Ints) -> Holders:
        group = self.rows.group[says]
        none = np.zeros(0, np.int64)
        slot, _, size = value_slots(group, held, none, none)
        # Slots are in order of partition and offset; those that nobody holds are left out.
        taken = np.zeros(size, np.bool_)
        taken[slot] = True
        rank = np.cumsum(taken) - 1
        place = rank[slot]
        count = int(rank[-1]) + 1 if size else 0
        of_group, of_offset = np.empty(count, np.int64), np.empty(count, np.int64)
        of_group[place], of_offset[place] = group, held
        return Holders(place, value, says, of_group, of_offset)

    def _moved(self) -> tuple[Ints, Ints, Ints]:
        """The rest of each batch, around a record that was read elsewhere than where an election has lost the batch.

        As the offset of each record, its slot, and the fetch that read the other one.
        """
        _, reader = self.rows.read
        batch, begins = self.read_batch
        base = self.base[batch]
        elsewhere = (batch >= 0) & (begins != base) & (self.rows.counts[batch] > 1) & (self.exposed[batch] <= base)
        at = np.flatnonzero(elsewhere)
        counts = self.rows.counts[batch[at]]
        # The records of a batch are neighbours among those that were written.
        first = np.searchsorted(self.rows.written[1], batch[at])
        records = runs(first, counts)
        offset = spread(begins[at], counts) + self.number[records]
        others = self.written_slot[records] != spread(self.read_slot[at], counts)
        return offset[others], self.written_slot[records[others]], spread(reader[at], counts)[others]

    # --- the length of the log ---------------------------------------------------------------------------------------

    @cached_property
    def at_least(self) -> Ints:
        """How long each row says that the log was at least; UNKNOWN where it says nothing."""
        rows, ops = self.rows, self.rows.ops
        least = np.full(len(ops), UNKNOWN, np.int64)
        least[rows.strong] = ops.offset[rows.strong] + rows.counts[rows.strong]
        least[rows.lists] = ops.offset[rows.lists]
        least[rows.fetches] = np.maximum(self.fetch_end, ops.high_watermark[rows.fetches])
        least[ops.returned == NEVER] = UNKNOWN
        return least

    @cached_property
    def fetch_end(self) -> Ints:
        """After which offset each fetch ended; UNKNOWN for one that read nothing."""
        ops, fetches = self.rows.ops, self.rows.fetches
        filled = self.rows.counts[fetches] > 0
        end = np.full(len(fetches), UNKNOWN, np.int64)
        end[filled] = self.offsets[ops.starts[fetches[filled] + 1] - 1] + 1
        return end

    @cached_property
    def fetch_begin(self) -> Ints:
        """The offset of the first record of each fetch; UNKNOWN for one that read nothing."""
        ops, fetches = self.rows.ops, self.rows.fetches
        filled = self.rows.counts[fetches] > 0
        begin = np.full(len(fetches), UNKNOWN, np.int64)
        begin[filled] = self.offsets[ops.starts[fetches[filled]]]
        return begin

    @cached_property
    def at_most(self) -> tuple[Ints, Ints]:
        """The rows that say how long the log was at most, in order, and how long."""
        rows, ops = self.rows, self.rows.ops
        most, says = self.base.copy(), self.placed.copy()
        mark, counts = ops.high_watermark[rows.fetches], rows.counts[rows.fetches]
        reads = np.concatenate((rows.fetches, rows.lists))
        of_fetches = np.where(mark >= 0, mark, np.where(counts > 0, UNKNOWN, self.position))
        short = np.concatenate((of_fetches, ops.offset[rows.lists]))
        counted = short != UNKNOWN
        if self.level is Level.KAFKA:
            counted &= ops.call[reads] >= self.settled[rows.group[reads]]
        most[reads], says[reads] = short, counted
        bounds = np.flatnonzero(says)
        return bounds, most[bounds]

    @cached_property
    def settled(self) -> Ints:
        """From when on reads of each partition are trusted to see the end of the log."""
        return self.rows.settled()

    @cached_property
    def log_start(self) -> Ints:
        """The smallest offset that anybody mentions, of each partition; NEVER where nobody does."""
        rows, ops = self.rows, self.rows.ops
        low = np.full(rows.groups, NEVER, np.int64)
        placed = np.flatnonzero(self.placed)
        np.minimum.at(low, rows.group[placed], self.base[placed])
        np.minimum.at(low, rows.group[rows.lists], ops.offset[rows.lists])
        for said in (ops.offset[rows.fetches], ops.high_watermark[rows.fetches], self.fetch_begin):
            there = said != UNKNOWN
            np.minimum.at(low, rows.group[rows.fetches[there]], said[there])
        return low

    # --- time --------------------------------------------------------------------------------------------------------

    @cached_property
    def clock(self) -> tuple[Ints, Ints]:
        """Call and return of each row, such that all times of a partition lie above those of the one before it.

        What never returned has the return NEVER.
        """
        ops = self.rows.ops
        return stacked(ops.call, ops.returned, self.rows.group)

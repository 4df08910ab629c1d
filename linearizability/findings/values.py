"""Anomalies of values and of batches: reused, read though never written or failed, at two offsets, torn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.arrays import value_slots
from tidegauge.linearizability.findings.known import Known
from tidegauge.linearizability.findings.occurrences import Occurrences, occurrences
from tidegauge.linearizability.findings.pairs import Sayings, contradicting
from tidegauge.linearizability.history import UNKNOWN, Ints, Outcome
from tidegauge.linearizability.rows import Rows


def find_reused_values(rows: Rows) -> Iterator[Occurrences]:
    """A value that two produces sent: the partition cannot be checked."""
    wrote, writer = rows.written
    values, none = rows.ops.values[wrote], np.zeros(0, np.int64)
    slot, _, size = value_slots(rows.group[writer], values, none, none)
    once = np.zeros(size, np.bool_)
    once[slot] = True
    if once.sum() == len(slot):
        return
    order = np.argsort(slot, kind="stable")
    again = np.flatnonzero(slot[order][1:] == slot[order][:-1])
    again = again[np.argsort(order[again + 1])]
    earlier, later = order[again], order[again + 1]

    def reason(k: int) -> str:
        return f"both sent the value {values[later[k]]}: give each record, and each attempt to send it, its own"

    yield occurrences(Name.REUSED_VALUE, rows.group[writer[later]], (writer[earlier], writer[later]), reason)


def find_bad_reads(known: Known) -> Iterator[Occurrences]:
    """Reads of what was never written, or failed, or is above the high watermark that came with it."""
    ops, group = known.rows.ops, known.rows.group
    (_, writer), (read, reader) = known.rows.written, known.rows.read
    first = np.flatnonzero(known.first_sighting[known.read_slot] == np.arange(len(read)))
    writing = known.writing[known.read_slot[first]]

    def unwritten(k: int) -> str:
        record = read[nowhere[k]]
        return f"nobody produced the value {ops.values[record]} that was read at {known.offsets[record]}"

    nowhere = first[writing < 0]
    yield occurrences(Name.UNWRITTEN_READ, group[reader[nowhere]], (reader[nowhere],), unwritten)

    def aborted(k: int) -> str:
        record = read[failed[k]]
        value, offset = ops.values[record], known.offsets[record]
        return f"the produce of {value} failed, so it did not happen, yet it was read at {offset}"

    written = first[writing >= 0]
    of = writer[known.writing[known.read_slot[written]]]
    failed = written[ops.outcome[of] == Outcome.FAIL]
    of = of[ops.outcome[of] == Outcome.FAIL]
    yield occurrences(Name.ABORTED_READ, group[reader[failed]], (of, reader[failed]), aborted)

    def beyond(k: int) -> str:
        mark = ops.high_watermark[above[k]]
        return f"it read up to {ends[k] - 1}, and the high watermark with it is {mark}"

    fetches, end = known.rows.fetches, known.fetch_end
    mark = ops.high_watermark[fetches]
    wrong = (end != UNKNOWN) & (mark != UNKNOWN) & (end > mark)
    above, ends = fetches[wrong], end[wrong]
    yield occurrences(Name.READ_BEYOND_HIGH_WATERMARK, group[above], (above,), beyond)


def find_duplicates(known: Known) -> Iterator[Occurrences]:
    """A value at two offsets. Only an unclean election excuses that: the new leader may have another copy of it."""
    ops, offsets = known.rows.ops, known.offsets
    (wrote, writer), (read, reader) = known.rows.written, known.rows.read
    responded = np.flatnonzero((ops.outcome[writer] == Outcome.OK) & (offsets[wrote] != UNKNOWN))
    slot = np.concatenate((known.written_slot[responded], known.read_slot))
    offset = np.concatenate((offsets[wrote[responded]], offsets[read]))
    row = np.concatenate((writer[responded], reader))
    somewhere = np.zeros(known.slots, np.int64)
    somewhere[slot] = offset
    differs = np.zeros(known.slots, np.bool_)
    differs[slot[somewhere[slot] != offset]] = True
    differs &= known.writing >= 0
    at = np.flatnonzero(differs[slot])
    at = at[np.argsort(known.writing[slot[at]], kind="stable")]
    said = Sayings.of(slot[at], known.rows.group[row[at]], offset[at], row[at], offset[at])
    things, one, other = contradicting(said, known.elections)
    values = ops.values[wrote[known.writing[slot[at[one]]]]]

    def reason(k: int) -> str:
        here, there = said.offset[one[k]], said.offset[other[k]]
        return f"the value {values[k]} is at {here} for one and at {there} for the other"

    yield occurrences(Name.DUPLICATE, said.group[things], (said.row[one], said.row[other]), reason)


def find_torn_batches(known: Known) -> Iterator[Occurrences]:
    """A batch whose records are not at neighbouring offsets in their order."""
    ops, rows = known.rows.ops, known.rows
    if ops.offsets is None and (rows.counts[rows.produces] == 1).all():
        return
    wrote, writer = rows.written
    read, reader = rows.read
    responded = ops.outcome[writer] == Outcome.OK
    place = np.where(responded, known.offsets[wrote], UNKNOWN)
    says = writer.copy()
    sighting = known.first_sighting[known.written_slot]
    seen = np.flatnonzero((place == UNKNOWN) & (sighting >= 0))
    place[seen], says[seen] = known.offsets[read[sighting[seen]]], reader[sighting[seen]]
    there = np.flatnonzero(place != UNKNOWN)
    number, batch = known.number[there], writer[there]
    yield from _misplaced(known)
    opening = np.concatenate(([True], batch[1:] != batch[:-1]))
    cramped = np.flatnonzero(opening & (place[there] < number))

    def room(k: int) -> str:
        at = cramped[k]
        return f"record {number[at]} of the batch is at {place[there[at]]}, which leaves no room for those before it"

    yield occurrences(Name.INT_SEND_SKIP, rows.group[batch[cramped]], (batch[cramped],), room)
    step, numbers = np.diff(place[there]), np.diff(number)
    torn = np.flatnonzero((batch[1:] == batch[:-1]) & (step != numbers))
    a, b = there[torn], there[torn + 1]
    lowest = np.minimum(place[a], place[b])
    torn = torn[~known.elections.excuse_either(rows.group[batch[torn]], says[a], says[b], lowest)]
    for name, kept in (
        (Name.INT_NONMONOTONIC_SEND, torn[step[torn] <= 0]),
        (Name.INT_SEND_SKIP, torn[step[torn] > 0]),
    ):

        def reason(k: int, kept: Ints = kept) -> str:
            before, after = kept[k], kept[k] + 1
            places = f"{place[there[before]]} and {place[there[after]]}"
            return f"records {number[before]} and {number[after]} of the batch are at {places}"

        yield occurrences(name, rows.group[batch[kept]], (batch[kept],), reason)


def _misplaced(known: Known) -> Iterator[Occurrences]:
    """A response whose offset is not that of its first record."""
    ops = known.rows.ops
    if ops.offsets is None:
        return
    responded = np.sort(np.concatenate((known.rows.strong, known.rows.weak)))
    first = known.offsets[ops.starts[responded]]
    wrong = np.flatnonzero(first != ops.offset[responded])

    def reason(k: int) -> str:
        at = wrong[k]
        return f"its response says {ops.offset[responded[at]]}, and that its first record is at {first[at]}"

    batch = responded[wrong]
    yield occurrences(Name.INT_SEND_SKIP, known.rows.group[batch], (batch,), reason)

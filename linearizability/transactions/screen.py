"""Which histories of a block break a rule of transactions: one pass over arrays. What it does not flag is valid."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegauge.linearizability.arrays import ranks
from tidegauge.linearizability.compiled_code import load
from tidegauge.linearizability.history import NEVER, Flags, Ints, Kind, Operations
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.rows import partitions
from tidegauge.linearizability.transactional import NONE
from tidegauge.linearizability.transactions.offsets import flag_offsets
from tidegauge.linearizability.transactions.order import flag_cycles
from tidegauge.linearizability.transactions.table import Flagged, Table

WORTH_COMPILED_CODE = 1 << 26
"""From so many operations on compiled code is loaded, if numba is installed: it takes ten seconds to compile, once."""
WORTH_KEPT_CODE = 1 << 23
"""The same where it is compiled: to load it takes a second, and saves a second on five million operations."""


def compiled(operations: int, level: Level) -> ModuleType | None:
    """The compiled screening, where there is one for the level, and numba, and it is worth the time to load it."""
    if level is Level.STRICT:  # its cycles are searched in the table
        return None
    return load("tidegauge.linearizability.transactions.compiled", operations, WORTH_COMPILED_CODE, WORTH_KEPT_CODE)


def screen_with(code: ModuleType, ops: Operations) -> Flags:
    """What `screen` flags at level `kafka`: arrays look only at histories of a block that compiled code suspects."""
    said, starts = ops.transactional, ops.history_starts
    assert said is not None, "a history without transactions is the log checker's"
    group, groups = partitions(ops, starts)
    columns: tuple[npt.NDArray[Any], ...] = (
        ops.kind, ops.outcome, ops.acks, ops.isolation, ops.offset, ops.starts, ops.values,
        np.zeros(0, np.int64) if ops.offsets is None else ops.offsets, ops.high_watermark, ops.call, ops.returned,
        *said.columns,
    )  # fmt: skip
    # Columns of a file are read-only, which numba takes for another type, and would compile for it.
    flags: Flags = code.suspicious(starts, group, groups, tuple(map(_writable, columns)))
    if len(flags) < len(starts) - 1:
        return screen(ops, Level.KAFKA)[0]
    if flags.any():
        suspects = ops.take(np.flatnonzero(np.repeat(flags, np.diff(starts))))
        flags[flags] = screen(suspects, Level.KAFKA)[0]
    return flags


def _writable(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return column if column.flags.writeable else column.copy()


def screen(ops: Operations, level: Level) -> tuple[Flags, Table]:
    """Whether each history of a block, in its order, needs a closer look; and the table of the block."""
    starts = ops.history_starts
    histories = len(starts) - 1
    flagged = Flagged(np.repeat(np.arange(histories), np.diff(starts)), np.zeros(histories, np.bool_))
    table = Table.of(ops, flagged)
    elections = np.flatnonzero(ops.kind == Kind.ELECTION)
    flagged.flag(elections, np.ones(len(elections), np.bool_))
    _flag_reads(table, flagged)
    _flag_times(table, flagged)
    _flag_spans(table, flagged)
    flag_offsets(table, flagged)
    if level is Level.STRICT or _is_coarse(table):
        flag_cycles(table, flagged, level)
    return flagged.flags, table


def _is_coarse(table: Table) -> bool:
    """Whether a fetch may have returned after the end of its transaction was called: then rule 3 says less."""
    ends = table.transactions.end[table.transactions.of_row[table.fetches.row]] if len(table.transactions) else -1
    inside = (table.transactions.of_row[table.fetches.row] >= 0) & (ends >= 0)
    return bool((inside & (table.ops.returned[table.fetches.row] > table.ops.call[ends])).any())


def _flag_reads(table: Table, flagged: Flagged) -> None:
    """Fetches that do not return exactly what is there for them between their position and their end (rule 2)."""
    ops, rows, records = table.ops, table.rows, table.records
    read, reader = rows.read
    offsets = ops.record_offsets()
    flagged.flag(reader[1:], (reader[1:] == reader[:-1]) & (np.diff(offsets[read]) <= 0))
    filled = np.flatnonzero(rows.counts[table.fetches.row])
    fetches = table.fetches.row[filled]
    begin, end = table.fetches.begin[filled], table.fetches.end[filled]
    flagged.flag(fetches, offsets[ops.starts[fetches]] < begin)
    group = rows.group[fetches]
    low, high = records.at(group, begin), records.at(group, end)
    committed, count = table.fetches.committed[filled], rows.counts[fetches]
    if not committed.all():
        there = records.below(records.slot)
        flagged.flag(fetches, ~committed & (there[high] - there[low] != count))
    if committed.any():
        flagged.flag(fetches, committed & (table.seen_below[high] - table.seen_below[low] != count))
    mark, stable = ops.high_watermark[fetches], table.said.stable[fetches]
    flagged.flag(fetches, (mark >= 0) & (end > mark))
    flagged.flag(fetches, committed & (stable != NONE) & (end > stable))
    home, reads = table.transactions.of_row, table.readings
    flagged.flag(reads[0], (home[reads[0]] >= 0) & (home[reads[0]] == home[reads[1]]))


def _flag_times(table: Table, flagged: Flagged) -> None:
    """What is stable before the end of its transaction was called (rule 3), and appends below a known end."""
    ops, rows, records = table.ops, table.rows, table.records
    call, returned, horizon = _times(ops, rows.groups)
    if not len(records.row):
        return
    # Partitions' times lie above those of the one before: what is accumulated over slots ends at its partition.
    floor = rows.group * horizon
    # When the log can first have been stable beyond each record.
    slot, row = table.seen
    home = table.transactions.of_row[row]
    ended = call[table.transactions.end] if len(table.transactions) else np.zeros(1, np.int64)
    since = np.where(home < 0, call[row], ended[home])
    stable = np.repeat(np.arange(rows.groups) * horizon, np.diff(records.first))
    stable[slot] = since + floor[row]
    np.maximum.accumulate(stable, out=stable)
    # How far each fetch says that the log was stable, and how long that it was; 0 where it says nothing.
    call, returned = call + floor, returned + floor
    fetches = table.fetches.row
    group, back = rows.group[fetches], returned[fetches]
    end = np.where(rows.counts[fetches] > 0, table.fetches.end, 0)
    until = np.maximum(np.where(table.fetches.committed, end, 0), table.said.stable[fetches])
    beyond = until > records.low[group]
    flagged.flag(fetches, beyond & (stable[records.at(group, until) - 1] >= back))
    reached = np.full(records.slots, NEVER, np.int64)
    length = np.maximum(np.maximum(end, until), ops.high_watermark[fetches])
    np.minimum.at(reached, records.at(group, length), back)
    for those, length in (
        (rows.lists, ops.offset[rows.lists]),
        (rows.strong, ops.offset[rows.strong] + rows.counts[rows.strong]),
    ):
        np.minimum.at(reached, records.at(rows.group[those], length), returned[those])
    reached = np.minimum.accumulate(reached[::-1])[::-1]
    placed = np.flatnonzero(records.base >= 0)
    at = records.at(rows.group[placed], records.base[placed] + 1)
    flagged.flag(placed, reached[at] < call[placed])


def _times(ops: Operations, groups: int) -> tuple[Ints, Ints, int]:
    """Calls, returns, and a time beyond all of them but NEVER: short enough to be shifted by partitions."""
    call, returned = ops.call, ops.returned
    finite = returned[returned != NEVER]
    horizon = int(max(call.max(initial=0), finite.max(initial=0))) + 2
    if horizon * (groups + 1) >= 1 << 62:
        return ranks(call, returned)
    return call, np.minimum(returned, horizon - 1), horizon


def _flag_spans(table: Table, flagged: Flagged) -> None:
    """Sends of a transaction that are not in their order, and last stable offsets within what a transaction wrote.

    The latter of a committed one, and where no other one begins.
    """
    records, rows, home = table.records, table.rows, table.transactions.of_row
    sent = np.flatnonzero((records.base >= 0) & (home >= 0))
    key = home[sent] * rows.groups + rows.group[sent]
    order = np.argsort(key, kind="stable")
    sent, key = sent[order], key[order]
    base, same = records.base[sent], key[1:] == key[:-1]
    flagged.flag(sent[1:], same & (base[1:] <= base[:-1]))
    told = np.flatnonzero(table.said.stable >= 0)
    if not len(told) or not len(sent):
        return
    starts = np.flatnonzero(np.concatenate(([True], ~same)))
    ends = np.append(starts[1:], len(sent)) - 1
    group = rows.group[sent[starts]]
    first = records.at(group, base[starts])
    last = records.at(group, base[ends] + rows.counts[sent[ends]] - 1)
    # Another transaction may be open from its first record on, and from where nobody knows what is there.
    begins = np.ones(records.slots + 1, np.bool_)
    begins[records.slot] = False
    begins[first] = True
    wide = table.committed[home[sent[starts]]] & (first < last)
    if not wide.any():
        return
    first, last = first[wide], last[wide]
    within = np.bincount(first + 1, minlength=records.slots + 1) - np.bincount(last + 1, minlength=records.slots + 1)
    torn = (np.cumsum(within) > 0) & ~begins
    group, stable = rows.group[told], table.said.stable[told]
    within_log = (stable >= records.low[group]) & (stable < records.high[group])
    flagged.flag(told, within_log & torn[records.at(group, stable)])

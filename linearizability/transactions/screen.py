"""Which histories of a block break a rule of transactions: one pass over arrays. What it does not flag is valid."""

from __future__ import annotations

import numpy as np

from tidegauge.linearizability.arrays import ranks
from tidegauge.linearizability.history import NEVER, Flags, Ints, Kind, Operations
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.transactional import NONE
from tidegauge.linearizability.transactions.offsets import flag_offsets
from tidegauge.linearizability.transactions.order import flag_cycles
from tidegauge.linearizability.transactions.table import Flagged, Table


def screen(ops: Operations, level: Level) -> tuple[Flags, Table]:
    """Whether each history of a block, in its order, needs a closer look; and the table of the block."""
    history = np.zeros(len(ops), np.int64)
    np.cumsum(ops.history[1:] != ops.history[:-1], out=history[1:])
    flagged = Flagged(history, np.zeros(int(history[-1]) + 1 if len(ops) else 0, np.bool_))
    table = Table.of(ops, flagged)
    elections = np.flatnonzero(ops.kind == Kind.ELECTION)
    flagged.flag(elections, np.ones(len(elections), np.bool_))
    _flag_reads(table, flagged)
    _flag_times(table, flagged)
    _flag_torn_stability(table, flagged)
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
    there, seen = np.zeros((2, records.slots + 1), np.int64)
    there[records.slot + 1] = 1
    seen[records.slot[table.visible] + 1] = 1
    low, high = records.at(group, begin), records.at(group, end)
    committed = table.fetches.committed[filled]
    for kind, those in ((there, ~committed), (seen, committed)):
        if those.any():
            below = np.cumsum(kind)
            flagged.flag(fetches[those], (below[high] - below[low] != rows.counts[fetches])[those])
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
    shift = rows.group * horizon
    # When the log can first have been stable beyond each record: partitions' times lie above those of the one before.
    home = table.transactions.of_row[records.row]
    since = np.where(home < 0, call[records.row], call[np.append(table.transactions.end, 0)[home]])
    floor = np.repeat(np.arange(rows.groups) * horizon, np.diff(records.first))
    stable = floor.copy()
    stable[records.slot[table.visible]] += since[table.visible]
    stable = np.maximum.accumulate(stable)
    # Each row that says how far the log was stable, and each that says how long it was.
    fetches, end = table.fetches.row, table.fetches.end
    filled = rows.counts[fetches] > 0
    read, told = filled & table.fetches.committed, table.said.stable[fetches] > 0
    mark = ops.high_watermark[fetches] > 0
    until = [(fetches[read], end[read]), (fetches[told], table.said.stable[fetches[told]])]
    for row, length in until:
        group = rows.group[row]
        beyond = length > records.low[group]
        row, length, group = row[beyond], length[beyond], group[beyond]
        at = records.at(group, length) - 1
        flagged.flag(row, stable[at] >= returned[row] + shift[row])
    lengths = [
        *until,
        (fetches[filled], end[filled]),
        (fetches[mark], ops.high_watermark[fetches[mark]]),
        (rows.lists, ops.offset[rows.lists]),
        (rows.strong, ops.offset[rows.strong] + rows.counts[rows.strong]),
    ]
    reached = np.full(records.slots, NEVER, np.int64)
    for row, length in lengths:
        np.minimum.at(reached, records.at(rows.group[row], length), returned[row] + shift[row])
    reached = np.minimum.accumulate(reached[::-1])[::-1]
    placed = np.flatnonzero(records.base >= 0)
    at = records.at(rows.group[placed], records.base[placed] + 1)
    flagged.flag(placed, reached[at] < call[placed] + shift[placed])


def _times(ops: Operations, groups: int) -> tuple[Ints, Ints, int]:
    """Calls, returns, and a time beyond all of them but NEVER: short enough to be shifted by partitions."""
    call, returned = ops.call, ops.returned
    finite = returned[returned != NEVER]
    horizon = int(max(call.max(initial=0), finite.max(initial=0))) + 2
    if horizon * (groups + 1) >= 1 << 62:
        return ranks(call, returned)
    return call, np.minimum(returned, horizon - 1), horizon


def _flag_torn_stability(table: Table, flagged: Flagged) -> None:
    """Fetches that say a last stable offset within a committed transaction, where no other one begins."""
    told = np.flatnonzero(table.said.stable >= 0)
    records, rows = table.records, table.rows
    inside = table.transactions.of_row[records.row] >= 0
    if not len(told) or not inside.any():
        return
    slot, row, visible = records.slot[inside], records.row[inside], table.visible[inside]
    key = table.transactions.of_row[row] * rows.groups + rows.group[row]
    order = np.argsort(key, kind="stable")
    slot, key, visible = slot[order], key[order], visible[order]
    starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    first, last = np.minimum.reduceat(slot, starts), np.maximum.reduceat(slot, starts)
    # Another transaction may be open from its first record on, and from where nobody knows what is there.
    begins = np.ones(records.slots + 1, np.bool_)
    begins[records.slot] = False
    begins[first] = True
    first, last = first[visible[starts]], last[visible[starts]]
    within = np.bincount(first + 1, minlength=records.slots + 1) - np.bincount(last + 1, minlength=records.slots + 1)
    torn = (np.cumsum(within) > 0) & ~begins
    group, stable = rows.group[told], table.said.stable[told]
    within_log = (stable >= records.low[group]) & (stable < records.high[group])
    flagged.flag(told, within_log & torn[records.at(group, stable)])

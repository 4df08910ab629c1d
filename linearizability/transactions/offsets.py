"""Do the offsets that groups commit in transactions divide the records that they read? One pass over a block.

For a group and a partition, a committed transaction stands for the records from where its first fetch began to the
offset that it committed. Counted in visible records, each must begin where the one before it ended.
"""

from __future__ import annotations

import numpy as np

from tidegauge.linearizability.history import UNKNOWN, Flags, Ints, Kind, Outcome
from tidegauge.linearizability.transactions.table import Flagged, Table


def flag_offsets(table: Table, flagged: Flagged) -> None:
    """Flag histories in which a record is worked on twice, or by nobody, or an offset is committed beyond the reads."""
    ops = table.ops
    commits = np.flatnonzero((ops.kind == Kind.COMMIT_OFFSETS) & (ops.outcome != Outcome.FAIL))
    if not len(commits):
        return
    of = table.transactions.of_row[commits]
    may = (of < 0) | np.append(table.committed | table.transactions.unknown, False)[of]
    commits, of = commits[may], of[may]
    partition = table.rows.group[commits]
    _, pair = np.unique(table.said.group[commits].astype(np.int64) * table.rows.groups + partition, return_inverse=True)
    left_out = np.zeros(len(commits), np.bool_)
    left_out[pair[(of < 0) | (ops.outcome[commits] == Outcome.INFO)]] = True
    needed = (of >= 0) & np.append(table.committed, False)[of]
    # The last offset that a transaction commits is the one that counts.
    order = np.lexsort((commits, of, pair))
    last = np.append((np.diff(pair[order]) != 0) | (np.diff(of[order]) != 0), True)
    kept = order[last & needed[order]]
    commits, of, pair, partition = commits[kept], of[kept], pair[kept], partition[kept]
    begin, end = _consumed(table, of, partition)
    left_out[pair[begin == UNKNOWN]] = True
    checked = ~left_out[pair]
    commits, pair, partition = commits[checked], pair[checked], partition[checked]
    offsets = np.concatenate((begin[checked], end[checked], ops.offset[commits]))
    low, read, high = np.split(visible_below(table, np.tile(partition, 3), offsets), 3)
    flagged.flag(commits, high > read)
    filled = np.flatnonzero(high > low)
    filled = filled[np.lexsort((high[filled], low[filled], pair[filled]))]
    before, after = filled[:-1], filled[1:]
    flagged.flag(commits[after], (pair[after] == pair[before]) & (low[after] != high[before]))


def _consumed(table: Table, of: Ints, partition: Ints) -> tuple[Ints, Ints]:
    """Where the first fetch of each transaction in a partition began and its last one ended; UNKNOWN without one."""
    home = table.transactions.of_row[table.fetches.row]
    known = np.flatnonzero((home >= 0) & (table.fetches.begin != UNKNOWN))
    key = home[known] * table.rows.groups + table.rows.group[table.fetches.row[known]]
    order = np.argsort(key, kind="stable")
    key, known = key[order], known[order]
    wanted = of * table.rows.groups + partition
    first, last = np.searchsorted(key, wanted), np.searchsorted(key, wanted, side="right") - 1
    there: Flags = last >= first
    padded = np.append(known, 0)
    begin = np.where(there, np.append(table.fetches.begin, 0)[padded[np.minimum(first, len(known))]], UNKNOWN)
    end = np.where(there, np.append(table.fetches.end, 0)[padded[np.minimum(last, len(known))]], UNKNOWN)
    return begin, end


def visible_below(table: Table, partition: Ints, offset: Ints) -> Ints:
    """How many records that read_committed shows are below an offset, counted over the whole block."""
    below: Ints = table.seen_below[table.records.at(partition, offset)]
    return below

"""Is there an order of the committed transactions that explains a history, overwriting and anti-dependencies included?

Labels that rise along every dependency, each within the interval of its transaction, are such an order. The least ones
are found in rounds: each transaction begins with its call, and is moved beyond those that it depends on. Intervals that
do not overlap need no moving, so the rounds are as many as the dependencies that overlap in a row, not as the history
is long. Where the rounds do not end, or a label leaves its interval, there is a cycle, or it takes a closer look.
"""

from __future__ import annotations

import attrs
import numpy as np

from tidegauge.linearizability.history import NEVER, UNKNOWN, Flags, Ints, Kind, Outcome
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.transactions.table import Flagged, Table

ROUNDS = 64
ROOM = 1 << 20
"""Labels between two instants: more than rounds."""


@attrs.frozen(eq=False)
class _Nodes:
    """The transactions of a block, and after them its rows, each of which may be a transaction by itself."""

    of_row: Ints
    counts: Flags
    """Which of them are nodes: what is committed, or was read, or read."""
    call: Ints
    returned: Ints
    process: Ints
    first: Ints
    """The first row of each."""
    last: Ints


def flag_cycles(table: Table, flagged: Flagged, level: Level) -> None:
    """Flag histories whose dependencies, as far as they count at the level, may have a cycle."""
    nodes = _nodes(table)
    edges = np.concatenate([_reads(table, nodes), _process_order(nodes, flagged)], axis=1)
    if level is Level.STRICT:
        edges = np.concatenate([edges, _overwrites(table, nodes), _misses(table, nodes)], axis=1)
    edges = edges[:, edges[0] != edges[1]]
    times, rank = np.unique(np.concatenate((nodes.call, nodes.returned)), return_inverse=True)
    size = len(nodes.call)
    label, until = rank[:size] * ROOM, rank[size:] * ROOM + ROOM - 1
    until[nodes.returned == NEVER] = (len(times) + 1) * ROOM
    source, target = edges
    for _ in range(ROUNDS):
        late = np.flatnonzero(label[source] >= label[target])
        if not len(late):
            break
        np.maximum.at(label, target[late], label[source[late]] + 1)
    late = np.flatnonzero(label[source] >= label[target])
    wrong = nodes.counts & (label > until)
    wrong[target[late]] = True
    flagged.flag(nodes.first, wrong)


def _nodes(table: Table) -> _Nodes:
    ops, transactions = table.ops, table.transactions
    size = len(transactions)
    rows = np.arange(len(ops))
    of_row = np.where(transactions.of_row >= 0, transactions.of_row, size + rows)
    counts = np.zeros(size + len(ops), np.bool_)
    counts[:size] = table.committed
    alone = transactions.of_row < 0
    counts[size + table.records.row[alone[table.records.row]]] = True
    fetches = table.fetches.row[table.fetches.committed & (table.fetches.begin != UNKNOWN)]
    counts[size + fetches[alone[fetches]]] = True
    call = np.full(len(counts), NEVER, np.int64)
    np.minimum.at(call, of_row, ops.call)
    certain = np.where(ops.outcome == Outcome.OK, ops.returned, NEVER)
    certain = np.where((ops.kind == Kind.PRODUCE) & (ops.acks != -1), NEVER, certain)
    returned = np.concatenate((np.where(transactions.committed, ops.returned[transactions.end], NEVER), certain))
    first = np.full(len(counts), len(ops), np.int64)
    np.minimum.at(first, of_row, rows)
    last = np.zeros(len(counts), np.int64)
    last[of_row] = rows
    first[first == len(ops)] = 0
    return _Nodes(of_row, counts, call, returned, ops.process[first].astype(np.int64), first, last)


def _overwrites(table: Table, nodes: _Nodes) -> Ints:
    """From the writer of each visible record to that of the next one in the partition."""
    _, row = _visible(table)
    group = table.rows.group[row]
    writer = nodes.of_row[row]
    same = group[1:] == group[:-1]
    return np.stack((writer[:-1][same], writer[1:][same]))


def _visible(table: Table) -> tuple[Ints, Ints]:
    """The slots of visible records, in order, and the produce of each."""
    slot, row = table.records.slot[table.visible], table.records.row[table.visible]
    order = np.argsort(slot, kind="stable")
    return slot[order], row[order]


def _reads(table: Table, nodes: _Nodes) -> Ints:
    """From the writer of each record to those who read it."""
    reader, writer = (nodes.of_row[rows] for rows in table.readings)
    kept = nodes.counts[reader]
    return np.stack((writer[kept], reader[kept]))


def _misses(table: Table, nodes: _Nodes) -> Ints:
    """From each reader to the writer of the first visible record that it did not read on to."""
    fetches = table.fetches
    kept = np.flatnonzero(fetches.committed & (fetches.end != UNKNOWN) & nodes.counts[nodes.of_row[fetches.row]])
    slot, row = _visible(table)
    if not len(kept) or not len(slot):
        return np.zeros((2, 0), np.int64)
    reader, group = nodes.of_row[fetches.row[kept]], table.rows.group[fetches.row[kept]]
    order = np.lexsort((fetches.end[kept], group, reader))
    last = np.append((np.diff(reader[order]) != 0) | (np.diff(group[order]) != 0), True)
    kept, reader, group = (column[order[last]] for column in (kept, reader, group))
    following = np.searchsorted(slot, table.records.at(group, fetches.end[kept]))
    there = np.minimum(following, len(slot) - 1)
    same = (following < len(slot)) & (table.rows.group[row[there]] == group)
    return np.stack((reader[same], nodes.of_row[row[there[same]]]))


def _process_order(nodes: _Nodes, flagged: Flagged) -> Ints:
    """From each transaction that returned to the next one of its process; flags processes that work on two at once."""
    node = np.flatnonzero(nodes.counts)
    history = flagged.history[nodes.first[node]]
    node = node[np.lexsort((nodes.first[node], nodes.process[node], history))]
    history, process = flagged.history[nodes.first[node]], nodes.process[node]
    done = np.where(nodes.returned[node] != NEVER, np.arange(len(node)), -1)
    before = np.concatenate(([-1], np.maximum.accumulate(done)))[: len(node)]
    same = (before >= 0) & (history[before] == history) & (process[before] == process)
    before, after = node[before[same]], node[same]
    at_once = (nodes.last[before] > nodes.first[after]) | (nodes.returned[before] > nodes.call[after])
    flagged.flag(nodes.first[after], at_once)
    return np.stack((before, after))

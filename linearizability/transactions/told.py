"""What is no verdict on transactions: cycles that Kafka allows, and where consumers went on after an abort.

Kafka promises no isolation but that read_committed shows what is committed: transactions may interleave their writes
(G0), and a fetch may be late, so that anti-dependencies prove nothing. And an application whose transaction is aborted
has to rewind its consumer itself (KAFKA-17582).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import attrs
import numpy as np

from tidegauge.linearizability.anomaly import Anomaly
from tidegauge.linearizability.history import UNKNOWN, Flags, Operations, blocks
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.transactions.cycles import find_allowed_cycles
from tidegauge.linearizability.transactions.findings import grouped
from tidegauge.linearizability.transactions.offsets import visible_below
from tidegauge.linearizability.transactions.screen import screen
from tidegauge.linearizability.transactions.story import Story
from tidegauge.linearizability.transactions.table import BLOCK, Table, with_transactions


@attrs.frozen
class Positions:
    """Where a process went on in a partition after an aborted transaction that had consumed records of it."""

    rewound: int = 0
    """To where the transaction began: its records are worked on again."""
    further: int = 0
    """Below that."""
    between: int = 0
    unchanged: int = 0
    """To where it ended, or beyond: its records are worked on by nobody, unless by another process."""

    def __add__(self, other: Positions) -> Positions:
        return Positions(*(mine + its for mine, its in zip(attrs.astuple(self), attrs.astuple(other), strict=True)))

    def __str__(self) -> str:
        return (
            f"after an abort {self.rewound:,} positions rewound, {self.further:,} further, {self.between:,} partly, "
            f"{self.unchanged:,} unchanged"
        )


@attrs.frozen
class Told:
    """Of all histories: cycles that Kafka allows, and positions after an abort."""

    cycles: tuple[Anomaly, ...]
    positions: Positions


def tell(operations: Operations, most: int | None = None) -> Told:
    """What is told of histories with transactions, which are well formed and sorted by history and index.

    Cycles are looked for history by history where the arrays do not exclude them: until `most` were found, if given.
    """
    cycles: list[Anomaly] = []
    positions = Positions()
    rows = np.repeat(with_transactions(operations), np.diff(operations.history_starts))
    operations = operations.take(np.flatnonzero(rows))
    for start, stop in blocks(operations, BLOCK):
        block = operations.slice(start, stop)
        flags, table = screen(block, Level.STRICT)
        positions += _positions(table)
        left = None if most is None else max(most - len(cycles), 0)
        cycles += islice(_allowed(block, flags), left)
    return Told(tuple(cycles), positions)


def _allowed(block: Operations, flags: Flags) -> Iterator[Anomaly]:
    starts = block.history_starts
    for number in np.flatnonzero(flags).tolist():
        story = Story(list(block.slice(int(starts[number]), int(starts[number + 1]))))
        if not story.reused:
            yield from grouped(story.rows, find_allowed_cycles(story))


def _positions(table: Table) -> Positions:
    """Compare where each transaction without a commit began and ended with where its process fetched next."""
    fetches, transactions = table.fetches, table.transactions
    row = fetches.row
    order = np.lexsort((row, table.ops.process[row], table.rows.group[row]))
    order = order[fetches.begin[order] != UNKNOWN]
    row = row[order]
    group, process, home = table.rows.group[row], table.ops.process[row], transactions.of_row[row]
    # Runs of fetches of one process on one partition in one transaction.
    new = np.ones(len(row), np.bool_)
    new[1:] = (group[1:] != group[:-1]) | (process[1:] != process[:-1]) | (home[1:] != home[:-1])
    starts = np.flatnonzero(new)
    if len(starts) < 2:
        return Positions()
    ends = np.append(starts[1:], len(row)) - 1
    aborted = (home[starts] >= 0) & ~np.append(table.committed | transactions.unknown, False)[home[starts]]
    same = (group[starts[1:]] == group[starts[:-1]]) & (process[starts[1:]] == process[starts[:-1]])
    at = np.flatnonzero(aborted[:-1] & same)
    low = visible_below(table, group[starts[at]], fetches.begin[order[starts[at]]])
    high = visible_below(table, group[starts[at]], fetches.end[order[ends[at]]])
    following = visible_below(table, group[starts[at]], fetches.begin[order[starts[at + 1]]])
    read = high > low
    return Positions(
        int((read & (following == low)).sum()),
        int((read & (following < low)).sum()),
        int((read & (following > low) & (following < high)).sum()),
        int((read & (following >= high)).sum()),
    )

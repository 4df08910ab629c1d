"""Check histories with transactions: screen them in arrays, and look closer at those that break a rule."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from tidegauge.linearizability.anomaly import Anomaly, Name
from tidegauge.linearizability.coverage import Coverage, Gap, Promised
from tidegauge.linearizability.history import NEVER, Flags, Ints, Kind, Operations, blocks
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.transactions.cycles import find_cycles
from tidegauge.linearizability.transactions.findings import grouped
from tidegauge.linearizability.transactions.reads import (
    find_bad_polls,
    find_bad_reads,
    find_late_appends,
    find_misplaced,
    find_sends_out_of_order,
    find_unstable_reads,
)
from tidegauge.linearizability.transactions.screen import compiled, screen, screen_with
from tidegauge.linearizability.transactions.story import Story
from tidegauge.linearizability.transactions.table import BLOCK, Table
from tidegauge.linearizability.transactions.tiling import find_offset_faults
from tidegauge.linearizability.witness import Finding, finding

FINDERS = (
    find_bad_reads,
    find_misplaced,
    find_sends_out_of_order,
    find_bad_polls,
    find_unstable_reads,
    find_late_appends,
    find_offset_faults,
)


def check_transactions(
    operations: Operations, level: Level, named: int | None
) -> tuple[list[Anomaly], Coverage | None]:
    """Check every history; all of them have transactions, are well formed and sorted by history and index.

    With `named` what that covers is counted too, and so many partitions are named that it does not.
    """
    anomalies: list[Anomaly] = []
    counted: list[_Counts] = []
    code = compiled(len(operations), level) if named is None else None
    for start, stop in blocks(operations, BLOCK):
        block = operations if stop - start == len(operations) else operations.slice(start, stop)
        if code is not None:
            flags = screen_with(code, block)
        else:
            flags, table = screen(block, level)
            if named is not None:
                counted.append(_count(table, named))
        if flags.any():
            starts = block.history_starts.tolist()
            for number in np.flatnonzero(flags).tolist():
                anomalies += check_history(block.slice(starts[number], starts[number + 1]), level)
    return anomalies, None if named is None else _coverage(counted, named)


def check_history(operations: Operations, level: Level) -> list[Anomaly]:
    """The closer look at one history."""
    story = Story(list(operations))
    return grouped(story.rows, _findings(story, level))


def _findings(story: Story, level: Level) -> Iterator[Finding]:
    if story.reused:
        for first, again, value in story.reused:
            reason = f"both sent the value {value}: give each record, and each attempt to send it, its own"
            yield finding(Name.REUSED_VALUE, reason, first, again)
        return
    lost = [row for row in story.rows if row.kind is Kind.ELECTION]
    if lost:
        reason = "an unclean election is declared: what transactions promise is not checked across it"
        yield finding(Name.UNDECIDED, reason, lost[0])
        return
    for finder in FINDERS:
        yield from finder(story)
    yield from find_cycles(story, level)


# --- what a verdict covers -------------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class _Counts:
    """By history of a block: records, and what is known of transactions. `gaps`: its first partitions not covered."""

    records: Ints
    unconfirmed: Ints
    partitions: int
    gaps: list[Gap]
    promised: Promised


def _count(table: Table, most_named: int) -> _Counts:
    ops, rows, records = table.ops, table.rows, table.records
    since = rows.settled()
    read, reader = rows.read
    whose = rows.group[reader]
    at = records.at(whose, ops.record_offsets()[read])
    seen, late = np.zeros((2, records.slots), np.bool_)
    seen[at] = True
    if (since != NEVER).any():
        late[at[ops.call[reader] >= since[whose]]] = True
    told = np.append(table.transactions.committed, True)[table.transactions.of_row[records.row]]
    strong = np.zeros(len(ops), np.bool_)
    strong[rows.strong] = True
    must = table.visible & ((strong[records.row] & told) | seen[records.slot])
    group = rows.group[records.row]
    open_ones = np.flatnonzero(must & ~late[records.slot])
    by_group = np.bincount(group[open_ones], minlength=rows.groups)
    first = np.full(rows.groups, NEVER, np.int64)
    np.minimum.at(first, group[open_ones], records.slot[open_ones])
    of_group = np.bincount(group[np.flatnonzero(must)], minlength=rows.groups)
    row = np.zeros(rows.groups, np.int64)
    row[rows.group[::-1]] = np.arange(len(ops))[::-1]
    lacking = np.flatnonzero(by_group)
    gaps = [
        Gap(
            history=int(ops.history[row[one]]),
            topic=ops.topics[ops.topic[row[one]]],
            partition=int(ops.partition[row[one]]),
            records=int(of_group[one]),
            unconfirmed=int(by_group[one]),
            first=int(first[one] - records.shift[one]),
            open_end=False,
            settled=bool(since[one] != NEVER),
        )
        for one in lacking[np.argsort(row[lacking])][:most_named].tolist()
    ]
    total, unconfirmed = np.zeros((2, table.histories), np.int64)
    np.add.at(total, table.history[row], of_group)
    np.add.at(unconfirmed, table.history[row], by_group)
    return _Counts(total, unconfirmed, len(lacking), gaps, _promised(table))


def _promised(table: Table) -> Promised:
    """By history: transactions, those of unknown outcome, and of these the ones that a read shows to be committed."""
    home = table.transactions.of_row
    history = np.zeros(len(table.transactions), np.int64)
    inside = np.flatnonzero(home >= 0)
    history[home[inside]] = table.history[inside]
    there = np.zeros(len(table.transactions), np.bool_)
    there[home[inside]] = True

    def count(which: Flags) -> Ints:
        return np.bincount(history[there & which], minlength=table.histories)

    unknown = table.transactions.unknown
    return Promised(count(there), count(unknown), count(unknown & table.committed))


def _coverage(counted: list[_Counts], most_named: int) -> Coverage:
    none = np.zeros(0, np.int64)
    records = np.concatenate([none, *(one.records for one in counted)])
    gaps = [gap for one in counted for gap in one.gaps]
    promised = [one.promised for one in counted] or [Promised(none, none, none)]
    return Coverage(
        records=records,
        unconfirmed=np.concatenate([none, *(one.unconfirmed for one in counted)]),
        open_ends=np.zeros(len(records), np.int64),
        partitions=sum(one.partitions for one in counted),
        gaps=tuple(gaps[:most_named]),
        promised=Promised(*(np.concatenate(parts) for parts in zip(*map(attrs.astuple, promised), strict=True))),
    )

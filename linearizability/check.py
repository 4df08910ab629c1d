"""Check histories: `check(operations)` gives a verdict for each history and a table of anomalies."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from functools import cached_property

import attrs
import numpy as np
import pyarrow as pa

from tidegauge.linearizability.anomaly import Anomaly
from tidegauge.linearizability.arrow import HistoryError
from tidegauge.linearizability.coverage import MOST_NAMED, Coverage, Covering
from tidegauge.linearizability.findings.looking import HOLE_STEPS, look
from tidegauge.linearizability.groups.checking import check_groups
from tidegauge.linearizability.groups.decisions import decide, told
from tidegauge.linearizability.groups.parts import count_groups, of_the_log, rows_of_groups, with_groups
from tidegauge.linearizability.history import Codes, Ints, Kind, Operations, Outcome
from tidegauge.linearizability.judged import Judged, in_words
from tidegauge.linearizability.log import Level, screen
from tidegauge.linearizability.malformed import find
from tidegauge.linearizability.transactions.checking import check_transactions
from tidegauge.linearizability.transactions.table import with_transactions


class Verdict(IntEnum):
    """What is decided about one history."""

    VALID = 0
    VIOLATED = 1
    UNKNOWN = 2


VERDICT_SCHEMA = pa.schema(
    [
        ("history", pa.int64()),
        ("operations", pa.int64()),
        ("verdict", pa.int8()),
        ("anomalies", pa.int32()),
        ("records", pa.int64()),
        ("unconfirmed", pa.int64()),
        ("open_ends", pa.int64()),
        ("judged", pa.string()),
        ("note", pa.string()),
    ]
)
ANOMALY_SCHEMA = pa.schema(
    [
        ("history", pa.int64()),
        ("anomaly", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("operations", pa.list_(pa.int32())),
        ("count", pa.int64()),
        ("witness", pa.string()),
    ]
)


@attrs.frozen(eq=False, slots=False)
class Verdicts:
    """One verdict for each history, in the order of the operations, and what was found."""

    histories: Ints
    operations: Ints
    verdicts: Codes
    anomalies: tuple[Anomaly, ...]
    rows: Operations | None
    """What was checked; None where `covered` says what the verdicts cover."""
    covered: Coverage | None = None

    @property
    def valid(self) -> bool:
        """Whether every history is valid."""
        return not self.verdicts.any()

    @cached_property
    def coverage(self) -> Coverage:
        """What the verdicts cover: *valid* says nothing of a loss that no read would show. Counted when asked for."""
        if self.covered is not None:
            return self.covered
        assert self.rows is not None, "without rows the coverage was counted before"
        return check(self.rows, named=MOST_NAMED).coverage

    def detached(self) -> Verdicts:
        """The same with its coverage counted, and without the operations: for those who keep the verdicts on much."""
        return attrs.evolve(self, rows=None, covered=self.coverage)

    def of(self, history: int) -> Verdict:
        """The verdict for `history`; KeyError if it is not among those checked."""
        at = np.flatnonzero(self.histories == history)
        if not len(at):
            raise KeyError(f"history {history} is not among the {len(self.histories)} checked")
        return Verdict(int(self.verdicts[at[0]]))

    def table(self) -> pa.Table:
        """One row a history, in VERDICT_SCHEMA."""
        counts = np.zeros(len(self.histories), np.int32)
        if self.anomalies:
            order = np.argsort(self.histories, kind="stable")
            ids = np.array([anomaly.history for anomaly in self.anomalies])
            np.add.at(counts, order[np.searchsorted(self.histories, ids, sorter=order)], 1)
        covered = self.coverage
        columns = [self.histories, self.operations, self.verdicts, counts]
        columns += [covered.records, covered.unconfirmed, covered.open_ends]
        said = [in_words(covered.parts), covered.notes()]
        return pa.Table.from_arrays([*map(pa.array, columns), *said], schema=VERDICT_SCHEMA)

    def anomaly_table(self) -> pa.Table:
        """One row an anomaly, in ANOMALY_SCHEMA."""
        rows = [
            {
                "history": one.history,
                "anomaly": one.name.value,
                "topic": one.topic,
                "partition": one.partition,
                "operations": list(one.operations),
                "count": one.count,
                "witness": one.witness,
            }
            for one in self.anomalies
        ]
        return pa.Table.from_pylist(rows, schema=ANOMALY_SCHEMA)


def check(
    operations: Operations, level: Level = Level.KAFKA, hole_steps: int = HOLE_STEPS, *, named: int | None = None
) -> Verdicts:
    """Check every history in `operations`, which are well formed and sorted by history and index.

    Raises HistoryError where they are not. One array pass screens all partitions; all that it flags are looked at
    together. With `named` the pass counts what the verdicts cover as well, and names so many partitions that they do
    not; else that is counted when it is asked for.
    """
    if not isinstance(operations, Operations):
        kind = type(operations).__name__
        raise TypeError(
            f"check takes Operations, not {kind}: give history.operations(), or what linearizability.files.read read"
        )
    starts = operations.history_starts
    _refuse_disorder(operations, starts)
    histories = operations.history[starts[:-1]] if len(operations) else np.zeros(0, np.int64)
    anomalies, covered = _checked(operations, starts, level, hole_steps, named)
    if covered is not None and covered.judged is None:
        covered = attrs.evolve(covered, judged=Judged.of(operations, starts))
    found = verdicts_of(histories, anomalies)
    return Verdicts(histories, np.diff(starts), found, tuple(anomalies), operations, covered)


def _refuse_disorder(operations: Operations, starts: Ints) -> None:
    """Raise HistoryError for rows whose verdict would mean nothing: out of order, or of a kind or outcome that is none.

    Everything else that a row must be readers check (`malformed.split`).
    """
    if not len(operations):
        return
    heads, index = operations.history[starts[:-1]], operations.index
    rises = index[1:] > index[:-1]
    rises[starts[1:-1] - 1] = True
    named = all(
        codes.min() >= 0 and codes.max() < len(names)
        for codes, names in ((operations.kind, Kind), (operations.outcome, Outcome))
    )
    if named and rises.all() and ((heads[1:] > heads[:-1]).all() or len(np.unique(heads)) == len(heads)):
        return
    raise HistoryError(str(find(operations)[0]))


def _checked(
    operations: Operations, starts: Ints, level: Level, hole_steps: int, named: int | None
) -> tuple[list[Anomaly], Coverage | None]:
    """What is found: the groups of histories that have some are checked, and what else there is as in all others."""
    whose = with_groups(operations)
    if not whose.any():
        return _checked_without_groups(operations, starts, level, hole_steps, named)
    decisions, commits = decide(operations, whose)
    others = of_the_log(told(operations, commits), whose)
    rows = rows_of_groups(operations, whose)
    found = check_groups(operations.take(rows), decisions.take(rows), level)
    anomalies, covered = _checked_without_groups(others, others.history_starts, level, hole_steps, named)
    if covered is not None:
        there = np.isin(operations.history[starts[:-1]], others.history)
        covered = covered.with_groups(there, count_groups(operations, whose))
    return [*anomalies, *found], covered


def _checked_without_groups(
    operations: Operations, starts: Ints, level: Level, hole_steps: int, named: int | None
) -> tuple[list[Anomaly], Coverage | None]:
    """What is found: histories with transactions are checked as such, all others as a log."""
    whose = with_transactions(operations)
    if not whose.any():
        return _checked_logs(operations, starts, level, hole_steps, named)
    if whose.all():
        return check_transactions(operations, level, named)
    rows = np.repeat(whose, np.diff(starts))
    logs = operations.take(np.flatnonzero(~rows))
    found, of_transactions = check_transactions(operations.take(np.flatnonzero(rows)), level, named)
    anomalies, of_logs = _checked_logs(logs, logs.history_starts, level, hole_steps, named)
    covered = None if of_transactions is None or of_logs is None else of_transactions.beside(of_logs, whose)
    return [*anomalies, *found], covered


def _checked_logs(
    operations: Operations, starts: Ints, level: Level, hole_steps: int, named: int | None
) -> tuple[list[Anomaly], Coverage | None]:
    covering = None if named is None else Covering(operations, starts, named)
    suspects = screen(operations, level, covering)
    anomalies = look(operations, suspects.rows, level, hole_steps)
    return anomalies, None if covering is None else covering.coverage()


def verdicts_of(histories: Ints, anomalies: Iterable[Anomaly]) -> Codes:
    """The verdict on each history that has these anomalies."""
    found: dict[int, Verdict] = {}
    for one in anomalies:
        if one.name.violates:
            found[one.history] = Verdict.VIOLATED
        else:
            found.setdefault(one.history, Verdict.UNKNOWN)
    verdicts = np.zeros(len(histories), np.int8)
    if found:
        ids = np.array(sorted(found), np.int64)
        order = np.argsort(histories, kind="stable")
        verdicts[order[np.searchsorted(histories, ids, sorter=order)]] = [found[int(key)] for key in ids]
    return verdicts

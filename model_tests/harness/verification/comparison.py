"""The campaign's histories, checked in this process and in Spark, and the two results compared row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from tidegauge.linearizability import files
from tidegauge.linearizability.check import Verdict, Verdicts, check
from tidegauge.linearizability.history import Kind, concatenate

Row = Mapping[str, Any]


@attrs.frozen(eq=False)
class CheckedTwice:
    """Both verdicts on each history, and every row on which they differ."""

    here: Verdicts
    verdicts: Sequence[Row]
    """Spark's, one a history."""
    differing: tuple[str, ...]
    undecided: frozenset[int] = frozenset()
    """Histories of which nothing is wrong but that, by an unclean election that they declare, they prove nothing."""

    @property
    def agree(self) -> bool:
        return not self.differing

    def spark_verdict(self, history: int) -> Verdict | None:
        """None when Spark has no row for it."""
        return next((Verdict(row["verdict"]) for row in self.verdicts if row["history"] == history), None)


def checked_here(histories: Iterable[Path]) -> tuple[Verdicts, frozenset[int]]:
    """The checker's verdicts on all histories in these files, and those that declare an unclean election.

    What transactions promise is undecided across one. Raises HistoryError.
    """
    operations = concatenate([files.read(path) for path in histories])
    elected = operations.history[operations.kind == Kind.ELECTION]
    return check(operations), frozenset(elected.tolist())


def compared(here: Verdicts, out: Path) -> CheckedTwice:
    """`here` against the tables that the Spark job wrote to `out`."""
    verdicts = rows_of(out / "verdicts", "history")
    differing = [
        *differences("verdict", here.table().to_pylist(), out / "verdicts"),
        *differences("anomaly", here.anomaly_table().to_pylist(), out / "anomalies"),
    ]
    return CheckedTwice(here, verdicts, tuple(differing))


def differences(what: str, own: Sequence[Row], folder: Path) -> list[str]:
    """Rows that only one of the two has, by the columns of `own`."""
    read = rows_of(folder, "history")
    columns = list(own[0]) if own else []
    mine = {repr([row[name] for name in columns]) for row in own}
    theirs = {repr([row[name] for name in columns or row]) for row in read}
    only_here = [f"{what} only here: {row}" for row in sorted(mine - theirs)]
    return only_here + [f"{what} only in Spark: {row}" for row in sorted(theirs - mine)]


def rows_of(folder: Path, order: str) -> list[dict[str, Any]]:
    """All rows of a table that is a folder of Parquet files."""
    tables = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    rows: list[dict[str, Any]] = pa.concat_tables(tables).to_pylist() if tables else []
    return sorted(rows, key=lambda row: row[order])

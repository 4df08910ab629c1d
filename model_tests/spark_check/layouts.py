"""Files of histories whose rows lie as a test wants them, and what the checker alone says about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import Verdict, check
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.history import Operations, concatenate
from tidegauge.spark_check.checking import MALFORMED_SCHEMA, NAMES, VERDICT_SCHEMA

Change = Callable[[pa.Table], pa.Table]
LENGTH = 20
"""Operations in a history."""


@cache
def histories(count: int, first: int = 0, seed: int = 5, rate: float = 0.3) -> Operations:
    """`count` histories of LENGTH operations, some with an anomaly."""
    return concatenate([part for part, _ in generate(count, LENGTH, seed, rate, first_history=first)])


def write(path: Path, rows: pa.Table, row_groups: Sequence[int] | int) -> Path:
    """Write `rows` in row groups of the given sizes."""
    sizes = [row_groups] * -(-len(rows) // row_groups) if isinstance(row_groups, int) else row_groups
    with pq.ParquetWriter(path, rows.schema, compression="zstd") as writer:
        at = 0
        for size in sizes:
            writer.write_table(rows.slice(at, size))
            at += size
    return path


def shuffled(rows: pa.Table, seed: int) -> pa.Table:
    """The same rows in random order."""
    return rows.take(pa.array(np.random.default_rng(seed).permutation(len(rows))))


def replaced(rows: pa.Table, column: str, at: int, value: int | None) -> pa.Table:
    """The same rows with one cell changed; the column becomes nullable."""
    number = rows.schema.get_field_index(column)
    cells = rows.column(number).to_pylist()
    cells[at] = value
    field = rows.schema.field(number).with_nullable(True)
    return rows.set_column(number, field, pa.array(cells, field.type))


def expected(operations: Operations) -> dict[int, tuple[int, str]]:
    """What the checker itself finds: for each history its rows and its verdict."""
    verdicts = check(operations)
    return {
        int(history): (int(rows), Verdict(int(code)).name.lower())
        for history, rows, code in zip(verdicts.histories, verdicts.operations, verdicts.verdicts, strict=True)
    }


def expected_anomalies(operations: Operations) -> set[tuple[int, Name, str, int, str]]:
    """The checker's own anomalies."""
    return {(one.history, one.name, one.topic, one.partition, one.witness) for one in check(operations).anomalies}


def written_verdicts(out: Path) -> dict[int, tuple[int, str]]:
    """The verdict table on disk; a history with two rows is an error."""
    rows = pq.read_table(out / "verdicts", schema=VERDICT_SCHEMA).to_pylist()
    found = {row["history"]: (row["operations"], NAMES[row["verdict"]]) for row in rows}
    assert len(found) == len(rows), "a history has more than one verdict"
    return found


def written_anomalies(out: Path) -> set[tuple[int, Name, str, int, str]]:
    """The anomaly table on disk."""
    rows = pq.read_table(out / "anomalies").to_pylist()
    return {(row["history"], Name(row["anomaly"]), row["topic"], row["partition"], row["witness"]) for row in rows}


def written_malformed(out: Path) -> list[dict[str, object]]:
    """The table of rows kept aside."""
    rows: list[dict[str, object]] = pq.read_table(out / "malformed", schema=MALFORMED_SCHEMA).to_pylist()
    return sorted(rows, key=lambda row: (str(row["file"]), int(str(row["row_group"])), int(str(row["row"]))))

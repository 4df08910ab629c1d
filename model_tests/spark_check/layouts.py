"""Files of histories whose rows lie as a test wants them, and what the checker alone says about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import Verdict, check
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.history import Kind, Operation, Operations, Outcome, concatenate
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


def settled(operations: Operations) -> Operations:
    """The same histories; every other one says that its partitions have settled, and is read after that."""
    parts = [operations]
    for history in np.unique(operations.history)[::2].tolist():
        last = int(operations.call.max()) + 1
        parts.append(_read_once_settled(operations, history, last))
    together = concatenate(parts)
    return together.take(np.lexsort((together.index, together.history)))


def _read_once_settled(operations: Operations, history: int, last: int) -> Operations:
    mine = operations.take(np.flatnonzero(operations.history == history))
    rows = list(mine)
    index = rows[-1].index
    for partition in sorted({row.partition for row in rows}):
        blank = Operation(
            history=history, index=index + 1, process=-1, kind=Kind.SETTLED, outcome=Outcome.OK, topic=rows[0].topic,
            partition=partition, call=last,
        )  # fmt: skip
        read = [row for row in rows if row.partition == partition and row.kind is Kind.FETCH and row.values]
        rows.append(blank)
        index += 1
        for row in read:
            index += 1
            rows.append(attrs.evolve(row, index=index, call=last, returned=last, high_watermark=None))
    return Operations.of(rows[len(mine) :])


def expected_coverage(operations: Operations) -> dict[int, tuple[int, int, int, str | None]]:
    """What the checker itself says that its verdicts cover."""
    return _coverage(check(operations).table())


def written_coverage(out: Path) -> dict[int, tuple[int, int, int, str | None]]:
    """The same, from the verdict table on disk."""
    return _coverage(pq.read_table(out / "verdicts", schema=VERDICT_SCHEMA))


def _coverage(table: pa.Table) -> dict[int, tuple[int, int, int, str | None]]:
    return {
        row["history"]: (row["records"], row["unconfirmed"], row["open_ends"], row["note"]) for row in table.to_pylist()
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

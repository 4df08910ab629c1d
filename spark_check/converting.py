"""Convert JSON lines to Parquet, once, before a job is planned: one task for each file.

A line that is no operation becomes a row of nulls with the reason. It is counted and set aside like a malformed row of
any other file, and so is its history. A task holds its file in memory, about a kilobyte for each operation: split files
of more than a million lines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from tidegauge.linearizability import files, jsonl
from tidegauge.linearizability.arrow import HistoryError, to_arrow
from tidegauge.linearizability.jsonl import MalformedLine
from tidegauge.linearizability.malformed import REASON
from tidegauge.spark_check.footers import PARQUET
from tidegauge.spark_check.output import write_atomically

FOLDER = "_converted"


@attrs.frozen
class Failed:
    """A failure that a retry does not help: the input is wrong."""

    message: str


def converted(file: Path, out: Path) -> Path:
    """Where the Parquet of `file` goes. A hash of the path distinguishes files of the same name."""
    path_hash = hashlib.sha256(str(file).encode()).hexdigest()[:8]
    return out / FOLDER / f"{file.stem}-{path_hash}{PARQUET}"


def convert(file: Path, out: Path) -> Failed | None:
    """Write the Parquet of `file`, unless an earlier run of the job has done so."""
    place = converted(file, out)
    if place.exists():
        return None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        operations, malformed = jsonl.sift(file)
        if malformed:
            table = with_malformed(to_arrow(operations), malformed, file)
            write_atomically(place, partial(pq.write_table, table, compression="zstd"))
        else:
            files.write(place, operations)
    except HistoryError as error:
        return Failed(str(error))
    return None


def with_malformed(table: pa.Table, malformed: Sequence[MalformedLine], file: Path) -> pa.Table:
    """Append to `table` a row for each malformed line: its history if it names one, the reason, and its text."""
    nullable = pa.schema([field.with_nullable(True) for field in table.schema], table.schema.metadata)
    rows = [
        {"history": line.history, "meta": line.text, REASON: f"{file.name}, line {line.number}: {line.reason}"}
        for line in malformed
    ]
    extended = nullable.append(pa.field(REASON, pa.string()))
    sound = table.cast(nullable).append_column(extended.field(REASON), pa.nulls(len(table), pa.string()))
    return pa.concat_tables([sound, pa.Table.from_pylist(rows, schema=extended)])

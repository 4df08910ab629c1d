"""Find the files of a job and read their footers: paths in, pieces out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegauge.linearizability.arrow import HistoryError, known_columns
from tidegauge.spark_check.errors import BadInput
from tidegauge.spark_check.planner import Piece

PARQUET = ".parquet"
LINES = (".jsonl", ".ndjson")
KEY = "history"


def find_files(paths: Iterable[str | Path]) -> tuple[Path, ...]:
    """Find the files of histories among `paths` and in folders among them; each once, sorted by name.

    Names that begin with a dot or an underscore are left out, as Spark does.
    """
    found: set[Path] = set()
    for path in map(Path, paths):
        if path.is_dir():
            inside = [file for file in path.rglob("*") if _is_data(file.relative_to(path)) and file.is_file()]
            if not inside:
                raise BadInput(f"{path} holds no histories: no file in it ends in {PARQUET} or {' or '.join(LINES)}")
            found.update(file.resolve() for file in inside)
        elif not path.exists():
            raise BadInput(f"{path} does not exist: give files of histories, or folders that hold some")
        elif path.suffix not in (PARQUET, *LINES):
            raise BadInput(
                f"{path} is no file of histories by its name: it should end in {PARQUET} or {' or '.join(LINES)}"
            )
        else:
            found.add(path.resolve())
    if not found:
        raise BadInput("no histories to check: give at least one file or folder")
    return tuple(sorted(found))


def _is_data(relative: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in relative.parts)
    return not hidden and relative.suffix in (PARQUET, *LINES)


def read_footer(file: Path) -> pq.FileMetaData:
    """Read the footer of a Parquet file. Raises BadInput if it has none."""
    try:
        return pq.read_metadata(file)
    except (OSError, pa.ArrowException) as error:
        raise BadInput(
            f"{file} cannot be read as Parquet ({error}): is it whole? A writer that was killed leaves no footer"
        ) from error


def pieces_of(files: Sequence[Path]) -> Iterator[Piece]:
    """Every row group that has rows. Without statistics in the footer, the column `history` is read."""
    for file in files:
        footer = read_footer(file)
        column = _key_column(file, footer)
        for group in range(footer.num_row_groups):
            row_group = footer.row_group(group)
            if row_group.num_rows == 0:
                continue
            statistics = row_group.column(column).statistics
            if statistics is not None and statistics.has_min_max:
                yield Piece(str(file), group, row_group.num_rows, int(statistics.min), int(statistics.max))
            else:
                yield Piece(str(file), group, row_group.num_rows, *_measure(file, group))


def _key_column(file: Path, footer: pq.FileMetaData) -> int:
    schema = footer.schema.to_arrow_schema()
    try:
        known_columns(schema.names, str(file))
    except HistoryError as error:
        raise BadInput(str(error)) from None
    if KEY not in schema.names:
        raise BadInput(
            f"{file} has no column `{KEY}`, it has {', '.join(schema.names) or 'none'}: "
            "docs/history.md says what a table of histories looks like"
        )
    if schema.names.count(KEY) > 1:
        raise BadInput(f"{file} has more than one column `{KEY}`: write each column once")
    if not pa.types.is_integer(schema.field(KEY).type):
        raise BadInput(f"{file}: the column `{KEY}` is {schema.field(KEY).type}: histories are numbered, as int64")
    return [footer.schema.column(at).path for at in range(len(footer.schema))].index(KEY)


def _measure(file: Path, group: int) -> tuple[int | None, int | None]:
    extremes = pc.min_max(pq.ParquetFile(file).read_row_group(group, columns=[KEY]).column(0))
    return extremes["min"].as_py(), extremes["max"].as_py()

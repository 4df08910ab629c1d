"""Find the files of a job and read their footers: paths in, pieces out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileType

from tidegauge.linearizability.arrow import HistoryError, known_columns
from tidegauge.spark_check.errors import BadInput
from tidegauge.spark_check.places import Place
from tidegauge.spark_check.planner import Piece

PARQUET = ".parquet"
LINES = (".jsonl", ".ndjson")
EDN = ".edn"
JEPSEN = "history.edn"
"""The file of EDN in the folder of each run of Jepsen's; it has others, which are no histories."""
KEY = "history"
AT_ONCE = 16
"""Footers that are read at a time: an object store takes some time for each."""
_ENDINGS = f"{PARQUET} or {' or '.join(LINES)}, or is called {JEPSEN}"


def find_files(paths: Iterable[str | Path | Place]) -> tuple[Place, ...]:
    """Find the files of histories among `paths`, in folders among them and by patterns; each once, sorted by name.

    A path that exists is no pattern. Names that begin with a dot or an underscore are left out, as Spark does.
    """
    found: set[Place] = set()
    for path in paths:
        place = Place.of(path)
        if place.is_pattern and not place.exists():
            matches = place.matches()
            if not matches:
                raise BadInput(f"{place} matches nothing: give files of histories, or folders that hold some")
            inside = [file for match in matches for file in _data_in(match)]
            found.update(inside)
            if not inside:
                raise BadInput(f"{place} matches no histories: nothing there ends in {_ENDINGS}")
        else:
            found.update(_named(place))
    if not found:
        raise BadInput("no histories to check: give at least one file or folder")
    return tuple(sorted(found))


def _named(place: Place) -> Iterable[Place]:
    """The files that a path names."""
    info = place.info()
    if info.type == FileType.Directory:
        inside = _data_in(place)
        if not inside:
            raise BadInput(f"{place} holds no histories: no file in it ends in {_ENDINGS}")
        return inside
    if info.type == FileType.NotFound:
        raise BadInput(f"{place} does not exist: give files of histories, or folders that hold some")
    if place.suffix not in (PARQUET, *LINES, EDN):
        raise BadInput(f"{place} is no file of histories by its name: it should end in {_ENDINGS}")
    return [attrs.evolve(place, size=info.size, modified=info.mtime_ns)]


def _data_in(place: Place) -> list[Place]:
    """The files of histories in a folder and those below it; or the file itself, if it is one."""
    info = place.info()
    if info.type == FileType.Directory:
        found = [file for file in place.files(recursive=True) if _is_data(file.uri.removeprefix(place.for_spark))]
        # A link to another folder, as Jepsen's `latest`, is no second history.
        return found if not place.local else [attrs.evolve(file, uri=Place.of(file.uri).uri) for file in found]
    return [attrs.evolve(place, size=info.size, modified=info.mtime_ns)] if _is_data(place.name) else []


def _is_data(relative: str) -> bool:
    path = PurePosixPath(relative.partition("?")[0].lstrip("/"))
    hidden = any(part.startswith((".", "_")) for part in path.parts)
    return not hidden and (path.suffix in (PARQUET, *LINES) or path.name == JEPSEN)


def read_footer(file: Place) -> pq.FileMetaData:
    """Read the footer of a Parquet file. Raises BadInput if it has none."""
    try:
        with file.open_parquet() as opened:
            return opened.metadata
    except (OSError, pa.ArrowException) as error:
        raise BadInput(
            f"{file} cannot be read as Parquet ({error}): is it whole? A writer that was killed leaves no footer"
        ) from error


def pieces_of(files: Iterable[str | Path | Place]) -> Iterator[Piece]:
    """Every row group that has rows. Without statistics in the footer, the column `history` is read."""
    for file in map(Place.of, files):
        footer = read_footer(file)
        yield from _pieces(file, footer, _key_column(file, footer))


def first_pieces(files: Sequence[Place]) -> tuple[list[Piece], list[Place]]:
    """The row groups of those files whose footers have statistics, and the other files, after a look at all footers."""
    with ThreadPoolExecutor(AT_ONCE) as readers:
        footers = list(readers.map(read_footer, files))
    pieces: list[Piece] = []
    unread: list[Place] = []
    for file, footer in zip(files, footers, strict=True):
        column = _key_column(file, footer)
        if all(_has_extremes(footer, group, column) for group in range(footer.num_row_groups)):
            pieces += _pieces(file, footer, column)
        else:
            unread.append(file)
    return pieces, unread


def _has_extremes(footer: pq.FileMetaData, group: int, column: int) -> bool:
    said = footer.row_group(group).column(column).statistics
    return said is not None and said.has_min_max


def _pieces(file: Place, footer: pq.FileMetaData, column: int) -> Iterator[Piece]:
    for group in range(footer.num_row_groups):
        row_group = footer.row_group(group)
        if row_group.num_rows == 0:
            continue
        statistics = row_group.column(column).statistics
        if _has_extremes(footer, group, column):
            yield Piece(str(file), group, row_group.num_rows, int(statistics.min), int(statistics.max))
        else:
            yield Piece(str(file), group, row_group.num_rows, *_measure(file, group))


def _key_column(file: Place, footer: pq.FileMetaData) -> int:
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


def _measure(file: Place, group: int) -> tuple[int | None, int | None]:
    with file.open_parquet() as opened:
        extremes = pc.min_max(opened.read_row_group(group, columns=[KEY]).column(0))
    return extremes["min"].as_py(), extremes["max"].as_py()

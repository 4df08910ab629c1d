"""Find the files of a job and read their footers: paths in, pieces out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileType

from tidegauge.linearizability.arrow import HistoryError, known_columns
from tidegauge.linearizability.files import columns_of_nulls
from tidegauge.linearizability.parquet import ParquetTable
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


@contextmanager
def open_table(file: Place) -> Iterator[ParquetTable]:
    """A Parquet file with a look at its footer. Raises BadInput if it has none, or cannot be read."""
    try:
        with file.open_parquet() as opened:
            yield opened
    except (OSError, pa.ArrowException) as error:
        raise BadInput(
            f"{file} cannot be read as Parquet ({error}): is it whole? A writer that was killed leaves no footer"
        ) from error


def pieces_of(files: Iterable[str | Path | Place]) -> Iterator[Piece]:
    """Every row group that has rows. Without statistics in the footer, the column `history` is read."""
    for file in map(Place.of, files):
        with open_table(file) as opened:
            yield from _pieces(file, opened)


def first_pieces(files: Sequence[Place]) -> tuple[list[Piece], list[Place]]:
    """The row groups of those files whose footers have statistics, and the other files, after a look at all footers."""
    with ThreadPoolExecutor(AT_ONCE) as readers:
        found = list(readers.map(_pieces_by_footer, files))
    pieces = [piece for some in found for piece in some or ()]
    return pieces, [file for file, some in zip(files, found, strict=True) if some is None]


def _pieces_by_footer(file: Place) -> list[Piece] | None:
    """The row groups of a file; None where statistics are not there for all of them."""
    with open_table(file) as opened:
        _check_columns(file, opened)
        there = all(opened.extremes(group, KEY) is not None for group in range(opened.groups))
        return list(_pieces(file, opened)) if there else None


def _pieces(file: Place, opened: ParquetTable) -> Iterator[Piece]:
    _check_columns(file, opened)
    for group, rows in enumerate(opened.sizes):
        if rows:
            ends = opened.extremes(group, KEY) or _measure(opened, group)
            unread = tuple(sorted(columns_of_nulls(opened, [group])))
            yield Piece(str(file), group, rows, *ends, footer=opened.digest, unread=unread)


def _check_columns(file: Place, opened: ParquetTable) -> None:
    try:
        known_columns(opened.names, str(file))
    except HistoryError as error:
        raise BadInput(str(error)) from None
    if KEY not in opened.names:
        raise BadInput(
            f"{file} has no column `{KEY}`, it has {', '.join(opened.names) or 'none'}: "
            "docs/history.md says what a table of histories looks like"
        )
    if opened.names.count(KEY) > 1:
        raise BadInput(f"{file} has more than one column `{KEY}`: write each column once")
    if not pa.types.is_integer(opened.schema.field(KEY).type):
        raise BadInput(
            f"{file}: the column `{KEY}` is {opened.schema.field(KEY).type}: histories are numbered, as int64"
        )


def _measure(opened: ParquetTable, group: int) -> tuple[int | None, int | None]:
    extremes = pc.min_max(opened.read([group], [KEY]).column(0))
    return extremes["min"].as_py(), extremes["max"].as_py()

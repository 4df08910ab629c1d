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
from tidegauge.spark_check.iceberg import SUFFIX
from tidegauge.spark_check.places import Place
from tidegauge.spark_check.planner import Piece
from tidegauge.spark_check.tables import Table, refuse_part_of_table, table_of, tables_in

PARQUET = ".parquet"
LINES = (".jsonl", ".ndjson")
EDN = ".edn"
JEPSEN = "history.edn"
"""The file of EDN in the folder of each run of Jepsen's; it has others, which are no histories."""
KEY = "history"
AT_ONCE = 16
"""Footers that are read at a time: an object store takes some time for each."""
_ENDINGS = f"{PARQUET} or {' or '.join(LINES)}, or is called {JEPSEN}"


@attrs.define
class _Search:
    """What is found among paths."""

    version: int | None
    files: set[Place] = attrs.field(factory=set)
    tables: dict[Place, int | None] = attrs.field(factory=dict)
    """The version of each table."""
    _outside: set[Place] = attrs.field(factory=set)

    def look_in(self, place: Place) -> None:
        """Find what is in a folder and those below it; or the file itself, if it is one by its name."""
        info = place.info()
        if info.type != FileType.Directory:
            if _is_data(place.name):
                self.add(attrs.evolve(place, size=info.size, modified=info.mtime_ns))
            return
        refuse_part_of_table(place, self._outside)
        inside = list(place.files(recursive=True))
        for table in tables_in(place, inside, self.version):
            self.take(table)
            inside = [file for file in inside if not file.is_within(table.place)]
        found = [file for file in inside if _is_data(file.uri.removeprefix(place.for_spark))]
        # A link to another folder, as Jepsen's `latest`, is no second history.
        self.files.update(attrs.evolve(file, uri=Place.of(file.uri).uri) if file.local else file for file in found)

    def take(self, table: Table) -> None:
        """Take the files of a table."""
        self.tables[table.place] = table.version
        self.files.update(table.files)

    def add(self, file: Place) -> None:
        """Take a file that was named, or that a pattern names."""
        refuse_part_of_table(file, self._outside)
        self.files.add(file)

    @property
    def count(self) -> int:
        """How much was found; a table without files is something."""
        return len(self.files) + len(self.tables)


def find_files(paths: Iterable[str | Path | Place], version: int | None = None) -> tuple[Place, ...]:
    """Find the files of histories among `paths`, as `find` does."""
    return find(paths, version)[0]


def find(paths: Iterable[str | Path | Place], version: int | None = None) -> tuple[tuple[Place, ...], tuple[str, ...]]:
    """Find the files of histories among `paths`, in folders among them and by patterns; each once, sorted by name.

    A path that exists is no pattern. Names that begin with a dot or an underscore are left out, as Spark does. Of a
    Delta table those files are taken that it has at its newest version, or at `version`; of each a note says at which.
    Raises BadInput.
    """
    search = _Search(version)
    for path in paths:
        place = Place.of(path)
        if place.is_pattern and not place.exists():
            matches = place.matches()
            if not matches:
                raise BadInput(f"{place} matches nothing: give files of histories, or folders that hold some")
            found = _Search(version)
            for match in matches:
                found.look_in(match)
            if not found.count:
                raise BadInput(f"{place} matches no histories: nothing there ends in {_ENDINGS}")
            search.files |= found.files
            search.tables |= found.tables
        else:
            _look_at(place, search)
    if not search.count:
        raise BadInput("no histories to check: give at least one file or folder")
    if version is not None and len(search.tables) != 1:
        raise BadInput(f"a version of a table is for one table, and there are {len(search.tables)} among the paths")
    notes = tuple(f"the table {table} is read at version {search.tables[table]}" for table in sorted(search.tables))
    return tuple(sorted(search.files)), notes


def _look_at(place: Place, search: _Search) -> None:
    """Find what a path names that is no pattern."""
    info = place.info()
    if info.type == FileType.Directory:
        found = _Search(search.version)
        found.look_in(place)
        if not found.count:
            raise BadInput(f"{place} holds no histories: no file in it ends in {_ENDINGS}")
        search.files |= found.files
        search.tables |= found.tables
        return
    if info.type == FileType.NotFound:
        raise BadInput(f"{place} does not exist: give files of histories, or folders that hold some")
    if place.name.endswith(SUFFIX):
        search.take(table_of(place, search.version))
        return
    if place.suffix not in (PARQUET, *LINES, EDN):
        raise BadInput(f"{place} is no file of histories by its name: it should end in {_ENDINGS}")
    search.add(attrs.evolve(place, size=info.size, modified=info.mtime_ns))


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
    if file.table is not None and "index" not in opened.names:
        raise BadInput(f"{file}: the rows of a table have no order, so it needs the column `index`")
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

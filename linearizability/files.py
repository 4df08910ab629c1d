"""Histories in Parquet.

A file is written beside its place and moved there when it is complete, so a reader never finds half of one. Each page
has a checksum, without which a flipped bit would be another verdict; those of files that have some are verified.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tidegauge.linearizability.arrow import (
    ONLY_MEMBERS,
    ONLY_TRANSACTIONS,
    SCHEMA,
    TOPICS,
    TOPICS_CHECKSUM,
    HistoryError,
    checksum,
    from_arrow,
    is_other_columns,
    known_columns,
    to_arrow,
    topics_metadata,
)
from tidegauge.linearizability.history import Operations, blocks, concatenate
from tidegauge.linearizability.json_objects import each_name_once
from tidegauge.linearizability.malformed import MalformedRow, sieve, split
from tidegauge.linearizability.parquet import ParquetTable, open_parquet

ROW_GROUP = 1 << 19
"""Operations in a row group. It ends where a history ends, unless that is twice as large or more."""
_DELTA = (
    "history", "index", "process", "topic", "partition", "offset", "values.list.element", "high_watermark", "call",
    "return",
)  # fmt: skip
_NUMBERS = (*ONLY_TRANSACTIONS, *ONLY_MEMBERS)
"""Columns of numbers in which most files have nothing."""


def read(path: str | Path, row_groups: Sequence[int] | None = None) -> Operations:
    """The operations of a Parquet file, or of some of its row groups. Raises HistoryError."""
    table, topics, _ = _load(path, row_groups)
    return from_arrow(table, str(path), topics)


def read_sound(path: str | Path, row_groups: Sequence[int] | None = None) -> tuple[Operations, list[MalformedRow]]:
    """The histories that can be checked, and the rows for which the others can't; rows are numbered from 0 in the file.

    Raises HistoryError for what is wrong with the table as a whole: a missing column, a wrong type, a damaged file.
    """
    table, topics, ranges = _load(path, row_groups)
    table, unreadable, kept = sieve(table, str(path))
    operations, malformed = split(from_arrow(table, str(path), topics), str(path))
    malformed = [attrs.evolve(row, row=int(kept[row.row])) for row in malformed]
    bad = sorted([*unreadable, *malformed], key=lambda row: row.row)
    numbers = np.concatenate([np.arange(0), *map(np.asarray, ranges)]) if bad else np.arange(0)
    return operations, [attrs.evolve(row, row=int(numbers[row.row])) for row in bad]


def _load(path: str | Path, row_groups: Sequence[int] | None) -> tuple[pa.Table, tuple[str, ...] | None, list[range]]:
    """The table, the names of its topics if the file has them, and the numbers in the file of each row group's rows."""
    with _opened(path) as file:
        topics = topic_names(file, str(path))
        known_columns(file.names, str(path))
        sizes = file.sizes
        groups = range(file.groups) if row_groups is None else row_groups
        nothing = columns_of_nulls(file, groups)
        columns = [name for name in SCHEMA.names if name in file.names and name not in nothing]
        ranges = [range(sum(sizes[:group]), sum(sizes[: group + 1])) for group in groups]
        table = file.read(groups, columns)
    return table, topics, ranges


def columns_of_nulls(file: ParquetTable, row_groups: Sequence[int]) -> set[str]:
    """Optional columns of numbers in which these row groups have nothing: they need not be read.

    A footer has no checksum. So three things must say that there is nothing: how many nulls there are, that there is no
    least and greatest value, and the size. Raises DamagedParquetError.
    """
    found = {name for name in _NUMBERS if row_groups and _is_stored_so(file, name)}
    for group in row_groups:
        for name in sorted(found):
            chunk = file.chunk(group, name)
            assert chunk is not None, "it is stored"
            is_small = 64 * chunk.uncompressed < chunk.values
            if chunk.nulls != chunk.values or chunk.least is not None or chunk.most is not None or not is_small:
                found.discard(name)
    return found


def _is_stored_so(file: ParquetTable, name: str) -> bool:
    """Whether a column of numbers is stored as SCHEMA has it: another type is refused by who reads it."""
    place = file.footer.place(name)
    return place is not None and file.footer.columns[place].physical.name == f"INT{SCHEMA.field(name).type.bit_width}"


def row_groups_of(path: str | Path, history: int) -> list[int]:
    """The row groups of a Parquet file that may have rows of a history, by that column.

    Statistics would say it sooner, but no checksum covers them. A row without a history may be one of any. Raises
    HistoryError.
    """
    with _opened(path) as file:
        if "history" not in file.names or not pa.types.is_integer(file.schema.field("history").type):
            return list(range(file.groups))
        columns = (file.read([group], ["history"]).column(0) for group in range(file.groups))
        return [group for group, column in enumerate(columns) if column.null_count or _has(column, history)]


def _has(column: pa.ChunkedArray, number: int) -> bool:
    return bool(pc.any(pc.equal(column, number)).as_py())


def read_in_parts(path: str | Path, operations: int = ROW_GROUP) -> Iterator[Operations]:
    """The operations of a Parquet file in parts of whole histories, each of about `operations` rows."""
    with _opened(path) as file:
        groups = file.groups
    held: list[Operations] = []
    for group in range(groups):
        held.append(read(path, [group]))
        if sum(map(len, held)) < operations and group + 1 < groups:
            continue
        part = concatenate(held)
        # The last history of a part may go on in the next row group.
        cut = len(part) if group + 1 == groups else int(part.history_starts[-2]) if len(part) else 0
        if cut:
            yield part.slice(0, cut)
        held = [part.slice(cut, len(part))]


def is_other_table(path: str | Path) -> bool:
    """Whether a Parquet file has something else than histories, by its columns; not if it cannot be read."""
    try:
        with _opened(path) as file:
            return is_other_columns(file.names)
    except HistoryError:
        return False


@contextmanager
def _opened(path: str | Path) -> Iterator[ParquetTable]:
    is_open = False
    try:
        with open_parquet(pafs.LocalFileSystem(), str(path)) as file:
            is_open = True
            yield file
    except FileNotFoundError:
        raise HistoryError(f"{path}: there is no such file; check the path") from None
    except (pa.ArrowException, OSError) as error:
        wrong = "the file is damaged" if is_open else "not a readable Parquet file"
        raise HistoryError(f"{path}: {wrong} ({error}); write it again") from error


def topic_names(file: ParquetTable, source: str) -> tuple[str, ...] | None:
    """The names behind a file's topic codes, from its metadata; None where it has none. Raises HistoryError."""
    stored, told = file.metadata.get(TOPICS), file.metadata.get(TOPICS_CHECKSUM)
    if stored is None and (told is not None or (TOPICS in file.frame and _has_codes(file))):
        raise HistoryError(f"{source}: the file is damaged (its footer has lost its topics' names); write it again")
    if stored is None:
        return None
    if told is not None and told != checksum(stored):
        raise HistoryError(f"{source}: the file is damaged (its topics' names have another checksum); write it again")
    try:
        names = json.loads(stored, object_pairs_hook=each_name_once)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise HistoryError(f"{source}: the metadata {TOPICS.decode()} is not a JSON list of topic names; write it so")
    return tuple(names)


def _has_codes(file: ParquetTable) -> bool:
    """Whether topics are numbers. Names may be text of other columns, which is in the footer."""
    return any(pa.types.is_integer(field.type) for field in file.schema if field.name == "topic")


class HistoryWriter:
    """Writes a Parquet file of histories, as they come, in row groups that end where a history ends.

    A history of twice as many rows as a row group should have is written in row groups of its own, so that several
    readers can share it. Each `write` brings whole histories, or the next rows of a history that is as large. The
    file is at `path` once the writer is closed without an error.
    """

    def __init__(self, path: str | Path, row_group: int = ROW_GROUP) -> None:
        self.path = Path(path)
        self.partial = self.path.with_name(self.path.name + ".partial")
        self.row_group = row_group
        self.topics: list[str] = []
        self._codes: dict[str, int] = {}
        self._held: list[Operations] = []
        self._writer = pq.ParquetWriter(
            self.partial,
            SCHEMA,
            compression="lz4",  # with zstd files are an eighth smaller, and take a third longer to read
            use_dictionary=["kind", "outcome", "isolation", "acks", "meta"],
            column_encoding=dict.fromkeys(_DELTA, "DELTA_BINARY_PACKED"),
            write_page_checksum=True,
        )

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self.abandon()
            return
        try:
            self.close()
        except BaseException:
            self.abandon()
            raise

    def write(self, operations: Operations) -> None:
        """Append whole histories."""
        recoded = self._recoded(operations)
        begins = recoded.history_starts
        for start, stop in blocks(recoded, self.row_group):
            # Only the last history of a run may be so large that it has row groups of its own.
            last = int(begins[np.searchsorted(begins, stop) - 1])
            large = stop if stop - last < 2 * self.row_group else last
            self._held.append(recoded.slice(start, large))
            if large < stop or sum(map(len, self._held)) >= self.row_group:
                self._flush()
            for at in range(large, stop, self.row_group):
                self._held.append(recoded.slice(at, min(at + self.row_group, stop)))
                self._flush()

    def close(self) -> None:
        """Write what is left and put the file in its place."""
        self._flush()
        self._writer.add_key_value_metadata(topics_metadata(self.topics))
        self._writer.close()
        self.partial.replace(self.path)

    def abandon(self) -> None:
        """Leave nothing behind."""
        # Closing writes a footer, for which a full disk has no room; the file goes in any case.
        with suppress(OSError):
            self._writer.close()
        self.partial.unlink(missing_ok=True)

    def _recoded(self, operations: Operations) -> Operations:
        """The operations with this file's topic codes."""
        for topic in operations.topics:
            if topic not in self._codes:
                self._codes[topic] = len(self.topics)
                self.topics.append(topic)
        codes = np.array([self._codes[topic] for topic in operations.topics], np.int32)
        if (codes == np.arange(len(codes))).all():
            return operations
        return attrs.evolve(operations, topic=codes[operations.topic])

    def _flush(self) -> None:
        held = [part for part in self._held if len(part)]
        self._held = []
        if held:
            table = pa.concat_tables(to_arrow(part).replace_schema_metadata(None) for part in held)
            self._writer.write_table(table, row_group_size=len(table))


def write(path: str | Path, operations: Operations, row_group: int = ROW_GROUP) -> None:
    """Write `operations`, sorted by history, as a Parquet file."""
    with HistoryWriter(path, row_group) as writer:
        writer.write(operations)

"""A unit's rows, from Parquet straight to Arrow: only those that it owns, each with the place it came from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.linearizability.arrow import ONLY_MEMBERS, ONLY_TRANSACTIONS, SCHEMA, HistoryError
from tidegauge.linearizability.files import topic_names
from tidegauge.linearizability.history import Flags, Ints
from tidegauge.linearizability.json_objects import each_name_once
from tidegauge.linearizability.malformed import REASON
from tidegauge.linearizability.parquet import ParquetTable
from tidegauge.spark_check.errors import BadInput
from tidegauge.spark_check.footers import KEY
from tidegauge.spark_check.origins import numbered
from tidegauge.spark_check.places import Place
from tidegauge.spark_check.planner import Piece, Unit, bucket_of

COLUMNS = tuple(name for name in SCHEMA.names if name != "meta")
"""What the checker reads: `meta` is for people."""
SAID = (*SCHEMA.names, REASON)
"""The same for a file that says itself which rows are malformed: their text is in `meta`."""

OPTIONAL = frozenset((*ONLY_TRANSACTIONS, *ONLY_MEMBERS))
"""What only histories with transactions or groups say: absent, it is the same as null."""

ROWS_AT_A_TIME = 16_384
"""A borrowed piece is read in steps of so many rows, until the one history in question ends."""


BLOCK = 1 << 19
"""A row group of a history that many tasks judge is read in blocks of so many rows."""

SOURCE = b"spark_check.source"
"""In the metadata of a converted file: the file from which it is."""
_ROW = "spark_check.row"
_FILE = b"spark_check.file"
_GROUP = b"spark_check.row_group"
_TOPICS = b"spark_check.topics"


@attrs.frozen(eq=False)
class Part:
    """Rows of one row group. `rows` are their numbers there, `topics` the names of their topic codes, if given."""

    file: str
    row_group: int
    rows: Ints
    table: pa.Table
    topics: tuple[str, ...] | None
    source: str | None = None
    """The file that this one was converted from."""
    whose: pa.ChunkedArray | None = None
    """Where rows of several sources are together, the source of each by its number in `rows`."""

    def of(self, kept: Flags) -> Part:
        """The rows for which `kept` holds."""
        if kept.all():
            return self
        return attrs.evolve(self, rows=self.rows[kept], table=self.table.filter(pa.array(kept)))


def read_unit(unit: Unit) -> Iterator[Part]:
    """Read the rows that `unit` owns, in order of file and row. Raises BadInput if a file cannot be read."""
    for piece in sorted(unit.pieces + unit.borrowed, key=lambda piece: (piece.file, piece.row_group)):
        if piece in unit.borrowed and unit.last is not None:
            yield _read_history(piece, unit.last)
        else:
            part = read_piece(piece)
            yield part.of(_owned(unit, part.table))


def read_in_blocks(unit: Unit, piece: Piece) -> Iterator[Part]:
    """Read the rows of a row group that `unit` owns, so many at a time. Raises BadInput if the file cannot be read."""
    with _open(piece) as file:
        at = 0
        for batch in file.batches(piece.row_group, BLOCK, _columns(file, piece)):
            part = _part(piece, file, np.arange(at, at + len(batch)), pa.Table.from_batches([batch]))
            at += len(batch)
            yield part.of(_owned(unit, part.table))


def _owned(unit: Unit, table: pa.Table) -> Flags:
    """Which rows `unit` owns. Rows without a history id belong to the first bucket of the unit that has the piece."""
    column = table.column(KEY)
    if not column.null_count:
        return unit.owns(column.to_numpy())
    nameless: Flags = column.is_null().to_numpy()
    owned = unit.owns(column.fill_null(0).to_numpy()) & ~nameless
    return owned | nameless if unit.bucket == 0 else owned


def read_piece(piece: Piece) -> Part:
    """Read a row group."""
    with _open(piece) as file:
        table = file.read([piece.row_group], _columns(file, piece))
        return _part(piece, file, np.arange(len(table)), table)


def _part(piece: Piece, file: ParquetTable, rows: Ints, table: pa.Table) -> Part:
    """The rows with the numbers of their histories. Raises BadInput for an id that the footer does not know of."""
    at = table.schema.get_field_index(KEY)
    extremes = pc.min_max(table.column(at))
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    if low is not None and (piece.low is None or low + piece.move < piece.low or high + piece.move > (piece.high or 0)):
        raise _wrong_footer(piece)
    if piece.move:
        table = table.set_column(at, KEY, numbered(table.column(at), piece.move))
    source = file.metadata.get(SOURCE)
    named = None if source is None else source.decode(errors="replace")
    return Part(piece.file, piece.row_group, rows, table, _topics(file, piece.file), named)


def _read_history(piece: Piece, number: int) -> Part:
    """Read the rows of one history in a row group, and nothing behind them."""
    history = number - piece.move
    with _open(piece) as file:
        ids = file.read([piece.row_group], [KEY]).column(0)
        rows = np.flatnonzero(pc.equal(ids, history).fill_null(False).to_numpy())
        if not len(rows):
            raise _wrong_footer(piece)
        columns, end, at = _columns(file, piece), int(rows[-1]) + 1, 0
        batches: list[pa.RecordBatch] = []
        for batch in file.batches(piece.row_group, ROWS_AT_A_TIME, columns):
            batches.append(batch)
            at += len(batch)
            if at >= end:
                break
        table = pa.Table.from_batches(batches).take(pa.array(rows))
        return _part(piece, file, rows, table)


def _wrong_footer(piece: Piece) -> BadInput:
    return BadInput(
        f"{piece.file}, row group {piece.row_group}: its footer is wrong about its histories: write it again"
    )


@contextmanager
def _open(piece: Piece) -> Iterator[ParquetTable]:
    try:
        with Place(piece.file).open_parquet() as file:
            if piece.footer not in (b"", file.digest):
                raise BadInput(
                    f"{piece.file} has another footer than when the job was planned: it changed, or is damaged. "
                    "Run the job again into another folder"
                )
            yield file
    except (OSError, pa.ArrowException) as error:
        raise BadInput(
            f"{piece.file}, row group {piece.row_group} cannot be read ({error}): the file is damaged, write it again"
        ) from error


def _columns(file: ParquetTable, piece: Piece) -> list[str]:
    """The columns to read of a row group: all that the checker knows, but for those that say nothing there."""
    present = set(file.names).difference(piece.unread)
    return [name for name in (SAID if REASON in present else COLUMNS) if name in present]


def _topics(file: ParquetTable, source: str) -> tuple[str, ...] | None:
    try:
        return topic_names(file, source)
    except HistoryError as error:
        raise BadInput(str(error)) from None


def split_by_bucket(part: Part, buckets: int, wanted: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Split the rows of `part` into `buckets`, as (bucket, Arrow stream) for each bucket that is wanted."""
    table = part.table.append_column(_ROW, pa.array(part.rows))
    metadata: dict[bytes, str] = {_FILE: part.file, _GROUP: str(part.row_group)}
    if part.source is not None:
        metadata[SOURCE] = part.source
    if part.topics is not None:
        metadata[_TOPICS] = json.dumps(part.topics)
    table = table.replace_schema_metadata(metadata)
    ids = table.column(KEY)
    bucket = np.where(ids.is_null().to_numpy(), 0, bucket_of(ids.fill_null(0).to_numpy(), buckets))
    small = bucket.astype(np.uint16) if buckets <= 1 << 16 else bucket
    order = np.argsort(small, kind="stable")  # numbers of 16 bits are sorted by counting
    table = table.take(pa.array(order))
    cuts = np.searchsorted(bucket[order], np.arange(buckets + 1))
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    for one in wanted:
        start, stop = int(cuts[one]), int(cuts[one + 1])
        if start < stop:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
                writer.write_table(table.slice(start, stop - start))
            yield one, sink.getvalue().to_pybytes()


def join_bucket(streams: Iterable[bytes]) -> list[Part]:
    """Join what `split_by_bucket` split, in order of file, row group and row."""
    parts: list[Part] = []
    for stream in streams:
        table = pa.ipc.open_stream(stream).read_all()
        metadata = table.schema.metadata
        topics = tuple(json.loads(metadata[_TOPICS], object_pairs_hook=each_name_once)) if _TOPICS in metadata else None
        rows = table.column(_ROW).to_numpy()
        table = table.drop_columns([_ROW])
        place = (metadata[_FILE].decode(), int(metadata[_GROUP]))
        source = metadata[SOURCE].decode() if SOURCE in metadata else None
        parts.append(Part(*place, rows, table, topics, source))
    return sorted(parts, key=lambda part: (part.file, part.row_group))

"""Histories as Arrow tables: columns to arrays with as few copies as possible, and back.

docs/history.md documents the columns.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.linearizability.history import NEVER, UNKNOWN, Ints, Operations
from tidegauge.linearizability.membership import Membership
from tidegauge.linearizability.transactional import NONE, Transactional

TOPICS = b"tidegauge.topics"
TOPICS_CHECKSUM = b"tidegauge.topics.crc32"
"""In the metadata beside the names of topics: their checksum, since a footer has none."""

SCHEMA = pa.schema(
    [
        pa.field("history", pa.int64(), nullable=False),
        pa.field("index", pa.int32(), nullable=False),
        pa.field("process", pa.int32(), nullable=False),
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("outcome", pa.int8(), nullable=False),
        pa.field("topic", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("values", pa.list_(pa.field("element", pa.int64(), nullable=False))),
        pa.field("offsets", pa.list_(pa.field("element", pa.int64(), nullable=False))),
        pa.field("high_watermark", pa.int64()),
        pa.field("isolation", pa.int8(), nullable=False),
        pa.field("acks", pa.int8(), nullable=False),
        pa.field("call", pa.int64(), nullable=False),
        pa.field("return", pa.int64()),
        pa.field("meta", pa.string()),
        pa.field("transaction", pa.int64()),
        pa.field("group", pa.int32()),
        pa.field("last_stable_offset", pa.int64()),
        pa.field("generation", pa.int32()),
        pa.field("member", pa.int32()),
        pa.field("found", pa.int32()),
    ]
)
REQUIRED = ("history", "process", "kind", "outcome", "topic", "partition", "offset", "values", "call", "return")
ASIDE = ("_", "meta")
"""How the name of a column or field begins that the checker leaves to people."""
NULLABLE = ("offset", "values", "return")
"""Required columns in which a null means something."""
ONLY_TRANSACTIONS = ("transaction", "group", "last_stable_offset")
"""Columns that only histories with transactions need."""
ONLY_MEMBERS = ("generation", "member", "found")
"""Columns that only histories of members of groups need."""
_DEFAULTS = {"isolation": 0, "acks": -1, "high_watermark": UNKNOWN}


class HistoryError(ValueError):
    """A file of histories that can't be read; says which, where, and the way out."""


def from_arrow(
    table: pa.Table | pa.RecordBatch, source: str = "memory", topics: tuple[str, ...] | None = None
) -> Operations:
    """Arrow columns as operations. Raises HistoryError for a missing column, a wrong type or a forbidden null."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    require_columns(table, source)
    columns = _Columns(table, source)
    topic, names = columns.topic(topics)
    starts, values = columns.lists("values")
    return Operations(
        history=columns.ints("history", np.int64),
        index=columns.index(),
        process=columns.ints("process", np.int32),
        kind=columns.ints("kind", np.int8),
        outcome=columns.ints("outcome", np.int8),
        topic=topic,
        partition=columns.ints("partition", np.int32),
        offset=columns.ints("offset", np.int64, UNKNOWN),
        starts=starts,
        values=values,
        offsets=columns.offsets(starts),
        high_watermark=columns.ints("high_watermark", np.int64, UNKNOWN),
        isolation=columns.ints("isolation", np.int8),
        acks=columns.ints("acks", np.int8),
        call=columns.ints("call", np.int64),
        returned=columns.ints("return", np.int64, NEVER),
        topics=names,
        meta=columns.meta(),
        transactional=columns.transactional(),
        membership=columns.membership(),
    )


def unknown_name(name: str, known: Sequence[str], what: str = "column") -> str:
    """What is wrong with a name that is none of those in docs/history.md; empty when nothing is.

    A misspelt name would drop what it holds, and with it the evidence.
    """
    if name in known or name.startswith(ASIDE):
        return ""
    close = difflib.get_close_matches(name, known, n=1)
    meant = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)};"
    return f"unknown {what} {name!r}: {meant} a name that begins with _ or meta is left aside"


OWN = ("process", "kind", "outcome", "call", "return")
"""What every operation has, and no table of verdicts."""


def is_other_columns(names: Iterable[str]) -> bool:
    """Whether these are the columns of something else, such as verdicts: none is one that only histories have."""
    names = set(names)
    return bool(names) and names.isdisjoint(OWN) and not names <= set(SCHEMA.names)


def known_columns(names: Iterable[str], source: str) -> None:
    """Raise HistoryError for a column that docs/history.md does not know, and for a table of something else."""
    names = list(names)
    if is_other_columns(names):
        raise HistoryError(
            f"{source} has no histories, its columns are {', '.join(names)}: name a file or folder of some"
        )
    for name in names:
        if wrong := unknown_name(name, SCHEMA.names):
            raise HistoryError(f"{source}: {wrong}")


def require_columns(table: pa.Table, source: str) -> None:
    """Raise HistoryError unless all columns are there that have no default, none is there twice, and all are known."""
    known_columns(table.column_names, source)
    double = [name for name in SCHEMA.names if table.column_names.count(name) > 1]
    if double:
        raise HistoryError(f"{source}: more than one column {', '.join(double)}; write each column once")
    missing = [name for name in REQUIRED if name not in table.column_names]
    if missing:
        raise HistoryError(
            f"{source}: no column {', '.join(missing)}; the columns are listed in docs/history.md, "
            f"this table has {', '.join(table.column_names)}"
        )


class _Columns:
    """The columns of one table as numpy arrays."""

    def __init__(self, table: pa.Table, source: str) -> None:
        self.table = table
        self.source = source

    def ints(self, name: str, dtype: type[np.generic], absent: int | None = None) -> Any:
        """An integer column; nulls become `absent`, or are refused if there is none."""
        if name not in self.table.column_names:
            return np.full(len(self.table), _DEFAULTS[name], dtype)
        column = self.table.column(name)
        if not pa.types.is_integer(column.type):
            raise HistoryError(f"{self.source}: column {name} has type {column.type}; write it as {np.dtype(dtype)}")
        if column.null_count:
            if absent is None:
                row = pc.index(pc.is_null(column), True).as_py()
                raise HistoryError(f"{self.source}, row {row}: {name} is null; every operation needs one")
            column = pc.fill_null(column, absent)
        try:
            return column.cast(pa.from_numpy_dtype(np.dtype(dtype))).to_numpy()
        except pa.ArrowInvalid as error:
            raise HistoryError(f"{self.source}: column {name} does not fit {np.dtype(dtype)} ({error})") from error

    def index(self) -> Any:
        """The index column; without one, the rows of a history are in order."""
        if "index" in self.table.column_names:
            return self.ints("index", np.int32)
        history = self.ints("history", np.int64)
        starts = np.concatenate(([0], np.flatnonzero(np.diff(history)) + 1, [len(history)]))
        return (np.arange(len(history)) - np.repeat(starts[:-1], np.diff(starts))).astype(np.int32)

    def topic(self, names: tuple[str, ...] | None) -> tuple[Any, tuple[str, ...]]:
        """Topic codes and names, from codes with names in the metadata, or from strings."""
        column = self.table.column("topic")
        if pa.types.is_integer(column.type):
            codes = self.ints("topic", np.int32)
            if names is None:
                return self._named(codes)
            wrong = np.flatnonzero((codes < 0) | (codes >= len(names)))
            if len(wrong):
                raise HistoryError(
                    f"{self.source}, row {wrong[0]}: topic {codes[wrong[0]]} has no name; "
                    f"the metadata {TOPICS.decode()} names {len(names)} topics"
                )
            return codes, names
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise HistoryError(f"{self.source}: column topic has type {column.type}; write it as int32 or string")
        if column.null_count:
            row = pc.index(pc.is_null(column), True).as_py()
            raise HistoryError(f"{self.source}, row {row}: topic is null; every operation needs one")
        coded = pc.dictionary_encode(column).combine_chunks()
        if isinstance(coded, pa.ChunkedArray):
            coded = coded.chunk(0) if coded.num_chunks else pa.array([], pa.string()).dictionary_encode()
        return coded.indices.to_numpy().astype(np.int32), tuple(coded.dictionary.to_pylist())

    def _named(self, codes: Any) -> tuple[Any, tuple[str, ...]]:
        """Codes without names become topic-CODE; only those that occur, for a code may be any number."""
        if len(codes) and codes.min() < 0:
            row = int(np.argmax(codes < 0))
            raise HistoryError(f"{self.source}, row {row}: topic {codes[row]}; number topics from 0, or write names")
        found, places = np.unique(codes, return_inverse=True)
        return places.astype(np.int32), tuple(f"topic-{code}" for code in found)

    def lists(self, name: str) -> tuple[Ints, Ints]:
        """A list column as (starts, items); a null list is an empty one."""
        column = self.table.column(name)
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)) or not pa.types.is_integer(
            column.type.value_type
        ):
            raise HistoryError(f"{self.source}: column {name} has type {column.type}; write it as list<int64>")
        starts = np.zeros(len(column) + 1, np.int64)
        at = 0
        for chunk in column.chunks:
            if chunk.null_count:
                lengths = pc.fill_null(pc.list_value_length(chunk), 0).to_numpy(zero_copy_only=False)
                np.cumsum(lengths, out=starts[at + 1 : at + 1 + len(chunk)])
            else:
                ends = chunk.offsets.to_numpy()
                starts[at + 1 : at + 1 + len(chunk)] = ends[1:] - ends[0]
            starts[at + 1 : at + 1 + len(chunk)] += starts[at]
            at += len(chunk)
        items = [chunk.flatten() for chunk in column.chunks]
        if any(item.null_count for item in items):
            raise HistoryError(f"{self.source}: column {name} has a null inside a list; write a number for each record")
        try:
            return starts, pa.chunked_array(items, type=column.type.value_type).cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid as error:
            raise HistoryError(f"{self.source}: column {name} does not fit int64 ({error})") from error

    def offsets(self, starts: Ints) -> Ints | None:
        """The explicit offsets, filled in where a row is contiguous; None if all rows are."""
        if "offsets" not in self.table.column_names or self.table.column("offsets").null_count == len(self.table):
            return None
        given, explicit = self.lists("offsets")
        absent = pc.is_null(self.table.column("offsets")).to_numpy()
        counts, lengths = np.diff(starts), np.diff(given)
        wrong = np.flatnonzero(~absent & (counts != lengths))
        if len(wrong):
            row = int(wrong[0])
            raise HistoryError(
                f"{self.source}, row {row}: {counts[row]} values and {lengths[row]} offsets; "
                "give one offset for each value, or null when they are contiguous from offset"
            )
        offset = self.ints("offset", np.int64, UNKNOWN)
        placed: Ints = np.repeat(offset - starts[:-1], counts) + np.arange(int(starts[-1]))
        placed[np.repeat(offset < 0, counts)] = UNKNOWN
        placed[np.repeat(~absent, counts)] = explicit
        return placed

    def meta(self) -> tuple[str | None, ...] | None:
        if "meta" not in self.table.column_names:
            return None
        column = self.table.column("meta")
        return None if column.null_count == len(column) else tuple(column.to_pylist())

    def transactional(self) -> Transactional | None:
        """The columns that only transactions need; None where all of them are absent or null."""
        found = self._nullable(dict(zip(ONLY_TRANSACTIONS, Transactional.types, strict=True)))
        read = Transactional(*found) if found else None
        return None if read is None or read.empty else read

    def membership(self) -> Membership | None:
        """The columns that only members of groups need; None where all of them are absent or null."""
        found = self._nullable(dict(zip(ONLY_MEMBERS, Membership.types, strict=True)))
        read = Membership(*found) if found else None
        return None if read is None or read.empty else read

    def _nullable(self, kinds: Mapping[str, type[np.generic]]) -> list[Any]:
        """Columns of these types, NONE where they are null or absent; no column where all of them are."""
        there = [name for name in kinds if name in self.table.column_names]
        if all(self.table.column(name).null_count == len(self.table) for name in there):
            return []
        return [
            self.ints(name, kind, NONE) if name in there else np.full(len(self.table), NONE, kind)
            for name, kind in kinds.items()
        ]


def to_arrow(operations: Operations) -> pa.Table:
    """Operations as an Arrow table in SCHEMA, topic names in its metadata."""
    starts = operations.starts.astype(np.int32)
    transactional, membership = operations.transactional, operations.membership
    values = pa.ListArray.from_arrays(pa.array(starts), pa.array(operations.values), type=SCHEMA.field("values").type)
    plain = {
        name: pa.array(getattr(operations, name))
        for name in (
            "history",
            "index",
            "process",
            "kind",
            "outcome",
            "topic",
            "partition",
            "isolation",
            "acks",
            "call",
        )
    }
    columns = {
        **plain,
        "offset": pa.array(operations.offset, mask=operations.offset == UNKNOWN),
        "values": values,
        "offsets": _explicit(operations),
        "high_watermark": pa.array(operations.high_watermark, mask=operations.high_watermark == UNKNOWN),
        "return": pa.array(operations.returned, mask=operations.returned == NEVER),
        "meta": pa.nulls(len(operations), pa.string()) if operations.meta is None else pa.array(operations.meta),
        **_nullable(ONLY_TRANSACTIONS, None if transactional is None else transactional.columns),
        **_nullable(ONLY_MEMBERS, None if membership is None else membership.columns),
    }
    schema = SCHEMA.with_metadata(topics_metadata(operations.topics))
    extra = {name: pa.nulls(len(operations), schema.field(name).type) for name in schema.names if name not in columns}
    columns |= extra
    return pa.Table.from_arrays([columns[name].cast(schema.field(name).type) for name in schema.names], schema=schema)


def topics_metadata(topics: Sequence[str]) -> dict[bytes, bytes]:
    """What a table's metadata says of the names behind its topic codes."""
    names = json.dumps(topics).encode()
    return {TOPICS: names, TOPICS_CHECKSUM: checksum(names)}


def checksum(names: bytes) -> bytes:
    """The checksum of names of topics, in hexadecimal digits."""
    return f"{crc32(names):08x}".encode()


def _nullable(names: Sequence[str], columns: Sequence[npt.NDArray[Any]] | None) -> dict[str, pa.Array]:
    """Columns that only some histories need, null where a row says nothing; none of them where no row says anything."""
    return {name: pa.array(column, mask=column == NONE) for name, column in zip(names, columns or (), strict=False)}


def _explicit(operations: Operations) -> pa.Array:
    """The offsets column: null in rows that are contiguous from their offset."""
    kind = SCHEMA.field("offsets").type
    if operations.offsets is None:
        return pa.nulls(len(operations), kind)
    counts = operations.counts
    plain: Ints = np.repeat(operations.offset - operations.starts[:-1], counts) + np.arange(len(operations.values))
    plain[np.repeat(operations.offset < 0, counts)] = UNKNOWN
    differs = np.concatenate(([0], np.cumsum(operations.offsets != plain)))
    explicit = differs[operations.starts[1:]] > differs[operations.starts[:-1]]
    kept = operations.offsets[np.repeat(explicit, counts)]
    starts = np.concatenate(([0], np.cumsum(np.where(explicit, counts, 0)))).astype(np.int32)
    mask = pa.array(~explicit)
    return pa.ListArray.from_arrays(pa.array(starts), pa.array(kept), type=kind, mask=mask)

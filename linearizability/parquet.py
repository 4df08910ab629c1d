"""Parquet files of any writer: the one way to their pages and statistics.

The footer is read twice: by pyarrow, which decodes the pages, and before that by `parquet_footer`, which finds what is
wrong with it. pyarrow is asked nothing about columns of row groups: in a footer that is damaged this ends the process.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tidegauge.linearizability.parquet_footer import (
    PAGES_BEGIN,
    Chunk,
    DamagedParquetError,
    Footer,
    Physical,
    footer_of,
)

_TAIL = 1 << 16
"""Bytes at the end that are read at once: most footers are in them."""
_ARROW = b"ARROW:schema"
_FRAME = 8
"""Bytes behind the footer: its length, and what every Parquet file ends in."""


class ParquetTable:
    """A Parquet file that is open. `frame` is its footer with the eight bytes behind it."""

    def __init__(self, file: pq.ParquetFile, frame: bytes, pages_end: int) -> None:
        self._file = file
        self._pages_end = pages_end
        self.frame = frame
        self.schema: pa.Schema = file.schema_arrow
        self.names: list[str] = self.schema.names
        self.metadata: dict[bytes, bytes] = file.metadata.metadata or {}
        self.groups: int = file.num_row_groups

    @cached_property
    def digest(self) -> bytes:
        """Which footer it is: a footer whose digest is that of one that was sound is that one."""
        return hashlib.blake2b(self.frame, digest_size=8).digest()

    @cached_property
    def footer(self) -> Footer:
        """What the footer says. Raises DamagedParquetError if it contradicts itself."""
        footer = footer_of(self.frame[:-_FRAME], self._pages_end)
        for name in _other_nulls(self.schema, self.metadata.get(_ARROW)):
            raise DamagedParquetError(f"the footer is damaged: its two schemas differ about nulls in column {name}")
        return footer

    @property
    def sizes(self) -> list[int]:
        """The rows of each row group."""
        return [group.rows for group in self.footer.row_groups]

    def chunk(self, group: int, name: str) -> Chunk | None:
        """What a row group has of a column that is no list; None if there is not one of that name."""
        place = self.footer.place(name)
        return None if place is None else self.footer.row_groups[group].chunks[place]

    def extremes(self, group: int, name: str) -> tuple[int, int] | None:
        """The smallest and the largest number of a column in a row group, where its statistics have them."""
        chunk, place = self.chunk(group, name), self.footer.place(name)
        if chunk is None or chunk.least is None or chunk.most is None or place is None:
            return None
        width = {Physical.INT32: 4, Physical.INT64: 8}.get(self.footer.columns[place].physical)
        if len(chunk.least) != width or len(chunk.most) != width:
            raise DamagedParquetError(f"the footer is damaged: statistics of {name} have {len(chunk.least)} bytes")
        signed = pa.types.is_signed_integer(self.schema.field(name).type)
        least, most = (int.from_bytes(end, "little", signed=signed) for end in (chunk.least, chunk.most))
        if least > most:
            raise DamagedParquetError(f"the footer is damaged: in row group {group} {name} is from {least} to {most}")
        return least, most

    def read(self, groups: Sequence[int] | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Row groups, or all. Raises OSError and ArrowException, as all that decodes pages."""
        wanted = list(range(self.groups) if groups is None else groups)
        return self._file.read_row_groups(wanted, columns=columns, use_threads=False)

    def batches(self, group: int, size: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """A row group, `size` rows at a time."""
        yield from self._file.iter_batches(size, row_groups=[group], columns=columns, use_threads=False)


def _other_nulls(schema: pa.Schema, stored: bytes | None) -> Iterator[str]:
    """The columns of which Arrow's schema, which Arrow's writers add to the footer, says something else about nulls.

    Whether there may be nulls decides what the pages of a column mean, and pages do not say it.
    """
    if stored is None:
        return
    try:
        written = pa.ipc.read_schema(pa.BufferReader(b64decode(stored)))
    except (ValueError, pa.ArrowException) as error:
        raise DamagedParquetError(f"the footer is damaged: the schema of Arrow cannot be read ({error})") from error
    for field in schema:
        place = written.get_field_index(field.name)
        if place >= 0 and _nulls(written.field(place)) != _nulls(field):
            yield field.name


def _nulls(field: pa.Field) -> tuple[bool, ...]:
    """Whether there may be nulls in a column, and in its lists."""
    is_list = pa.types.is_list(field.type) or pa.types.is_large_list(field.type)
    return (field.nullable, *(_nulls(field.type.value_field) if is_list else ()))


@contextmanager
def open_parquet(files: pafs.FileSystem, path: str, *, pre_buffer: bool = False) -> Iterator[ParquetTable]:
    """A Parquet file, whose pages' checksums are verified as they are read. With `pre_buffer` few large reads are made.

    Raises OSError for a file that cannot be read, and DamagedParquetError for one that is no Parquet.
    """
    with files.open_input_file(path) as source:
        frame, pages_end = _frame(source)
        try:
            about = pq.read_metadata(pa.BufferReader(b"PAR1" + frame))  # the frame has no need of the pages before it
            file = pq.ParquetFile(source, metadata=about, pre_buffer=pre_buffer, page_checksum_verification=True)
            table = ParquetTable(file, frame, pages_end)
        except (pa.ArrowException, UnicodeDecodeError, ValueError) as error:
            raise DamagedParquetError(str(error)) from error
        yield table


def _frame(source: pa.NativeFile) -> tuple[bytes, int]:
    """The footer with its frame, and where it begins."""
    size = source.size()
    tail: bytes = source.read_at(min(size, _TAIL), max(0, size - _TAIL))
    length = int.from_bytes(tail[-_FRAME:-4], "little") + _FRAME
    if size < length + PAGES_BEGIN:
        raise DamagedParquetError(f"it has {size} bytes, and says that its footer has {length - _FRAME}")
    if length > len(tail):
        tail = source.read_at(length, size - length)
    return tail[len(tail) - length :], size - length

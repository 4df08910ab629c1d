"""What the footer of a Parquet file says, read without pyarrow, and whether it agrees with itself.

A footer has no checksum. Where it gives a column one type in the schema and another in a row group, or a histogram of
the wrong length, pyarrow ends the process as soon as it is asked about the column, and names no file; where the number
of values is wrong, other rows may be read. So statistics are taken from here, and no page is read before `footer_of`
has found nothing wrong. Fields are those of parquet.thrift (Apache Parquet 2.12), by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

from tidegauge.linearizability.thrift_compact import NotCompactError, Struct, read_struct

T = TypeVar("T")

PAGES_BEGIN = 4
"""Bytes before the first page."""
_REQUIRED, _OPTIONAL, _REPEATED = range(3)
_DEEPEST = 100


class DamagedParquetError(OSError):
    """The file is no Parquet, or its footer contradicts itself. Says what of it, and not the name of the file."""


class Physical(IntEnum):
    """The types by which columns are stored."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    INT96 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED_LEN_BYTE_ARRAY = 7


class Column(NamedTuple):
    """A column that has pages. If `repeated`, a row has any number of its values; if `optional`, it may have none."""

    path: str
    physical: Physical
    repeated: bool
    optional: bool


class Chunk(NamedTuple):
    """What there is of a column in a row group. `least` and `most` are bytes, None where the footer has none."""

    values: int
    uncompressed: int
    nulls: int | None
    least: bytes | None
    most: bytes | None


class RowGroup(NamedTuple):
    """`chunks` are in the order of the columns."""

    rows: int
    chunks: tuple[Chunk, ...]


class Footer(NamedTuple):
    """A footer that agrees with itself."""

    columns: tuple[Column, ...]
    row_groups: tuple[RowGroup, ...]

    def place(self, path: str) -> int | None:
        """The number of the column that has this path; None if there is not one alone."""
        found = [number for number, column in enumerate(self.columns) if column.path == path]
        return found[0] if len(found) == 1 else None


def footer_of(content: bytes, pages_end: int) -> Footer:
    """Read the footer of a file whose pages are before `pages_end`. Raises DamagedParquetError."""
    try:
        said = read_struct(content)
        columns = tuple(_columns(_structs(said, 2, "schema")))
        groups = tuple(
            _row_group(number, group, columns, pages_end)
            for number, group in enumerate(_structs(said, 4, "row groups"))
        )
        rows, counted = _whole(said, 3, "number of rows"), sum(group.rows for group in groups)
    except (NotCompactError, UnicodeDecodeError) as error:
        raise DamagedParquetError(f"the footer is damaged: {error}") from error
    if rows != counted:
        raise DamagedParquetError(f"the footer says {rows} rows, and its row groups {counted}")
    return Footer(columns, groups)


def _columns(elements: Sequence[Struct]) -> Iterator[Column]:
    """The columns of a schema: a tree, its root first."""
    left = iter(elements)

    def below(path: tuple[str, ...], repeated: bool, optional: bool) -> Iterator[Column]:
        element = next(left, None)
        if element is None or len(path) > _DEEPEST:
            raise DamagedParquetError("the schema says that it has more columns than it has")
        inside = (*path, _text(element, 4, "name of a column"))
        repetition = _whole(element, 3, "repetition") if path else _REQUIRED
        if repetition > _REPEATED:
            raise DamagedParquetError(f"the footer is damaged: column {inside[-1]} has repetition {repetition}")
        many, nulls = repeated or repetition == _REPEATED, optional or repetition != _REQUIRED
        children = _whole(element, 5, "number of children") if 5 in element else 0
        if path and not children:
            yield Column(".".join(inside[1:]), _physical(element, "schema"), many, nulls)
        for _ in range(children):
            yield from below(inside, many, nulls)

    yield from below((), False, False)
    if next(left, None) is not None:
        raise DamagedParquetError("the schema has more columns than it says")


def _row_group(number: int, said: Struct, columns: Sequence[Column], pages_end: int) -> RowGroup:
    rows, chunks = _whole(said, 3, "number of rows"), _structs(said, 1, "columns")
    if len(chunks) != len(columns):
        raise _wrong(number, f"{len(chunks)} columns, and the schema {len(columns)}")
    return RowGroup(
        rows,
        tuple(_chunk(number, rows, chunk, column, pages_end) for chunk, column in zip(chunks, columns, strict=True)),
    )


def _chunk(group: int, rows: int, said: Struct, column: Column, pages_end: int) -> Chunk:
    if said.get(1):
        raise _wrong(group, f"column {column.path} in another file")
    about = _of(said, 3, dict, "facts of a column")
    physical = _physical(about, "row group")
    if physical != column.physical:
        raise _wrong(group, f"column {column.path} as {physical.name}, and the schema as {column.physical.name}")
    path = ".".join(name.decode() for name in _of(about, 3, list, "path of a column") if isinstance(name, bytes))
    if path != column.path:
        raise _wrong(group, f"column {path} in the place of {column.path}")
    values, uncompressed = _whole(about, 5, "number of values"), _whole(about, 6, "size of a column")
    if values < rows or (values > rows and not column.repeated):
        raise _wrong(group, f"{values} values of column {path}, in {rows} rows")
    begins, size = _whole(about, 9, "place of a page"), _whole(about, 7, "size of a column")
    dictionary = _whole(about, 11, "place of a page") if 11 in about else 0
    begins = min(begins, dictionary) if dictionary else begins
    if values and not (PAGES_BEGIN <= begins < begins + size <= pages_end):
        raise _wrong(group, f"pages of column {path} that are not within the file")
    nulls, least, most = _statistics(_of(about, 12, dict, "statistics") if 12 in about else {})
    if nulls and not column.optional:
        raise _wrong(group, f"{nulls} nulls in column {path}, which can have none")
    return Chunk(values, uncompressed, nulls, least, most)


def _statistics(said: Struct) -> tuple[int | None, bytes | None, bytes | None]:
    """How many nulls there are, and the least and greatest value, which fields before 2017 had in another order."""
    nulls = _whole(said, 3, "number of nulls") if 3 in said else None
    if 5 not in said or 6 not in said:
        return nulls, None, None
    return nulls, _of(said, 6, bytes, "least value"), _of(said, 5, bytes, "greatest value")


def _wrong(group: int, what: str) -> DamagedParquetError:
    return DamagedParquetError(f"the footer is damaged: row group {group} has {what}")


def _of(said: Struct, field: int, kind: type[T], what: str) -> T:
    """A field of this type."""
    found = said.get(field)
    if type(found) is not kind:
        raise DamagedParquetError(f"the footer is damaged: {what} (field {field}) is not there, or no {kind.__name__}")
    return found


def _whole(said: Struct, field: int, what: str) -> int:
    """A field that counts something."""
    found = _of(said, field, int, what)
    if not 0 <= found < 1 << 63:
        raise DamagedParquetError(f"the footer is damaged: {what} is {found}")
    return found


def _text(said: Struct, field: int, what: str) -> str:
    return _of(said, field, bytes, what).decode()


def _structs(said: Struct, field: int, what: str) -> list[Struct]:
    found = _of(said, field, list, what)
    if not all(type(one) is dict for one in found):
        raise DamagedParquetError(f"the footer is damaged: {what} (field {field}) has something else")
    return found


def _physical(said: Struct, where: str) -> Physical:
    kind = _whole(said, 1, f"type of a column in the {where}")
    if kind >= len(Physical):
        raise DamagedParquetError(f"the footer is damaged: a column has type {kind}")
    return Physical(kind)

"""What a footer may not say: each contradiction is told by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegauge.linearizability.parquet_footer import Chunk, Column, DamagedParquetError, Physical, footer_of
from tidegauge.linearizability.thrift_compact import Struct, read_struct

PAGES_END = 100


def varint(number: int) -> bytes:
    left, found = (number << 1) ^ (number >> 63), b""
    while left > 127:
        found += bytes([left & 127 | 128])
        left >>= 7
    return found + bytes([left])


def written(value: Any) -> bytes:
    """A value in the compact protocol, every whole number as one of 64 bits."""
    if isinstance(value, int):
        return varint(value)
    if isinstance(value, bytes):
        return bytes([len(value)]) + value
    if isinstance(value, list):
        return bytes([len(value) << 4 | kind_of(value[0]) if value else 0x0C]) + b"".join(map(written, value))
    fields = (bytes([kind_of(one)]) + varint(number) + written(one) for number, one in value.items())
    return b"".join(fields) + b"\0"


def kind_of(value: Any) -> int:
    return {int: 6, bytes: 8, list: 9, dict: 12}[type(value)]


def chunk(physical: int, path: list[bytes], values: int, begins: int) -> Struct:
    """A column chunk of 20 bytes."""
    return {3: {1: physical, 3: path, 5: values, 6: 30, 7: 20, 9: begins, 12: {3: 0, 5: b"\2" * 8, 6: b"\1" * 8}}}


def sound() -> Struct:
    """Two rows in one row group: a required number, and a list."""
    return {
        2: [
            {4: b"schema", 5: 2},
            {1: 2, 3: 0, 4: b"history"},
            {3: 1, 4: b"values", 5: 1},
            {3: 2, 4: b"list", 5: 1},
            {1: 2, 3: 0, 4: b"element"},
        ],
        3: 2,
        4: [{1: [chunk(2, [b"history"], 2, 4), chunk(2, [b"values", b"list", b"element"], 5, 24)], 3: 2}],
    }


def test_a_footer_that_agrees_with_itself_is_read() -> None:
    content = written(sound())
    assert read_struct(content) == sound()
    footer = footer_of(content, PAGES_END)
    assert footer.columns == (
        Column("history", Physical.INT64, repeated=False, optional=False),
        Column("values.list.element", Physical.INT64, repeated=True, optional=True),
    )
    assert footer.row_groups[0].rows == 2
    assert footer.row_groups[0].chunks[1] == Chunk(5, 30, 0, b"\1" * 8, b"\2" * 8)
    assert (footer.place("history"), footer.place("values")) == (0, None)


def first(said: Struct) -> Struct:
    """The facts of the first column."""
    facts: Struct = said[4][0][1][0][3]
    return facts


WRONG: dict[str, tuple[Callable[[Struct], object], str]] = {
    "rows of the file": (lambda said: said.update({3: 3}), "says 3 rows, and its row groups 2"),
    "rows of a row group": (lambda said: said[4][0].update({3: 3}), "2 values of column history, in 3 rows"),
    "more values than rows": (lambda said: first(said).update({5: 3}), "3 values of column history, in 2 rows"),
    "fewer values in lists than rows": (
        lambda said: said[4][0][1][1][3].update({5: 1}),
        "1 values of column values.list.element, in 2 rows",
    ),
    "a type of a row group": (
        lambda said: first(said).update({1: 1}),
        "column history as INT32, and the schema as INT64",
    ),
    "a type that is none": (lambda said: first(said).update({1: 8}), "a column has type 8"),
    "no type": (lambda said: first(said).pop(1), r"type of a column in the row group \(field 1\) is not there"),
    "a text for a number": (lambda said: first(said).update({5: b"2"}), r"number of values \(field 5\) .* no int"),
    "a negative number": (lambda said: first(said).update({5: -2}), "number of values is -2"),
    "a path": (lambda said: first(said).update({3: [b"historx"]}), "column historx in the place of history"),
    "another file": (lambda said: said[4][0][1][0].update({1: b"b.parquet"}), "column history in another file"),
    "pages before the first": (lambda said: first(said).update({9: 3}), "pages of column history that are not within"),
    "pages behind the last": (lambda said: first(said).update({9: 81}), "pages of column history that are not within"),
    "no pages": (lambda said: first(said).update({7: 0}), "pages of column history that are not within"),
    "a dictionary outside": (lambda said: first(said).update({11: 2}), "pages of column history that are not within"),
    "nulls in a required column": (
        lambda said: first(said)[12].update({3: 1}),
        "1 nulls in column history, which can have none",
    ),
    "statistics that are none": (lambda said: first(said)[12].update({5: 7}), "greatest value"),
    "columns": (lambda said: said[4][0][1].pop(), "1 columns, and the schema 2"),
    "columns that are none": (lambda said: said[4][0].update({1: [1]}), r"columns \(field 1\) has something else"),
    "a repetition": (lambda said: said[2][1].update({3: 3}), "column history has repetition 3"),
    "too many children": (lambda said: said[2][0].update({5: 3}), "says that it has more columns than it has"),
    "too few children": (lambda said: said[2][0].update({5: 1}), "has more columns than it says"),
    "no schema": (lambda said: said.update({2: []}), "says that it has more columns than it has"),
    "a name that is no text": (lambda said: said[2][1].update({4: b"\xff"}), "can't decode"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_footer_that_contradicts_itself_is_told(what: str) -> None:
    change, why = WRONG[what]
    said = sound()
    change(said)
    with pytest.raises(DamagedParquetError, match=why):
        footer_of(written(said), PAGES_END)


def test_a_column_without_values_needs_no_pages() -> None:
    said = sound()
    said[3] = said[4][0][3] = 0
    for column in said[4][0][1]:
        column[3].update({5: 0, 7: 0, 9: 0})
    assert footer_of(written(said), PAGES_END).row_groups[0].rows == 0

"""What tasks send each other: columns of whole numbers, as narrow as their numbers allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs
import numpy as np
import numpy.typing as npt

from tidegauge.linearizability.history import Ints

Columns = dict[str, Ints]
"""Columns of one length by name."""
_NARROW: tuple[type[np.unsignedinteger], ...] = (np.uint8, np.uint16, np.uint32)


@attrs.frozen(eq=False)
class Narrow:
    """A column as its least number, and what the others are above it; None where all are the same."""

    least: int
    length: int
    above: npt.NDArray[np.unsignedinteger] | Ints | None

    @classmethod
    def of(cls, column: Ints) -> Narrow:
        if not len(column):
            return cls(0, 0, None)
        least, most = int(column.min()), int(column.max())
        if least == most:
            return cls(least, len(column), None)
        for kind in _NARROW:
            if most - least <= np.iinfo(kind).max:
                return cls(least, len(column), (column - least).astype(kind))
        return cls(0, len(column), column)

    def wide(self) -> Ints:
        if self.above is None:
            return np.full(self.length, self.least, np.int64)
        wide: Ints = self.above.astype(np.int64)
        return wide + self.least if self.least else wide


@attrs.frozen(eq=False)
class Parcel:
    """Columns of one kind, of the rows of one block or bucket."""

    kind: str
    sender: int
    """The number of the block that its rows are from: parcels of a kind in this order are in order of rows."""
    columns: Mapping[str, Narrow]

    @classmethod
    def of(cls, kind: str, sender: int, columns: Columns) -> Parcel:
        return cls(kind, sender, {name: Narrow.of(column) for name, column in columns.items()})


def opened(parcels: Iterable[Parcel], kind: str, names: Sequence[str]) -> Columns:
    """All columns of a kind, in the order of their senders; empty ones where nobody sent any."""
    mine = sorted((one for one in parcels if one.kind == kind), key=lambda one: one.sender)
    none = np.zeros(0, np.int64)
    return {name: np.concatenate([none, *(one.columns[name].wide() for one in mine)]) for name in names}


def scattered(kind: str, sender: int, columns: Columns, bucket: Ints, buckets: int) -> Iterator[tuple[int, Parcel]]:
    """The rows of the columns, each sent to its bucket, and in their order there."""
    if not len(bucket):
        return
    few = bucket.astype(np.uint16) if buckets < 1 << 16 else bucket
    order = np.argsort(few, kind="stable")
    cuts = np.searchsorted(few[order], np.arange(buckets + 1))
    sorted_columns = {name: column[order] for name, column in columns.items()}
    for one in np.flatnonzero(np.diff(cuts)).tolist():
        rows = slice(int(cuts[one]), int(cuts[one + 1]))
        yield one, Parcel.of(kind, sender, {name: column[rows] for name, column in sorted_columns.items()})


def kept(columns: Columns, rows: Ints | npt.NDArray[np.bool_]) -> Columns:
    """Some rows of the columns."""
    return {name: column[rows] for name, column in columns.items()}


def mixed(keys: Ints, buckets: int) -> Ints:
    """A bucket for each key, even for keys in any pattern."""
    with np.errstate(over="ignore"):
        bits = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(32)
    bucket: Ints = (bits % np.uint64(buckets)).astype(np.int64)
    return bucket


def least_of(keys: Ints, amounts: Ints) -> tuple[Ints, Ints]:
    """Each key once, rising, and the least of its amounts."""
    found, which = np.unique(keys, return_inverse=True)
    least = np.full(len(found), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(least, which, amounts)
    return found, least

"""Columns that only some histories need: they run parallel to the rows of `Operations`, or are not there at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import attrs
import numpy as np
import numpy.typing as npt

NONE = -1
"""What a row says that says nothing."""


@attrs.frozen(eq=False)
class OptionalColumns:
    """Integer columns of one length; each field of a subclass is one, of the type at its place in `types`."""

    types: ClassVar[tuple[type[np.signedinteger[Any]], ...]] = ()

    @property
    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        return tuple(getattr(self, field.name) for field in attrs.fields(type(self)))

    def slice(self, start: int, stop: int) -> Self:
        """Rows start to stop, as views."""
        return type(self)(*(column[start:stop] for column in self.columns))

    def take(self, rows: npt.NDArray[np.int64]) -> Self:
        """The given rows, as copies."""
        return type(self)(*(column[rows] for column in self.columns))

    @property
    def empty(self) -> bool:
        """Whether no row says anything here."""
        return all(bool((column == NONE).all()) for column in self.columns)

    @classmethod
    def blank(cls, rows: int) -> Self:
        """The columns of rows that say nothing."""
        return cls(*(np.full(rows, NONE, kind) for kind in cls.types))

    @classmethod
    def of(cls, rows: Iterable[tuple[int | None, ...]]) -> Self | None:
        """The columns of these rows; None if no row says anything."""
        said = [tuple(NONE if item is None else item for item in row) for row in rows]
        if not any(item != NONE for row in said for item in row):
            return None
        table = np.array(said, np.int64).T
        return cls(*(column.astype(kind) for column, kind in zip(table, cls.types, strict=True)))

    @classmethod
    def concatenate(cls, parts: Sequence[Self | None], sizes: Sequence[int]) -> Self | None:
        """All rows of `parts`, in order; None if no part has the columns."""
        if all(part is None for part in parts):
            return None
        held = [cls.blank(size) if part is None else part for part, size in zip(parts, sizes, strict=True)]
        return cls(*(np.concatenate(columns) for columns in zip(*(part.columns for part in held), strict=True)))

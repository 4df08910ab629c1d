"""The columns of a history that only members of groups need: which generation, which member, which commit was found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import numpy as np
import numpy.typing as npt

NONE = -1
"""Of no generation, of no member but its process, or nothing found."""


@attrs.frozen(eq=False)
class Membership:
    """Three columns that run parallel to the rows of `Operations`; histories without members of groups do without."""

    generation: npt.NDArray[np.int32]
    """The group's generation, or its epoch, as the member was told."""
    member: npt.NDArray[np.int32]
    """The number of the member whose process it is, which has more than one where the member is static."""
    found: npt.NDArray[np.int32]
    """The index of the commit that a read of the committed offset has found."""

    @property
    def columns(self) -> tuple[npt.NDArray[np.int32], ...]:
        return self.generation, self.member, self.found

    def slice(self, start: int, stop: int) -> Membership:
        """Rows start to stop, as views."""
        return Membership(*(column[start:stop] for column in self.columns))

    def take(self, rows: npt.NDArray[np.int64]) -> Membership:
        """The given rows, as copies."""
        return Membership(*(column[rows] for column in self.columns))

    @property
    def empty(self) -> bool:
        """Whether no row says anything here."""
        return all(bool((column == NONE).all()) for column in self.columns)

    @classmethod
    def of(cls, rows: Iterable[tuple[int | None, int | None, int | None]]) -> Membership | None:
        """The columns of rows that say (generation, member, found); None if no row says any."""
        said = [tuple(NONE if item is None else item for item in row) for row in rows]
        if not any(item != NONE for row in said for item in row):
            return None
        return cls(*(column.copy() for column in np.array(said, np.int32).T))


def no_members(rows: int) -> Membership:
    """The columns of rows that have nothing to do with members of groups."""
    return Membership(*(np.full(rows, NONE, np.int32) for _ in range(3)))


def concatenate_memberships(parts: Sequence[Membership | None], sizes: Sequence[int]) -> Membership | None:
    """All rows of `parts`, in order; None if no part has the columns."""
    if all(part is None for part in parts):
        return None
    held = [no_members(size) if part is None else part for part, size in zip(parts, sizes, strict=True)]
    return Membership(*(np.concatenate(columns) for columns in zip(*(part.columns for part in held), strict=True)))

"""The columns of a history that only transactions need: which transaction, which group, which last stable offset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import numpy as np
import numpy.typing as npt

NONE = -1
"""In no transaction, of no group, or without a last stable offset."""


@attrs.frozen(eq=False)
class Transactional:
    """Three columns that run parallel to the rows of `Operations`; histories without transactions do without."""

    transaction: npt.NDArray[np.int64]
    """The number of the transaction in its history."""
    group: npt.NDArray[np.int32]
    """The number of the consumer group whose offset is committed, or whose member it is."""
    stable: npt.NDArray[np.int64]
    """The last stable offset in the response to a fetch."""

    @property
    def columns(self) -> tuple[npt.NDArray[np.int64] | npt.NDArray[np.int32], ...]:
        return self.transaction, self.group, self.stable

    def slice(self, start: int, stop: int) -> Transactional:
        """Rows start to stop, as views."""
        return Transactional(self.transaction[start:stop], self.group[start:stop], self.stable[start:stop])

    def take(self, rows: npt.NDArray[np.int64]) -> Transactional:
        """The given rows, as copies."""
        return Transactional(self.transaction[rows], self.group[rows], self.stable[rows])

    @property
    def empty(self) -> bool:
        """Whether no row says anything here."""
        return all(bool((column == NONE).all()) for column in (self.transaction, self.group, self.stable))

    @classmethod
    def of(cls, rows: Iterable[tuple[int | None, int | None, int | None]]) -> Transactional | None:
        """The columns of rows that say (transaction, group, last stable offset); None if no row says any."""
        said = [tuple(NONE if item is None else item for item in row) for row in rows]
        if not any(item != NONE for row in said for item in row):
            return None
        table = np.array(said, np.int64)
        return cls(table[:, 0].copy(), table[:, 1].astype(np.int32), table[:, 2].copy())


def blank(rows: int) -> Transactional:
    """The columns of rows that have nothing to do with transactions."""
    return Transactional(np.full(rows, NONE, np.int64), np.full(rows, NONE, np.int32), np.full(rows, NONE, np.int64))


def concatenate_columns(parts: Sequence[Transactional | None], sizes: Sequence[int]) -> Transactional | None:
    """All rows of `parts`, in order; None if no part has the columns."""
    if all(part is None for part in parts):
        return None
    held = [blank(size) if part is None else part for part, size in zip(parts, sizes, strict=True)]
    return Transactional(
        np.concatenate([part.transaction for part in held]),
        np.concatenate([part.group for part in held]),
        np.concatenate([part.stable for part in held]),
    )

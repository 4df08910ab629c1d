"""What is known of states before they are expanded: their steps.

Where a program has to run in a state, the kernel goes on behind it to see what else has to; it keeps the steps that it
finds meanwhile, and does not look them up again.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Ahead"]

Arrays: TypeAlias = tuple[npt.NDArray[Any], ...]

ROOM: Final = 1 << 15
"""Steps that the kernel may keep: eight for each state that it looks at."""


class Ahead:
    """The steps of the states that are expanded next."""

    def __init__(self) -> None:
        self._at: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        """By state: the place of its first step; -1 where nothing is known."""
        self._counts = self._at.copy()
        self._known: npt.NDArray[np.int64] = np.zeros((ROOM, 2), np.int64)
        """By step: its program and its leaf."""
        self._info: npt.NDArray[np.int64] = np.zeros(2, np.int64)

    @property
    def arrays(self) -> Arrays:
        """What the kernel has to know of it."""
        return self._at, self._counts, self._known, self._info

    def begin(self, start: int, end: int) -> None:
        """Nothing is known of the states from `start` to `end`, which are expanded next."""
        if end - start > len(self._at):
            self._at = np.zeros(end - start, np.int64)
            self._counts = self._at.copy()
        self._at[: end - start] = -1
        self._info[:] = start, 0

"""The last paths that were walked through the trie of each program, so that like states need not walk them again.

States that are expanded after each other are mostly alike: they are steps from the same state. A path is kept as what
it has read of a packed state, that is a mask and the bits behind it, with the leaf that it came to. A state that has
the same bits there comes to the same leaf.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tidegauge.spec.kernel.fast.trie_tables import WAYS

__all__ = ["Recents"]

RecentPaths: TypeAlias = tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64]]


class Recents:
    """Arrays for the kernel, all of them flat: WAYS paths of each program, and which of them it forgets next.

    Of each path there are the lanes of its mask and those of its bits, and its leaf.
    """

    def __init__(self) -> None:
        self._room = 0
        self._paths: RecentPaths = _empty(0, 1)

    def forget(self) -> None:
        """Forget all paths: states are packed in another way."""
        self._room = 0

    def of(self, programs: int, lanes: int) -> RecentPaths:
        """The arrays, with room for so many programs, of states in so many lanes."""
        if programs > self._room:
            larger = _empty(max(64, 2 * programs), lanes)
            if self._room:
                for new, old in zip(larger, self._paths, strict=True):
                    new[: len(old)] = old
            self._room, self._paths = max(64, 2 * programs), larger
        return self._paths


def _empty(programs: int, lanes: int) -> RecentPaths:
    bits: npt.NDArray[np.uint64] = np.zeros(programs * WAYS * 2 * lanes, np.uint64)
    leaves: npt.NDArray[np.int64] = np.full(programs * WAYS, -1, np.int64)
    turns: npt.NDArray[np.int64] = np.zeros(programs, np.int64)
    return bits, leaves, turns

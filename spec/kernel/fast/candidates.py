"""What threads keep of states that they expand together, until the new ones have numbers: arrays for compiled code."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Candidates"]

Arrays: TypeAlias = tuple[npt.NDArray[Any], ...]

_PACKED: Final = 1
"""The place of packed states among `Candidates.arrays`."""


class Candidates:
    """Steps to what may be a new state, by place: each slice of the states has `room` places. Pages are touched as
    they are needed, and stay; nothing is cleared."""

    def __init__(self, slices: int, room: int, lanes: int, states: int) -> None:
        self.room, self.lanes, self.states = room, lanes, states
        places = slices * room
        self.first: npt.NDArray[np.int64] = np.arange(slices) * room
        """By slice: its first place."""
        self.hashes: npt.NDArray[np.uint64] = np.empty(places, np.uint64)
        self.firsts: npt.NDArray[np.int64] = np.empty(places, np.int64)
        """The first candidate of the same state, or one that leads to it; -1 - number of a state that is known."""
        self.arrays: Arrays = (
            self.hashes,
            np.empty((places, lanes), np.uint64),
            *(np.empty(places, np.int32) for _ in range(3)),
            np.empty(places, np.int64),
            self.firsts,
        )
        """Hash, packed state, from which state of these it was reached, class of action, size of the orbit, and its
        slot of the table; and the first ones."""
        self.numbers: npt.NDArray[np.uint32] = np.empty(places, np.uint32)
        self.targets: npt.NDArray[np.int64] = np.empty(places, np.int64)
        """Of fair steps, slice by slice: the number of a state, or -1 - candidate."""
        self.of_states: Arrays = tuple(np.empty(states, np.int64) for _ in range(5))
        """By state: its first candidate and how many there are, its steps, its first fair step and how many."""

    def have_lanes(self, lanes: int) -> npt.NDArray[np.uint64]:
        """States take so many lanes from now on: the candidates as they are packed, which is how they were before."""
        before: npt.NDArray[np.uint64] = self.arrays[_PACKED]
        if lanes != self.lanes:
            self.lanes = lanes
            packed = np.empty((len(before), lanes), np.uint64)
            self.arrays = (*self.arrays[:_PACKED], packed, *self.arrays[_PACKED + 1 :])
        return before

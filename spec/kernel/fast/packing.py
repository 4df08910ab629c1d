"""How states are kept: each word of a row in as many bits as its numbers need.

Most words have a handful of values, and many have one. A row of 83 words of a partition on three brokers, 332 bytes as
32-bit numbers, is kept in 24. No word lies in two lanes of 64 bits, so that one shift and one mask get it.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import le

import numpy as np
import numpy.typing as npt

__all__ = ["Packing"]

LANE_BITS = 64


class Packing:
    """Where each word lies, for words of these widths in bits, in so many lanes at least."""

    def __init__(self, widths: Sequence[int], lanes: int = 0) -> None:
        self.widths = tuple(widths)
        self.places: npt.NDArray[np.uint64] = np.zeros((3, len(widths)), np.uint64)
        """By word: its lane, by how many bits it is shifted there, and its mask."""
        lane = used = 0
        for word, width in enumerate(widths):
            if used + width > LANE_BITS:
                lane, used = lane + 1, 0
            self.places[:, word] = lane, used if width else 0, (1 << width) - 1
            used += width
        self.lanes = max(lane + 1, lanes)
        self._most = [1 << width for width in widths]
        """By word: how many values fit."""

    def for_values(self, counts: Sequence[int], spare: int = 0) -> Packing:
        """A packing for words with so many values: this one as long as they fit, or one with so many lanes to spare.

        A word that does not gets a bit more than it needs, since all states are packed again each time.
        """
        if all(map(le, counts, self._most)):
            return self
        needed = [max(count - 1, 0).bit_length() for count in counts]
        pairs = zip(needed, self.widths, strict=True)
        widths = [width if need <= width else need + 1 for need, width in pairs]
        found = Packing(widths)
        return Packing(widths, found.lanes + spare) if spare else found

    def longer(self, words: int, width: int) -> Packing:
        """A packing for so many more words, of this width each, which are empty in all states: what there is lies where
        it lay, and where that has no room for more there is a lane to spare."""
        widths = [*self.widths, *[width] * words]
        found = Packing(widths, self.lanes)
        return found if found.lanes == self.lanes else Packing(widths, found.lanes + 1)

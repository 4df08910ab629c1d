"""How states are kept: each word of a row in as many bits as its numbers need.

Most words have a handful of values, and many have one. A row of 83 words of a partition on three brokers, 332 bytes as
32-bit numbers, is kept in 24. No word lies in two lanes of 64 bits, so that one shift and one mask get it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import le

import numpy as np
import numpy.typing as npt

__all__ = ["Packing"]

LANE_BITS = 64
_HALF_FULL = 0.5


class Packing:
    """Where each word lies, for words of these widths in bits, in so many lanes at least."""

    def __init__(self, widths: Sequence[int], lanes: int = 0) -> None:
        self.widths = tuple(widths)
        self.places: npt.NDArray[np.uint64] = np.zeros((3, len(widths)), np.uint64)
        """By word: its lane, by how many bits it is shifted there, and its mask."""
        lane = 0
        for word, (lane, used) in enumerate(_places_of(widths)):
            self.places[:, word] = lane, used, (1 << widths[word]) - 1
        self.lanes = max(lane + 1, lanes)
        self._most = [1 << width for width in widths]
        """By word: how many values fit."""

    def for_values(self, counts: Sequence[int], spare: int = 0) -> Packing:
        """A packing for words with so many values: this one as long as they fit, or one with so many lanes to spare.

        All states are packed again each time. So a word that has no room gets a bit more than it needs; and one that
        is more than half full gets a bit as well, the fullest first, where states take no more lanes for it.
        """
        if all(map(le, counts, self._most)):
            return self
        needed = [max(count - 1, 0).bit_length() for count in counts]
        pairs = zip(needed, self.widths, strict=True)
        widths = [width if need <= width else need + 1 for need, width in pairs]
        _widen(widths, counts)
        found = Packing(widths)
        return Packing(widths, found.lanes + spare) if spare else found

    def longer(self, words: int, width: int) -> Packing:
        """A packing for so many more words, of this width each, which are empty in all states: what there is lies where
        it lay, and where that has no room for more there is a lane to spare."""
        widths = [*self.widths, *[width] * words]
        found = Packing(widths, self.lanes)
        return found if found.lanes == self.lanes else Packing(widths, found.lanes + 1)


def _places_of(widths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """By word: its lane, and by how many bits it is shifted there."""
    lane = used = 0
    for width in widths:
        if used + width > LANE_BITS:
            lane, used = lane + 1, 0
        yield lane, used if width else 0
        used += width


def _widen(widths: list[int], counts: Sequence[int]) -> None:
    """Give words that have so many values a bit more where they are more than half full, and lanes have room."""
    *_, (last, _) = _places_of(widths)
    fullness = {word: count / (1 << widths[word]) for word, count in enumerate(counts) if widths[word]}
    for word in sorted(fullness, key=fullness.__getitem__, reverse=True):
        if fullness[word] <= _HALF_FULL:
            return
        widths[word] += 1
        *_, (lane, _) = _places_of(widths)
        widths[word] -= lane > last

"""Messages as words of their own: whether one is on its way, as a rule reads it of a word that has all of them.

A *presence* is a word that no row has, since it follows from one: 1 where the value of a word of messages has the
message in it. Presences are numbered behind the words of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Presences"]


class Presences:
    """Presences by number, in arrays that the kernel looks at."""

    def __init__(self, words: int) -> None:
        self._words = words
        self._numbers: dict[tuple[int, object], int] = {}
        self._holders: dict[tuple[int, object], list[int]] = {}
        """By word and message: the values that have it."""
        self.words: npt.NDArray[np.int64] = np.zeros(8, np.int64)
        """By presence, counted from 0: the word that it follows from."""
        self.table: npt.NDArray[np.uint8] = np.zeros((8, 8), np.uint8)
        """By presence and the number of that word's value."""

    def met(self, word: int, number: int, messages: Any) -> None:
        """Note a new value of a word of messages."""
        while number >= self.table.shape[1]:
            self.table = np.concatenate([self.table, np.zeros_like(self.table)], axis=1)
        for message in messages:
            key = word, message
            self._holders.setdefault(key, []).append(number)
            presence = self._numbers.get(key)
            if presence is not None:
                self.table[presence, number] = 1

    def word(self, word: int, message: object) -> int:
        """The word that says whether the message is there."""
        key = word, message
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._numbers)
            if found == len(self.words):
                self.words = np.concatenate([self.words, np.zeros_like(self.words)])
                self.table = np.concatenate([self.table, np.zeros_like(self.table)])
            self.words[found] = word
            self.table[found, self._holders.get(key, [])] = 1
        return self._words + found

    def value(self, row: Any, word: int) -> int:
        """What a word is in a row, be it one of the row's or a presence."""
        if word < self._words:
            return int(row[word])
        presence = word - self._words
        return int(self.table[presence, row[self.words[presence]]])

"""Questions as words of their own: what a rule asks of a word that it does not read.

What it finds is a word that no row has, since it follows from one that rows have: whether a message is on its way,
whether a perturbation may happen once more. Questions are numbered far behind the words of rows. Each is asked of a
value of its word once, when somebody wants to know, and compiled code has the finding by the value's number from then
on. Only whether something is in a value is asked as soon as there is one: all such questions are asked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from tidegauge.spec.kernel.fast.programs import FollowError
from tidegauge.spec.kernel.fast.trie_tables import BEING_ASKED, NOT_ASKED

__all__ = ["FIRST_QUESTION", "RAISES", "WHOLE", "Itself", "Questions", "contains", "sliced"]

RAISES: Final = object()
"""The finding where the question raises an error."""
FIRST_QUESTION: Final = 1 << 24
"""The word of the first question; no row has as many."""
_MOST: Final = BEING_ASKED - 1
"""Findings of a question, at most."""

Changes = tuple[tuple[Callable[[Any, Any], Any], object], ...]


@attrs.frozen(cache_hash=True)
class Itself:
    """Among the arguments of a question: the word's value after changes, each a function with what it is given."""

    changes: Changes = ()

    def after(self, value: Any) -> Any:
        for change, by in self.changes:
            value = change(value, by)
        return value


WHOLE: Final = Itself()
"""What a question mostly asks of."""
_IS_IN: Final = 1
"""The number of the finding that something is in a word's value; that it is not has number 0, as a new table has it."""


class Questions:
    """Questions by number, in arrays that the kernel looks at."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        """By word, function and arguments."""
        self._asked: list[tuple[Callable[..., Any], tuple[object, ...]]] = []
        self._of: dict[int, list[int]] = {}
        """By word: the questions asked of it, but those in `_members`."""
        self._members: dict[int, dict[object, int]] = {}
        """By word and what may be in it: the question whether it is. Most questions are of this kind."""
        self._having: dict[int, dict[object, list[int]]] = {}
        """By such a word and what has been in it: the numbers of the values that it is in. To look for it in each value
        took as long as all runs of the machine, where there are hundreds of such questions."""
        self._findings: list[list[object]] = []
        """By question and number of the finding."""
        self._finding_numbers: list[dict[object, int]] = []
        self.words: npt.NDArray[np.int64] = np.zeros(8, np.int64)
        """By question, counted from 0: the word that is asked."""
        self.table: npt.NDArray[np.uint16] = np.zeros((8, 8), np.uint16)
        """By question and the number of that word's value: the number of the finding, or NOT_ASKED."""
        self._is_held = False
        self._held: dict[tuple[int, int], int] = {}
        """Findings that the table has yet to have, by question and the number of the value."""

    def met(self, word: int, number: int, value: Any) -> None:
        """A word has a new value."""
        while number >= self.table.shape[1]:
            self.table = np.concatenate([self.table, np.zeros_like(self.table)], axis=1)
        if word in self._of:
            self.table[self._of[word], number] = NOT_ASKED
        members = self._members.get(word)
        if members:
            items = self._note_items(word, number, value)
            self.table[[members[item] for item in items if item in members], number] = _IS_IN

    def _note_items(self, word: int, number: int, value: Any) -> set[object]:
        """Note what is in a value."""
        items, having = set(value), self._having[word]
        for item in items:
            having.setdefault(item, []).append(number)
        return items

    def word(self, word: int, ask: Callable[..., Any], arguments: tuple[object, ...], values: Iterable[Any]) -> int:
        """The word that is what the question finds of a word, which has had these values."""
        key = word, ask, arguments
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._numbers)
            is_member = ask is contains and arguments[0] == WHOLE and type(arguments[1]) is not Itself
            self._asked.append((ask, arguments))
            self._findings.append([False, True] if is_member else [])
            self._finding_numbers.append({False: 0, True: _IS_IN} if is_member else {})
            if is_member:
                if word not in self._members:
                    self._members[word], self._having[word] = {}, {}
                    for number, value in enumerate(values):
                        self._note_items(word, number, value)
                self._members[word][arguments[1]] = found
            else:
                self._of.setdefault(word, []).append(found)
            if found == len(self.words):
                self.words = np.concatenate([self.words, np.zeros_like(self.words)])
                self.table = np.concatenate([self.table, np.zeros_like(self.table)])
            self.words[found] = word
            if is_member:
                self.table[found, self._having[word].get(arguments[1], ())] = _IS_IN
            else:
                self.table[found] = NOT_ASKED
        return FIRST_QUESTION + found

    def find(self, question: int, row: Sequence[int], values: Sequence[Sequence[object]]) -> int:
        """The number of what a question, counted from 0, finds in a row; `values` has those of each word."""
        word = self.words.item(question)
        found = self._kept(question, row[word])
        if found >= BEING_ASKED:
            found = self._finding(question, values[word][row[word]])
            if self._is_held:
                self._held[question, row[word]] = found
            else:
                self.table[question, row[word]] = found
        return found

    def _kept(self, question: int, number: int) -> int:
        found = self.table.item(question, number)
        return self._held.get((question, number), found) if found >= BEING_ASKED and self._held else found

    def hold(self) -> None:
        """Threads look at the table from now on: it has no finding of a value that they may look for."""
        self._is_held = True

    def release(self) -> None:
        """No thread looks at it any more."""
        self._is_held = False
        for (question, number), found in self._held.items():
            self.table[question, number] = found
        self._held.clear()

    def _finding(self, question: int, value: object) -> int:
        """The number of the finding."""
        ask, arguments = self._asked[question]
        try:
            finding = ask(*[each.after(value) if type(each) is Itself else each for each in arguments])
        except Exception:
            finding = RAISES
        numbers = self._finding_numbers[question]
        found = numbers.get(finding)
        if found is None:
            found = numbers[finding] = len(numbers)
            self._findings[question].append(finding)
            if found > _MOST:
                raise FollowError(f"{ask.__name__} has more than {_MOST:,} findings")
        return found

    def finding(self, row: Sequence[int], word: int, values: Sequence[Sequence[object]]) -> Any:
        """What a question, by its word, finds in a row; RAISES where it raises an error."""
        question = word - FIRST_QUESTION
        return self._findings[question][self.find(question, row, values)]

    def value(self, row: Sequence[int], word: int) -> int:
        """What a word is in a row, be it one of the row's or what has been found, by its number."""
        if word < FIRST_QUESTION:
            return int(row[word])
        question = word - FIRST_QUESTION
        return self._kept(question, row[self.words.item(question)])


def contains(values: tuple[object, ...], value: object) -> bool:
    return value in values


def sliced(values: tuple[object, ...], start: int | None, stop: int | None, step: int | None) -> tuple[object, ...]:
    return values[start:stop:step]

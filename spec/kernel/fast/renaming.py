"""Symmetry of the fast engine: what a renaming of processes does to the words of a state, learned word by word.

A machine renames whole states (`Machine.permute`). Of a row of numbers the same is known without asking it, if each
word of the renamed state comes from one word of the state: a replica's log from the log of the replica that it was, a
set of messages from that set with other names. So each value of each word is put into an initial state, which the
machine renames; where the outcome differs from the renamed initial state, there is what becomes of the value.

That it is so is not taken on trust. Where a word changes two words, or two words change the same one, the two are kept
as one word (ShapeError). A machine renames states as a whole as well: each that has a new value in all ways, and in one
way some of the first states that were found and what each new outcome of a rule has led to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tidegauge.spec.kernel.fast.layout import Layout, ShapeError
from tidegauge.spec.kernel.fast.programs import FollowError
from tidegauge.spec.kernel.machine import Machine

__all__ = ["MOST_RENAMINGS", "Renaming"]

S = TypeVar("S")

MOST_RENAMINGS: Final = 719
"""Of six processes: the renamed rows of a state have to fit into the processor's cache."""
_TESTED: Final = 500
"""Renamed states by which it is seen at the beginning whether words keep apart."""
NO_TARGET: Final = -1


class Renaming(Generic[S]):
    """All renamings of a machine but the one that changes nothing, in arrays that the kernel looks at.

    Without `renamings` there are none, and each state is its own orbit.
    """

    def __init__(self, machine: Machine[S], layout: Layout, renamings: Sequence[tuple[int, ...]] = ()) -> None:
        if len(renamings) > MOST_RENAMINGS:
            raise FollowError(f"its processes have {len(renamings) + 1} renamings, more than {MOST_RENAMINGS + 1}")
        self._machine, self._layout, self._renamings = machine, layout, renamings
        count, words = len(renamings), layout.words
        self._base = layout.encoded(next(iter(machine.initial()))) if renamings else []
        self.initials: npt.NDArray[np.uint32] = np.zeros((count, words), np.uint32)
        """The initial state under each renaming."""
        self.targets: npt.NDArray[np.int64] = np.full((count, words), NO_TARGET, np.int64)
        """By renaming and word: which word its value goes to; NO_TARGET as long as no value makes a difference."""
        self.starts: npt.NDArray[np.int64] = np.zeros(words, np.int64)
        """By word: where its values begin in `images`."""
        self._room = [0] * words
        self.images: npt.NDArray[np.uint32] = np.zeros((count, 0), np.uint32)
        """By renaming and value: the number of what it becomes."""
        self._sources = [dict[int, int]() for _ in renamings]
        """The one word that each word comes from."""
        self._known = [bytearray() for _ in range(words)]
        """By word and number: whether it is known what becomes of that value."""
        self._turns = cycle(range(count))
        layout.growing.append(self._have_more_words)
        if renamings:
            initial = self._decoded(self._base)
            images = [self._renamed(initial, place) for place in range(count)]
            self.initials[:] = [layout.completed(image) for image in images]
            for word, number in enumerate(self._base):
                self.learn(word, number)

    def learn(self, word: int, number: int) -> bool:
        """Find out what becomes of a value; False if it is known. Raises ShapeError for words that hang together."""
        if not self._renamings:
            return False
        known = self._known[word]
        if number < len(known) and known[number]:
            return False
        known.extend(bytes(max(0, number + 1 - len(known))))
        known[number] = 1
        self._make_room(word, number + 1)
        row = self._layout.completed(self._base)
        row[word] = number
        state = self._decoded(row)
        for place in range(len(self._renamings)):
            self._learn(place, word, number, self._renamed(state, place))
        return True

    def _learn(self, place: int, word: int, number: int, image: Sequence[int]) -> None:
        base = self.initials[place].tolist()
        target = int(self.targets[place, word])
        differing = [other for other, value in enumerate(image) if value != base[other] and other != target]
        if differing:
            targets = differing if target == NO_TARGET else [target, *differing]
            if len(targets) > 1:
                raise ShapeError(_common_place(self._layout.places, targets))
            (target,) = targets
            source = self._sources[place].setdefault(target, word)
            if source != word:
                raise ShapeError(_common_place(self._layout.places, [source, word]))
            self.targets[place, word] = target
            start = self.starts[word]
            self.images[place, start : start + self._room[word]] = base[target]
        self.images[place, self.starts[word] + number] = image[target] if target != NO_TARGET else 0

    def met(self, row: Sequence[int], words: Iterable[int]) -> None:
        """A state was met, which may have new values of these words: have it renamed as a whole, and compare.

        Raises FollowError where the machine makes something else of it, and ShapeError.
        """
        if self._renamings:
            is_new = sum(self.learn(word, row[word]) for word in words) > 0
            state = self._decoded(row)
            for place in range(len(self._renamings)) if is_new else (next(self._turns),):
                self._compare(row, state, place)

    def begin(self, rows: Sequence[Sequence[int]]) -> None:
        """Learn the values of the first states, and compare some of them."""
        for row in rows:
            for word, number in enumerate(row):
                self.learn(word, number)
        for row in rows[:: max(1, len(rows) // _TESTED)]:
            self.met(row, ())

    def _compare(self, row: Sequence[int], state: S, place: int) -> None:
        renamed = self._renamed(state, place)
        image = self.initials[place].tolist()
        for word, number in enumerate(row):
            target = self.targets[place, word]
            if target != NO_TARGET:
                image[target] = int(self.images[place, self.starts[word] + number])
        if image != renamed:
            raise FollowError("what its renamings make of a word depends on other words")

    def _decoded(self, row: Sequence[int]) -> S:
        state: S = self._layout.decoded(row)
        return state

    def _renamed(self, state: S, place: int) -> list[int]:
        try:
            renamed = self._machine.permute(state, self._renamings[place])
        except Exception as error:
            raise FollowError(f"permute: {type(error).__name__}: {error}") from error
        return self._layout.encoded(renamed)

    def _have_more_words(self) -> None:
        """The layout has: nothing is in them, in any state so far, and nothing is known of what may be."""
        count, more = len(self._renamings), self._layout.words - len(self._room)
        self.initials = np.concatenate([self.initials, np.zeros((count, more), np.uint32)], axis=1)
        self.targets = np.concatenate([self.targets, np.full((count, more), NO_TARGET, np.int64)], axis=1)
        self.starts = np.concatenate([self.starts, np.full(more, sum(self._room), np.int64)])
        self._room += [0] * more
        self._known += [bytearray() for _ in range(more)]

    def _make_room(self, word: int, count: int) -> None:
        """Have room for so many values of a word."""
        if count > self._room[word]:
            room = [*self._room]
            room[word] = max(8, 2 * count)
            starts = np.cumsum([0, *room[:-1]])
            images = np.zeros((len(self._renamings), sum(room)), np.uint32)
            for each, old in enumerate(self._room):
                start, end = self.starts[each], starts[each]
                images[:, end : end + old] = self.images[:, start : start + old]
            self._room, self.starts, self.images = room, starts, images


def _common_place(places: Sequence[str], words: Sequence[int]) -> str:
    """The innermost place that has all these words in it."""
    paths = [re.findall(r"\.[^.\[]+|\[\d+\]", places[word]) for word in words]
    common = []
    for steps in zip(*paths, strict=False):
        if len(set(steps)) > 1:
            break
        common.append(steps[0])
    return "".join(common)

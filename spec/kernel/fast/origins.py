"""Where the value of a changed word comes from, if the step has not read it: the same word, or another one.

Of a changed word a leaf has the number of its value or, below zero, its *origin*: a word, and the node that leads from
numbers of that word's values to numbers of this one's. From the same word something is taken away, or added to it
(`Piecemeal`); of another one it is a copy (`Copied`).

Compiled code changes word after word, and so a word comes behind those that have their values from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tidegauge.spec.kernel.fast.layout import ABSENT, ABSENT_NUMBER, Layout, ShapeError
from tidegauge.spec.kernel.fast.moving import Copied, Gone, Moved
from tidegauge.spec.kernel.fast.nodes import NO_WORD
from tidegauge.spec.kernel.fast.questions import Changes, Itself
from tidegauge.spec.kernel.fast.tries import Tries
from tidegauge.spec.kernel.fast.views import Piecemeal, Run, plain

__all__ = ["Origins", "in_order", "lengthened"]

_NODE_BITS: Final = 32
_WITHOUT_VALUES: Final = frozenset((Copied, Moved, Gone))


class Origins:
    """The nodes that lead from values to what is made of them."""

    def __init__(self, layout: Layout, tries: Tries) -> None:
        self._layout, self._tries = layout, tries
        self._nodes: dict[tuple[int, int, Changes], int] = {}
        """By a word, that which its value comes from, and what is done to this, one by one."""
        self._known: dict[int, tuple[int, int, Changes]] = {}
        self._learned: dict[int, dict[int, int]] = {}
        """By node: the numbers that each number leads to."""
        self._wholes: dict[tuple[Moved | Gone, ...], Sequence[int] | None] = {}
        """What leaves have of what moves as a whole."""

    def node(self, word: int, source: int, changes: Changes = ()) -> int:
        key = word, source, changes
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = self._tries.node(source)
            self._known[found] = key
            learned: dict[int, int] = {}
            self._learned[found] = learned
            numbers = self._layout.numbers[word] if not changes else {}
            for number, value in enumerate(self._layout.values[source] if numbers else ()):
                if value in numbers:
                    learned[number] = numbers[value]
                    self._tries.put(found, number, numbers[value])
        return found

    def item(self, word: int, source: int, changes: Changes = ()) -> int:
        """What a leaf has of it. Of copies of values that both words have had nothing has to be learned."""
        return -1 - (source << _NODE_BITS | self.node(word, source, changes))

    def learn(self, item: int, row: Sequence[int]) -> tuple[int, int]:
        """Have compiled code know what becomes of the value in this row: the word, and the number that it comes to."""
        node = (-1 - item) & (1 << _NODE_BITS) - 1
        word, source, changes = self._known[node]
        before, learned = row[source], self._learned[node]
        number = learned.get(before)
        if number is None:
            value = Itself(changes).after(self._layout.values[source][before])
            number = learned[before] = self._layout.number(word, value)
            self._tries.put(node, before, number)
        return word, number

    def come_to(self, item: int, row: Sequence[int]) -> int:
        """The number that an origin leads to in a row."""
        return self.learn(item, row)[1]

    def source_of(self, item: int) -> tuple[int, Changes]:
        """The word that a value comes from, and what is done to it."""
        _, source, changes = self._known[(-1 - item) & (1 << _NODE_BITS) - 1]
        return source, changes

    def outcome(self, run: Run, found: Sequence[tuple[int, Any]]) -> list[int]:
        """The items of a leaf, of what `changes` has found."""
        wholes = [value for word, value in found if word == NO_WORD]
        copies = {word: value.word for word, value in found if type(value) is Copied}
        items = self._of_wholes(wholes) if wholes and not copies else None
        if items is None:
            moved = [pair for each in wholes if type(each) is Moved for pair in each.words]
            copies |= {word: by.word for word, by in moved}
            items = [] if not wholes else self._of_gone(wholes)
            copied, crossing = list[int](), list[int]()
            ordered = in_order(copies, crossing.append) if copies else ()
            for word in sorted(crossing):  # those that come with a longer tuple are behind what paths have read before
                run.read(word)
            for word in ordered:
                item = self.item(word, copies[word])
                copied += word, self.learn(item, run.row)[1] if run.is_read[copies[word]] else item
            items = copied + items
        numbers, later = self._layout.numbers, list[int]()
        for word, value in found:
            kind = type(value)
            if kind is Piecemeal:
                item = self.item(word, word, value.changes)
                later += word, self.learn(item, run.row)[1] if run.is_read[word] else item
            elif kind not in _WITHOUT_VALUES:
                number = numbers[word].get(value)  # a view counts as equal to what it is a view of
                if number is None:
                    number = self._layout.number(word, plain(value))
                items += word, number
        return later + items if later else items

    def _of_wholes(self, wholes: Sequence[Moved | Gone]) -> list[int] | None:
        """The items of what moves as a whole or is there no more; None where places change with each other."""
        key = tuple(wholes)
        if key not in self._wholes:
            pairs = [pair for each in wholes if isinstance(each, Moved) for pair in each.words]
            copies, crossing, items = {word: by.word for word, by in pairs}, list[int](), list[int]()
            for word in in_order(copies, crossing.append):
                items += word, self.item(word, copies[word])
            self._wholes[key] = None if crossing else (*items, *self._of_gone(wholes))
        found = self._wholes[key]
        return None if found is None else [*found]

    def _of_gone(self, wholes: Sequence[Moved | Gone]) -> list[int]:
        number = self._layout.number
        words = [word for each in wholes if isinstance(each, Gone) for word in each.words]
        return [part for word in words for part in (word, number(word, ABSENT))]

    def forget(self) -> None:
        """Tuples have become longer."""
        self._wholes.clear()


def in_order(copies: Mapping[int, int], read: Callable[[int], object]) -> list[int]:
    """The words of `copies`, which says of each where its value comes from, in an order in which each can be changed.

    Where words change places, `read` is given those that have to be read for it.
    """
    readers: dict[int, list[int]] = {}
    for word, source in copies.items():
        readers.setdefault(source, []).append(word)
    ordered: dict[int, None] = {}
    begun: set[int] = set()

    def put(word: int) -> None:
        begun.add(word)
        for reader in readers.get(word, ()):
            if reader not in begun:
                put(reader)
            elif reader not in ordered:
                read(word)
        ordered[word] = None

    for word in copies:
        if word not in begun:
            put(word)
    return [*ordered]


def lengthened(search: Any, error: ShapeError) -> bool:
    """Have a `FastSearch` go on with a longer tuple than it had room for; False if it has to begin again.

    What is known of programs stays true, since a longer tuple has a length that nobody has read yet. Steps that make a
    tuple another one as a whole have to leave nothing behind in its new words.
    """
    item = search.origins.item
    more = search.layout.extended(error)
    if more is None:
        return False

    def mended(items: tuple[int, ...]) -> tuple[int, ...]:
        found: list[int] = []
        for word, value in zip(items[::2], items[1::2], strict=True):
            found += word, value
            if word not in more:
                continue
            source = (-1 - value) >> _NODE_BITS
            if value >= 0 or source == word:
                found += [each for new in more[word] for each in (new, ABSENT_NUMBER)]
            else:
                pairs = zip(more[word], more[source], strict=True)
                found += [each for new, its in pairs for each in (new, item(new, its))]
        return tuple(found)

    search.tries.mend(mended)
    search.origins.forget()
    search.tails.forget()
    search.have_more_words()
    return True

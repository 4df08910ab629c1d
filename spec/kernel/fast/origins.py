"""Where the value of a changed word comes from, if the step has not read it: the same word, or another one.

Of a changed word a leaf has the number of its value or, below zero, its *origin*: a word, and the node that leads from
numbers of that word's values to numbers of this one's. From the same word something is taken away, or added to it
(`Piecemeal`); of another one it is a copy (`Copied`).

Compiled code changes word after word, and so a word comes behind those that have their values from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tidegauge.spec.kernel.fast.layout import Layout, ShapeError
from tidegauge.spec.kernel.fast.moving import Copied
from tidegauge.spec.kernel.fast.questions import Changes, Itself
from tidegauge.spec.kernel.fast.tries import Tries
from tidegauge.spec.kernel.fast.views import Piecemeal, Run, plain

__all__ = ["Origins", "in_order", "lengthened"]

_NODE_BITS: Final = 32
_ABSENT_NUMBER: Final = 0
_NO_VALUES: Final = frozenset((Copied, Piecemeal))


class Origins:
    """The nodes that lead from values to what is made of them."""

    def __init__(self, layout: Layout, tries: Tries) -> None:
        self._layout, self._tries = layout, tries
        self._nodes: dict[tuple[int, int, Changes], int] = {}
        """By a word, that which its value comes from, and what is done to this, one by one."""
        self._known: dict[int, tuple[int, int, Changes]] = {}
        self._learned: dict[int, dict[int, int]] = {}
        """By node: the numbers that each number leads to."""

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

    def outcome(self, run: Run, found: Sequence[tuple[int, object]]) -> tuple[list[int], list[tuple[int, int]]]:
        """The items of a leaf, of what `changes` has found; all words that change in this row, with their numbers."""
        copies = {word: value.word for word, value in found if type(value) is Copied}
        coming = [(word, copies[word], Changes()) for word in in_order(copies, run.read)] if copies else []
        coming += [(word, word, value.changes) for word, value in found if type(value) is Piecemeal]
        items, changed = list[int](), list[tuple[int, int]]()
        for word, source, changes in coming:
            item = self.item(word, source, changes)
            changed.append(self.learn(item, run.row))
            items += word, changed[-1][1] if run.is_read[source] else item
        numbers = self._layout.numbers
        for word, value in found:
            if type(value) not in _NO_VALUES:
                number = numbers[word].get(value)  # a view counts as equal to what it is a view of
                if number is None:
                    number = self._layout.number(word, plain(value))
                changed.append((word, number))
                items += word, number
        return items, changed


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
                found += [each for new in more[word] for each in (new, _ABSENT_NUMBER)]
            else:
                pairs = zip(more[word], more[source], strict=True)
                found += [each for new, its in pairs for each in (new, item(new, its))]
        return tuple(found)

    search.tries.mend(mended)
    search.has_more_words()
    return True

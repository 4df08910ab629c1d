"""What is asked of a step that has been taken: its properties, in tries of their own behind that of the action.

What an action does depends on less than what its properties look at: a coordinator that fails takes over a group as the
log has it, whatever that is, and a property holds that group against the one before. So properties do not run with
their action. The words that an action reads lead to what changes, and from there the trie goes on with a *tail*: a trie
for this action, these changes, and the properties. A property that says the same of each process has a tail of each,
one behind the other, for what is asked of one process is not multiplied by what is asked of another. Where an action
comes to the same changes in another way, its tails are the same.

What a property says is known of most steps that are new, since they are not in what it looks at
(`tidegauge.spec.kernel.fast.verdicts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidegauge.spec.kernel.each import parts_of
from tidegauge.spec.kernel.fast import kernel, trie_tables
from tidegauge.spec.kernel.fast.layout import Layout
from tidegauge.spec.kernel.fast.nodes import Choice, Keyed, Leaf, Listing, Node
from tidegauge.spec.kernel.fast.origins import Origins
from tidegauge.spec.kernel.fast.questions import FIRST_QUESTION
from tidegauge.spec.kernel.fast.tries import Paths, Tries
from tidegauge.spec.kernel.fast.verdicts import StepRule, Verdicts
from tidegauge.spec.kernel.fast.views import Changed, Run, changes
from tidegauge.spec.kernel.machine import Action

__all__ = ["Tails", "stepped"]

_LONGEST: Final = 1 << 12
"""Words of a path, at most, that are looked at for the tail in which it ends."""


class _Taken:
    """An action with what it changes: what its tails have in common."""

    def __init__(self, action: Action, leaf: int, flags: int) -> None:
        self.action, self.leaf, self.flags = action, leaf, flags
        """`leaf`: that of the step, which has these flags."""
        self.changed: Changed | None = None


class _Tail:
    """Properties that have been asked of an action with what it changes, and what follows where they hold."""

    def __init__(self, taken: _Taken, rules: Sequence[int], behind: int) -> None:
        self.taken, self.rules, self.behind = taken, rules, behind


class Tails:
    """The tails of a search's actions. What a path comes to is a leaf, or -1 - tail."""

    def __init__(self, layout: Layout, tries: Tries, origins: Origins, rules: Sequence[StepRule]) -> None:
        self._layout, self._tries = layout, tries
        self._verdicts = Verdicts(layout, origins, [part for rule in rules for part in parts_of(rule)])
        self._apart = _separated(rules)
        """What has a tail of its own: properties by their places among the parts of all."""
        self._known: dict[tuple[Action, int], int] = {}
        """By action and leaf of the step: what its path comes to."""
        self._tails: list[_Tail] = []
        self._by_root: dict[int, int] = {}
        """By the node with which a tail begins."""
        self._rooted = 0
        """Tails up to here have their nodes."""
        self._visited: npt.NDArray[np.int64] = np.zeros(_LONGEST, np.int64)
        self._bits: dict[Node, int] = {}
        """By node of the layout: its bit."""
        self._above: list[int] = []
        """By word: the bits of the nodes that have it."""

    def of(self, paths: Paths, run: Run, action: Action, items: Sequence[int], flags: int) -> int:
        """What the path of an action comes to that changes the words as `items` say; tails that are new are asked in
        this state, and have their paths put into `paths`."""
        leaf = self._tries.leaf(items, flags)
        found = self._known.get((action, leaf))
        if found is None:
            taken = _Taken(action, leaf, flags)
            asked = [(rules, *self._asked(taken, rules, run.row)) for rules in self._apart]
            if all(self._is_read(run, word) for _, words, _ in asked for word in words):
                return leaf if all(holds for *_, holds in asked) else self._violating(taken)
            found = leaf
            for rules, words, holds in asked:
                found = self._begun(paths, _Tail(taken, rules, found), words, holds)
            self._known[action, leaf] = found
        return found

    def _asked(self, taken: _Taken, rules: Sequence[int], row: list[int]) -> tuple[dict[int, int], bool]:
        """The words that properties look at, with the numbers of their values in this row, and whether they hold."""
        if taken.changed is None:
            taken.changed = self._changed(taken.leaf)
        words = dict[int, int]()
        if len(row) < self._layout.words:
            row = self._layout.completed(row)
        return words, self._verdicts.hold(rules, taken.action, taken.changed, row, words)

    def _is_read(self, run: Run, word: int) -> bool:
        """Whether the action has read it, or the word that the question is asked of."""
        if word < FIRST_QUESTION:
            return word < len(run.is_read) and bool(run.is_read[word])
        return bool(run.is_read[self._layout.questions.words.item(word - FIRST_QUESTION)]) or word in run.words

    def _begun(self, paths: Paths, tail: _Tail, words: dict[int, int], holds: bool) -> int:
        """What a path comes to that goes on with this tail: what it comes to itself, if no word has been read."""
        found = tail.behind if holds else self._violating(tail.taken)
        if not words:
            return found
        self._tails.append(tail)
        number = self._tries.tail()
        assert number + 1 == len(self._tails), "tails are numbered in their order"
        paths.add(-1 - number, [*words], [*words.values()], found)
        return -1 - number

    def _violating(self, taken: _Taken) -> int:
        """The leaf of the same step where a property does not hold."""
        return self._tries.leaf(self._tries.items_of(taken.leaf), taken.flags | kernel.VIOLATES)

    def _changed(self, leaf: int) -> Changed:
        """What a leaf says of the words that change."""
        items, above = self._tries.items_of(leaf), self._above
        if len(above) < self._layout.words:
            above = self._above = [0] * self._layout.words
            self._note_above(self._layout.root, 0)
        words = items[::2]
        touched = reduce(or_, [above[word] for word in words], 0)
        return Changed(dict(zip(words, items[1::2], strict=True)), touched, self._bits)

    def _note_above(self, node: Node, above: int) -> None:
        """Note of each word of a node which nodes have it."""
        above |= 1 << self._bits.setdefault(node, len(self._bits))
        children: Sequence[Node] = ()
        if isinstance(node, Leaf):
            self._above[node.word] = above
        elif isinstance(node, Listing):
            self._above[node.length], children = above, node.children
        elif isinstance(node, Choice):
            self._above[node.choice], children = above, [*node.children.values()]
        elif isinstance(node, Keyed):
            for word in node.words.values():
                self._above[word] = above
        else:
            children = node.children
        for child in children:
            self._note_above(child, above)

    def forget(self) -> None:
        """Rows have more words, and steps may change more of them."""
        self._known.clear()
        self._above.clear()
        for tail in self._tails:
            tail.taken.changed = None

    def ask(self, paths: Paths, number: int, row: list[int]) -> None:
        """Ask the properties of a tail in a state, and have its path in `paths`."""
        tail = self._tails[number]
        words, holds = self._asked(tail.taken, tail.rules, row)
        found = tail.behind if holds else self._violating(tail.taken)
        paths.add(-1 - number, [*words], [*words.values()], found)

    def learned(self) -> None:
        """The tries have learned the paths of new tails."""
        for number in range(self._rooted, len(self._tails)):
            self._by_root[int(self._tries.tail_roots[number])] = number
        self._rooted = len(self._tails)

    def unknown(self, program: int, row: npt.NDArray[np.uint32]) -> int | None:
        """The tail in which what is known of a program in a state ends; None if the action is not known so far."""
        if not self._by_root:
            return None
        tries, questions = self._tries, self._layout.questions
        count = trie_tables.visited(
            tries.roots[program], row, tries.nodes, tries.keys, tries.codes, questions.words, questions.table,
            self._visited,
        )  # fmt: skip
        for node in reversed(self._visited[:count].tolist()):
            found = self._by_root.get(node)
            if found is not None:
                return found
        return None


def stepped(search: Any, run: Run, state: Any, action: Action, after: Any) -> tuple[Sequence[int], int]:
    """What changes by a step that was taken, as the leaf of a `FastSearch` says it, and whether it is fair."""
    flags = kernel.IS_STEP
    if search.fair is not None and search.machine.is_fair(state, action, after):
        flags |= kernel.FAIR
    found: list[tuple[int, object]] = []
    changes(run, search.layout.root, after, found)
    items = search.origins.outcome(run, found)
    if search.renamings:
        row = search.layout.completed(run.row)
        for word, item in zip(items[::2], items[1::2], strict=True):
            row[word] = item if item >= 0 else search.origins.come_to(item, run.row)
        search.renaming.met(row, items[::2])
    return items, flags


def _separated(rules: Sequence[StepRule]) -> Sequence[Sequence[int]]:
    """What has a tail of its own: what the rules say of each number, and all rules together that say nothing so."""
    alone, others, place = list[int](), list[list[int]](), 0
    for rule in rules:
        count = len(parts_of(rule))
        if count == 1:
            alone.append(place)
        else:
            others += [[part] for part in range(place, place + count)]
        place += count
    return [*others, alone] if alone else others

"""What is asked of a step that has been taken: its properties, in tries of their own behind that of the action.

What an action does depends on less than what its properties look at: a coordinator that fails takes over a group as the
log has it, whatever that is, and a property holds that group against the one before. So properties do not run with
their action. The words that an action reads lead to what changes, and from there the trie goes on with a *tail*: a trie
for this action, these changes, and the properties. A property that says the same of each process has a tail of each,
one behind the other, for what is asked of one process is not multiplied by what is asked of another. Where an action
comes to the same changes in another way, its tails are the same.

A property is given the state and a view of the one after the step (`tidegauge.spec.kernel.fast.views.After`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tidegauge.spec.kernel.each import parts_of
from tidegauge.spec.kernel.fast import kernel, trie_tables
from tidegauge.spec.kernel.fast.layout import Layout
from tidegauge.spec.kernel.fast.nodes import Choice, Keyed, Leaf, Listing, Node
from tidegauge.spec.kernel.fast.origins import Origins
from tidegauge.spec.kernel.fast.tries import Paths, Tries
from tidegauge.spec.kernel.fast.views import After, Changed, Run, changes, view
from tidegauge.spec.kernel.machine import Action

__all__ = ["Tails", "stepped"]

StepRule: TypeAlias = Callable[[Any, Any, Any], bool]

_CREDIT: Final = 4
_LONGEST: Final = 1 << 12
"""Words of a path, at most, that are looked at for the tail in which it ends."""


class _Taken:
    """An action with what it changes: what its tails have in common."""

    def __init__(self, action: Action, leaf: int, violating: int) -> None:
        self.action, self.leaf, self.violating = action, leaf, violating
        """`leaf`: that of the step; `violating`: that of the same step where a property does not hold."""
        self.changed: Changed | None = None


class _Tail:
    """A property that has been asked of an action with what it changes, and what follows where it holds."""

    def __init__(self, taken: _Taken, holds: StepRule, behind: int) -> None:
        self.taken, self.holds, self.behind = taken, holds, behind


class Tails:
    """The tails of a search's actions. What a path comes to is a leaf, or -1 - tail."""

    def __init__(self, layout: Layout, tries: Tries, origins: Origins, rules: Sequence[StepRule]) -> None:
        self._layout, self._tries, self._origins, self._rules = layout, tries, origins, _separated(rules)
        self._credit: dict[type[Action], int] = {}
        """By class of action: how often properties may yet read more than the action."""
        self._known: dict[tuple[Action, int], int] = {}
        """By action and leaf of the step: what its path comes to."""
        self._tails: list[_Tail] = []
        self._by_root: dict[int, int] = {}
        """By the node with which a tail begins."""
        self._rooted = 0
        """Tails up to here have their nodes."""
        self._visited: npt.NDArray[np.int64] = np.zeros(_LONGEST, np.int64)
        self._above: list[tuple[Node, ...]] = []
        """By word: the nodes of the layout that have it."""

    def of(self, paths: Paths, run: Run, step: tuple[Any, Action, Any], items: Sequence[int], flags: int) -> int:
        """What the path of an action comes to that changes the words as `items` say; tails that are new are asked in
        this state, and have their paths put into `paths`. `step`: the views before, the action, and what came of it."""
        leaf, action = self._tries.leaf(items, flags), step[1]
        found = self._known.get((action, leaf))
        if found is None:
            violating = self._tries.leaf(items, flags | kernel.VIOLATES)
            holds = self._told_by_the_action(run, step)
            if holds is not None:
                return leaf if holds else violating
            taken, found = _Taken(action, leaf, violating), leaf
            for rule in self._rules:
                found = self._begun(paths, run.row, _Tail(taken, rule, found))
            self._known[action, leaf] = found
        return found

    def _told_by_the_action(self, run: Run, step: tuple[Any, Action, Any]) -> bool | None:
        """Whether all properties hold, if they read nothing but what the action has read. That is tried of a class of
        action as long as it is so more often than not."""
        kind = type(step[1])
        credit = self._credit.get(kind, _CREDIT)
        if credit <= 0:
            return None
        known = len(run.words)
        holds = all(rule(*step) for rule in self._rules)
        is_told = len(run.words) == known
        self._credit[kind] = min(credit + 1, _CREDIT) if is_told else credit - 1
        del run.words[known:]
        return holds if is_told else None

    def _begun(self, paths: Paths, row: list[int], tail: _Tail) -> int:
        """What a path comes to that goes on with this tail: what it comes to itself, if the property reads nothing."""
        run, found = self._run(tail, row)
        if not run.words:
            return found
        self._tails.append(tail)
        number = self._tries.tail()
        assert number + 1 == len(self._tails), "tails are numbered in their order"
        paths.add(-1 - number, run.words, run.read_values(), found)
        return -1 - number

    def _run(self, tail: _Tail, row: list[int]) -> tuple[Run, int]:
        taken, run = tail.taken, Run(self._layout, row)
        if taken.changed is None:
            taken.changed = self._changed(taken.leaf)
        after = After(run, taken.changed, self._origins.come_to)
        root = self._layout.root
        try:
            holds = tail.holds(view(run, root), taken.action, view(after, root))
        finally:
            run.views.clear()  # they refer to the run, and no collector looks for circles during a search
            after.views.clear()
        return run, tail.behind if holds else taken.violating

    def _changed(self, leaf: int) -> Changed:
        """What a leaf says of the words that change."""
        items = self._tries.items_of(leaf)
        if len(self._above) < self._layout.words:
            self._above = [()] * self._layout.words
            _note_above(self._layout.root, (), self._above)
        touched = frozenset[Node]().union(*[self._above[word] for word in items[::2]])
        fixed = {word: item for word, item in zip(items[::2], items[1::2], strict=True) if item >= 0}
        return Changed(fixed, self._origins.sources(items), touched)

    def forget(self) -> None:
        """Rows have more words, and steps may change more of them."""
        self._known.clear()
        self._above.clear()
        for tail in self._tails:
            tail.taken.changed = None

    def ask(self, paths: Paths, number: int, row: list[int]) -> None:
        """Run the property of a tail in a state, and have its path in `paths`."""
        run, found = self._run(self._tails[number], row)
        paths.add(-1 - number, run.words, run.read_values(), found)

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


def _separated(rules: Sequence[StepRule]) -> Sequence[StepRule]:
    """What has a tail of its own: what the rules say of each number, and all rules together that say nothing so."""
    alone = [rule for rule in rules if len(parts_of(rule)) == 1]
    others = [part for rule in rules if len(parts := parts_of(rule)) > 1 for part in parts]

    def holds(before: Any, action: Any, after: Any) -> bool:
        for rule in alone:  # noqa: SIM110 - a generator takes as long as some of the rules
            if not rule(before, action, after):
                return False
        return True

    return [*others, holds] if alone else others


def _note_above(node: Node, above: tuple[Node, ...], found: list[tuple[Node, ...]]) -> None:
    """Note of each word of a node which nodes have it."""
    above = (*above, node)
    children: Sequence[Node] = ()
    if isinstance(node, Leaf):
        found[node.word] = above
    elif isinstance(node, Listing):
        found[node.length], children = above, node.children
    elif isinstance(node, Choice):
        found[node.choice], children = above, [*node.children.values()]
    elif isinstance(node, Keyed):
        for word in node.words.values():
            found[word] = above
    else:
        children = node.children
    for child in children:
        _note_above(child, above, found)

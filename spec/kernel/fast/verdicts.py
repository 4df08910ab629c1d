"""What properties of steps have said, by what they have looked at: of a step that is the same there they are not asked.

What a property says depends on what it looks at, one thing after the other: a word of the state before, what the step
makes of a word, whether the step touches a part of the state at all, a field of the action. With what is there these
are a path in the property's tree, which ends with what it says. Other actions, and other outcomes of the same one, come
to the same end where the same is there: each outcome of a heartbeat is another step, and mostly none for what
a property looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from tidegauge.spec.kernel.evolving import evolve, evolved_by
from tidegauge.spec.kernel.fast.layout import Layout
from tidegauge.spec.kernel.fast.nodes import Keyed, Node
from tidegauge.spec.kernel.fast.origins import Origins
from tidegauge.spec.kernel.fast.questions import FIRST_QUESTION
from tidegauge.spec.kernel.fast.tries import UnsteadyError
from tidegauge.spec.kernel.fast.views import After, Changed, Run, view
from tidegauge.spec.kernel.machine import Action

__all__ = ["Verdicts"]

StepRule: TypeAlias = Callable[[Any, Any, Any], bool]
Looked: TypeAlias = dict[tuple[int, Any], Any]
"""What was looked at, in its order, with what was there."""

_WORD: Final = 0
"""The number of a word's value before the step, or of a question's finding."""
_ITEM: Final = 1
"""What the step makes of a word, as its leaf says it; None if it does nothing."""
_TOUCHED: Final = 2
"""Whether the step changes a word of a part of the state: of the node with this bit (`Changed.touched`)."""
_FIELD: Final = 3
"""A field of the action."""
_KEYS: Final = 4
"""The keys, of values by their keys, whose words the step changes."""


class Verdicts:
    """The trees of properties, each of which is known by its place among `rules`."""

    def __init__(self, layout: Layout, origins: Origins, rules: Sequence[StepRule]) -> None:
        self._layout, self._origins, self._rules = layout, origins, rules
        self._trees: dict[type[Action], list[Any]] = {}
        """By class of action, and by property: a node, which is what is looked at with where each value leads to."""

    def hold(
        self, rules: Sequence[int], action: Action, changed: Changed, row: list[int], words: dict[int, int]
    ) -> bool:
        """Whether properties hold of a step from the state of this row.

        The words of that state which they look at are put behind others in `words`, each with its number.
        """
        trees, item_of, touched = self._trees.get(type(action)), changed.item_of, changed.touched
        if trees is None:
            trees = self._trees[type(action)] = [None] * len(self._rules)
        for rule in rules:
            node = trees[rule]
            while type(node) is tuple:
                what, of, below = node
                if what == _TOUCHED:
                    node = below.get(touched >> of & 1)
                elif what == _WORD:
                    words[of] = number = row[of] if of < FIRST_QUESTION else self._finding(of, row)
                    node = below.get(number)
                elif what == _ITEM:
                    node = below.get(item_of(of))
                elif what == _FIELD:
                    node = below.get(getattr(action, of))
                else:
                    node = below.get(changed.keys_of(of))
            if node is None:
                node = self._learned(trees, rule, action, changed, row, words)
            if not node:
                return False
        return True

    def _finding(self, word: int, row: list[int]) -> int:
        return self._layout.questions.find(word - FIRST_QUESTION, row, self._layout.values)

    def _learned(
        self, trees: list[Any], rule: int, action: Action, changed: Changed, row: list[int], words: dict[int, int]
    ) -> bool:
        """Ask a property, and keep what it says."""
        looked: Looked = {}
        run = Run(self._layout, row)
        run.words = _Words(looked)
        after = After(run, _Watched(changed, looked), self._origins)
        root = self._layout.root
        try:
            holds = bool(self._rules[rule](view(run, root), _seen(action, looked), view(after, root)))
        finally:
            run.views.clear()  # they refer to the run, and no collector looks for circles during a search
            after.views.clear()
        known: Any = trees
        found: Any = rule
        for (what, of), there in looked.items():
            if what == _WORD:
                there = words[of] = self._layout.questions.value(run.row, of)
            node = known[found] if known is trees else known.get(found)
            if node is None:
                node = known[found] = (what, of, {})
            if type(node) is not tuple or node[0] != what or node[1] != of:
                raise UnsteadyError(f"property {rule} looks at something else than it did of the same step")
            known, found = node[2], there
        known[found] = holds
        return holds


class _Words(list[int]):
    """The words that a run reads, which are noted."""

    def __init__(self, looked: Looked) -> None:
        super().__init__()
        self._looked = looked

    def append(self, word: int) -> None:
        super().append(word)
        self._looked[_WORD, word] = None


class _Items:
    """What a step makes of words; that it was looked at is noted."""

    def __init__(self, items: Mapping[int, int], looked: Looked) -> None:
        self._get, self._looked = items.get, looked

    def get(self, word: int) -> int | None:
        found = self._looked[_ITEM, word] = self._get(word)
        return found


class _Watched(Changed):
    """The same changes; what is looked at of them is noted."""

    def __init__(self, changed: Changed, looked: Looked) -> None:
        super().__init__(changed.items, changed.touched, changed.bits)
        self.item_of = _Items(changed.items, looked).get
        self._looked = looked

    def touches(self, node: Node) -> bool:
        found = super().touches(node)
        self._looked[_TOUCHED, self.bits[node]] = int(found)
        return found

    def keys_of(self, node: Keyed) -> Sequence[object]:
        found = self._looked[_KEYS, node] = super().keys_of(node)
        return found


def _seen(action: Action, looked: Looked) -> Action:
    """The same action; which fields are looked at is noted."""
    kind = _SEEN.get(type(action))
    if kind is None:
        kind = _SEEN[type(action)] = _made_seen(type(action))
    made: Any = object.__new__(kind)
    made._action = action
    made._looked = looked
    return made  # type: ignore[no-any-return]  # an instance of a subclass of the action's class


_SEEN: Final[dict[type[Action], type[Any]]] = {}


def _made_seen(kind: type[Any]) -> type[Any]:
    """A subclass of a class of action whose instances note what is looked at."""
    names = [field.name for field in attrs.fields(kind)]

    def field_of(name: str) -> Callable[[Any], Any]:
        def read(self: Any) -> Any:
            found = self._looked[_FIELD, name] = getattr(self._action, name)
            return found

        return read

    def whole(self: Any) -> Any:
        for name in names:
            self._looked[_FIELD, name] = getattr(self._action, name)
        return self._action

    body: dict[str, Any] = {
        "__slots__": ("_action", "_looked"),
        "__setattr__": object.__setattr__,
        "__eq__": lambda self, other: whole(self) == (whole(other) if type(other) is type(self) else other),
        "__ne__": lambda self, other: whole(self) != (whole(other) if type(other) is type(self) else other),
        "__hash__": lambda self: hash(whole(self)),
        "__repr__": lambda self: repr(whole(self)),
        **{name: property(field_of(name)) for name in names},
    }
    found = type(kind.__name__, (kind,), body)
    evolved_by(found, lambda action, given: evolve(whole(action), **given))
    return found

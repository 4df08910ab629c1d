"""The programs that say which actions are worth asking, in their order.

A rule of each pair of a tuple (`OfEach`) is a program for each key, which reads that key's word alone. In compiled code
it is told apart by its sign: it is one look at a word, and remembers no paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from tidegauge.spec.kernel.fast.keyed_views import KeyedView
from tidegauge.spec.kernel.fast.layout import ABSENT, ABSENT_NUMBER, Layout
from tidegauge.spec.kernel.fast.nodes import Keyed
from tidegauge.spec.kernel.fast.questions import FIRST_QUESTION
from tidegauge.spec.kernel.fast.tries import Paths, Tries
from tidegauge.spec.kernel.fast.views import Run, view
from tidegauge.spec.kernel.keyed import OfEach
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.sorting import by_class

__all__ = ["Bases"]

S = TypeVar("S")
Rule: TypeAlias = Callable[[S], Iterable[Action]]
Program: TypeAlias = Callable[[Run, Any], int]


class Bases(Generic[S]):
    """Programs of a machine's rules: `made` makes one, `leaf` gives the leaf of some actions, and `tries` has them."""

    def __init__(
        self,
        rules: Sequence[Rule[S]],
        layout: Layout,
        initial: S,
        tries: Tries,
        made: Callable[[Program], int],
        leaf: Callable[[Iterable[Action]], int],
    ) -> None:
        self._tries, self._made, self._leaf = tries, made, leaf
        self._row, self._layout = layout.encoded(initial), layout
        self._programs: list[int | tuple[OfEach[S, Any, Any, Any], Keyed, dict[object, int]]] = [
            self._begun(rule) for rule in rules
        ]

    def numbers(self) -> list[int]:
        """The programs, of all keys that have been met; -1 - program for one of a key.

        Nothing has to run where a key is not there: states that were complete before it was met stay so.
        """
        found = list[int]()
        for program in self._programs:
            if isinstance(program, int):
                found.append(program)
                continue
            rule, node, known = program
            paths = Paths()
            for key, word in node.words.items():
                if key not in known and rule.among(key):
                    known[key] = self._made(self._of_key(rule, node, key))
                    paths.add(known[key], [word], [ABSENT_NUMBER], self._leaf(()))
            self._tries.learn(paths, FIRST_QUESTION)
            found += [-1 - known[key] for key in sorted(known, key=by_class)]
        return found

    def _begun(self, rule: Rule[S]) -> int | tuple[OfEach[S, Any, Any, Any], Keyed, dict[object, int]]:
        if isinstance(rule, OfEach):
            run = Run(self._layout, self._row)
            pairs: object = rule.pairs(view(run, self._layout.root))
            run.views.clear()
            if isinstance(pairs, KeyedView) and not pairs.changes and not run.words:
                return rule, pairs.node, {}
        return self._made(lambda run, state: self._leaf(rule(state)))

    def _of_key(self, rule: OfEach[S, Any, Any, Any], node: Keyed, key: object) -> Program:
        def run(run: Run, state: Any) -> int:
            value = run.value_of(node, key)
            return self._leaf(() if value is ABSENT else rule.of(key, value))

        return run

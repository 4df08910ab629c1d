"""Views of values by their keys: one key at a time is read, or given another value (`tidegauge.spec.kernel.keyed`).

A key that nobody has met gets a word: that it is not there has been read, and is remembered. Who looks at all pairs
cannot know which keys are still to come, so the place becomes one word (ShapeError), and the search begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import unwrap
from typing import Any, Final, NoReturn

from tidegauge.spec.kernel import keyed
from tidegauge.spec.kernel.fast.layout import ABSENT, ShapeError
from tidegauge.spec.kernel.fast.nodes import Keyed

__all__ = ["KeyedView"]

_VALUE_OF: Final = unwrap(keyed.value_of)
_WITH_VALUE: Final = unwrap(keyed.with_value)


class KeyedView:
    """The pairs of a state, with other values of some keys."""

    __slots__ = ("changes", "node", "run")

    def __init__(self, run: Any, node: Keyed, changes: Mapping[object, object]) -> None:
        self.run, self.node, self.changes = run, node, changes

    def asked(self, ask: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if ask is not _VALUE_OF:
            self.whole()
        (key,) = arguments
        if key in self.changes:
            return self.changes[key]
        value = self.run.value_of(self.node, key)
        return None if value is ABSENT else value

    def changed(self, change: Callable[..., Any], by: Any) -> KeyedView:
        if change is not _WITH_VALUE:
            self.whole()
        key, value = by
        return KeyedView(self.run, self.node, {**self.changes, key: value})

    def whole(self) -> NoReturn:
        raise ShapeError(self.node.place)

    def __iter__(self) -> Iterator[Any]:
        self.whole()

    def __bool__(self) -> bool:
        self.whole()

    def __len__(self) -> int:
        self.whole()

    def __getitem__(self, index: object) -> Any:
        self.whole()

    def __contains__(self, value: object) -> bool:
        self.whole()

    def __add__(self, other: object) -> Any:
        self.whole()

    def __radd__(self, other: object) -> Any:
        self.whole()

    def __eq__(self, other: object) -> bool:
        if type(other) is not KeyedView or other.node is not self.node:
            self.whole()
        keys = [*self.changes, *other.changes]
        if other.run is not self.run:
            after = self.run if self.run.before is other.run else other.run
            if after.before not in (self.run, other.run):
                self.whole()
            keys += after.keys_of(self.node)
        return all(self.asked(_VALUE_OF, (key,)) == other.asked(_VALUE_OF, (key,)) for key in keys)

    def __hash__(self) -> int:
        self.whole()

    def __repr__(self) -> str:
        self.whole()

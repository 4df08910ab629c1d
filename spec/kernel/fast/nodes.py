"""The tree of classes and tuples that a state is taken apart into (`tidegauge.spec.kernel.fast.layout`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, TypeAlias

import attrs

__all__ = ["NO_WORD", "Branch", "Choice", "Keyed", "Leaf", "Listing", "Node", "Row"]

NO_WORD: Final = -1


@attrs.frozen(eq=False)
class Leaf:
    """A value that is read as a whole."""

    place: str
    word: int
    piecemeal: bool = False
    """Whether rules ask one thing of it at a time (`tidegauge.spec.kernel.piecemeal`)."""


@attrs.frozen(eq=False)
class Branch:
    """An instance of one attrs class, by its fields."""

    word: ClassVar[int] = NO_WORD
    piecemeal: ClassVar[bool] = False

    place: str
    kind: type[Any]
    names: tuple[str, ...]
    aliases: tuple[str, ...]
    """The names that the class's constructor takes."""
    children: tuple[Node, ...]
    whole: tuple[int, ...] = attrs.field(init=False)
    """The words of the fields that are read as a whole; NO_WORD for each other one."""

    @whole.default
    def _words_of_fields(self) -> tuple[int, ...]:
        return tuple(NO_WORD if child.piecemeal else child.word for child in self.children)


@attrs.frozen(eq=False)
class Row:
    """A tuple of fixed length."""

    word: ClassVar[int] = NO_WORD
    piecemeal: ClassVar[bool] = False

    place: str
    children: tuple[Node, ...]


@attrs.frozen(eq=False)
class Listing:
    """A tuple of any length: its length is a word."""

    word: ClassVar[int] = NO_WORD
    piecemeal: ClassVar[bool] = False

    place: str
    field: str
    """The field of a class that holds such tuples; empty for a tuple within another."""
    length: int
    children: list[Node]
    """As many as the longest tuple has items."""
    words: list[list[int]]
    """Those of each child."""


@attrs.frozen(eq=False)
class Choice:
    """An instance of one of several classes, or another value: which class it is, or that value, is a word."""

    word: ClassVar[int] = NO_WORD
    piecemeal: ClassVar[bool] = False

    place: str
    choice: int
    children: Mapping[type, Node]
    """By class, in the order in which classes were met."""
    words: Mapping[type, list[int]]


@attrs.frozen(eq=False)
class Keyed:
    """Values by their keys (`tidegauge.spec.kernel.keyed`): each key that was ever met has a word."""

    word: ClassVar[int] = NO_WORD
    piecemeal: ClassVar[bool] = False

    place: str
    words: dict[object, int]
    """By key."""


Node: TypeAlias = Leaf | Branch | Row | Listing | Choice | Keyed

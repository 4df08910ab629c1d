"""How a state is taken apart: a tree of classes and rows, whose leaves are numbered words.

A *word* is a value that is read as a whole: an integer, a log, a tuple of messages on their way. A state is a row of
small integers, one for each word: the number under which the word's value was first met. States with equal words are
equal, and a row is a few dozen bytes.

Classes of attrs are taken apart as long as a place always holds the same class; a tuple of such instances, as long as
it always has the same length. Which places do is seen from samples. A state that turns out to have another shape has
its place kept as one word (`Layout.reshaped`), and the search begins again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import attrs

from tidegauge.spec.kernel.fast.questions import Questions
from tidegauge.spec.kernel.parts import Part
from tidegauge.spec.kernel.storage import CheckpointError

__all__ = ["NO_WORD", "Branch", "Layout", "Leaf", "Node", "Row", "ShapeError"]


NO_WORD: Final = -1


class ShapeError(Exception):
    """A state whose shape is not that of the layout; `place` is where."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place


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


@attrs.frozen(eq=False)
class Row:
    """A tuple of fixed length."""

    word: ClassVar[int] = NO_WORD
    piecemeal: ClassVar[bool] = False

    place: str
    children: tuple[Node, ...]


Node: TypeAlias = Leaf | Branch | Row


class Layout:
    """The words of a machine's states, and the values that each has had.

    `samples` are states of the machine; the places in `whole` are each one word, whatever is there.
    """

    def __init__(self, samples: Sequence[object], whole: Iterable[str] = ()) -> None:
        self.whole = frozenset(whole)
        self.places: list[str] = []
        self._piecemeal: set[int] = set()
        self.root = self._node("", samples)
        self.words = len(self.places)
        self.numbers: list[dict[object, int]] = [{} for _ in self.places]
        self.values: list[list[object]] = [[] for _ in self.places]
        """By word and number."""
        self.questions = Questions(self.words)

    def _node(self, place: str, samples: Sequence[Any], piecemeal: bool = False) -> Node:
        first = samples[0]
        kind = type(first)
        if piecemeal:
            self._piecemeal.add(len(self.places))
        elif place not in self.whole and all(type(sample) is kind for sample in samples):
            if _is_taken_apart(kind):
                fields = attrs.fields(kind)
                names = tuple(field.name for field in fields)
                children = tuple(
                    self._node(
                        f"{place}.{field.name}",
                        [getattr(sample, field.name) for sample in samples],
                        bool(field.metadata.get("piecemeal")),
                    )
                    for field in fields
                )
                return Branch(place, kind, names, tuple(field.alias for field in fields), children)
            if kind is tuple and first and _are_taken_apart(samples):
                items = [(f"{place}[{i}]", [sample[i] for sample in samples]) for i in range(len(first))]
                return Row(place, tuple(self._node(*item) for item in items))
        self.places.append(place)
        return Leaf(place, len(self.places) - 1, piecemeal)

    def reshaped(self, samples: Sequence[object], place: str) -> Layout:
        """A layout whose `place` is one word."""
        if place in self.whole:
            raise AssertionError(f"{place or 'the state'} is one word already")
        return Layout(samples, {*self.whole, place})

    def number(self, word: int, value: object) -> int:
        """The number of a word's value: the next one if it is met for the first time."""
        numbers = self.numbers[word]
        found = numbers.get(value)
        if found is None:
            found = numbers[value] = len(numbers)
            self.values[word].append(value)
            if word in self._piecemeal:
                self.questions.met(word, found, value)
        return found

    def saved(self) -> dict[str, Any]:
        """What `resumed` takes."""
        return {"whole": self.whole, "places": self.places, "values": self.values}

    @classmethod
    def resumed(cls, samples: Sequence[object], saved: Mapping[str, Any]) -> Layout:
        """The layout of a checkpoint, of a search with the same samples. Raises CheckpointError if it has others."""
        layout = cls(samples, saved["whole"])
        for word, values in enumerate(saved["values"] if layout.places == saved["places"] else ()):
            for value in values:
                layout.number(word, value)
        if [*map(len, layout.values)] != [*map(len, saved["values"])]:
            raise CheckpointError("its states are made of other values: the machine gives its steps in another order")
        return layout

    def encoded(self, state: object) -> list[int]:
        """The numbers of a state's words. Raises ShapeError."""
        row: list[int] = []
        self._encode(self.root, state, row)
        return row

    def _encode(self, node: Node, value: Any, row: list[int]) -> None:
        if isinstance(node, Leaf):
            row.append(self.number(node.word, value))
        elif isinstance(node, Branch):
            if type(value) is not node.kind:
                raise ShapeError(node.place)
            for name, child in zip(node.names, node.children, strict=True):
                self._encode(child, getattr(value, name), row)
        else:
            if type(value) is not tuple or len(value) != len(node.children):
                raise ShapeError(node.place)
            for child, item in zip(node.children, value, strict=True):
                self._encode(child, item, row)

    def decoded(self, row: Sequence[int]) -> Any:
        """The state of a row."""
        return self._decode(self.root, row)

    def _decode(self, node: Node, row: Sequence[int]) -> Any:
        if isinstance(node, Leaf):
            return self.values[node.word][row[node.word]]
        children = [self._decode(child, row) for child in node.children]
        if isinstance(node, Row):
            return tuple(children)
        return node.kind(**dict(zip(node.aliases, children, strict=True)))


def _are_taken_apart(samples: Sequence[tuple[object, ...]]) -> bool:
    """Whether the tuples are as long as the first of them, which has instances that are taken apart."""
    first = samples[0]
    return all(len(sample) == len(first) for sample in samples) and all(_is_taken_apart(type(item)) for item in first)


def _is_taken_apart(kind: type[Any]) -> bool:
    """Whether an instance is what its fields are, and can be made of them again. A part is found by its very class."""
    return (
        attrs.has(kind)
        and not issubclass(kind, Part)
        and bool(fields := attrs.fields(kind))
        and all(field.init and field.converter is None and field.validator is None for field in fields)
    )

"""How a state is taken apart: a tree of classes and rows, whose leaves are numbered words.

A *word* is a value that is read as a whole: an integer, a log, a tuple of messages on their way. A state is a row of
small integers, one for each word: the number under which the word's value was first met. States with equal words are
equal, and a row is a few dozen bytes.

Classes of attrs are taken apart as long as a place always holds the same class; a tuple of such instances, as long as
it always has the same length. Which places do is seen from samples. A state that turns out to have another shape has
its place kept as one word (`Layout.reshaped`), and the search begins again.

Where a field is marked with IN_PARTS (`tidegauge.spec.kernel.piecemeal`) tuples of any length are taken apart too, and
instances of several classes: a word says how long the tuple is, or which class it is, and what is not there has words
that are ABSENT. A longer tuple has more words from then on, behind all others (`Layout.extended`), so that what is
known of rows and programs stays true; another class has the search begin again.

Where a field is marked with KEYED (`tidegauge.spec.kernel.keyed`) each key has a word, which is ABSENT where the key is
not there. Who meets a new key adds a word behind all others (`Layout.word_of`): in all rows so far it is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, TypeGuard

import attrs

from tidegauge.spec.kernel.fast.moving import Copies
from tidegauge.spec.kernel.fast.nodes import Branch, Choice, Keyed, Leaf, Listing, Node, Row
from tidegauge.spec.kernel.fast.questions import Questions
from tidegauge.spec.kernel.keyed import in_order
from tidegauge.spec.kernel.parts import Part
from tidegauge.spec.kernel.storage import CheckpointError

__all__ = ["ABSENT", "ABSENT_NUMBER", "Absent", "Layout", "ShapeError", "chosen", "is_class_of"]


class ShapeError(Exception):
    """A state whose shape is not that of the layout; `place` is where, and `value` what is there."""

    def __init__(self, place: str, value: object = None) -> None:
        super().__init__(place)
        self.place, self.value = place, value


class Absent(Enum):
    """What is in a word of something that is not there."""

    ABSENT = "absent"
    __hash__ = object.__hash__


ABSENT: Final = Absent.ABSENT
ABSENT_NUMBER: Final = 0
"""What it is numbered with in a word that is added behind others."""


class Layout:
    """The words of a machine's states, and the values that each has had.

    `samples` are states of the machine; the places in `whole` are each one word, whatever is there. `more` has values
    of fields in parts beside those of the samples. Without `in_parts` no such field's mark counts. `keys` are known by
    the places of tuples of pairs, in the order of their words.
    """

    def __init__(
        self,
        samples: Sequence[object],
        whole: Iterable[str] = (),
        more: Iterable[tuple[str, object]] = (),
        *,
        in_parts: bool = True,
        keys: Iterable[tuple[str, object]] = (),
    ) -> None:
        self.whole, self.more, self._in_parts, self._samples = frozenset(whole), tuple(more), in_parts, samples
        self.places: list[str] = []
        self._piecemeal: set[int] = set()
        self._apart: dict[str, str] = {}
        """By the place of a value that is taken apart by its mark: the field of a class that holds it."""
        self._met: dict[str, dict[object, None]] = {}
        """By such a field: the values that it has anywhere. What one place has met, others will."""
        if in_parts:
            seen = set[int]()
            for value in (*samples, *(value for _, value in self.more)):
                _note_parts(value, self._met, seen)
            for field, value in self.more:
                self._met.setdefault(field, {})[value] = None
        self._listings: list[tuple[Listing, tuple[list[int], ...]]] = []
        """Each with the lists of words that have its own among them."""
        self._within: tuple[list[int], ...] = ()
        """The lists to which the next word belongs."""
        self._keyed: dict[str, Keyed] = {}
        """By place."""
        self.root = self._node("", samples)
        self.words = len(self.places)
        self.numbers: list[dict[object, int]] = [{} for _ in self.places]
        self.values: list[list[object]] = [[] for _ in self.places]
        """By word and number."""
        self.questions = Questions()
        self.copies = Copies()
        self.keys: list[tuple[str, object]] = []
        """Those of all tuples of pairs, each with its place, in the order of their words."""
        self.growing: list[Callable[[], None]] = []
        """What is called when there is another word behind the others."""
        for place, key in keys:
            if place in self._keyed:
                self.word_of(self._keyed[place], key)
        for sample in samples if self._keyed else ():
            self.encoded(sample)

    @property
    def has_parts(self) -> bool:
        """Whether anything is taken apart by its mark."""
        return bool(self._apart)

    def _word(self, place: str) -> int:
        self.places.append(place)
        for words in self._within:
            words.append(len(self.places) - 1)
        return len(self.places) - 1

    def _node(self, place: str, samples: Sequence[Any], piecemeal: bool = False) -> Node:
        first = samples[0]
        kind = type(first)
        if piecemeal:
            self._piecemeal.add(len(self.places))
        elif place not in self.whole and all(type(sample) is kind for sample in samples):
            if _is_taken_apart(kind):
                return self._branch(place, kind, samples)
            if kind is tuple and first and _are_taken_apart(samples):
                items = [(f"{place}[{i}]", [sample[i] for sample in samples]) for i in range(len(first))]
                return Row(place, tuple(self._node(*item) for item in items))
        return Leaf(place, self._word(place), piecemeal)

    def _branch(self, place: str, kind: type[Any], samples: Sequence[Any]) -> Branch:
        fields, children = attrs.fields(kind), list[Node]()
        for field in fields:
            inner, values = f"{place}.{field.name}", [getattr(sample, field.name) for sample in samples]
            if self._in_parts and field.metadata.get("in parts"):
                children.append(
                    self._parts(inner, _field_name(kind, field.name), [*self._met[_field_name(kind, field.name)]])
                )
            else:
                is_always_there = not any(inner.startswith(apart) for apart in self._apart)
                is_keyed = is_always_there and bool(field.metadata.get("keyed"))
                if is_keyed and inner not in self.whole:
                    children.append(self._keyed.setdefault(inner, Keyed(inner, {})))
                    continue
                is_piecemeal = is_always_there and bool(field.metadata.get("piecemeal"))
                children.append(self._node(inner, values, is_keyed or is_piecemeal))
        names, aliases = zip(*((field.name, field.alias) for field in fields), strict=True)
        return Branch(place, kind, names, aliases, tuple(children))

    def _parts(self, place: str, field: str, samples: Sequence[Any]) -> Node:
        """What is marked as a value in parts, and holds one of the samples."""
        is_within_itself = any(known == field and place.startswith(outer) for outer, known in self._apart.items())
        if place in self.whole or is_within_itself:
            return Leaf(place, self._word(place))
        self._apart[place] = field
        if all(type(sample) is tuple for sample in samples):
            listing = Listing(place, "" if field.endswith("[]") else field, self._word(place), [], [])
            self._listings.append((listing, self._within))
            self._lengthen(listing, field, samples)
            return listing
        kinds = [*dict.fromkeys(map(type, samples))]
        apart = [kind for kind in kinds if _is_taken_apart(kind)]
        if kinds == apart and len(kinds) == 1:
            return self._branch(place, kinds[0], samples)
        choice, children, words = self._word(place), dict[type, Node](), dict[type, list[int]]()
        for kind in apart:
            own = [sample for sample in samples if type(sample) is kind]
            children[kind], words[kind] = self._among_words(
                partial(self._branch, f"{place}:{kind.__name__}", kind, own)
            )
        return Choice(place, choice, children, words)

    def _lengthen(self, listing: Listing, field: str, samples: Sequence[Any]) -> None:
        """Have as many children as the longest sample has items."""
        items = [item for sample in samples for item in sample]
        items += self._met.get(field + "[]", ())
        for slot in range(len(listing.children), max(map(len, samples))):
            node, words = self._among_words(partial(self._parts, f"{listing.place}[{slot}]", field + "[]", items))
            listing.children.append(node)
            listing.words.append(words)

    def _among_words(self, make: Callable[[], Node]) -> tuple[Node, list[int]]:
        """A node, and the words that it has."""
        words, within = list[int](), self._within
        self._within = (*within, words)
        node = make()
        self._within = within
        return node, words

    def extended(self, error: ShapeError) -> Mapping[int, Sequence[int]] | None:
        """Have words for a longer tuple behind all others: by the word of each length, the new ones of that tuple.

        They are ABSENT, number 0, in all rows so far. None where it takes more than that: see `reshaped`.
        """
        field = self._apart.get(error.place, "")
        if all(error.place != listing.place or not listing.field for listing, _ in self._listings):
            return None
        if type(error.value) is not tuple:
            return None
        _note_parts(error.value, self._met, set())
        self._met.setdefault(field, {})[error.value] = None
        self.more = (*self.more, (field, error.value))
        found = {}
        for listing, within in [*self._listings]:
            first, self._within = len(self.places), within
            if listing.field:
                self._lengthen(listing, listing.field, [*self._met[listing.field]])
            if len(self.places) > first:
                found[listing.length] = range(first, len(self.places))
        self._within = ()
        more = range(self.words, len(self.places))
        self.words = len(self.places)
        self.numbers += [{} for _ in more]
        self.values += [[] for _ in more]
        for word in more:
            self.number(word, ABSENT)
        self.copies.forget()
        return found

    def word_of(self, node: Keyed, key: object) -> int:
        """The word of a key: one behind all others, ABSENT in all rows so far, if it is met for the first time."""
        found = node.words.get(key)
        if found is None:
            found = node.words[key] = len(self.places)
            self.places.append(f"{node.place}[{len(node.words)}]")
            self.keys.append((node.place, key))
            self.numbers.append({})
            self.values.append([])
            self.words += 1
            self.number(found, ABSENT)
            for grown in self.growing:
                grown()
        return found

    def completed(self, row: Sequence[int]) -> list[int]:
        """A row of the time when there were fewer words."""
        return [*row, *[0] * (self.words - len(row))]

    def reshaped(self, error: ShapeError) -> Layout:
        """A layout that has room for what was met at a place of parts; of any other place it makes one word."""
        whole, more = self.whole, self.more
        if error.place in self._apart and error.value is not None:
            more = (*more, (self._apart[error.place], error.value))
        elif error.place in whole:
            raise AssertionError(f"{error.place or 'the state'} is one word already")
        else:
            whole = whole | {error.place}
        return Layout(self._samples, whole, more, in_parts=self._in_parts, keys=self.keys)

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
        return {
            "whole": self.whole, "more": self.more, "keys": self.keys, "places": self.places, "values": self.values,
        }  # fmt: skip

    def resumed(self, saved: Mapping[str, Any]) -> Layout:
        """The layout of a checkpoint, of a search with the same samples. Raises CheckpointError if it has others."""
        layout = Layout(self._samples, saved["whole"], saved["more"], in_parts=self._in_parts, keys=saved["keys"])
        for word, values in enumerate(saved["values"] if layout.places == saved["places"] else ()):
            for value in values:
                layout.number(word, value)
        if [*map(len, layout.values)] != [*map(len, saved["values"])]:
            raise CheckpointError("its states are made of other values: the machine gives its steps in another order")
        return layout

    def encoded(self, state: object) -> list[int]:
        """The numbers of a state's words. Raises ShapeError."""
        row = [0] * self.words
        self._encode(self.root, state, row)
        return self.completed(row)

    def _encode(self, node: Node, value: Any, row: list[int]) -> None:
        if isinstance(node, Leaf):
            row[node.word] = self.number(node.word, value)
        elif isinstance(node, Branch):
            if type(value) is not node.kind:
                raise ShapeError(node.place, value)
            for name, child in zip(node.names, node.children, strict=True):
                self._encode(child, getattr(value, name), row)
        elif isinstance(node, Row):
            if type(value) is not tuple or len(value) != len(node.children):
                raise ShapeError(node.place)
            for child, item in zip(node.children, value, strict=True):
                self._encode(child, item, row)
        elif isinstance(node, Listing):
            if type(value) is not tuple or len(value) > len(node.children):
                raise ShapeError(node.place, value)
            row[node.length] = self.number(node.length, len(value))
            for slot, (child, words) in enumerate(zip(node.children, node.words, strict=True)):
                self._encode_part(child, words, slot < len(value), value[slot] if slot < len(value) else None, row)
        elif isinstance(node, Keyed):
            self._encode_pairs(node, value, row)
        else:
            row[node.choice] = self.number(node.choice, chosen(node, value))
            for kind, child in node.children.items():
                self._encode_part(child, node.words[kind], type(value) is kind, value, row)

    def _encode_pairs(self, node: Keyed, pairs: Any, row: list[int]) -> None:
        """Words of keys that are not there have number 0 in a row: they are ABSENT."""
        for key, value in pairs:
            word = self.word_of(node, key)
            row += [0] * (word + 1 - len(row))
            row[word] = self.number(word, value)

    def _encode_part(self, node: Node, words: Sequence[int], is_there: bool, value: Any, row: list[int]) -> None:
        if is_there:
            self._encode(node, value, row)
        else:
            for word in words:
                row[word] = self.number(word, ABSENT)

    def decoded(self, row: Sequence[int]) -> Any:
        """The state of a row."""
        return self._decode(self.root, row)

    def _decode(self, node: Node, row: Sequence[int]) -> Any:
        if isinstance(node, Leaf):
            return self.values[node.word][row[node.word]]
        if isinstance(node, Choice):
            value = self.values[node.choice][row[node.choice]]
            return self._decode(node.children[value], row) if is_class_of(value, node) else value
        if isinstance(node, Keyed):
            return self._decode_pairs(node, row)
        present: Sequence[Node] = node.children
        if isinstance(node, Listing):
            length: Any = self.values[node.length][row[node.length]]
            present = present[:length]
        children = [self._decode(child, row) for child in present]
        if not isinstance(node, Branch):
            return tuple(children)
        return node.kind(**dict(zip(node.aliases, children, strict=True)))

    def _decode_pairs(self, node: Keyed, row: Sequence[int]) -> tuple[object, ...]:
        known = [(key, word) for key, word in node.words.items() if word < len(row) and row[word] != ABSENT_NUMBER]
        return tuple(sorted([(key, self.values[word][row[word]]) for key, word in known], key=in_order))


def _field_name(kind: type[Any], name: str) -> str:
    return f"{kind.__module__}.{kind.__qualname__}.{name}"


def _note_parts(value: object, met: dict[str, dict[object, None]], seen: set[int]) -> None:
    """Note what fields in parts hold, of a value and of all that is in it; `seen` has the ids of values that others
    keep, and that need not be looked at again: states have most of their values in common."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, tuple):
        for item in value:
            _note_parts(item, met, seen)
    else:
        for name, field in _inner_fields(type(value)):
            inner = getattr(value, name)
            if field:
                met.setdefault(field, {})[inner] = None
            _note_parts(inner, met, seen)


def _inner_fields(kind: type[Any]) -> Sequence[tuple[str, str]]:
    """The fields of a class that is taken apart, each with the name that it goes by if it is in parts, or none."""
    found = _INNER_FIELDS.get(kind)
    if found is None:
        found = _INNER_FIELDS[kind] = [
            (field.name, _field_name(kind, field.name) if field.metadata.get("in parts") else "")
            for field in (attrs.fields(kind) if _is_taken_apart(kind) else ())
        ]
    return found


_INNER_FIELDS: Final[dict[type, Sequence[tuple[str, str]]]] = {}


def chosen(node: Choice, value: object) -> object:
    """What the word of the choice says where this value is. Raises ShapeError for a class that was not met."""
    kind = type(value)
    if kind in node.children:
        return kind
    if kind is tuple or _is_taken_apart(kind):
        raise ShapeError(node.place, value)
    return value


def is_class_of(value: object, node: Choice) -> TypeGuard[type]:
    """Whether what the word of the choice says is a class, so that words of its own have the value."""
    return isinstance(value, type) and value in node.children


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

"""Views of a state that note what is read of it.

An action, a guard, an invariant is plain code over a state. Given a view in place of the state it runs as it is, and
the *run* learns which words it has read, in their order. What it did depends on those alone, so it need not run again
in a state that has the same values there.

A view is an instance of a subclass of the state's class, so that its methods and properties work on it. `evolve` of a
view is a view with changes. Views that are compared, hashed or ordered are read as far as that takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import eq, getitem
from typing import Any, Final, Protocol, TypeAlias

import attrs

from tidegauge.spec.kernel.evolving import evolved_by
from tidegauge.spec.kernel.fast.keyed_views import KeyedView
from tidegauge.spec.kernel.fast.layout import ABSENT, Layout, ShapeError, chosen, is_class_of
from tidegauge.spec.kernel.fast.moving import Gone, Moved, is_unread
from tidegauge.spec.kernel.fast.nodes import NO_WORD, Branch, Choice, Keyed, Leaf, Listing, Node, Row
from tidegauge.spec.kernel.fast.questions import RAISES, WHOLE, Changes, Itself, contains, sliced

__all__ = ["After", "Changed", "Run", "changes", "view"]

_NOT_READ: Final = object()
_new = object.__new__


class Run:
    """One run over a state: which words it has read."""

    __slots__ = ("_copies", "_layout", "before", "is_read", "questions", "row", "touches", "values", "views", "words")

    before: Run | None
    """The run over the state before the step, if it is one over the state after that."""
    touches: Callable[[Node], bool] | None
    """In that case, whether the step changes a word of a node."""

    def __init__(self, layout: Layout, row: list[int]) -> None:
        self.before = self.touches = None
        row = row if len(row) == layout.words else layout.completed(row)
        self.values, self.row, self.questions, self._copies = layout.values, row, layout.questions, layout.copies
        self._layout = layout
        self.is_read = bytearray(len(row))
        self.words: list[int] = []
        """Those that were read, in the order in which they were read first."""
        self.views: dict[Node, Any] = {}
        """Of each place there is one, so that what is the same is the same."""

    def read(self, word: int) -> Any:
        if not self.is_read[word]:
            self.is_read[word] = 1
            self.words.append(word)
        return self.values[word][self.row[word]]

    def read_values(self) -> list[int]:
        """The numbers of the values of all words that were read."""
        row, value = self.row, self.questions.value
        return [row[word] if word < len(row) else value(row, word) for word in self.words]

    def word_of(self, node: Keyed, key: object) -> int:
        """The word of a key, which may be the first to be met."""
        word = node.words.get(key)
        if word is None:
            word = self._layout.word_of(node, plain(key))
        if word >= len(self.row):
            self._have_more_words()
        return word

    def _have_more_words(self) -> None:
        if self.before is not None:
            self.before._have_more_words()
        if len(self.row) < self._layout.words:
            self.row += self._layout.completed(self.row)[len(self.row) :]
        self.is_read.extend(bytes(len(self.row) - len(self.is_read)))

    def value_of(self, node: Keyed, key: object) -> Any:
        """The value of a key, ABSENT where there is none."""
        return self.read(self.word_of(node, key))

    def copied(self, node: Node, source: Node) -> Moved | None:
        """The words of `node`, each with that of `source` whose value it will have; None if more has to be known."""
        return self._copies.of(node, source, self.is_read)

    def below(self, node: Node) -> Gone:
        """The words of a node."""
        return self._copies.below(node)

    def finding(self, word: int, ask: Callable[..., Any], arguments: tuple[object, ...]) -> Any:
        """What the question gives of a word that has not been read; all that is read of it."""
        finding = self.questions.word(word, ask, arguments, self.values[word])
        if finding not in self.words:
            self.words.append(finding)
        return self.questions.finding(self.row, finding, self.values)


class Changed:
    """What a step changes, as its leaf says."""

    def __init__(self, items: Mapping[int, int], touched: int, bits: Mapping[Node, int]) -> None:
        self.items = items
        """Words, each with the number of its value or, below zero, its origin
        (`tidegauge.spec.kernel.fast.origins`)."""
        self.item_of: ItemOf = items.get
        self.touched, self.bits = touched, bits
        """The nodes that have words which change: a number with their bits, and which bit is whose."""

    def touches(self, node: Node) -> bool:
        """Whether a word of the node changes."""
        return bool(self.touched >> self.bits[node] & 1)

    def keys_of(self, node: Keyed) -> Sequence[object]:
        """The keys whose words change."""
        return tuple([key for key, word in node.words.items() if word in self.items])


ItemOf: TypeAlias = Callable[[int], int | None]
"""What a step makes of a word, as `Changed` has it; None for one that it leaves as it is."""


class Sources(Protocol):
    """What origins stand for."""

    def source_of(self, item: int) -> tuple[int, Changes]:
        """The word that a value comes from, and what is done to it."""

    def come_to(self, item: int, row: Sequence[int]) -> int:
        """The number that an origin leads to in a row."""


class _Noted(list[int]):
    """The words that are read of a state after a step: what is the state's before is read there."""

    def __init__(self, before: Run, row: list[int], item_of: ItemOf, sources: Sources) -> None:
        super().__init__()
        self._before, self._row, self._item_of, self._sources = before, row, item_of, sources

    def append(self, word: int) -> None:
        item = self._item_of(word)
        if item is None:
            self._before.read(word)
        elif item >= 0:
            self._row[word] = item
        else:
            self._before.read(self._sources.source_of(item)[0])
            self._row[word] = self._sources.come_to(item, self._before.row)


class After(Run):
    """A run over the state after a step that is known: what is read of it is read of the state before.

    What the step sets is not read, for it is the same wherever the step changes the same.
    """

    __slots__ = ("item_of", "keys_of", "sources")

    def __init__(self, before: Run, changed: Changed, sources: Sources) -> None:
        self.values, self.questions, self._copies = before.values, before.questions, before._copies
        self.before, self.touches, self._layout = before, changed.touches, before._layout
        self.item_of, self.keys_of, self.sources = changed.item_of, changed.keys_of, sources
        before._have_more_words()
        self.row = row = [*before.row]
        self.is_read = bytearray(len(row))
        self.words = _Noted(before, row, self.item_of, sources)
        self.views = {}

    item_of: ItemOf
    keys_of: Callable[[Keyed], Sequence[object]]

    def piecemeal(self, node: Leaf) -> Any:
        """A word of which one thing is asked at a time, and that the step changes."""
        item = self.item_of(node.word)
        if item is None or item >= 0:
            return self.read(node.word)
        assert self.before is not None
        return Piecemeal(self.before, node.word, self.sources.source_of(item)[1])


class Piecemeal:
    """A word of which one thing is asked at a time, with changes one by one. It is read when more is asked."""

    __slots__ = ("_all", "changes", "run", "word")

    def __init__(self, run: Run, word: int, changes: Changes = ()) -> None:
        self.run, self.word, self.changes = run, word, changes
        """`changes`: functions, each with what it is given."""
        self._all: tuple[Any, ...] | None = None

    def changed(self, change: Any, by: object) -> Piecemeal:
        return Piecemeal(self.run, self.word, (*self.changes, (change, plain(by))))

    def asked(self, ask: Callable[..., Any], arguments: tuple[object, ...]) -> Any:
        if not self.run.is_read[self.word]:
            itself = Itself(self.changes) if self.changes else WHOLE
            finding = self.run.finding(self.word, ask, (itself, *map(self._argument, arguments)))
            if finding is not RAISES:
                return finding
        return ask(self.all(), *arguments)

    def _argument(self, value: object) -> object:
        if type(value) is Piecemeal and value.word == self.word and value.run is self.run:
            return Itself(value.changes) if value.changes else WHOLE
        return plain(value)

    def all(self) -> tuple[Any, ...]:
        if self._all is None:
            self._all = Itself(self.changes).after(self.run.read(self.word))
        return self._all

    def __contains__(self, value: object) -> bool:
        return bool(self.asked(contains, (value,)))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.all())

    def __bool__(self) -> bool:
        return bool(self.asked(bool, ()))

    def __len__(self) -> int:
        return int(self.asked(len, ()))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.asked(sliced, (index.start, index.stop, index.step))
        return self.asked(getitem, (index,))

    def __add__(self, other: Iterable[Any]) -> tuple[Any, ...]:
        return (*self.all(), *other)

    def __radd__(self, other: Iterable[Any]) -> tuple[Any, ...]:
        return (*other, *self.all())

    def __eq__(self, other: object) -> bool:
        if type(other) is not Piecemeal:
            return self.all() == other
        if other.word != self.word or other.run is not self.run:
            return self.all() == other.all()
        return self.changes == other.changes or bool(self.asked(eq, (other,)))

    def __hash__(self) -> int:
        return hash(self.all())

    def __repr__(self) -> str:
        return repr(self.all())


def view(run: Run, node: Any) -> Any:
    """What is at a node of the layout, read when it is looked at."""
    made = run.views.get(node)
    if made is None:
        if run.before is not None and not run.touches(node):  # type: ignore[misc]  # it has both or neither
            return view(run.before, node)
        kind = type(node)
        if kind is Branch:
            made = _new(_VIEWS_OF.get(node.kind) or _view_of(node.kind))
            made._run = run
            made._node = node
            made._fields = [_NOT_READ] * len(node.children)
            made._changed = 0
        elif kind is Row:
            made = tuple([view(run, child) for child in node.children])
        else:
            made = _view_of_other(run, node)
            if kind is Leaf and type(made) is not Piecemeal:
                return made
        run.views[node] = made
    return made


def _view_of_other(run: Run, node: Node) -> Any:
    """Of a word, of a tuple whose length may change, of a value of one of several classes."""
    if isinstance(node, Leaf):
        if not node.piecemeal:
            return run.read(node.word)
        return run.piecemeal(node) if isinstance(run, After) else Piecemeal(run, node.word)
    if isinstance(node, Listing):
        return tuple([view(run, child) for child in node.children[: run.read(node.length)]])
    if isinstance(node, Keyed):
        return KeyedView(run, node, {})
    assert isinstance(node, Choice)
    value = run.read(node.choice)
    return view(run, node.children[value]) if is_class_of(value, node) else value


def changes(run: Run, node: Any, value: Any, found: list[tuple[int, object]]) -> None:
    """Append to `found` the words that a state differs in from the one that the run views, with their values.

    There may be views in the values, and words whose values are `Copied` from others (`moving`). What moves as a whole
    is `Moved`, what is there no more `Gone`, with NO_WORD. Raises ShapeError for a state that the layout has no place
    for.
    """
    kind = type(node)
    if kind is Leaf:
        if type(value) is Piecemeal:
            if value.run is not run or value.word != node.word:
                value = value.all()
            elif not value.changes:
                return
        found.append((node.word, value))
    elif kind is Branch:
        _changes_of_branch(run, node, value, found)
    elif kind is Row:
        if type(value) is not tuple or len(value) != len(node.children):
            raise ShapeError(node.place)
        if value is not run.views.get(node):
            for child, item in zip(node.children, value, strict=True):
                changes(run, child, item, found)
    elif kind is Listing:
        _changes_of_listing(run, node, value, found)
    elif kind is Keyed:
        if type(value) is not KeyedView or value.node is not node or value.run is not run:
            raise ShapeError(node.place)
        found += [(run.word_of(node, key), plain(inner)) for key, inner in value.changes.items()]
    else:
        _changes_of_choice(run, node, value, found)


def _changes_of_branch(run: Run, node: Branch, value: Any, found: list[tuple[int, object]]) -> None:
    kind = _VIEWS.get(type(value))
    if kind is None:
        kind = type(value)
    elif value._run is run:
        if value._node is node:
            changed = value._changed
            while changed:
                index = (changed & -changed).bit_length() - 1
                changes(run, node.children[index], value._fields[index], found)
                changed &= changed - 1
            return
        if kind is node.kind:
            _changes_of_copy(run, node, value, found)
            return
    if kind is not node.kind:
        raise ShapeError(node.place, plain(value))
    for name, child in zip(node.names, node.children, strict=True):
        changes(run, child, getattr(value, name), found)


def _changes_of_copy(run: Run, node: Branch, value: Any, found: list[tuple[int, object]]) -> None:
    """What was at another place before: what has not been read of it need not be."""
    places = zip(node.names, node.children, value._node.children, value._fields, strict=True)
    for name, child, source, known in places:
        moved = run.copied(child, source) if known is _NOT_READ else None
        if moved is None:
            changes(run, child, getattr(value, name), found)
        elif is_unread(moved.spans, run.is_read):
            found.append((NO_WORD, moved))
        else:
            found += [(word, run.read(by.word) if run.is_read[by.word] else by) for word, by in moved.words]


def _changes_of_listing(run: Run, node: Listing, value: Any, found: list[tuple[int, object]]) -> None:
    if type(value) is not tuple or len(value) > len(node.children):
        raise ShapeError(node.place, plain(value))
    if value is run.views.get(node):
        return
    length, is_known = len(value), run.is_read[node.length]
    before: int = run.read(node.length) if is_known else len(node.children)
    if not is_known or length != before:
        found.append((node.length, length))
    for child, item in zip(node.children, value, strict=False):
        changes(run, child, item, found)
    for child in node.children[length:before]:
        _absent(run, child, found)


def _changes_of_choice(run: Run, node: Choice, value: Any, found: list[tuple[int, object]]) -> None:
    kind = type(value)
    is_own = kind in _VIEWS and value._run is run and value._node is node.children.get(_VIEWS[kind])
    kind = _VIEWS.get(kind, kind)
    if not is_own:
        says = kind if kind in node.children else chosen(node, plain(value))
        is_known = run.is_read[node.choice]
        before = run.read(node.choice) if is_known else None
        if not is_known or says is not before:
            found.append((node.choice, says))
        for other, child in node.children.items():
            if other is not says and (not is_known or other is before):
                _absent(run, child, found)
    if kind in node.children:
        changes(run, node.children[kind], value, found)


def _absent(run: Run, node: Node, found: list[tuple[int, object]]) -> None:
    """What was there is there no more. Of what is known to be shorter, or of another class, there was less."""
    below = run.below(node)
    if is_unread(below.spans, run.is_read) or not any(run.is_read[shape] for shape in below.shapes):
        found.append((NO_WORD, below))
        return
    children: Sequence[Node] = ()
    if isinstance(node, Listing):
        found.append((node.length, ABSENT))
        children = node.children[: run.read(node.length)] if run.is_read[node.length] else node.children
    elif isinstance(node, Choice):
        found.append((node.choice, ABSENT))
        kind = run.read(node.choice) if run.is_read[node.choice] else None
        children = [child for other, child in node.children.items() if kind is None or other is kind]
    elif isinstance(node, Branch | Row):
        children = node.children
    for child in children:
        _absent(run, child, found)


def plain(value: Any) -> Any:
    """The value without views in it."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind in _VIEWS:
        return value._plain()
    if kind is Piecemeal:
        return plain(value.all())
    if kind is KeyedView:
        value.whole()
    if kind is tuple or kind is frozenset:
        return kind([plain(item) for item in value]) if _has_views(value) else value
    if _names_in(kind) and _has_views(value):
        return kind(**{field.alias: plain(getattr(value, field.name)) for field in attrs.fields(kind)})
    return value


def _has_views(value: Any) -> bool:
    kind = type(value)
    if kind in _VIEWS or kind is Piecemeal or kind is KeyedView:
        return True
    parts = value if kind is tuple or kind is frozenset else [getattr(value, name) for name in _names_in(kind)]
    for part in parts:  # noqa: SIM110 - a generator for each part of each value takes three times as long
        if type(part) not in _SCALARS and _has_views(part):
            return True
    return False


def _names_in(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a class of attrs; none of any other."""
    found = _NAMES.get(kind)
    if found is None:
        found = _NAMES[kind] = tuple(field.name for field in attrs.fields(kind)) if attrs.has(kind) else ()
    return found


_NAMES: Final[dict[type, tuple[str, ...]]] = {}


_SCALARS: Final = frozenset((int, bool, str, type(None), float, bytes))
_VIEWS: Final[dict[type, type]] = {}
"""The class that each class of views is of."""


def _made(kind: type[Any], run: Run, node: Branch, fields: list[Any], changed: int) -> Any:
    made = _new(kind)
    made._run = run
    made._node = node
    made._fields = fields
    made._changed = changed
    return made


def _view_of(kind: type[Any]) -> type[Any]:
    """The class of the views of a class."""
    found = _VIEWS_OF.get(kind)
    if found is None:
        found = _VIEWS_OF[kind] = _made_view_of(kind)
    return found


_VIEWS_OF: Final[dict[type, type[Any]]] = {}


def _made_view_of(kind: type[Any]) -> type[Any]:
    fields = attrs.fields(kind)

    def plain_of(self: Any) -> Any:
        return kind(**{field.alias: plain(getattr(self, field.name)) for field in fields})

    def is_equal(self: Any, other: Any) -> Any:
        if self is other:
            return True
        other_kind = type(other)
        if _VIEWS.get(other_kind, other_kind) is not kind:
            return NotImplemented
        same, touches = _in_common(self, other) if other_kind in _VIEWS else (False, None)
        for index, field in enumerate(fields):
            if (
                same
                and not (self._changed | other._changed) >> index & 1
                and (touches is None or not touches(self._node.children[index]))
            ):
                continue
            if getattr(self, field.name) != getattr(other, field.name):
                return False
        return True

    def differs(self: Any, other: Any) -> Any:
        equal = is_equal(self, other)
        return equal if equal is NotImplemented else not equal

    def ordered(name: str) -> Callable[[Any, Any], Any]:
        return lambda self, other: getattr(plain_of(self), name)(plain(other))

    body: dict[str, Any] = {
        "__slots__": ("_changed", "_fields", "_node", "_run"),
        "__new__": lambda _, *args, **fields: kind(*args, **fields),  # who calls the class of a view means its own
        "__setattr__": object.__setattr__,  # a frozen class sets its fields in a way that takes long
        "__eq__": is_equal,
        "__ne__": differs,
        "__hash__": lambda self: hash(plain_of(self)),
        "__repr__": lambda self: repr(plain_of(self)),
        "_plain": plain_of,
        **{field.name: property(_reader(index)) for index, field in enumerate(fields)},
    }
    if "__lt__" in vars(kind):
        body |= {name: ordered(name) for name in ("__lt__", "__le__", "__gt__", "__ge__")}
    found = type(kind.__name__, (kind,), body)
    _VIEWS[found] = kind
    places = {field.alias: index for index, field in enumerate(fields)}

    def evolved(instance: Any, given: dict[str, Any]) -> Any:
        own, changed = [*instance._fields], instance._changed
        for alias, value in given.items():
            index = places[alias]
            own[index] = value
            changed |= 1 << index
        return _made(found, instance._run, instance._node, own, changed)

    evolved_by(found, evolved)
    return found


def _in_common(one: Any, other: Any) -> tuple[bool, Callable[[Node], bool] | None]:
    """Whether two views are of one place, of one state or of those before and after a step; in that case, whether the
    step changes a node."""
    if one._node is not other._node:
        return False, None
    own, others = one._run, other._run
    if own is others:
        return True, None
    if own.before is others:
        return True, own.touches
    return others.before is own, others.touches


def _reader(index: int) -> Callable[[Any], Any]:
    def read(self: Any) -> Any:
        value = self._fields[index]
        if value is _NOT_READ:
            run, node = self._run, self._node
            word = node.whole[index]
            if word == NO_WORD:
                value = view(run, node.children[index])
            else:
                if not run.is_read[word]:
                    run.is_read[word] = 1
                    run.words.append(word)
                value = run.values[word][run.row[word]]
            self._fields[index] = value
        return value

    return read

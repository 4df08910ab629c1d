"""States as short rows of numbers: for each field the number under which this process first met its value.

Most fields of a state are those of the state before it, and few values are new: a search of 10,000 states of a
partition on three brokers meets 3,000. So a row is made, compared and sent in a fraction of the time that the state
takes, and a value is sent to another process once (`Peer`). Rows are bytes, which keep their hash: each is looked up
seven times. Numbers differ between processes. What is the same in all
of them is the hash of a value, as they are forks of one process: whatever PYTHONHASHSEED was there, it is theirs.

What is pickled for a peer is remembered as long as the search lasts: values that have a part in common, as most have,
send it once, and have it in common there. Equal parts that are one object are compared and hashed much faster.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from io import BytesIO
from operator import attrgetter
from struct import Struct
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar

import attrs

from tidegauge.spec.kernel.evolving import making

__all__ = ["Columns", "Definitions", "Key", "Peer", "Values"]

S = TypeVar("S")
Key: TypeAlias = bytes
"""By field the number of its value, in four bytes."""
Columns: TypeAlias = "Sequence[array[int]]"
"""Keys, by field: the numbers of all of them."""
Definitions: TypeAlias = tuple[list[tuple[int, int]], bytes]
"""Columns and numbers, and the values that they stand for, pickled one after the other."""


class _Column(dict[object, int]):
    """The values of one field, numbered in the order in which they are met."""

    def __init__(self) -> None:
        super().__init__()
        self.values_met: list[Any] = []
        self.hashes: list[int] = []

    def __missing__(self, value: object) -> int:
        hash_ = hash(value)
        number = self[value] = len(self.values_met)
        self.values_met.append(value)
        self.hashes.append(hash_)
        return number


class Values(Generic[S]):
    """The values that a process has met, by field. `sample` is a state of the class that all states have.

    States that are not what their fields are have one column, for themselves.
    """

    def __init__(self, sample: S | None) -> None:
        kind: type[Any] = type(sample)
        self.columns = [_Column() for _ in (attrs.fields(kind) if _is_its_fields(kind) else range(1))]
        self.key: Callable[[S], Key]
        """Of a state. Raises TypeError for one of another class."""
        self.key_after: Callable[[S, array[int], S], Key]
        """Of a state that shares most of its fields with one that has these numbers, which comes first. Raises
        TypeError."""
        self.state: Callable[[Key], S]
        """What a key stands for."""
        self.key, self.key_after, self.state = _compiled(kind, self.columns)

    def numbers(self, key: Key) -> array[int]:
        """What the key is made of."""
        return array(_NUMBER, key)

    def by_field(self, keys: Iterable[Key]) -> list[array[int]]:
        """What these keys are made of, by field."""
        numbers, width = array(_NUMBER, b"".join(keys)), len(self.columns)
        return [numbers[place::width] for place in range(width)]

    def keys(self, columns: Columns) -> list[Key]:
        """The keys that are made of these."""
        width = len(self.columns)
        numbers = array(_NUMBER, [0]) * (len(columns[0]) * width)
        for place, column in enumerate(columns):
            numbers[place::width] = column
        rows, size = numbers.tobytes(), numbers.itemsize * width
        return [rows[begin : begin + size] for begin in range(0, len(rows), size)]

    def hashes(self, keys: Iterable[Key]) -> list[tuple[int, ...]]:
        """What names each state in all processes: the hashes of its fields."""
        columns = zip(self.columns, self.by_field(keys), strict=True)
        return [*zip(*[map(column.hashes.__getitem__, numbers) for column, numbers in columns], strict=True)]


class Peer(Generic[S]):
    """Another process: which values were sent to it, and what its numbers mean."""

    def __init__(self, values: Values[S]) -> None:
        self.values = values
        self._sent: list[set[int]] = [set() for _ in values.columns]
        self._meanings: list[dict[int, int]] = [{} for _ in values.columns]
        """By column and its number: ours."""
        self._outgoing, self._incoming = BytesIO(), BytesIO()
        self._pickler, self._unpickler = _Pickler(self._outgoing, _PROTOCOL), pickle.Unpickler(self._incoming)

    def definitions(self, columns: Columns) -> Definitions:
        """What it has to know to read these keys, and was not sent before. Raises TypeError for what cannot be sent."""
        needed: list[tuple[int, int]] = []
        for place, (numbers, sent) in enumerate(zip(columns, self._sent, strict=True)):
            new = sorted(set(numbers) - sent)
            sent.update(new)
            needed += [(place, number) for number in new]
        try:
            for place, number in needed:
                self._pickler.dump(self.values.columns[place].values_met[number])
        except Exception as error:
            raise TypeError(f"states cannot be sent from worker to worker: {error}") from error
        return needed, _taken(self._outgoing)

    def learn(self, definitions: Definitions) -> None:
        """Take in what its numbers mean."""
        needed, packed = definitions
        self._incoming.write(packed)
        self._incoming.seek(0)
        for place, number in needed:
            self._meanings[place][number] = self.values.columns[place][self._unpickler.load()]
        _taken(self._incoming)

    def read(self, columns: Columns) -> list[Key]:
        """Keys of its, in our numbers."""
        pairs = zip(self._meanings, columns, strict=True)
        return self.values.keys([array(_NUMBER, map(meanings.__getitem__, own)) for meanings, own in pairs])


_NUMBER = "I"
_PROTOCOL = pickle.HIGHEST_PROTOCOL


class _Pickler(pickle.Pickler):
    """Pickles an instance of attrs as a call of its class, which takes half the time of setting its fields."""

    def reducer_override(self, value: Any) -> Any:
        kind: Any = type(value)
        get = _arguments_of(kind)
        return NotImplemented if get is None else (kind, get(value))


@cache
def _arguments_of(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]] | None:
    """Gives what an instance is made of again, in order; None for a class that may make something else of it."""
    if not _is_its_fields(kind) or any(field.kw_only or field.validator for field in attrs.fields(kind)):
        return None
    return _getter([field.name for field in attrs.fields(kind)])


def _taken(file: BytesIO) -> bytes:
    """All that was written, which is there no more."""
    packed = file.getvalue()
    file.seek(0)
    file.truncate()
    return packed


def _compiled(kind: type[Any], columns: Sequence[_Column]) -> tuple[Callable[..., Any], ...]:
    """`Values.key`, `key_after` and `state` for a class, without a loop over its fields: so they take a fifth."""
    is_its_fields = _is_its_fields(kind)
    fields = attrs.fields(kind) if is_its_fields else ()
    of = [f".{field.name}" for field in fields] or [""]
    numbers = ", ".join(f"n{place}" for place in range(len(of)))
    values = [f"values{place}[n{place}]" for place in range(len(of))]
    if is_its_fields:
        making_lines, names = making(kind, dict(zip([field.alias for field in fields], values, strict=True)))
    else:
        making_lines, names = [f"made = {values[0]}"], {"kind": kind}
    changes = [
        f"if (value := after{name}) is not before{name}: made[{place}] = column{place}[value]"
        for place, name in enumerate(of)
    ]
    known = ", ".join(f"column{place}[state{name}]" for place, name in enumerate(of))
    functions = {
        "key(state)": ["if type(state) is not kind: refuse(kind, state)", f"return pack({known})"],
        "key_after(before, numbers, after)": [
            "if type(after) is not kind: refuse(kind, after)",
            "made = numbers[:]",
            *changes,
            "return made.tobytes()",
        ],
        "state(key)": [f"{numbers}, = unpack(key)", *making_lines, "return made"],
    }
    for place, column in enumerate(columns):
        names |= {f"column{place}": column, f"values{place}": column.values_met}
    row = Struct(f"{len(of)}{_NUMBER}")
    names |= {"refuse": _refuse, "pack": row.pack, "unpack": row.unpack}
    exec("\n".join("\n    ".join([f"def {head}:", *lines]) for head, lines in functions.items()), names)
    return names["key"], names["key_after"], names["state"]


def _refuse(kind: type[Any], state: object) -> NoReturn:
    raise TypeError(f"states are of two classes, {kind.__name__} and {type(state).__name__}: explore without workers")


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) == 1:
        only = attrgetter(*names)
        return lambda state: (only(state),)
    return attrgetter(*names)


def _is_its_fields(kind: type[Any]) -> bool:
    """Whether states of the class are equal if their fields are, and can be made of them again."""
    return (
        attrs.has(kind)
        and bool(fields := attrs.fields(kind))
        and not hasattr(kind, "__attrs_post_init__")
        and kind.__eq__ is not object.__eq__
        and all(field.init and field.eq and field.eq_key is None and field.converter is None for field in fields)
    )

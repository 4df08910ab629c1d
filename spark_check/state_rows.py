"""States as bytes, the same in all processes, and what tasks of Spark do with rows of them.

A state is a line of JSON for each of its fields, as the codec of the specifications writes it. It is known by a digest
of 128 bits of that, or with symmetry by the least digest of its orbit: of 10^9 states two have the same digest with a
probability of 10^-21.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import attrs
import pyarrow as pa

from tidegauge.linearizability.json_objects import each_name_once
from tidegauge.spec.kernel.codec import Codec, encode
from tidegauge.spec.kernel.constants import with_constants
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.naming import hints_of
from tidegauge.spec.kernel.parts import parts_of
from tidegauge.spec.kernel.symmetry import Orbits
from tidegauge.spec.registry import REGISTRY

__all__ = ["JUDGED", "PLACES", "STEPS", "Explored", "Explorer", "MakeMachine", "expand", "judge", "named_machine"]

S = TypeVar("S")
MakeMachine = Callable[[], Machine[Any]]
"""Makes the machine, in whatever process."""

PLACES = 1 << 20
"""Steps of one state, at most: a step is the number of its state times this, and its place there."""
_KNOWN = 1 << 18
"""Values of a field that a process remembers."""
_TOGETHER = 1 << 16
"""States that a task holds before it passes them on."""

STEPS = "key binary, step long, action short, size int, state binary, told string"
"""A state that a step leads to, or, with `told`, what a task has counted."""
JUDGED = "key binary, step long, action short, size int, state binary, number long, violated long, goals long"
"""A state of a level. `violated` has a bit for each invariant that is false, `goals` for each goal that is reached."""
_STEPS = pa.schema(
    [
        ("key", pa.binary()),
        ("step", pa.int64()),
        ("action", pa.int16()),
        ("size", pa.int32()),
        ("state", pa.binary()),
        ("told", pa.string()),
    ]
)
_NUMBERED = (*list(_STEPS)[:5], pa.field("number", pa.int64()))
_JUDGED = pa.schema([*_NUMBERED, ("violated", pa.int64()), ("goals", pa.int64())])


class _Field:
    """The values of one field as bytes, and back: most are met again and again."""

    def __init__(self, codec: Codec[Any], hint: object, *, is_parts: bool) -> None:
        self._codec, self._hint, self._is_parts = codec, hint, is_parts
        self._packed: dict[object, bytes] = {}
        self._values: dict[bytes, Any] = {}

    def packed(self, value: object) -> bytes:
        found = self._packed.get(value)
        if found is None:
            if len(self._packed) >= _KNOWN:
                self._packed.clear()
            text = json.dumps(encode(value, self._hint), separators=(",", ":"))
            found = self._packed[value] = text.encode()
        return found

    def value(self, packed: bytes) -> Any:
        found = self._values.get(packed)
        if found is None:
            if len(self._values) >= _KNOWN:
                self._values.clear()
            found = self._codec.read(json.loads(packed, object_pairs_hook=each_name_once), self._hint)
            found = self._values[packed] = parts_of(*found) if self._is_parts else found
        return found


class Explorer(Generic[S]):
    """A machine, with its states as bytes."""

    def __init__(self, machine: Machine[S], *, symmetry: bool) -> None:
        self.machine = machine
        codec = Codec(machine)
        kind: Any = type(next(iter(machine.initial())))
        self._kind, self._names = kind, [field.name for field in attrs.fields(kind)]
        self._aliases = [field.alias for field in attrs.fields(kind)]
        hints = hints_of(kind)
        self._fields = [_Field(codec, hints[name], is_parts=name == "parts") for name in self._names]
        self._renamings = Orbits(machine).renamings if symmetry else ()
        self.kinds = {kind: place for place, kind in enumerate(machine.action_types)}

    def packed(self, state: S) -> bytes:
        pairs = zip(self._fields, self._names, strict=True)
        return b"\n".join([field.packed(getattr(state, name)) for field, name in pairs])

    def state(self, packed: bytes) -> S:
        values = [field.value(part) for field, part in zip(self._fields, packed.split(b"\n"), strict=True)]
        state: S = self._kind(**dict(zip(self._aliases, values, strict=True)))
        return state

    def known_as(self, state: S, packed: bytes) -> tuple[bytes, int]:
        """The key of a state, and how many states have it."""
        if not self._renamings:
            return _digest(packed), 1
        permute = self.machine.permute
        orbit = {packed, *[self.packed(permute(state, renaming)) for renaming in self._renamings]}
        return min(map(_digest, orbit)), len(orbit)

    def kind_of(self, action: Any) -> int:
        """The place of an action's class. Raises TypeError for one that the machine does not declare."""
        place = self.kinds.get(type(action))
        if place is None:
            raise TypeError(f"{type(action).__name__} is not among {self.machine.name}.action_types: add it there")
        return place


@attrs.define
class _Told:
    """What a task has counted of the states that it expanded."""

    enabled: Counter[int] = attrs.field(factory=Counter)
    taken: Counter[int] = attrs.field(factory=Counter)
    out_degrees: Counter[int] = attrs.field(factory=Counter)
    reached: Counter[int] = attrs.field(factory=Counter)
    """Rows, under 0."""
    violated: Counter[int] = attrs.field(factory=Counter)
    first_violated: dict[int, int] = attrs.field(factory=dict)
    """By step invariant: how often it is violated, and the first step."""


def _digest(packed: bytes) -> bytes:
    return blake2b(packed, digest_size=16).digest()


def named_machine(spec: str, bug: str | None, constants: Sequence[str]) -> Machine[Any]:
    """The machine that the words of a command line name. Raises ValueError with what there is to choose from."""
    return with_constants(REGISTRY.machine(spec, bug), constants)


@attrs.frozen
class Explored:
    """What a search is of, as it goes to the tasks."""

    name: str
    """Of this machine with these constants, and of no other one in the application."""
    make: MakeMachine = attrs.field(eq=False)
    symmetry: bool = False

    def explorer(self) -> Explorer[Any]:
        """Made once in a process, which many tasks use one after the other."""
        return _explorer(self)


@lru_cache(1)
def _explorer(of: Explored) -> Explorer[Any]:
    return Explorer(of.make(), symmetry=of.symmetry)


def expand(of: Explored, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of STEPS, of rows with numbers and states: what steps lead to, by the first of them, and counts."""
    explorer, told = of.explorer(), _Told()
    reached: dict[bytes, tuple[Any, ...]] = {}
    for batch in batches:
        numbers, states = (batch.column(name).to_pylist() for name in ("number", "state"))
        for number, packed in zip(numbers, states, strict=True):
            _expand_one(explorer, number, explorer.state(packed), reached, told)
            if len(reached) >= _TOGETHER:
                told.reached[0] += len(reached)
                yield _batch(_STEPS, reached.values())
                reached.clear()
    told.reached[0] += len(reached)
    yield _batch(_STEPS, reached.values())
    counted = {name: sorted(value.items()) for name, value in attrs.asdict(told, recurse=False).items()}
    yield _batch(_STEPS, [(None, None, None, None, None, json.dumps(counted))])


def _expand_one(
    explorer: Explorer[Any], number: int, state: Any, reached: dict[bytes, tuple[Any, ...]], told: _Told
) -> None:
    machine, first = explorer.machine, number * PLACES
    step, kinds = first, set()
    invariants = [*machine.step_invariants.values()]
    for step, (action, after) in enumerate(machine.successors(state), first):
        kind = explorer.kind_of(action)
        kinds.add(kind)
        told.taken[kind] += 1
        for place, holds in enumerate(invariants):
            if not holds(state, action, after):
                told.violated[place] += 1
                told.first_violated[place] = min(step, told.first_violated.get(place, step))
        packed = explorer.packed(after)
        key, size = explorer.known_as(after, packed)
        before = reached.get(key)
        if before is None or step < before[1]:
            reached[key] = key, step, kind, size, packed, None
    if step - first >= PLACES:
        raise ValueError(f"{step - first + 1} steps lead out of one state: {PLACES} are counted at most")
    told.enabled.update(kinds)
    told.out_degrees[step - first + bool(kinds)] += 1


def judge(of: Explored, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of JUDGED, of new states."""
    explorer = of.explorer()
    invariants, goals = [*explorer.machine.invariants.values()], [*explorer.machine.sometimes.values()]
    for batch in batches:
        states = [explorer.state(packed) for packed in batch.column("state").to_pylist()]
        violated = [_bits(not holds(state) for holds in invariants) for state in states]
        reached = [_bits(holds(state) for holds in goals) for state in states]
        columns = [batch.column(name) for name in _JUDGED.names[: len(_NUMBERED)]]
        judged = [pa.array(bits, pa.int64()) for bits in (violated, reached)]
        yield pa.RecordBatch.from_arrays([*columns, *judged], schema=_JUDGED)


def _bits(truths: Iterable[bool]) -> int:
    return sum(1 << place for place, truth in enumerate(truths) if truth)


def _batch(schema: pa.Schema, rows: Iterable[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [*zip(*rows, strict=True)] or [()] * len(schema)
    pairs = zip(columns, schema.types, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, kind) for column, kind in pairs], schema=schema)

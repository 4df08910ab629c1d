"""States, actions, constants and traces as JSON, short enough to be read and edited by a person.

The annotations say what is what. An object is written as its fields, those at their defaults left out; an enum member
by its name; a tuple and a frozenset as an array, the set in a fixed order; bounds by action. A class name is written
only where the annotation leaves it open, as an object with this one name: an action is `{"SendFetch": {"broker": 1}}`.

Reading is strict: a name that is misspelt, a field that is missing, a value of another type is refused. Class names are
looked up among the classes that the machine's states and actions are made of, and among no others.

A trace is a header line (machine, constants, and what was violated), a line for the initial state, and a line for each
step with its action, the state it led to and, for the reader alone, what changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeAlias, TypeVar, Union, get_args, get_origin

import attrs

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.changes import changes, ordered, plain
from tidegauge.spec.kernel.fields import changed_fields_of
from tidegauge.spec.kernel.json_objects import each_name_once
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.naming import hints_of
from tidegauge.spec.kernel.parts import parts_of
from tidegauge.spec.kernel.traces import Step, Trace, Violation

S = TypeVar("S")

Hint: TypeAlias = object
"""An annotation: a class, or what `typing` makes of several."""

Json: TypeAlias = object
"""What `json.dumps` takes and `json.loads` gives."""

_SCALARS = (bool, int, str, type(None))


class TraceFormatError(ValueError):
    """JSON that is not a state, an action, a constant or a trace of this machine; says which part is wrong."""


# --- writing ---------------------------------------------------------------------------------------------------------


def encode(value: object, hint: Hint = Any) -> Any:
    """`value`, annotated as `hint`, as what `json.dumps` takes. Raises TypeError for a type that no state may hold."""
    hint = _resolved(hint)
    if isinstance(value, Enum):
        return value.name if hint is type(value) else {type(value).__name__: value.name}
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, Bounds):
        return dict(value)
    if isinstance(value, tuple):
        return [encode(item, inner) for item, inner in zip(value, _items(hint, len(value)), strict=True)]
    if isinstance(value, frozenset):
        inner = get_args(hint)[0] if get_origin(hint) is frozenset else Any
        items = [encode(item, inner) for item in ordered(value)]
        return items if get_origin(hint) is frozenset else {"set": items}
    if attrs.has(type(value)):
        fields = _fields(value)
        return fields if hint is type(value) else {type(value).__name__: fields}
    raise TypeError(
        f"{type(value).__name__} {value!r} can't be written to a trace: "
        "states and actions hold ints, strings, booleans, None, enums, tuples, frozensets and attrs classes"
    )


def constants(machine: Machine[S]) -> dict[str, Json]:
    """The machine's constants that are not at their defaults, by name, ready for JSON."""
    return _fields(machine)


def _fields(value: object) -> dict[str, Json]:
    kind = type(value)
    if not attrs.has(kind):
        return {}
    hints, fields = hints_of(kind), attrs.fields_dict(kind)
    return {name: encode(inner, hints[name]) for name, inner in changed_fields_of(value) if fields[name].init}


def _resolved(hint: Hint) -> Hint:
    """An annotation without what is for readers, and without the None of an optional class."""
    if get_origin(hint) is Annotated:
        return _resolved(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        others = [argument for argument in get_args(hint) if argument is not NoneType]
        return _resolved(others[0]) if len(others) == 1 else hint
    return hint


def _items(hint: Hint, count: int) -> list[Hint]:
    """The annotation of each item of a tuple."""
    arguments = get_args(hint) if get_origin(hint) is tuple else (Any, Ellipsis)
    return [arguments[0]] * count if len(arguments) == 2 and arguments[1] is Ellipsis else list(arguments)


# --- reading ---------------------------------------------------------------------------------------------------------


class Reader:
    """Reads what `encode` wrote, of the classes that these annotations speak of."""

    def __init__(self, name: str, hints: Iterable[Hint]) -> None:
        """`name` is for messages. Raises TypeError for two classes of one name."""
        self._name = name
        self._known: dict[str, type[Any]] = {}
        self._seen: set[type[object]] = set()
        for hint in hints:
            self._learn(hint)

    def read(self, data: Json, hint: Hint) -> Any:
        """The value, annotated as `hint`, that became `data`. Raises TraceFormatError, naming what is wrong."""
        wanted = _resolved(hint)
        if data is None and (hint is Any or hint is None or NoneType in get_args(hint)):
            return None
        if wanted is Any:
            return self._open(data)
        if get_origin(wanted) in (Union, UnionType):
            return self._one_of(data, wanted)
        if get_origin(wanted) is tuple:
            return self._tuple(data, wanted)
        if get_origin(wanted) is frozenset:
            return frozenset(self.read(item, get_args(wanted)[0]) for item in self._array(data))
        if wanted is Bounds:
            return self._bounds(data)
        if isinstance(wanted, type) and issubclass(wanted, Enum):
            return self._member(data, wanted)
        if isinstance(wanted, type) and attrs.has(wanted):
            return self._object(data, wanted)
        if fits(data, wanted):
            return data
        raise TraceFormatError(f"{data!r} is no {_told(wanted)}")

    def fields(self, data: Json, kind: type[Any]) -> dict[str, Any]:
        """The fields of a class by name, as its constructor takes them."""
        if not isinstance(data, dict):
            raise TraceFormatError(f"{data!r} is not an object with the fields of {kind.__name__}")
        hints = hints_of(kind)
        known = {field.name: field for field in attrs.fields(kind) if field.init}
        if unknown := [name for name in data if name not in known]:
            raise TraceFormatError(
                f"{kind.__name__} has no field {', '.join(map(str, unknown))}; it has {', '.join(known)}"
            )
        needed = [name for name, field in known.items() if field.default is attrs.NOTHING]
        if missing := [name for name in needed if name not in data]:
            raise TraceFormatError(f"{kind.__name__} lacks {', '.join(missing)}")
        found = {}
        for name, value in data.items():
            try:
                found[name] = self.read(value, hints[name])
            except TraceFormatError as error:
                raise TraceFormatError(f"{kind.__name__}.{name}: {error}") from None
        return found

    def _object(self, data: Json, kind: type[attrs.AttrsInstance]) -> object:
        """An object of this class, or of a class that extends it and is named."""
        extending = [name for name, known in self._known.items() if known is not kind and issubclass(known, kind)]
        if extending and isinstance(data, dict) and len(data) == 1 and next(iter(data)) not in hints_of(kind):
            name = next(iter(data))
            if name not in extending:
                raise TraceFormatError(f"{self._name} has no {_words(kind)} {name!r}; it has {', '.join(extending)}")
            kind, data = self._known[name], data[name]
        values = self.fields(data, kind)
        if "parts" in values:
            values["parts"] = parts_of(*values["parts"])  # as machines keep them, in whatever order they are given
        return kind(**values)

    def _open(self, data: Json) -> object:
        """A value of which the annotation says nothing."""
        if isinstance(data, _SCALARS):
            return data
        if isinstance(data, list):
            return tuple(map(self._open, data))
        if isinstance(data, dict) and len(data) == 1:
            (name, body) = next(iter(data.items()))
            if name == "set" and isinstance(body, list):
                return frozenset(map(self._open, body))
            if name in self._known:
                return self.read(body, self._known[name])
            raise TraceFormatError(f"{self._name} has no class {name!r}; it has {', '.join(sorted(self._known))}")
        raise TraceFormatError(f"{data!r} is neither a value nor an object under the name of its class")

    def _one_of(self, data: Json, hint: Hint) -> object:
        """A value of one of several types: a scalar as it is, an object under the name of its class."""
        names = [one.__name__ for one in get_args(hint) if isinstance(one, type)]
        if isinstance(data, dict) and len(data) == 1 and next(iter(data)) in names:
            return self._open(data)
        if fits(data, hint):
            return data
        raise TraceFormatError(f"{data!r} is none of {', '.join(names)}")

    def _tuple(self, data: Json, hint: Hint) -> tuple[object, ...]:
        given = self._array(data)
        items = _items(hint, len(given))
        if len(items) != len(given):
            raise TraceFormatError(f"{data!r} has {len(given)} items in place of {len(items)}")
        return tuple(self.read(item, inner) for item, inner in zip(given, items, strict=True))

    @staticmethod
    def _array(data: Json) -> list[Json]:
        if not isinstance(data, list):
            raise TraceFormatError(f"{data!r} is not an array: give […]")
        return data

    def _bounds(self, data: Json) -> Bounds:
        if not isinstance(data, dict):
            raise TraceFormatError(f"{data!r} gives no whole numbers of at least 0 by action: it is no object")
        try:
            return Bounds(data)
        except ValueError as error:
            raise TraceFormatError(f"{data!r} gives no whole numbers of at least 0 by action: {error}") from None

    def _member(self, data: Json, kind: type[Enum]) -> Enum:
        if not isinstance(data, str) or data not in kind.__members__:
            raise TraceFormatError(f"{data!r} is no member of {kind.__name__}; it has {', '.join(kind.__members__)}")
        return kind[data]

    def _learn(self, hint: Hint) -> None:
        """Note the classes that `hint`, an annotation, speaks of, and those that their fields speak of."""
        if not isinstance(hint, type) or get_args(hint):
            for argument in get_args(hint):
                self._learn(argument)
        elif attrs.has(hint) or issubclass(hint, Enum):
            known = self._known.setdefault(hint.__name__, hint)
            if known is not hint:
                raise TypeError(f"{self._name} is made of two classes called {hint.__name__}: rename one")
            if attrs.has(hint) and hint not in self._seen:
                self._seen.add(hint)
                for inner in hints_of(hint).values():
                    self._learn(inner)


class Codec(Reader, Generic[S]):
    """Reads states and actions of one machine."""

    def __init__(self, machine: Machine[S]) -> None:
        self._action_types = (*machine.action_types, *machine.refused_types)
        self._state_type = type(next(iter(machine.initial())))
        super().__init__(machine.name, (*self._action_types, *machine.part_types, self._state_type))

    def action(self, data: Json) -> Action:
        """An action of the machine."""
        value = self.read(data, Action)
        if not isinstance(value, self._action_types):
            raise TraceFormatError(f"{data!r} is not an action of {self._name}")
        return value

    def state(self, data: Json) -> S:
        """A state of the machine."""
        state: S = self.read(data, self._state_type)
        return state


def _told(hint: Hint) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)


def _words(kind: type[object]) -> str:
    """The name of a class in a sentence: ReplicationExtension is a replication extension."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).lower()


def fits(value: object, hint: Hint) -> bool:
    """Whether `value` is what the annotation `hint` promises, all the way down."""
    origin: Any = get_origin(hint) or hint
    arguments = get_args(hint)
    if hint is Any:
        return True
    if origin is Annotated:
        return fits(value, arguments[0])
    if origin in (Union, UnionType):
        return any(fits(value, argument) for argument in arguments)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(fits(item, arguments[0]) for item in value)
        return not arguments or (len(value) == len(arguments) and all(map(fits, value, arguments)))
    if origin is frozenset:
        return isinstance(value, frozenset) and all(fits(item, hint) for item in value for hint in arguments)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, NoneType if hint is None else origin)


def trace_lines(machine: Machine[S], trace: Trace[S], violation: Violation[S] | None = None) -> Iterator[str]:
    """`trace` as JSON lines, without line ends; with `violation`, the header says what is violated."""
    header: dict[str, Json] = {"machine": machine.name, "constants": constants(machine)}
    if violation is not None:
        header["violates"] = violation.invariant
        header["values"] = {name: _shown(value) for name, value in violation.values.items()}
    yield _dumps(header)
    yield _dumps({"state": encode(trace.initial, type(trace.initial))})
    for before, action, after in trace.transitions():
        changed = [str(change) for change in changes(before, after)]
        yield _dumps({"action": encode(action), "changed": changed, "state": encode(after, type(after))})


def read_trace(machine: Machine[S], lines: Iterable[str]) -> Trace[S]:
    """The trace that `trace_lines` wrote. Raises TraceFormatError, naming the line."""
    codec = Codec(machine)
    states: list[S] = []
    actions: list[Action] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            data = json.loads(line, object_pairs_hook=each_name_once)
            _read_line(codec, machine, data, states, actions)
        except (ValueError, RecursionError) as error:
            raise TraceFormatError(f"line {number}: {error}") from None
    if not states:
        raise TraceFormatError("the trace has no initial state")
    return Trace(states[0], tuple(map(Step, actions, states[1:])))


def _read_line(codec: Codec[S], machine: Machine[S], data: Json, states: list[S], actions: list[Action]) -> None:
    if not isinstance(data, dict):
        raise TraceFormatError(f"{data!r} is not an object")
    if "machine" in data:
        if data["machine"] != machine.name:
            raise TraceFormatError(f"the trace is of {data['machine']}, not of {machine.name}")
        return
    if "state" not in data or ("action" in data) != bool(states):
        raise TraceFormatError("the first state comes alone, and every later one with its action")
    if states:
        actions.append(codec.action(data["action"]))
    states.append(codec.state(data["state"]))


def _shown(value: object) -> Json:
    """A value for a reader: numbers, strings and arrays of them as they are, all else as text."""
    if isinstance(value, tuple | list):
        return [_shown(item) for item in value]
    return value if isinstance(value, _SCALARS) and not isinstance(value, Enum) else plain(value)


def _dumps(data: Json) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(", ", ": "))

"""States, actions and traces as JSON, one line each.

A value is written so that it can be read back without guessing: an attrs object carries its class name under "@", a
frozenset is {"set": [...]} in a fixed order, an enum member is {"enum": "Class.MEMBER"}, a tuple is an array. Names are
looked up among the classes that the machine's states and actions are made of, and among no others.

A trace is a header line (machine, constants, and what was violated), a line for the initial state, and a line for each
step with its action, the state it led to and, for the reader alone, what changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

from tidegauge.spec.kernel.changes import changes, ordered
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.traces import Step, Trace, Violation

S = TypeVar("S")
_SCALARS = (bool, int, str, type(None))


class TraceFormatError(ValueError):
    """A line that is not a state, an action or a trace of this machine."""


def encode(value: Any) -> Any:
    """`value` as what `json.dumps` takes. Raises TypeError for a type that a state may not hold."""
    if isinstance(value, Enum):
        return {"enum": f"{type(value).__name__}.{value.name}"}
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if isinstance(value, frozenset):
        return {"set": [encode(item) for item in ordered(value)]}
    if attrs.has(type(value)):
        fields = {field.name: encode(getattr(value, field.name)) for field in attrs.fields(type(value))}
        return {"@": type(value).__name__, **fields}
    raise TypeError(
        f"{type(value).__name__} {value!r} can't be written to a trace: "
        "states and actions hold ints, strings, booleans, None, enums, tuples, frozensets and attrs classes"
    )


class Codec:
    """Reads back what `encode` wrote, for one machine."""

    def __init__(self, machine: Machine[Any]) -> None:
        self._machine = machine
        self._hints: dict[type[Any], dict[str, Any]] = {}
        """The annotations of each class's fields, by name."""
        for kind in machine.action_types:
            self._learn(kind)
        for state in machine.initial():
            self._learn(type(state))

    def decode(self, data: Any) -> Any:
        """The value that `encode` turned into `data`. Raises TraceFormatError, naming the part that can't be read."""
        if isinstance(data, _SCALARS):
            return data
        if isinstance(data, list):
            return tuple(self.decode(item) for item in data)
        if isinstance(data, dict) and data.keys() == {"set"} and isinstance(data["set"], list):
            return frozenset(self.decode(item) for item in data["set"])
        if isinstance(data, dict) and data.keys() == {"enum"}:
            return self._member(data["enum"])
        if isinstance(data, dict) and "@" in data:
            return self._object(data)
        raise TraceFormatError(f"{data!r} is neither a value nor an object with its class name under '@'")

    def action(self, data: Any) -> Action:
        """An action of the machine."""
        value = self.decode(data)
        if not isinstance(value, self._machine.action_types):
            raise TraceFormatError(f"{value!r} is not an action of {self._machine.name}")
        return value

    def _object(self, data: Mapping[str, Any]) -> Any:
        kind = self._class(data["@"], attrs.has)
        values = {name: self.decode(value) for name, value in data.items() if name != "@"}
        hints = self._hints[kind]
        if values.keys() != hints.keys():
            raise TraceFormatError(f"{kind.__name__} has the fields {list(hints)}, but the line gives {list(values)}")
        for name, value in values.items():
            if not fits(value, hints[name]):
                raise TraceFormatError(f"{kind.__name__}.{name} can't be {value!r}")
        return kind(**values)

    def _member(self, name: Any) -> Any:
        kind, _, member = str(name).partition(".")
        found = self._class(kind, lambda known: issubclass(known, Enum))
        if member not in found.__members__:
            raise TraceFormatError(f"{name!r} names no member of {kind}; it has {', '.join(found.__members__)}")
        return found[member]

    def _class(self, name: Any, suits: Callable[[type[Any]], bool]) -> Any:
        known = [kind for kind in self._hints if suits(kind)]
        found = next((kind for kind in known if kind.__name__ == name), None)
        if found is None:
            names = ", ".join(sorted(kind.__name__ for kind in known))
            raise TraceFormatError(f"{name!r} is no class of {self._machine.name}; it has {names or 'none'}")
        return found

    def _learn(self, hint: Any) -> None:
        """Note the classes that `hint`, an annotation, speaks of, and those that their fields speak of."""
        if not isinstance(hint, type) or get_args(hint):
            for argument in get_args(hint):
                self._learn(argument)
        elif hint not in self._hints and (attrs.has(hint) or issubclass(hint, Enum)):
            if any(known.__name__ == hint.__name__ for known in self._hints):
                raise TypeError(f"{self._machine.name} is made of two classes called {hint.__name__}: rename one")
            hints: dict[str, Any] = {}
            self._hints[hint] = hints
            if attrs.has(hint):
                every = get_type_hints(hint)
                hints |= {field.name: every[field.name] for field in attrs.fields(hint)}
                for inner in hints.values():
                    self._learn(inner)


def fits(value: Any, hint: Any) -> bool:
    """Whether `value` is what the annotation `hint` promises, all the way down."""
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if hint is Any:
        return True
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


def constants(machine: Machine[Any]) -> dict[str, Any]:
    """The machine's constants by name, ready for JSON."""
    kind: type[Any] = type(machine)
    if not attrs.has(kind):
        return {}
    return {field.name: encode(getattr(machine, field.name)) for field in attrs.fields(kind) if field.init}


def trace_lines(machine: Machine[S], trace: Trace[S], violation: Violation[S] | None = None) -> Iterator[str]:
    """`trace` as JSON lines, without line ends; with `violation`, the header says what fell."""
    header: dict[str, Any] = {"machine": machine.name, "constants": constants(machine)}
    if violation is not None:
        header["violates"] = violation.invariant
        header["values"] = {name: encode(value) for name, value in violation.values.items()}
    yield _dumps(header)
    yield _dumps({"state": encode(trace.initial)})
    for before, action, after in trace.transitions():
        changed = [str(change) for change in changes(before, after)]
        yield _dumps({"action": encode(action), "changed": changed, "state": encode(after)})


def read_trace(machine: Machine[S], lines: Iterable[str]) -> Trace[S]:
    """The trace that `trace_lines` wrote. Raises TraceFormatError, naming the line."""
    codec = Codec(machine)
    states: list[Any] = []
    actions: list[Action] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            _read_line(codec, machine, json.loads(line), states, actions)
        except (TraceFormatError, json.JSONDecodeError) as error:
            raise TraceFormatError(f"line {number}: {error}") from None
    if not states:
        raise TraceFormatError("the trace has no initial state")
    return Trace(states[0], tuple(map(Step, actions, states[1:])))


def _read_line(codec: Codec, machine: Machine[Any], data: Any, states: list[Any], actions: list[Action]) -> None:
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
    states.append(codec.decode(data["state"]))


def _dumps(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(", ", ": "))

"""Counterexample files: a short list of actions on which something goes wrong, for ever replayable.

A file is JSON that a person can read and edit, one action a line:

    {
      "format": "tidegauge counterexample 2",
      "machine": {"name": "replication", "constants": {"brokers": 2, "bounds": {"Crash": 1}}},
      "bug": "kafka_18991",
      "expected": {"kind": "invariant", "name": "ConsistentRead"},
      "found": {"by": "explorer"},
      "replay": "tidegauge replay model_tests/counterexamples/kafka_18991.json",
      "actions": [
        {"Append": {"broker": 0}},
        {"SendFetch": {"broker": 1}}, …
      ]
    }

The machine is a correct one, by its name in `spec.registry`. What is at its default is left out: constants, fields of
actions, the seed of what has none. `bug` names the bug with which it goes wrong; without it the implementation itself
does. `expected` is the invariant that is violated on the specification, or the field in which the implementation
differs from it. Actions are written as in `spec.kernel.codec`.

A goal of `Machine.converges` that is not reached for good is expected by `"kind": "goal"`. Then "actions" lead to a
state in which it is false, and a further list, "cycle", leads from there back to it; [] where nothing fair can happen.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any, TypeGuard

import attrs

from tidegauge.spec.kernel.codec import Codec, encode
from tidegauge.spec.kernel.json_objects import each_name_once
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.registry import REGISTRY

FORMAT = "tidegauge counterexample 2"
FOLDER = Path(__file__).resolve().parents[2] / "counterexamples"
"""Where the saved ones live; each is a test."""

_FIELDS = {"format", "machine", "expected", "found", "replay", "actions"}
_MAY_HAVE = {"bug"}
_OF_A_GOAL = {"cycle"}
_DIGITS = 20
"""No number of 64 bits has more, its sign included."""


class CounterexampleError(ValueError):
    """A file that is not a counterexample, or not one of ours; says what is wrong with which part."""


class Failure(Enum):
    """How something goes wrong."""

    INVARIANT = "invariant"
    DIFFERENCE = "difference"
    GOAL = "goal"


@attrs.frozen
class Expected:
    """What goes wrong: the invariant that is violated, the field that differs, or the goal that is never reached."""

    kind: Failure
    name: str

    def __str__(self) -> str:
        match self.kind:
            case Failure.INVARIANT:
                return f"{self.name} is violated"
            case Failure.DIFFERENCE:
                return f"{self.name} differs"
            case Failure.GOAL:
                return f"not reached for good: {self.name}"


@attrs.frozen
class Found:
    """What found it (the explorer, a lockstep, the simulation), with its seed if it has one."""

    by: str
    seed: int | None = None


@attrs.frozen
class Counterexample:
    """A list of actions from the machine's initial state, and what goes wrong."""

    machine: Machine[Any]
    """The correct machine, without the bug."""
    bug: str | None
    actions: tuple[Action, ...]
    expected: Expected
    found: Found
    cycle: tuple[Action, ...] = ()
    """Of a goal: the actions after these, which lead round and round."""

    def buggy_machine(self) -> Machine[Any]:
        """The same model with the bug; the correct one when there is none."""
        return self.machine if self.bug is None else REGISTRY.bug(self.bug).switched_on(self.machine)


def replay_line(path: Path) -> str:
    """The command that replays the file at `path`."""
    resolved = path.resolve()
    root = FOLDER.parent.parent
    return f"tidegauge replay {resolved.relative_to(root) if resolved.is_relative_to(root) else resolved}"


def save(counterexample: Counterexample, path: Path) -> str:
    """Write the file, whole or not at all; returns the line that replays it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(dumps(counterexample, replay_line(path)), encoding="utf-8")
    partial.replace(path)
    return replay_line(path)


def dumps(counterexample: Counterexample, replay: str) -> str:
    """The text of the file."""
    expected, found = counterexample.expected, counterexample.found
    head: dict[str, object] = {
        "format": FORMAT,
        "machine": REGISTRY.described(counterexample.machine),
        "bug": counterexample.bug,
        "expected": {"kind": expected.kind.value, "name": expected.name},
        "found": {"by": found.by} if found.seed is None else {"by": found.by, "seed": found.seed},
        "replay": replay,
    }
    if counterexample.bug is None:
        del head["bug"]
    lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}," for key, value in head.items()]
    bodies = [_list("actions", counterexample.actions)]
    if expected.kind is Failure.GOAL:
        bodies.append(_list("cycle", counterexample.cycle))
    return "\n".join(["{", *lines, ",\n".join(bodies), "}"]) + "\n"


def _list(name: str, actions: Sequence[Action]) -> str:
    """A field with one action a line."""
    told = ",\n".join(f"    {json.dumps(encode(action))}" for action in actions)
    return f'  "{name}": [\n{told}\n  ]' if told else f'  "{name}": []'


def load(path: Path) -> Counterexample:
    """Read a file. Raises CounterexampleError with the path and what is wrong there."""
    try:
        text = path.read_text(encoding="utf-8")
        return _counterexample(json.loads(text, object_pairs_hook=each_name_once, parse_int=_integer))
    except OSError as error:
        raise CounterexampleError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CounterexampleError(f"{path}: is not a text file in UTF-8") from None
    except json.JSONDecodeError as error:
        raise CounterexampleError(
            f"{path}: is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except RecursionError:
        raise CounterexampleError(f"{path}: is nested too deeply: an action holds a message and no more") from None
    except ValueError as error:
        raise CounterexampleError(f"{path}: {error}") from None


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise CounterexampleError(f"has a number of {len(text)} digits, {text[:_DIGITS]}…: give one of 64 bits")
    return int(text)


def _counterexample(data: object) -> Counterexample:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise CounterexampleError(f'is not a counterexample: "format" must be {FORMAT!r}')
    expected = data.get("expected")
    of_a_goal = isinstance(expected, dict) and expected.get("kind") == Failure.GOAL.value
    fields = _FIELDS | _OF_A_GOAL if of_a_goal else _FIELDS
    missing, unknown = sorted(fields - data.keys()), sorted(data.keys() - fields - _MAY_HAVE)
    if missing or unknown:
        raise CounterexampleError(f"has the wrong fields: missing {missing}, unknown {unknown}")
    machine = REGISTRY.read(data["machine"])
    bug, known = data.get("bug"), REGISTRY.bugs_of(machine)
    if bug is not None and (not isinstance(bug, str) or bug not in known):
        name, bugs = REGISTRY.of(machine).name, ", ".join(known) or "none"
        raise CounterexampleError(f'"bug" is {bug!r}, but the bugs of {name} are: {bugs}; without "bug" it has none')
    if not isinstance(data["replay"], str):
        raise CounterexampleError(f'"replay" must be the command that replays the file, not {data["replay"]!r}')
    cycle = data.get("cycle", [])
    for name, given in (("actions", data["actions"]), ("cycle", cycle)):
        if not isinstance(given, list):
            raise CounterexampleError(f'"{name}" must be a list')
    return Counterexample(
        machine,
        bug,
        tuple(_actions(machine, data["actions"])),
        _expected(machine, data["expected"]),
        _found(data["found"]),
        tuple(_actions(machine, cycle)),
    )


def _actions(machine: Machine[Any], data: Sequence[object]) -> list[Action]:
    codec, registration = Codec(machine), REGISTRY.of(machine)
    actions: list[Action] = []
    for number, item in enumerate(data, start=1):
        try:
            action = codec.action(item)
        except (ValueError, TypeError) as error:
            raise CounterexampleError(f"action {number}: {error}") from None
        for unknown in registration.unknown_members(machine, action):
            raise CounterexampleError(f"action {number}: {action.name} {unknown}")
        actions.append(action)
    return actions


def _expected(machine: Machine[Any], data: object) -> Expected:
    kinds = [kind.value for kind in Failure]
    if not _has_fields(data, "kind", "name") or data["kind"] not in kinds or not isinstance(data["name"], str):
        told = " or ".join(map(repr, kinds))
        raise CounterexampleError(f'"expected" must give "kind" ({told}) and "name", not {data!r}')
    expected = Expected(Failure(data["kind"]), data["name"])
    known = [*machine.invariants, *machine.step_invariants]
    if expected.kind is Failure.INVARIANT and expected.name not in known:
        raise CounterexampleError(f'"expected" has no invariant {expected.name!r}: choose one of {", ".join(known)}')
    goals_known = (*machine.converges, *machine.leads_to)
    if expected.kind is Failure.GOAL and expected.name not in goals_known:
        goals = "; ".join(goals_known) or "it has none"
        raise CounterexampleError(f'"expected" has no goal {expected.name!r}: choose one of: {goals}')
    if not expected.name:
        raise CounterexampleError('"expected" has an empty "name": give the field that differs')
    return expected


def _found(data: object) -> Found:
    if not isinstance(data, dict) or not {"by"} <= data.keys() <= {"by", "seed"} or not isinstance(data["by"], str):
        raise CounterexampleError(f'"found" must give "by", and "seed" if there is one, not {data!r}')
    seed = data.get("seed")
    if seed is not None and type(seed) is not int:
        raise CounterexampleError(f'"found" has the seed {seed!r}: give a whole number, or none')
    return Found(data["by"], seed)


def _has_fields(data: object, *names: str) -> TypeGuard[dict[str, object]]:
    return isinstance(data, dict) and data.keys() == set(names)

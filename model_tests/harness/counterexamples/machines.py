"""The machines that a counterexample may be of: their names, their constants as JSON, and the bugs that each one has.

A constant is read by its annotation: a number, a yes or no, a list of either, a list of acks, or the bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, get_args, get_type_hints

import attrs

from tidegauge.spec.bugs import BUGS, Bug
from tidegauge.spec.bugs.idempotence import IDEMPOTENCE_BUGS
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.state import named_producers
from tidegauge.spec.kernel.codec import fits
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.replication.extensions.reassignment import Reassignment
from tidegauge.spec.replication.extensions.retention import Retention
from tidegauge.spec.replication.extensions.settings import Settings
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Acks, named_brokers

AnyMachine: TypeAlias = Replication | Idempotence
"""Of a partition that is replicated, in one way or another, or of its producers as well."""

_KINDS: Final = (Replication, Reassignment, ControlledShutdown, Retention, Settings, Idempotence)
MACHINES: Final[Mapping[str, type[AnyMachine]]] = {kind.__name__: kind for kind in _KINDS}
"""By name."""

ALL_BUGS: Final[Mapping[str, Bug[Any]]] = {**BUGS, **IDEMPOTENCE_BUGS}
"""Every bug of the zoo by name, that of whichever machine it is."""

_BROKERS: Final = ("initial_isr", "initial_replicas")


def bugs_of(machine: Machine[Any]) -> list[str]:
    """The names of the bugs that can be switched on in a machine."""
    return [name for name, bug in ALL_BUGS.items() if bug.fits(machine)]


def with_bug(machine: AnyMachine, bug: str) -> AnyMachine:
    """The same model with a bug of the zoo."""
    buggy: AnyMachine = ALL_BUGS[bug].switched_on(machine)  # type: ignore[assignment]
    return buggy


def machine_of(data: Any) -> AnyMachine:
    """The machine that JSON names, with its constants. Raises ValueError, saying what is wrong with which of them."""
    named = isinstance(data, dict) and data.keys() == {"name", "constants"} and isinstance(data["constants"], dict)
    if not named or not isinstance(data["name"], str) or data["name"] not in MACHINES:
        raise ValueError(f'"machine" must be one of {", ".join(MACHINES)}, with its constants, not {data!r}')
    kind = MACHINES[data["name"]]
    known = {field.name for field in attrs.fields(kind)}
    if unknown := sorted(data["constants"].keys() - known):
        raise ValueError(f"the machine has no constants {unknown}; it has {sorted(known)}")
    machine = kind(**{name: _constant(kind, name, value) for name, value in data["constants"].items()})
    try:
        list(machine.initial())
    except ValueError as error:
        raise ValueError(f"the machine's constants fit no initial state: {error}") from None
    return machine


def _constant(kind: type[AnyMachine], name: str, data: Any) -> Any:
    hint = get_type_hints(kind)[name]
    if attrs.has(hint):
        return _bounds(hint, name, data)
    if Acks in get_args(hint):
        wanted = {f"Acks.{member.name}": member for member in Acks}
        try:
            return tuple(wanted[item["enum"]] for item in data)
        except (KeyError, TypeError):
            raise ValueError(f"the constant {name} must be a list of {sorted(wanted)}, not {data!r}") from None
    value = _tuples(data)
    if not fits(value, hint) or any(number < 0 for number in _numbers(value)):
        what = "list of broker ids" if name in _BROKERS else "list of whole numbers, of at least 0"
        what = f"{hint.__name__} of at least 0" if isinstance(hint, type) and not get_args(hint) else what
        raise ValueError(f"the constant {name} must be a {what}, not {data!r}")
    return value


def _tuples(data: Any) -> Any:
    return tuple(map(_tuples, data)) if isinstance(data, list) else data


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, tuple):
        for item in value:
            yield from _numbers(item)
    else:
        yield value


def _bounds(kind: type[Any], name: str, data: Any) -> Any:
    known = {field.name for field in attrs.fields(kind)}
    values: Mapping[str, Any] = {k: v for k, v in data.items() if k != "@"} if isinstance(data, dict) else {}
    numbers = all(type(value) is int and value >= 0 for value in values.values())
    if not values or not values.keys() <= known or not numbers:
        raise ValueError(f"the constant {name} must give whole numbers of at least 0 for {sorted(known)}, not {data!r}")
    return kind(**values)


def strangers(machine: AnyMachine, action: Action) -> Iterator[str]:
    """Whom an action names that the machine does not have, and whom it has."""
    named = [("broker", machine.brokers, named_brokers(action))]
    if isinstance(machine, Idempotence):
        named.append(("producer", machine.producers, named_producers(action)))
    for what, count, found in named:
        for number in found:
            if not 0 <= number < count:
                yield f"names {what} {number}, but the machine has the {what}s 0 to {count - 1}"

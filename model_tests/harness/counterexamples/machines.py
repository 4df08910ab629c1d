"""The machine of a counterexample as JSON: its name in `spec.registry`, and its constants but for the defaults.

A constant is read by its annotation: a number, true or false, a list of either or of an enum's members, or bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, get_args, get_type_hints

import attrs

from tidegauge.spec.kernel.codec import encode, fits
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.registry import REGISTRY

_BROKERS = ("initial_isr", "initial_replicas")


def machine_data(machine: Machine[Any]) -> dict[str, Any]:
    """The machine as JSON. Raises NotRegisteredError for one that has no name."""
    return {"name": REGISTRY.of(machine).name, "constants": _without_defaults(machine)}


def _without_defaults(value: Any) -> dict[str, Any]:
    if not attrs.has(type(value)):
        return {}
    fields = (field for field in attrs.fields(type(value)) if field.init)
    given = {field.name: getattr(value, field.name) for field in fields}
    defaults = type(value)()
    changed = {name: one for name, one in given.items() if one != getattr(defaults, name)}
    return {name: _without_defaults(one) if attrs.has(type(one)) else encode(one) for name, one in changed.items()}


def machine_of(data: Any) -> Machine[Any]:
    """The machine that JSON names, with its constants. Raises ValueError, saying what is wrong with which of them."""
    if not isinstance(data, dict) or data.keys() != {"name", "constants"} or not isinstance(data["constants"], dict):
        raise ValueError(f'"machine" must give "name" and "constants", not {data!r}')
    known = [registration.name for registration in REGISTRY]
    if data["name"] not in known:
        raise ValueError(f'"machine" must be one of {", ".join(known)}, with its constants, not {data!r}')
    kind = type(REGISTRY.registration(data["name"]).machine)
    constants = {field.name for field in attrs.fields(kind) if field.init} if attrs.has(kind) else set()
    if unknown := sorted(data["constants"].keys() - constants):
        raise ValueError(f"the machine has no constants {unknown}; it has {sorted(constants)}")
    machine: Machine[Any] = kind(**{name: _constant(kind, name, value) for name, value in data["constants"].items()})
    try:
        list(machine.initial())
    except ValueError as error:
        raise ValueError(f"the machine's constants fit no initial state: {error}") from None
    return machine


def _constant(kind: type[Any], name: str, data: Any) -> Any:
    hint = get_type_hints(kind)[name]
    if attrs.has(hint):
        return _bounds(hint, name, data)
    enum = next((one for one in get_args(hint) if isinstance(one, type) and issubclass(one, Enum)), None)
    if enum is not None:
        wanted = {f"{enum.__name__}.{member.name}": member for member in enum}
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

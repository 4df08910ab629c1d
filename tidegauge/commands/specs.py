"""The specifications that can be named on the command line, with their constants as NAME=VALUE."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from tidegauge.exits import Unusable
from tidegauge.spec.kernel.machine import Machine, constants_of
from tidegauge.spec.registry import REGISTRY, NotRegisteredError


def model(spec: str, bug: str | None, constants: Iterable[str]) -> Machine[Any]:
    """The machine that the words name. Raises Unusable with what there is to choose from."""
    try:
        machine = REGISTRY.machine(spec, bug)
    except NotRegisteredError as error:
        raise Unusable(str(error)) from None
    given: set[str] = set()
    for word in constants:
        machine = with_constant(machine, word)
        name = word.partition("=")[0]
        if name in given:
            raise Unusable(f"{word}: {name} is given twice; leave one out")
        given.add(name)
    return machine


def with_constant(machine: Machine[Any], word: str) -> Machine[Any]:
    """`machine` with one constant, or one of its bounds, as `word` (NAME=VALUE) says."""
    name, equals, text = word.partition("=")
    known = settable(machine)
    if not equals or name not in known:
        raise Unusable(f"{word!r} is not a constant of {machine.name}: give NAME=VALUE with one of {', '.join(known)}")
    value = parsed(name, text, known[name])
    fields = constants_of(machine)
    bounds = fields.get("bounds")
    changes: dict[str, Any] = {name: value}
    if bounds is not None and hasattr(bounds, name):
        changes = {"bounds": type(bounds)(**(attrs.asdict(bounds) | {name: value}))}
    return type(machine)(**(fields | changes))


def parsed(name: str, text: str, like: int | bool) -> int | bool:
    if isinstance(like, bool):
        if text not in ("true", "false"):
            raise Unusable(f"{name}={text!r} is neither true nor false")
        return text == "true"
    if not text.isdecimal() or len(text) > 9:
        raise Unusable(f"{name}={text!r} is not a whole number between 0 and 999999999")
    return int(text)


def settable(machine: Machine[Any]) -> dict[str, int | bool]:
    """Every whole number and every switch among the machine's constants and bounds, with its present value."""
    values = constants_of(machine)
    if "bounds" in values:
        values |= attrs.asdict(values["bounds"])
    return {name: value for name, value in values.items() if isinstance(value, int)}

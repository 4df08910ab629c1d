"""A machine's constants as words, NAME=VALUE: whole numbers, switches, and bounds by the name of their action."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Machine, constants_of

S = TypeVar("S")


def settable(machine: Machine[S]) -> dict[str, int | bool]:
    """Every whole number and every switch among the machine's constants and bounds, with its present value."""
    values = constants_of(machine)
    found: dict[str, int | bool] = {name: value for name, value in values.items() if isinstance(value, int)}
    bounds = values.get("bounds")
    if isinstance(bounds, Bounds):
        found |= {name: bounds[name] for name in machine.perturbations}
    return found


def with_constants(machine: Machine[S], words: Iterable[str]) -> Machine[S]:
    """`machine` with the constants and bounds that the words give. Raises ValueError, with what there is to set."""
    known = settable(machine)
    given: dict[str, int | bool] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or name not in known:
            raise ValueError(
                f"{word!r} is not a constant of {machine.name}: give NAME=VALUE with one of {', '.join(known)}"
            )
        if name in given:
            raise ValueError(f"{word}: {name} is given twice; leave one out")
        given[name] = _parsed(name, text, known[name])
    constants = constants_of(machine)
    bounded = {name: int(value) for name, value in given.items() if name not in constants}
    changed = constants | {name: value for name, value in given.items() if name in constants}
    if bounded:
        changed["bounds"] = Bounds({**constants["bounds"], **bounded})
    made: Machine[S] = type(machine)(**changed)
    return made


def _parsed(name: str, text: str, like: int | bool) -> int | bool:
    if isinstance(like, bool):
        if text not in ("true", "false"):
            raise ValueError(f"{name}={text!r} is neither true nor false")
        return text == "true"
    if not text.isdecimal() or len(text) > 9:
        raise ValueError(f"{name}={text!r} is not a whole number between 0 and 999999999")
    return int(text)

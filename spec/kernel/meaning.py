"""What a property says, in words: the docstring of the function that decides it, or of the one that made that."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from tidegauge.spec.kernel.machine import Machine

F = TypeVar("F", bound=Callable[..., bool])

_MADE: Final = ".<locals>.holds"
"""How the name of a function ends that another one has made of a machine's constants."""


def says(words: str, rule: F) -> F:
    """The rule, a lambda for instance, with what it says."""
    rule.__doc__ = words
    return rule


def meaning(rule: Any) -> str:
    """What a property says, in one line; empty where nobody has written it down."""
    return " ".join(_docstring(rule).split())


def property_meaning(machine: Machine[Any], name: str) -> str:
    """What an invariant of a machine says, of states or of steps; empty where nobody has written it down."""
    rule = machine.invariants.get(name) or machine.step_invariants.get(name)
    return "" if rule is None else meaning(rule)


def summary(rule: Any) -> str:
    """The first paragraph of what it says."""
    return " ".join(_docstring(rule).partition("\n\n")[0].split())


def _docstring(rule: Any) -> str:
    if isinstance(rule, partial):
        return _docstring(rule.func)
    if rule.__doc__:
        return str(rule.__doc__)
    name = rule.__qualname__
    maker = getattr(sys.modules[rule.__module__], name.removesuffix(_MADE), None) if name.endswith(_MADE) else None
    return str(getattr(maker, "__doc__", None) or "")

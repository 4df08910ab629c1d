"""What the rules of a machine are, and which of them a class has otherwise.

A rule is a public method of a machine that is neither the explorer's (`initial`, `step`, …), nor a guard, nor a
property that it has to satisfy.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import FunctionType
from typing import Any

from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.registry import REGISTRY

Rule = tuple[str, str]
"""The class that declares the rule, and its name."""
KERNEL = "tidegauge.spec.kernel"


@cache
def declaring() -> frozenset[type[Any]]:
    """The classes of which the machines of the registry are made, without the kernel's."""
    kinds = {kind for one in REGISTRY for kind in type(one.machine).__mro__}
    return frozenset(kind for kind in kinds if kind.__module__.startswith("tidegauge.") and not _is_kernel(kind))


@cache
def properties() -> frozenset[str]:
    """The methods that are properties of some machine of the registry, by their qualified names."""
    machines = [one.machine for one in REGISTRY]
    kinds = [kind for one in machines for kind in (one.invariants, one.step_invariants, one.converges, one.sometimes)]
    owed = [holds for one in machines for each in one.leads_to.values() for holds in (each.when, each.then)]
    every = (*owed, *(holds for named in kinds for holds in named.values()))
    return frozenset(getattr(holds, "__qualname__", "") for holds in every)


def _is_kernel(kind: type[Any]) -> bool:
    return kind.__module__.startswith(KERNEL)


def rules_of(machine: Machine[Any]) -> Iterator[Rule]:
    """The rules of a machine, each by the class whose rule the machine goes by."""
    known: set[str] = set()
    mro = type(machine).__mro__
    explorers = {"guard"}.union(*(dir(kind) for kind in mro if _is_kernel(kind)))
    for kind in mro:
        if kind.__module__.startswith("tidegauge.") and not _is_kernel(kind):
            for name, method in vars(kind).items():
                is_public = isinstance(method, FunctionType) and not name.startswith("_")
                if is_public and name not in explorers | known and method.__qualname__ not in properties():
                    yield kind.__name__, name
                known.add(name)


def wrong_in(kind: type[Any]) -> Iterator[Rule]:
    """The rules of registered machines that a class, or one that it is made of, has otherwise."""
    for place, own in enumerate(kind.__mro__):
        if own not in declaring():
            behind = [one for one in kind.__mro__[place + 1 :] if one in declaring()]
            for name in vars(own):
                declared = next((one for one in behind if name in vars(one)), None)
                if declared is not None:
                    yield declared.__name__, name

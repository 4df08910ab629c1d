"""A wrong rule of a machine, and what a search finds wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import attrs

from tidegauge.spec.kernel.explorer import Limits, explore
from tidegauge.spec.kernel.machine import Machine, constants_of

Wrong = Callable[..., Any]
"""What is done instead: takes the machine, the right rule, and the rule's arguments."""


@attrs.frozen
class RuleMutant:
    """One wrong rule, the model that shows it, and what is violated first there."""

    name: str
    rule: str
    wrong: Wrong
    model: Machine[Any]
    violates: str
    """An invariant, a step invariant, a goal that no behaviour reaches for good, or one that no search reaches."""
    also: tuple[str, ...] = ()
    """What is violated after that, if the search goes on."""
    states: int = 2_000
    """By then it is noticed."""

    @property
    def machine(self) -> Machine[Any]:
        """The model with the wrong rule."""
        base, wrong = type(self.model), self.wrong
        right = getattr(base, self.rule)

        def mutant(machine: Machine[Any], *args: object, **kwargs: object) -> object:
            return wrong(machine, partial(right, machine), *args, **kwargs)

        kind = type(self.name, (base,), {self.rule: mutant, "__doc__": self.name})
        machine: Machine[Any] = kind(**constants_of(self.model))
        return machine


def always(outcome: object) -> Wrong:
    """The same, whatever is asked."""
    return lambda machine, right, *args, **kwargs: outcome


def evolved(**changes: object) -> Wrong:
    """The right outcome, but for these fields."""
    return lambda machine, right, *args, **kwargs: attrs.evolve(right(*args, **kwargs), **changes)


def noticed(machine: Machine[Any], states: int) -> set[str]:
    """What a search finds wrong: properties that are false, and goals of the search that it has not reached."""
    found = explore(machine, converges=True, limits=Limits(states=states))
    lassos = () if found.convergence is None else found.convergence.lassos
    unreached = found.unreached if found.complete else ()
    return {*(one.invariant for one in found.violations), *(lasso.goal for lasso in lassos), *unreached}


@cache
def reached(model: Machine[Any], states: int) -> set[str]:
    """Which goals of the search it reaches with the right rules."""
    return set(explore(model, limits=Limits(states=states)).reached)

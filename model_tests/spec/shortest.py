"""Shortest ways to a state, with some steps left out: what is not reached without them needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegauge.spec.kernel.machine import Action, Machine

Steps = Callable[[Any, Action, Any], bool]
"""Which steps: before, action, after."""


def of(*kinds: type[Action]) -> Steps:
    """Every step of these classes."""
    return lambda before, action, after: isinstance(action, kinds)


def into(holds: Callable[[Any], bool]) -> Steps:
    """Every step into such a state."""
    return lambda before, action, after: holds(after)


def none(before: object, action: Action, after: object) -> bool:
    """No step."""
    return False


def steps_to(machine: Machine[Any], goal: str, *, most: int, without: Steps = none) -> int | None:
    """How many steps the shortest behaviour has to the goal, of at most so many; None if there is none."""
    holds = machine.sometimes[goal]
    level = list(machine.initial())
    seen = set(level)
    for steps in range(most + 1):
        if any(map(holds, level)):
            return steps
        further = []
        for state in level if steps < most else ():
            for action, after in machine.successors(state):
                if after not in seen and not without(state, action, after):
                    seen.add(after)
                    further.append(after)
        level = further
    return None

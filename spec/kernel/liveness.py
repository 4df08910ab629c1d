"""Failures of what a machine says comes (`converges`, `leads_to`), at the end of a behaviour, and minimised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from tidegauge.spec.kernel.convergence import BottomComponents
from tidegauge.spec.kernel.lasso import Lasso
from tidegauge.spec.kernel.leads_to import Waiting
from tidegauge.spec.kernel.machine import Action, Invariant, Machine
from tidegauge.spec.kernel.minimising import minimised
from tidegauge.spec.kernel.traces import Trace, replay

S = TypeVar("S")


def comes(machine: Machine[S], goal: str) -> Invariant[S]:
    """What is to hold in the end. Raises KeyError for a goal that the machine has not."""
    return machine.leads_to[goal].then if goal in machine.leads_to else machine.converges[goal]


class Failures(Generic[S]):
    """Whether a behaviour ends where a goal fails. What was found is kept for the next question."""

    def __init__(self, machine: Machine[S]) -> None:
        self._machine = machine
        self._bottom = BottomComponents(machine)
        self._waiting: dict[str, Waiting[S]] = {}

    def lasso(self, goal: str, stem: Trace[S]) -> Lasso[S] | None:
        """The failure of a goal of `converges` or `leads_to` at the end of `stem`; None if it does not fail there."""
        if goal not in self._machine.leads_to:
            return self._bottom.lasso(goal, stem)
        if goal not in self._waiting:
            self._waiting[goal] = Waiting(self._machine, goal)
        return self._waiting[goal].lasso_at(stem)


def minimise_lasso(machine: Machine[S], lasso: Lasso[S]) -> Lasso[S]:
    """The failure by a stem from which no single action can be dropped, and a shortest cycle (see `minimise`).

    Raises ValueError if the goal does not fail at the end of the stem.
    """
    goal, initial, failures = lasso.goal, lasso.stem.initial, Failures(machine)

    def needed(actions: Sequence[Action]) -> Sequence[Action] | None:
        stem = replay(machine, actions, initial=initial).trace
        return None if failures.lasso(goal, stem) is None else stem.actions

    try:
        shortest = minimised(lasso.stem.actions, needed)
    except ValueError:
        raise ValueError(
            f"{goal!r} does not fail for good on {machine.name} after these actions: nothing to minimise"
        ) from None
    found = failures.lasso(goal, replay(machine, shortest, initial=initial).trace)
    assert found is not None, "its actions were replayed before"
    return found

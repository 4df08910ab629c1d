"""What a search has exercised: how often each kind of action could happen, and whether it ever led anywhere new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import attrs

from tidegauge.spec.kernel.machine import Action, Machine

S = TypeVar("S")


@attrs.frozen
class ActionCoverage:
    """One kind of action."""

    action: str
    enabled: int
    """States in which it could happen."""
    taken: int
    """Steps taken: one for each choice of its fields in each of those states."""
    found: int
    """Steps that led to a state not seen before."""


@attrs.define
class Tally:
    """The running counts behind one `ActionCoverage`."""

    enabled: int = 0
    taken: int = 0
    found: int = 0
    last: int = -1
    """The state in which it was last seen enabled, so that a state is counted once."""


class Counts(dict[type[Action], Tally]):
    """A tally for each kind of action, in the machine's own order; a kind that it did not declare is refused."""

    def __init__(self, machine: Machine[S]) -> None:
        super().__init__((kind, Tally()) for kind in machine.action_types)
        self.machine = machine.name

    def __missing__(self, kind: type[Action]) -> Tally:
        raise TypeError(f"{kind.__name__} is not among {self.machine}.action_types: add it there")

    @property
    def taken(self) -> int:
        """Steps of every kind."""
        return sum(tally.taken for tally in self.values())

    def summary(self) -> tuple[ActionCoverage, ...]:
        return tuple(
            ActionCoverage(kind.__name__, tally.enabled, tally.taken, tally.found) for kind, tally in self.items()
        )


def never_enabled(coverage: Iterable[ActionCoverage]) -> tuple[str, ...]:
    """Actions that never could happen: dead rules, or bounds too small to reach them."""
    return tuple(row.action for row in coverage if not row.enabled)


def unreached(machine: Machine[S], reached: Mapping[str, object]) -> tuple[str, ...]:
    """Goals of `machine` that a search did not reach."""
    return tuple(goal for goal in machine.sometimes if goal not in reached)

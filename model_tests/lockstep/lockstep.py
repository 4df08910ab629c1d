"""The cores in lockstep with the specification, and its invariants, which the cores are fast enough to have checked.

Two kinds of mistake are told apart: the cores *differ* from the specification, or an invariant *falls*, which means
that the protocol is wrong, whether or not both sides agree on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import attrs

from model_tests.harness.counterexamples import Expected, Failure
from model_tests.harness.lockstep import Difference, Lockstep
from model_tests.lockstep.cores import CORRECT, Roles
from model_tests.lockstep.steps import DrivenCores
from spec.changes import plain
from spec.machine import Action
from spec.replication import Replication
from spec.replication_state import State
from spec.traces import fallen, fallen_step

BindCores: TypeAlias = Callable[[Any, Roles], DrivenCores]
"""What makes the cores of a machine, with the classes that play replica and controller."""


class InvariantFell(AssertionError):  # noqa: N818 (as the literature says it)
    """The specification's state breaks one of its invariants."""

    def __init__(self, machine: Replication, invariant: str, action: Action, state: State) -> None:
        self.invariant = invariant
        values = "".join(f"\n  {name}: {value}" for name, value in machine.explain(invariant, state).items())
        super().__init__(f"{invariant} falls after {plain(action)}:{values}")


class CoresLockstep(Lockstep):
    """The machine's state, the cores, and the actions that brought both here."""

    def __init__(self, machine: Replication, roles: Roles = CORRECT, bind: BindCores = DrivenCores) -> None:
        super().__init__(machine, bind(machine, roles))

    def perform(self, action: Action) -> bool:
        """Take `action` on both sides and check; False if it is not enabled. Raises Difference or InvariantFell."""
        before = self.state
        if not super().perform(action):
            return False
        fell = next(fallen_step(self.machine, before, action, self.state), None)
        fell = fell or next(fallen(self.machine, self.state), None)
        if fell is not None:
            raise InvariantFell(self.machine, fell, action, self.state)
        return True


@attrs.frozen
class Outcome:
    """What went wrong in a lockstep: where, in words, and by which actions."""

    expected: Expected
    words: str
    actions: tuple[Action, ...]


def failure_of(pair: CoresLockstep, actions: Iterable[Action]) -> Outcome | None:
    """Perform those of the actions that are enabled; what went wrong, if anything did."""
    try:
        for action in actions:
            pair.perform(action)
    except Difference as difference:
        return Outcome(Expected(Failure.DIFFERENCE, difference.path), str(difference), tuple(pair.actions))
    except InvariantFell as fell:
        return Outcome(Expected(Failure.INVARIANT, fell.invariant), str(fell), tuple(pair.actions))
    return None

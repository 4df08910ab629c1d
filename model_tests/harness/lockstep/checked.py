"""A lockstep that also checks the invariants, and the outcome of a list of actions in it.

There are two kinds of failure. Either the implementation *differs* from the specification; or an invariant is
*violated*, which means that the protocol is wrong, whether or not both sides agree on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import attrs

from tidegauge.model_tests.harness.counterexamples.files import Expected, Failure
from tidegauge.model_tests.harness.lockstep.lockstep import Difference, Lockstep, M
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.traces import violated_by_step, violated_in

S = TypeVar("S")


class InvariantViolated(AssertionError):  # noqa: N818 (as the literature says it)
    """The specification's state violates an invariant, whether or not the implementation's state is the same."""

    def __init__(self, machine: Machine[S], invariant: str, action: Action, state: S) -> None:
        self.invariant = invariant
        values = "".join(f"\n  {name}: {value}" for name, value in machine.explain(invariant, state).items())
        super().__init__(f"{invariant} is violated after {plain(action)}:{values}")


class CheckedLockstep(Lockstep[M]):
    """A lockstep whose invariants are checked after each action."""

    def perform(self, action: Action) -> bool:
        """Take `action` on both sides and check; False if it is not enabled. Raises Difference or InvariantViolated."""
        before = self.state
        if not super().perform(action):
            return False
        violated = next(violated_by_step(self.machine, before, action, self.state), None)
        violated = violated or next(violated_in(self.machine, self.state), None)
        if violated is not None:
            raise InvariantViolated(self.machine, violated, action, self.state)
        return True


@attrs.frozen
class Outcome:
    """What went wrong in a lockstep."""

    expected: Expected
    """As a counterexample file says it."""
    words: str
    """The failure for a reader, with all values."""
    actions: tuple[Action, ...]
    """The actions that were taken, and those that were refused, up to the one that failed."""


def failure_of(pair: CheckedLockstep[M], actions: Iterable[Action]) -> Outcome | None:
    """Perform those of the actions that are enabled, and close the lockstep; returns the failure, if there was one."""
    try:
        for action in actions:
            pair.perform(action)
    except Difference as difference:
        return Outcome(Expected(Failure.DIFFERENCE, difference.path), str(difference), tuple(pair.sent))
    except InvariantViolated as violation:
        return Outcome(Expected(Failure.INVARIANT, violation.invariant), str(violation), tuple(pair.sent))
    finally:
        pair.close()
    return None

"""A lockstep that also checks the invariants, and the outcome of a list of actions in it.

There are two kinds of failure. Either the implementation *differs* from the specification; or an invariant is
*violated*, which means that the protocol is wrong, whether or not both sides agree on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from tidegauge.model_tests.harness.counterexamples.files import Expected, Failure
from tidegauge.model_tests.harness.lockstep.lockstep import Difference, Lockstep, M
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.explaining import told
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.traces import first_violated


class InvariantViolated(AssertionError):  # noqa: N818 (as the literature says it)
    """The specification's state violates an invariant, whether or not the implementation's state is the same."""

    def __init__(self, invariant: str, action: Action, values: Mapping[str, object]) -> None:
        """`values` make it false (`spec.kernel.explaining`)."""
        self.invariant = invariant
        lines = "".join(f"\n  {line}" for line in told(values))
        super().__init__(f"{invariant} is violated after {plain(action)}:{lines}")


class CheckedLockstep(Lockstep[M]):
    """A lockstep whose invariants are checked after each action."""

    def perform(self, action: Action) -> bool:
        """Take `action` on both sides and check; False if it is not enabled. Raises Difference or InvariantViolated."""
        before = self.state
        if not super().perform(action):
            return False
        found = first_violated(self.machine, before, action, self.state)
        if found is not None:
            name, values = found
            raise InvariantViolated(name, action, values)
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

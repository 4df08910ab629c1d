"""A lockstep with the invariants checked as well, and what becomes of a list of actions in it.

Two kinds of mistake are told apart: the implementation *differs* from the specification, or an invariant *falls*, which
means that the protocol is wrong, whether or not both sides agree on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import attrs

from tidegauge.model_tests.harness.cores.driven import driven_cores
from tidegauge.model_tests.harness.cores.replication import CORRECT, Roles
from tidegauge.model_tests.harness.counterexamples.files import Expected, Failure
from tidegauge.model_tests.harness.lockstep.lockstep import Binding, Difference, Lockstep, M
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.traces import fallen, fallen_step

BindRoles: TypeAlias = Callable[[Any, Roles], Binding]
"""What makes the binding of a machine, with the classes that play replica and controller."""


class InvariantFell(AssertionError):  # noqa: N818 (as the literature says it)
    """The specification's state breaks one of its invariants, whether or not the implementation agrees with it."""

    def __init__(self, machine: Machine[Any], invariant: str, action: Action, state: Any) -> None:
        self.invariant = invariant
        values = "".join(f"\n  {name}: {value}" for name, value in machine.explain(invariant, state).items())
        super().__init__(f"{invariant} falls after {plain(action)}:{values}")


class CheckedLockstep(Lockstep[M]):
    """The machine's state, an implementation, and the actions that brought both here."""

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


class CoresLockstep(CheckedLockstep[M]):
    """Beside the cores, unless `bind` brings another implementation."""

    def __init__(self, machine: M, roles: Roles = CORRECT, bind: BindRoles = driven_cores) -> None:
        super().__init__(machine, bind(machine, roles))


@attrs.frozen
class Outcome:
    """What went wrong in a lockstep: where, in words, and by which actions."""

    expected: Expected
    words: str
    actions: tuple[Action, ...]


def failure_of(pair: CheckedLockstep[Any], actions: Iterable[Action]) -> Outcome | None:
    """Perform those of the actions that are enabled; what went wrong, if anything did. Closes the lockstep."""
    try:
        for action in actions:
            pair.perform(action)
    except Difference as difference:
        return Outcome(Expected(Failure.DIFFERENCE, difference.path), str(difference), tuple(pair.actions))
    except InvariantFell as fell:
        return Outcome(Expected(Failure.INVARIANT, fell.invariant), str(fell), tuple(pair.actions))
    finally:
        pair.close()
    return None

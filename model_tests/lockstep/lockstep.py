"""A specification state beside something that is to behave like it: the same action on both, then the same state?

`Lockstep` is one such pair at a point of its life. Two things can go wrong and are told apart: the two *differ* (the
implementation does not do what the specification says), or an *invariant* falls in the specification's state (the
protocol itself is wrong, whether or not both agree on it).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from model_tests.lockstep.cores import CORRECT, Cores, Roles
from model_tests.lockstep.steps import perform
from spec.changes import changes, plain
from spec.machine import Action
from spec.replication import Replication
from spec.replication_state import State
from spec.traces import fallen, fallen_step


@attrs.frozen
class Failure:
    """What went wrong, after which actions: "difference", "error", or the name of the invariant that fell."""

    outcome: str
    details: tuple[str, ...]
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        steps = (f"{number:3}. {plain(action)}" for number, action in enumerate(self.actions, 1))
        return "\n".join((f"{self.outcome} after {len(self.actions)} actions:", *steps, *self.details))


class LockstepError(AssertionError):
    """The two parted, or an invariant fell."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


DIFFERENCE = "difference"
ERROR = "error"


class Lockstep:
    """The machine's state, the cores, and the actions that brought both here."""

    def __init__(self, machine: Replication, roles: Roles = CORRECT) -> None:
        self.machine = machine
        self.state: State = next(iter(machine.initial()))
        self.cores = Cores(machine, roles)
        self.actions: list[Action] = []
        self._compare()

    def is_enabled(self, action: Action) -> bool:
        return not action.guard(self.machine, self.state)  # type: ignore[attr-defined]

    def take(self, action: Action) -> bool:
        """Perform the action on both and compare; False, with nothing done, when it is not enabled.

        Raises LockstepError.
        """
        if not self.is_enabled(action):
            return False
        before, self.state = self.state, action.effect(self.machine, self.state)  # type: ignore[attr-defined]
        self.actions.append(action)
        try:
            perform(self.cores, action)
        except Exception as error:
            raise LockstepError(self._failure(ERROR, [f"{type(error).__name__}: {error}"])) from error
        self._compare()
        fell = next(fallen_step(self.machine, before, action, self.state), None)
        fell = fell or next(fallen(self.machine, self.state), None)
        if fell is not None:
            values = self.machine.explain(fell, self.state)
            raise LockstepError(self._failure(fell, [f"{name}: {value}" for name, value in values.items()]))
        return True

    def replay(self, actions: Iterable[Action]) -> Failure | None:
        """Take those of the actions that are enabled; what went wrong, if anything did."""
        try:
            for action in actions:
                self.take(action)
        except LockstepError as failed:
            return failed.failure
        return None

    def _compare(self) -> None:
        seen = self.cores.abstraction(self.state)
        if seen != self.state:
            details = [
                f"{c.path}: specification {plain(c.before)}, cores {plain(c.after)}" for c in changes(self.state, seen)
            ]
            raise LockstepError(self._failure(DIFFERENCE, details))

    def _failure(self, outcome: str, details: Sequence[str]) -> Failure:
        return Failure(outcome, tuple(details), tuple(self.actions))

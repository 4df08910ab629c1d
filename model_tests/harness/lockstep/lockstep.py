"""Lockstep: the specification and an implementation take the same steps, and are compared after each.

Theory of operation
-------------------
A `Binding` makes an implementation (cores, a cluster) perform the actions of a machine, and reads the implementation's
state back as a state of that machine. `Lockstep` keeps a state of the specification beside it. An action that is not
enabled in the specification is skipped on both sides, so that every list of actions can be performed, and every part
of such a list. An enabled action is performed on both sides, and then every field must agree. Only what the
specification keeps for its invariants has no counterpart.

A request that the specification refuses (`spec.kernel.guarded.Refusal`) is sent all the same, if the binding can
(`Refusing`). The implementation must refuse it with the error that the guard names, and change nothing.

Comparing states finds a bug in the step in which it acts, long before an invariant is violated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from tidegauge.spec.kernel.changes import Change, changes, plain
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.machine import Action, Machine, NotEnabled


class Binding(Protocol):
    """An implementation that performs the actions of a machine."""

    def perform(self, action: Any, before: Any) -> None:
        """Perform `action`, which is enabled in the specification's state `before`."""

    def abstraction(self, state: Any) -> Any:
        """The implementation's state as a state of the machine.

        `state` is the specification's, from which the fields are copied that only serve its invariants.
        """

    def close(self) -> None:
        """Stop, and release all resources."""


@runtime_checkable
class Selective(Protocol):
    """A binding that cannot perform every action that the specification allows."""

    def can_perform(self, action: Any, before: Any) -> bool:
        """Whether the implementation can perform the action in its present state; if not, both sides skip it."""


@runtime_checkable
class Refusing(Protocol):
    """A binding that can be sent what the specification refuses."""

    def can_send(self, kind: type[Action]) -> bool:
        """Whether somebody could send what is refused of this class of action."""

    def refuse(self, action: Any, before: Any) -> IntEnum | None:
        """Send the request of `action`, which is refused in the specification's state `before`.

        Returns the error of the response, 0 for none; or None if nobody could send it in this state, and nobody did.
        """


@runtime_checkable
class Keeping(Protocol):
    """A binding that knows what the last refused request has had written, which no field of the state may show."""

    written: Sequence[object]


@runtime_checkable
class Choosing(Protocol):
    """A binding with decisions that no field of the state shows."""

    def differences(self, state: Any) -> Iterable[Change]:
        """The decisions that the implementation would make otherwise than the specification in `state`."""


class Difference(AssertionError):  # noqa: N818 - a finding
    """The implementation's state is not the specification's after an action."""

    def __init__(self, action: Action | None, found: tuple[Change, ...]) -> None:
        self.action = action
        self.changes = found
        after = f"after {plain(action)}" if action is not None else "in the initial state"
        lines = "".join(
            f"\n  {change.path}: specification {plain(change.before)}, implementation {plain(change.after)}"
            for change in found
        )
        super().__init__(f"the implementation differs {after}:{lines}")

    @property
    def path(self) -> str:
        """Where the first difference is."""
        return self.changes[0].path


M = TypeVar("M", bound=Machine[Any])

Bind: TypeAlias = Callable[[M], Binding]
"""Makes the binding of a machine: an implementation with its constants, in its initial state."""


class Lockstep(Generic[M]):
    """A specification state, an implementation, and the actions that both have taken."""

    def __init__(self, machine: M, binding: Binding) -> None:
        """Raises Difference if the two initial states differ."""
        self.machine = machine
        self.binding = binding
        self.state: Any = next(iter(machine.initial()))
        self.actions: list[Action] = []
        self.sent: list[Action] = []
        """The actions, and between them those that both have refused."""
        self.refused: Counter[tuple[str, str]] = Counter()
        """How many were refused, by the name of the action and that of the error."""
        self.passed_over: list[Action] = []
        """The actions that were asked for and that the implementation could not perform."""
        self._selective = binding if isinstance(binding, Selective) else None
        self._refusing = binding if isinstance(binding, Refusing) else None
        self._choosing = binding if isinstance(binding, Choosing) else None
        self._compare(None, binding.abstraction(self.state))

    def perform(self, action: Action) -> bool:
        """Take `action` on both sides and compare; False if it is not enabled: then both must refuse it.

        Raises Difference.
        """
        if not self._can_perform(action):
            self.passed_over.append(action)
            return False
        try:
            after = self.machine.step(self.state, action)
        except NotEnabled as forbidden:
            if self._refusing is not None and isinstance(forbidden.guard, Refusal):
                self._refuse(self._refusing, action, forbidden.guard)
            return False
        self.actions.append(action)
        self.sent.append(action)
        before, self.state = self.state, after
        try:
            self.binding.perform(action, before)
            actual = self.binding.abstraction(after)
        except Exception as error:
            raise Difference(action, (Change("error", "none", f"{type(error).__name__}: {error}"),)) from error
        self._compare(action, actual)
        return True

    def can_send(self, kind: type[Action]) -> bool:
        """Whether the implementation can be sent what the specification refuses of this class of action."""
        return self._refusing is not None and self._refusing.can_send(kind)

    def _refuse(self, refusing: Refusing, action: Action, refusal: Refusal) -> None:
        self.sent.append(action)
        try:
            error = refusing.refuse(action, self.state)
            if error is not None and error.value != refusal.error.value:
                raise Difference(action, (Change("refusal", refusal.error.name, error.name.upper()),))
            actual = self.binding.abstraction(self.state)
        except Difference:
            raise
        except Exception as raised:
            raise Difference(action, (Change("error", "none", f"{type(raised).__name__}: {raised}"),)) from raised
        if error is None:
            self.sent.pop()
            return
        self._compare(action, actual)
        if isinstance(refusing, Keeping) and refusing.written:
            raise Difference(action, (Change("written", "nothing", ", ".join(map(str, refusing.written))),))
        self.refused[action.name, refusal.error.name] += 1

    def is_enabled(self, action: Any) -> bool:
        """Whether `perform` would perform the action. `action` has a guard, as those of most machines."""
        return not action.guard(self.machine, self.state) and self._can_perform(action)

    def enabled(self, actions: Iterable[Action]) -> list[Action]:
        """Of actions that are enabled in the specification those that the implementation can perform."""
        return list(actions) if self._selective is None else [one for one in actions if self._can_perform(one)]

    def _can_perform(self, action: Action) -> bool:
        return self._selective is None or self._selective.can_perform(action, self.state)

    def close(self) -> None:
        """Stop the implementation."""
        self.binding.close()

    def _compare(self, action: Action | None, actual: object) -> None:
        if not (actual == self.state):
            raise Difference(action, tuple(changes(self.state, actual)))
        if self._choosing is not None and (found := tuple(self._choosing.differences(self.state))):
            raise Difference(action, found)

"""A trace: one behaviour of a machine, from an initial state on, and how to replay, minimise and read it.

A search hands back the shortest trace to a violation; a random walk or a test hands back a long one, which `minimise`
cuts down. Replay skips actions that are not enabled where they now stand, so a shortened list of actions is always
meaningful and cutting needs no knowledge of the protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Generic, TypeVar

import attrs

from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.explaining import explained
from tidegauge.spec.kernel.machine import Action, Machine, NotEnabled
from tidegauge.spec.kernel.minimising import minimised
from tidegauge.spec.kernel.nearest import nearest_enabled
from tidegauge.spec.kernel.smaller import with_smallest_values

S = TypeVar("S")


class UnknownMemberError(ValueError):
    """An action that somebody has written names a process, a partition or an item that the machine does not have."""


@attrs.frozen
class Step(Generic[S]):
    """An action and the state that it led to."""

    action: Action
    state: S


@attrs.frozen
class Trace(Generic[S]):
    """A behaviour: an initial state and the steps taken from it. Its length is counted in states, as TLC does."""

    initial: S
    steps: tuple[Step[S], ...] = ()

    def __len__(self) -> int:
        return len(self.steps) + 1

    @property
    def last(self) -> S:
        return self.steps[-1].state if self.steps else self.initial

    @property
    def states(self) -> tuple[S, ...]:
        return (self.initial, *(step.state for step in self.steps))

    @property
    def actions(self) -> tuple[Action, ...]:
        return tuple(step.action for step in self.steps)

    def transitions(self) -> Iterator[tuple[S, Action, S]]:
        """Each step as (before, action, after)."""
        before = self.initial
        for step in self.steps:
            yield before, step.action, step.state
            before = step.state


@attrs.frozen
class Violation(Generic[S]):
    """An invariant that is violated: in the last state of the trace, or in its last step."""

    invariant: str
    values: Mapping[str, object]
    """What made it false: the conditions that decided, the values in them, and what the machine says of the state."""
    trace: Trace[S]
    count: int = 1
    """States (or steps) in which it is violated during the search."""


@attrs.frozen
class Replayed(Generic[S]):
    """What became of a list of actions on a machine."""

    trace: Trace[S]
    skipped: tuple[Action, ...]
    """Actions that were not enabled when their turn came."""
    violation: Violation[S] | None


def violation_by(machine: Machine[S], name: str, trace: Trace[S]) -> Violation[S]:
    """The violation of `name` in which a trace ends, with what makes it false."""
    if name in machine.invariants:
        return Violation(name, explained(machine, name, trace.last), trace)
    *_, step = trace.transitions()
    return Violation(name, explained(machine, name, *step), trace)


def violated_in(machine: Machine[S], state: S) -> Iterator[str]:
    """Invariants that are false in `state`."""
    return (name for name, holds in machine.invariants.items() if not holds(state))


def violated_by_step(machine: Machine[S], before: S, action: Action, after: S) -> Iterator[str]:
    """Step invariants that the step breaks."""
    return (name for name, holds in machine.step_invariants.items() if not holds(before, action, after))


def first_violated(machine: Machine[S], before: S, action: Action, after: S) -> tuple[str, Mapping[str, object]] | None:
    """The first property that a step violates, or the state that it leads to, and what makes it false; None if none."""
    if name := next(violated_by_step(machine, before, action, after), None):
        return name, explained(machine, name, before, action, after)
    if name := next(violated_in(machine, after), None):
        return name, explained(machine, name, after)
    return None


class Behaviour(Generic[S]):
    """A behaviour as it grows: its state, the steps taken so far, and the invariant that its last step violated.

    A machine has many invariants; if `invariant` is given, only that one counts.
    """

    def __init__(self, machine: Machine[S], initial: S, invariant: str | None = None) -> None:
        self.machine = machine
        self.state = initial
        self.violated = _pick(violated_in(machine, initial), invariant)
        self._initial = initial
        self._invariant = invariant
        self._steps: list[Step[S]] = []

    @property
    def taken(self) -> int:
        """The number of steps taken."""
        return len(self._steps)

    def take(self, action: Action) -> None:
        """Take one more step. Raises NotEnabled."""
        before, after = self.state, self.machine.step(self.state, action)
        self._steps.append(Step(action, after))
        self.state = after
        self.violated = _pick(violated_by_step(self.machine, before, action, after), self._invariant) or _pick(
            violated_in(self.machine, after), self._invariant
        )

    @property
    def trace(self) -> Trace[S]:
        return Trace(self._initial, tuple(self._steps))

    @property
    def violation(self) -> Violation[S] | None:
        """The violated invariant, and why it is; None if none is violated."""
        if self.violated is None:
            return None
        return violation_by(self.machine, self.violated, self.trace)


def replay(
    machine: Machine[S],
    actions: Iterable[Action],
    *,
    initial: S | None = None,
    invariant: str | None = None,
    nearest: bool = False,
) -> Replayed[S]:
    """Take `actions` one after the other from `initial` (by default the machine's first initial state).

    Stops at the first violation, of `invariant` if that is given, else of any. With `nearest`, the nearest action is
    taken in place of one that is not enabled. Raises UnknownMemberError for an action that no search takes.
    """
    behaviour = Behaviour(machine, next(iter(machine.initial())) if initial is None else initial, invariant)
    skipped: list[Action] = []
    for action in actions:
        if behaviour.violated is not None:
            break
        try:
            behaviour.take(action)
        except (IndexError, KeyError) as error:
            raise UnknownMemberError(f"{plain(action)} names what {machine.name} does not have ({error})") from error
        except NotEnabled:
            instead = nearest_enabled(machine, behaviour.state, action) if nearest else None
            if instead is None:
                skipped.append(action)
            else:
                behaviour.take(instead)
    return Replayed(behaviour.trace, tuple(skipped), behaviour.violation)


def _pick(names: Iterator[str], wanted: str | None) -> str | None:
    return next((name for name in names if wanted is None or name == wanted), None)


def minimise(machine: Machine[S], violation: Violation[S]) -> Violation[S]:
    """The violation by a trace from which no single action can be dropped (delta debugging: Zeller & Hildebrandt 2002).

    Blocks of actions are dropped, large ones first, as long as the same invariant is still violated; then once more,
    with the nearest action in place of each that is not enabled any more. Then the actions that are left are tried with
    smaller values. Raises ValueError if the trace does not violate the invariant on this machine to begin with.
    """
    name, initial = violation.invariant, violation.trace.initial

    def needed(actions: Sequence[Action], nearest: bool = False) -> Sequence[Action] | None:
        found = replay(machine, actions, initial=initial, invariant=name, nearest=nearest).violation
        return None if found is None else found.trace.actions

    try:
        shortest = minimised(violation.trace.actions, needed)
        shortest = minimised(shortest, partial(needed, nearest=True))
        shortest = with_smallest_values(shortest, partial(needed, nearest=True), machine, initial)
    except ValueError:
        raise ValueError(f"the trace does not violate {name} on {machine.name}: nothing to minimise") from None
    minimal = replay(machine, shortest, initial=initial, invariant=name).violation
    assert minimal is not None, "its actions were replayed before"
    return minimal

"""Replaying a counterexample on the specification, on the cores, and on a cluster.

On the specification, the machine with the bug takes the actions and its invariants are checked; a counterexample that
was found as a difference runs beside the correct machine. Cores and cluster run with the bug's classes beside the
correct machine, and the first difference is the failure. A goal fails on the specification if the actions lead into a
component in which it is false (see spec.kernel.convergence and leads_to): what follows is explored, and a cycle that
does not come back is replaced by a shortest one. Without its bug a counterexample must fail nowhere. Actions that are
not enabled, and that no party could attempt, are skipped and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import attrs

from tidegauge.model_tests.harness.counterexamples.files import Counterexample, Expected, Failure, load
from tidegauge.model_tests.harness.lockstep.lockstep import Binding, Difference, Lockstep
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.spec.kernel.explaining import told
from tidegauge.spec.kernel.liveness import Failures, comes
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.meaning import property_meaning
from tidegauge.spec.kernel.traces import Step, Trace, first_violated
from tidegauge.spec.kernel.traces import replay as replay_on_machine


class Level(Enum):
    """Where a counterexample can be replayed."""

    SPEC = "spec"
    CORES = "cores"
    CLUSTER = "cluster"


@attrs.frozen
class Replayed:
    """The outcome of a counterexample at one level."""

    level: Level
    bug: str | None
    """The bug that was switched on, if one was."""
    trace: Trace[Any]
    """The specification's states, one a step: with the bug at the level of the specification, else without."""
    failure: Expected | None
    """What went wrong, or None."""
    words: str
    """The failure for a reader: the invariant with its values, or the fields that differ."""
    values: Mapping[str, object]
    """The values that make the invariant false; empty for a difference."""
    skipped: tuple[Action, ...]
    cycle: int = 0
    """Of a goal that is not reached for good: how many of the last steps lead back to where they begin."""
    passed_over: tuple[Action, ...] = ()
    """Those of `skipped` that the implementation could not perform."""

    @property
    def failed(self) -> bool:
        return self.failure is not None

    @property
    def at(self) -> int | None:
        """The step that failed, from 1, or None."""
        return len(self.trace.steps) if self.failed else None


class SpecBinding:
    """A machine as the implementation in a lockstep: for a bug of the specification, beside the correct machine."""

    def __init__(self, machine: Machine[Any]) -> None:
        self._machine = machine
        self._state = next(iter(machine.initial()))

    def perform(self, action: Action, before: Any) -> None:
        self._state = self._machine.step(self._state, action)

    def abstraction(self, state: object) -> Any:
        return self._state

    def close(self) -> None:
        """A machine has no resources."""


def levels_of(machine: Machine[Any], bug: str | None = None) -> list[Level]:
    """The levels at which a counterexample of the machine can be replayed: those that its registration has.

    A bug that no implementation has can be switched on in the specification alone.
    """
    everywhere = bug is None or bug in HARNESS.bugs
    sides = {side.value for side in HARNESS.of(machine).sides} if everywhere else set()
    if bug in HARNESS.bugs and not HARNESS.bug(bug).on_cluster:
        sides.discard(Side.CLUSTER.value)
    if bug in HARNESS.bugs and not HARNESS.bug(bug).on_cores:
        sides.discard(Side.CORES.value)
    return [level for level in Level if level is Level.SPEC or level.value in sides]


def replay_file(path: Path, on: str = "all", *, with_bug: bool = True) -> list[Replayed]:
    """Replay a file at one level, "spec", "cores" or "cluster", or at "all" that the machine has.

    Raises CounterexampleError for a file that is no counterexample, ValueError for an unknown level, NotRegisteredError
    for a level that the machine does not have.
    """
    counterexample = load(path)
    if on not in ("all", *(level.value for level in Level)):
        raise ValueError(f"there is no level {on!r}: use spec, cores, cluster or all")
    bug = counterexample.bug if with_bug else None
    levels = levels_of(counterexample.machine, bug) if on == "all" else [Level(on)]
    return [replay(counterexample, level, with_bug=with_bug) for level in levels]


def replay(counterexample: Counterexample, level: Level, *, with_bug: bool = True) -> Replayed:
    """Replay at one level, with the counterexample's bug or without it."""
    bug = counterexample.bug if with_bug else None
    machine = counterexample.buggy_machine() if bug else counterexample.machine
    if level is Level.SPEC:
        if counterexample.expected.kind is Failure.GOAL:
            return _into_component(machine, counterexample, bug)
        if counterexample.expected.kind is Failure.INVARIANT or bug is None:
            return _on_machine(machine, counterexample, bug)
        return _beside(counterexample, level, bug, lambda _: SpecBinding(machine))
    registration = HARNESS.of(counterexample.machine)
    registration.bind(Side(level.value))  # no implementation: that, and not that it has no such bug
    bind = registration.bind(Side(level.value), HARNESS.roles(bug))
    return _beside(counterexample, level, bug, bind)


def _on_machine(machine: Machine[Any], counterexample: Counterexample, bug: str | None) -> Replayed:
    expected = counterexample.expected
    wanted = expected.name if expected.kind is Failure.INVARIANT and bug is not None else None
    done = replay_on_machine(machine, counterexample.actions, invariant=wanted)
    if done.violation is None:
        return Replayed(Level.SPEC, bug, done.trace, None, "", {}, done.skipped)
    name, values = done.violation.invariant, done.violation.values
    lines = "".join(f"\n  {line}" for line in filter(None, (property_meaning(machine, name), *told(values))))
    words = f"{name} is violated:{lines}"
    return Replayed(Level.SPEC, bug, done.trace, Expected(Failure.INVARIANT, name), words, values, done.skipped)


def _into_component(machine: Machine[Any], counterexample: Counterexample, bug: str | None) -> Replayed:
    """Whether the goal is out of reach after the actions; an invariant that is violated before is a failure as well."""
    goal = counterexample.expected.name
    done = replay_on_machine(machine, counterexample.actions)
    if done.violation is not None:
        return _on_machine(machine, counterexample, bug)
    again = replay_on_machine(machine, counterexample.cycle, initial=done.trace.last)
    lasso = Failures(machine).lasso(goal, done.trace)
    if lasso is None:
        trace = Trace(done.trace.initial, (*done.trace.steps, *again.trace.steps))
        return Replayed(Level.SPEC, bug, trace, None, "", {}, (*done.skipped, *again.skipped))
    skipped = done.skipped
    if again.trace.last == done.trace.last and not again.skipped:
        lasso = attrs.evolve(lasso, cycle=again.trace.steps)
    lines = "".join(f"\n  {line}" for line in told(lasso.values))
    words = f"{counterexample.expected}: {lasso.words}{lines}"
    expected = counterexample.expected
    return Replayed(Level.SPEC, bug, lasso.trace, expected, words, lasso.values, skipped, len(lasso.cycle))


def _driven(counterexample: Counterexample, lockstep: Lockstep[Any]) -> Iterator[Action]:
    """The actions; and where a goal was out of reach, the shortest way on which the correct machine heals."""
    yield from counterexample.actions
    yield from counterexample.cycle
    if counterexample.expected.kind is Failure.GOAL:
        yield from _healing(lockstep.machine, counterexample.expected.name, lockstep.state)


def _healing(machine: Machine[Any], goal: str, state: object) -> tuple[Action, ...]:
    """The fewest fair steps to a state that satisfies a goal; none if no fair steps lead there."""
    holds, seen = comes(machine, goal), {state}
    ways: deque[tuple[Any, tuple[Action, ...]]] = deque([(state, ())])
    while ways:
        reached, way = ways.popleft()
        if holds(reached):
            return way
        for action in machine.actions(reached):
            after = machine.step(reached, action)
            if after not in seen and machine.is_fair(reached, action, after):
                seen.add(after)
                ways.append((after, (*way, action)))
    return ()


def _beside(counterexample: Counterexample, level: Level, bug: str | None, bind: Callable[[Any], Binding]) -> Replayed:
    machine: Machine[Any] = counterexample.machine
    initial = next(iter(machine.initial()))
    steps: list[Step[Any]] = []
    skipped: list[Action] = []
    passed_over: list[Action] = []
    failure, words = None, ""
    values: Mapping[str, object] = {}
    binding = bind(machine)
    try:
        lockstep = Lockstep(machine, binding)
        passed_over = lockstep.passed_over
        for action in _driven(counterexample, lockstep):
            before, sent = lockstep.state, len(lockstep.sent)
            try:
                if not lockstep.perform(action):
                    if len(lockstep.sent) == sent:
                        skipped.append(action)
                    continue
            finally:
                if len(lockstep.sent) > sent:
                    steps.append(Step(action, lockstep.state))
            found = first_violated(machine, before, action, lockstep.state)
            if found is not None:
                name, values = found
                failure, words = Expected(Failure.INVARIANT, name), f"{name} is violated on both sides"
                break
    except Difference as difference:
        failure, words = Expected(Failure.DIFFERENCE, difference.path), str(difference)
    finally:
        binding.close()
    trace = Trace(initial, tuple(steps))
    return Replayed(level, bug, trace, failure, words, values, tuple(skipped), passed_over=tuple(passed_over))

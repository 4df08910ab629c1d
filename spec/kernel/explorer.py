"""The explorer: every reachable state of a machine, level by level.

Breadth first, so that the first trace to a violation is a shortest one. A state is kept once, with the index of the
state that it was reached from; actions are not kept, since the machine gives them again when a trace is asked for. The
cost of a million states is thus little more than the states themselves.

Nothing here knows a protocol, a clock or a file: limits on time need a clock from the caller, progress goes to a
callback, and traces are values.
"""

from __future__ import annotations

import gc
import sys
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Generic, TypeVar

import attrs

from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.convergence import Convergence, Edges, convergence
from tidegauge.spec.kernel.coverage import ActionCoverage, Counts, never_enabled, unreached
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.progress import UNLIMITED, Clock, Cut, Limits, OnProgress, Progress, Stop
from tidegauge.spec.kernel.symmetry import AsymmetryError, Orbits
from tidegauge.spec.kernel.traces import Step, Trace, Violation

__all__ = [
    "AsymmetryError",
    "Clock",
    "Cut",
    "Exploration",
    "Limits",
    "OnProgress",
    "Progress",
    "Stop",
    "check_symmetry",
    "explore",
]

S = TypeVar("S")

_NO_PARENT = -1
_INTERVAL = 4096
"""States expanded between two looks at the clock."""


@attrs.frozen
class Exploration(Generic[S]):
    """What a search found."""

    machine: str
    cut: Cut | None
    """What ended the search early; None when every reachable state was visited."""
    distinct: int
    generated: int
    """Steps taken, whether or not they led anywhere new; initial states are not counted."""
    levels: tuple[int, ...]
    """New states at each distance from the initial ones."""
    terminal: int
    """States in which nothing can happen."""
    coverage: tuple[ActionCoverage, ...]
    violations: tuple[Violation[S], ...]
    """The first violation of each violated invariant, in the order in which they were met."""
    reached: Mapping[str, Trace[S]]
    """A shortest trace to each goal that was reached."""
    unreached: tuple[str, ...]
    orbits: int | None
    """With symmetry: the sum of the orbits' sizes, which is `distinct` of the unreduced search."""
    convergence: Convergence[S] | None
    """Whether the machine's goals are reached for good; None if that was not asked, or an invariant is violated."""
    seconds: float | None

    @property
    def complete(self) -> bool:
        return self.cut is None

    @property
    def holds(self) -> bool:
        """Whether nothing was violated in what was visited, and no goal failed."""
        return not self.violations and (self.convergence is None or self.convergence.holds)

    @property
    def depth(self) -> int:
        """States in the longest of the shortest traces; the initial states alone are depth 1."""
        return len(self.levels)

    @property
    def rate(self) -> float | None:
        """Distinct states per second of the clock; None without one."""
        return self.distinct / self.seconds if self.seconds else None

    @property
    def never_enabled(self) -> tuple[str, ...]:
        return never_enabled(self.coverage)

    def violation(self, invariant: str) -> Violation[S] | None:
        """The first violation of `invariant`, if it is violated."""
        return next((violation for violation in self.violations if violation.invariant == invariant), None)


def explore(
    machine: Machine[S],
    *,
    limits: Limits = UNLIMITED,
    stop: Stop = Stop.FIRST,
    symmetry: bool = False,
    converges: bool = False,
    clock: Clock | None = None,
    progress: OnProgress | None = None,
) -> Exploration[S]:
    """Visit the reachable states of `machine`, breadth first, checking every invariant in every one of them.

    `symmetry` keeps one state per orbit (see spec.kernel.symmetry). With `converges` the machine's goals are checked in
    all bottom components (see spec.kernel.convergence); a search that was cut checks those that it has seen whole.
    `progress` is called every few thousand states.
    Raises ValueError for a limit on seconds without a clock, or for symmetry that the machine does not declare.
    """
    if not isinstance(machine, Machine):
        raise TypeError(f"explore takes a machine, not {machine!r}: for example tidegauge.Replication(brokers=3)")
    if limits.seconds is not None and clock is None:
        raise ValueError(f"a limit of {limits.seconds} seconds needs a clock: pass clock=time.process_time")
    orbits = Orbits(machine) if symmetry else None
    search = _Search(machine, limits, stop, orbits, Edges() if converges else None, clock, progress)
    with _collector_paused():
        return search.run()


def check_symmetry(machine: Machine[S], *, limits: Limits = UNLIMITED) -> int:
    """Search with and without symmetry, and hold the orbits' sizes against the number of states, which is returned.

    A limit on depth keeps the comparison exact; any other raises ValueError. Raises AsymmetryError when they differ.
    """
    if evolve(limits, depth=None) != UNLIMITED:
        raise ValueError(f"{limits} may cut the two searches at different places: only a limit on depth compares")
    whole = explore(machine, limits=limits, stop=Stop.NEVER)
    reduced = explore(machine, limits=limits, stop=Stop.NEVER, symmetry=True)
    if reduced.orbits != whole.distinct:
        raise AsymmetryError(
            f"{machine.name} has {whole.distinct} states, but its {reduced.distinct} orbits hold {reduced.orbits}: "
            "it treats processes unlike, so explore it without symmetry"
        )
    return whole.distinct


class _Finished(Exception):  # noqa: N818 - how a search ends, not an error
    """Unwinds the search; says why."""

    def __init__(self, cut: Cut) -> None:
        super().__init__(cut)
        self.cut = cut


class _Search(Generic[S]):
    """One run: the states so far, and the tallies."""

    def __init__(
        self,
        machine: Machine[S],
        limits: Limits,
        stop: Stop,
        orbits: Orbits[S] | None,
        edges: Edges | None,
        clock: Clock | None,
        progress: OnProgress | None,
    ) -> None:
        self.machine, self.limits, self.stop, self.orbits = machine, limits, stop, orbits
        self.clock, self.progress = clock, progress
        self.edges = edges if machine.converges else None
        self.states: list[S] = []
        self.parents = array("q")
        self.known: dict[object, int] = {}
        """The number of each state, or of its orbit."""
        self.bounds = [0]
        self.terminal = self.orbit_sum = 0
        self.counts = Counts(machine)
        self.goals: dict[str, int] = {}
        self.found: dict[str, Violation[S]] = {}
        self.violation_counts: dict[str, int] = {}
        self.invariants = list(machine.invariants.items())
        self.step_invariants = list(machine.step_invariants.items())
        self.pending = dict(machine.sometimes)
        self.capacity = limits.states or sys.maxsize
        self.expanding = 0
        self.started = clock() if clock else 0.0

    def run(self) -> Exploration[S]:
        cut: Cut | None = None
        try:
            self.visit()
        except _Finished as finished:
            cut = finished.cut
        self.report(len(self.states) if cut is None else self.expanding)
        reached = {goal: self.trace(index) for goal, index in self.goals.items()}
        converged = self.converged()
        return Exploration(
            machine=self.machine.name,
            cut=cut,
            distinct=len(self.states),
            generated=self.counts.taken,
            levels=self.levels(),
            terminal=self.terminal,
            coverage=self.counts.summary(),
            violations=tuple(
                evolve(violation, count=self.violation_counts[name]) for name, violation in self.found.items()
            ),
            reached=reached,
            unreached=unreached(self.machine, reached),
            orbits=self.orbit_sum if self.orbits else None,
            convergence=converged,
            seconds=self.elapsed(),
        )

    def visit(self) -> None:
        for state in self.machine.initial():
            if self.number(state) == len(self.states):
                self.arrive(state, _NO_PARENT)
        while self.bounds[-1] < len(self.states):
            start, end = self.bounds[-1], len(self.states)
            self.bounds.append(end)
            self.expanding = start
            if len(self.bounds) - 1 == self.limits.depth:
                raise _Finished(Cut.DEPTH)
            try:
                self.expand(start, end)
            except Exception as error:
                if not isinstance(error, _Finished):
                    self.tell_where(error)
                raise

    def expand(self, start: int, end: int) -> None:
        """Take every step out of one level."""
        successors, states, counts, is_fair = self.machine.successors, self.states, self.counts, self.machine.is_fair
        known, number, edges = self.known, self.number if self.orbits else None, self.edges
        step_invariants, next_number = self.step_invariants, len(self.states)
        for index in range(start, end):
            if not index % _INTERVAL:
                self.pause(index)
            state = states[index]
            self.expanding, action = index, None
            for action, after in successors(state):
                tally = counts[type(action)]
                tally.taken += 1
                if tally.last != index:
                    tally.last = index
                    tally.enabled += 1
                for name, holds in step_invariants:
                    if not holds(state, action, after):
                        self.step_violated(name, index, Step(action, after))
                target = known.setdefault(after, next_number) if number is None else number(after)
                if edges is not None and is_fair(state, action, after):
                    edges.add(target)
                if target == next_number:
                    tally.found += 1
                    self.arrive(after, index)
                    next_number += 1
            if action is None:
                self.terminal += 1
            if edges is not None:
                edges.close()

    def number(self, state: S) -> int:
        """The number of `state`, or of its orbit: that of the next one if it is met for the first time."""
        if self.orbits is None:
            return self.known.setdefault(state, len(self.states))
        orbit, size = self.orbits.of(state)
        number = self.known.setdefault(orbit, len(self.states))
        if number == len(self.states):
            self.orbit_sum += size
        return number

    def arrive(self, state: S, parent: int) -> None:
        """Keep a new state and check what must hold in it."""
        if len(self.states) == self.capacity:
            raise _Finished(Cut.STATES)
        self.states.append(state)
        self.parents.append(parent)
        for name, holds in self.invariants:
            if not holds(state):
                self.violated(name, self.trace(len(self.states) - 1) if name not in self.found else None)
        if self.pending:
            self.check_goals(state)

    def check_goals(self, state: S) -> None:
        for goal in [goal for goal, holds in self.pending.items() if holds(state)]:
            self.goals[goal] = len(self.states) - 1
            del self.pending[goal]

    def step_violated(self, name: str, index: int, step: Step[S]) -> None:
        self.violated(name, self.trace(index, step) if name not in self.found else None)

    def violated(self, name: str, trace: Trace[S] | None) -> None:
        """Count the violation; `trace` is given for the first of its name."""
        if trace is not None:
            self.found[name] = Violation(name, self.machine.explain(name, trace.last), trace)
        self.violation_counts[name] = self.violation_counts.get(name, 0) + 1
        every = len(self.invariants) + len(self.step_invariants)
        if self.stop is Stop.FIRST or (self.stop is Stop.EACH and len(self.found) == every):
            raise _Finished(Cut.VIOLATION)

    def converged(self) -> Convergence[S] | None:
        """Check the goals, unless there is something worse to mend first."""
        if self.edges is None or self.found:
            return None
        renamings = self.orbits.renamings if self.orbits else ()
        return convergence(self.machine, self.edges.bottom_components(), self.states, self.trace, renamings)

    def trace(self, index: int, *more: Step[S]) -> Trace[S]:
        """The way by which the state at `index` was reached, then `more`."""
        path = [index]
        while self.parents[path[-1]] != _NO_PARENT:
            path.append(self.parents[path[-1]])
        states = [self.states[place] for place in reversed(path)]
        steps = [self.step_between(before, after) for before, after in pairwise(states)]
        return Trace(states[0], (*steps, *more))

    def step_between(self, before: S, after: S) -> Step[S]:
        action = next(action for action, state in self.machine.successors(before) if state == after)
        return Step(action, after)

    def tell_where(self, error: Exception) -> None:
        """A rule or an invariant that raises is a mistake in the machine: say how to get there."""
        actions = ", ".join(map(plain, self.trace(self.expanding).actions)) or "none"
        error.add_note(f"while {self.machine.name} took steps from the state after these actions: {actions}")

    def levels(self) -> tuple[int, ...]:
        sizes = [end - start for start, end in pairwise([*self.bounds, len(self.states)])]
        return tuple(size for size in sizes if size)

    def elapsed(self) -> float | None:
        return self.clock() - self.started if self.clock else None

    def pause(self, expanded: int) -> None:
        """Between two states: report, and stop if the time is up."""
        self.report(expanded)
        limit, elapsed = self.limits.seconds, self.elapsed()
        if limit is not None and elapsed is not None and elapsed >= limit:
            raise _Finished(Cut.SECONDS)

    def report(self, expanded: int) -> None:
        if self.progress is not None:
            distinct = len(self.states)
            depth = len(self.bounds) - 1
            self.progress(Progress(distinct, self.counts.taken, depth, distinct - expanded, self.elapsed()))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """States hold no cycles, so looking for cycles among millions of them is time lost."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

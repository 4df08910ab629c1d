"""What every search does, however it expands a level: levels, traces, violations, limits and what is told of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, TypeVar

from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.convergence import Convergence
from tidegauge.spec.kernel.coverage import Counts, unreached
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.exploration import Engine, Exploration
from tidegauge.spec.kernel.leads_to import Responses, responses
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.progress import Clock, Cut, Limits, OnProgress, Progress, Stop
from tidegauge.spec.kernel.statistics import Statistics, by_depth
from tidegauge.spec.kernel.storage import CheckpointError
from tidegauge.spec.kernel.traces import Step, Trace, Violation, violation_by

S = TypeVar("S")

NO_PARENT = -1
INTERVAL = 4096
"""States expanded between two looks at the clock."""


class Finished(Exception):  # noqa: N818 - how a search ends, not an error
    """Unwinds the search; says why."""

    def __init__(self, cut: Cut) -> None:
        super().__init__(cut)
        self.cut = cut


class Search(ABC, Generic[S]):
    """One run: the states so far, by their numbers, and the tallies."""

    engine: Engine
    renamings: Sequence[tuple[int, ...]] = ()
    """With symmetry: by which a state stands for its orbit."""
    asked: int | None = None
    """How often the machine ran, where that is counted."""
    workers: int = 1
    """Processes that the states are spread over."""

    def __init__(
        self,
        machine: Machine[S],
        limits: Limits,
        stop: Stop,
        clock: Clock | None,
        progress: OnProgress | None,
        started: float | None = None,
        *,
        converges: bool = False,
    ) -> None:
        self.converges = converges
        self.machine, self.limits, self.stop = machine, limits, stop
        self.clock, self.progress = clock, progress
        self.bounds = [0]
        self.out_degrees: Counter[int] = Counter()
        """By number of steps: the states that were expanded to the last of theirs."""
        self.orbit_sizes: Counter[int] = Counter()
        self.found_by_level: list[list[int]] = []
        """By level what each class of action has found by its end."""
        self.counts = Counts(machine)
        self.goals: dict[str, int] = {}
        self.found: dict[str, Violation[S]] = {}
        self.violation_counts: dict[str, int] = {}
        self.invariants = list(machine.invariants.items())
        self.step_invariants = list(machine.step_invariants.items())
        self.expanding = 0
        self.started = started if started is not None else clock() if clock else 0.0
        self.earlier = 0.0
        """Seconds of the searches that this one goes on from."""

    # --- what an engine does -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def states(self) -> Sequence[S]:
        """Those that were reached, by number."""

    @property
    @abstractmethod
    def distinct(self) -> int:
        """How many they are."""

    @abstractmethod
    def parent(self, index: int) -> int:
        """The state from which another one was reached first; NO_PARENT for an initial one."""

    @abstractmethod
    def begin(self) -> None:
        """Reach the initial states."""

    @abstractmethod
    def expand(self, start: int, end: int) -> None:
        """Take every step out of one level."""

    @abstractmethod
    def orbit_sum(self) -> int | None:
        """With symmetry: the states in all orbits."""

    def kept_bytes(self) -> int | None:
        """The memory that the states take, where that is counted."""
        return None

    def resume(self) -> int | None:
        """Go on from a checkpoint, if there is one: the next state to be expanded."""
        return None

    @abstractmethod
    def converged(self) -> Convergence[S] | None:
        """Check the goals, unless there is something worse to mend first."""

    # --- what all of them do -----------------------------------------------------------------------------------------

    def run(self) -> Exploration[S]:
        cut: Cut | None = None
        try:
            self.visit()
        except Finished as finished:
            cut = finished.cut
        self.report(self.distinct if cut is None else self.expanding)
        reached = {goal: self.trace(index) for goal, index in self.goals.items()}
        converged = self.converged()
        return Exploration(
            machine=self.machine.name,
            engine=self.engine,
            cut=cut,
            distinct=self.distinct,
            generated=self.counts.taken,
            levels=self.levels(),
            terminal=self.out_degrees[0],
            coverage=self.counts.summary(),
            violations=tuple(
                evolve(violation, count=self.violation_counts[name]) for name, violation in self.found.items()
            ),
            reached=reached,
            unreached=unreached(self.machine, reached),
            orbits=self.orbit_sum(),
            convergence=converged,
            responses=self.responded(cut),
            statistics=self.statistics(),
            seconds=self.elapsed(),
            asked=self.asked,
            bytes=self.kept_bytes(),
            workers=self.workers,
        )

    def responded(self, cut: Cut | None) -> Responses[S] | None:
        """Check what the machine owes, unless there is something worse to mend first."""
        if not self.converges or self.found or cut is not None or not self.machine.leads_to:
            return None
        return self.responses()

    def responses(self) -> Responses[S]:
        """What becomes of what the machine owes, all states having been reached."""
        return responses(self.machine, self.states, self.trace, self.renamings)

    def visit(self) -> None:
        at = self.resume()
        if at is None:
            self.begin()
        else:
            self._expand(at, self.bounds[-1])
        while self.bounds[-1] < self.distinct:
            start, end = self.bounds[-1], self.distinct
            self.bounds.append(end)
            self.expanding = start
            if len(self.bounds) - 1 == self.limits.depth:
                raise Finished(Cut.DEPTH)
            self._expand(start, end)

    def _expand(self, start: int, end: int) -> None:
        try:
            self.expand(start, end)
        except Exception as error:
            if not isinstance(error, Finished):
                self.tell_where(error)
            raise
        finally:
            self.found_by_level.append([tally.found for tally in self.counts.values()])

    def saved(self, at: int) -> dict[str, Any]:
        """What every search has to save where `at` is the next state to be expanded."""
        return {
            "at": at,
            "bounds": self.bounds,
            "out-degrees": dict(self.out_degrees),
            "orbit sizes": dict(self.orbit_sizes),
            "found": self.found_by_level,
            "goals": self.goals,
            "violated": {name: violation.trace for name, violation in self.found.items()},
            "violations": self.violation_counts,
            "elapsed": self.elapsed(),
        }

    def reopen(self, saved: Mapping[str, Any]) -> int:
        """Go on from what was saved: gives the next state to be expanded. Raises CheckpointError."""
        depth = len(saved["bounds"]) - 1
        if self.limits.depth is not None and depth >= self.limits.depth:
            raise CheckpointError(
                f"it expands level {depth}, and the limit is {self.limits.depth} levels: give a deeper limit, or none"
            )
        self.bounds, self.goals, self.found_by_level = saved["bounds"], saved["goals"], saved["found"]
        self.out_degrees, self.orbit_sizes = Counter(saved["out-degrees"]), Counter(saved["orbit sizes"])
        self.found = {name: violation_by(self.machine, name, trace) for name, trace in saved["violated"].items()}
        self.violation_counts = saved["violations"]
        self.earlier = saved["elapsed"] or 0.0
        self.expanding = saved["at"]
        return self.expanding

    def step_violated(self, name: str, index: int, step: Step[S]) -> None:
        self.violated(name, self.trace(index, step) if name not in self.found else None)

    def violated(self, name: str, trace: Trace[S] | None) -> None:
        """Count the violation; `trace` is given for the first of its name."""
        if trace is not None:
            self.found[name] = violation_by(self.machine, name, trace)
        self.violation_counts[name] = self.violation_counts.get(name, 0) + 1
        every = len(self.invariants) + len(self.step_invariants)
        if self.stop is Stop.FIRST or (self.stop is Stop.EACH and len(self.found) == every):
            raise Finished(Cut.VIOLATION)

    def trace(self, index: int, *more: Step[S]) -> Trace[S]:
        """The way by which the state at `index` was reached, then `more`."""
        path = [index]
        while (parent := self.parent(path[-1])) != NO_PARENT:
            path.append(parent)
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

    def statistics(self) -> Statistics:
        names = [kind.__name__ for kind in self.counts]
        orbits = dict(self.orbit_sizes) if self.orbit_sum() is not None else {}
        return Statistics(dict(+self.out_degrees), by_depth(names, self.found_by_level), orbits)

    def levels(self) -> tuple[int, ...]:
        sizes = [end - start for start, end in pairwise([*self.bounds, self.distinct])]
        return tuple(size for size in sizes if size)

    def elapsed(self) -> float | None:
        return self.earlier + self.clock() - self.started if self.clock else None

    def pause(self, expanded: int) -> None:
        """Between two states: report, and stop if the time is up."""
        self.report(expanded)
        limit, elapsed = self.limits.seconds, self.elapsed()
        if limit is not None and elapsed is not None and elapsed - self.earlier >= limit:
            raise Finished(Cut.SECONDS)

    def report(self, expanded: int) -> None:
        if self.progress is not None:
            self.progress(self.progressed(expanded, self.counts.taken))

    def progressed(self, expanded: int, taken: int) -> Progress:
        """Where the search stands when so many states have been expanded and so many steps taken."""
        levels = tuple(end - start for start, end in pairwise(self.bounds))
        return Progress(self.distinct, taken, len(levels), self.distinct - expanded, self.elapsed(), levels)

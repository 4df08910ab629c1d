"""The plain engine: it runs the machine in every state, and keeps every state. It is the oracle of the fast one.

A state is kept once, with the index of the state that it was reached from; actions are not kept, since the machine
gives them again when a trace is asked for. A million states thus cost little more than the states themselves.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import TypeVar

from tidegauge.spec.kernel.components import Edges
from tidegauge.spec.kernel.convergence import Convergence, convergence
from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.kernel.leads_to import Responses, responses
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.progress import Clock, Cut, Limits, OnProgress, Stop
from tidegauge.spec.kernel.searching import INTERVAL, NO_PARENT, Finished, Search
from tidegauge.spec.kernel.steps import Steps
from tidegauge.spec.kernel.symmetry import Orbits
from tidegauge.spec.kernel.traces import Step

S = TypeVar("S")


class PlainSearch(Search[S]):
    """A search that keeps the states as they are."""

    engine = Engine.PLAIN

    def __init__(
        self,
        machine: Machine[S],
        limits: Limits,
        stop: Stop,
        clock: Clock | None,
        progress: OnProgress | None,
        *,
        symmetry: bool = False,
        converges: bool = False,
    ) -> None:
        super().__init__(machine, limits, stop, clock, progress, converges=converges)
        self.orbits = Orbits(machine) if symmetry else None
        self.renamings = self.orbits.renamings if self.orbits else ()
        self.edges = Edges() if converges and machine.converges else None
        follows = converges and machine.leads_to and not symmetry
        self.steps = Steps() if follows else None
        self._states: list[S] = []
        self.parents = array("q")
        self.known: dict[object, int] = {}
        """The number of each state, or of its orbit."""
        self.pending = dict(machine.sometimes)
        self.capacity = limits.states or sys.maxsize

    @property
    def states(self) -> Sequence[S]:
        return self._states

    @property
    def distinct(self) -> int:
        return len(self._states)

    def parent(self, index: int) -> int:
        return self.parents[index]

    def orbit_sum(self) -> int | None:
        return sum(size * count for size, count in self.orbit_sizes.items()) if self.orbits else None

    def begin(self) -> None:
        for state in self.machine.initial():
            if self.number(state) == len(self._states):
                self.arrive(state, NO_PARENT)

    def expand(self, start: int, end: int) -> None:
        successors, states, counts, is_fair = self.machine.successors, self._states, self.counts, self.machine.is_fair
        known, number, edges = self.known, self.number if self.orbits else None, self.edges
        step_invariants, next_number, out_degrees = self.step_invariants, len(self._states), self.out_degrees
        followed = self.steps
        for index in range(start, end):
            if not index % INTERVAL:
                self.pause(index)
            state = states[index]
            self.expanding, steps = index, 0
            for steps, (action, after) in enumerate(successors(state), 1):  # noqa: B007 - how many they were
                tally = counts[type(action)]
                tally.taken += 1
                if tally.last != index:
                    tally.last = index
                    tally.enabled += 1
                for name, holds in step_invariants:
                    if not holds(state, action, after):
                        self.step_violated(name, index, Step(action, after))
                target = known.setdefault(after, next_number) if number is None else number(after)
                if edges is not None or followed is not None:
                    fair = is_fair(state, action, after)
                    if fair and edges is not None:
                        edges.add(target)
                    if followed is not None:
                        followed.add(action, target, fair)
                if target == next_number:
                    tally.found += 1
                    self.arrive(after, index)
                    next_number += 1
            out_degrees[steps] += 1
            if edges is not None:
                edges.close()
            if followed is not None:
                followed.close()

    def number(self, state: S) -> int:
        """The number of `state`, or of its orbit: that of the next one if it is met for the first time."""
        if self.orbits is None:
            return self.known.setdefault(state, len(self._states))
        orbit, size = self.orbits.of(state)
        number = self.known.setdefault(orbit, len(self._states))
        if number == len(self._states):
            self.orbit_sizes[size] += 1
        return number

    def arrive(self, state: S, parent: int) -> None:
        """Keep a new state and check what must hold in it."""
        if len(self._states) == self.capacity:
            raise Finished(Cut.STATES)
        self._states.append(state)
        self.parents.append(parent)
        for name, holds in self.invariants:
            if not holds(state):
                self.violated(name, self.trace(len(self._states) - 1) if name not in self.found else None)
        if self.pending:
            self.check_goals(state)

    def check_goals(self, state: S) -> None:
        for goal in [goal for goal, holds in self.pending.items() if holds(state)]:
            self.goals[goal] = len(self._states) - 1
            del self.pending[goal]

    def converged(self) -> Convergence[S] | None:
        if self.edges is None or self.found:
            return None
        return convergence(self.machine, self.edges.bottom_components(), self._states, self.trace, self.renamings)

    def responses(self) -> Responses[S]:
        if self.steps is None:
            return super().responses()
        has_come = {name: bytearray(map(one.then, self._states)) for name, one in self.machine.leads_to.items()}
        names = self.steps.left_open(has_come)
        return responses(self.machine, self._states, self.trace, names=names)

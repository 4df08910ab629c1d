"""Convergence: something good happens, however a behaviour went on before.

Invariants say that nothing bad happens; a machine that does nothing keeps them all. A machine's `converges` names what
is to hold *for good* in the end. The question is asked of the graph whose edges are the *fair* steps: all that happens
if it stays possible again and again. Perturbations and the choices of clients and operators are left out, since they
may stop happening at any moment. What is assumed is thus

* that from some moment on nothing but fair steps are taken (each harm is bounded), and
* *strong fairness* of each fair step: it is taken again and again in a state that is come back to again and again.

Such a behaviour ends in a *bottom component* of that graph: states which all reach each other, and out of which no fair
step leads. It meets each of them again and again. So a goal is reached for good in every such behaviour if, and only
if, it holds in every state of every bottom component. A state without fair steps is a component by itself.

A perturbation whose bound is spent leads out of nothing, and one whose bound is not spent rescues nothing: neither is
an edge. What heals, such as a restart, is fair and never bounded; where it may fail to come, it is not fair in that
model. A goal says under which conditions it is meant: if a candidate is live, the partition has a leader.

A failure is a *lasso*: a way to a state in which the goal is false, and a cycle of fair steps through that state, or no
step at all where nothing fair can happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import attrs

from tidegauge.spec.kernel.components import ELSEWHERE, Edges
from tidegauge.spec.kernel.lasso import Lasso
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.symmetry import AsymmetryError
from tidegauge.spec.kernel.traces import Step, Trace

S = TypeVar("S")


@attrs.frozen
class Convergence(Generic[S]):
    """What became of a machine's goals in the bottom components that a search has seen whole."""

    goals: tuple[str, ...]
    components: int
    states: int
    """In all of them."""
    lassos: tuple[Lasso[S], ...]
    """A shortest way into a failure of each goal that fails, in the machine's order of goals."""

    @property
    def holds(self) -> bool:
        return not self.lassos


def fair_successors(machine: Machine[S], state: S) -> Iterator[Step[S]]:
    """The fair steps from a state."""
    for action, after in machine.successors(state):
        if machine.is_fair(state, action, after):
            yield Step(action, after)


def cycle_through(machine: Machine[S], state: S) -> tuple[Step[S], ...]:
    """A shortest cycle of fair steps from `state` back to it; no step where there is none."""
    reached: dict[S, tuple[S, Step[S]]] = {}
    queue = [state]
    for place in queue:
        for step in fair_successors(machine, place):
            if step.state == state:
                back, at = [step], place
                while at != state:
                    at, earlier = reached[at]
                    back.append(earlier)
                return tuple(reversed(back))
            if step.state not in reached:
                reached[step.state] = place, step
                queue.append(step.state)
    return ()


class BottomComponents(Generic[S]):
    """The bottom components of a machine, found from any state. What was found is kept for the next question."""

    def __init__(self, machine: Machine[S]) -> None:
        self.machine = machine
        self._found: dict[S, tuple[S, ...]] = {}

    def of(self, state: S) -> tuple[S, ...]:
        """The states of the bottom component that `state` is in; () if it is in none."""
        if state not in self._found:
            self._search(state)
        return self._found[state]

    def _search(self, state: S) -> None:
        """Find the component of every state to which fair steps lead from this one.

        No state that was asked about before is in a bottom component with one that was not.
        """
        numbers = {state: 0}
        states = [state]
        edges = Edges()
        for place in states:
            for step in fair_successors(self.machine, place):
                if step.state in self._found:
                    edges.add(ELSEWHERE)
                    continue
                target = numbers.setdefault(step.state, len(states))
                if target == len(states):
                    states.append(step.state)
                edges.add(target)
            edges.close()
        self._found.update(dict.fromkeys(states, ()))
        for members in edges.bottom_components():
            component = tuple(states[number] for number in members)
            self._found.update(dict.fromkeys(component, component))

    def lasso(self, goal: str, stem: Trace[S]) -> Lasso[S] | None:
        """The failure of a goal at the end of `stem`; None unless it is false there, in a bottom component."""
        holds = self.machine.converges[goal]
        component = () if holds(stem.last) else self.of(stem.last)
        if not component:
            return None
        values = self.machine.explain(goal, stem.last)
        false_in = sum(not holds(state) for state in component)
        return Lasso(goal, values, stem, cycle_through(self.machine, stem.last), len(component), false_in)


def convergence(
    machine: Machine[S],
    components: Iterable[Sequence[int]],
    states: Sequence[S],
    trace: Callable[[int], Trace[S]],
    renamings: Sequence[tuple[int, ...]] = (),
) -> Convergence[S]:
    """Check the goals in the bottom components of a search: `trace` gives the way to a state of that number.

    With symmetry a state stands for its orbit, by all `renamings` (see `first_failures`).
    """

    def failures(numbers: Sequence[int]) -> dict[str, int]:
        return first_failures(machine, ((number, states[number]) for number in numbers), renamings)

    return converged(machine, components, failures, trace)


def converged(
    machine: Machine[S],
    components: Iterable[Sequence[int]],
    failures: Callable[[Sequence[int]], Mapping[str, int]],
    trace: Callable[[int], Trace[S]],
) -> Convergence[S]:
    """What became of the goals; `failures` says of states in which of them each goal is false first."""
    members: list[int] = []
    count = 0
    for component in components:
        count += 1
        members += component
    first = failures(members)
    bottom = BottomComponents(machine)
    lassos = [bottom.lasso(goal, trace(first[goal])) for goal in machine.converges if goal in first]
    told = tuple(lasso for lasso in lassos if lasso is not None)
    return Convergence(tuple(machine.converges), count, len(members), told)


def first_failures(
    machine: Machine[S], states: Iterable[tuple[int, S]], renamings: Sequence[tuple[int, ...]] = ()
) -> dict[str, int]:
    """The least number of a state, of these, in which each goal is false.

    The orbits of a bottom component are a bottom component of orbits, and it is enough to ask one state of each about a
    goal that does not tell them apart. Raises AsymmetryError for a goal that does.
    """
    goals, first = machine.converges, dict[str, int]()
    for number, state in states:
        for goal, holds in goals.items():
            truth = holds(state)
            if not truth:
                first[goal] = min(number, first.get(goal, number))
            if any(holds(machine.permute(state, renaming)) is not truth for renaming in renamings):
                raise AsymmetryError(
                    f"the goal {goal!r} of {machine.name} tells interchangeable processes apart: "
                    "explore it without symmetry"
                )
    return first

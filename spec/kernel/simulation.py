"""Random walks over a machine: far deeper than exhaustive search goes, and a source of traces for tests.

A walk is a function of the machine, the seed and the walk's number, and of nothing else: any one of them can be taken
again alone, in any process. To be unlike one another, walks are drawn by *swarm* (Groce et al., ISSTA 2012): each gives
every kind of action a weight of its own, often zero, and within a kind all choices are equally likely. So a kind with
many choices doesn't drown the others, and some walks go long without a crash while others do little else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from random import Random
from typing import Generic, TypeVar

import attrs

from tidegauge.spec.kernel.coverage import ActionCoverage, Counts, never_enabled, unreached
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.traces import Behaviour, Trace, Violation
from tidegauge.spec.kernel.walking import drawn_actions, random_of_walk

S = TypeVar("S")

_WEIGHTS = (0, 1, 1, 4)


@attrs.frozen
class Walk(Generic[S]):
    """One random behaviour."""

    number: int
    trace: Trace[S]
    violation: Violation[S] | None
    """What ended the walk, if an invariant is violated."""


@attrs.frozen
class Simulation(Generic[S]):
    """What a number of walks found together."""

    machine: str
    seed: int
    walks: int
    steps: int
    distinct: int
    coverage: tuple[ActionCoverage, ...]
    violations: Mapping[str, Walk[S]]
    """The first walk that violated each invariant that is violated."""
    reached: Mapping[str, Trace[S]]
    """The trace of the first walk that reached each goal, up to there."""
    unreached: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.violations

    @property
    def never_enabled(self) -> tuple[str, ...]:
        return never_enabled(self.coverage)


def walk(machine: Machine[S], seed: int, number: int = 0, *, length: int = 100, swarm: bool = True) -> Walk[S]:
    """Walk `number` of `seed`: at most `length` steps, fewer if nothing more can happen or an invariant is violated."""
    rng = random_of_walk(seed, number)
    strategy = Swarm({kind: rng.choice(_WEIGHTS) if swarm else 1 for kind in machine.action_types})
    behaviour = Behaviour(machine, rng.choice(list(machine.initial())))
    for action in drawn_actions(behaviour, strategy, rng, ended=lambda b: b.violated is not None or b.taken >= length):
        behaviour.take(action)
    return Walk(number, behaviour.trace, behaviour.violation)


@attrs.frozen
class Swarm:
    """Draws a kind of action by weight, then one of that kind; any, if all that can happen has weight zero."""

    weights: Mapping[type[Action], int]

    def __call__(self, behaviour: Behaviour[S], rng: Random) -> tuple[Action] | None:
        kinds: dict[type[Action], list[Action]] = {}
        for action in behaviour.machine.actions(behaviour.state):
            kinds.setdefault(type(action), []).append(action)
        if not kinds:
            return None
        allowed = [self.weights[kind] for kind in kinds]
        kind = rng.choices(list(kinds), allowed if any(allowed) else None)[0]
        return (rng.choice(kinds[kind]),)


def walks(machine: Machine[S], seed: int, count: int, *, length: int = 100, swarm: bool = True) -> Iterator[Walk[S]]:
    """The first `count` walks of `seed`, one at a time."""
    return (walk(machine, seed, number, length=length, swarm=swarm) for number in range(count))


def simulate(machine: Machine[S], seed: int, count: int, *, length: int = 100, swarm: bool = True) -> Simulation[S]:
    """Take `count` walks and sum up: coverage, the first violation of each invariant, the goals that were reached."""
    counts, seen, steps = Counts(machine), set[S](), 0
    violations: dict[str, Walk[S]] = {}
    reached: dict[str, Trace[S]] = {}
    for taken in walks(machine, seed, count, length=length, swarm=swarm):
        if taken.violation is not None:
            violations.setdefault(taken.violation.invariant, taken)
        _note_goals(machine, taken.trace, reached)
        seen.add(taken.trace.initial)
        for before, action, after in taken.trace.transitions():
            _count_enabled(counts, machine, before, steps)
            steps += 1
            counts[type(action)].taken += 1
            counts[type(action)].found += after not in seen
            seen.add(after)
    missed = unreached(machine, reached)
    return Simulation(machine.name, seed, count, steps, len(seen), counts.summary(), violations, reached, missed)


def _count_enabled(counts: Counts, machine: Machine[S], state: S, step: int) -> None:
    for action in machine.actions(state):
        tally = counts[type(action)]
        tally.enabled += tally.last != step
        tally.last = step


def _note_goals(machine: Machine[S], trace: Trace[S], reached: dict[str, Trace[S]]) -> None:
    for goal, holds in machine.sometimes.items():
        if goal in reached:
            continue
        place = next((index for index, state in enumerate(trace.states) if holds(state)), None)
        if place is not None:
            reached[goal] = Trace(trace.initial, trace.steps[:place])


def diverse(traces: Iterable[Trace[S]]) -> Iterator[Trace[S]]:
    """Those traces, in the order given, in which some kind of action follows another as in none before: test cases."""
    seen: set[tuple[type[Action], ...]] = set()
    for trace in traces:
        kinds = [type(action) for action in trace.actions]
        pairs = {(kind,) for kind in kinds} | set(pairwise(kinds))
        if not pairs <= seen:
            seen |= pairs
            yield trace

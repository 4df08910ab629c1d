"""A search by several shares, each of which owns the states that hash to it: the same states, in the same order.

The search itself knows of each state only the step that led there first, in eight bytes, and who owns it. From that it
gives numbers, decides where a search ends, and rebuilds traces. All else happens in the shares
(`spec.kernel.shared.share`), which are processes (`spec.kernel.shared.processes`), or stand in one (in tests).

A level is expanded in parts, since a level may have ten times as many states as all before it, and what is taken behind
the end of a search is taken in vain. What happens in a part is put in the order in which the plain engine would have
met it, so that a violation, a limit or a rule that raises ends the search at the same step, with the same counts,
whatever the number of shares.
"""

from __future__ import annotations

import pickle
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import accumulate, islice, pairwise
from typing import Any, Protocol, TypeVar

import attrs

from tidegauge.spec.kernel.components import Edges
from tidegauge.spec.kernel.convergence import Convergence, converged
from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.kernel.leads_to import Responses, responded
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.progress import Clock, Cut, Limits, OnProgress, Stop
from tidegauge.spec.kernel.searching import Finished, Search
from tidegauge.spec.kernel.shared.parcels import loaded_error
from tidegauge.spec.kernel.shared.share import Expanded, Judged, Keeps, Tallies, kept_steps, place_of, state_of
from tidegauge.spec.kernel.state_sequence import StateSequence
from tidegauge.spec.kernel.steps import Steps
from tidegauge.spec.kernel.traces import Step, Trace

__all__ = ["LEAST", "MOST", "Crew", "DiedError", "OrderError", "SharedSearch", "Watch"]

S = TypeVar("S")

Watch = Callable[[int, int, int], bool]
"""Called with a share, the states that it has expanded in this part and the steps taken: whether the time is up."""

MOST, LEAST = 4096, 128
"""States of a part, by the number of shares: so many that shares seldom wait for each other; near a limit so few."""


class Crew(Protocol):
    """All shares of a search."""

    count: int

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]], watch: Watch | None = None) -> list[Any]:
        """Call a method of each share, with its own arguments; returns what each gives."""


class DiedError(RuntimeError):
    """A worker that is gone; `at` is the state that it was expanding, -1 for none."""

    def __init__(self, told: str, at: int) -> None:
        super().__init__(told)
        self.at = at


class OrderError(RuntimeError):
    """A machine that gives the steps of equal states in different orders."""


class _Phase(IntEnum):
    """What may happen upon one step, in this order."""

    STEP_VIOLATED = 0
    RAISED = 1
    FULL = 2
    VIOLATED = 3
    RAISED_IN_STATE = 4


@attrs.frozen(order=True)
class _Event:
    step: int
    phase: _Phase
    invariant: int = 0
    error: bytes = b""


class SharedSearch(Search[S]):
    """A search whose states are with the shares of a crew."""

    engine = Engine.PLAIN

    def __init__(
        self,
        machine: Machine[S],
        limits: Limits,
        stop: Stop,
        clock: Clock | None,
        progress: OnProgress | None,
        crew: Crew,
        *,
        symmetry: bool = False,
        converges: bool = False,
        most: int = MOST,
    ) -> None:
        super().__init__(machine, limits, stop, clock, progress, converges=converges)
        self.crew = crew
        self.workers = crew.count
        self.pending = list(machine.sometimes)
        self._steps: array[int] = array("q")
        """By state the first step there."""
        self._owners: array[int] = array("H")
        self._closed = 0
        """States below have been expanded: of them all fair steps are known."""
        self._most, self._least = most * crew.count, min(LEAST, most) * crew.count
        self._found_by_each = float(self._most)
        """New states of each one that was expanded, in the last part."""
        self._symmetry = symmetry
        self._is_checked = True
        """Whether traces are held against the states of the shares."""
        self._states = StateSequence[S](lambda: self.distinct, lambda numbers: [*self.told(numbers).values()])

    @property
    def states(self) -> Sequence[S]:
        return self._states

    @property
    def distinct(self) -> int:
        return len(self._steps)

    def parent(self, index: int) -> int:
        return state_of(self._steps[index])

    def orbit_sum(self) -> int | None:
        return sum(size * count for size, count in self.orbit_sizes.items()) if self._symmetry else None

    # --- a level -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._take("begin", (), 0, None)

    def expand(self, start: int, end: int) -> None:
        while start < end:
            until = min(end, start + self._most_at_once())
            self._expand_part(start, until)
            start = until

    def _most_at_once(self) -> int:
        """How many states to expand before new ones are numbered: about as many as lead to the limit of states."""
        if self.limits.states is None:
            return self._most
        lacking = self.limits.states + 1 - self.distinct
        expected = lacking / max(self._found_by_each, 1 / self._most)
        return max(self._least, min(self._most, int(expected)))

    def _expand_part(self, start: int, end: int) -> None:
        watch, known = _Watching(self, start), self.distinct
        try:
            self._take("expand", (end,), end, watch)
        except DiedError as error:
            self.expanding = max(error.at, 0)
            if error.at < 0:
                error.add_note(f"while {self.machine.name} was explored on level {len(self.bounds)}")
            raise
        if watch.is_over:
            self.expanding = start + watch.all_expanded
            raise Finished(Cut.SECONDS)
        self._found_by_each = (self.distinct - known) / (end - start)

    def _take(self, turn: str, arguments: tuple[int, ...], end: int, watch: _Watching | None) -> None:
        """All turns of a part, whose states are below `end`."""
        crew, shares = self.crew, range(self.crew.count)
        expanded: list[Expanded] = crew.call(turn, [arguments] * crew.count, watch)
        placed = crew.call("place", [([each.parcels[share] for each in expanded],) for share in shares])
        numbers = self._numbered(placed)
        pending = tuple(self.pending)
        judged: list[Judged] = crew.call("number", [(each.tobytes(), pending) for each in numbers])
        for event in self._events(expanded, judged):
            try:
                self._happens(event)
            except Finished:
                self._settle(judged, event, end, watch)
                raise
        self._settle(judged, None, end, watch)

    def _numbered(self, placed: Sequence[bytes]) -> list[array[int]]:
        """Number the new states in the order of the steps to them: by share, the numbers of its own."""
        count = self.crew.count
        arrived: list[int] = []
        for share, packed in enumerate(placed):
            steps: array[int] = array("q")
            steps.frombytes(packed)
            arrived += [step * count + share for step in steps]
        arrived.sort()
        numbers: list[array[int]] = [array("q") for _ in placed]
        for number, pair in enumerate(arrived, len(self._steps)):
            numbers[pair % count].append(number)
        self._owners.extend(pair % count for pair in arrived)
        self._steps.extend(pair // count for pair in arrived)
        return numbers

    def _events(self, expanded: Sequence[Expanded], judged: Sequence[Judged]) -> list[_Event]:
        """What happens in a part, in the order in which one process meets it."""
        events = [_Event(step, _Phase.STEP_VIOLATED, place) for each in expanded for step, place in each.violations]
        events += [_Event(each.error[0], _Phase.RAISED, 0, each.error[1]) for each in expanded if each.error]
        events += [_Event(step, _Phase.VIOLATED, place) for each in judged for step, place in each.violations]
        events += [_Event(each.error[0], _Phase.RAISED_IN_STATE, 0, each.error[1]) for each in judged if each.error]
        capacity = self.limits.states
        if capacity is not None and self.distinct > capacity:
            events.append(_Event(self._steps[capacity], _Phase.FULL))
        return sorted(events)

    def _happens(self, event: _Event) -> None:
        if state_of(event.step) >= 0:
            self.expanding = state_of(event.step)
        match event.phase:
            case _Phase.STEP_VIOLATED:
                name = self.step_invariants[event.invariant][0]
                self.violated(name, self._trace_of_step(event.step) if name not in self.found else None)
            case _Phase.FULL:
                raise Finished(Cut.STATES)
            case _Phase.VIOLATED:
                name = self.invariants[event.invariant][0]
                index = bisect_left(self._steps, event.step)
                self.violated(name, self.trace(index) if name not in self.found else None)
            case _:
                raise loaded_error(event.error)

    def _settle(self, judged: Sequence[Judged], last: _Event | None, end: int, watch: _Watching | None) -> None:
        """Count the part up to its last event, and forget the states behind it."""
        found_last = last is not None and last.phase >= _Phase.FULL
        step = None if last is None else last.step
        self._closed = end if step is None else max(state_of(step), 0)
        if watch is not None and watch.is_over:
            self._closed = watch.start
        told = [[each.told[share] for each in judged] for share in range(self.crew.count)]
        arguments = [(step, found_last, own) for own in told]
        tallies: list[Tallies] = self.crew.call("settle", arguments)
        for each in tallies:
            self.out_degrees.update(each.out_degrees)
            self.orbit_sizes.update(each.orbit_sizes)
            rows = zip(self.counts.values(), each.enabled, each.taken, each.found, strict=True)
            for tally, enabled, taken, found in rows:
                tally.enabled += enabled
                tally.taken += taken
                tally.found += found
        reached = self.distinct if step is None else bisect_left(self._steps, step)
        self._reach_goals(judged, reached)
        if last is not None:
            kept = bisect_right(self._steps, last.step) if last.phase is _Phase.VIOLATED else reached
            del self._steps[kept:], self._owners[kept:]

    def _reach_goals(self, judged: Sequence[Judged], end: int) -> None:
        """Note the goals that are reached in states below `end`, in the order in which they are."""
        first = [
            (min(numbers), goal)
            for goal in self.pending
            if (numbers := [each.goals[goal] for each in judged if goal in each.goals])
        ]
        for number, goal in sorted(first, key=lambda pair: pair[0]):
            if number < end:
                self.goals[goal] = number
                self.pending.remove(goal)

    # --- traces ------------------------------------------------------------------------------------------------------

    def trace(self, index: int, *more: Step[S]) -> Trace[S]:
        """The way to a state, by the steps alone. Raises OrderError where they do not lead there."""
        path = [self._steps[index]]
        while (state := state_of(path[-1])) >= 0:
            path.append(self._steps[state])
        path.reverse()
        initial = state_at = next(islice(self.machine.initial(), place_of(path[0]), None))
        steps: list[Step[S]] = []
        for step in path[1:]:
            taken = self._step_of(state_at, step)
            steps.append(taken)
            state_at = taken.state
        if self._is_checked and state_at != self.states[index]:
            raise self._unsteady()
        return Trace(initial, (*steps, *more))

    def _trace_of_step(self, step: int) -> Trace[S]:
        before = self.trace(state_of(step))
        return Trace(before.initial, (*before.steps, self._step_of(before.last, step)))

    def _step_of(self, state: S, step: int) -> Step[S]:
        for action, after in islice(self.machine.successors(state), place_of(step), None):
            return Step(action, after)
        raise self._unsteady()

    def _unsteady(self) -> OrderError:
        return OrderError(
            f"{self.machine.name} gives the steps of equal states in different orders: "
            "have it sort what it takes from sets, or explore it without workers"
        )

    def tell_where(self, error: Exception) -> None:
        if isinstance(error, DiedError) and error.at < 0:
            return
        self._is_checked = False  # the shares may be gone, or have states that they cannot tell
        super().tell_where(error)

    # --- in the end --------------------------------------------------------------------------------------------------

    def converged(self) -> Convergence[S] | None:
        if not self.converges or not self.machine.converges or self.found:
            return None
        return converged(self.machine, self._edges().bottom_components(), self._failures, self.trace)

    def _edges(self) -> Edges:
        """The fair steps of all shares, by the numbers of their states."""
        kept = self.crew.call("edges", [()] * self.crew.count)
        parts = [_by_state(array("I", degrees), array("I", targets)) for degrees, targets in kept]
        edges = Edges()
        for owner in self._owners[: self._closed]:
            edges.add_all(*next(parts[owner]))
            edges.close()
        return edges

    def _failures(self, numbers: Sequence[int]) -> dict[str, int]:
        first: dict[str, int] = {}
        for found in self.crew.call("failures", [(own,) for own in self._by_owner(numbers)]):
            for goal, number in found.items():
                first[goal] = min(number, first.get(goal, number))
        return first

    def responded(self, cut: Cut | None) -> Responses[S] | None:
        if not self.converges or self.found or cut is not None or not self.machine.leads_to:
            return None
        is_kept = kept_steps(self.machine, converges=True, symmetry=self._symmetry) is Keeps.ALL
        names = self._left_open() if is_kept else self.machine.leads_to
        return responded(self.machine, names, self._owed, self.trace)

    def _left_open(self) -> tuple[str, ...]:
        """What may be owed for ever, by the steps of all shares."""
        steps, numbers = Steps(), dict[Action, int]()
        parts: list[Iterator[list[array[int]]]] = []
        for packed_degrees, packed_targets, packed_actions, packed in self.crew.call("steps", [()] * self.crew.count):
            own = [numbers.setdefault(action, len(numbers)) for action in pickle.loads(packed)]
            own += [-1 - number for number in reversed(own)]  # of -1 - n it is -1 less that of n
            targets = array("I", packed_targets)
            actions = array("q", map(own.__getitem__, array("q", packed_actions)))
            parts.append(_by_state(array("I", packed_degrees), actions, targets))
        for owner in self._owners:
            steps.add_all(*next(parts[owner]))
            steps.close()
        told: list[dict[str, bytes]] = self.crew.call("has_come", [()] * self.crew.count)
        has_come: dict[str, bytearray] = {}
        for name in self.machine.leads_to:
            come = [iter(each[name]) for each in told]
            has_come[name] = bytearray(next(come[owner]) for owner in self._owners)
        return steps.left_open(has_come)

    def _owed(self, name: str) -> dict[int, S]:
        """The states in which something is owed, by their numbers."""
        found = self.crew.call("owed", [(name,)] * self.crew.count)
        return self.told(sorted(number for numbers in found for number in numbers))

    def told(self, numbers: Sequence[int]) -> dict[int, S]:
        """States by their numbers, from their owners."""
        by_owner = self._by_owner(numbers)
        packed = self.crew.call("tell", [(own,) for own in by_owner])
        states = [iter(pickle.loads(each)) for each in packed]
        return {number: next(states[self._owners[number]]) for number in numbers}

    def _by_owner(self, numbers: Sequence[int]) -> list[list[int]]:
        by_owner: list[list[int]] = [[] for _ in range(self.crew.count)]
        for number in numbers:
            by_owner[self._owners[number]].append(number)
        return by_owner


class _Watching:
    """How far the shares are in one part, and whether the time is up."""

    def __init__(self, search: SharedSearch[Any], start: int) -> None:
        self.search, self.start = search, start
        self.expanded = [0] * search.crew.count
        self.taken = [0] * search.crew.count
        self.is_over = False

    @property
    def all_expanded(self) -> int:
        return sum(self.expanded)

    def __call__(self, share: int, expanded: int, taken: int) -> bool:
        self.expanded[share], self.taken[share] = expanded, taken
        search, elapsed = self.search, self.search.elapsed()
        if search.progress is not None:
            search.progress(search.progressed(self.start + self.all_expanded, search.counts.taken + sum(self.taken)))
        limit = search.limits.seconds
        self.is_over = self.is_over or (limit is not None and elapsed is not None and elapsed >= limit)
        return self.is_over


def _by_state(degrees: Iterable[int], *kept: array[int]) -> Iterator[list[array[int]]]:
    """What is kept of the steps of each state, of which there are so many."""
    for begin, end in pairwise(accumulate(degrees, initial=0)):
        yield [each[begin:end] for each in kept]

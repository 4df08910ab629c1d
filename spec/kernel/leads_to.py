"""Leads-to: what is owed comes, though clients never rest.

`P ~> Q`: whenever `P` holds, `Q` holds then or later. Convergence (`spec.kernel.convergence`) asks what holds once all
choices of clients and operators have ceased, and trusts what is possible again and again to happen. Here they go on for
ever, if they like to, and nothing is trusted but *weak fairness* of each fair action (`WF_vars(A)` in TLA+; Lamport,
"The Temporal Logic of Actions", 1994): an action that stays possible from some moment on is taken again and again. One
that is possible only now and then may never come.

A failure is a way to a state in which `P` holds and `Q` does not, and on through states without `Q` for ever: round a
strongly connected component of those states, in which each fair action is taken, or is not possible somewhere; or
standing still where nothing fair is possible. To look at whole components is enough: what a part of one leaves undone,
the whole of it does not do less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import attrs

from tidegauge.spec.kernel.components import ELSEWHERE, Edges
from tidegauge.spec.kernel.lasso import Lasso
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.symmetry import AsymmetryError
from tidegauge.spec.kernel.traces import Step, Trace

S = TypeVar("S")


@attrs.frozen
class Responses(Generic[S]):
    """What became of a machine's `leads_to`, where a search has seen all states."""

    names: tuple[str, ...]
    lassos: tuple[Lasso[S], ...]
    """A failure of each that fails, in the machine's order."""

    @property
    def holds(self) -> bool:
        return not self.lassos


class Waiting(Generic[S]):
    """States in which something is owed and has not come, as they are reached from some of them."""

    def __init__(self, machine: Machine[S], name: str) -> None:
        self.machine = machine
        self.owed = machine.leads_to[name]
        self.name = name
        self._numbers: dict[S, int] = {}
        self._states: list[S] = []
        self._ways: list[tuple[int, Step[S]] | None] = []
        """Of each state the one before it, and the step; None where the search began."""
        self._steps: list[list[tuple[int, Step[S], bool]]] = []
        """Of each state where its steps lead to, and whether they are fair."""

    def lasso(self, starts: Sequence[S], way: Callable[[int], Trace[S]]) -> Lasso[S] | None:
        """A failure that begins in one of `starts`, in each of which it is owed; `way` leads to one by its number."""
        for state in starts:
            self._reach(state, None)
        lasting = (one for one in self._components() if self._may_last(one))
        component = min(lasting, default=None, key=min)
        if component is None:
            return None
        at = first = min(component)
        back: list[Step[S]] = []
        while (before := self._ways[at]) is not None:
            back.append(before[1])
            at = before[0]
        begun = way(at)
        stem = Trace(begun.initial, (*begun.steps, *reversed(back)))
        return self._told(stem, len(begun.steps), first, component)

    def lasso_at(self, stem: Trace[S]) -> Lasso[S] | None:
        """The failure at the end of `stem`; None unless it is owed there, and may be for ever."""
        since = self._owed_since(stem)
        if since is None:
            return None
        last = self._reach(stem.last, None)
        component = next(one for one in self._components() if last in one)
        return self._told(stem, since, last, component) if self._may_last(component) else None

    def _owed_since(self, stem: Trace[S]) -> int | None:
        since = None
        for place, state in enumerate(stem.states):
            if self.owed.then(state):
                since = None
            elif since is None and self.owed.when(state):
                since = place
        return since

    def _components(self) -> Iterator[list[int]]:
        """Those of all states that are reached by now, and from these."""
        self._expand()
        edges = Edges()
        for steps in self._steps:
            for target, _, _ in steps:
                edges.add(target)
            edges.close()
        return edges.components()

    def _told(self, stem: Trace[S], since: int, first: int, component: Sequence[int]) -> Lasso[S]:
        values = self.machine.explain(self.name, stem.last)
        cycle = self._round(first, set(component))
        return Lasso(self.name, values, stem, cycle, len(component), len(component), since)

    def _reach(self, state: S, way: tuple[int, Step[S]] | None) -> int:
        number = self._numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
            self._ways.append(way)
        return number

    def _expand(self) -> None:
        """Take every step from every state, the next ones included."""
        while len(self._steps) < len(self._states):
            number = len(self._steps)
            state = self._states[number]
            steps: list[tuple[int, Step[S], bool]] = []
            for action, after in self.machine.successors(state):
                step = Step(action, after)
                is_fair = self.machine.is_fair(state, action, after)
                target = ELSEWHERE if self.owed.then(after) else self._reach(after, (number, step))
                steps.append((target, step, is_fair))
            self._steps.append(steps)

    def _may_last(self, component: Sequence[int]) -> bool:
        """Whether weak fairness lets a behaviour stay in these states for ever."""
        members = set(component)
        return self._never_disabled(members) <= {step.action for _, step in self._inner(members)}

    def _never_disabled(self, members: set[int]) -> set[Action]:
        return set.intersection(*({step.action for _, step, fair in self._steps[one] if fair} for one in members))

    def _inner(self, members: set[int]) -> Iterator[tuple[int, Step[S]]]:
        """The steps from a member to another or itself, with where they begin."""
        for one in sorted(members):
            yield from ((one, step) for target, step, _ in self._steps[one] if target in members)

    def _round(self, first: int, members: set[int]) -> tuple[Step[S], ...]:
        """A way through the members and back, on which each fair action is taken or is impossible somewhere.

        None where a behaviour may stand still: nothing fair is possible in the first of them.
        """
        possible = {one: {step.action for _, step, fair in self._steps[one] if fair} for one in members}
        if not possible[first]:
            return ()
        done: list[Step[S]] = []
        at = first
        for action in sorted(set.union(*possible.values()), key=repr):
            impossible = {one for one in members if action not in possible[one]}
            if impossible:
                if not impossible & {first, *self._places(done)}:
                    at = self._go(at, impossible, members, done)
            elif all(step.action != action for step in done):
                begin, step = next((one, step) for one, step in self._inner(members) if step.action == action)
                self._go(at, {begin}, members, done)
                done.append(step)
                at = self._numbers[step.state]
        if at != first or not done:
            self._go(at, {first}, members, done, least=not done)
        return tuple(done)

    def _places(self, steps: Sequence[Step[S]]) -> set[int]:
        return {self._numbers[step.state] for step in steps}

    def _go(self, at: int, to: set[int], members: set[int], done: list[Step[S]], *, least: bool = False) -> int:
        """Append a shortest way to one of `to`, of at least one step if `least`; returns where it ends."""
        if at in to and not least:
            return at
        ways: dict[int, tuple[int, Step[S]]] = {}
        queue = [at]
        for place in queue:
            for target, step, _ in self._steps[place]:
                if target not in members or target in ways:
                    continue
                ways[target] = place, step
                if target in to:
                    way = [step]
                    while place != at:
                        place, step = ways[place]
                        way.append(step)
                    done += reversed(way)
                    return target
                queue.append(target)
        return at


def responses(
    machine: Machine[S],
    states: Sequence[S],
    trace: Callable[[int], Trace[S]],
    renamings: Sequence[tuple[int, ...]] = (),
    names: Iterable[str] | None = None,
) -> Responses[S]:
    """Check what the machine owes; `states` are all that are reachable, and `trace` gives the way to one by its number.

    Where it is known that only `names` of it may be owed for ever, these are checked.

    With symmetry a state stands for its orbit, by all `renamings`; from there on no two states are taken for one.
    """

    def starts(name: str) -> dict[int, S]:
        return {number: states[number] for number in owed_in(machine, name, enumerate(states), renamings)}

    return responded(machine, machine.leads_to if names is None else names, starts, trace)


def responded(
    machine: Machine[S],
    names: Iterable[str],
    starts: Callable[[str], Mapping[int, S]],
    trace: Callable[[int], Trace[S]],
) -> Responses[S]:
    """What becomes of what is owed, of which only `names` may be so for ever.

    `starts` gives the states in which it is owed, by their numbers, in order.
    """
    lassos = []
    for name in names:
        begins = starts(name)
        found = Waiting(machine, name).lasso([*begins.values()], _ways(trace, [*begins]))
        if found is not None:
            lassos.append(found)
    return Responses(tuple(machine.leads_to), tuple(lassos))


def owed_in(
    machine: Machine[S], name: str, states: Iterable[tuple[int, S]], renamings: Sequence[tuple[int, ...]] = ()
) -> list[int]:
    """The numbers of those states in which something is owed and has not come.

    Raises AsymmetryError for a `when` or `then` that tells the states of an orbit apart.
    """
    owed, begins = machine.leads_to[name], []
    for number, state in states:
        is_owed = owed.when(state) and not owed.then(state)
        if any(
            (owed.when(renamed) and not owed.then(renamed)) is not is_owed
            for renamed in (machine.permute(state, renaming) for renaming in renamings)
        ):
            raise AsymmetryError(
                f"{name!r} of {machine.name} tells interchangeable processes apart: explore it without symmetry"
            )
        if is_owed:
            begins.append(number)
    return begins


def _ways(trace: Callable[[int], Trace[S]], numbers: Sequence[int]) -> Callable[[int], Trace[S]]:
    return lambda place: trace(numbers[place])

"""One process's part of a search: the states that it owns, what it finds when it expands them, and what it is sent.

A state belongs to the share that its hash says. The search goes on level by level, and in a level part by part, in four
turns. All shares *expand* those of the next states that they own, and make a parcel for each other one of what that one
owns. Each *places* what it was sent: it keeps what it does not know, by the step that led there first. The search sorts
those steps, and so each share *numbers* its new states as one process would have, and checks what must hold in them.
Last it *settles* what counts of the part.

A *step* is an integer: the number of the state that it leads out of, and its place among the steps of that state. Steps
in order are the order in which one process takes them. Nothing here knows a process or a pipe.
"""

from __future__ import annotations

import pickle
from array import array
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, MutableSequence, Sequence
from enum import Enum
from itertools import accumulate, chain, compress, pairwise
from typing import Any, Generic, TypeVar

import attrs

from tidegauge.spec.kernel.convergence import first_failures
from tidegauge.spec.kernel.coverage import Counts
from tidegauge.spec.kernel.leads_to import owed_in
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.shared.orbits import NamedOrbits
from tidegauge.spec.kernel.shared.parcels import Parcel, Reached, packed_error
from tidegauge.spec.kernel.shared.values import Key, Peer, Values

__all__ = ["PLACES", "Expanded", "Judged", "Keeps", "Share", "Tallies", "kept_steps", "place_of", "state_of"]

S = TypeVar("S")

PLACES = 1 << 20
"""Steps of one state, at most."""
_INITIAL = -1
"""In place of a class of action: no step led there."""
_LOOK = 512
"""States expanded between two looks at whether the search is over."""


def state_of(step: int) -> int:
    """The number of the state that a step leads out of; -1 for what leads to an initial state."""
    return step // PLACES


def place_of(step: int) -> int:
    """The place of a step among those of its state."""
    return step % PLACES


class Keeps(Enum):
    """Which steps a share keeps beyond their level."""

    NONE = 0
    FAIR = 1
    """The fair ones, by where they lead to: what goals are checked by."""
    ALL = 2
    """All, and their actions as well: what is owed is checked by these."""


def kept_steps(machine: Machine[Any], *, converges: bool, symmetry: bool) -> Keeps:
    """Which steps a search needs in the end; with symmetry the machine is asked again of what is owed."""
    if converges and machine.leads_to and not symmetry:
        return Keeps.ALL
    return Keeps.FAIR if converges and machine.converges else Keeps.NONE


@attrs.frozen
class Expanded:
    """What a share has found in a part of a part."""

    parcels: tuple[bytes, ...]
    """For each share what it owns."""
    violations: tuple[tuple[int, int], ...]
    """Steps that violate: which, and the place of the invariant."""
    error: tuple[int, bytes] | None
    """Where a rule raised, and what."""
    expanded: int


@attrs.frozen
class Judged:
    """What a share says of its new states."""

    violations: tuple[tuple[int, int], ...]
    """The step to a state that violates, and the place of the invariant."""
    error: tuple[int, bytes] | None
    goals: dict[str, int]
    """The first state that reaches each goal, by its number."""
    told: tuple[bytes, ...]
    """For each share the numbers of the states that it has sent, where it has edges to them."""


@attrs.frozen
class Tallies:
    """What counts of a part of a level: by class of action, and of states."""

    enabled: tuple[int, ...]
    taken: tuple[int, ...]
    found: tuple[int, ...]
    out_degrees: dict[int, int]
    orbit_sizes: dict[int, int]


@attrs.define
class _Part:
    """What is kept of the states that are being expanded."""

    states: array[int] = attrs.field(factory=lambda: array("q"))
    kinds: array[int] = attrs.field(factory=lambda: array("H"))
    """By step its class of action; those of a state end at `ends`."""
    ends: array[int] = attrs.field(factory=lambda: array("Q"))
    edges: array[int] = attrs.field(factory=lambda: array("q"))
    """Targets of steps that are kept: the number of a state, or -1 - the place of one that has none yet."""
    actions: array[int] = attrs.field(factory=lambda: array("q"))
    """The number of each such step's action, where that is kept; of one that is not fair -1 less that number."""
    edge_ends: array[int] = attrs.field(factory=lambda: array("Q"))
    met: dict[Key, int] = attrs.field(factory=dict)
    """States, or orbits, that this share did not own before, by their places."""
    reached: list[Reached] = attrs.field(factory=list)
    """By place what was met first."""
    routes: list[list[int]] = attrs.field(factory=list)
    """By share: the places of the states that were sent to it."""


class Share(Generic[S]):
    """The share `index` of `count`."""

    def __init__(
        self,
        machine: Machine[S],
        index: int,
        count: int,
        *,
        symmetry: bool = False,
        keeps: Keeps = Keeps.NONE,
        at: MutableSequence[int] | None = None,
    ) -> None:
        self.machine, self.index, self.count = machine, index, count
        self.keeps = keeps
        self.at = at if at is not None else [_INITIAL] * count
        """By share the state that it is expanding: what is told if it dies."""
        self.watch: Callable[[int, int], bool] = lambda expanded, taken: False
        """Called now and then with the states expanded and the steps taken in a part: whether the search is over."""
        self.values: Values[S] = Values(next(iter(machine.initial()), None))
        self.orbits = NamedOrbits(machine, self.values) if symmetry else None
        self.peers = [Peer(self.values) for _ in range(count)]
        self.kinds = {kind: place for place, kind in enumerate(Counts(machine))}
        self.invariants = list(machine.invariants.values())
        self.step_invariants = list(machine.step_invariants.values())
        self.known: dict[Key, int] = {}
        """The number of each state that it owns, or of its orbit."""
        self.keys: list[Key] = []
        self.numbers = array("q")
        """Of each state that it owns, in order."""
        self.frontier: deque[tuple[Key, S]] = deque()
        """States that it owns and has not expanded, in order."""
        self._next = 0
        """The place of the first of them among those that it owns."""
        self.part = _Part()
        self.own = Parcel(())
        """What it owns of what it has reached itself."""
        self.arrivals: list[Reached] = []
        """New states in order."""
        self.asked: list[Sequence[Key]] = []
        """By share: the orbits whose numbers it wants to know."""
        self.degrees, self.targets, self.actions = array("I"), array("I"), array("q")
        """Of each state that was expanded how many steps are kept; of each of these where to, and its action."""
        self.action_numbers: dict[Action, int] = {}
        self._step = 0
        """The step that is being taken: where a rule raises, if one does."""

    # --- the first turn ----------------------------------------------------------------------------------------------

    def begin(self) -> Expanded:
        """Reach the initial states, each of which is the owner's to keep."""
        self.part = _Part()
        for place, state in enumerate(self.machine.initial()):
            self._reach(self.values.key(state), state, -PLACES + place, _INITIAL)
        return Expanded(self._parcels(), (), None, 0)

    def expand(self, end: int) -> Expanded:
        """Take every step out of its states below `end` that it has not expanded."""
        self.part = _Part()
        violations: list[tuple[int, int]] = []
        error: tuple[int, bytes] | None = None
        for expanded in range(bisect_left(self.numbers, end) - self._next):
            if not expanded % _LOOK and self.watch(expanded, len(self.part.kinds)):
                break
            key, state = self.frontier.popleft()
            number = self.at[self.index] = self.numbers[self._next]
            self._next += 1
            self.part.states.append(number)
            try:
                self._expand_one(number, key, state, violations)
            except Exception as raised:
                error = self._step, packed_error(raised)
                break
            finally:
                self.part.ends.append(len(self.part.kinds))
                self.part.edge_ends.append(len(self.part.edges))
        self.at[self.index] = _INITIAL
        return Expanded(self._parcels(), tuple(violations), error, len(self.part.states))

    def _expand_one(self, number: int, key: Key, state: S, violations: list[tuple[int, int]]) -> None:
        part, kinds, known, is_fair = self.part, self.kinds, self.known, self.machine.is_fair
        key_after, step_invariants, keeps = self.values.key_after, self.step_invariants, self.keeps
        numbers, met, found, has_orbits = self.action_numbers, part.met, part.reached, self.orbits is not None
        of_state = self.values.numbers(key)
        step = self._step = number * PLACES
        for action, after in self.machine.successors(state):
            kind = kinds.get(type(action))
            if kind is None:
                kind = self._undeclared(type(action))
            part.kinds.append(kind)
            for place, holds in enumerate(step_invariants):
                if not holds(state, action, after):
                    violations.append((step, place))
            reached = key_after(state, of_state, after)
            if has_orbits:
                target = self._reach(reached, after, step, kind)
            elif (number_there := known.get(reached)) is not None:
                target = number_there
            else:  # what `_reach` does for a state
                place = met.setdefault(reached, len(found))
                if place == len(found):
                    found.append((step, kind, 1, reached, reached))
                target = -1 - place
            if keeps is Keeps.ALL:
                of_action = numbers.setdefault(action, len(numbers))
                part.actions.append(of_action if is_fair(state, action, after) else -1 - of_action)
                part.edges.append(target)
            elif keeps is Keeps.FAIR and is_fair(state, action, after):
                part.edges.append(target)
            step = self._step = step + 1
        if step - number * PLACES > PLACES:
            raise ValueError(f"{step - number * PLACES} steps lead out of one state: workers count {PLACES} at most")

    def _undeclared(self, kind: type[Action]) -> int:
        Counts(self.machine)[kind]  # refuses it, with words
        raise AssertionError(f"{kind} is declared")

    def _reach(self, key: Key, state: S, step: int, kind: int) -> int:
        """The number of a state that is reached, or -1 - its place among those that have none yet."""
        orbit, size = (key, 1) if self.orbits is None else self.orbits.of(key, state)
        number = self.known.get(orbit)
        if number is not None:
            return number
        part = self.part
        place = part.met.setdefault(orbit, len(part.reached))
        if place == len(part.reached):
            part.reached.append((step, kind, size, key, orbit))
        return -1 - place

    def _parcels(self) -> tuple[bytes, ...]:
        """What was reached, for its owners."""
        part = self.part
        part.routes = [[] for _ in self.peers]
        for place, hashes in enumerate(self.values.hashes(part.met)):
            part.routes[hash(hashes) % self.count].append(place)
        parcels = [Parcel([part.reached[place] for place in route]) for route in part.routes]
        part.met, part.reached = {}, []
        self.own = parcels[self.index]
        pairs = enumerate(zip(parcels, self.peers, strict=True))
        return tuple(b"" if index == self.index else parcel.packed(peer) for index, (parcel, peer) in pairs)

    # --- the second turn ---------------------------------------------------------------------------------------------

    def place(self, parcels: Sequence[bytes]) -> bytes:
        """Keep the states that were sent and are new, by the first steps to them; returns those steps, in order."""
        new = {reached[-1]: reached for reached in self.own}
        self.asked = []
        for index, (peer, packed) in enumerate(zip(self.peers, parcels, strict=True)):
            parcel = self.own if index == self.index else Parcel.read(packed, peer)
            self.asked.append(parcel.orbits if self.keeps is not Keeps.NONE else ())
            for reached in parcel if index != self.index else ():
                orbit = reached[-1]
                if orbit not in self.known:
                    best = new.setdefault(orbit, reached)
                    if reached[0] < best[0]:
                        new[orbit] = reached
        self.own = Parcel(())
        self.arrivals = sorted(new.values())
        return array("q", [step for step, *_ in self.arrivals]).tobytes()

    # --- the third turn ----------------------------------------------------------------------------------------------

    def number(self, numbers: bytes, pending: Sequence[str]) -> Judged:
        """Take the numbers of the new states, in order, and hold each against the invariants and the pending goals."""
        given = _integers(numbers)
        self.keys += [key for _, _, _, key, _ in self.arrivals]
        self.numbers += given
        self.known.update(zip([orbit for _, _, _, _, orbit in self.arrivals], given, strict=True))
        violations: list[tuple[int, int]] = []
        goals: dict[str, int] = {}
        waiting = {name: self.machine.sometimes[name] for name in pending}
        error: tuple[int, bytes] | None = None
        invariants, state_of_key, keep = [*enumerate(self.invariants)], self.values.state, self.frontier.append
        for number, (step, _, _, key, _) in zip(given, self.arrivals, strict=True):
            state = state_of_key(key)
            keep((key, state))
            try:
                for place, holds in invariants:
                    if not holds(state):
                        violations.append((step, place))
                for name in [name for name, holds in waiting.items() if holds(state)] if waiting else ():
                    goals[name] = number
                    del waiting[name]
            except Exception as raised:
                error = step, packed_error(raised)
                break
        told = tuple(array("q", [self.known[orbit] for orbit in asked]).tobytes() for asked in self.asked)
        return Judged(tuple(violations), error, goals, told)

    # --- the fourth turn ---------------------------------------------------------------------------------------------

    def settle(self, last: int | None, found_last: bool, told: Sequence[bytes]) -> Tallies:
        """Count what the part has up to the step `last`; `found_last`: whether what that one led to counts as found.

        `told` are the numbers of the states that were sent to each share.
        """
        self._keep_edges(told)
        part = self.part
        ends = part.ends
        whole = len(part.states) if last is None else bisect_left(part.states, state_of(last))
        begins = [0, *ends[:whole]]
        begin = begins[-1]
        taken = Counter(part.kinds[:begin])
        enabled = Counter(chain.from_iterable(map(set, (part.kinds[one:other] for one, other in pairwise(begins)))))
        out_degrees = Counter(other - one for one, other in pairwise(begins))
        if last is not None and whole < len(part.states) and part.states[whole] == state_of(last):
            cut = part.kinds[begin : min(begin + place_of(last) + 1, ends[whole])]
            taken.update(cut)
            enabled.update(set(cut))
        arrived = [
            (kind, size)
            for step, kind, size, _, _ in self.arrivals
            if last is None or step < last or (step == last and found_last)
        ]
        found = Counter(kind for kind, _ in arrived)
        rows = [tuple(count[kind] for kind in range(len(self.kinds))) for count in (enabled, taken, found)]
        return Tallies(rows[0], rows[1], rows[2], out_degrees, Counter(size for _, size in arrived))

    def _keep_edges(self, told: Sequence[bytes]) -> None:
        part = self.part
        if self.keeps is Keeps.NONE:
            return
        numbers: dict[int, int] = {}
        for places, own in zip(part.routes, told, strict=True):
            numbers.update(zip(places, _integers(own), strict=True))
        begin = 0
        for end in part.edge_ends:
            self.degrees.append(end - begin)
            self.targets.extend(edge if edge >= 0 else numbers[-1 - edge] for edge in part.edges[begin:end])
            begin = end
        self.actions += part.actions

    # --- in the end --------------------------------------------------------------------------------------------------

    def edges(self) -> tuple[bytes, bytes]:
        """How many fair steps lead out of each state that was expanded, in order, and where to."""
        if self.keeps is not Keeps.ALL:
            return self.degrees.tobytes(), self.targets.tobytes()
        are_fair = [action >= 0 for action in self.actions]
        before = [*accumulate(are_fair, initial=0)]
        ends = [before[end] for end in accumulate(self.degrees, initial=0)]
        degrees = array("I", [end - begin for begin, end in pairwise(ends)])
        return degrees.tobytes(), array("I", compress(self.targets, are_fair)).tobytes()

    def steps(self) -> tuple[bytes, bytes, bytes, bytes]:
        """How many steps lead out of each state, in order, where to, and the numbers of their actions; and these."""
        kept = self.degrees.tobytes(), self.targets.tobytes(), self.actions.tobytes()
        return *kept, pickle.dumps([*self.action_numbers], pickle.HIGHEST_PROTOCOL)

    def has_come(self) -> dict[str, bytes]:
        """By name of what is owed (`leads_to`), of each state, in order, whether it has come there."""
        come = {name: bytearray() for name in self.machine.leads_to}
        notes = [(come[name].append, one.then) for name, one in self.machine.leads_to.items()]
        for state in map(self.values.state, self.keys):
            for note, then in notes:
                note(then(state))
        return {name: bytes(each) for name, each in come.items()}

    def failures(self, numbers: Sequence[int]) -> dict[str, int]:
        """The first of these states in which each goal of `converges` is false."""
        renamings = self.orbits.renamings if self.orbits else ()
        return first_failures(self.machine, ((number, self.state(number)) for number in numbers), renamings)

    def owed(self, name: str) -> list[int]:
        """The states in which something is owed (`leads_to`)."""
        renamings = self.orbits.renamings if self.orbits else ()
        states = zip(self.numbers, map(self.values.state, self.keys), strict=True)
        return owed_in(self.machine, name, states, renamings)

    def tell(self, numbers: Sequence[int]) -> bytes:
        """States by their numbers."""
        return pickle.dumps([self.state(number) for number in numbers], pickle.HIGHEST_PROTOCOL)

    def state(self, number: int) -> S:
        return self.values.state(self.keys[bisect_left(self.numbers, number)])


def _integers(packed: bytes) -> array[int]:
    found: array[Any] = array("q")
    found.frombytes(packed)
    return found

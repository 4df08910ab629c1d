"""Small machines whose state spaces can be counted by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.machine import Action, Invariant, Machine, NotEnabled, StepInvariant


class Mood(Enum):
    FREE = "free"
    BUSY = "busy"


@attrs.frozen
class Jug:
    """A jug with some water in it."""

    litres: int
    capacity: int


@attrs.frozen
class Table:
    jugs: tuple[Jug, ...]


@attrs.frozen
class Fill(Action):
    jug: int


@attrs.frozen
class Empty(Action):
    jug: int


@attrs.frozen
class Pour(Action):
    source: int
    target: int


@attrs.frozen
class Smash(Action):
    """Declared, and never enabled."""


@attrs.frozen
class DieHard(Machine[Table]):
    """The two-jug puzzle: with 3 and 5 litres, measure 4. Sixteen states; the shortest solution has seven."""

    action_types: ClassVar[tuple[type[Action], ...]] = (Fill, Empty, Pour, Smash)
    capacities: tuple[int, ...] = (3, 5)

    def initial(self) -> Iterable[Table]:
        return (Table(tuple(Jug(0, capacity) for capacity in self.capacities)),)

    def actions(self, state: Table) -> Iterator[Action]:
        for index, jug in enumerate(state.jugs):
            if jug.litres < jug.capacity:
                yield Fill(index)
            if jug.litres:
                yield Empty(index)
                for other, target in enumerate(state.jugs):
                    if other != index and target.litres < target.capacity:
                        yield Pour(index, other)

    def step(self, state: Table, action: Action) -> Table:
        if action not in tuple(self.actions(state)):
            raise NotEnabled(action, "there is water to move, and room for it")
        litres = [jug.litres for jug in state.jugs]
        match action:
            case Fill(jug):
                litres[jug] = self.capacities[jug]
            case Empty(jug):
                litres[jug] = 0
            case Pour(source, target):
                poured = min(litres[source], self.capacities[target] - litres[target])
                litres[source] -= poured
                litres[target] += poured
        return Table(tuple(map(Jug, litres, self.capacities)))

    @property
    def invariants(self) -> Mapping[str, Invariant[Table]]:
        return {"NotFour": lambda state: all(jug.litres != 4 for jug in state.jugs)}

    @property
    def sometimes(self) -> Mapping[str, Invariant[Table]]:
        return {
            "FirstFull": lambda state: state.jugs[0].litres == self.capacities[0],
            "Six": lambda state: any(jug.litres == 6 for jug in state.jugs),
        }

    def explain(self, invariant: str, state: Table) -> Mapping[str, object]:
        return {"litres": tuple(jug.litres for jug in state.jugs)}

    @property
    def interchangeable(self) -> int:
        return len(self.capacities)

    def permute(self, state: Table, permutation: tuple[int, ...]) -> Table:
        moved = dict(zip(permutation, state.jugs, strict=True))
        return Table(tuple(moved[index] for index in range(len(moved))))


@attrs.frozen
class Badges:
    held: frozenset[str]
    mood: Mood
    lead: int | None


@attrs.frozen
class Award(Action):
    badge: str


@attrs.frozen
class Relax(Action):
    mood: Mood = Mood.FREE


@attrs.frozen
class Ceremony(Machine[Badges]):
    """Badges are handed out one by one; the set of them must never shrink and the mood must not flip at the fourth."""

    action_types: ClassVar[tuple[type[Action], ...]] = (Award, Relax)
    badges: tuple[str, ...] = ("gold", "silver", "tin", "brass")

    def initial(self) -> Iterable[Badges]:
        return (Badges(frozenset(), Mood.FREE, None),)

    def actions(self, state: Badges) -> Iterator[Action]:
        yield from (Award(badge) for badge in self.badges if badge not in state.held)
        if state.mood is Mood.BUSY:
            yield Relax()

    def step(self, state: Badges, action: Action) -> Badges:
        match action:
            case Award(badge) if badge not in state.held:
                return Badges(state.held | {badge}, Mood.BUSY, len(state.held))
            case Relax() if state.mood is Mood.BUSY:
                return attrs.evolve(state, mood=Mood.FREE)
        raise NotEnabled(action, "the badge is not held, or the mood is busy")

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[Badges]]:
        return {"NoThirdInARow": lambda before, action, after: before.mood is Mood.FREE or len(after.held) != 3}

"""Properties of steps are asked behind what an action does, and not once for each way to do it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import attrs
import pytest

from tidegauge.spec.kernel.each import holds_of_each
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action, Invariant, Machine, StepInvariant
from tidegauge.spec.kernel.progress import Stop

MOST = 20


@attrs.frozen
class Pair:
    seen: int = 0
    """The largest that both have been."""
    other: int = 0


@attrs.frozen
class Tanks:
    fill: int = 0
    low: int = 0
    pair: Pair = Pair()
    kept: Pair = Pair()


@attrs.frozen
class Fill(Action):
    """The first tank has one more; a full one is emptied."""


@attrs.frozen
class See(Action):
    """Whether the first tank is more than half full goes into the other field, which holds two values."""


@attrs.frozen
class Lower(Action):
    """The same of the other tank."""


@attrs.frozen
class Keep(Action):
    """The pair is kept, whatever it is."""


@attrs.frozen
class TwoTanks(Machine[Tanks]):
    """What is seen depends on one tank; a property of that step looks at the other one."""

    action_types: ClassVar[tuple[type[Action], ...]] = (Fill, See, Lower, Keep)
    bound: int = MOST
    """The property fails where the second tank has more."""
    is_apart: bool = False
    """Whether the property is said of each tank."""

    def initial(self) -> Iterable[Tanks]:
        yield Tanks()

    def actions(self, state: Tanks) -> Iterator[Action]:
        yield from (Fill(), See(), Lower(), Keep())

    def step(self, state: Tanks, action: Action) -> Tanks:
        if isinstance(action, Fill):
            return evolve(state, fill=(state.fill + 1) % (MOST + 1))
        if isinstance(action, Lower):
            return evolve(state, low=(state.low + 1) % (MOST + 1))
        if isinstance(action, Keep):
            return evolve(state, kept=state.pair)
        return evolve(state, pair=evolve(state.pair, seen=int(2 * state.fill > MOST), other=1))

    def _holds(self, before: Tanks, action: Action, after: Tanks) -> bool:
        return not isinstance(action, See) or (after.low == before.low <= self.bound and after.pair.other == 1)

    def _holds_of(self, number: int, before: Tanks, action: Action, after: Tanks) -> bool:
        return self._holds(before, action, after) if number else after.kept == before.kept or isinstance(action, Keep)

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[Tanks]]:
        return {"low": holds_of_each(range(2), self._holds_of) if self.is_apart else self._holds}

    @property
    def invariants(self) -> Mapping[str, Invariant[Tanks]]:
        return {"kept": lambda state: state.kept.seen <= 1}


@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("bound", [-1, 0, 3, MOST - 1, MOST])
def test_the_same_steps_violate_as_by_the_plain_engine(bound: int, stop: Stop, is_apart: bool) -> None:
    plain, fast = (
        explore(TwoTanks(bound, is_apart), engine=engine, stop=stop, converges=True)
        for engine in (Engine.PLAIN, Engine.FAST)
    )
    assert evolve(fast, engine=Engine.PLAIN) == plain
    assert bool(plain.violations) is (bound < MOST)


@pytest.mark.parametrize("is_apart", [False, True])
def test_what_a_property_reads_is_not_multiplied_by_what_the_action_reads(is_apart: bool) -> None:
    found = explore(TwoTanks(MOST, is_apart), engine=Engine.FAST, stop=Stop.EACH)
    assert found.distinct > 2 * MOST**2
    assert found.asked is not None
    assert found.asked < 12 * MOST, "each tank alone; both together would be asked about 400 times"


def test_what_a_step_sets_is_not_read_of_the_state_after_it() -> None:
    read: list[int] = []

    class Noting(TwoTanks):
        def _holds(self, before: Tanks, action: Action, after: Tanks) -> bool:
            read.append(after.pair.seen)
            return super()._holds(before, action, after)

    found = explore(Noting(), engine=Engine.FAST)
    assert set(read) == {0, 1}
    assert found.asked is not None
    assert found.asked < 12 * MOST

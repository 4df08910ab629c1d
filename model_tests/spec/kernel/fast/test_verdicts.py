"""A property of steps is asked once for what it looks at, whatever action it is, and whatever else the step does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import attrs
import pytest

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.exploration import Engine, Exploration
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action, Machine, StepInvariant
from tidegauge.spec.kernel.progress import Stop

MOST = 30


@attrs.frozen
class Shelf:
    low: int = 0
    high: int = 0


@attrs.frozen
class Store:
    left: Shelf = Shelf()
    right: Shelf = Shelf()
    door: int = 0


@attrs.frozen
class Put(Action):
    number: int
    """It is put on the left."""
    label: str = ""


@attrs.frozen
class Knock(Action):
    number: int = 0


@attrs.frozen(slots=False)
class Stores(Machine[Store]):
    """What is on the left is set by as many actions as there are numbers; the door has three places."""

    action_types: ClassVar[tuple[type[Action], ...]] = (Put, Knock)
    holds: StepInvariant[Store]

    def initial(self) -> Iterable[Store]:
        yield Store()

    def actions(self, state: Store) -> Iterator[Action]:
        yield from (Put(number, str(number % 5)) for number in range(MOST))
        yield Knock()

    def step(self, state: Store, action: Action) -> Store:
        if isinstance(action, Put):
            return evolve(state, left=evolve(state.left, low=action.number))
        return evolve(state, door=(state.door + 1) % 3)

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[Store]]:
        return {"holds": self.holds}


def found(holds: StepInvariant[Store], engine: Engine = Engine.FAST) -> Exploration[Store]:
    return explore(Stores(holds), engine=engine, stop=Stop.EACH)


def asked(holds: StepInvariant[Store]) -> int:
    """How often a search asks the property, which tells its violations as the plain engine does."""
    count = 0

    def counted(before: Store, action: Action, after: Store) -> bool:
        nonlocal count
        count += type(before) is not Store  # it is a view where the fast engine asks, and a sample before that
        return holds(before, action, after)

    explored = found(counted)
    times = count
    assert evolve(explored, engine=Engine.PLAIN) == found(holds, Engine.PLAIN)
    return times


def test_a_property_that_no_step_touches_is_asked_once_for_each_class_of_action() -> None:
    assert asked(lambda before, action, after: before.right == after.right) == 2
    assert asked(lambda before, action, after: after.right.low == 0) == 2


def test_a_property_is_asked_once_for_each_value_that_it_looks_at() -> None:
    assert asked(lambda before, action, after: after.door == before.door or before.door < 3) == 2 * 3
    assert asked(lambda before, action, after: after.left.high == 0 or after.left.low < MOST) == 2
    assert asked(lambda before, action, after: after.left.low < MOST) == 2 * MOST


def test_fields_of_the_action_are_looked_at_one_by_one() -> None:
    assert asked(lambda before, action, after: not isinstance(action, Put) or action.label != "x") == 6
    assert asked(lambda before, action, after: isinstance(action, Put) or after.door >= 0) == 4


@pytest.mark.parametrize(
    "holds",
    [
        lambda before, action, after: not isinstance(action, Put) or action.number < 7,
        lambda before, action, after: action != Put(5, "0"),
        lambda before, action, after: action not in {Put(5, "0"), Put(6, "1")},
        lambda before, action, after: repr(action) != "Put(number=9, label='4')",
        lambda before, action, after: not isinstance(action, Put) or evolve(action, number=1) != Put(1, "3"),
        lambda before, action, after: action.name != "Knock" or before.door != 1 or before.left.low != 4,
        lambda before, action, after: before.left is after.left or before.left == after.left or after.left.low != 11,
    ],
)
def test_what_is_said_of_one_step_is_not_said_of_another(holds: StepInvariant[Store]) -> None:
    plain, fast = (found(holds, engine) for engine in Engine)
    assert evolve(fast, engine=Engine.PLAIN) == plain
    assert plain.violations

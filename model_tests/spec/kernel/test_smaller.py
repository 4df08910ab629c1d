"""Of a failing list of actions each gives way to a smaller one, where the list fails still."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.lockstep.minimising import minimise as minimise_lockstep
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.model_tests.lockstep.refusal_mutants import appends_despite
from tidegauge.spec.kernel.machine import Action, Invariant, Machine
from tidegauge.spec.kernel.simulation import walks
from tidegauge.spec.kernel.smaller import order_of, order_of_value, smaller_actions, with_smallest_values
from tidegauge.spec.kernel.traces import minimise, replay
from tidegauge.spec.published.kip320.variants import ExpandWithoutHighWatermark
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.machine import Replication


@attrs.frozen
class Put(Action):
    """A letter of some weight is put in a box."""

    box: int
    weight: int


@attrs.frozen
class Boxes(Machine[tuple[int, ...]]):
    """Boxes that hold little."""

    action_types = (Put,)

    def initial(self) -> Iterator[tuple[int, ...]]:
        yield (0, 0, 0)

    def actions(self, state: tuple[int, ...]) -> Iterator[Put]:
        return (Put(box, weight) for box in range(3) for weight in range(1, 8))

    def step(self, state: tuple[int, ...], action: Action) -> tuple[int, ...]:
        assert isinstance(action, Put)
        return tuple(weight + action.weight * (box == action.box) for box, weight in enumerate(state))

    @property
    def invariants(self) -> Mapping[str, Invariant[tuple[int, ...]]]:
        return {"Light": lambda state: max(state) < 8}


def test_a_trace_has_the_fewest_actions_and_then_the_smallest_values() -> None:
    long = replay(Boxes(), (Put(2, 3), Put(1, 6), Put(2, 4), Put(1, 7))).violation
    assert long is not None
    assert minimise(Boxes(), long).trace.actions == (Put(0, 1), Put(0, 7))


def test_a_list_that_gets_shorter_is_looked_at_from_its_beginning() -> None:
    def trial(items: Sequence[Action]) -> Sequence[Action] | None:
        return (Put(2, 2),) if Put(0, 1) in items else tuple(items) if len(items) == 2 else None

    assert with_smallest_values((Put(0, 2), Put(1, 1)), trial, Boxes(), (0, 0, 0)) == (Put(2, 2),)


def test_a_list_that_is_about_one_number_is_tried_with_a_smaller_one_everywhere() -> None:
    def trial(items: Sequence[Action]) -> Sequence[Action] | None:
        return items if len({one.box for one in items if isinstance(one, Put)}) == 1 and len(items) == 2 else None

    assert with_smallest_values((Put(2, 1), Put(2, 1)), trial, Boxes(), (0, 0, 0)) == (Put(0, 1), Put(0, 1))


def test_no_action_gives_way_to_one_that_the_machine_does_not_offer() -> None:
    """A weight of 0 is put in no box, though a step could do it."""

    def trial(items: Sequence[Action]) -> Sequence[Action]:
        return items

    assert with_smallest_values((Put(1, 5), Put(2, 5)), trial, Boxes(), (0, 0, 0)) == (Put(0, 1), Put(0, 1))


def test_a_large_number_is_not_counted_down_to() -> None:
    tried: list[Sequence[Action]] = []

    def trial(items: Sequence[Action]) -> None:
        tried.append(items)

    large = (Put(10**12, 10**12),)
    assert with_smallest_values(large, trial, Boxes(), (0, 0, 0)) == large
    assert len(tried) == 21, "each that the machine offers"


def test_the_number_of_trials_is_limited() -> None:
    tried: list[Sequence[Action]] = []

    def trial(items: Sequence[Action]) -> None:
        tried.append(items)

    list_of_one = (Put(1, 1),)
    assert with_smallest_values(list_of_one, trial, Boxes(), (0, 0, 0), attempts=4) == list_of_one
    assert tried == [(Put(0, 1),), (Put(0, 1),), (Put(0, 2),), (Put(0, 3),)]


class Colour(Enum):
    """Values without an order of their own."""

    RED = "z"
    GREEN = "a"


@pytest.mark.parametrize(
    "values",
    [
        (None, -1, 0, 7, "b", "aa", (9,), (0, 0), (0, 1), Put(0, 9), Put(1, 0)),
        (Colour.RED, Colour.GREEN, False, True),
        (frozenset({9}), frozenset({1, 5}), frozenset({2, 3})),
    ],
)
def test_values_of_any_class_have_an_order(values: tuple[object, ...]) -> None:
    assert sorted((*values[3:], *values[:3]), key=order_of_value) == list(values)


def test_a_shorter_list_comes_first() -> None:
    assert order_of((Put(2, 7),)) < order_of((Put(0, 1), Put(0, 1)))


def test_no_action_of_a_minimised_trace_can_give_way_to_a_smaller_one() -> None:
    machine = ExpandWithoutHighWatermark()
    found = [walk.violation for walk in walks(machine, seed=3, count=120, length=80) if walk.violation is not None]
    assert len(found) >= 3
    for violation in found[:3]:
        small = minimise(machine, violation)
        actions = small.trace.actions
        for place in range(len(actions)):
            for smaller in smaller_actions(machine, small.trace.initial, actions, place):
                other = (*actions[:place], smaller, *actions[place + 1 :])
                again = replay(machine, other, invariant=violation.invariant, nearest=True).violation
                assert again is None or order_of(again.trace.actions) >= order_of(actions)


def test_a_lockstep_that_differs_names_the_first_broker_that_shows_it() -> None:
    """What both should refuse gives way to what both should refuse."""
    machine, roles = Replication(brokers=3), appends_despite(ErrorCode.not_leader_or_follower)
    assert isinstance(roles, Roles)
    shortest, _ = minimise_lockstep(HARNESS["replication"].bind(Side.CORES, roles), machine, (Append(2),))
    assert shortest == (Append(1, next(iter(machine.acks))),)

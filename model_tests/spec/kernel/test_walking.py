"""The loop of every walk: what a strategy draws is taken before it draws again, and a round is taken whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

import attrs

from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.walking import drawn_actions, random_of_walk


@attrs.frozen
class Go(Action):
    """A step of a walker that only counts."""

    to: int


def walked(strategy: list[int], ended_at: int) -> list[int]:
    """Where a walker was after each step; a strategy says how many steps each draw has, -1 for nothing to do."""
    places: list[int] = []
    draws = iter(strategy)

    def draw(walker: list[int], rng: Random) -> Iterable[Action] | None:
        size = next(draws)
        return None if size < 0 else steps(walker, size)

    for action in drawn_actions(places, draw, random_of_walk(1, 0), ended=lambda walker: len(walker) >= ended_at):
        assert isinstance(action, Go)
        places.append(action.to)
    return places


def steps(walker: list[int], size: int) -> Iterator[Action]:
    """A round: each action depends on where the former ones led."""
    for _ in range(size):
        yield Go(walker[-1] + 1 if walker else 0)


def test_each_action_is_drawn_in_the_state_that_the_former_ones_led_to() -> None:
    assert walked([1, 1, 3], ended_at=5) == [0, 1, 2, 3, 4]


def test_a_walk_does_not_end_within_a_round() -> None:
    assert walked([1, 3, 1], ended_at=2) == [0, 1, 2, 3]


def test_an_empty_round_does_not_end_a_walk() -> None:
    assert walked([1, 0, 1], ended_at=2) == [0, 1]


def test_a_walk_ends_where_nothing_can_happen() -> None:
    assert walked([1, -1], ended_at=5) == [0]


def test_a_walk_that_has_ended_draws_nothing() -> None:
    assert walked([], ended_at=0) == []


def test_each_walk_of_a_seed_has_random_numbers_of_its_own() -> None:
    draws = {random_of_walk(seed, number).random() for seed in range(3) for number in range(3)}
    assert len(draws) == 9
    assert random_of_walk(2, 1).random() in draws

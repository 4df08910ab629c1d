"""What a search tells of its state space is what the machine says of each state, by whichever engine; its estimates."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import Any

import pytest

from tidegauge.model_tests.spec.kernel.shared.in_one_process import explore_by_shares
from tidegauge.model_tests.spec.kernel.toys import DieHard
from tidegauge.spec.kernel.exploration import Engine, Exploration
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.progress import Limits, Progress, Stop
from tidegauge.spec.kernel.statistics import estimated_states
from tidegauge.spec.registry import REGISTRY

BY = {
    "plain": lambda machine, **how: explore(machine, engine=Engine.PLAIN, **how),
    "fast": lambda machine, **how: explore(machine, engine=Engine.FAST, **how),
    "workers": lambda machine, **how: explore_by_shares(machine, 2, **how),
}
EXPLORERS = pytest.mark.parametrize("by", BY)


def explored(by: str, machine: Machine[Any], **how: Any) -> Exploration[Any]:
    found: Exploration[Any] = BY[by](machine, **{"stop": Stop.NEVER, **how})
    return found


@EXPLORERS
@pytest.mark.parametrize("machine", [DieHard(), REGISTRY.machine("group-loading")], ids=lambda machine: machine.name)
def test_out_degrees_are_the_steps_out_of_each_state(machine: Machine[Any], by: str) -> None:
    reached = dict.fromkeys(machine.initial())
    for state in (waiting := [*reached]):
        for _, after in machine.successors(state):
            if after not in reached:
                reached[after] = None
                waiting.append(after)
    told = explored(by, machine).statistics
    degrees = [len([*machine.successors(state)]) for state in reached]
    assert told.out_degrees == Counter(degrees)
    assert told.mean_out_degree == pytest.approx(sum(degrees) / len(degrees))
    assert told.out_degree_of(1) == max(degrees)
    assert told.out_degree_of(0.5) == sorted(degrees)[(len(degrees) + 1) // 2 - 1]


@EXPLORERS
@pytest.mark.parametrize("limits", [Limits(), Limits(depth=4)])
def test_states_by_action_and_depth_sum_to_levels_and_to_what_each_action_found(limits: Limits, by: str) -> None:
    found = explored(by, DieHard((3, 5, 7)), limits=limits)
    rows = found.statistics.found_by_depth
    assert tuple(sum(row.values()) for row in rows) == found.levels[1:]
    assert {row.action: row.found for row in found.coverage if row.found} == sum(map(Counter, rows), Counter())


@EXPLORERS
def test_orbits_by_their_sizes_sum_to_the_states_of_the_whole_search(by: str) -> None:
    machine = DieHard((5, 5, 5))
    reduced, whole = explored(by, machine, symmetry=True), explored(by, machine)
    sizes = reduced.statistics.orbit_sizes
    assert sum(size * count for size, count in sizes.items()) == reduced.orbits == whole.distinct
    assert sum(sizes.values()) == reduced.distinct
    assert reduced.statistics.symmetric_share == pytest.approx(1 - sizes[max(sizes)] / reduced.distinct)
    assert whole.statistics.symmetric_share is None


KIP320 = (1, 6, 30, 48, 180, 390, 720, 1218, 1893, 2634, 3426, 4248, 4899, 5229, 4872, 4083, 2913, 1725, 762, 252, 78)
REASSIGNMENT = (
    *(1, 3, 8, 23, 53, 102, 173, 274, 416, 635, 971, 1432, 2011, 2630, 3203, 3588, 3767, 3748, 3563, 3374, 3200),
    *(2993, 2751, 2373, 1858, 1338, 825, 444, 214, 79, 28, 9),
)


@pytest.mark.parametrize("levels", [KIP320, REASSIGNMENT])
def test_an_estimate_nears_the_number_of_states(levels: tuple[int, ...]) -> None:
    states = sum(levels)
    for place, seen in enumerate(accumulate(levels), 1):
        if seen > states / 3:
            estimated = estimated_states(levels[:place])
            assert estimated is not None
            assert states / 1.6 < estimated < states * 1.6
        if seen > states * 0.97:
            assert estimated == pytest.approx(states, rel=0.03)


@pytest.mark.parametrize(
    "levels", [(), (1, 2, 4), tuple(2**level for level in range(20)), (5,) * 20, tuple(2 ** (k * k) for k in range(9))]
)
def test_levels_that_grow_as_ever_say_nothing_of_the_end(levels: tuple[int, ...]) -> None:
    assert estimated_states(levels) is None


def test_progress_tells_what_is_left_at_the_rate_so_far() -> None:
    at = Progress(sum(KIP320[:15]), 90_000, 15, 4872, 10.0, KIP320[:15])
    assert at.estimated is not None
    assert at.seconds_left == pytest.approx((at.estimated - at.distinct) / (at.distinct / 10))
    assert Progress(1, 1, 1, 1, 10.0).seconds_left is None


@EXPLORERS
def test_progress_knows_the_levels(by: str) -> None:
    told: list[Progress] = []
    if by == "workers":
        machine: Any = DieHard((3, 5, 7))
        found = explore(machine, workers=2, progress=told.append, stop=Stop.NEVER)
    else:
        found = explored(by, DieHard((3, 5, 7)), progress=told.append)
    assert told[-1].levels == found.levels[: len(told[-1].levels)]
    assert len(told[-1].levels) >= len(found.levels) - 1

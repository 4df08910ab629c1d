"""Random walks: the same from the same seed in every process, unlike one another, and fit to find violations."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from itertools import pairwise

import pytest

from tidegauge.model_tests.spec.kernel.toys import Award, Ceremony, DieHard
from tidegauge.spec.kernel.codec import trace_lines
from tidegauge.spec.kernel.simulation import diverse, simulate, walk, walks
from tidegauge.spec.kernel.traces import Trace, replay
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.published.kip320.state import State
from tidegauge.spec.published.kip320.variants import ExpandWithoutHighWatermark

DIGEST = """
from model_tests.spec.kernel.test_simulation import digest
print(digest())
"""


def digest() -> str:
    """A hash of twenty walks, as text."""
    machine = Kip320(max_leader_epoch=3)
    taken = walks(machine, seed=11, count=20)
    lines = [line for one in taken for line in trace_lines(machine, one.trace)]
    ceremony = [line for one in walks(Ceremony(), 11, 5) for line in trace_lines(Ceremony(), one.trace)]
    return hashlib.sha256("\n".join(lines + ceremony).encode()).hexdigest()


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_walk_is_the_same_in_every_process(hash_seed: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run([sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == digest()


def test_a_walk_can_be_taken_again_alone() -> None:
    machine = Kip320(max_leader_epoch=3)
    assert list(walks(machine, seed=4, count=5))[3] == walk(machine, 4, 3)
    assert walk(machine, 4, 3).trace != walk(machine, 4, 2).trace != walk(machine, 5, 2).trace


def test_a_walk_is_a_behaviour() -> None:
    machine = Kip320(max_leader_epoch=3)
    for taken in walks(machine, seed=2, count=20):
        again = replay(machine, taken.trace.actions)
        assert again.trace == taken.trace
        assert not again.skipped


def test_a_walk_ends_at_its_length_or_where_nothing_can_happen() -> None:
    assert len(walk(DieHard((2, 7)), 1, length=9).trace) == 10
    short = walk(Ceremony(("gold", "tin")), 1, length=100).trace
    assert not list(Ceremony(("gold", "tin")).actions(short.last))


def test_a_walk_ends_at_a_violation() -> None:
    machine = ExpandWithoutHighWatermark()
    found = [taken for taken in walks(machine, seed=1, count=100) if taken.violation is not None]
    assert found
    for taken in found:
        assert taken.violation is not None
        assert taken.violation == replay(machine, taken.trace.actions).violation
        assert taken.violation.values


def test_a_simulation_sums_up_its_walks() -> None:
    taken = list(walks(Ceremony(), seed=6, count=30, length=8))
    total = simulate(Ceremony(), seed=6, count=30, length=8)
    awards = sum(isinstance(action, Award) for one in taken for action in one.trace.actions)
    assert total.steps == sum(len(one.trace.steps) for one in taken)
    assert total.coverage[0].taken == awards
    assert total.coverage[0].enabled <= total.steps
    assert total.distinct == len({state for one in taken for state in one.trace.states})
    assert total.distinct == 1 + sum(row.found for row in total.coverage)
    first = next(one for one in taken if one.violation is not None)
    assert total.violations == {"NoThirdInARow": first}
    assert not total.holds


def test_goals_are_reached_or_reported() -> None:
    total = simulate(DieHard(), seed=1, count=20, length=30)
    assert total.unreached == ("Six",)
    assert total.reached["FirstFull"].last.jugs[0].litres == 3
    assert all(state.jugs[0].litres < 3 for state in total.reached["FirstFull"].states[:-1])
    assert total.never_enabled == ("Smash",)


def test_swarm_walks_are_less_alike() -> None:
    machine = Kip320(max_leader_epoch=4)

    def spread(swarm: bool) -> int:
        """Over forty walks, the largest share less the smallest of each kind of action, summed, in percent."""
        traces = [one.trace for one in walks(machine, 7, 40, length=60, swarm=swarm)]
        shares = [
            [100 * sum(type(a) is kind for a in trace.actions) // max(1, len(trace.actions)) for trace in traces]
            for kind in machine.action_types
        ]
        return sum(max(share) - min(share) for share in shares)

    assert spread(swarm=True) > spread(swarm=False)


def test_diverse_traces_each_show_something_new() -> None:
    traces = [one.trace for one in walks(Kip320(max_leader_epoch=3), 8, 100)]
    chosen = list(diverse(traces))
    assert chosen[0] == traces[0]
    assert 1 < len(chosen) < len(traces)

    def pairs(several: list[Trace[State]]) -> set[tuple[type, type]]:
        return {(type(a), type(b)) for trace in several for a, b in pairwise(trace.actions)}

    assert pairs(chosen) == pairs(traces)
    assert list(diverse(chosen)) == chosen

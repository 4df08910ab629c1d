"""Our explorer and TLC agree on the published PullRaft model: states, levels, steps, and shortest counterexamples."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.kernel.explorer import Stop, explore
from tidegauge.spec.kernel.progress import Limits
from tidegauge.spec.published.kraft.state import NOBODY, Entry, Position
from tidegauge.spec.published.pull_raft import variants
from tidegauge.spec.published.pull_raft.machine import PullRaft
from tidegauge.spec.published.pull_raft.state import PullEntriesRequest, Role, Server


@attrs.frozen
class Found:
    """What TLC found of one model; where it was cut, up to which level, of which the last was expanded too."""

    machine: PullRaft
    distinct: int
    generated: int
    taken: Mapping[str, int]
    """Steps by action, without those that are never taken."""
    levels: tuple[int, ...]
    symmetric: bool = False
    cut: bool = False


def steps(*counts: int) -> dict[str, int]:
    """By action, in the order in which the machine has them."""
    named = zip((kind.__name__ for kind in PullRaft.action_types), counts, strict=True)
    return {name: count for name, count in named if count}


# fmt: off
FOUND = {
    "pulls, 2 servers, 2 elections": Found(
        PullRaft(servers=2, values=1, max_elections=2), 456, 679,
        steps(0, 44, 40, 98, 132, 72, 64, 0, 32, 0, 166, 30, 0),
        (
            1, 2, 5, 10, 19, 30, 41, 48, 56, 58, 52, 40, 32, 28, 22, 10, 2,
        ),
    ),
    "pulls, 3 servers": Found(
        PullRaft(values=1), 1_270, 3_202,
        steps(0, 120, 3, 252, 480, 60, 156, 0, 366, 390, 1_008, 366, 0),
        (
            1, 3, 6, 9, 18, 27, 36, 48, 75, 102, 111, 117, 144, 165, 150, 117, 84, 45, 12,
        ),
    ),
}
LARGE = {
    "pulls, 3 servers, 1 restart": Found(
        PullRaft(values=1, max_restarts=1), 4_229, 13_519,
        steps(3_810, 372, 6, 768, 1_464, 120, 312, 0, 732, 1_344, 3_372, 1_218, 0),
        (
            1, 4, 12, 21, 36, 69, 102, 132, 192, 279, 342, 372, 414, 495, 534, 471, 360, 243, 120, 30,
        ),
    ),
    "pulls, 3 servers, 2 values": Found(
        PullRaft(), 10_819, 28_990,
        steps(0, 372, 3, 1_728, 4_116, 60, 2_322, 0, 3_864, 3_216, 7_920, 5_388, 0),
        (
            1, 3, 6, 9, 18, 27, 42, 72, 123, 201, 297, 396, 522, 642, 702, 714, 774, 858, 930, 972, 966,
            900, 762, 540, 270, 72,
        ),
    ),
    "pulls, 3 servers, 2 elections, with symmetry, 14 levels": Found(
        PullRaft(values=1, max_elections=2), 7_371, 29_228,
        steps(0, 3_863, 322, 6_601, 5_867, 1_642, 2_121, 0, 840, 1_611, 6_005, 355, 0),
        (
            1, 1, 3, 7, 18, 40, 85, 162, 293, 489, 782, 1_193, 1_772, 2_525,
        ), symmetric=True, cut=True,
    ),
    "pulls, 3 servers, 2 elections, with symmetry": Found(
        PullRaft(values=1, max_elections=2), 95_553, 271_928,
        steps(0, 12_133, 460, 41_081, 57_300, 7_840, 7_922, 918, 20_977, 26_601, 75_494, 20_283, 918),
        (
            1, 1, 3, 7, 18, 40, 85, 162, 293, 489, 782, 1_193, 1_772, 2_525, 3_441, 4_470, 5_588, 6_704,
            7_658, 8_325, 8_751, 8_940, 8_757, 8_057, 6_843, 5_167, 3_255, 1_575, 532, 109, 10,
        ), symmetric=True,
    ),
}
SHORTEST = {
    variants.PullCommitsWithoutMajority: (1, "LeaderHasAllAckedValues", 14),
    variants.PullVotesForShorterLogs: (2, "LeaderHasAllAckedValues", 19),
}
"""Variant -> values, the invariant that is violated first, states of the shortest trace to it."""
LONG = (variants.PullVotesForShorterLogs,)
# fmt: on


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize("name", [*FOUND, *(pytest.param(name, marks=pytest.mark.deep) for name in LARGE)], ids=str)
def test_states_levels_and_steps_are_those_of_tlc(name: str, engine: Engine) -> None:
    tlc = {**FOUND, **LARGE}[name]
    # A search that is cut at a depth does not expand its last level; TLC has.
    limits = Limits(depth=len(tlc.levels) + 1) if tlc.cut else Limits()
    found = explore(tlc.machine, limits=limits, symmetry=tlc.symmetric, engine=engine)
    assert found.holds
    assert found.engine is engine
    assert found.generated + found.levels[0] == tlc.generated
    assert {one.action: one.taken for one in found.coverage if one.taken} == tlc.taken
    assert found.levels[: len(tlc.levels)] == tlc.levels
    levels = list(accumulate(found.levels))
    assert levels[len(tlc.levels) - 1 if tlc.cut else -1] == tlc.distinct


@pytest.mark.parametrize("variant", [pytest.param(one, marks=[pytest.mark.deep] * (one in LONG)) for one in SHORTEST])
def test_shortest_counterexamples_are_those_of_tlc(variant: type[PullRaft]) -> None:
    values, invariant, length = SHORTEST[variant]
    for engine in Engine:
        machine = variant(values=values, max_elections=2)
        found = explore(machine, symmetry=True, stop=Stop.FIRST, engine=engine)
        assert [(one.invariant, len(one.trace)) for one in found.violations] == [(invariant, length)]


LOG = (Entry(2, 0), Entry(2, 1), Entry(4, 2))


def leader(log: tuple[Entry, ...], epoch: int) -> Server:
    """A leader of three servers, of which one has all of its log."""
    return Server(epoch, Role.LEADER, 0, log, 0, (0, 1), (0, len(log), 0))


@pytest.mark.parametrize(
    ("end", "common"),
    [
        (Position(), Position()),
        (Position(1, 1), Position()),
        (Position(1, 2), Position(1, 2)),
        (Position(5, 2), Position(2, 2)),
        (Position(1, 3), Position(2, 2)),
        (Position(3, 4), Position(3, 4)),
    ],
)
def test_the_last_common_entry_is_the_leaders_last_one_that_is_not_behind_the_followers(
    end: Position, common: Position
) -> None:
    assert PullRaft().last_common(leader(LOG, 4), end) == common
    assert PullRaft().truncated(LOG, common) == LOG[: common.offset]
    is_valid = PullRaft().is_valid(leader(LOG, 4), PullEntriesRequest(1, 0, 4, end))
    assert is_valid is (end == common)


def test_an_entry_of_a_former_epoch_is_committed_with_one_of_the_leaders_own() -> None:
    assert PullRaft().commit_index(0, leader(LOG, 4)) == 3
    assert PullRaft().commit_index(0, leader(LOG, 5)) == 0
    assert PullRaft().commit_index(0, leader((), 5)) == 0


def test_a_vote_is_given_once_in_an_epoch() -> None:
    voter = Server(2, Role.FOLLOWER, NOBODY, LOG, 0, (), (0, 0, 0))
    assert [PullRaft().is_free_for(attrs.evolve(voter, leader=one), 1) for one in (NOBODY, 1, 2)] == [True, True, False]


@pytest.mark.parametrize("constant", ["servers", "values"])
def test_constants_that_fit_no_state_are_refused_by_name(constant: str) -> None:
    with pytest.raises(ValueError, match=f"{constant}=0"):
        next(iter(PullRaft(**{constant: 0}).initial()))


def test_a_violation_shows_who_leads_and_the_logs() -> None:
    machine = variants.PullCommitsWithoutMajority(values=1, max_elections=2)
    found = explore(machine, symmetry=True, stop=Stop.FIRST)
    values: dict[str, Any] = dict(found.violations[0].values)
    assert sorted(values["commit indexes"]) == [0, 0, 1]
    assert values["acknowledged"] == [0]

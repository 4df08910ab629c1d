"""Our explorer and TLC agree on the published KRaft model: states, levels, steps, and shortest counterexamples."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import attrs
import pytest

from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.kernel.explorer import Stop, explore
from tidegauge.spec.kernel.progress import Limits
from tidegauge.spec.published.kraft import variants
from tidegauge.spec.published.kraft.machine import Kraft
from tidegauge.spec.published.kraft.state import Entry, Position
from tidegauge.spec.published.kraft.variants import CountedAsByTlc


@attrs.frozen
class Found:
    """What TLC found of one model; where it was cut, up to which level, of which the last was expanded too."""

    machine: Kraft
    distinct: int
    generated: int
    taken: Mapping[str, int]
    """Steps by action, without those that are never taken."""
    levels: tuple[int, ...]
    symmetric: bool = False
    cut: bool = False


def steps(*counts: int) -> dict[str, int]:
    """By action, in the order in which the machine has them."""
    named = zip((kind.__name__ for kind in Kraft.action_types), counts, strict=True)
    return {name: count for name, count in named if count}


# fmt: off
FOUND = {
    "2 servers": Found(
        CountedAsByTlc(servers=2), 55, 69, steps(0, 2, 2, 2, 2, 12, 0, 0, 16, 4, 16, 12, 0, 0),
        (),
    ),
    "2 servers, 2 elections": Found(
        CountedAsByTlc(servers=2, max_elections=2), 1_230, 1_827,
        steps(0, 54, 112, 228, 54, 206, 176, 0, 324, 80, 352, 240, 0, 0),
        (
            1, 2, 5, 8, 13, 16, 19, 28, 42, 54, 66, 74, 74, 80, 84, 88, 92, 82, 82, 78, 64, 50, 48, 40, 16, 14, 10,
        ),
    ),
    "3 servers, with symmetry": Found(
        CountedAsByTlc(), 1_759, 3_894, steps(0, 3, 508, 4, 3, 123, 0, 0, 924, 144, 1_176, 1_008, 0, 0),
        (), symmetric=True,
    ),
}
LARGE = {
    "2 servers, 2 elections, 2 values": Found(
        CountedAsByTlc(servers=2, max_elections=2, values=2), 8_076, 12_053,
        steps(0, 252, 514, 1_100, 194, 2_136, 1_248, 0, 1_920, 354, 2_452, 1_882, 0, 0),
        (
            1, 2, 5, 8, 13, 18, 27, 46, 82, 122, 162, 204, 230, 260, 308, 348, 382, 428, 466, 492, 520, 500, 528,
            540, 464, 424, 416, 348, 216, 208, 172, 52, 48, 36,
        ),
    ),
    "2 servers, 2 elections, 1 restart": Found(
        CountedAsByTlc(servers=2, max_elections=2, max_restarts=1), 11_169, 16_617,
        steps(2_460, 366, 728, 1_362, 444, 1_236, 2_104, 0, 2_106, 860, 2_862, 1_640, 0, 448),
        (
            1, 4, 11, 23, 39, 59, 79, 107, 166, 250, 328, 414, 484, 544, 620, 680, 752, 804, 782, 822, 816, 710,
            642, 602, 492, 312, 264, 204, 70, 48, 36, 4,
        ),
    ),
    "3 servers": Found(
        CountedAsByTlc(), 10_468, 23_167, steps(0, 3, 3_042, 18, 15, 720, 0, 0, 5_496, 852, 7_008, 6_012, 0, 0),
        (
            1, 3, 6, 9, 12, 27, 57, 99, 153, 225, 297, 357, 417, 480, 543, 612, 681, 750, 804, 846, 852, 786, 702,
            600, 462, 315, 192, 117, 54, 9,
        ),
    ),
    "2 servers, 3 elections": Found(
        CountedAsByTlc(servers=2, max_elections=3), 37_706, 66_629,
        steps(0, 1_200, 4_704, 13_162, 1_610, 5_064, 9_016, 0, 9_992, 3_252, 11_352, 7_276, 0, 0),
        (
            1, 2, 5, 12, 27, 54, 91, 136, 206, 338, 526, 748, 976, 1_170, 1_316, 1_480, 1_694, 1_906, 2_102, 2_222,
            2_336, 2_420, 2_380, 2_326, 2_226, 2_126, 1_904, 1_602, 1_390, 1_186, 936, 632, 524, 386, 146, 108, 66,
        ),
    ),
    "3 servers, 2 values, with symmetry": Found(
        CountedAsByTlc(values=2), 36_862, 78_705,
        steps(0, 3, 10_552, 4, 3, 3_504, 0, 0, 15_540, 756, 24_612, 23_730, 0, 0),
        (
            1, 1, 1, 2, 2, 6, 15, 30, 52, 83, 123, 165, 216, 278, 345, 429, 543, 664, 802, 982, 1_160, 1_324,
            1_512, 1_694, 1_860, 2_010, 2_168, 2_296, 2_354, 2_392, 2_378, 2_220, 2_034, 1_802, 1_496, 1_164, 866,
            618, 388, 204, 118, 54, 10,
        ), symmetric=True,
    ),
    "3 servers, 1 restart, with symmetry": Found(
        CountedAsByTlc(max_restarts=1), 22_611, 48_356,
        steps(5_277, 6, 4_074, 1_982, 11, 545, 5_024, 0, 3_976, 984, 13_768, 6_348, 0, 6_360),
        (
            1, 2, 4, 6, 9, 13, 30, 61, 107, 168, 248, 337, 424, 523, 637, 752, 875, 1_012, 1_147, 1_261, 1_377,
            1_453, 1_466, 1_454, 1_412, 1_314, 1_174, 1_042, 931, 770, 635, 536, 423, 319, 236, 175, 118, 66, 47,
            28, 9, 6, 3,
        ), symmetric=True,
    ),
    "3 servers, 2 elections, with symmetry": Found(
        CountedAsByTlc(max_elections=2), 78_793, 342_941,
        steps(0, 1_228, 60_945, 44_067, 4_913, 31_041, 17_690, 1_137, 51_020, 60_508, 49_836, 19_208, 398, 949),
        (
            1, 1, 3, 6, 15, 29, 60, 122, 278, 610, 1_236, 2_306, 4_079, 6_987, 11_740, 19_493, 31_827,
        ), symmetric=True, cut=True,
    ),
}
SHORTEST = {
    variants.LeadsWithoutMajority: (2, "NeverTwoLeadersInSameEpoch", 5),
    variants.VotesForAll: (2, "NeverTwoLeadersInSameEpoch", 9),
    variants.CommitsWithoutMajority: (1, "CommittedEntriesReachMajority", 9),
    variants.CommitsOnSending: (1, "CommittedEntriesReachMajority", 9),
    variants.CountsStaleVotes: (3, "NoIllegalState", 11),
    variants.VotesForShorterLogs: (2, "LeaderHasAllAckedValues", 17),
}
"""Variant -> elections, the invariant that is violated first, states of the shortest trace to it."""
LONG = (variants.CountsStaleVotes, variants.VotesForShorterLogs)
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
    if tlc.levels:
        assert found.levels[: len(tlc.levels)] == tlc.levels
    levels = list(accumulate(found.levels))
    assert levels[len(tlc.levels) - 1 if tlc.cut else -1] == tlc.distinct


@pytest.mark.parametrize("variant", [pytest.param(one, marks=[pytest.mark.deep] * (one in LONG)) for one in SHORTEST])
def test_shortest_counterexamples_are_those_of_tlc(variant: type[Kraft]) -> None:
    elections, invariant, length = SHORTEST[variant]
    for engine in Engine:
        found = explore(variant(max_elections=elections), symmetry=True, stop=Stop.FIRST, engine=engine)
        assert [(one.invariant, len(one.trace)) for one in found.violations] == [(invariant, length)]


def test_a_restart_leads_to_an_illegal_state_as_it_does_in_tlc() -> None:
    class Whole(Kraft):
        """With the invariant that does not hold of restarts."""

        @property
        def invariants(self):  # type: ignore[no-untyped-def]
            return {"NoIllegalState": Kraft().invariants["NoIllegalState"]}

    found = explore(Whole(servers=2, max_restarts=1), stop=Stop.FIRST)
    assert [(one.invariant, len(one.trace)) for one in found.violations] == [("NoIllegalState", 7)]


def test_a_log_is_truncated_behind_the_last_entry_that_is_not_behind_the_leaders() -> None:
    log = (Entry(2, 0), Entry(2, 1), Entry(4, 2))
    cut = {
        end: len(Kraft().truncated(log, end)) for end in (Position(), Position(1, 2), Position(5, 2), Position(1, 3))
    }
    assert cut == {Position(): 0, Position(1, 2): 1, Position(5, 2): 2, Position(1, 3): 2}
    assert Kraft().truncated(log, Position(3, 4)) == log


@pytest.mark.parametrize("constant", ["servers", "values"])
def test_constants_that_fit_no_state_are_refused_by_name(constant: str) -> None:
    with pytest.raises(ValueError, match=f"{constant}=0"):
        next(iter(Kraft(**{constant: 0}).initial()))


def test_a_violation_shows_who_leads_and_the_logs() -> None:
    found = explore(variants.CommitsWithoutMajority(), symmetry=True)
    values: dict[str, Any] = dict(found.violations[0].values)
    assert sorted(values["high watermarks"]) == [0, 0, 1]
    assert sorted(map(len, values["logs"])) == [0, 0, 1]

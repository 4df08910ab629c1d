"""Our explorer and TLC agree on the published models of transactions: states, levels, steps, and counterexamples."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.kernel.explorer import Stop, explore
from tidegauge.spec.published.transactions_diary import variants
from tidegauge.spec.published.transactions_diary.machine import FirstDiary, TransactionsDiary


@attrs.frozen
class Found:
    """What TLC found of one model."""

    machine: TransactionsDiary
    generated: int
    taken: Mapping[str, int]
    """Steps by action, without those that are never taken."""
    levels: tuple[int, ...]


def steps(machine: TransactionsDiary, *counts: int) -> dict[str, int]:
    """By action, in the order in which the machine has them."""
    named = zip((kind.__name__ for kind in machine.action_types), counts, strict=True)
    return {name: count for name, count in named if count}


ONE = FirstDiary(clients=1)
TWO = FirstDiary()
UNELECTED = TransactionsDiary(max_elections=0)
WHOLE = TransactionsDiary()
# fmt: off
FOUND = {
    "first diary, 1 client": Found(ONE, 15, steps(ONE, 4, 4, 4, 2), (1, 2, 2, 2, 3, 2, 1, 1)),
    "first diary, 2 clients": Found(
        TWO, 861, steps(TWO, 184, 184, 352, 140),
        (1, 4, 8, 12, 19, 28, 35, 40, 46, 52, 53, 50, 44, 36, 28, 16, 8, 4),
    ),
    "second diary, no elections": Found(
        UNELECTED, 771, steps(UNELECTED, 40, 40, 132, 116, 116, 198, 128, 0, 0, 0),
        (1, 2, 3, 4, 6, 10, 14, 18, 22, 28, 34, 38, 44, 46, 42, 36, 30, 26, 18, 12, 10, 4),
    ),
    "second diary": Found(
        WHOLE, 19_646, steps(WHOLE, 976, 1_168, 3_192, 2_696, 2_696, 5_028, 2_736, 448, 605, 100),
        (
            1, 3, 8, 18, 32, 54, 77, 108, 141, 180, 237, 296, 364, 450, 546, 624, 676, 750, 800, 796, 794, 770, 712,
            604, 502, 440, 314, 210, 176, 102, 46, 38, 18, 4, 4, 2,
        ),
    ),
}
# fmt: on
DISTINCT = {
    "first diary, 1 client": 14,
    "first diary, 2 clients": 484,
    "second diary, no elections": 448,
    "second diary": 10_897,
}
SHORTEST: Mapping[TransactionsDiary, tuple[str, int]] = {
    variants.EmptiesNothing(): ("TypeOK", 3),
    variants.KeepsEpoch(max_elections=0): ("TypeOK", 6),
    variants.TransitionsAtOnce(max_elections=0): ("ClientsHaveDifferentProducerEpochs", 9),
    variants.KeepsCoordinatorEpoch(): ("TCsHaveDifferentEpochs", 2),
}
"""Variant -> the invariant that is violated first, states of the shortest trace to it."""
UNNOTICED: Mapping[TransactionsDiary, tuple[int, int, int]] = {
    variants.FencesInSameEpoch(max_elections=0): (448, 771, 22),
    variants.CommitsWhenDeposed(): (10_897, 19_646, 36),
    variants.FencesNobody(): (16_201, 27_926, 37),
}
"""Variant that violates nothing -> states, of which generated with those known, and levels."""


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize("name", FOUND)
def test_states_levels_and_steps_are_those_of_tlc(name: str, engine: Engine) -> None:
    tlc = FOUND[name]
    found = explore(tlc.machine, engine=engine)
    assert found.holds
    assert found.engine is engine
    assert found.generated + found.levels[0] == tlc.generated
    assert {one.action: one.taken for one in found.coverage if one.taken} == tlc.taken
    assert found.levels == tlc.levels
    assert sum(found.levels) == DISTINCT[name]


@pytest.mark.parametrize("variant", SHORTEST, ids=lambda one: type(one).__name__)
def test_shortest_counterexamples_are_those_of_tlc(variant: TransactionsDiary) -> None:
    for engine in Engine:
        found = explore(variant, stop=Stop.FIRST, engine=engine)
        assert [(one.invariant, len(one.trace)) for one in found.violations] == [SHORTEST[variant]]


@pytest.mark.parametrize("variant", UNNOTICED, ids=lambda one: type(one).__name__)
def test_what_no_invariant_notices_has_as_many_states_as_in_tlc(variant: TransactionsDiary) -> None:
    found = explore(variant)
    assert not found.violations
    assert (sum(found.levels), found.generated + 1, len(found.levels)) == UNNOTICED[variant]


@pytest.mark.parametrize("machine", [ONE, TWO, UNELECTED, WHOLE], ids=str)
def test_every_client_has_a_producer_id_in_the_end_and_one_adds_its_partition(machine: TransactionsDiary) -> None:
    found = explore(machine, converges=True)
    assert found.convergence is not None
    assert not found.convergence.lassos


@pytest.mark.parametrize("constant", ["brokers", "clients"])
def test_constants_that_fit_no_state_are_refused_by_name(constant: str) -> None:
    with pytest.raises(ValueError, match=f"{constant}=0"):
        next(iter(TransactionsDiary(**{constant: 0}).initial()))


def test_a_violation_shows_who_leads_in_which_epoch() -> None:
    found = explore(variants.KeepsCoordinatorEpoch(), stop=Stop.FIRST)
    assert dict(found.violations[0].values)["coordinators"] == [(0, 1), (1, 1)]

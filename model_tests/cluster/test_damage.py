"""Damaged files of partition logs, in whole clusters: what docs/durability.md promises is what is observed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
import trio

from tidegauge.model_tests.harness.damage import campaign
from tidegauge.model_tests.harness.damage.cells import (
    ALL,
    BESIDE,
    CHECKPOINT_DAMAGE,
    CHECKPOINTS,
    CLEANED_TO,
    RECOVERY_POINT,
    UNDAMAGED,
    Kind,
    Pair,
    Promise,
    Stop,
    kinds,
    segment_kinds,
    table,
    table_of_pairs,
)
from tidegauge.model_tests.harness.deterministic import run_deterministically

ROOT = Path(__file__).resolve().parents[2]
KINDS, OF_CLEANED = tuple(kinds()), tuple(kinds(cleaned=True))
SEGMENT_KINDS, SEGMENTS_OF_CLEANED = tuple(segment_kinds()), tuple(segment_kinds(cleaned=True))


def observed(
    damaged: Sequence[Kind],
    stop: Stop,
    replicas: int,
    seed: int,
    beside: tuple[Sequence[str], str] = ((), ""),
    *,
    cleaned: bool = False,
) -> list[campaign.Observed]:
    found: list[campaign.Observed] = []

    async def look() -> None:
        found.extend(await campaign.run(damaged, stop, replicas, seed, beside, cleaned=cleaned))

    run_deterministically(look, seed=seed)
    return found


def hold_against_promises(stop: Stop, replicas: int, seed: int, *, cleaned: bool = False) -> None:
    broken = [
        f"{one.kind.file}, {one.kind.damage}: {one.outcome}, promised {one.kind.promise(stop, replicas)} ({one.detail})"
        for one in observed(OF_CLEANED if cleaned else KINDS, stop, replicas, seed, cleaned=cleaned)
        if one.outcome is not one.kind.promise(stop, replicas)
    ]
    assert not broken, "\n" + "\n".join(broken)


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("stop", Stop)
def test_each_kind_of_damage_does_what_is_promised(stop: Stop, replicas: int) -> None:
    hold_against_promises(stop, replicas, seed=1)


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("stop", Stop)
def test_each_kind_of_damage_to_a_log_that_a_cleaner_was_at_does_what_is_promised(stop: Stop, replicas: int) -> None:
    hold_against_promises(stop, replicas, seed=1, cleaned=True)


@pytest.mark.deep
@pytest.mark.parametrize("cleaned", [False, True])
@pytest.mark.parametrize("seed", range(2, 40))
def test_each_kind_of_damage_does_what_is_promised_with_every_seed(seed: int, cleaned: bool) -> None:
    for stop in Stop:
        for replicas in (1, 3):
            hold_against_promises(stop, replicas, seed, cleaned=cleaned)


@pytest.mark.parametrize(
    ("name", "damage", "stop"),
    [
        pytest.param(name, damage, stop, marks=[pytest.mark.deep] * ((nth + at) % len(Stop) > 0))
        for nth, (name, damage) in enumerate(product(CHECKPOINTS, CHECKPOINT_DAMAGE))
        for at, stop in enumerate(Stop)
    ],
)
def test_no_damage_to_a_checkpoint_costs_a_record(name: str, damage: str, stop: Stop) -> None:
    for one in observed([UNDAMAGED] * 2, stop, 1, 1, ([name], damage)):
        assert one.outcome is Promise.RECOVERED, (one.detail, one.lines)


@pytest.mark.deep
@pytest.mark.parametrize("damage", CHECKPOINT_DAMAGE)
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_no_damage_to_a_checkpoint_of_one_of_three_costs_a_record(name: str, damage: str) -> None:
    for stop in Stop:
        for seed in range(4):
            for one in observed([UNDAMAGED] * 2, stop, 3, seed, ([name], damage)):
                assert one.outcome is Promise.RECOVERED, (one.detail, one.lines)


def hold_pairs_against_promises(
    beside: str, damage: str, stop: Stop, replicas: int, seed: int, *, cleaned: bool = False
) -> None:
    damaged = SEGMENTS_OF_CLEANED if cleaned else SEGMENT_KINDS
    found = observed(damaged, stop, replicas, seed, (BESIDE[beside], damage), cleaned=cleaned)
    broken = [
        f"{one.kind.file}, {one.kind.damage}: {one.outcome}, promised {promised} ({one.detail})"
        for one in found
        for promised in (Pair(beside, damage, one.kind, cleaned).promised(stop, replicas),)
        if one.outcome not in promised
    ]
    assert not broken, "\n" + "\n".join(broken)


@pytest.mark.parametrize("beside", BESIDE)
def test_a_damaged_segment_and_a_lost_checkpoint_do_what_is_promised_together(beside: str) -> None:
    hold_pairs_against_promises(beside, "missing", Stop.CLEAN, replicas=1, seed=1)


@pytest.mark.parametrize("beside", [RECOVERY_POINT, CLEANED_TO])
def test_a_damaged_segment_and_a_lost_checkpoint_of_a_log_that_a_cleaner_was_at_do_what_is_promised_together(
    beside: str,
) -> None:
    hold_pairs_against_promises(beside, "missing", Stop.KILLED, replicas=1, seed=1, cleaned=True)


@pytest.mark.parametrize("stop", Stop)
def test_a_damaged_segment_and_all_checkpoints_there_but_damaged_do_what_is_promised_together(stop: Stop) -> None:
    hold_pairs_against_promises(ALL, "garbage", stop, replicas=1, seed=1)


def test_a_follower_appends_nothing_to_damage_where_the_recovery_point_is_lost() -> None:
    hold_pairs_against_promises(RECOVERY_POINT, "a huge number", Stop.CLEAN, replicas=3, seed=1)
    hold_pairs_against_promises(ALL, "missing", Stop.CLEAN, replicas=3, seed=1)
    hold_pairs_against_promises(ALL, "garbage", Stop.CLEAN, replicas=3, seed=1)


@pytest.mark.deep
@pytest.mark.parametrize("damage", CHECKPOINT_DAMAGE)
@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("cleaned", [False, True])
def test_a_damaged_segment_and_a_damaged_checkpoint_do_what_is_promised_with_every_seed(
    beside: str, damage: str, cleaned: bool
) -> None:
    for seed in range(1, 5):
        for stop in Stop:
            for replicas in (1, 3):
                hold_pairs_against_promises(beside, damage, stop, replicas, seed, cleaned=cleaned)


def test_the_page_has_the_promises_that_campaigns_look_for() -> None:
    page = (ROOT / "docs" / "durability.md").read_text("utf-8")
    assert table() in page
    assert table_of_pairs() in page


@pytest.mark.deep
@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("stop", Stop)
def test_each_kind_of_damage_does_what_is_promised_on_a_real_disk(stop: Stop, replicas: int, tmp_path: Path) -> None:
    async def look() -> list[campaign.Observed]:
        return await campaign.run(KINDS, stop, replicas, 1, directory=tmp_path)

    for one in trio.run(look):
        assert one.outcome is one.kind.promise(stop, replicas), (one.kind.file, one.kind.damage, one.detail)

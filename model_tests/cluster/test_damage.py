"""Damaged files of partition logs, in whole clusters: what docs/durability.md promises is what is observed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from tidegauge.model_tests.harness.damage import campaign
from tidegauge.model_tests.harness.damage.cells import (
    CHECKPOINT_DAMAGE,
    CHECKPOINTS,
    UNDAMAGED,
    Kind,
    Promise,
    Stop,
    kinds,
    table,
)
from tidegauge.model_tests.harness.deterministic import run_deterministically

ROOT = Path(__file__).resolve().parents[2]
KINDS = tuple(kinds())


def observed(
    damaged: Sequence[Kind], stop: Stop, replicas: int, seed: int, checkpoint: tuple[str, str] | None = None
) -> list[campaign.Observed]:
    found: list[campaign.Observed] = []

    async def look() -> None:
        found.extend(await campaign.run(damaged, stop, replicas, seed, checkpoint))

    run_deterministically(look, seed=seed)
    return found


def hold_against_promises(stop: Stop, replicas: int, seed: int) -> None:
    broken = [
        f"{one.kind.file}, {one.kind.damage}: {one.outcome}, promised {one.kind.promise(stop, replicas)} ({one.detail})"
        for one in observed(KINDS, stop, replicas, seed)
        if one.outcome is not one.kind.promise(stop, replicas)
    ]
    assert not broken, "\n" + "\n".join(broken)


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("stop", Stop)
def test_each_kind_of_damage_does_what_is_promised(stop: Stop, replicas: int) -> None:
    hold_against_promises(stop, replicas, seed=1)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2, 40))
def test_each_kind_of_damage_does_what_is_promised_with_every_seed(seed: int) -> None:
    for stop in Stop:
        for replicas in (1, 3):
            hold_against_promises(stop, replicas, seed)


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("damage", CHECKPOINT_DAMAGE)
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_no_damage_to_a_checkpoint_costs_a_record(name: str, damage: str, stop: Stop) -> None:
    for one in observed([UNDAMAGED] * 2, stop, 1, 1, (name, damage)):
        assert one.outcome is Promise.RECOVERED, (one.detail, one.lines)


@pytest.mark.deep
@pytest.mark.parametrize("damage", CHECKPOINT_DAMAGE)
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_no_damage_to_a_checkpoint_of_one_of_three_costs_a_record(name: str, damage: str) -> None:
    for stop in Stop:
        for seed in range(4):
            for one in observed([UNDAMAGED] * 2, stop, 3, seed, (name, damage)):
                assert one.outcome is Promise.RECOVERED, (one.detail, one.lines)


def test_the_page_has_the_promises_that_campaigns_look_for() -> None:
    assert table() in (ROOT / "docs" / "durability.md").read_text("utf-8")


@pytest.mark.deep
@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("stop", Stop)
def test_each_kind_of_damage_does_what_is_promised_on_a_real_disk(stop: Stop, replicas: int, tmp_path: Path) -> None:
    async def look() -> list[campaign.Observed]:
        return await campaign.run(KINDS, stop, replicas, 1, directory=tmp_path)

    for one in trio.run(look):
        assert one.outcome is one.kind.promise(stop, replicas), (one.kind.file, one.kind.damage, one.detail)

"""Damaged files of a controller, in whole clusters: what docs/durability.md promises is what is observed."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import CONTROLLER
from tidegauge.impl.server.controller.metadata_log import METADATA_DIRECTORY, StoredMetadataLog
from tidegauge.model_tests.harness.damage import controller
from tidegauge.model_tests.harness.deterministic import run_deterministically
from tidegauge.model_tests.simulated import simulated

ROOT = Path(__file__).resolve().parents[2]


def hold(seed: int) -> None:
    found: list[str] = []

    async def look() -> None:
        found.extend(await controller.run(seed))

    run_deterministically(look, seed=seed)
    assert not found, "\n" + "\n".join(found)


def test_a_damaged_file_of_a_controller_does_what_is_promised_and_costs_no_topic() -> None:
    hold(1)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2, 30))
def test_it_does_with_every_seed(seed: int) -> None:
    hold(seed)


@pytest.mark.deep
def test_it_does_on_a_real_disk(tmp_path: Path) -> None:
    async def look() -> list[str]:
        return list(await controller.run(1, directory=tmp_path))

    found = trio.run(look)
    assert not found, "\n" + "\n".join(found)


def test_the_page_has_the_promises_that_the_campaign_looks_for() -> None:
    assert controller.table() in (ROOT / "docs" / "durability.md").read_text("utf-8")


def test_a_broker_applies_no_metadata_that_are_not_intact(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Though a controller gives them out: a flipped bit may still look like metadata, of another topic."""

    def unchecked(self: StoredMetadataLog, offset: int, max_bytes: int) -> bytes:
        return self.log.read(offset, max_bytes, self.end_offset) if offset < self.end_offset else b""

    monkeypatch.setattr(StoredMetadataLog, "read_batches", unchecked)

    @simulated
    async def run() -> None:
        async with Cluster(2, 1) as cluster:
            await cluster.create_topic("orders", assignments=[[1]])
            async with cluster.client("user") as client:
                await client.produce("orders", b"kept")
                medium = cluster.host.simulated("a bit flips").medium(CONTROLLER)
                (path,) = (one for one in medium.files() if one.endswith(".log") and METADATA_DIRECTORY in one)
                position = medium.files()[path].index(b'"orders"') + 1
                medium.flip_bit(path, position)
                await cluster.crash(1, lose_unsynced=False)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(cluster.restart, 1)
                    await trio.sleep(5)
                    assert cluster.broker(1).halted is None
                    assert not cluster.broker(1).unfenced.is_set()
                    assert cluster.strays(1) == []
                    medium.flip_bit(path, position)
                with trio.fail_after(30):
                    await cluster.wait_for_isr("orders", (1,))
                assert list((await client.fetch("orders", 0)).values) == [b"kept"]

    run()
    assert "metadata refused: node=broker-1 offset=0" in caplog.text

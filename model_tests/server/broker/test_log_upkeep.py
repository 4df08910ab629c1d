"""Brokers flush in the background: segments that were closed, what has waited for flush.ms, checkpoints."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.ports.failing_disk import SYNCS
from tidegauge.impl.server.broker import log_upkeep
from tidegauge.impl.server.broker.log_upkeep import FREE_INTERVAL_MS
from tidegauge.impl.storage.log import Log
from tidegauge.model_tests.simulated import simulated


def log_of(cluster: Cluster, partition: int = 0) -> Log:
    hosted = cluster.broker(0).replicas.get("t", partition)
    assert hosted is not None
    return hosted.log


@simulated
async def test_a_segment_that_is_closed_is_flushed_and_a_crash_does_not_take_it() -> None:
    async with Cluster(brokers=1, seed=4) as cluster, cluster.client() as client:
        await cluster.create_topic("t", config={"segment.bytes": 1_000_000})
        for _ in range(3):
            await client.produce("t", bytes(600_000))
        await trio.sleep(0.1)
        log = log_of(cluster)
        assert (log.flushed_end_offset, log.log_end_offset) == (2, 3)
        await cluster.crash(0)
        await cluster.restart(0)
        assert log_of(cluster).log_end_offset >= 2


@simulated
async def test_a_flush_in_the_background_that_fails_takes_the_directory_offline() -> None:
    async with Cluster(brokers=1, seed=4) as cluster, cluster.client() as client:
        await cluster.create_topic("t", config={"segment.bytes": 1_000_000})
        await client.produce("t", bytes(600_000))
        cluster.host.disk(broker_name(0)).fail(operations=SYNCS)
        with suppress(KafkaError):  # the broker is gone before it can response
            await client.produce("t", bytes(600_000))
        await trio.sleep(0.1)
        assert "every log directory has failed" in (cluster.broker(0).halted or "")


SLOW = {"log.flush.interval.ms": 50, "log.flush.scheduler.interval.ms": 100}


@pytest.mark.parametrize("config", [SLOW, {"replica.high.watermark.checkpoint.interval.ms": 50}], ids=["flush", "hw"])
def test_requests_are_handled_while_a_disk_syncs(tmp_path: Path, config: dict[str, int]) -> None:
    """The sync lasts until a response has come."""

    async def produce_meanwhile() -> None:
        async with Cluster(1, 1, host="tcp", directory=tmp_path, config=config) as cluster, cluster.client() as client:
            await cluster.create_topic("t")
            disk = cluster.host.disk(broker_name(0))
            syncing, responded, loop = trio.Event(), threading.Event(), trio.lowlevel.current_trio_token()

            def watch(operation: object, _: str) -> None:
                if operation in SYNCS:
                    assert threading.current_thread() is not main_thread, "the loop waits for the disk"
                    trio.from_thread.run_sync(syncing.set, trio_token=loop)
                    assert responded.wait(20)

            main_thread = threading.current_thread()
            disk.watched_by(watch)
            try:
                assert await client.produce("t", b"x") == 0
                with trio.fail_after(20):
                    await syncing.wait()
                    assert await client.produce("t", b"meanwhile") == 1
            finally:
                responded.set()
                disk.watched_by(None)

    trio.run(produce_meanwhile)


@simulated
async def test_a_topic_is_made_with_one_sync_a_partition_and_one_for_all() -> None:
    async with Cluster(brokers=1, seed=4) as cluster, cluster.client() as client:
        disk, syncs = cluster.host.disk(broker_name(0)), 0

        def count(operation: object, _: str) -> None:
            nonlocal syncs
            syncs += operation in SYNCS

        disk.watched_by(count)
        await cluster.create_topic("t", partitions=30)
        for partition in range(30):
            await client.produce("t", b"x", partition=partition)
        disk.watched_by(None)
        assert syncs == 31


def test_a_broker_that_has_stopped_while_it_flushed_flushes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stop_meanwhile() -> None:
        async with Cluster(1, 1, host="tcp", directory=tmp_path) as cluster, cluster.client() as client:
            await cluster.create_topic("t", partitions=2)
            for partition in range(2):
                await client.produce("t", b"x", partition=partition)
            broker = cluster.broker(0)
            monkeypatch.setattr(log_upkeep, "FLUSHES_AT_ONCE", 1)
            with trio.CancelScope() as scope:

                async def in_background(work: Callable[[], object]) -> object:
                    result = work()
                    broker.stop()
                    scope.cancel()
                    return result

                monkeypatch.setattr(broker.disk, "in_background", in_background)
                await broker.upkeep._flush(list(broker.replicas))
            assert scope.cancelled_caught
            monkeypatch.undo()

    trio.run(stop_meanwhile)


@simulated
async def test_files_of_deleted_segments_go_on_time_and_only_logs_that_have_some_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    freed: list[str] = []
    free_deleted = Log.free_deleted

    def noted(self: Log, now_ms: int) -> int:
        freed.append(self.directory)
        return free_deleted(self, now_ms)

    async with Cluster(brokers=1, seed=4) as cluster, cluster.client() as client:
        settings = {"segment.bytes": 1_000, "retention.bytes": 0, "file.delete.delay.ms": 20_000}
        await cluster.create_topic("t", 3, config=settings)
        for _ in range(5):
            await client.produce("t", bytes(900), partition=1)
        monkeypatch.setattr(Log, "free_deleted", noted)
        await trio.sleep(FREE_INTERVAL_MS / 1_000)
        assert freed == [], "no log has deleted anything"
        assert await cluster.broker(0).upkeep.retain() > 0
        log = log_of(cluster, 1)
        await trio.sleep(2 * FREE_INTERVAL_MS / 1_000)
        assert log.has_deleted, "the delay is not over"
        await trio.sleep(20)
        assert not log.has_deleted
        assert set(freed) == {log.directory}
        freed.clear()
        await trio.sleep(2 * FREE_INTERVAL_MS / 1_000)
        assert freed == []

"""An idle cluster on the system's clock: whatever a node does again and again, it does at the same instants as others.

The brokers run on the simulated host with the rule of the system's clock, so that time is free.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.ports.clock import SimulatedClock, SystemClock
from tidegauge.impl.server.broker.fetch_schedule import Lane
from tidegauge.impl.server.controller.actions import DISK_CHECK_INTERVAL_MS
from tidegauge.model_tests.simulated import simulated

SETTLED_S = 20.0
LONG_S = 60.0
TOLD_MS = 1.0
"""Requests say in whole milliseconds how long they may wait."""


@simulated
async def test_what_an_idle_cluster_does_again_and_again_ends_at_multiples_of_its_period(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends: dict[int, set[float]] = defaultdict(set)

    def noted(self: SimulatedClock, period_ms: int) -> int:
        wait_ms = SystemClock.coalesced_ms(self, period_ms)  # type: ignore[arg-type]
        if trio.current_time() > SETTLED_S:
            ends[period_ms].add((trio.current_time() * 1000 + wait_ms) % period_ms)
        return wait_ms

    monkeypatch.setattr(SimulatedClock, "coalesced_ms", noted)
    async with Cluster(3, 1, trace=False) as cluster:
        config = cluster.config
        await cluster.create_topic("t", 3)
        await trio.sleep(SETTLED_S + LONG_S)
    often = {
        config.replica_fetch_wait_max_ms,
        config.metadata_fetch_wait_max_ms,
        config.broker_heartbeat_interval_ms,
        config.replica_high_watermark_checkpoint_interval_ms,
        config.replica_lag_time_max_ms // 2,
        config.log_cleaner_backoff_ms,
        DISK_CHECK_INTERVAL_MS,
    }
    assert set(ends) >= often
    assert all(min(end, period - end) <= TOLD_MS for period in often for end in ends[period]), ends


@simulated
async def test_an_idle_follower_asks_no_more_often_than_once_in_its_longest_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SimulatedClock, "coalesced_ms", SystemClock.coalesced_ms)
    async with Cluster(2, 1, trace=False) as cluster:
        await cluster.create_topic("t", replication_factor=2)
        await trio.sleep(SETTLED_S)
        session = next(
            found
            for broker in cluster.brokers
            for leader in cluster.brokers
            for lane in Lane
            if (found := broker.fetchers.session(leader.id, lane)) is not None
        )
        before = session.epoch
        await trio.sleep(LONG_S)
        assert session.epoch - before <= LONG_S * 1_000 / cluster.config.replica_fetch_wait_max_ms

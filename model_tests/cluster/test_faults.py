"""Every fault of a cluster does what it says, and is cured by its counterpart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import trio

from tidegauge.impl.client.client import ClientConfig
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.hosts import SimulatedHost
from tidegauge.impl.ports.failing_disk import SYNCS, Operation
from tidegauge.impl.server.trace.events import Crash
from tidegauge.model_tests.cluster.test_replication import log_values
from tidegauge.model_tests.simulated import simulated

IMPATIENT = ClientConfig(request_timeout_ms=500, default_api_timeout_ms=800)


@simulated
async def test_a_crash_loses_unsynced_records() -> None:
    async with Cluster(brokers=1, seed=4) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            await client.produce("t", b"synced")
            cluster.broker(0).actions.flush()
            await client.produce("t", b"unsynced")
            await cluster.crash(0, lose_unsynced=True)
            assert not cluster.is_alive(0)
            await cluster.restart(0)
            await cluster.wait_for_leader("t")
        assert log_values(cluster, 0, "t") == [b"synced"]


@simulated
async def test_a_crash_may_keep_unsynced_records() -> None:
    async with Cluster(brokers=1, seed=4) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            await client.produce("t", b"unsynced")
        await cluster.crash(0, lose_unsynced=False)
        await cluster.restart(0)
        assert log_values(cluster, 0, "t") == [b"unsynced"]


@pytest.mark.parametrize("kept", [1, 2, 3])
@simulated
async def test_a_crash_keeps_exactly_what_it_is_told_to(kept: int) -> None:
    async with Cluster(brokers=1, seed=4) as cluster:
        await cluster.create_topic("t")
        values = [b"a", b"b", b"c"]
        async with cluster.client() as client:
            for value in values:
                await client.produce("t", value)
                if value == b"a":
                    cluster.broker(0).actions.flush()
        await cluster.crash(0, keep={("t", 0): kept})
        crash = cluster.trace[-1].decision
        assert isinstance(crash, Crash)
        assert crash.kept == {("t", 0): kept}
        await cluster.restart(0)
        assert log_values(cluster, 0, "t") == values[:kept]


@simulated
async def test_a_crash_cannot_lose_what_is_synced() -> None:
    async with Cluster(brokers=1, seed=4) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            await client.produce("t", b"a")
        cluster.broker(0).actions.flush()
        with pytest.raises(ValueError, match="t-0 is synced beyond offset 0"):
            await cluster.crash(0, keep={("t", 0): 0})
        with pytest.raises(ValueError, match="t-0 cannot keep up to 5"):
            await cluster.crash(0, keep={("t", 0): 5})


@simulated
async def test_a_restart_begins_with_the_checkpointed_high_watermark() -> None:
    async with Cluster(brokers=1, seed=4, timers=False) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            await client.produce("t", b"a")
            cluster.broker(0).actions.checkpoint_high_watermark()
            await client.produce("t", b"b")
        await cluster.crash(0, lose_unsynced=False)
        await cluster.restart(0)
        replica = cluster.replica(0, "t")
        assert (replica.log_end_offset, replica.high_watermark, replica.leader_epoch) == (2, 1, -1)


@simulated
async def test_a_paused_leader_is_a_zombie_that_is_fenced_when_it_wakes() -> None:
    async with Cluster(brokers=3, seed=4) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        async with cluster.client(config=IMPATIENT) as client:
            await client.produce("t", b"a")
            cluster.pause(0)
            before = len(cluster.trace)
            assert await cluster.wait_for_leader("t", other_than=0) == 1
            assert [e for e in cluster.trace[before:] if e.node == 0 and e.name != "Pause"] == []
            assert cluster.replica(0, "t").is_leader, "it knows nothing of that"
            with pytest.raises(KafkaError) as failed:
                await client.produce("t", b"lost")
            assert failed.value.maybe_done
            assert await client.produce("t", b"b", timeout_ms=5_000) == 1
            cluster.resume(0)
            await cluster.wait_for_isr("t", {0, 1, 2})
        assert not cluster.replica(0, "t").is_leader
        await trio.sleep(1)
        assert log_values(cluster, 0, "t") == log_values(cluster, 1, "t") == [b"a", b"b"]


@simulated
async def test_nobody_is_fenced_because_the_whole_process_stood_still() -> None:
    async with Cluster(brokers=3, seed=4) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        for _ in range(10):
            clock.jump(60)
            await trio.sleep(3)
        assert not [event for event in cluster.trace if event.name == "ExpireSession"]


async def until_expired(cluster: Cluster, count: int) -> None:
    """Wait until so many sessions have expired since the start."""
    while [event.name for event in cluster.trace].count("ExpireSession") < count:  # noqa: ASYNC110 - a test's wait
        await trio.sleep(0.01)


@simulated
async def test_nobody_is_fenced_because_the_process_stood_still_until_shortly_before_a_session_ends() -> None:
    config = {"broker.session.timeout.ms": 600, "broker.heartbeat.interval.ms": 100}
    async with Cluster(brokers=3, seed=4, config=config) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        for stood_still in range(250, 750, 7):
            clock.jump(stood_still / 1000)
            await trio.sleep(0.5)
        assert not [event for event in cluster.trace if event.name == "ExpireSession"]


@simulated
async def test_a_topic_waits_for_brokers_that_run_and_are_fenced_for_the_moment() -> None:
    config = {"broker.session.timeout.ms": 600, "broker.heartbeat.interval.ms": 100}
    async with Cluster(brokers=3, seed=4, config=config) as cluster:
        cluster.isolate(2)
        await until_expired(cluster, 1)
        cluster.heal(2)
        await cluster.create_topic("t")
        assert cluster.isr("t") == (0, 1, 2)
        await cluster.crash(1)
        await until_expired(cluster, 2)
        await cluster.restart(1)
        await cluster.create_topic("u")
        assert cluster.isr("u") == (0, 1, 2)


@simulated
async def test_a_topic_does_not_wait_for_a_broker_that_is_down_or_cut_off() -> None:
    async with Cluster(brokers=3, seed=4) as cluster:
        cluster.isolate(2)
        await until_expired(cluster, 1)
        with pytest.raises(KafkaError, match="replication factor 3 with 2 live brokers"):
            await cluster.create_topic("t")
        cluster.heal(2)
        await cluster.create_topic("t")
        await cluster.crash(1)
        await until_expired(cluster, 2)
        with pytest.raises(KafkaError, match="replication factor 3 with 2 live brokers"):
            await cluster.create_topic("u")


@simulated
async def test_an_isolated_broker_is_cut_off_and_heals() -> None:
    async with Cluster(brokers=3, seed=4) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        cluster.isolate(0)
        assert await cluster.wait_for_leader("t", other_than=0) == 1
        assert 0 not in cluster.isr("t")
        cluster.heal(0)
        await cluster.wait_for_isr("t", {0, 1, 2})


@simulated
async def test_lost_delayed_doubled_and_reordered_frames_are_survived() -> None:
    async with Cluster(brokers=3, seed=4, config={"replica.socket.timeout.ms": 500}) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        for source in range(3):
            for destination in range(3):
                cluster.drop(0.05, source, destination)
                cluster.delay(0, 5, source, destination)
                cluster.duplicate(0.1, source, destination)
                cluster.reorder(0.1, source, destination)
        values = [f"{nth}".encode() for nth in range(50)]
        async with cluster.client() as client:
            for value in values:
                await client.produce("t", value)
        counters = cluster.network.counters
        assert all(counters[what] for what in ("lost", "delayed", "duplicated", "reordered"))
        cluster.clear_faults()
        await cluster.wait_for_isr("t", {0, 1, 2})
        await trio.sleep(2)
        assert log_values(cluster, 0, "t") == log_values(cluster, 1, "t") == log_values(cluster, 2, "t") == values


@simulated
async def test_broken_connections_are_made_anew() -> None:
    async with Cluster(brokers=2, seed=4) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        async with cluster.client() as client:
            await client.produce("t", b"a")
            assert cluster.reset_connections(0, 1) == 1
            assert await client.produce("t", b"b") == 1


@simulated
async def test_a_full_disk_refuses_writes_serves_reads_and_takes_records_again_when_there_is_room() -> None:
    async with Cluster(brokers=1, seed=4) as cluster:
        await cluster.create_topic("t")
        async with cluster.client(config=IMPATIENT) as client:
            assert await client.produce("t", b"a") == 0
            cluster.fill_disk(0, free_bytes=30)
            for _ in range(3):
                with pytest.raises(KafkaError, match=r"KAFKA_STORAGE_ERROR|TIMED_OUT"):
                    await client.produce("t", b"b")
                await trio.sleep(5)
                assert (await client.fetch("t", 0)).values == (b"a",)
            assert cluster.is_alive(0)
            cluster.heal_disk(0)
            assert await client.produce("t", b"c", timeout_ms=10_000) == 1
            await cluster.crash(0, lose_unsynced=False)
            await cluster.restart(0)
            assert (await client.fetch("t", 0)).values == (b"a", b"c")


@simulated
async def test_a_full_disk_of_a_follower_takes_it_out_of_the_isr() -> None:
    async with Cluster(brokers=2, seed=4, config={"replica.lag.time.max.ms": 1_000}) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        cluster.fill_disk(1)
        async with cluster.client() as client:
            assert await client.produce("t", b"a") == 0
            assert cluster.isr("t") == (0,)
            assert cluster.is_alive(1)
            cluster.heal_disk(1)
            await cluster.wait_for_isr("t", {0, 1})
        assert log_values(cluster, 1, "t") == [b"a"]


@simulated
async def test_a_leader_whose_disk_failed_to_sync_leads_no_more() -> None:
    async with Cluster(brokers=2, seed=4) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        async with cluster.client() as client:
            assert await client.produce("t", b"a") == 0
            cluster.fail_next_sync(0)
            cluster.broker(0).actions.flush()
            assert await cluster.wait_for_leader("t", other_than=0) == 1
            assert await client.produce("t", b"b") == 1
            await cluster.restart(0)
            await cluster.wait_for_isr("t", {0, 1})
        assert log_values(cluster, 0, "t") == [b"a", b"b"]


@simulated
async def test_a_controller_that_cannot_write_its_decision_stops_and_the_next_never_knew_of_it() -> None:
    async with Cluster(brokers=2, seed=4) as cluster:
        await cluster.create_topic("t")
        disk = cluster.host.disk("controller")
        disk.fail(operations=[Operation.APPEND])
        with pytest.raises(KafkaError):
            await cluster.create_topic("u")
        assert "the metadata log cannot be written" in (cluster.controller.halted or "")
        async with cluster.client() as client:
            assert await client.produce("t", b"a") == 0
        disk.heal()
        await cluster.restart_controller()
        assert set(cluster.controller.controller.image.topics) == {"t"}
        await trio.sleep(5)
        await cluster.create_topic("u")
        assert cluster.isr("u") == (0, 1)


@simulated
async def test_a_controller_without_room_waits_with_its_decision_and_writes_it_when_there_is_room() -> None:
    async with Cluster(brokers=2, seed=4) as cluster:
        await cluster.create_topic("t")
        disk = cluster.host.disk("controller")
        disk.fill(free_bytes=20)
        with pytest.raises(KafkaError):
            await cluster.create_topic("u")
        assert cluster.controller.halted is None
        async with cluster.client() as client:
            assert await client.produce("t", b"a") == 0
        disk.heal()
        await trio.sleep(2)
        await cluster.wait_for_leader("u")
        await cluster.restart_controller()
        assert set(cluster.controller.controller.image.topics) == {"t", "u"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"brokers": 0}, "brokers is 0: ask for at least 1"),
        ({"brokers": True}, "brokers is True: give a whole number from 1"),
        ({"seed": None}, "seed is None: give a whole number"),
        ({"host": "docker"}, "host is 'docker': use 'simulated' or 'tcp'"),
        ({"directory": "x"}, "only host='tcp' keeps files"),
        ({"brokers": 2, "racks": ["a"]}, "racks has 1 entries for 2 brokers"),
        ({"config": {"min.insync.replica": 2}}, "did you mean 'min.insync.replicas'"),
        ({"config": {"replica.lag.time.max.ms": "soon"}}, "replica.lag.time.max.ms is 'soon': it must be a whole"),
        ({"config": {"replica.lag.time.max.ms": 0}}, "replica.lag.time.max.ms is 0: it must be at least 1"),
        ({"config": {"unclean.leader.election.enable": "perhaps"}}, "must be true or false"),
    ],
)
def test_bad_arguments_are_refused_with_the_way_out(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Cluster(**arguments)


async def crash_twice(cluster: Cluster) -> None:
    await cluster.crash(0)
    await cluster.crash(0)


async def pause_the_dead(cluster: Cluster) -> None:
    await cluster.crash(0)
    cluster.pause(0)


async def restart_the_living(cluster: Cluster) -> None:
    await cluster.restart(0)


async def crash_nobody(cluster: Cluster) -> None:
    await cluster.crash(9)


async def crash_text(cluster: Cluster) -> None:
    await cluster.crash("0")  # type: ignore[arg-type]


async def isolate_nobody(cluster: Cluster) -> None:
    cluster.isolate(9)


async def lose_what_nobody_sends(cluster: Cluster) -> None:
    cluster.drop(source=9)


async def ask_for_no_topic(cluster: Cluster) -> None:
    cluster.replica(0, "nothing")


@pytest.mark.parametrize(
    ("mistake", "complaint"),
    [
        (crash_twice, "broker 0 is down already"),
        (pause_the_dead, "broker 0 is down: restart it first"),
        (restart_the_living, "broker 0 is up: crash it first"),
        (crash_nobody, "there is no broker 9: ids go from 0 to 0"),
        (crash_text, "a broker's id is '0': give a whole number from 0 to 0"),
        (isolate_nobody, "there is no broker 9: ids go from 0 to 0"),
        (lose_what_nobody_sends, "there is no broker 9: ids go from 0 to 0"),
        (ask_for_no_topic, "broker 0 does not host nothing-0"),
    ],
)
@simulated
async def test_faults_that_cannot_be_are_refused(mistake: Callable[[Cluster], Any], complaint: str) -> None:
    async with Cluster(brokers=1, seed=4) as cluster:
        with pytest.raises(ValueError, match=complaint):
            await mistake(cluster)


def test_a_cluster_under_asyncio_says_that_it_runs_in_trio() -> None:
    async def enter() -> None:
        async with Cluster(brokers=1):
            pass

    with pytest.raises(RuntimeError, match=r"a cluster runs in trio, .*: use trio.run, not asyncio"):
        asyncio.run(enter())


@simulated
async def test_a_cluster_that_is_not_entered_says_so() -> None:
    cluster = Cluster(brokers=1)
    with pytest.raises(RuntimeError, match="async with Cluster"):
        cluster.client()


@simulated
async def test_nothing_is_left_behind() -> None:
    async with trio.open_nursery() as nursery:
        async with Cluster(brokers=3, seed=4) as cluster:
            await cluster.create_topic("t")
            async with cluster.client() as client:
                await client.produce("t", b"a")
            await cluster.crash(1)
        assert nursery.child_tasks == frozenset()
        assert isinstance(cluster.host, SimulatedHost)
        assert cluster.host.links.open_connections == 0


@simulated
async def test_a_controller_that_decides_nothing_notices_that_its_disk_has_failed() -> None:
    async with Cluster(brokers=1, seed=4) as cluster:
        await cluster.create_topic("t")
        await trio.sleep(30)
        assert cluster.controller.halted is None
        cluster.host.disk("controller").fail("", operations=SYNCS)
        await trio.sleep(10)
        assert "the metadata log cannot be written" in (cluster.controller.halted or "")
        cluster.host.disk("controller").heal()


HALF_AN_HOUR_MS = 1_800_000
"""Less than by what a timestamp may be ahead of the broker's clock."""
BEFORE_A_HEARTBEAT_S = 0.35
"""After so long in a run with heartbeats each 100 ms and sessions of 600 a session is neither new nor over."""


@pytest.mark.parametrize("ms", [-HALF_AN_HOUR_MS, -700, 700, HALF_AN_HOUR_MS])
@simulated
async def test_a_dead_broker_is_fenced_in_time_though_the_controller_s_clock_steps(ms: int) -> None:
    config = {"broker.session.timeout.ms": 600, "broker.heartbeat.interval.ms": 100}
    async with Cluster(brokers=3, seed=4, config=config) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        await trio.sleep(BEFORE_A_HEARTBEAT_S)
        cluster.isolate(0)
        cluster.jump_controller_clock(ms)
        with trio.fail_after(1.5):
            await until_expired(cluster, 1)
        assert await cluster.wait_for_leader("t", other_than=0) == 1


@pytest.mark.parametrize("ms", [-HALF_AN_HOUR_MS, -700, 700, HALF_AN_HOUR_MS])
@simulated
async def test_no_live_broker_is_fenced_nor_leaves_the_isr_because_clocks_step(ms: int) -> None:
    config = {
        "broker.session.timeout.ms": 600,
        "broker.heartbeat.interval.ms": 100,
        "replica.lag.time.max.ms": 600,
    }
    async with Cluster(brokers=3, seed=4, config=config) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        async with cluster.client() as client:
            for nth in range(40):
                if nth % 3 == 0:  # one at least is between a heartbeat and when sessions are looked at
                    cluster.jump_controller_clock(ms)
                if nth == 20:
                    cluster.jump_clock(0, ms)
                await client.produce("t", str(nth).encode())
                await trio.sleep(0.043)
        assert {event.name for event in cluster.trace}.isdisjoint({"ExpireSession", "ShrinkIsr"})


@simulated
async def test_a_follower_that_lags_leaves_the_isr_in_time_though_its_leader_s_clock_was_set_back() -> None:
    async with Cluster(brokers=3, seed=4, config={"replica.lag.time.max.ms": 600}) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        async with cluster.client() as client:
            await client.produce("t", b"a")
            cluster.block(2, 0)
            cluster.jump_clock(0, -HALF_AN_HOUR_MS)
            with trio.fail_after(5):
                await client.produce("t", b"b")
        assert cluster.isr("t") == (0, 1)

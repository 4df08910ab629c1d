"""A cluster replicates: acknowledgements, high watermarks, failover, ISR changes, elections."""

from __future__ import annotations

import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import EARLIEST, LATEST, ClientConfig
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.records.payload import decode_batches
from tidegauge.model_tests.simulated import simulated

SMALL_LAG = {"replica.lag.time.max.ms": 2_000}
IMPATIENT = ClientConfig(request_timeout_ms=1_000, default_api_timeout_ms=1_500)


def log_values(cluster: Cluster, broker_id: int, topic: str, partition: int = 0) -> list[bytes | None]:
    """Everything in a broker's log."""
    log = cluster.replica(broker_id, topic, partition).log
    return [record.value for record in decode_batches(in_memory(log.fetch(0, 1 << 30, log.log_end_offset)))]


@simulated
async def test_several_partitions_replicate_at_once() -> None:
    async with Cluster(brokers=3, seed=7) as cluster:
        await cluster.create_topic("many", partitions=6)
        async with cluster.client() as client, trio.open_nursery() as nursery:
            for partition in range(6):
                for nth in range(5):
                    value = f"{partition}-{nth}".encode()
                    nursery.start_soon(lambda p, v: client.produce("many", v, partition=p), partition, value)
        await trio.sleep(1)
        for partition in range(6):
            logs = [log_values(cluster, broker, "many", partition) for broker in range(3)]
            assert sorted(map(str, logs[0])) == [str(f"{partition}-{nth}".encode()) for nth in range(5)]
            assert logs[0] == logs[1] == logs[2]
            assert {cluster.replica(broker, "many", partition).high_watermark for broker in range(3)} == {5}
        assert len({cluster.leader("many", partition) for partition in range(6)}) == 3


@simulated
async def test_acks_all_waits_for_every_in_sync_replica() -> None:
    async with Cluster(brokers=3, seed=1) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        cluster.delay(200, 200, source=1, destination=0)
        async with cluster.client() as client:
            begun = trio.current_time()
            await client.produce("t", b"a", acks=1)
            after_one = trio.current_time()
            await client.produce("t", b"b", acks=-1)
            after_all = trio.current_time()
        assert after_one == begun
        assert after_all - after_one >= 0.2


@simulated
async def test_acks_zero_has_no_response_and_is_appended_all_the_same() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            assert await client.produce("t", b"silent", acks=0) is None
            while not (await client.fetch("t", 0, max_wait_ms=100)).records:
                pass
        assert log_values(cluster, 0, "t") == [b"silent"]


@simulated
async def test_acks_all_is_refused_while_too_few_are_in_sync() -> None:
    async with Cluster(brokers=2, seed=1) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]], config={"min.insync.replicas": 2})
        await cluster.crash(1)
        await cluster.expire_session(1)
        await cluster.settle_metadata()
        async with cluster.client(config=IMPATIENT) as client:
            with pytest.raises(KafkaError) as refused:
                await client.produce("t", b"x")
            assert refused.value.code is ErrorCode.not_enough_replicas
            assert not refused.value.maybe_done
            assert await client.produce("t", b"y", acks=1) == 0
            assert (await client.fetch("t", 0)).records == ()


@simulated
async def test_an_acks_all_produce_that_times_out_may_have_been_done() -> None:
    async with Cluster(brokers=2, seed=1) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        cluster.pause(1)
        async with cluster.client() as client:
            with pytest.raises(KafkaError) as failed:
                await client.produce("t", b"x", timeout_ms=700)
            assert failed.value.code is ErrorCode.request_timed_out
            assert failed.value.maybe_done
            cluster.resume(1)
            await cluster.wait_for_isr("t", {0, 1})
            assert await client.produce("t", b"y") == 1
            assert (await client.fetch("t", 0)).values == (b"x", b"y")


@simulated
async def test_consumers_see_only_what_is_below_the_high_watermark() -> None:
    async with Cluster(brokers=2, seed=1) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        async with cluster.client() as client:
            await client.produce("t", b"committed")
            cluster.pause(1)
            await client.produce("t", b"not yet", acks=1)
            seen = await client.fetch("t", 0)
            assert (seen.values, seen.high_watermark) == ((b"committed",), 1)
            assert (await client.list_offsets("t", LATEST)).offset == 1
            with pytest.raises(KafkaError) as beyond:
                await client.fetch("t", 3)
            assert beyond.value.code is ErrorCode.offset_out_of_range


@simulated
async def test_a_fetch_waits_for_records_and_no_longer_than_it_may() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client, cluster.client() as producer, trio.open_nursery() as nursery:
            begun = trio.current_time()
            assert (await client.fetch("t", 0, max_wait_ms=300)).records == ()
            assert trio.current_time() - begun == pytest.approx(0.3)

            async def produce_later() -> None:
                await trio.sleep(1)
                await producer.produce("t", b"late")

            nursery.start_soon(produce_later)
            assert (await client.fetch("t", 0, max_wait_ms=9_000)).values == (b"late",)
            assert trio.current_time() - begun == pytest.approx(1.3)


@simulated
async def test_offsets_are_listed_by_time() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            times = []
            for value in (b"a", b"b", b"c"):
                times.append(cluster.broker(0).clock.now_ms())
                await client.produce("t", value)
                await trio.sleep(10)
            for offset, timestamp in enumerate(times):
                found = await client.list_offsets("t", timestamp)
                assert (found.offset, found.timestamp, found.leader_epoch) == (offset, timestamp, 0)
            assert (await client.list_offsets("t", times[1] - 1)).offset == 1
            assert (await client.list_offsets("t", times[2] + 1)).offset == -1
            assert (await client.list_offsets("t", EARLIEST)).offset == 0


@simulated
async def test_offsets_above_the_high_watermark_are_not_listed_by_time() -> None:
    async with Cluster(brokers=2, seed=1) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        async with cluster.client() as client:
            await client.produce("t", b"committed")
            cluster.pause(1)
            await trio.sleep(1)
            now = cluster.broker(0).clock.now_ms()
            await client.produce("t", b"not yet", acks=1)
            assert (await client.list_offsets("t", now)).offset == -1


@simulated
async def test_a_new_leader_has_everything_that_was_acknowledged() -> None:
    async with Cluster(brokers=3, seed=5) as cluster:
        await cluster.create_topic("t", config={"min.insync.replicas": 2})
        async with cluster.client() as client:
            acknowledged = [f"{nth}".encode() for nth in range(20)]
            for value in acknowledged:
                await client.produce("t", value)
            old = cluster.leader("t")
            await cluster.crash(old)
            new = await cluster.wait_for_leader("t", other_than=old)
            assert new != old
            assert (await client.fetch("t", 0)).values == tuple(acknowledged)
            assert await client.produce("t", b"next") == 20
            await cluster.restart(old)
            await cluster.wait_for_isr("t", {0, 1, 2})
        assert log_values(cluster, old, "t") == [*acknowledged, b"next"]


@simulated
async def test_what_only_the_old_leader_had_is_truncated() -> None:
    async with Cluster(brokers=2, seed=5, config=SMALL_LAG) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        async with cluster.client() as client:
            await client.produce("t", b"shared")
            cluster.block(0, 1)
            cluster.block(0, "controller")
            await client.produce("t", b"orphan", acks=1)
            await cluster.wait_for_leader("t", other_than=0)
            cluster.isolate(0)
            async with cluster.client() as other:
                assert await other.produce("t", b"winner", acks=1) == 1
            cluster.heal()
            await cluster.wait_for_isr("t", {0, 1})
        assert log_values(cluster, 0, "t") == log_values(cluster, 1, "t") == [b"shared", b"winner"]


@simulated
async def test_a_follower_that_lags_leaves_the_isr_and_comes_back() -> None:
    async with Cluster(brokers=3, seed=2, config=SMALL_LAG) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        cluster.drop(source=2, destination=0)
        async with cluster.client() as client:
            begun = trio.current_time()
            await client.produce("t", b"slow", timeout_ms=20_000)
            assert cluster.isr("t") == (0, 1)
            assert 1 < trio.current_time() - begun < 5
            cluster.clear_faults()
            await cluster.wait_for_isr("t", {0, 1, 2})
        await trio.sleep(1)
        assert log_values(cluster, 2, "t") == [b"slow"]


@simulated
async def test_a_proposal_that_is_lost_is_made_again() -> None:
    async with Cluster(brokers=3, seed=2, config=SMALL_LAG) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        cluster.drop(source=2, destination=0)
        async with cluster.client() as client:
            await client.produce("t", b"a", acks=1)
            cluster.drop(source=0, destination="controller")
            while cluster.replica(0, "t").pending_isr is None:  # noqa: ASYNC110 - a core has no events
                await trio.sleep(0.01)
            await trio.sleep(0.1)
            cluster.drop(0.0, source=0, destination="controller")
            with trio.fail_after(4):
                await cluster.wait_for_isr("t", {0, 1})


@simulated
async def test_brokers_that_wait_for_metadata_are_told_at_once() -> None:
    async with Cluster(brokers=3, seed=2) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        await trio.sleep(0.2)
        begun = trio.current_time()
        await cluster.expire_session(0)
        await cluster.wait_for_leader("t", other_than=0)
        assert trio.current_time() - begun < 0.1


@simulated
async def test_the_preferred_leader_takes_over_on_request() -> None:
    async with Cluster(brokers=3, seed=2) as cluster:
        await cluster.create_topic("t", assignments=[[1, 0, 2]])
        await cluster.expire_session(1)
        assert await cluster.wait_for_leader("t", other_than=1) == 0
        await cluster.wait_for_isr("t", {0, 1, 2})
        await cluster.elect("t")
        assert cluster.leader("t") == 1
        with pytest.raises(KafkaError) as refused:
            await cluster.elect("t")
        assert refused.value.code is ErrorCode.election_not_needed


@simulated
async def test_an_unclean_election_loses_what_only_the_dead_had() -> None:
    async with Cluster(brokers=2, seed=3, config=SMALL_LAG) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        async with cluster.client(config=IMPATIENT) as client:
            await client.produce("t", b"both")
            cluster.broker(1).actions.flush()
            await cluster.crash(1)
            await cluster.wait_for_isr("t", {0})
            assert await client.produce("t", b"only on 0") == 1
            await cluster.crash(0, lose_unsynced=False)
            await cluster.restart(1)
            with trio.move_on_after(30) as waited:
                await cluster.wait_for_leader("t")
            assert waited.cancelled_caught, "a replica outside the ISR must not lead by itself"
            with pytest.raises(KafkaError) as refused:
                await client.produce("t", b"nobody")
            assert refused.value.code is ErrorCode.leader_not_available
            await cluster.elect("t", unclean=True)
            assert await cluster.wait_for_leader("t") == 1
            assert await client.produce("t", b"after") == 1
            await cluster.restart(0)
            await cluster.wait_for_isr("t", {0, 1})
            assert (await client.fetch("t", 0)).values == (b"both", b"after")
        assert log_values(cluster, 0, "t") == [b"both", b"after"]


@simulated
async def test_a_fenced_broker_is_unfenced_by_its_next_heartbeat() -> None:
    async with Cluster(brokers=3, seed=2) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        epoch = cluster.broker(0).registration.broker_epoch
        assert await cluster.expire_session(0)
        assert not await cluster.expire_session(0)
        assert cluster.leader("t") == 1
        assert cluster.isr("t") == (1, 2)
        await cluster.wait_for_isr("t", {0, 1, 2})
        assert cluster.broker(0).registration.broker_epoch == epoch
        assert cluster.leader("t") == 1


@simulated
async def test_a_session_expires_without_heartbeats() -> None:
    async with Cluster(brokers=2, seed=2, config={"broker.session.timeout.ms": 3_000}) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        begun = trio.current_time()
        cluster.block(0, "controller")
        assert await cluster.wait_for_leader("t", other_than=0) == 1
        assert 2 <= trio.current_time() - begun <= 4
        cluster.heal()
        await cluster.wait_for_isr("t", {0, 1})


@simulated
async def test_a_new_controller_has_a_higher_epoch_and_the_same_cluster() -> None:
    async with Cluster(brokers=3, seed=2, config=SMALL_LAG) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        before = cluster.controller.controller.controller_epoch
        await cluster.restart_controller()
        assert cluster.controller.controller.controller_epoch == before + 1
        assert cluster.isr("t") == (0, 1, 2)
        await cluster.create_topic("u")
        async with cluster.client() as client:
            await client.produce("t", b"t")
            await client.produce("u", b"u")
            await cluster.crash(2)
            await cluster.wait_for_isr("t", {0, 1})
            assert cluster.replica(0, "t").controller_epoch == before + 1

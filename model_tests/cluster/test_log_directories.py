"""Several log directories a broker: one that fails takes its replicas offline, and nothing else; replicas can move.

The clusters here have two directories a broker, `one` and `two`.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
import trio
from kio.schema.alter_replica_log_dirs.v2 import request as alter_request
from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.partition.leader import ACKS_ALL
from tidegauge.impl.partition.messages import Appended
from tidegauge.impl.ports.failing_disk import SYNCS, Operation
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch, decode_batches
from tidegauge.impl.server.pace import SLICE, Pace
from tidegauge.impl.server.trace.events import Crash
from tidegauge.impl.wire.primitives import TopicName, i16, i32, millis
from tidegauge.model_tests.harness.validation.validation import validate
from tidegauge.model_tests.server.broker.test_log_cleaner import append
from tidegauge.model_tests.simulated import simulated
from tidegauge.model_tests.storage.compacted import newest, records_of

CONFIG = {
    "log.dirs": "one,two",
    "replica.lag.time.max.ms": 1_000,
    "broker.session.timeout.ms": 2_000,
    "broker.heartbeat.interval.ms": 300,
    "log.flush.scheduler.interval.ms": 500,
}


def cluster_of(brokers: int, **config: Any) -> Cluster:
    return Cluster(brokers, seed=5, config={**CONFIG, **config})


def directory_of(cluster: Cluster, broker: int, partition: int) -> str:
    """Where a broker has a partition of topic t; "" for nowhere that works."""
    found = cluster.broker(broker).replicas.directories.where("t", partition)
    return "" if found is None else found.path.rpartition("/")[2]


def values(cluster: Cluster, broker: int, partition: int) -> list[bytes | None]:
    hosted = cluster.broker(broker).replicas.get("t", partition)
    assert hosted is not None
    return [record.value for record in decode_batches(hosted.log.read(0, 1 << 20))]


def fail_directory(cluster: Cluster, broker: int, name: str) -> None:
    cluster.fail_disk(broker, directory=name)


def creating(name: str, partitions: int) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=TopicName(name), num_partitions=i32(partitions), replication_factor=i16(1), assignments=(), configs=()
    )
    return CreateTopicsRequest(topics=(topic,), timeout=millis(1_000))


async def until(condition: Any) -> None:
    while not condition():  # noqa: ASYNC110 - virtual time, and bounded by the test
        await trio.sleep(0.05)


async def ask(client: Client, cluster: Cluster, broker: int, request: Any) -> Any:
    """A request to one broker."""
    return await client._ask(cluster.broker(broker).address, request)


@simulated
async def test_new_replicas_go_to_the_directory_with_the_fewest() -> None:
    async with cluster_of(1) as cluster:
        await cluster.create_topic("t", partitions=5)
        assert [directory_of(cluster, 0, partition) for partition in range(5)] == ["one", "two"] * 2 + ["one"]
        await cluster.crash(0, lose_unsynced=False)
        await cluster.restart(0)
        assert [directory_of(cluster, 0, partition) for partition in range(5)] == ["one", "two"] * 2 + ["one"]


@simulated
async def test_a_directory_that_fails_takes_its_replicas_offline_and_nothing_else() -> None:
    async with cluster_of(3) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]] * 4)
        lost = [partition for partition in range(4) if directory_of(cluster, 0, partition) == "one"]
        kept = [partition for partition in range(4) if partition not in lost]
        assert len(lost) == len(kept) == 2
        async with cluster.client() as client:
            for partition in range(4):
                await client.produce("t", b"before", partition=partition)
            fail_directory(cluster, 0, "one")
            for partition in range(4):
                await client.produce("t", b"after", partition=partition)
            for partition in lost:
                assert await cluster.wait_for_leader("t", partition, other_than=0) in (1, 2)
                await cluster.wait_for_isr("t", {1, 2}, partition)
            for partition in kept:
                assert cluster.leader("t", partition) == 0
                await cluster.wait_for_isr("t", {0, 1, 2}, partition)
            assert cluster.is_alive(0)
            assert cluster.controller.controller.image.is_unfenced(0)
            for partition in range(4):
                assert b"after" in (await client.fetch("t", 0, partition=partition)).values
            cluster.host.disk(broker_name(0)).heal()
            await cluster.crash(0, lose_unsynced=False)
            await cluster.restart(0)
            for partition in range(4):
                await cluster.wait_for_isr("t", {0, 1, 2}, partition)
                assert values(cluster, 0, partition) == values(cluster, 1, partition)


@simulated
async def test_a_crash_tells_what_every_directory_kept() -> None:
    async with cluster_of(1, **{"log.flush.scheduler.interval.ms": 1_000_000}) as cluster:
        await cluster.create_topic("t", partitions=2)
        async with cluster.client() as client:
            for partition in (0, 1, 1):
                await client.produce("t", b"a", partition=partition)
        cluster.fail_disk(0, directory="two")
        await cluster.crash(0, keep={("t", 0): 1, ("t", 1): 1})
        (crash,) = [event.decision for event in cluster.trace if isinstance(event.decision, Crash)]
        assert crash.kept == {("t", 0): 1, ("t", 1): 1}


@simulated
async def test_a_directory_that_is_still_broken_at_a_restart_keeps_its_replicas_offline() -> None:
    async with cluster_of(2) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]] * 2)
        lost = next(partition for partition in range(2) if directory_of(cluster, 0, partition) == "one")
        async with cluster.client() as client:
            await client.produce("t", b"a", partition=lost)
            fail_directory(cluster, 0, "one")
            await client.produce("t", b"b", partition=lost, timeout_ms=20_000)
            await cluster.wait_for_isr("t", {1}, lost)
            await cluster.crash(0, lose_unsynced=False)
            await cluster.restart(0)
            await cluster.wait_for_isr("t", {0, 1}, 1 - lost)
            await trio.sleep(5)
            assert directory_of(cluster, 0, lost) == ""
            assert cluster.isr("t", lost) == (1,)
            assert list(cluster.broker(0).replicas.directories.offline) == ["data/one"]


@simulated
async def test_a_replica_that_fails_before_it_knows_its_topics_id_is_told_all_the_same() -> None:
    """A crash has taken `partition.metadata`, and the directory fails when the metadata are to bring it back."""
    async with cluster_of(2) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]] * 2, config={"min.insync.replicas": 1})
        failing = next(partition for partition in range(2) if directory_of(cluster, 0, partition) == "one")
        async with cluster.client() as client:
            await client.produce("t", b"a", partition=failing)
            await cluster.crash(0, lose_unsynced=False)
            assert await cluster.wait_for_leader("t", failing, other_than=0) == 1
            disk, note = cluster.host.disk(broker_name(0)), f"data/one/t-{failing}/partition.metadata"
            disk.remove(note)
            disk.fail(f"{note}.tmp")
            await cluster.restart(0)
            await cluster.wait_for_isr("t", {0, 1}, 1 - failing)
            await client.produce("t", b"b", partition=failing)
        registration = cluster.controller.controller.image.partition("t", failing)
        assert registration is not None
        assert (sorted(registration.offline_replicas), sorted(registration.isr)) == ([0], [1])
        assert list(cluster.broker(0).replicas.directories.offline) == ["data/one"]
        for partition in range(2):
            assert validate(cluster.trace, "t", partition).holds


@pytest.mark.parametrize("error", [errno.EIO, errno.ENAMETOOLONG])
@simulated
async def test_where_a_new_replica_cannot_be_made_another_one_leads(error: int) -> None:
    async with cluster_of(2) as cluster:
        cluster.host.disk(broker_name(0)).fail("data/one/t-0", error=error)
        await cluster.create_topic("t", assignments=[[0, 1]], config={"min.insync.replicas": 1})
        with trio.fail_after(20):
            assert await cluster.wait_for_leader("t", other_than=0) == 1
            async with cluster.client() as client:
                await client.produce("t", b"a")
        assert cluster.isr("t") == (1,)
        assert validate(cluster.trace, "t", 0).holds
        cluster.heal_disk(0)
        await cluster.crash(0, lose_unsynced=False)
        await cluster.restart(0)
        await cluster.wait_for_isr("t", {0, 1})
        assert validate(cluster.trace, "t", 0).holds


@simulated
async def test_a_replica_that_was_taken_away_comes_back_to_a_directory_that_works() -> None:
    """Its former directory is of no account, neither to its broker nor to the controller."""
    async with cluster_of(3) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        fail_directory(cluster, 1, "one")
        async with cluster.client() as client:
            await client.produce("t", b"a", acks=1)
            await cluster.wait_for_isr("t", {0})
            with trio.fail_after(20):
                await cluster.reassign("t", [0, 2])
                await cluster.reassign("t", [0, 1])
            assert directory_of(cluster, 1, 0) == "two"
            assert cluster.isr("t") == (0, 1)
            await until(lambda: (0, 1) in cluster.controller.controller.image.topics["t"].directories)


@simulated
async def test_a_directory_that_fails_while_its_replicas_are_deleted_ends_no_broker() -> None:
    async with cluster_of(1) as cluster:
        await cluster.create_topic("t", partitions=2)
        cluster.fail_disk(0, "writes", directory="one")
        await cluster.delete_topic("t")
        await cluster.create_topic("u", partitions=2)
        assert list(cluster.broker(0).replicas.directories.offline) == ["data/one"]
        assert cluster.is_alive(0)
        async with cluster.client() as client:
            assert await client.produce("u", b"a", partition=1) == 0


@simulated
async def test_a_directory_that_fails_under_new_replicas_is_noticed_though_nobody_waits_for_them_any_more() -> None:
    async with Cluster(1, seed=5, config=CONFIG, timers=False) as cluster:
        broker = cluster.broker(0)
        await broker.controller.forward(creating("t", partitions=20))
        records, _ = await broker.controller.metadata_since(broker.metadata.image.offset, 0)
        broker.metadata.replay(records)
        works = broker.replicas.hosted.apply_metadata(broker.metadata.image)
        next(works)
        cluster.host.disk(broker_name(0)).fail(under="data/one", operations=SYNCS)
        del works
        assert list(broker.replicas.directories.offline) == ["data/one"]


@simulated
async def test_a_replica_that_comes_back_says_again_in_which_directory_it_is() -> None:
    async with cluster_of(3) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])

        def is_known() -> bool:
            return (0, 1) in cluster.controller.controller.image.topics["t"].directories

        with trio.fail_after(20):
            await until(is_known)
            await cluster.reassign("t", [0, 2])
            assert not is_known()
            await cluster.reassign("t", [0, 1])
            await until(is_known)


@simulated
async def test_a_broker_stops_when_its_last_directory_fails() -> None:
    async with cluster_of(2) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]] * 2)
        async with cluster.client() as client:
            for name in ("one", "two"):
                fail_directory(cluster, 0, name)
            for partition in range(2):
                with suppress(KafkaError):  # the broker is gone before it has responded
                    await client.produce("t", b"a", partition=partition, timeout_ms=20_000)
            await until(lambda: not cluster.is_alive(0))
            assert "every log directory has failed" in (cluster.broker(0).halted or "")
            for partition in range(2):
                assert await cluster.wait_for_leader("t", partition, other_than=0) == 1
                await client.produce("t", b"b", partition=partition)


@pytest.mark.parametrize("operation", ["append", "sync", "read"])
@simulated
async def test_any_operation_that_fails_takes_the_directory_offline(operation: str) -> None:
    async with cluster_of(2) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        async with cluster.client() as client:
            await client.produce("t", b"a")
            directory = directory_of(cluster, 0, 0)
            cluster.host.disk(broker_name(0)).fail(f"data/{directory}", operations=[Operation(operation)])
            await client.produce("t", b"b", timeout_ms=20_000)
            while directory not in str(cluster.broker(0).replicas.directories.offline):
                await client.fetch("t", 0)
                await trio.sleep(0.1)
            assert (await client.fetch("t", 0)).values == (b"a", b"b")


@simulated
async def test_a_full_directory_takes_no_records_and_the_other_goes_on() -> None:
    async with cluster_of(2) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]] * 2)
        with pytest.raises(ValueError, match="broker 0 has 'data/one', 'data/two'"):
            cluster.fill_disk(0, directory="three")
        full = next(partition for partition in range(2) if directory_of(cluster, 0, partition) == "two")
        cluster.fill_disk(0, free_bytes=10, directory="two")
        async with cluster.client() as client:
            await client.produce("t", b"a", partition=1 - full, timeout_ms=20_000)
            with pytest.raises(KafkaError, match=r"KAFKA_STORAGE_ERROR|TIMED_OUT"):
                await client.produce("t", b"a", partition=full, timeout_ms=2_000)
            assert not cluster.broker(0).replicas.directories.offline
            cluster.heal_disk(0)
            await client.produce("t", b"b", partition=full, timeout_ms=20_000)
            assert [values(cluster, 0, partition) for partition in (1 - full, full)] == [[b"a"], [b"b"]]


@simulated
async def test_high_watermarks_that_a_full_directory_did_not_take_are_written_when_there_is_room() -> None:
    async with cluster_of(1) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            await client.produce("t", b"a", timeout_ms=20_000)
        replicas = cluster.broker(0).replicas
        cluster.fill_disk(0, free_bytes=0)
        replicas.checkpoint_high_watermarks()
        assert ("t", 0) not in replicas.directories.high_watermarks()
        cluster.heal_disk(0)
        replicas.checkpoint_high_watermarks()
        assert replicas.directories.high_watermarks()["t", 0] == 1


@simulated
async def test_described_are_sizes_lags_and_what_is_offline() -> None:
    async with cluster_of(1) as cluster:
        await cluster.create_topic("t", partitions=2)
        async with cluster.client() as client:
            await client.produce("t", b"a", partition=1)
            everything = await ask(client, cluster, 0, DescribeLogDirsRequest(topics=None))
            assert [result.log_dir for result in everything.results] == ["data/one", "data/two"]
            described = {
                (topic.name, partition.partition_index): (partition.partition_size, partition.is_future_key)
                for result in everything.results
                for topic in result.topics
                for partition in topic.partitions
            }
            hosted = cluster.broker(0).replicas.get("t", 1)
            assert hosted is not None
            assert described == {("t", 0): (0, False), ("t", 1): (hosted.log.size, False)}
            fail_directory(cluster, 0, "one")
            cluster.broker(0).actions.checkpoint_high_watermark()
            some = await ask(client, cluster, 0, DescribeLogDirsRequest(topics=()))
            assert {result.log_dir: result.error_code for result in some.results} == {
                "data/one": ErrorCode.kafka_storage_error,
                "data/two": ErrorCode.none,
            }
            assert all(result.topics == () for result in some.results)


def move(topic: str, partition: int, path: str) -> AlterReplicaLogDirsRequest:
    named = alter_request.AlterReplicaLogDirTopic(name=TopicName(topic), partitions=(i32(partition),))
    return AlterReplicaLogDirsRequest(dirs=(alter_request.AlterReplicaLogDir(path=path, topics=(named,)),))


def error_of(response: Any) -> ErrorCode:
    code: ErrorCode = response.results[0].partitions[0].error_code
    return code


@simulated
async def test_a_replica_moves_while_it_is_written_to_and_is_the_same_there() -> None:
    async with cluster_of(2, **{"log.segment.bytes": 2_000}) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        async with cluster.client() as client:
            for number in range(40):
                await client.produce("t", b"%d" % number * 20)
            source = directory_of(cluster, 0, 0)
            target = {"one": "two", "two": "one"}[source]
            assert error_of(await ask(client, cluster, 0, move("t", 0, f"data/{target}"))) is ErrorCode.none
            for number in range(40, 60):
                await client.produce("t", b"%d" % number * 20)
            await until(lambda: directory_of(cluster, 0, 0) == target)
            for number in range(60, 70):
                await client.produce("t", b"%d" % number * 20)
            expected = [b"%d" % number * 20 for number in range(70)]
            found: list[bytes | None] = []
            while len(found) < 70:
                found += (await client.fetch("t", len(found))).values
            assert found == expected
            await cluster.wait_for_isr("t", {0, 1})
            disk = cluster.host.disk(broker_name(0))
            assert not [name for name in disk.list_directory(f"data/{target}") if name.endswith("-future")]
            assert "t-0" not in disk.list_directory(f"data/{source}")
            image = cluster.controller.controller.image
            broker = cluster.broker(0)
            moved_to = broker.replicas.directories.at(f"data/{target}")
            assert moved_to is not None
            await until(lambda: image.topics["t"].directories[0, 0] == str(moved_to.id))
            await cluster.crash(0, lose_unsynced=True)
            await cluster.restart(0)
            await cluster.wait_for_isr("t", {0, 1})
            assert directory_of(cluster, 0, 0) == target


@simulated
async def test_a_replica_that_moves_takes_its_checkpointed_high_watermark_along() -> None:
    async with cluster_of(1) as cluster, cluster.client() as client:
        await cluster.create_topic("t")
        for number in range(5):
            await client.produce("t", b"%d" % number)
        partitions = cluster.broker(0).replicas
        partitions.checkpoint_high_watermarks()
        target = {"one": "two", "two": "one"}[directory_of(cluster, 0, 0)]
        assert error_of(await ask(client, cluster, 0, move("t", 0, f"data/{target}"))) is ErrorCode.none
        await until(lambda: directory_of(cluster, 0, 0) == target)
        assert partitions.directories.high_watermarks() == {("t", 0): 5}


@simulated
async def test_a_replica_that_moves_while_its_log_is_cleaned_goes_on_and_is_cleaned_where_it_is_then() -> None:
    config = {"log.cleaner.backoff.ms": 100, "min.cleanable.dirty.ratio": 0.1, "log.segment.bytes": 2_000}
    async with cluster_of(1, **config, **{"log.cleaner.io.max.bytes.per.second": 1_000.0}) as cluster:
        await cluster.create_topic("t", config={"cleanup.policy": "compact"})
        append(cluster, 0, Random(1), 100)
        broker = cluster.broker(0)
        hosted = broker.replicas.get("t", 0)
        assert hosted is not None
        expected = newest(records_of(hosted.log))
        target = {"one": "two", "two": "one"}[directory_of(cluster, 0, 0)]
        await trio.sleep(3)  # a round takes some ten seconds at that rate
        async with cluster.client() as client:
            assert error_of(await ask(client, cluster, 0, move("t", 0, f"data/{target}"))) is ErrorCode.none
        await until(lambda: directory_of(cluster, 0, 0) == target)
        assert not broker.cleaner.rounds
        with trio.fail_after(120):
            await until(lambda: broker.cleaner.rounds)
        assert cluster.leader("t") == 0
        assert broker.replicas.get("t", 0) is hosted
        assert newest(records_of(hosted.log)) == expected
        moved_to = broker.replicas.directories.where("t", 0)
        assert moved_to is not None
        assert moved_to.cleaned_offset("t", 0) == broker.cleaner.cleaned["t", 0].end_offset


@simulated
async def test_a_time_that_is_looked_for_while_the_replica_moves_is_found_in_its_new_place() -> None:
    async with cluster_of(1, **{"log.segment.bytes": 500}) as cluster:
        await cluster.create_topic("t", partitions=2)
        async with cluster.client() as client:
            for number in range(30):
                await client.produce("t", b"%d" % number * 50)
                await trio.sleep(0.01)
        replicas = cluster.broker(0).replicas
        hosted = replicas.get("t", 0)
        assert hosted is not None
        newest_time = max(record.timestamp for record in records_of(hosted.log))
        target = replicas.directories.at("data/" + {"one": "two", "two": "one"}[directory_of(cluster, 0, 0)])
        assert target is not None

        async def moves() -> None:
            if directory_of(cluster, 0, 0) != target.path.rpartition("/")[2]:
                cluster.broker(0).directory_moves.begin(hosted, target)
                await until(lambda: replicas.directories.where("t", 0) is target)

        found = await replicas.find_timestamp(hosted, newest_time, paused_by(moves))
        assert found is not None
        assert found.timestamp == newest_time
        assert directory_of(cluster, 0, 0) == target.path.rpartition("/")[2]

        async def goes() -> None:
            if not hosted.is_gone:
                await cluster.delete_topic("t")
                await until(lambda: hosted.is_gone)

        with pytest.raises(OSError, match="is closed"):
            await replicas.find_timestamp(hosted, newest_time, paused_by(goes))


def paused_by(act: Callable[[], Awaitable[None]]) -> Pace:
    """One whose first piece of work fills a slice, so that others act in between."""
    pace = Pace(until_running=act)
    pace.spent = SLICE
    return pace


@simulated
async def test_a_producer_that_was_forgotten_goes_on_after_its_partition_has_moved() -> None:
    config = {"producer.id.expiration.ms": 1_000, "producer.id.expiration.check.interval.ms": 500}
    async with cluster_of(1, **config, **{"log.segment.bytes": 2_000}) as cluster:
        await cluster.create_topic("t")
        hosted = cluster.broker(0).replicas.get("t", 0)
        assert hosted is not None
        hosted.replica.append(sequenced(7, 0), ACKS_ALL, cluster.broker(0).clock.now_ms())
        cluster.broker(0).replicas.carry_out(hosted)
        await trio.sleep(3)  # it is forgotten
        target = {"one": "two", "two": "one"}[directory_of(cluster, 0, 0)]
        async with cluster.client() as client:
            await ask(client, cluster, 0, move("t", 0, f"data/{target}"))
        await until(lambda: directory_of(cluster, 0, 0) == target)
        other = sequenced(8, 5)  # of a producer whose records retention has removed, say
        appended = hosted.replica.append(other, ACKS_ALL, cluster.broker(0).clock.now_ms())
        assert isinstance(appended, Appended)


def sequenced(producer_id: int, sequence: int) -> bytes:
    return build_batch([Record(0, 0, None, b"x")], producer=ProducerIdentity(producer_id, 0, sequence))


@simulated
async def test_moves_that_cannot_be_are_refused_by_name() -> None:
    async with cluster_of(1) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            nowhere = await ask(client, cluster, 0, move("t", 0, "data/three"))
            assert error_of(nowhere) is ErrorCode.log_dir_not_found
            early = await ask(client, cluster, 0, move("t", 1, "data/one"))
            assert error_of(early) is ErrorCode.unknown_topic_or_partition
            here = directory_of(cluster, 0, 0)
            assert error_of(await ask(client, cluster, 0, move("t", 0, f"data/{here}"))) is ErrorCode.none
            other = {"one": "two", "two": "one"}[here]
            fail_directory(cluster, 0, other)
            assert error_of(await ask(client, cluster, 0, move("t", 0, f"data/{other}"))) is (
                ErrorCode.kafka_storage_error
            )
            assert await client.produce("t", b"a") == 0


@simulated
async def test_a_broker_that_has_no_replica_of_a_partition_says_so() -> None:
    async with cluster_of(2) as cluster:
        await cluster.create_topic("t", assignments=[[1]])
        async with cluster.client() as client:
            elsewhere = await ask(client, cluster, 0, move("t", 0, "data/one"))
        assert error_of(elsewhere) is ErrorCode.replica_not_available


@simulated
async def test_a_replica_that_was_asked_for_before_it_came_is_made_where_it_was_asked_for() -> None:
    async with cluster_of(1) as cluster:
        async with cluster.client() as client:
            for partition in range(3):
                early = await ask(client, cluster, 0, move("t", partition, "data/two"))
                assert error_of(early) is ErrorCode.unknown_topic_or_partition, "and remembered all the same"
            await cluster.create_topic("t", partitions=3)
        assert [directory_of(cluster, 0, partition) for partition in range(3)] == ["two"] * 3

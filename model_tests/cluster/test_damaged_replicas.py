"""Replicas whose logs are damaged while others are there, or are not: who leads, who is repaired, who says what."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import trio
from kio.schema.alter_replica_log_dirs.v2 import request as alter_request
from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.records.batches import CHECKSUM_START, extents
from tidegauge.impl.server.broker import withdrawn_replicas
from tidegauge.impl.server.trace.events import (
    AssignReplicasToDirs,
    Register,
    RemoveReplica,
    RepairReplica,
    ReplicaDamaged,
    WithdrawReplica,
)
from tidegauge.impl.wire.primitives import TopicName, i32
from tidegauge.model_tests.cluster.test_former_logs import learning_nothing
from tidegauge.model_tests.harness.damage import running
from tidegauge.model_tests.harness.deterministic import run_deterministically
from tidegauge.model_tests.harness.validation.validation import validate
from tidegauge.model_tests.simulated import simulated

CONFIG = {
    "broker.session.timeout.ms": 1_500,
    "broker.heartbeat.interval.ms": 300,
    "replica.lag.time.max.ms": 1_200,
    "replica.fetch.backoff.ms": 100,
}
RECORDS = 12
ROOT = Path(__file__).resolve().parents[2]


def value(offset: int) -> bytes:
    return b"%03d." % offset * 20


async def written(cluster: Cluster, assignment: list[int]) -> None:
    """A partition of three segments of four records."""
    await cluster.create_topic("t", assignments=[assignment], config={"segment.bytes": 620})
    async with cluster.client("writer") as client:
        for offset in range(RECORDS):
            await client.produce("t", value(offset))
    await trio.sleep(2)


def segment_of(cluster: Cluster, broker: int, number: int) -> str:
    hosted = cluster.broker(broker).replicas.get("t", 0)
    assert hosted is not None
    return f"{hosted.log.directory}/{hosted.log.segment_base_offsets[number]:020d}.log"


def damage(cluster: Cluster, broker: int, path: str, batch: int = 1) -> None:
    """Flip a bit of a value in a file of a broker, which may run."""
    medium = cluster.host.simulated("damage").medium(broker_name(broker))
    found = list(extents(medium.files()[path]))
    medium.flip_bit(path, found[batch].position + CHECKSUM_START + 60)


async def readable(client: Client) -> list[int]:
    """The offsets that are served, the others being refused."""
    found = []
    for offset in range(RECORDS):
        try:
            fetched = await client.fetch("t", offset, max_bytes=1)
        except KafkaError as error:
            assert error.code is ErrorCode.corrupt_message, error  # noqa: PT017
            continue
        assert (fetched.records[0].offset, fetched.records[0].value) == (offset, value(offset))
        found.append(offset)
    return found


@simulated
async def test_a_damaged_replica_is_repaired_before_it_is_in_sync_and_registers_as_one_that_crashed() -> None:
    async with Cluster(3, 1, CONFIG) as cluster:
        await written(cluster, [0, 1, 2])
        path = segment_of(cluster, 0, 1)
        await cluster.shutdown(0)
        damage(cluster, 0, path)
        await cluster.restart(0)
        with trio.fail_after(30):
            await cluster.wait_for_isr("t", (0, 1, 2))
        (repaired,) = [event for event in cluster.trace if isinstance(event.decision, RepairReplica)]
        assert isinstance(repaired.decision, RepairReplica)
        assert (repaired.node, repaired.decision.state.log_end_offset) == (0, 5)
        registered = [event.decision for event in cluster.trace if isinstance(event.decision, Register)]
        assert registered[-1].broker == 0
        assert cluster.broker(0).replicas.directories.stopped_cleanly_in == -1
        await cluster.crash(1)
        await cluster.crash(2)
        with trio.fail_after(30):
            await cluster.wait_for_isr("t", (0,))
        async with cluster.client("reader") as client:
            assert await readable(client) == list(range(RECORDS))


async def moved(cluster: Cluster, broker: int) -> None:
    """The replica of a broker is to move to its other directory, for which all of its log is read."""
    directories = cluster.broker(broker).replicas.directories
    (target,) = [directory.path for directory in directories.online if directory is not directories.where("t", 0)]
    topic = alter_request.AlterReplicaLogDirTopic(name=TopicName("t"), partitions=(i32(0),))
    request = AlterReplicaLogDirsRequest(dirs=(alter_request.AlterReplicaLogDir(path=target, topics=(topic,)),))
    async with cluster.client("operator") as client:
        await client._ask(cluster.broker(broker).address, request)


@pytest.mark.parametrize("broker", [0, 1], ids=["leads", "follows"])
@simulated
async def test_a_replica_that_meets_damage_beside_others_in_sync_is_repaired_by_the_same_process(broker: int) -> None:
    """It leaves the ISR and is cut in the next leader epoch, keeps its bytes, and is in sync when it has caught up."""
    async with Cluster(3, 1, {**CONFIG, "log.dirs": "one,two"}) as cluster:
        await written(cluster, [0, 1, 2])
        damage(cluster, broker, segment_of(cluster, broker, 1))
        hosted = cluster.broker(broker).replicas.get("t", 0)
        assert hosted is not None
        next_epoch = hosted.replica.leader_epoch + 1
        hosted.log.distrust(5)
        async with cluster.client("reader") as client:
            if broker == 0:
                assert await readable(client) == list(range(RECORDS))
            else:
                await moved(cluster, broker)
            with trio.fail_after(30):
                while not any(isinstance(one.decision, RepairReplica) for one in cluster.trace):  # noqa: ASYNC110
                    await trio.sleep(0.05)
                await cluster.wait_for_isr("t", (0, 1, 2))
            assert is_taken_out_before_it_is_cut(cluster, broker, next_epoch)
            again = cluster.broker(broker).replicas.get("t", 0)
            assert again is not None
            assert (again.log.damage.gaps, again.log.log_end_offset) == ([], RECORDS)
            names = cluster.host.simulated("look").medium(broker_name(broker)).list_directory(again.log.directory)
            assert [name for name in names if name.endswith(".damaged")], "the damaged bytes are kept"
            for other in {0, 1, 2} - {broker}:
                await cluster.crash(other)
            with trio.fail_after(30):
                await cluster.wait_for_isr("t", (broker,))
            assert await readable(client) == list(range(RECORDS))


@simulated
async def test_what_a_consumer_asks_for_twice_is_looked_at_again() -> None:
    """The process has written the file itself, and has no reason to doubt it; the consumer refuses what it gets."""
    async with Cluster(3, 1, CONFIG) as cluster:
        await written(cluster, [0, 1, 2])
        damage(cluster, 0, segment_of(cluster, 0, 1))
        async with cluster.client("reader") as client:
            with pytest.raises(KafkaError, match="CRC"):
                await client.fetch("t", 5, max_bytes=1)
            with trio.fail_after(30):
                assert (await client.fetch("t", 5, max_bytes=1)).records[0].value == value(5)
                assert await readable(client) == list(range(RECORDS))
                while not any(isinstance(one.decision, RepairReplica) for one in cluster.trace):  # noqa: ASYNC110
                    await trio.sleep(0.05)
                await cluster.wait_for_isr("t", (0, 1, 2))


def is_taken_out_before_it_is_cut(cluster: Cluster, broker: int, epoch: int) -> bool:
    """The controller's word comes between the two events of the broker, and begins the leader epoch."""
    stage, cut = 0, -1
    for one in cluster.trace:
        match one.decision:
            case WithdrawReplica(start=5) if one.node == broker:
                stage = 1
            case AssignReplicasToDirs(broker=sender, changed=(changed,)) if stage == 1 and sender == broker:
                registration = changed.registration
                if broker not in registration.isr | registration.elr and registration.leader_epoch == epoch:
                    stage = 2
            case RepairReplica(state=state) if stage == 2 and one.node == broker:
                stage, cut = 3, state.log_end_offset
    return (stage, cut) == (3, 5)


@pytest.mark.parametrize("how", ["restarted", "taken away and given back", "the same at once"])
def test_one_that_was_repaired_often_enough_is_given_up_until_its_process_is_another_one(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or until its replica was taken away: either begins an epoch."""
    monkeypatch.setattr(withdrawn_replicas, "MOST_RETURNS", 0)
    simulated(given_up)(how)


async def given_up(how: str) -> None:
    async with Cluster(3, 1, CONFIG) as cluster:
        await written(cluster, [0, 1, 2])
        damage(cluster, 0, segment_of(cluster, 0, 1))
        hosted = cluster.broker(0).replicas.get("t", 0)
        assert hosted is not None
        hosted.log.distrust(5)
        async with cluster.client("reader") as client:
            assert await readable(client) == list(range(RECORDS))
        assert cluster.leader("t") in (1, 2)
        assert 0 not in cluster.isr("t")
        assert [event.node for event in cluster.trace if isinstance(event.decision, ReplicaDamaged)] == [0]
        assert cluster.broker(0).halted is None
        with trio.fail_after(60):
            if how == "restarted":
                await cluster.shutdown(0)
                await cluster.restart(0)
            elif how == "the same at once":
                await given_back_at_once(cluster)
            else:
                await cluster.reassign("t", [1, 2])
                await trio.sleep(2)
                await cluster.reassign("t", [1, 2, 0])
            await cluster.wait_for_isr("t", (0, 1, 2))
        hosted = cluster.broker(0).replicas.get("t", 0)
        assert hosted is not None
        assert not hosted.log.damage
        for other in (1, 2):
            await cluster.crash(other)
        async with cluster.client("reader") as client:
            with trio.fail_after(30):
                await cluster.wait_for_isr("t", (0,))
                assert await readable(client) == list(range(RECORDS))


@simulated
async def test_a_replica_that_is_taken_away_before_it_is_repaired_is_deleted_like_others() -> None:
    async with Cluster(3, 1, {**CONFIG, "log.dirs": "one,two"}) as cluster:
        await written(cluster, [0, 1, 2])
        damage(cluster, 2, segment_of(cluster, 2, 1))
        hosted = cluster.broker(2).replicas.get("t", 0)
        assert hosted is not None
        hosted.log.distrust(5)
        cluster.block("controller", 2)
        await moved(cluster, 2)
        with trio.fail_after(10):
            while not any(isinstance(one.decision, WithdrawReplica) for one in cluster.trace):  # noqa: ASYNC110
                await trio.sleep(0.05)
            await cluster.reassign("t", [0, 1])
        cluster.heal()
        await trio.sleep(5)
        names = [name for name in cluster.host.simulated("look").medium(broker_name(2)).files() if "/t-0/" in name]
        assert (names, cluster.broker(2).replicas.hosted.is_offline("t", 0)) == ([], False)
        assert [one.node for one in cluster.trace if isinstance(one.decision, RemoveReplica)] == [2]
        validated = validate(cluster.trace, "t", 0)
        assert validated.holds, str(validated)


async def given_back_at_once(cluster: Cluster) -> None:
    """The replica on broker 0 goes and comes between two of the broker's pulls of the metadata."""
    with learning_nothing(cluster, 0):
        await trio.sleep(10)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(moved_away_and_back, cluster)
            image = cluster.controller.controller.image
            while 0 not in image.topics["t"].partitions[0].adding_replicas:  # noqa: ASYNC110 - virtual time
                await trio.sleep(0.05)
            nursery.cancel_scope.cancel()


async def moved_away_and_back(cluster: Cluster) -> None:
    await cluster.reassign("t", [1, 2])
    await cluster.reassign("t", [1, 2, 0])


@simulated
async def test_the_last_member_of_the_isr_leads_on_and_refuses_what_is_damaged() -> None:
    async with Cluster(1, 1, CONFIG) as cluster:
        await written(cluster, [0])
        path = segment_of(cluster, 0, 1)
        await cluster.crash(0, lose_unsynced=False)
        damage(cluster, 0, path)
        await cluster.restart(0)
        async with cluster.client("reader") as client:
            assert await readable(client) == [offset for offset in range(RECORDS) if offset != 5]
            assert await client.produce("t", value(RECORDS)) == RECORDS


def test_a_wiped_follower_of_a_damaged_leader_says_why_it_is_not_in_sync(caplog: pytest.LogCaptureFixture) -> None:
    @simulated
    async def run() -> None:
        async with Cluster(2, 1, CONFIG) as cluster:
            await written(cluster, [0, 1])
            await cluster.crash(1)
            with trio.fail_after(30):
                await cluster.wait_for_isr("t", (0,))
            damage(cluster, 0, segment_of(cluster, 0, 1))
            medium = cluster.host.simulated("a wiped disk").medium(broker_name(1))
            directory = next(path.rpartition("/")[0] for path in medium.files() if "/t-0/" in path)
            for name in medium.list_directory(directory):
                medium.remove(f"{directory}/{name}")
            medium.remove_directory(directory)
            await cluster.restart(1)
            await trio.sleep(10)
            assert cluster.isr("t") == (0,)
            assert cluster.leader("t") == 0
            assert cluster.replica(1, "t").log_end_offset == 5

    caplog.set_level(logging.WARNING, "tidegauge")
    run()
    told = [record.getMessage() for record in caplog.records]
    unfed = [line for line in told if line.startswith("follower not fed: node=broker-1 partition=t-0 leader=0")]
    assert any("offset=4" in line and "CRC-32C" in line for line in unfed), unfed
    assert any("offset=5" in line and "corrupt_message" in line for line in unfed), unfed
    assert len(unfed) <= 3
    assert any(line.startswith("read refused: node=broker-0 partition=t-0") for line in told)
    assert any(line.startswith("damage met: node=broker-0") for line in told)


def test_a_move_of_a_damaged_replica_between_directories_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    @simulated
    async def run() -> None:
        async with Cluster(1, 1, {**CONFIG, "log.dirs": "one,two"}) as cluster:
            await written(cluster, [0])
            damage(cluster, 0, segment_of(cluster, 0, 1))
            directories = cluster.broker(0).replicas.directories
            source = directories.where("t", 0)
            hosted = cluster.broker(0).replicas.get("t", 0)
            assert hosted is not None
            hosted.log.distrust(5)
            await moved(cluster, 0)
            async with cluster.client("reader") as client:
                await trio.sleep(1)
                assert cluster.broker(0).halted is None
                assert directories.where("t", 0) is source
                assert await readable(client) == [offset for offset in range(RECORDS) if offset != 5]

    run()
    assert "move given up: node=broker-0 partition=t-0" in caplog.text


def test_what_becomes_of_damage_that_is_met_while_the_broker_runs_is_what_the_page_says() -> None:
    found: list[str] = []

    async def look() -> None:
        found.extend(await running.run(1))

    run_deterministically(look, seed=1)
    assert not found, "\n" + "\n".join(found)
    assert running.table_of_roles() in (ROOT / "docs" / "durability.md").read_text("utf-8")


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2, 20))
def test_it_is_with_every_seed(seed: int) -> None:
    found: list[str] = []

    async def look() -> None:
        found.extend(await running.run(seed))

    run_deterministically(look, seed=seed)
    assert not found, "\n" + "\n".join(found)


@pytest.mark.deep
def test_it_is_on_a_real_disk(tmp_path: Path) -> None:
    async def look() -> list[str]:
        return await running.run(1, directory=tmp_path)

    found = trio.run(look)
    assert not found, "\n" + "\n".join(found)

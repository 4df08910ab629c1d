"""What the controller's decisions say in the log: quiet while all is well, a line for each thing that is not."""

from __future__ import annotations

import logging
import re

import pytest

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.server.controller import decision_lines
from tidegauge.impl.storage.checkpoints import decode_uuid
from tidegauge.model_tests.controller.controlled_cluster import ControlledCluster
from tidegauge.model_tests.simulated import simulated


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


@simulated
async def test_all_is_quiet_while_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    async with Cluster(brokers=3) as cluster:
        await cluster.create_topic("t", partitions=2, replication_factor=3)
        await cluster.shutdown(2)
        await cluster.restart(2)
    assert lines(caplog, logging.WARNING) == []


@simulated
async def test_a_crash_an_election_and_an_offline_partition_have_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tidegauge")
    async with Cluster(brokers=2) as cluster:
        await cluster.create_topic("t", partitions=1, replication_factor=2)
        first = cluster.leader("t", 0)
        assert first is not None
        await cluster.crash(first)
        await cluster.expire_session(first)
        second = cluster.leader("t", 0)
        assert second is not None
        await cluster.crash(second)
        await cluster.expire_session(second)
    told = "\n".join(lines(caplog, logging.INFO))
    assert "topic created: node=controller topic=t" in told
    [topic_id] = re.findall(r"topic created: .* topic_id=(\S+)", told)
    assert decode_uuid(topic_id) is not None, "in Kafka's form, as partition.metadata has it"
    assert f"broker fenced: node=controller broker={first}" in told
    assert 'why="its session expired"' in told
    assert f"leader elected: node=controller partition=t-0 leader={second} leader_epoch=1" in told
    assert "ISR shrunk: node=controller partition=t-0 before=" in told
    assert "partition offline: node=controller partition=t-0 leader_epoch=2" in told


def test_a_broker_that_asks_to_be_fenced_is_not_said_to_have_expired(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ControlledCluster()
    core = cluster.controller
    for is_asked, proposal in (
        (True, core.members.heartbeat(1, cluster.epochs[1], 99, 0, want_fence=True)),
        (False, core.members.fence(1)),
    ):
        caplog.clear()
        decision_lines.log_decision(core.image, proposal)
        [line] = lines(caplog, logging.WARNING)
        assert line.startswith("broker fenced: broker=1 ")
        assert ('why="it asked to be fenced"' in line) == is_asked
        assert ('why="its session expired"' in line) != is_asked


@simulated
async def test_one_decision_has_so_many_lines_of_a_kind_and_the_number_of_the_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_lines, "MOST_LINES", 2)
    async with Cluster(brokers=1) as cluster:
        await cluster.create_topic("t", partitions=5, replication_factor=1)
        await cluster.crash(0)
        await cluster.expire_session(0)
    offline = [line for line in lines(caplog, logging.WARNING) if line.startswith("partition offline")]
    assert len(offline) == 3
    assert offline[-1] == "partition offline: node=controller more_partitions=3"


@pytest.mark.parametrize("enabled", [False, True])
@simulated
async def test_an_unclean_leader_has_a_line_that_says_why_it_may_lead(
    caplog: pytest.LogCaptureFixture, enabled: bool
) -> None:
    async with Cluster(brokers=2, config={"unclean.leader.election.enable": enabled}) as cluster:
        await cluster.create_topic("t", partitions=1, replication_factor=2)
        last = cluster.leader("t", 0)
        assert last is not None
        for broker in (1 - last, last):
            await cluster.crash(broker)
            await cluster.expire_session(broker)
        await cluster.restart(1 - last if enabled else last)
        await cluster.wait_for_leader("t", 0)
    (line,) = [line for line in lines(caplog, logging.ERROR) if line.startswith("unclean leader elected")]
    assert ("this replica led it last" in line) is not enabled
    assert ("unclean election is allowed" in line) is enabled


@simulated
async def test_a_killed_log_that_was_never_flushed_lacks_no_checkpoint(caplog: pytest.LogCaptureFixture) -> None:
    async with Cluster(brokers=3) as cluster:
        await cluster.create_topic("t", partitions=1, replication_factor=3)
        leader = await cluster.wait_for_leader("t")
        await cluster.crash((leader + 1) % 3)
        await cluster.restart((leader + 1) % 3)
    assert not [line for line in lines(caplog, logging.WARNING) if line.startswith("checkpoint")]

"""What an unclean election has cost is in the log: where the leader's log ends, how much each replica gives up."""

from __future__ import annotations

import logging
import re

import pytest
import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.model_tests.simulated import simulated

ALL = ("leader epoch begun", "log truncated", "committed records truncated", "unclean leader elected")


def told(caplog: pytest.LogCaptureFixture) -> dict[str, list[dict[str, str]]]:
    """Line -> the details of each."""
    found: dict[str, list[dict[str, str]]] = {name: [] for name in ALL}
    for record in caplog.records:
        name, _, details = record.getMessage().partition(": ")
        if name in found:
            pairs = re.findall(r'(\w+)=("[^"]*"|\S+)', details)
            found[name].append({"level": record.levelname, **dict(pairs)})
    return found


async def produced(cluster: Cluster, count: int, **how: int) -> None:
    async with cluster.client() as client:
        for number in range(count):
            await client.produce("t", b"%d" % number, **how)


@simulated
async def test_an_unclean_election_is_told_with_what_it_costs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tidegauge")
    config = {"unclean.leader.election.enable": True, "min.insync.replicas": 1}
    async with Cluster(brokers=2, config=config) as cluster:
        await cluster.create_topic("t", partitions=1, replication_factor=2, config={"flush.messages": 1})
        last = await cluster.wait_for_leader("t")
        await produced(cluster, 3)
        await cluster.crash(1 - last)
        await cluster.expire_session(1 - last)
        await produced(cluster, 4)
        await trio.sleep(10)  # the high watermark is checkpointed
        await cluster.crash(last)
        await cluster.expire_session(last)
        await cluster.restart(1 - last)
        await cluster.wait_for_leader("t")
        kept = cluster.broker(1 - last).replicas.get("t", 0)
        assert kept is not None
        end = kept.log.log_end_offset
        await cluster.restart(last)
        with trio.fail_after(60):
            await cluster.wait_for_isr("t", (0, 1))
    lines = told(caplog)
    (elected,) = lines["unclean leader elected"]
    assert (elected["leader"], elected["in_sync"]) == (str(1 - last), f"[{last}]")
    assert "(leader epoch begun)" in elected["next"]
    begun = [one for one in lines["leader epoch begun"] if one["leader_epoch"] == elected["leader_epoch"]]
    assert [(one["node"], one["log_end_offset"]) for one in begun] == [(f"broker-{1 - last}", str(end))]
    (gone,) = lines["committed records truncated"]
    assert (gone["level"], gone["node"], gone["leader"]) == ("ERROR", f"broker-{last}", str(1 - last))
    assert (gone["log_end_offset"], gone["before"], gone["offsets"]) == (str(end), "7", str(7 - end))
    assert gone["committed"] == str(7 - end)
    assert end == 3


@simulated
async def test_what_was_never_committed_is_told_as_such(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tidegauge")
    async with Cluster(brokers=2, config={"min.insync.replicas": 2}) as cluster:
        await cluster.create_topic("t", partitions=1, replication_factor=2)
        last = await cluster.wait_for_leader("t")
        await produced(cluster, 3)
        cluster.isolate(1 - last)
        await produced(cluster, 3, acks=1)
        cluster.heal()
        cluster.isolate(last)
        await cluster.expire_session(last)
        with trio.fail_after(60):
            await cluster.wait_for_leader("t", other_than=last)
        cluster.heal()
        with trio.fail_after(60):
            await cluster.wait_for_isr("t", (0, 1))
    lines = told(caplog)
    (gone,), begun = lines["log truncated"], lines["leader epoch begun"][-1]
    assert (gone["level"], gone["node"], gone["before"]) == ("INFO", f"broker-{last}", "6")
    assert gone["log_end_offset"] == begun["log_end_offset"]
    assert int(gone["offsets"]) == 6 - int(gone["log_end_offset"]) > 0
    assert not lines["committed records truncated"]
    assert not lines["unclean leader elected"]

"""A task of a node that runs on when its files are closed, until it notices that the node has ended, fails nobody."""

from __future__ import annotations

import pytest
import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.partition.leader import ACKS_ALL
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.server.broker.appends import PartitionAppend
from tidegauge.model_tests.simulated import simulated

APPEND = PartitionAppend("t", 0, build_batch([Record(0, 0, None, b"x")]))


@pytest.mark.parametrize("begun", ["before", "just now"])
@simulated
async def test_who_appends_when_the_files_are_closed_fails_nobody(begun: str) -> None:
    """As the record that completes a transaction, which nobody waits for."""
    async with Cluster(brokers=1, seed=1) as cluster:
        await cluster.create_topic("t", partitions=1)
        broker, task = cluster.broker(0), cluster.parts.nodes.task(0)
        goes_on, tried = trio.Event(), list[str]()

        async def append() -> None:
            if begun == "before":
                await goes_on.wait()
            tried.append(begun)
            await broker.replicas.append([APPEND], acks=ACKS_ALL, timeout_ms=1_000, origin=Origin.BROKER)
            tried.append("appended")

        if begun == "before":
            broker.tasks.start_soon(append)
            await trio.testing.wait_all_tasks_blocked()
        goes_on.set()
        if begun == "just now":
            broker.tasks.start_soon(append)
        task.stop()
        await task.kill()
        assert tried == [begun]


@simulated
async def test_an_error_of_a_node_whose_files_are_open_is_told() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True):
        async with Cluster(brokers=1, seed=1) as cluster:
            cluster.broker(0).tasks.start_soon(fail)
            await cluster.parts.nodes.task(0).kill()

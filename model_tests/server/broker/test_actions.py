"""A cluster without timers does one action at a time, and holds every message until it is released."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.ports.simulated_network import Frame
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.model_tests.cluster.test_replication import log_values
from tidegauge.model_tests.harness.cluster.in_flight import message_of
from tidegauge.model_tests.simulated import simulated

REPLICATION = (ApiKey.FETCH, ApiKey.ALTER_PARTITION)


def between_nodes(frame: Frame) -> bool:
    """Replication's own messages: fetches among brokers, and ISR proposals."""
    if frame.api_key == ApiKey.ALTER_PARTITION:
        return True
    brokers = frame.source.startswith("broker") and frame.destination.startswith("broker")
    return brokers and frame.api_key == ApiKey.FETCH


async def deliver(cluster: Cluster) -> Frame:
    """Deliver the oldest message, and see what comes of it."""
    frame = cluster.network.in_flight[0]
    cluster.network.release(frame)
    await wait_all_tasks_blocked()
    return frame


def driven(test: Callable[[Cluster], Awaitable[None]]) -> Callable[[], None]:
    """Run a test on two brokers that do nothing by themselves, broker 0 leading t-0."""

    @simulated
    async def run() -> None:
        async with Cluster(brokers=2, seed=1, timers=False) as cluster:
            await cluster.create_topic("t", assignments=[[0, 1]])
            cluster.network.hold(between_nodes)
            await test(cluster)

    run.__name__ = test.__name__
    return run


@driven
async def test_a_fetch_is_two_messages(cluster: Cluster) -> None:
    async with cluster.client() as client:
        assert await client.produce("t", b"a", acks=1) == 0
    follower = cluster.replica(1, "t")
    cluster.broker(1).actions.send_fetch("t", 0)
    await wait_all_tasks_blocked()
    assert cluster.broker(1).replicas.get("t", 0).awaits_response()  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="still waits for a response"):
        cluster.broker(1).actions.send_fetch("t", 0)
    request = await deliver(cluster)
    assert (request.source, request.destination, request.is_request) == ("broker-1", "broker-0", True)
    assert message_of(request).topics[0].partitions[0].fetch_offset == 0
    assert follower.log_end_offset == 0
    response = await deliver(cluster)
    assert (response.source, response.is_request, response.api_key) == ("broker-0", False, ApiKey.FETCH)
    assert message_of(response).topics[0].partitions[0].high_watermark == 0
    assert follower.log_end_offset == 1
    assert cluster.replica(0, "t").high_watermark == 0, "the leader does not know that yet"
    cluster.broker(1).actions.send_fetch("t", 0)
    await wait_all_tasks_blocked()
    await deliver(cluster)
    assert cluster.replica(0, "t").high_watermark == 1
    assert log_values(cluster, 1, "t") == [b"a"]


@driven
async def test_a_doubled_fetch_is_handled_twice_and_its_second_response_dropped(cluster: Cluster) -> None:
    cluster.broker(1).actions.send_fetch("t", 0)
    await wait_all_tasks_blocked()
    cluster.network.duplicate(cluster.network.in_flight[0])
    for _ in range(4):
        await deliver(cluster)
    assert [event.name for event in cluster.trace[-3:]] == ["ReceiveFetch", "ReceiveFetch", "ReceiveFetchResponse"]


@driven
async def test_a_broken_connection_ends_the_wait_for_a_response(cluster: Cluster) -> None:
    cluster.broker(1).actions.send_fetch("t", 0)
    await wait_all_tasks_blocked()
    cluster.reset_connections(1, 0)
    await wait_all_tasks_blocked()
    assert cluster.network.in_flight == []
    assert cluster.trace[-1].name == "Disconnect"
    cluster.broker(1).actions.send_fetch("t", 0)
    await wait_all_tasks_blocked()
    assert len(cluster.network.in_flight) == 1


@driven
async def test_an_isr_change_is_two_messages(cluster: Cluster) -> None:
    async with cluster.client() as client:
        await client.produce("t", b"a", acks=1)
    assert cluster.broker(0).actions.shrink_isr("t", 0, lagging={1}) == [("t", 0)]
    await wait_all_tasks_blocked()
    assert cluster.replica(0, "t").pending_isr == frozenset({0})
    assert not cluster.broker(0).actions.retry_alter_partition("t", 0), "one is on its way"
    await deliver(cluster)
    assert cluster.isr("t") == (0,)
    assert cluster.replica(0, "t").isr == {0, 1}
    await deliver(cluster)
    leader = cluster.replica(0, "t")
    assert (leader.isr, leader.high_watermark, leader.controller_epoch) == (frozenset({0}), 1, 0)


@driven
async def test_a_lost_proposal_is_sent_again(cluster: Cluster) -> None:
    async with cluster.client() as client:
        await client.produce("t", b"a", acks=1)
    cluster.broker(0).actions.shrink_isr("t", 0, lagging={1})
    await wait_all_tasks_blocked()
    cluster.reset_connections(0, "controller")
    await wait_all_tasks_blocked()
    assert cluster.trace[-1].name == "DisconnectController"
    assert cluster.broker(0).actions.retry_alter_partition("t", 0)
    await wait_all_tasks_blocked()
    await deliver(cluster)
    await deliver(cluster)
    assert cluster.replica(0, "t").isr == {0}


@driven
async def test_a_proposal_that_reaches_a_new_controller_too_late_is_lost(cluster: Cluster) -> None:
    async with cluster.client() as client:
        await client.produce("t", b"a", acks=1)
    cluster.broker(0).actions.shrink_isr("t", 0, lagging={1})
    await wait_all_tasks_blocked()
    await cluster.restart_controller()
    await wait_all_tasks_blocked()
    assert cluster.network.in_flight == []
    assert cluster.isr("t") == (0, 1)


@driven
async def test_a_response_of_the_old_controller_still_arrives_and_is_known_as_old(cluster: Cluster) -> None:
    async with cluster.client() as client:
        await client.produce("t", b"a", acks=1)
    cluster.broker(0).actions.shrink_isr("t", 0, lagging={1})
    await wait_all_tasks_blocked()
    await deliver(cluster)
    await cluster.restart_controller()
    await cluster.broker(0).actions.apply_metadata()
    await wait_all_tasks_blocked()
    before = cluster.replica(0, "t").controller_epoch
    await deliver(cluster)
    assert cluster.trace[-1].name == "ReceiveAlterPartitionResponse"
    assert cluster.replica(0, "t").controller_epoch == before == 1


@driven
async def test_metadata_reach_a_broker_when_it_pulls(cluster: Cluster) -> None:
    await cluster.expire_session(0)
    await wait_all_tasks_blocked()
    assert cluster.leader("t") == 1
    assert cluster.replica(1, "t").leader == 0
    await cluster.broker(1).actions.apply_metadata()
    assert cluster.replica(1, "t").is_leader
    assert cluster.replica(0, "t").is_leader, "the old leader does not know it yet"


@driven
async def test_who_gives_up_reading_metadata_leaves_no_partition_without_a_host(cluster: Cluster) -> None:
    """A client that has a topic made and goes away cancels what its broker does for it."""
    async with cluster.client() as client:
        await client.create_topic("many", partitions=100, replication_factor=2)
    broker = cluster.broker(0)
    hosted = len(broker.replicas)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.actions.apply_metadata)
        while len(broker.replicas) == hosted:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert len(broker.replicas) < hosted + 100
    await broker.actions.apply_metadata()
    assert len(broker.replicas) == hosted + 100


@driven
async def test_a_broker_that_the_controller_does_not_know_registers_again(cluster: Cluster) -> None:
    broker = cluster.broker(1)
    known = broker.registration.broker_epoch
    broker.registration.broker_epoch = known + 1_000
    assert not await broker.actions.heartbeat()
    assert known < broker.registration.broker_epoch < known + 1_000
    await broker.actions.apply_metadata()
    assert await broker.actions.heartbeat()


@driven
async def test_a_restarted_broker_registers_when_it_is_told_to(cluster: Cluster) -> None:
    old_epoch = cluster.broker(1).registration.broker_epoch
    await cluster.crash(1)
    await cluster.restart(1)
    broker = cluster.broker(1)
    assert broker.registration.broker_epoch == -1
    assert cluster.replica(1, "t").leader_epoch == -1
    assert await broker.actions.register() > old_epoch
    assert cluster.isr("t") == (0,)
    assert not await broker.actions.heartbeat(), "it has not seen its own registration yet"
    await broker.actions.apply_metadata()
    assert cluster.replica(1, "t").leader == 0
    assert await broker.actions.heartbeat()


@simulated
async def test_lines_name_their_node_though_a_program_calls_its_actions(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "tidegauge")
    async with Cluster(brokers=2, seed=1, timers=False) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        caplog.clear()
        controller = cluster.controller
        assert await controller.actions.expire_session(0)
        async with controller.decisions.turn() as turn:
            await turn.commit(turn.controller.members.fence(1))
        for broker in cluster.brokers:
            await broker.actions.register()
            await broker.actions.apply_metadata()
            await broker.actions.heartbeat()
    lines = [record.getMessage() for record in caplog.records]
    assert {"broker fenced", "broker registered", "broker unfenced", "partition offline"} <= {
        line.partition(":")[0] for line in lines
    }
    assert [line for line in lines if ": node=" not in line] == []

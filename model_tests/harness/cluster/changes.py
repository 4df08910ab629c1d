"""The actions of the extensions of replication, on a cluster: reassignment, shutdown, retention, settings.

As in `cluster.steps`, each action is one function. What operators ask goes over
the wire, to the controller or to the broker that the action names, and the response is checked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import attrs
import trio
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from tidegauge.impl.client import topic_requests
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import BROKER
from tidegauge.impl.metadata.config_resources import AlterOperation, ConfigResourceType
from tidegauge.impl.ports.network import Address
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.wire.channel import Channel, NoResponseError
from tidegauge.impl.wire.primitives import TopicName, i8, i32, i64, millis
from tidegauge.model_tests.harness.cluster.binding import FOR_EVER_MS, PARTITION, TOPIC, ClusterBinding
from tidegauge.model_tests.harness.cores.extensions.settings import texts
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.replication.extensions.reassignment import CancelReassignment, StartReassignment
from tidegauge.spec.replication.extensions.retention import DeleteRecords, Retain
from tidegauge.spec.replication.extensions.settings import ChangeSettings
from tidegauge.spec.replication.extensions.shutdown import (
    BeginShutdown,
    GiveUpWaiting,
    GrantShutdown,
    Stop,
    StopUnasked,
)
from tidegauge.spec.replication.state import State

DELETION_ENDS: Final = (ErrorCode.none, ErrorCode.not_leader_or_follower)
"""The errors that a response to a DeleteRecords may have."""


async def ask_at(cluster: Cluster, address: Address, request: Any) -> Any:
    """The response to an operator's request; None when none comes."""
    response = None
    async with trio.open_nursery() as nursery:
        channel = Channel(cluster.host.network("operator"), address, "operator", nursery)
        with suppress(NoResponseError):
            response = await channel.request(request)
        await channel.aclose()
        nursery.cancel_scope.cancel()
    return response


async def reassign(binding: ClusterBinding, target: tuple[int, ...] | None) -> None:
    cluster, request = binding.cluster, topic_requests.reassign(TOPIC, PARTITION, target)
    topic_requests.check(await ask_at(cluster, cluster.controller.address, request), "the reassignment was refused")


# --- reassignment --------------------------------------------------------------------------------------------------


async def start_reassignment(binding: ClusterBinding, action: StartReassignment, before: State) -> None:
    await reassign(binding, action.target)


async def cancel_reassignment(binding: ClusterBinding, action: CancelReassignment, before: State) -> None:
    await reassign(binding, None)


# --- controlled shutdown -------------------------------------------------------------------------------------------


async def begin_shutdown(binding: ClusterBinding, action: BeginShutdown, before: State) -> None:
    """The first half of what a heartbeat does: the other is `GrantShutdown`."""
    async with binding.cluster.controller.decisions.turn() as turn:
        await turn.commit(turn.controller.members.begin_shutdown(action.broker))


async def grant_shutdown(binding: ClusterBinding, action: GrantShutdown, before: State) -> None:
    await ask_to_stop(binding.broker(action.broker), want_fence=False)


async def give_up_waiting(binding: ClusterBinding, action: GiveUpWaiting, before: State) -> None:
    await ask_to_stop(binding.broker(action.broker), want_fence=True)


async def ask_to_stop(broker: Broker, *, want_fence: bool) -> None:
    response = await broker.controller.heartbeat(
        broker.metadata.image.offset, want_fence=want_fence, want_shut_down=True
    )
    assert response.should_shut_down, "it leads nothing that another could lead"


async def stop(binding: ClusterBinding, action: Stop, before: State) -> None:
    """It asks once more, as a broker does that has not received the response, and ends."""
    await end(binding, action.broker, before)


async def stop_unasked(binding: ClusterBinding, action: StopUnasked, before: State) -> None:
    broker = binding.broker(action.broker)
    broker.config.current = attrs.evolve(broker.config.current, controlled_shutdown_enable=False)
    await end(binding, action.broker, before)


async def end(binding: ClusterBinding, number: int, before: State) -> None:
    """The process stops cleanly. Its responses still arrive; all else to it and from it counts as lost."""
    network, stopped = binding.cluster.network, binding.memory[number]
    awaited = frozenset(m.request for m in before.network.fetch_responses)
    for follower in range(binding.machine.brokers):
        binding.note_cut(follower, number, but=awaited)
    node = f"{BROKER}{number}"
    for frame in list(network.in_flight):
        if frame.destination == node or (frame.is_request and frame.source == node):
            network.drop(frame)
    stopped.note = binding.broker(number).registration.broker_epoch
    stopped.flushed, stopped.checkpoint = len(stopped.log), before.replicas[number].high_watermark
    await binding.cluster.shutdown(number, patient=False)
    stopped.running, stopped.paused = False, False
    stopped.cut.clear()


# --- log starts ----------------------------------------------------------------------------------------------------


async def delete_records(binding: ClusterBinding, action: DeleteRecords, before: State) -> None:
    binding.start_soon(_delete_records, binding, action)


async def _delete_records(binding: ClusterBinding, action: DeleteRecords) -> None:
    """The response comes when every live replica has deleted, or when this one no longer leads."""
    part = DeleteRecordsPartition(partition_index=i32(PARTITION), offset=i64(action.offset))
    topic = DeleteRecordsTopic(name=TopicName(TOPIC), partitions=(part,))
    request = DeleteRecordsRequest(topics=(topic,), timeout=millis(FOR_EVER_MS))
    response = await ask_at(binding.cluster, binding.broker(action.broker).address, request)
    if response is None:
        return
    (outcome,) = response.topics[0].partitions
    if outcome.error_code not in DELETION_ENDS:
        binding.surprises.append(f"the response to {action} is {outcome.error_code.name}")
    elif outcome.error_code is ErrorCode.none and outcome.low_watermark < action.offset:
        binding.surprises.append(f"the response to {action} has the low watermark {outcome.low_watermark}")


async def retain(binding: ClusterBinding, action: Retain, before: State) -> None:
    hosted = binding.hosted(action.broker)
    assert hosted is not None
    hosted.log.delete_records_before(action.offset)
    binding.broker(action.broker).replicas.flushes.write_log_starts([hosted])


# --- settings ------------------------------------------------------------------------------------------------------


async def change_settings(binding: ClusterBinding, action: ChangeSettings, before: State) -> None:
    changes = tuple(
        AlterableConfig(name=name, config_operation=i8(AlterOperation.SET), value=value)
        for name, value in texts(action).items()
    )
    resource = AlterConfigsResource(resource_type=i8(ConfigResourceType.TOPIC), resource_name=TOPIC, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    response = await ask_at(binding.cluster, binding.cluster.controller.address, request)
    topic_requests.check(response, "the settings were refused")


CHANGES: Final[Mapping[type[Action], Callable[[ClusterBinding, Any, State], Awaitable[None]]]] = {
    StartReassignment: start_reassignment,
    CancelReassignment: cancel_reassignment,
    BeginShutdown: begin_shutdown,
    GrantShutdown: grant_shutdown,
    GiveUpWaiting: give_up_waiting,
    Stop: stop,
    StopUnasked: stop_unasked,
    DeleteRecords: delete_records,
    Retain: retain,
    ChangeSettings: change_settings,
}

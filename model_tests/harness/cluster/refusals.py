"""What the specification refuses, sent to a cluster: one function for each class of action, which returns the error.

The counterpart of `model_tests.harness.cores.refusals`: a request over the network, to the node that the action names.
Anybody could send it, and so an operator's connection carries it. A refusal comes at once; a request without a response
was taken. Late responses are not sent: the connection knows to which request a response belongs.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final
from uuid import UUID

import trio
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Listener
from kio.schema.errors import ErrorCode

from tidegauge.impl.client import requests
from tidegauge.impl.server.broker.alter_partition import wire_request_of
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.server.requests.reads import follower_request, partition_responses
from tidegauge.impl.wire.channel import Channel, NoResponseError
from tidegauge.impl.wire.primitives import BrokerId, i16, i64, u16
from tidegauge.model_tests.harness.cluster.binding import (
    FOR_EVER_MS,
    PARTITION,
    TOPIC,
    ClusterBinding,
    record_batch,
)
from tidegauge.model_tests.harness.cluster.in_flight import WITHOUT_METADATA
from tidegauge.model_tests.harness.cores import refusals as cores
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.state import NONE, Acks, State

VALUE_OF_NO_RECORD: Final = 999_999
"""The value of a record that must not be appended."""


async def append(binding: ClusterBinding, action: protocol.Append, before: State) -> ErrorCode:
    broker = binding.broker(action.broker)
    request = requests.produce(
        binding.route_to(broker), record_batch(VALUE_OF_NO_RECORD), int(action.acks), FOR_EVER_MS
    )
    if action.acks is Acks.NOTHING:
        return await append_unacknowledged(binding, broker, request, action, before)
    response = await binding.told_at_once(broker.address, request)
    if response is None:
        return ErrorCode.none
    return error_at(binding, action.broker, response.topics[0].partitions[0].error_code, action, before)


async def append_unacknowledged(
    binding: ClusterBinding, broker: Broker, request: Any, action: protocol.Append, before: State
) -> ErrorCode:
    """With acks=0 an error closes the connection, and nobody is told which one: so it is the one expected."""
    async with trio.open_nursery() as nursery:
        channel = Channel(binding.cluster.host.network("operator"), broker.address, "operator", nursery)
        await channel.send(request)
        try:
            await channel.request(requests.metadata(()))
            error = ErrorCode.none
        except NoResponseError:
            error = expected(binding, action, before)
        await channel.aclose()
        nursery.cancel_scope.cancel()
    return error


def error_at(
    binding: ClusterBinding, broker: int, error: ErrorCode, action: protocol.ReplicationAction, before: State
) -> ErrorCode:
    """A broker's error; of one that knows no topic, for it has no metadata yet or it is gone, the guard's.

    So it is with one whose replica is gone, where that has an error of its own.
    """
    unknown = binding.told(broker) is None and error in WITHOUT_METADATA
    unknown = unknown or any(extension.explains(broker, error) for extension in binding.extensions)
    return expected(binding, action, before) if unknown else error


def expected(binding: ClusterBinding, action: protocol.ReplicationAction, before: State) -> ErrorCode:
    """The error that the guard names."""
    refusal = action.guard(binding.machine, before)
    assert isinstance(refusal, Refusal), "only what is refused is sent"
    return ErrorCode(refusal.error.value)


async def receive_fetch(binding: ClusterBinding, action: protocol.ReceiveFetch, before: State) -> ErrorCode | None:
    """A request without an epoch is not fenced; only a broker without metadata would be asked in none."""
    request = action.request
    if request.leader_epoch == NONE:
        return None
    fetch = cores.follower_fetch(binding.epochs, binding.additions, request)
    message = follower_request(
        [(binding.topic_id, PARTITION, fetch)], max_wait_ms=0, min_bytes=0, max_bytes=1, partition_max_bytes=1
    )
    response = await binding.told_at_once(binding.broker(request.leader).address, message)
    if response is None:
        return ErrorCode.none
    (found,) = partition_responses(response).values()
    return error_at(binding, request.leader, found.error, action, before)


async def receive_alter_partition(
    binding: ClusterBinding, action: control.ReceiveAlterPartition, before: State
) -> ErrorCode:
    proposal = cores.proposal_of(binding.epochs, action.request)
    response = await to_controller(binding, wire_request_of(binding.topic_id, PARTITION, proposal))
    error: ErrorCode = response.topics[0].partitions[0].error_code
    return error


async def to_controller(binding: ClusterBinding, request: Any) -> Any:
    """The controller's response, which comes at once."""
    response = await binding.told_at_once(binding.cluster.controller.address, request)
    assert response is not None, f"the controller does not respond to {request}"
    return response


async def elect(binding: ClusterBinding, *, unclean: bool) -> ErrorCode:
    response = await to_controller(binding, requests.elect_leaders(TOPIC, PARTITION, unclean=unclean))
    error: ErrorCode = response.replica_election_results[0].partition_result[0].error_code
    return error


async def preferred_election(binding: ClusterBinding, action: control.PreferredElection, before: State) -> ErrorCode:
    return await elect(binding, unclean=False)


async def unclean_election(binding: ClusterBinding, action: control.UncleanElection, before: State) -> ErrorCode:
    return await elect(binding, unclean=True)


async def unfence(binding: ClusterBinding, action: faults.Unfence, before: State) -> ErrorCode | None:
    """The broker itself sends the heartbeat: nobody else is its process."""
    if not binding.memory[action.broker].acts:
        return None
    broker = binding.broker(action.broker)
    response = await broker.controller.heartbeat(broker.metadata.image.offset)
    return response.error_code


async def heartbeat_of_former_process(
    binding: ClusterBinding, action: faults.HeartbeatOfFormerProcess, before: State
) -> ErrorCode:
    request = BrokerHeartbeatRequest(
        broker_id=BrokerId(action.broker),
        broker_epoch=i64(binding.epochs.broker_epoch(action.broker, action.broker_epoch)),
        current_metadata_offset=i64(binding.cluster.controller.log.end_offset),
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=(),
    )
    error: ErrorCode = (await to_controller(binding, request)).error_code
    return error


async def register_beside_process(
    binding: ClusterBinding, action: faults.RegisterBesideProcess, before: State
) -> ErrorCode:
    """It names another address and another directory; the broker's own process has just sent a heartbeat."""
    broker = binding.broker(action.broker)
    await broker.controller.heartbeat(broker.metadata.image.offset)
    request = BrokerRegistrationRequest(
        broker_id=BrokerId(action.broker),
        cluster_id=broker.registration.cluster_id,
        incarnation_id=UUID(int=1),
        listeners=(Listener(name="PLAINTEXT", host="elsewhere", port=u16(9092), security_protocol=i16(0)),),
        features=(),
        rack=None,
        log_dirs=(UUID(int=2),),
        previous_broker_epoch=i64(NONE),
    )
    error: ErrorCode = (await to_controller(binding, request)).error_code
    return error


REFUSALS: Final = Steps[ClusterBinding, [State], Awaitable[ErrorCode | None]](
    on(protocol.Append, append),
    on(protocol.ReceiveFetch, receive_fetch),
    on(control.ReceiveAlterPartition, receive_alter_partition),
    on(control.PreferredElection, preferred_election),
    on(control.UncleanElection, unclean_election),
    on(faults.Unfence, unfence),
    on(faults.HeartbeatOfFormerProcess, heartbeat_of_former_process),
    on(faults.RegisterBesideProcess, register_beside_process),
)

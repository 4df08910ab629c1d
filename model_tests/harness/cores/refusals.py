"""What the specification refuses, sent to the cores: one function for each class of action, which returns the error.

The requests are those that the specification's actions name, with the implementation's broker epochs. A function
decides nothing: whether the request is refused, and why, say the cores.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.partition import messages
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.model_tests.harness.cores.abstraction import Epochs
from tidegauge.model_tests.harness.cores.asked_replica import check_refusal
from tidegauge.model_tests.harness.cores.message_parts import Additions
from tidegauge.model_tests.harness.cores.replication import PARTITION, TOPIC, Cores
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication import state as spec

VALUE_OF_NO_RECORD: Final = 1 << 40
"""The value of a record that must not be appended."""
ANOTHER: Final = "another process"


def append(cores: Cores, action: protocol.Append) -> ErrorCode | None:
    if cores.brokers[action.broker].replica is None:
        return None
    batch = cores.brokers[action.broker].log.produced([VALUE_OF_NO_RECORD])
    appended = cores.replica(action.broker).append(batch, int(action.acks), cores.now_ms)
    return appended if isinstance(appended, ErrorCode) else ErrorCode.none


def receive_fetch(cores: Cores, action: protocol.ReceiveFetch) -> ErrorCode | None:
    request = action.request
    if cores.brokers[request.leader].replica is None:
        return None
    leader = cores.replica(request.leader)
    response = leader.receive_fetch(follower_fetch(cores.epochs, cores.additions, request), 1, cores.now_ms)
    check_refusal(leader, response)
    return response.error


def follower_fetch(epochs: Epochs, additions: Additions, request: spec.FetchRequest) -> messages.FollowerFetch:
    """The fetch as the implementation has it."""
    fetch = messages.FollowerFetch(
        replica_id=request.follower,
        broker_epoch=epochs.broker_epoch(request.follower, request.broker_epoch),
        leader_epoch=request.leader_epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_fetched_epoch,
    )
    return additions.said(fetch, request.parts)


def receive_fetch_response(cores: Cores, action: protocol.ReceiveFetchResponse) -> ErrorCode | None:
    """A late response; its follower has forgotten the request, but the core must not rely on that."""
    response, follower = action.response, action.response.request.follower
    if cores.brokers[follower].replica is None:
        return None
    late = messages.PartitionFetchResponse(
        leader=response.request.leader,
        leader_epoch=response.request.leader_epoch,
        diverging_epoch=messages.EpochEndOffset(response.diverging_epoch, response.diverging_end_offset),
        high_watermark=response.high_watermark,
        log_start_offset=0,
    )
    fetch = follower_fetch(cores.epochs, cores.additions, response.request)
    cores.replica(follower).receive_fetch_response(fetch, late, cores.now_ms)
    return ErrorCode.none


def receive_alter_partition(cores: Cores, action: control.ReceiveAlterPartition) -> ErrorCode:
    proposal = proposal_of(cores.epochs, action.request)
    return cores.commit(cores.controller.isr_changes.alter(TOPIC, PARTITION, proposal)).error


def proposal_of(epochs: Epochs, request: spec.AlterPartitionRequest) -> messages.AlterPartitionRequest:
    """The proposal as the implementation has it."""
    return messages.AlterPartitionRequest(
        request.leader,
        epochs.broker_epoch(request.leader, request.broker_epoch),
        request.leader_epoch,
        request.partition_epoch,
        tuple((broker, epochs.broker_epoch(broker, broker_epoch)) for broker, broker_epoch in request.isr),
    )


def receive_alter_partition_response(cores: Cores, action: control.ReceiveAlterPartitionResponse) -> ErrorCode | None:
    """A late response to a proposal of this ISR."""
    response, leader = action.response, action.response.leader
    if cores.brokers[leader].replica is None:
        return None
    replica = cores.replica(leader)
    proposal = messages.AlterPartitionRequest(
        leader, 0, response.leader_epoch, response.proposed_on, tuple((broker, 0) for broker in response.isr)
    )
    registration = PartitionRegistration(
        replica.replicas, leader, response.leader_epoch, response.partition_epoch, frozenset(response.isr)
    )
    replica.receive_alter_partition_response(
        proposal, messages.AlterPartitionResponse(ErrorCode.none, response.controller_epoch, registration)
    )
    return ErrorCode.none


def preferred_election(cores: Cores, action: control.PreferredElection) -> ErrorCode:
    return cores.commit(cores.controller.elections.elect_preferred(TOPIC, PARTITION))


def unclean_election(cores: Cores, action: control.UncleanElection) -> ErrorCode:
    return cores.commit(cores.controller.elections.elect_uncleanly(TOPIC, PARTITION))


def unfence(cores: Cores, action: faults.Unfence) -> ErrorCode:
    broker = cores.brokers[action.broker]
    return heartbeat(cores, action.broker, broker.broker_epoch, broker.image.offset)


def heartbeat_of_former_process(cores: Cores, action: faults.HeartbeatOfFormerProcess) -> ErrorCode:
    broker_epoch = cores.epochs.broker_epoch(action.broker, action.broker_epoch)
    return heartbeat(cores, action.broker, broker_epoch, cores.metadata_log.end_offset)


def register_beside_process(cores: Cores, action: faults.RegisterBesideProcess) -> ErrorCode:
    """It is another process: it listens elsewhere, and has another directory."""
    members, number = cores.controller.members, action.broker
    epoch = cores.commit(members.register(number, host="elsewhere", port=9092, incarnation_id=ANOTHER))
    taken = epoch != messages.UNKNOWN_BROKER_EPOCH
    return ErrorCode.none if taken else ErrorCode.duplicate_broker_registration


def heartbeat(cores: Cores, broker: int, broker_epoch: int, metadata_offset: int) -> ErrorCode:
    members = cores.controller.members
    return cores.commit(members.heartbeat(broker, broker_epoch, metadata_offset, cores.now_ms)).error


REFUSALS: Final = Steps[Cores, [], ErrorCode | None](
    on(protocol.Append, append),
    on(protocol.ReceiveFetch, receive_fetch),
    on(protocol.ReceiveFetchResponse, receive_fetch_response),
    on(control.ReceiveAlterPartition, receive_alter_partition),
    on(control.ReceiveAlterPartitionResponse, receive_alter_partition_response),
    on(control.PreferredElection, preferred_election),
    on(control.UncleanElection, unclean_election),
    on(faults.Unfence, unfence),
    on(faults.HeartbeatOfFormerProcess, heartbeat_of_former_process),
    on(faults.RegisterBesideProcess, register_beside_process),
)

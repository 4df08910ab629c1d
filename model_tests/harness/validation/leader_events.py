"""Decisions of a leader on its log and its ISR, and what the controller makes of its proposals, as actions."""

from __future__ import annotations

from collections.abc import Iterator

from tidegauge.impl.partition.messages import AlterPartitionRequest as CoreAlterPartitionRequest
from tidegauge.impl.server.trace import events
from tidegauge.model_tests.harness.validation.followed import Followed
from tidegauge.model_tests.harness.validation.observed import ProposalOutlives
from tidegauge.model_tests.harness.validation.ways import (
    TOPIC_IS_UNKNOWN,
    Choice,
    Wrong,
    actions_of,
    all_of,
    error_of,
    just,
)
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.extensions.late import ProposalArrivesLate
from tidegauge.spec.replication.extensions.retention import (
    DeleteRecords,
    Retain,
    log_start_of,
)
from tidegauge.spec.replication.state import (
    Acks,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Error,
    State,
)


@actions_of.register(events.Append)
def append(decision: events.Append, node: int, followed: Followed) -> Iterator[Choice]:
    action = protocol.Append(followed.index(node), Acks(decision.acks))
    yield [lambda state: action] * decision.records


@actions_of.register(events.AcknowledgeRepeat)
@actions_of.register(events.RefuseSequence)
@actions_of.register(events.ExpireProducers)
def remember(decision: events.OfLog, node: int, followed: Followed) -> Iterator[Choice]:
    """Nothing is appended; what it says of producers is looked at in `producers`."""
    yield []


@actions_of.register(events.ShrinkIsr)
def shrink_isr(decision: events.ShrinkIsr, node: int, followed: Followed) -> Iterator[Choice]:
    lagging = set(decision.state.isr).difference(decision.state.pending_isr or ())
    yield just(control.ShrinkIsr(followed.index(node), tuple(sorted(map(followed.index, lagging)))))


@actions_of.register(events.RetryAlterPartition)
def retry_alter_partition(decision: events.RetryAlterPartition, node: int, followed: Followed) -> Iterator[Choice]:
    yield just(control.RetryAlterPartition(followed.index(node)))


@actions_of.register(events.ReceiveAlterPartition)
def receive_alter_partition(decision: events.ReceiveAlterPartition, node: int, followed: Followed) -> Iterator[Choice]:
    assert followed.state is not None
    request = proposal_of(decision.request, followed)
    receive = control.ReceiveAlterPartition(request)
    if request in followed.state.network.alters:
        yield just(receive)
    elif request in followed.sent:
        yield all_of(ProposalArrivesLate(request), receive)
        if is_of_present_process(decision.request, followed):
            yield all_of(ProposalOutlives(request), receive)


@actions_of.register(events.ReceiveAlterPartitionResponse)
def receive_alter_partition_response(
    decision: events.ReceiveAlterPartitionResponse, node: int, followed: Followed
) -> Iterator[Choice]:
    assert followed.state is not None
    request = proposal_of(decision.request, followed)
    if decision.error in TOPIC_IS_UNKNOWN:
        yield from refused_as_unknown(decision.request, followed)
    for response in followed.state.network.alter_responses:
        if is_response_to(response, request) and response.error is error_of(decision.error):
            yield just(control.ReceiveAlterPartitionResponse(response))


def is_of_present_process(request: CoreAlterPartitionRequest, followed: Followed) -> bool:
    """Whether the process that sent a proposal runs still, be it that it has registered again."""
    return followed.registrations.has_learned(request.broker_id, request.broker_epoch)


def refused_as_unknown(proposed: CoreAlterPartitionRequest, followed: Followed) -> Iterator[Choice]:
    """The controller has no such topic any more: of what it refuses then it records nothing."""

    def learn(state: State) -> ReplicationAction:
        for response in state.network.alter_responses:
            if is_response_to(response, request) and response.error is Error.UNKNOWN_TOPIC_ID:
                return control.ReceiveAlterPartitionResponse(response)
        raise Wrong("the controller knows the topic, as far as its decisions say")

    assert followed.state is not None
    request = proposal_of(proposed, followed)
    if request in followed.state.network.alters:
        yield [*just(control.ReceiveAlterPartition(request)), learn]
    elif request in followed.sent and is_of_present_process(proposed, followed):
        yield [*all_of(ProposalOutlives(request), control.ReceiveAlterPartition(request)), learn]


@actions_of.register(events.DisconnectController)
def disconnect_controller(decision: events.DisconnectController, node: int, followed: Followed) -> Iterator[Choice]:
    assert followed.state is not None
    broker = followed.index(node)
    on_its_way = followed.state.network.has_alter_of(broker)
    yield just(faults.DisconnectController(broker)) if on_its_way else []


@actions_of.register(events.DeleteRecords)
def delete_records(decision: events.DeleteRecords, node: int, followed: Followed) -> Iterator[Choice]:
    """A deletion of what is gone already deletes nothing."""
    assert followed.state is not None
    broker, offset = followed.index(node), decision.offset
    yield just(DeleteRecords(broker, offset)) if offset > log_start_of(followed.state.replicas[broker]) else []


@actions_of.register(events.Retain)
def retain(decision: events.Retain, node: int, followed: Followed) -> Iterator[Choice]:
    """How much retention takes is its own affair, up to the high watermark; a leader's is a deletion."""
    yield just(retained(followed, followed.index(node), decision.state.log_start))


def retained(followed: Followed, broker: int, start: int) -> ReplicationAction:
    """A replica's retention moves its log start."""
    assert followed.state is not None
    leads = followed.state.replicas[broker].leader == broker
    return (DeleteRecords if leads else Retain)(broker, start)


def proposal_of(request: CoreAlterPartitionRequest, followed: Followed) -> AlterPartitionRequest:
    """A proposed ISR in the specification's terms."""
    members = sorted((followed.index(member), followed.incarnation(member, epoch)) for member, epoch in request.isr)
    return AlterPartitionRequest(
        followed.index(request.broker_id),
        followed.incarnation(request.broker_id, request.broker_epoch),
        request.leader_epoch,
        request.partition_epoch,
        tuple(members),
    )


def is_response_to(response: AlterPartitionResponse, request: AlterPartitionRequest) -> bool:
    about = (request.leader, request.leader_epoch, request.partition_epoch)
    return (response.leader, response.leader_epoch, response.proposed_on) == about

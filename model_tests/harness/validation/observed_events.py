"""Decisions of a cluster's trace as actions of the specification.

`actions_of` has one function for each class of decision. It yields the ways in which the decision may be understood,
the most likely first: each a list of makers of actions, called one after the other with the state that they act in.
Where a message is received, there is one way for each message on its way that fits; if none fits and the message was
sent earlier, it arrives late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import AlterPartitionRequest as CoreAlterPartitionRequest
from tidegauge.impl.partition.messages import FollowerFetch
from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.validation.observed import (
    AbandonFetch,
    ArriveLate,
    ReceiveMetadata,
    RegisterAgain,
    RespondLate,
    StartUnsaid,
)
from tidegauge.spec.kernel.machine import NotEnabled
from tidegauge.spec.kernel.parts import parts_of
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.extensions import shutdown as leaving
from tidegauge.spec.replication.extensions.directories import (
    FailDirectory,
    LoseNote,
    LoseTail,
    ReplicaOffline,
    ReplicaOnline,
    has_failed,
    offline,
)
from tidegauge.spec.replication.extensions.reassignment import (
    CancelReassignment,
    ReplicaList,
    StartReassignment,
    assigned,
    listed,
)
from tidegauge.spec.replication.extensions.retention import (
    DeleteRecords,
    FollowerLogStart,
    LeaderLogStart,
    LogStart,
    Retain,
    WriteLogStart,
    log_start_of,
)
from tidegauge.spec.replication.extensions.settings import ChangeSettings, TopicSettings
from tidegauge.spec.replication.state import (
    NONE,
    Acks,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Error,
    FetchRequest,
    FetchResponse,
    State,
)

if TYPE_CHECKING:
    from tidegauge.model_tests.harness.validation.validation import Validator

Make = Callable[[State], ReplicationAction]
Choice = Sequence[Make]


class Untranslatable(Exception):  # noqa: N818 - a finding
    """A decision that the specification has no action for."""


def ways_of(event: TraceEvent, validator: Validator) -> Iterator[Choice]:
    """The ways to understand an event; one empty way for an event that does not touch this partition."""
    decision = event.decision
    broker = decision.broker if isinstance(decision, events.SessionDecision) else event.node
    if isinstance(decision, OF_BROKERS) and broker not in validator.brokers:
        yield []
    else:
        yield from actions_of(decision, event.node, validator)


OF_BROKERS = (
    *(events.SessionDecision, events.PullMetadata, events.LogDirectoryFailed),
    *(events.Crash, events.Stop, events.Restart, events.Pause, events.Resume),
)
"""Decisions of or about a broker as a whole, which may host the partition or not."""


@singledispatch
def actions_of(decision: events.Decision, node: int, validator: Validator) -> Iterator[Choice]:
    """The ways to understand a decision of a node. Raises Untranslatable for one that is registered nowhere."""
    raise Untranslatable(f"the specification knows no {type(decision).__name__}")


def just(action: ReplicationAction) -> Choice:
    return [lambda state: action]


def all_of(*actions: ReplicationAction) -> Choice:
    """One after the other."""
    return [make for action in actions for make in just(action)]


# --- produce and fetch ---------------------------------------------------------------------------------------------


@actions_of.register(events.Append)
def append(decision: events.Append, node: int, validator: Validator) -> Iterator[Choice]:
    action = protocol.Append(validator.index(node), Acks(decision.acks))
    yield [lambda state: action] * decision.records


@actions_of.register(events.SendFetch)
def send_fetch(decision: events.SendFetch, node: int, validator: Validator) -> Iterator[Choice]:
    """A fetch to a leader that is down already is lost, and so is no action: its Disconnect follows."""
    assert validator.state is not None
    leader = validator.index(decision.source)
    if validator.state.replicas[leader].running:
        wanted = request_of(decision.fetch, decision.source, validator)
        yield [lambda state: protocol.SendFetch(validator.index(node))]
        if wanted not in validator.sent:
            return
    else:
        yield []


def request_of(fetch: FollowerFetch, source: int, validator: Validator) -> FetchRequest:
    """A fetch to the broker `source` in the specification's terms."""
    return FetchRequest(
        validator.index(fetch.replica_id),
        validator.index(source),
        fetch.leader_epoch,
        fetch.fetch_offset,
        fetch.last_fetched_epoch,
        validator.incarnation(fetch.replica_id, fetch.broker_epoch),
        parts_of(FollowerLogStart(fetch.log_start_offset)),
    )


@actions_of.register(events.ReceiveFetch)
def receive_fetch(decision: events.ReceiveFetch, node: int, validator: Validator) -> Iterator[Choice]:
    assert validator.state is not None
    request = request_of(decision.fetch, node, validator)
    receive = protocol.ReceiveFetch(request, decision.outcome.records)

    def as_recorded(state: State) -> ReplicationAction:
        """The action, if its response is the decision's. The follower may never get to see that response."""
        assert validator.machine is not None
        _, response = protocol.fetched(validator.machine, state, request, receive.records)
        if error_of(decision.outcome.error) is not None and not says(decision.outcome, response):
            raise NotEnabled(receive, f"broker {request.leader} responds {response}")
        return receive

    if request in validator.state.network.fetches:
        yield [as_recorded]
    elif request in validator.sent:
        yield [lambda state: ArriveLate(request), as_recorded]


@actions_of.register(events.HoldFetch)
def hold_fetch(decision: events.HoldFetch, node: int, validator: Validator) -> Iterator[Choice]:
    assert validator.state is not None
    request = request_of(decision.fetch, node, validator)
    if request in validator.state.network.fetches:
        yield just(protocol.HoldFetch(request))
    elif request in validator.sent:
        yield [lambda state: ArriveLate(request), lambda state: protocol.HoldFetch(request)]


@actions_of.register(events.RefuseFetch)
def refuse_fetch(decision: events.RefuseFetch, node: int, validator: Validator) -> Iterator[Choice]:
    """A broker has no such replica, as it says; its response changes nothing at the follower."""
    assert validator.state is not None
    request = request_of(decision.fetch, node, validator)
    replica = validator.state.replicas[request.leader]
    if has_failed(replica) or request.leader not in listed(replica):
        validator.refused[request] = decision.error
        yield []


@actions_of.register(events.ReceiveFetchResponse)
def receive_fetch_response(decision: events.ReceiveFetchResponse, node: int, validator: Validator) -> Iterator[Choice]:
    """A response with an error that the specification lacks changes nothing, nor does that of a failed disk.

    It may have been sent just before its sender stopped, when the specification's follower no longer waits for it.
    """
    assert validator.state is not None
    request, outcome = request_of(decision.fetch, decision.source, validator), decision.outcome
    refused = validator.refused.get(request) is outcome.error
    if refused or error_of(outcome.error) in (None, Error.KAFKA_STORAGE_ERROR):
        yield just(AbandonFetch(request)) if waits_for(request, validator.state) else []
        return
    for response in validator.state.network.fetch_responses:
        if response.request == request and says(outcome, response):
            yield just(protocol.ReceiveFetchResponse(response))
            return
    for response in validator.responses:
        if response.request == request and says(outcome, response):
            yield all_of(RespondLate(response), protocol.ReceiveFetchResponse(response))


def says(outcome: events.FetchOutcome, response: FetchResponse) -> bool:
    """Whether the two are the same response."""
    if response.error is not error_of(outcome.error):
        return False
    if (
        response.error in (Error.OK, Error.OFFSET_OUT_OF_RANGE)
        and LeaderLogStart.of(response).offset != outcome.log_start
    ):
        return False
    diverging = outcome.diverging_epoch
    return response.error is not Error.OK or (
        (response.diverging_epoch, response.diverging_end_offset)
        == ((NONE, NONE) if diverging is None else (diverging.epoch, diverging.end_offset))
        and response.high_watermark == outcome.high_watermark
        and len(response.records) == outcome.records
    )


def error_of(code: ErrorCode) -> Error | None:
    """Kafka's error in the specification's terms; None for one that it does not know."""
    return Error.OK if code is ErrorCode.none else Error.__members__.get(code.name.upper())


@actions_of.register(events.Disconnect)
def disconnect(decision: events.Disconnect, node: int, validator: Validator) -> Iterator[Choice]:
    """One request is given up; one that never was an action (its leader was down) leaves no trace."""
    assert validator.state is not None
    request = request_of(decision.fetch, decision.source, validator)
    yield just(AbandonFetch(request)) if waits_for(request, validator.state) else []


def waits_for(request: FetchRequest, state: State) -> bool:
    return request in state.replicas[request.follower].outstanding


# --- ISR changes ---------------------------------------------------------------------------------------------------


@actions_of.register(events.ShrinkIsr)
def shrink_isr(decision: events.ShrinkIsr, node: int, validator: Validator) -> Iterator[Choice]:
    lagging = set(decision.state.isr).difference(decision.state.pending_isr or ())
    yield just(control.ShrinkIsr(validator.index(node), tuple(sorted(map(validator.index, lagging)))))


@actions_of.register(events.RetryAlterPartition)
def retry_alter_partition(decision: events.RetryAlterPartition, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(control.RetryAlterPartition(validator.index(node)))


def proposal_of(request: CoreAlterPartitionRequest, validator: Validator) -> AlterPartitionRequest:
    """A proposed ISR in the specification's terms."""
    members = sorted((validator.index(member), validator.incarnation(member, epoch)) for member, epoch in request.isr)
    return AlterPartitionRequest(
        validator.index(request.broker_id),
        validator.incarnation(request.broker_id, request.broker_epoch),
        request.leader_epoch,
        request.partition_epoch,
        tuple(members),
    )


@actions_of.register(events.ReceiveAlterPartition)
def receive_alter_partition(
    decision: events.ReceiveAlterPartition, node: int, validator: Validator
) -> Iterator[Choice]:
    assert validator.state is not None
    request = proposal_of(decision.request, validator)
    receive = control.ReceiveAlterPartition(request)
    if request in validator.state.network.alters:
        yield just(receive)
    elif request in validator.sent:
        yield [lambda state: ArriveLate(request), lambda state: receive]


@actions_of.register(events.ReceiveAlterPartitionResponse)
def receive_alter_partition_response(
    decision: events.ReceiveAlterPartitionResponse, node: int, validator: Validator
) -> Iterator[Choice]:
    assert validator.state is not None
    request = proposal_of(decision.request, validator)
    for response in validator.state.network.alter_responses:
        if is_response_to(response, request) and response.error is error_of(decision.error):
            yield just(control.ReceiveAlterPartitionResponse(response))


def is_response_to(response: AlterPartitionResponse, request: AlterPartitionRequest) -> bool:
    about = (request.leader, request.leader_epoch, request.partition_epoch)
    return (response.leader, response.leader_epoch, response.proposed_on) == about


@actions_of.register(events.DisconnectController)
def disconnect_controller(decision: events.DisconnectController, node: int, validator: Validator) -> Iterator[Choice]:
    assert validator.state is not None
    broker = validator.index(node)
    on_its_way = validator.state.network.has_alter_of(broker)
    yield just(faults.DisconnectController(broker)) if on_its_way else []


# --- metadata and membership ---------------------------------------------------------------------------------------


@actions_of.register(events.PullMetadata)
def pull_metadata(decision: events.PullMetadata, node: int, validator: Validator) -> Iterator[Choice]:
    """What the metadata log said up to where the broker has read it."""
    broker, offset = validator.index(node), decision.metadata_offset
    if offset < validator.metadata_offsets.get(broker, 0):
        return
    validator.metadata_offsets[broker] = offset
    written = validator.written_at(offset)
    assert validator.machine is not None
    yield [] if written is None else just(ReceiveMetadata(broker, validator.machine.metadata(written)))


@actions_of.register(events.ApplyMetadata)
def apply_metadata(decision: events.ApplyMetadata, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(control.ApplyMetadata(validator.index(node)))


@actions_of.register(events.RemoveReplica)
def remove_replica(decision: events.RemoveReplica, node: int, validator: Validator) -> Iterator[Choice]:
    """The metadata have taken the replica away; what its broker had proposed, it asks no more."""
    assert validator.state is not None
    broker = validator.index(node)
    written = validator.written_at(decision.metadata_offset)
    if written is not None and broker not in assigned(written):
        proposed = validator.state.network.has_alter_of(broker)
        yield [
            *just(control.ApplyMetadata(broker)),
            *(just(faults.DisconnectController(broker)) if proposed else []),
        ]


@actions_of.register(events.Register)
def register(decision: events.Register, node: int, validator: Validator) -> Iterator[Choice]:
    """A broker that lost even the partition's folder restarts without a word on the partition."""
    assert validator.state is not None
    broker = validator.index(decision.broker)
    directories = tuple(looked_at(decision, validator))
    if not validator.state.replicas[broker].running:
        yield all_of(faults.Restart(broker), faults.Register(broker), *directories)
        return
    again = validator.state.replicas[broker].broker_epoch != NONE
    register = RegisterAgain(broker) if again else faults.Register(broker)
    yield sent_before_a_pause(validator, broker, register, *directories)


@actions_of.register(events.Unfence)
def unfence(decision: events.Unfence, node: int, validator: Validator) -> Iterator[Choice]:
    """A broker without a replica has read the metadata, and had nothing to say about them."""
    assert validator.state is not None
    broker = validator.index(decision.broker)
    replica = validator.state.replicas[broker]
    silent = replica.pulled is not None and broker not in ReplicaList.of(replica.pulled).replicas
    known = [control.ApplyMetadata(broker)] if silent and replica.leader_epoch == NONE else []
    yield sent_before_a_pause(validator, broker, *known, faults.Unfence(broker))


def sent_before_a_pause(validator: Validator, broker: int, *actions: ReplicationAction) -> Choice:
    """A request may have been sent just before its sender was stopped: it is as if it had gone on for a moment."""
    assert validator.state is not None
    if not validator.state.replicas[broker].paused:
        return all_of(*actions)
    return all_of(faults.Resume(broker), *actions, faults.Pause(broker))


@actions_of.register(events.ExpireSession)
def expire_session(decision: events.ExpireSession, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(faults.ExpireSession(validator.index(decision.broker)))


@actions_of.register(events.GrantShutdown)
@actions_of.register(events.Shutdown)
def shutdown(decision: events.SessionDecision, node: int, validator: Validator) -> Iterator[Choice]:
    """A broker asked to stop, and may at once: for this partition it waits for nobody."""
    assert validator.state is not None
    broker = validator.index(decision.broker)
    asked = leaving.is_shutting_down(validator.state.controller.sessions[broker])
    begin: Choice = [] if asked else just(leaving.BeginShutdown(broker))
    yield [*begin, *just(leaving.GiveUpWaiting(broker))]


@actions_of.register(events.BeginShutdown)
def begin_shutdown(decision: events.BeginShutdown, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(leaving.BeginShutdown(validator.index(decision.broker)))


@actions_of.register(events.Stop)
def stop(decision: events.Stop, node: int, validator: Validator) -> Iterator[Choice]:
    """With the controller's leave, or without it when it could not be had."""
    assert validator.state is not None
    broker = validator.index(node)
    action = leaving.Stop(broker)
    granted = validator.machine is not None and not action.guard(validator.machine, validator.state)
    replica, kept = validator.state.replicas[broker], kept_of(decision, validator)
    stop = action if granted else leaving.StopUnasked(broker)
    if has_failed(replica):
        lost = [LoseTail(broker, kept)] if kept < replica.log_end_offset else []
        yield all_of(*written_start(decision, validator, broker), stop, *lost)
    else:
        noteless = [LoseNote(broker)] if node in validator.failed_directories else []
        yield all_of(*started(validator, broker), stop, *noteless)


@actions_of.register(events.ControllerFailover)
def controller_failover(decision: events.ControllerFailover, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(faults.ControllerFailover())


@actions_of.register(events.Crash)
def crash(decision: events.Crash, node: int, validator: Validator) -> Iterator[Choice]:
    """What the disk kept; a log start may be on it though nobody had to write it down."""
    broker = validator.index(node)
    died = faults.Crash(broker, kept_of(decision, validator))
    yield all_of(*started(validator, broker), *written_start(decision, validator, broker), died)


@actions_of.register(events.Pause)
def pause(decision: events.Pause, node: int, validator: Validator) -> Iterator[Choice]:
    broker = validator.index(node)
    yield all_of(*started(validator, broker), faults.Pause(broker))


def started(validator: Validator, broker: int) -> Iterator[ReplicationAction]:
    """A broker without a log of the partition starts again without a word on it."""
    assert validator.state is not None
    if not validator.state.replicas[broker].running:
        yield faults.Restart(broker)


def written_start(
    decision: events.Crash | events.Stop, validator: Validator, broker: int
) -> Iterator[ReplicationAction]:
    assert validator.state is not None
    replica, start = validator.state.replicas[broker], decision.starts.get((validator.topic, validator.partition), 0)
    if has_failed(replica) and start > log_start_of(replica):
        yield StartUnsaid(broker, start)
    elif start > LogStart.of(replica).checkpoint:
        yield WriteLogStart(broker, start)


@actions_of.register(events.LogDirectoryFailed)
def log_directory_failed(decision: events.LogDirectoryFailed, node: int, validator: Validator) -> Iterator[Choice]:
    """A disk that failed during a write has taken some of it, which no decision says: the end of the log shows it.

    The broker was handling a fetch response, or appending a producer's batch, which it did not acknowledge.
    """
    assert validator.state is not None
    broker = validator.index(node)
    lost = {(one.topic, one.partition): one.log_end_offset for one in decision.lost}
    end = lost.get((validator.topic, validator.partition))
    if end is None:
        yield []
        return
    fails = FailDirectory(broker)
    unsaid = end - validator.state.replicas[broker].log_end_offset
    if unsaid == 0:
        yield just(fails)
    for response in validator.state.network.fetch_responses:
        cut = response.diverging_end_offset != NONE or response.error is Error.OFFSET_OUT_OF_RANGE
        if response.request.follower == broker and (cut or 0 < unsaid <= len(response.records)):
            yield all_of(protocol.ReceiveFetchResponse(response), fails)
    if unsaid > 0:
        yield all_of(*[protocol.Append(broker, Acks.NOTHING)] * unsaid, fails)


@actions_of.register(events.AssignReplicasToDirs)
@actions_of.register(events.DirectoriesOffline)
def directories_told(decision: events.BrokerDecision, node: int, validator: Validator) -> Iterator[Choice]:
    """What the controller makes of a broker's word on its directories."""
    yield all_of(*looked_at(decision, validator))


def looked_at(decision: events.BrokerDecision, validator: Validator) -> Iterator[ReplicationAction]:
    """The replica of the decision's broker goes offline, or comes back."""
    assert validator.state is not None
    broker = validator.index(decision.broker)
    for registration in validator.changed(decision):
        before = broker in offline(validator.state.controller)
        after = decision.broker in registration.offline_replicas
        if before != after:
            yield ReplicaOffline(broker) if after else ReplicaOnline(broker)


@actions_of.register(events.Restart)
def restart(decision: events.Restart, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(faults.Restart(validator.index(node)))


@actions_of.register(events.Resume)
def resume(decision: events.Resume, node: int, validator: Validator) -> Iterator[Choice]:
    """To go on means nothing to a broker that wasn't stopped."""
    assert validator.state is not None
    broker = validator.index(node)
    yield just(faults.Resume(broker)) if validator.state.replicas[broker].paused else []


def kept_of(decision: events.Crash | events.Stop, validator: Validator) -> int:
    """How much of this partition's log survived."""
    return decision.kept.get((validator.topic, validator.partition), 0)


# --- what an operator changes, and what goes at the front of a log ---------------------------------------------------


@actions_of.register(events.StartReassignment)
def start_reassignment(decision: events.StartReassignment, node: int, validator: Validator) -> Iterator[Choice]:
    """A move to where the partition is already changes nothing."""
    assert validator.state is not None
    action = StartReassignment(tuple(map(validator.index, decision.target)))
    changes = validator.machine is not None and not action.guard(validator.machine, validator.state)
    yield just(action) if changes or validator.changed(decision) else []


@actions_of.register(events.AlterConfigs)
def alter_configs(decision: events.AlterConfigs, node: int, validator: Validator) -> Iterator[Choice]:
    assert validator.state is not None
    settings = TopicSettings.of(validator.state.controller)
    known = settings.min_insync, settings.elects_uncleanly
    for now in decision.settings:
        new = now.min_insync_replicas, now.unclean_leader_election
        if now.topic == validator.topic and new != known:
            yield just(ChangeSettings(*new))
            return
    yield []


@actions_of.register(events.DeleteRecords)
def delete_records(decision: events.DeleteRecords, node: int, validator: Validator) -> Iterator[Choice]:
    """A deletion of what is gone already deletes nothing."""
    assert validator.state is not None
    broker, offset = validator.index(node), decision.offset
    yield just(DeleteRecords(broker, offset)) if offset > log_start_of(validator.state.replicas[broker]) else []


@actions_of.register(events.Retain)
def retain(decision: events.Retain, node: int, validator: Validator) -> Iterator[Choice]:
    """How much retention takes is its own affair, up to the high watermark; a leader's is a deletion."""
    assert validator.state is not None
    broker = validator.index(node)
    leads = validator.state.replicas[broker].leader == broker
    yield just((DeleteRecords if leads else Retain)(broker, decision.state.log_start))


@actions_of.register(events.CancelReassignment)
def cancel_reassignment(decision: events.CancelReassignment, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(CancelReassignment())


@actions_of.register(events.PreferredElection)
def preferred_election(decision: events.PreferredElection, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(control.PreferredElection())


@actions_of.register(events.UncleanElection)
def unclean_election(decision: events.UncleanElection, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(control.UncleanElection())


@actions_of.register(events.CreateTopic)
@actions_of.register(events.CreatePartitions)
def create(decision: events.TopicDecision, node: int, validator: Validator) -> Iterator[Choice]:
    """The partition exists already: the topic's others are meant."""
    yield []


@actions_of.register(events.Flush)
def flush(decision: events.Flush, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(faults.Flush(validator.index(node)))


@actions_of.register(events.CheckpointHighWatermark)
def checkpoint_high_watermark(
    decision: events.CheckpointHighWatermark, node: int, validator: Validator
) -> Iterator[Choice]:
    yield just(faults.CheckpointHighWatermark(validator.index(node)))


@actions_of.register(events.RequestFailed)
def request_failed(decision: events.RequestFailed, node: int, validator: Validator) -> Iterator[Choice]:
    raise Untranslatable(f"a request failed in a way that nobody foresaw: {decision.api}: {decision.error}")

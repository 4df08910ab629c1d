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
    AnswerLate,
    ArriveLate,
    ReceiveMetadata,
    RegisterAgain,
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
    from tidegauge.model_tests.harness.validation.validation import Follower

Make = Callable[[State], ReplicationAction]
Choice = Sequence[Make]


class Untranslatable(Exception):  # noqa: N818 - a finding
    """A decision that the specification has no action for."""


def ways_of(event: TraceEvent, follower: Follower) -> Iterator[Choice]:
    """The ways to understand an event; one empty way for an event that does not touch this partition."""
    decision = event.decision
    broker = decision.broker if isinstance(decision, events.SessionDecision) else event.node
    if isinstance(decision, OF_BROKERS) and broker not in follower.brokers:
        yield []
    else:
        yield from actions_of(decision, event.node, follower)


OF_BROKERS = (
    *(events.SessionDecision, events.PullMetadata, events.LogDirectoryFailed),
    *(events.Crash, events.Stop, events.Restart, events.Pause, events.Resume),
)
"""Decisions of or about a broker as a whole, which may host the partition or not."""


@singledispatch
def actions_of(decision: events.Decision, node: int, follower: Follower) -> Iterator[Choice]:
    """The ways to understand a decision of a node. Raises Untranslatable for one that is registered nowhere."""
    raise Untranslatable(f"the specification knows no {type(decision).__name__}")


def just(action: ReplicationAction) -> Choice:
    return [lambda state: action]


def all_of(*actions: ReplicationAction) -> Choice:
    """One after the other."""
    return [make for action in actions for make in just(action)]


# --- produce and fetch ---------------------------------------------------------------------------------------------


@actions_of.register(events.Append)
def append(decision: events.Append, node: int, follower: Follower) -> Iterator[Choice]:
    action = protocol.Append(follower.index(node), Acks(decision.acks))
    yield [lambda state: action] * decision.records


@actions_of.register(events.SendFetch)
def send_fetch(decision: events.SendFetch, node: int, follower: Follower) -> Iterator[Choice]:
    """A fetch to a leader that is down already is lost, and so is no action: its Disconnect follows."""
    assert follower.state is not None
    leader = follower.index(decision.source)
    if follower.state.replicas[leader].running:
        wanted = request_of(decision.fetch, decision.source, follower)
        yield [lambda state: protocol.SendFetch(follower.index(node))]
        if wanted not in follower.sent:
            return
    else:
        yield []


def request_of(fetch: FollowerFetch, source: int, follower: Follower) -> FetchRequest:
    """A fetch to the broker `source` in the specification's terms."""
    return FetchRequest(
        follower.index(fetch.replica_id),
        follower.index(source),
        fetch.leader_epoch,
        fetch.fetch_offset,
        fetch.last_fetched_epoch,
        follower.incarnation(fetch.replica_id, fetch.broker_epoch),
        parts_of(FollowerLogStart(fetch.log_start_offset)),
    )


@actions_of.register(events.ReceiveFetch)
def receive_fetch(decision: events.ReceiveFetch, node: int, follower: Follower) -> Iterator[Choice]:
    assert follower.state is not None
    request = request_of(decision.fetch, node, follower)
    receive = protocol.ReceiveFetch(request, decision.outcome.records)

    def answered_so(state: State) -> ReplicationAction:
        """The action, if its response is the decision's. The follower may never get to see that response."""
        assert follower.machine is not None
        _, response = protocol.fetched(follower.machine, state, request, receive.records)
        if error_of(decision.outcome.error) is not None and not says(decision.outcome, response):
            raise NotEnabled(receive, f"broker {request.leader} answers {response}")
        return receive

    if request in follower.state.network.fetches:
        yield [answered_so]
    elif request in follower.sent:
        yield [lambda state: ArriveLate(request), answered_so]


@actions_of.register(events.HoldFetch)
def hold_fetch(decision: events.HoldFetch, node: int, follower: Follower) -> Iterator[Choice]:
    assert follower.state is not None
    request = request_of(decision.fetch, node, follower)
    if request in follower.state.network.fetches:
        yield just(protocol.HoldFetch(request))
    elif request in follower.sent:
        yield [lambda state: ArriveLate(request), lambda state: protocol.HoldFetch(request)]


@actions_of.register(events.RefuseFetch)
def refuse_fetch(decision: events.RefuseFetch, node: int, follower: Follower) -> Iterator[Choice]:
    """A broker has no such replica, and that is so; the answer tells the follower nothing."""
    assert follower.state is not None
    request = request_of(decision.fetch, node, follower)
    replica = follower.state.replicas[request.leader]
    if has_failed(replica) or request.leader not in listed(replica):
        follower.refused[request] = decision.error
        yield []


@actions_of.register(events.ReceiveFetchResponse)
def receive_fetch_response(decision: events.ReceiveFetchResponse, node: int, follower: Follower) -> Iterator[Choice]:
    """An answer in words that the specification lacks tells the follower nothing, nor does that of a failed disk.

    It may have been sent just before its sender stopped, when the specification's follower waits no longer.
    """
    assert follower.state is not None
    request, outcome = request_of(decision.fetch, decision.source, follower), decision.outcome
    refused = follower.refused.get(request) is outcome.error
    if refused or error_of(outcome.error) in (None, Error.KAFKA_STORAGE_ERROR):
        yield just(AbandonFetch(request)) if waits_for(request, follower.state) else []
        return
    for response in follower.state.network.fetch_responses:
        if response.request == request and says(outcome, response):
            yield just(protocol.ReceiveFetchResponse(response))
            return
    for response in follower.answers:
        if response.request == request and says(outcome, response):
            yield all_of(AnswerLate(response), protocol.ReceiveFetchResponse(response))


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
def disconnect(decision: events.Disconnect, node: int, follower: Follower) -> Iterator[Choice]:
    """One request is given up; one that never was an action (its leader was down) leaves no trace."""
    assert follower.state is not None
    request = request_of(decision.fetch, decision.source, follower)
    yield just(AbandonFetch(request)) if waits_for(request, follower.state) else []


def waits_for(request: FetchRequest, state: State) -> bool:
    return request in state.replicas[request.follower].outstanding


# --- ISR changes ---------------------------------------------------------------------------------------------------


@actions_of.register(events.ShrinkIsr)
def shrink_isr(decision: events.ShrinkIsr, node: int, follower: Follower) -> Iterator[Choice]:
    lagging = set(decision.state.isr).difference(decision.state.pending_isr or ())
    yield just(control.ShrinkIsr(follower.index(node), tuple(sorted(map(follower.index, lagging)))))


@actions_of.register(events.RetryAlterPartition)
def retry_alter_partition(decision: events.RetryAlterPartition, node: int, follower: Follower) -> Iterator[Choice]:
    yield just(control.RetryAlterPartition(follower.index(node)))


def proposal_of(request: CoreAlterPartitionRequest, follower: Follower) -> AlterPartitionRequest:
    """A proposed ISR in the specification's terms."""
    members = sorted((follower.index(member), follower.incarnation(member, epoch)) for member, epoch in request.isr)
    return AlterPartitionRequest(
        follower.index(request.broker_id),
        follower.incarnation(request.broker_id, request.broker_epoch),
        request.leader_epoch,
        request.partition_epoch,
        tuple(members),
    )


@actions_of.register(events.ReceiveAlterPartition)
def receive_alter_partition(decision: events.ReceiveAlterPartition, node: int, follower: Follower) -> Iterator[Choice]:
    assert follower.state is not None
    request = proposal_of(decision.request, follower)
    receive = control.ReceiveAlterPartition(request)
    if request in follower.state.network.alters:
        yield just(receive)
    elif request in follower.sent:
        yield [lambda state: ArriveLate(request), lambda state: receive]


@actions_of.register(events.ReceiveAlterPartitionResponse)
def receive_alter_partition_response(
    decision: events.ReceiveAlterPartitionResponse, node: int, follower: Follower
) -> Iterator[Choice]:
    assert follower.state is not None
    request = proposal_of(decision.request, follower)
    for response in follower.state.network.alter_responses:
        if answers(response, request) and response.error is error_of(decision.error):
            yield just(control.ReceiveAlterPartitionResponse(response))


def answers(response: AlterPartitionResponse, request: AlterPartitionRequest) -> bool:
    about = (request.leader, request.leader_epoch, request.partition_epoch)
    return (response.leader, response.leader_epoch, response.proposed_on) == about


@actions_of.register(events.DisconnectController)
def disconnect_controller(decision: events.DisconnectController, node: int, follower: Follower) -> Iterator[Choice]:
    assert follower.state is not None
    broker = follower.index(node)
    on_its_way = follower.state.network.has_alter_of(broker)
    yield just(faults.DisconnectController(broker)) if on_its_way else []


# --- metadata and membership ---------------------------------------------------------------------------------------


@actions_of.register(events.PullMetadata)
def pull_metadata(decision: events.PullMetadata, node: int, follower: Follower) -> Iterator[Choice]:
    """What the metadata log said up to where the broker has read it."""
    broker, offset = follower.index(node), decision.metadata_offset
    if offset < follower.heard.get(broker, 0):
        return
    follower.heard[broker] = offset
    written = follower.written_at(offset)
    assert follower.machine is not None
    yield [] if written is None else just(ReceiveMetadata(broker, follower.machine.metadata(written)))


@actions_of.register(events.ApplyMetadata)
def apply_metadata(decision: events.ApplyMetadata, node: int, follower: Follower) -> Iterator[Choice]:
    yield just(control.ApplyMetadata(follower.index(node)))


@actions_of.register(events.RemoveReplica)
def remove_replica(decision: events.RemoveReplica, node: int, follower: Follower) -> Iterator[Choice]:
    """The metadata have taken the replica away; what its broker had proposed, it asks no more."""
    assert follower.state is not None
    broker = follower.index(node)
    written = follower.written_at(decision.metadata_offset)
    if written is not None and broker not in assigned(written):
        proposed = follower.state.network.has_alter_of(broker)
        yield [
            *just(control.ApplyMetadata(broker)),
            *(just(faults.DisconnectController(broker)) if proposed else []),
        ]


@actions_of.register(events.Register)
def register(decision: events.Register, node: int, follower: Follower) -> Iterator[Choice]:
    """A broker that lost even the partition's folder restarts without a word on the partition."""
    assert follower.state is not None
    broker = follower.index(decision.broker)
    directories = tuple(looked_at(decision, follower))
    if not follower.state.replicas[broker].running:
        yield all_of(faults.Restart(broker), faults.Register(broker), *directories)
        return
    again = follower.state.replicas[broker].broker_epoch != NONE
    register = RegisterAgain(broker) if again else faults.Register(broker)
    yield sent_before_a_pause(follower, broker, register, *directories)


@actions_of.register(events.Unfence)
def unfence(decision: events.Unfence, node: int, follower: Follower) -> Iterator[Choice]:
    """A broker without a replica has read the metadata, and had nothing to say about them."""
    assert follower.state is not None
    broker = follower.index(decision.broker)
    replica = follower.state.replicas[broker]
    silent = replica.pulled is not None and broker not in ReplicaList.of(replica.pulled).replicas
    heard = [control.ApplyMetadata(broker)] if silent and replica.leader_epoch == NONE else []
    yield sent_before_a_pause(follower, broker, *heard, faults.Unfence(broker))


def sent_before_a_pause(follower: Follower, broker: int, *actions: ReplicationAction) -> Choice:
    """A request may have been sent just before its sender was stopped: it is as if it had gone on for a moment."""
    assert follower.state is not None
    if not follower.state.replicas[broker].paused:
        return all_of(*actions)
    return all_of(faults.Resume(broker), *actions, faults.Pause(broker))


@actions_of.register(events.ExpireSession)
def expire_session(decision: events.ExpireSession, node: int, follower: Follower) -> Iterator[Choice]:
    yield just(faults.ExpireSession(follower.index(decision.broker)))


@actions_of.register(events.GrantShutdown)
@actions_of.register(events.Shutdown)
def shutdown(decision: events.SessionDecision, node: int, follower: Follower) -> Iterator[Choice]:
    """A broker asked to stop, and may at once: for this partition it waits for nobody."""
    assert follower.state is not None
    broker = follower.index(decision.broker)
    asked = leaving.is_shutting_down(follower.state.controller.sessions[broker])
    begin: Choice = [] if asked else just(leaving.BeginShutdown(broker))
    yield [*begin, *just(leaving.GiveUpWaiting(broker))]


@actions_of.register(events.BeginShutdown)
def begin_shutdown(decision: events.BeginShutdown, node: int, follower: Follower) -> Iterator[Choice]:
    yield just(leaving.BeginShutdown(follower.index(decision.broker)))


@actions_of.register(events.Stop)
def stop(decision: events.Stop, node: int, follower: Follower) -> Iterator[Choice]:
    """With the controller's leave, or without it when it could not be had."""
    assert follower.state is not None
    broker = follower.index(node)
    action = leaving.Stop(broker)
    granted = follower.machine is not None and not action.guard(follower.machine, follower.state)
    replica, kept = follower.state.replicas[broker], kept_of(decision, follower)
    stop = action if granted else leaving.StopUnasked(broker)
    if has_failed(replica):
        lost = [LoseTail(broker, kept)] if kept < replica.log_end_offset else []
        yield all_of(*written_start(decision, follower, broker), stop, *lost)
    else:
        noteless = [LoseNote(broker)] if node in follower.failed_directories else []
        yield all_of(*started(follower, broker), stop, *noteless)


@actions_of.register(events.ControllerFailover)
def controller_failover(decision: events.ControllerFailover, node: int, follower: Follower) -> Iterator[Choice]:
    yield just(faults.ControllerFailover())


@actions_of.register(events.Crash)
def crash(decision: events.Crash, node: int, follower: Follower) -> Iterator[Choice]:
    """What the disk kept; a log start may be on it though nobody had to write it down."""
    broker = follower.index(node)
    died = faults.Crash(broker, kept_of(decision, follower))
    yield all_of(*started(follower, broker), *written_start(decision, follower, broker), died)


@actions_of.register(events.Pause)
def pause(decision: events.Pause, node: int, follower: Follower) -> Iterator[Choice]:
    broker = follower.index(node)
    yield all_of(*started(follower, broker), faults.Pause(broker))


def started(follower: Follower, broker: int) -> Iterator[ReplicationAction]:
    """A broker without a log of the partition starts again without a word on it."""
    assert follower.state is not None
    if not follower.state.replicas[broker].running:
        yield faults.Restart(broker)


def written_start(decision: events.Crash | events.Stop, follower: Follower, broker: int) -> Iterator[ReplicationAction]:
    assert follower.state is not None
    replica, start = follower.state.replicas[broker], decision.starts.get((follower.topic, follower.partition), 0)
    if has_failed(replica) and start > log_start_of(replica):
        yield StartUnsaid(broker, start)
    elif start > LogStart.of(replica).checkpoint:
        yield WriteLogStart(broker, start)


@actions_of.register(events.LogDirectoryFailed)
def log_directory_failed(decision: events.LogDirectoryFailed, node: int, follower: Follower) -> Iterator[Choice]:
    """A broker whose disk failed while it wrote its log has done so, and not said so; its end of the log tells.

    It has taken in an answer, in part or as a whole, or appended what a producer sent, who was told nothing good.
    """
    assert follower.state is not None
    broker = follower.index(node)
    lost = {(one.topic, one.partition): one.log_end_offset for one in decision.lost}
    end = lost.get((follower.topic, follower.partition))
    if end is None:
        yield []
        return
    fails = FailDirectory(broker)
    unsaid = end - follower.state.replicas[broker].log_end_offset
    if unsaid == 0:
        yield just(fails)
    for answer in follower.state.network.fetch_responses:
        cut = answer.diverging_end_offset != NONE or answer.error is Error.OFFSET_OUT_OF_RANGE
        if answer.request.follower == broker and (cut or 0 < unsaid <= len(answer.records)):
            yield all_of(protocol.ReceiveFetchResponse(answer), fails)
    if unsaid > 0:
        yield all_of(*[protocol.Append(broker, Acks.NOTHING)] * unsaid, fails)


@actions_of.register(events.AssignReplicasToDirs)
@actions_of.register(events.DirectoriesOffline)
def directories_told(decision: events.BrokerDecision, node: int, follower: Follower) -> Iterator[Choice]:
    """What the controller makes of a broker's word on its directories."""
    yield all_of(*looked_at(decision, follower))


def looked_at(decision: events.BrokerDecision, follower: Follower) -> Iterator[ReplicationAction]:
    """The replica of the decision's broker goes offline, or comes back."""
    assert follower.state is not None
    broker = follower.index(decision.broker)
    for registration in follower.changed(decision):
        before = broker in offline(follower.state.controller)
        after = decision.broker in registration.offline_replicas
        if before != after:
            yield ReplicaOffline(broker) if after else ReplicaOnline(broker)


@actions_of.register(events.Restart)
def restart(decision: events.Restart, node: int, follower: Follower) -> Iterator[Choice]:
    yield just(faults.Restart(follower.index(node)))


@actions_of.register(events.Resume)
def resume(decision: events.Resume, node: int, follower: Follower) -> Iterator[Choice]:
    """To go on means nothing to a broker that wasn't stopped."""
    assert follower.state is not None
    broker = follower.index(node)
    yield just(faults.Resume(broker)) if follower.state.replicas[broker].paused else []


def kept_of(decision: events.Crash | events.Stop, follower: Follower) -> int:
    """How much of this partition's log survived."""
    return decision.kept.get((follower.topic, follower.partition), 0)


# --- what an operator changes, and what goes at the front of a log ---------------------------------------------------


@actions_of.register(events.StartReassignment)
def start_reassignment(decision: events.StartReassignment, node: int, follower: Follower) -> Iterator[Choice]:
    """A move to where the partition is already changes nothing."""
    assert follower.state is not None
    action = StartReassignment(tuple(map(follower.index, decision.target)))
    changes = follower.machine is not None and not action.guard(follower.machine, follower.state)
    yield just(action) if changes or follower.changed(decision) else []


@actions_of.register(events.AlterConfigs)
def alter_configs(decision: events.AlterConfigs, node: int, follower: Follower) -> Iterator[Choice]:
    assert follower.state is not None
    settings = TopicSettings.of(follower.state.controller)
    known = settings.min_insync, settings.elects_uncleanly
    for now in decision.settings:
        new = now.min_insync_replicas, now.unclean_leader_election
        if now.topic == follower.topic and new != known:
            yield just(ChangeSettings(*new))
            return
    yield []


@actions_of.register(events.DeleteRecords)
def delete_records(decision: events.DeleteRecords, node: int, follower: Follower) -> Iterator[Choice]:
    """A deletion of what is gone already deletes nothing."""
    assert follower.state is not None
    broker, offset = follower.index(node), decision.offset
    yield just(DeleteRecords(broker, offset)) if offset > log_start_of(follower.state.replicas[broker]) else []


@actions_of.register(events.Retain)
def retain(decision: events.Retain, node: int, follower: Follower) -> Iterator[Choice]:
    """How much retention takes is its own affair, up to the high watermark; a leader's is a deletion."""
    assert follower.state is not None
    broker = follower.index(node)
    leads = follower.state.replicas[broker].leader == broker
    yield just((DeleteRecords if leads else Retain)(broker, decision.state.log_start))


@actions_of.register(events.CancelReassignment)
def cancel_reassignment(decision: events.CancelReassignment, node: int, follower: Follower) -> Iterator[Choice]:
    yield just(CancelReassignment())


@actions_of.register(events.PreferredElection)
def preferred_election(decision: events.PreferredElection, node: int, follower: Follower) -> Iterator[Choice]:
    yield just(control.PreferredElection())


@actions_of.register(events.UncleanElection)
def unclean_election(decision: events.UncleanElection, node: int, follower: Follower) -> Iterator[Choice]:
    yield just(control.UncleanElection())


@actions_of.register(events.CreateTopic)
@actions_of.register(events.CreatePartitions)
def create(decision: events.TopicDecision, node: int, follower: Follower) -> Iterator[Choice]:
    """The partition exists already: the topic's others are meant."""
    yield []


@actions_of.register(events.Flush)
def flush(decision: events.Flush, node: int, follower: Follower) -> Iterator[Choice]:
    yield just(faults.Flush(follower.index(node)))


@actions_of.register(events.CheckpointHighWatermark)
def checkpoint_high_watermark(
    decision: events.CheckpointHighWatermark, node: int, follower: Follower
) -> Iterator[Choice]:
    yield just(faults.CheckpointHighWatermark(follower.index(node)))


@actions_of.register(events.RequestFailed)
def request_failed(decision: events.RequestFailed, node: int, follower: Follower) -> Iterator[Choice]:
    raise Untranslatable(f"a request failed in a way that nobody foresaw: {decision.api}: {decision.error}")

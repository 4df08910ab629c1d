"""Events of a cluster's trace as actions of the specification.

One function for each event. It yields the ways in which the event may be understood, the most likely first: each a
list of makers of actions, called one after the other with the state that they act in. Where a message is received,
there is one way for each message on its way that fits; if none fits and the message was sent earlier, it arrives late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tidegauge.model_tests.harness.validation.observed import (
    AbandonFetch,
    AnswerLate,
    ArriveLate,
    HearMetadata,
    RegisterAgain,
    StartUnsaid,
)
from tidegauge.spec.kernel.machine import NotEnabled
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.composed import WriteLogStart
from tidegauge.spec.replication.extensions import shutdown as leaving
from tidegauge.spec.replication.extensions.directories import (
    FailDirectory,
    LoseNote,
    LoseTail,
    ReplicaOffline,
    ReplicaOnline,
)
from tidegauge.spec.replication.extensions.reassignment_actions import CancelReassignment, StartReassignment
from tidegauge.spec.replication.extensions.retention import DeleteRecords, Retain
from tidegauge.spec.replication.extensions.settings import ChangeSettings
from tidegauge.spec.replication.state import (
    NONE,
    Acks,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Controller,
    Error,
    FetchRequest,
    FetchResponse,
    State,
)

if TYPE_CHECKING:
    from tidegauge.model_tests.harness.validation.validation import Event, Follower

Make = Callable[[State], ReplicationAction]
Choice = Sequence[Make]


class Untranslatable(Exception):  # noqa: N818 - a finding
    """An event that the specification has no word for."""


def actions_of(event: Event, follower: Follower) -> Iterator[Choice]:
    """The ways to understand an event; one empty way for an event that does not touch this partition."""
    translate = TRANSLATIONS.get(event.name)
    if translate is None:
        raise Untranslatable(f"the specification knows no {event.name}")
    broker = event.fields.get("broker", event.node)
    if event.name in OF_BROKERS and broker not in follower.brokers:
        yield []
    else:
        yield from translate(event, follower)


def just(action: ReplicationAction) -> Choice:
    return [lambda state: action]


def all_of(*actions: ReplicationAction) -> Choice:
    """One after the other."""
    return [make for action in actions for make in just(action)]


# --- produce and fetch ---------------------------------------------------------------------------------------------


def append(event: Event, follower: Follower) -> Iterator[Choice]:
    action = protocol.Append(follower.index(event.node), Acks(event.fields["acks"]))
    yield [lambda state: action] * event.fields["records"]


def send_fetch(event: Event, follower: Follower) -> Iterator[Choice]:
    """A fetch to a leader that is down already is lost, and so is no action: its Disconnect follows."""
    assert follower.state is not None
    leader = follower.index(event.fields["source"])
    if follower.state.replicas[leader].running:
        wanted = request_of(event, follower)
        yield [lambda state: protocol.SendFetch(follower.index(event.node))]
        if wanted not in follower.sent:
            return
    else:
        yield []


def request_of(event: Event, follower: Follower) -> FetchRequest:
    """The fetch that an event speaks of."""
    replica, broker_epoch, leader_epoch, offset, last_fetched_epoch, log_start = event.fields["fetch"]
    source = event.fields.get("source", event.node)
    return FetchRequest(
        follower.index(replica),
        follower.index(source),
        leader_epoch,
        offset,
        last_fetched_epoch,
        follower.incarnation(replica, broker_epoch),
        log_start,
    )


def receive_fetch(event: Event, follower: Follower) -> Iterator[Choice]:
    assert follower.state is not None
    request = request_of(event, follower)
    receive = protocol.ReceiveFetch(request, event.fields["records"])

    def answered_so(state: State) -> ReplicationAction:
        """The action, if its answer is the event's. The follower may never get to see that answer."""
        assert follower.machine is not None
        _, response = protocol.fetched(follower.machine, state, request, receive.records)
        if error_of(event) is not None and not says(event, response):
            raise NotEnabled(receive, f"broker {request.leader} answers {response}")
        return receive

    if request in follower.state.network.fetches:
        yield [answered_so]
    elif request in follower.sent:
        yield [lambda state: ArriveLate(request), answered_so]


def hold_fetch(event: Event, follower: Follower) -> Iterator[Choice]:
    assert follower.state is not None
    request = request_of(event, follower)
    if request in follower.state.network.fetches:
        yield just(protocol.HoldFetch(request))
    elif request in follower.sent:
        yield [lambda state: ArriveLate(request), lambda state: protocol.HoldFetch(request)]


def refuse_fetch(event: Event, follower: Follower) -> Iterator[Choice]:
    """A broker has no such replica, and that is so; the answer tells the follower nothing."""
    assert follower.state is not None
    request = request_of(event, follower)
    replica = follower.state.replicas[request.leader]
    if replica.offline or request.leader not in replica.replicas:
        follower.refused[request] = event.fields["error"]
        yield []


def receive_fetch_response(event: Event, follower: Follower) -> Iterator[Choice]:
    """An answer in words that the specification lacks tells the follower nothing, nor does that of a failed disk.

    It may have been sent just before its sender stopped, when the specification's follower waits no longer.
    """
    assert follower.state is not None
    request = request_of(event, follower)
    refused = follower.refused.get(request) == event.fields["error"]
    if refused or error_of(event) in (None, Error.KAFKA_STORAGE_ERROR):
        yield just(AbandonFetch(request)) if waits_for(request, follower.state) else []
        return
    for response in follower.state.network.fetch_responses:
        if response.request == request and says(event, response):
            yield just(protocol.ReceiveFetchResponse(response))
            return
    for response in follower.answers:
        if response.request == request and says(event, response):
            yield all_of(AnswerLate(response), protocol.ReceiveFetchResponse(response))


def says(event: Event, response: FetchResponse) -> bool:
    """Whether the event's answer is this one."""
    fields = event.fields
    if response.error is not error_of(event):
        return False
    if response.error in (Error.OK, Error.OFFSET_OUT_OF_RANGE) and response.log_start != fields["leader_log_start"]:
        return False
    return response.error is not Error.OK or (
        (response.diverging_epoch, response.diverging_end_offset)
        == (fields["diverging_epoch"], fields["diverging_end_offset"])
        and response.high_watermark == fields["leader_high_watermark"]
        and len(response.records) == fields["records"]
    )


def error_of(event: Event) -> Error | None:
    """The event's error in the specification's terms; None for one that it does not know."""
    name = event.fields["error"].upper()
    return Error.OK if name == "NONE" else Error.__members__.get(name)


def disconnect(event: Event, follower: Follower) -> Iterator[Choice]:
    """One request is given up; one that never was an action (its leader was down) leaves no trace."""
    assert follower.state is not None
    request = request_of(event, follower)
    yield just(AbandonFetch(request)) if waits_for(request, follower.state) else []


def waits_for(request: FetchRequest, state: State) -> bool:
    return request in state.replicas[request.follower].outstanding


# --- ISR changes ---------------------------------------------------------------------------------------------------


def shrink_isr(event: Event, follower: Follower) -> Iterator[Choice]:
    lagging = set(event.fields["isr"]).difference(event.fields["pending_isr"] or ())
    yield just(control.ShrinkIsr(follower.index(event.node), tuple(sorted(map(follower.index, lagging)))))


def retry_alter_partition(event: Event, follower: Follower) -> Iterator[Choice]:
    yield just(control.RetryAlterPartition(follower.index(event.node)))


def proposal_of(event: Event, follower: Follower) -> AlterPartitionRequest:
    leader, broker_epoch, leader_epoch, partition_epoch, isr = event.fields["request"]
    members = sorted((follower.index(member), follower.incarnation(member, epoch)) for member, epoch in isr)
    return AlterPartitionRequest(
        follower.index(leader),
        follower.incarnation(leader, broker_epoch),
        leader_epoch,
        partition_epoch,
        tuple(members),
    )


def receive_alter_partition(event: Event, follower: Follower) -> Iterator[Choice]:
    assert follower.state is not None
    request = proposal_of(event, follower)
    receive = control.ReceiveAlterPartition(request)
    if request in follower.state.network.alters:
        yield just(receive)
    elif request in follower.sent:
        yield [lambda state: ArriveLate(request), lambda state: receive]


def receive_alter_partition_response(event: Event, follower: Follower) -> Iterator[Choice]:
    assert follower.state is not None
    request = proposal_of(event, follower)
    for response in follower.state.network.alter_responses:
        if answers(response, request) and response.error is error_of(event):
            yield just(control.ReceiveAlterPartitionResponse(response))


def answers(response: AlterPartitionResponse, request: AlterPartitionRequest) -> bool:
    about = (request.leader, request.leader_epoch, request.partition_epoch)
    return (response.leader, response.leader_epoch, response.proposed_on) == about


def disconnect_controller(event: Event, follower: Follower) -> Iterator[Choice]:
    assert follower.state is not None
    broker = follower.index(event.node)
    on_its_way = follower.state.network.has_alter_of(broker)
    yield just(faults.DisconnectController(broker)) if on_its_way else []


# --- metadata and membership ---------------------------------------------------------------------------------------


def pull_metadata(event: Event, follower: Follower) -> Iterator[Choice]:
    """What the metadata log said up to where the broker has read it."""
    broker, offset = follower.index(event.node), event.fields["metadata_offset"]
    if offset < follower.heard.get(broker, 0):
        return
    follower.heard[broker] = offset
    written = follower.written_at(offset)
    yield [] if written is None else just(HearMetadata(broker, written.word))


def apply_metadata(event: Event, follower: Follower) -> Iterator[Choice]:
    yield just(control.ApplyMetadata(follower.index(event.node)))


def remove_replica(event: Event, follower: Follower) -> Iterator[Choice]:
    """The metadata have taken the replica away; what its broker had proposed, it asks no more."""
    assert follower.state is not None
    broker = follower.index(event.node)
    written = follower.written_at(event.fields["metadata_offset"])
    if written is not None and broker not in written.replicas:
        proposed = follower.state.network.has_alter_of(broker)
        yield [
            *just(control.ApplyMetadata(broker)),
            *(just(faults.DisconnectController(broker)) if proposed else []),
        ]


def register(event: Event, follower: Follower) -> Iterator[Choice]:
    """A broker that lost even the partition's folder restarts without a word on the partition."""
    assert follower.state is not None
    broker = follower.index(event.fields["broker"])
    directories = tuple(looked_at(event, follower))
    if not follower.state.replicas[broker].running:
        yield all_of(faults.Restart(broker), faults.Register(broker), *directories)
        return
    again = follower.state.replicas[broker].broker_epoch != NONE
    register = RegisterAgain(broker) if again else faults.Register(broker)
    yield sent_before_a_pause(follower, broker, register, *directories)


def unfence(event: Event, follower: Follower) -> Iterator[Choice]:
    """A broker without a replica has read the metadata, and had nothing to say about them."""
    assert follower.state is not None
    broker = follower.index(event.fields["broker"])
    replica = follower.state.replicas[broker]
    silent = replica.pulled is not None and broker not in replica.pulled.replicas
    heard = [control.ApplyMetadata(broker)] if silent and replica.leader_epoch == NONE else []
    yield sent_before_a_pause(follower, broker, *heard, faults.Unfence(broker))


def sent_before_a_pause(follower: Follower, broker: int, *actions: ReplicationAction) -> Choice:
    """A request may have been sent just before its sender was stopped: it is as if it had gone on for a moment."""
    assert follower.state is not None
    if not follower.state.replicas[broker].paused:
        return all_of(*actions)
    return all_of(faults.Resume(broker), *actions, faults.Pause(broker))


def lapse_session(event: Event, follower: Follower) -> Iterator[Choice]:
    yield just(faults.LapseSession(follower.index(event.fields["broker"])))


def shutdown(event: Event, follower: Follower) -> Iterator[Choice]:
    """A broker asked to stop, and may at once: for this partition it waits for nobody."""
    assert follower.state is not None
    broker = follower.index(event.fields["broker"])
    asked = follower.state.controller.sessions[broker].shutting_down
    begin: Choice = [] if asked else just(leaving.BeginShutdown(broker))
    yield [*begin, *just(leaving.GiveUpWaiting(broker))]


def begin_shutdown(event: Event, follower: Follower) -> Iterator[Choice]:
    yield just(leaving.BeginShutdown(follower.index(event.fields["broker"])))


def stop(event: Event, follower: Follower) -> Iterator[Choice]:
    """With the controller's leave, or without it when it could not be had."""
    assert follower.state is not None
    broker = follower.index(event.node)
    action = leaving.Stop(broker)
    granted = follower.machine is not None and not action.guard(follower.machine, follower.state)
    replica, kept = follower.state.replicas[broker], kept_of(event, follower)
    stop = action if granted else leaving.StopUnasked(broker)
    if replica.offline:
        lost = [LoseTail(broker, kept)] if kept < replica.log_end_offset else []
        yield all_of(*written_start(event, follower, broker), stop, *lost)
    else:
        noteless = [LoseNote(broker)] if event.node in follower.failed_directories else []
        yield all_of(*started(follower, broker), stop, *noteless)


def controller_failover(event: Event, follower: Follower) -> Iterator[Choice]:
    yield just(faults.ControllerFailover())


def crash(event: Event, follower: Follower) -> Iterator[Choice]:
    """What the disk kept; a log start may be on it though nobody had to write it down."""
    broker = follower.index(event.node)
    died = faults.Crash(broker, kept_of(event, follower))
    yield all_of(*started(follower, broker), *written_start(event, follower, broker), died)


def pause(event: Event, follower: Follower) -> Iterator[Choice]:
    broker = follower.index(event.node)
    yield all_of(*started(follower, broker), faults.Pause(broker))


def started(follower: Follower, broker: int) -> Iterator[ReplicationAction]:
    """A broker without a log of the partition starts again without a word on it."""
    assert follower.state is not None
    if not follower.state.replicas[broker].running:
        yield faults.Restart(broker)


def written_start(event: Event, follower: Follower, broker: int) -> Iterator[ReplicationAction]:
    assert follower.state is not None
    replica, start = follower.state.replicas[broker], offset_of(event, follower, "starts")
    if replica.offline and start > replica.log_start:
        yield StartUnsaid(broker, start)
    elif start > replica.log_start_checkpoint:
        yield WriteLogStart(broker, start)


def log_directory_failed(event: Event, follower: Follower) -> Iterator[Choice]:
    """A broker whose disk failed while it wrote its log has done so, and not said so; its end of the log tells.

    It has taken in an answer, in part or as a whole, or appended what a producer sent, who was told nothing good.
    """
    assert follower.state is not None
    broker = follower.index(event.node)
    lost = {(topic, index): end for topic, index, end, _ in event.fields["partitions"]}
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


def directories_told(event: Event, follower: Follower) -> Iterator[Choice]:
    """What the controller makes of a broker's word on its directories."""
    yield all_of(*looked_at(event, follower))


def looked_at(event: Event, follower: Follower) -> Iterator[ReplicationAction]:
    """The replica of the event's broker goes offline, or comes back."""
    assert follower.state is not None
    broker = follower.index(event.fields["broker"])
    for changed in follower.changed(event):
        before, after = broker in follower.state.controller.offline, event.fields["broker"] in changed[11]
        if before != after:
            yield ReplicaOffline(broker) if after else ReplicaOnline(broker)


def restart(event: Event, follower: Follower) -> Iterator[Choice]:
    yield just(faults.Restart(follower.index(event.node)))


def resume(event: Event, follower: Follower) -> Iterator[Choice]:
    """To go on means nothing to a broker that wasn't stopped."""
    assert follower.state is not None
    broker = follower.index(event.node)
    yield just(faults.Resume(broker)) if follower.state.replicas[broker].paused else []


def kept_of(event: Event, follower: Follower) -> int:
    """How much of this partition's log survived."""
    return offset_of(event, follower, "kept")


def offset_of(event: Event, follower: Follower, field: str) -> int:
    """This partition's offset among those of all."""
    told: dict[tuple[str, int], int] = {(topic, index): end for topic, index, end in event.fields[field]}
    return told.get((follower.topic, follower.partition), 0)


# --- what an operator changes, and what goes at the front of a log ---------------------------------------------------


def start_reassignment(event: Event, follower: Follower) -> Iterator[Choice]:
    """A move to where the partition is already changes nothing."""
    assert follower.state is not None
    action = StartReassignment(tuple(map(follower.index, event.fields["target"])))
    changes = follower.machine is not None and not action.guard(follower.machine, follower.state)
    yield just(action) if changes or follower.changed(event) else []


def alter_configs(event: Event, follower: Follower) -> Iterator[Choice]:
    assert follower.state is not None
    controller: Controller = follower.state.controller
    for topic, min_insync, unclean in event.fields["settings"]:
        if topic == follower.topic and (min_insync, unclean) != (controller.min_insync, controller.elects_uncleanly):
            yield just(ChangeSettings(min_insync, unclean))
            return
    yield []


def delete_records(event: Event, follower: Follower) -> Iterator[Choice]:
    """A deletion of what is gone already deletes nothing."""
    assert follower.state is not None
    broker, offset = follower.index(event.node), event.fields["offset"]
    yield just(DeleteRecords(broker, offset)) if offset > follower.state.replicas[broker].log_start else []


def retain(event: Event, follower: Follower) -> Iterator[Choice]:
    """How much retention takes is its own affair, up to the high watermark; a leader's is a deletion."""
    assert follower.state is not None
    broker = follower.index(event.node)
    leads = follower.state.replicas[broker].leader == broker
    yield just((DeleteRecords if leads else Retain)(broker, event.fields["log_start"]))


def of_broker(action: Callable[[int], ReplicationAction]) -> Callable[[Event, Follower], Iterator[Choice]]:
    """The translation of an event that is an action of the node that it happened at, and nothing more."""

    def translate(event: Event, follower: Follower) -> Iterator[Choice]:
        yield just(action(follower.index(event.node)))

    return translate


def request_failed(event: Event, follower: Follower) -> Iterator[Choice]:
    raise Untranslatable(
        f"a request failed in a way that nobody foresaw: {event.fields['api']}: {event.fields['error']}"
    )


def nothing(event: Event, follower: Follower) -> Iterator[Choice]:
    yield []


def once(action: ReplicationAction) -> Callable[[Event, Follower], Iterator[Choice]]:
    def translate(event: Event, follower: Follower) -> Iterator[Choice]:
        yield just(action)

    return translate


OF_BROKERS = frozenset({"Register", "Unfence", "LapseSession", "Crash", "Restart", "Pause", "Resume"}) | frozenset(
    {"BeginShutdown", "GrantShutdown", "Shutdown", "Stop", "PullMetadata", "LogDirectoryFailed"}
)
"""Events of a broker as a whole, which may host the partition or not."""

TRANSLATIONS: dict[str, Callable[[Event, Follower], Iterator[Choice]]] = {
    "Append": append,
    "SendFetch": send_fetch,
    "ReceiveFetch": receive_fetch,
    "RefuseFetch": refuse_fetch,
    "HoldFetch": hold_fetch,
    "ReceiveFetchResponse": receive_fetch_response,
    "Disconnect": disconnect,
    "ShrinkIsr": shrink_isr,
    "RetryAlterPartition": retry_alter_partition,
    "ReceiveAlterPartition": receive_alter_partition,
    "ReceiveAlterPartitionResponse": receive_alter_partition_response,
    "DisconnectController": disconnect_controller,
    "PullMetadata": pull_metadata,
    "ApplyMetadata": apply_metadata,
    "RemoveReplica": remove_replica,
    "Register": register,
    "Unfence": unfence,
    "LapseSession": lapse_session,
    "ControllerFailover": controller_failover,
    "PreferredElection": once(control.PreferredElection()),
    "UncleanElection": once(control.UncleanElection()),
    "CreateTopic": nothing,
    "CreatePartitions": nothing,
    "StartReassignment": start_reassignment,
    "CancelReassignment": once(CancelReassignment()),
    "AlterConfigs": alter_configs,
    "DeleteRecords": delete_records,
    "Retain": retain,
    "LogDirectoryFailed": log_directory_failed,
    "AssignReplicasToDirs": directories_told,
    "DirectoriesOffline": directories_told,
    "Flush": of_broker(faults.Flush),
    "CheckpointHighWatermark": of_broker(faults.CheckpointHighWatermark),
    "Crash": crash,
    "RequestFailed": request_failed,
    "Restart": restart,
    "Pause": pause,
    "Resume": resume,
    "BeginShutdown": begin_shutdown,
    "GrantShutdown": shutdown,
    "Shutdown": shutdown,
    "Stop": stop,
}

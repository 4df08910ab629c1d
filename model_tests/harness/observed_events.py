"""Events of a cluster's trace as actions of the specification.

One function for each event. It yields the ways in which the event may be understood, the most likely first: each a
list of makers of actions, called one after the other with the state that they act in. Where a message is received,
there is one way for each message on its way that fits; if none fits and the message was sent earlier, it arrives late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from model_tests.harness.observed import AbandonFetch, ApplyOlderMetadata, ArriveLate, RegisterAgain
from spec import controlled_shutdown as leaving
from spec import replication_actions as protocol
from spec import replication_control as control
from spec import replication_faults as faults
from spec.machine import NotEnabled
from spec.replication_actions import ReplicationAction
from spec.replication_state import (
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
    from model_tests.harness.validation import Event, Follower

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
    if event.name in OF_BROKERS and broker not in follower.replicas:
        yield []
    else:
        yield from translate(event, follower)


def just(action: ReplicationAction) -> Choice:
    return [lambda state: action]


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
    replica, broker_epoch, leader_epoch, offset, last_fetched_epoch = event.fields["fetch"]
    source = event.fields.get("source", event.node)
    return FetchRequest(
        follower.index(replica),
        follower.index(source),
        leader_epoch,
        offset,
        last_fetched_epoch,
        follower.incarnation(replica, broker_epoch),
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


def receive_fetch_response(event: Event, follower: Follower) -> Iterator[Choice]:
    """An answer in words that the specification lacks (a disk that failed) tells the follower nothing.

    It may have been sent just before its sender stopped, when the specification's follower waits no longer.
    """
    assert follower.state is not None
    request = request_of(event, follower)
    if error_of(event) is None:
        yield just(AbandonFetch(request)) if waits_for(request, follower.state) else []
        return
    for response in follower.state.network.fetch_responses:
        if response.request == request and says(event, response):
            yield just(protocol.ReceiveFetchResponse(response))


def says(event: Event, response: FetchResponse) -> bool:
    """Whether the event's answer is this one."""
    fields = event.fields
    if response.error or error_of(event):
        return response.error is error_of(event)
    return (
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


def apply_metadata(event: Event, follower: Follower) -> Iterator[Choice]:
    """The newest word if that is what the broker says that it knows now, else the older one that it means."""
    assert follower.state is not None
    broker, controller = follower.index(event.node), follower.state.controller
    heard = event.fields["partition_epoch"], event.fields["controller_epoch"]
    if heard == (controller.partition_epoch, controller.epoch):
        yield just(control.ApplyMetadata(broker))
    elif heard in follower.written:
        yield just(ApplyOlderMetadata(broker, follower.written[heard]))


def register(event: Event, follower: Follower) -> Iterator[Choice]:
    """A broker that lost even the partition's folder restarts without a word on the partition."""
    assert follower.state is not None
    broker = follower.index(event.fields["broker"])
    if not follower.state.replicas[broker].running:
        yield [lambda state: faults.Restart(broker), lambda state: faults.Register(broker)]
        return
    again = follower.state.replicas[broker].broker_epoch != NONE
    yield sent_before_a_pause(follower, broker, RegisterAgain(broker) if again else faults.Register(broker))


def unfence(event: Event, follower: Follower) -> Iterator[Choice]:
    assert follower.state is not None
    broker = follower.index(event.fields["broker"])
    yield sent_before_a_pause(follower, broker, faults.Unfence(broker))


def sent_before_a_pause(follower: Follower, broker: int, action: ReplicationAction) -> Choice:
    """A request may have been sent just before its sender was stopped: it is as if it had gone on for a moment."""
    assert follower.state is not None
    if not follower.state.replicas[broker].paused:
        return just(action)
    return [lambda state: faults.Resume(broker), lambda state: action, lambda state: faults.Pause(broker)]


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
    yield just(action if granted else leaving.StopUnasked(broker))


def controller_failover(event: Event, follower: Follower) -> Iterator[Choice]:
    yield just(faults.ControllerFailover())


def crash(event: Event, follower: Follower) -> Iterator[Choice]:
    """A broker whose disk failed while it wrote its log has done so, and not said so.

    It has taken in an answer, or appended what a producer sent, and the sync that failed came after that.
    """
    assert follower.state is not None
    broker, kept = follower.index(event.node), kept_of(event, follower)
    ended = just(faults.Crash(broker, kept))
    yield ended
    if event.node not in follower.failed_disks:
        return
    unsaid = kept - follower.state.replicas[broker].log_end_offset
    for answer in follower.state.network.fetch_responses:
        if answer.request.follower == broker and (answer.diverging_epoch != NONE or unsaid > 0):
            yield [*just(protocol.ReceiveFetchResponse(answer)), *ended]
    if unsaid > 0:
        for acks in Acks:
            yield [*(list(just(protocol.Append(broker, acks))) * unsaid), *ended]


def log_directory_failed(event: Event, follower: Follower) -> Iterator[Choice]:
    follower.failed_disks.add(event.node)
    yield []


def restart(event: Event, follower: Follower) -> Iterator[Choice]:
    follower.failed_disks.discard(event.node)
    yield just(faults.Restart(follower.index(event.node)))


def resume(event: Event, follower: Follower) -> Iterator[Choice]:
    """To go on means nothing to a broker that wasn't stopped."""
    assert follower.state is not None
    broker = follower.index(event.node)
    yield just(faults.Resume(broker)) if follower.state.replicas[broker].paused else []


def kept_of(event: Event, follower: Follower) -> int:
    """How much of this partition's log survived."""
    kept: dict[tuple[str, int], int] = {(topic, index): end for topic, index, end in event.fields["kept"]}
    return kept.get((follower.topic, follower.partition), 0)


def of_broker(action: Callable[[int], ReplicationAction]) -> Callable[[Event, Follower], Iterator[Choice]]:
    """The translation of an event that is an action of the node that it happened at, and nothing more."""

    def translate(event: Event, follower: Follower) -> Iterator[Choice]:
        yield just(action(follower.index(event.node)))

    return translate


def nothing(event: Event, follower: Follower) -> Iterator[Choice]:
    yield []


def once(action: ReplicationAction) -> Callable[[Event, Follower], Iterator[Choice]]:
    def translate(event: Event, follower: Follower) -> Iterator[Choice]:
        yield just(action)

    return translate


OF_BROKERS = frozenset({"Register", "Unfence", "LapseSession", "Crash", "Restart", "Pause", "Resume"}) | frozenset(
    {"BeginShutdown", "GrantShutdown", "Shutdown", "Stop"}
)
"""Events of a broker as a whole, which may host the partition or not."""

TRANSLATIONS: dict[str, Callable[[Event, Follower], Iterator[Choice]]] = {
    "Append": append,
    "SendFetch": send_fetch,
    "ReceiveFetch": receive_fetch,
    "HoldFetch": hold_fetch,
    "ReceiveFetchResponse": receive_fetch_response,
    "Disconnect": disconnect,
    "ShrinkIsr": shrink_isr,
    "RetryAlterPartition": retry_alter_partition,
    "ReceiveAlterPartition": receive_alter_partition,
    "ReceiveAlterPartitionResponse": receive_alter_partition_response,
    "DisconnectController": disconnect_controller,
    "ApplyMetadata": apply_metadata,
    "Register": register,
    "Unfence": unfence,
    "LapseSession": lapse_session,
    "ControllerFailover": controller_failover,
    "PreferredElection": once(control.PreferredElection()),
    "UncleanElection": once(control.UncleanElection()),
    "CreateTopic": nothing,
    "CreatePartitions": nothing,
    "LogDirectoryFailed": log_directory_failed,
    "Flush": of_broker(faults.Flush),
    "CheckpointHighWatermark": of_broker(faults.CheckpointHighWatermark),
    "Crash": crash,
    "Restart": restart,
    "Pause": of_broker(faults.Pause),
    "Resume": resume,
    "BeginShutdown": begin_shutdown,
    "GrantShutdown": shutdown,
    "Shutdown": shutdown,
    "Stop": stop,
}

"""Decisions of the controller as actions: sessions, elections, and what operators change."""

from __future__ import annotations

from collections.abc import Iterator

from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.server.trace import events
from tidegauge.model_tests.harness.validation.followed import Followed
from tidegauge.model_tests.harness.validation.observed import (
    RegisterAgain,
    RegisteredBefore,
    UnfenceUnhosted,
    UnfenceUnread,
)
from tidegauge.model_tests.harness.validation.ways import Choice, actions_of, all_of, just
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.extensions import shutdown as leaving
from tidegauge.spec.replication.extensions.deletion import DeleteTopic
from tidegauge.spec.replication.extensions.directories import (
    FailDirectory,
    ReplicaOffline,
    ReplicaOnline,
    has_failed,
    offline,
)
from tidegauge.spec.replication.extensions.lost_logs import ReportFound, ReportLost, lost
from tidegauge.spec.replication.extensions.reassignment import (
    CancelReassignment,
    ReplicaList,
    StartReassignment,
)
from tidegauge.spec.replication.extensions.running_damage import (
    ReportArrivesLate,
    ReportDamaged,
    ReportUnread,
    is_withdrawn,
    settled,
)
from tidegauge.spec.replication.extensions.settings import ChangeSettings, TopicSettings
from tidegauge.spec.replication.extensions.unregistering import Rejoin, Unregister, is_unregistered
from tidegauge.spec.replication.state import (
    NONE,
)


@actions_of.register(events.Register)
def register(decision: events.Register, node: int, followed: Followed) -> Iterator[Choice]:
    """A broker that lost even the partition's folder restarts without a word on the partition."""
    assert followed.state is not None
    broker = followed.index(decision.broker)
    replica, directories = followed.state.replicas[broker], looked_at(decision, followed)
    if not replica.running:
        stands_still = [faults.Pause(broker)] if replica.paused else []  # since it was sent
        resumed = [faults.Resume(broker)] if replica.paused else []
        yield all_of(*resumed, faults.Restart(broker), faults.Register(broker), *directories, *stands_still)
        return
    removed = is_unregistered(followed.state.controller, broker)
    anew = Rejoin(broker) if removed else RegisterAgain(broker)
    register = anew if replica.broker_epoch != NONE else faults.Register(broker)
    yield sent_before_a_pause(followed, broker, register, *directories)


@actions_of.register(events.Unfence)
def unfence(decision: events.Unfence, node: int, followed: Followed) -> Iterator[Choice]:
    """A broker without a replica, or with one that failed, has read the metadata, and had nothing to say about them."""
    assert followed.state is not None
    broker = followed.index(decision.broker)
    replica = followed.state.replicas[broker]
    removed = replica.pulled is not None and broker not in ReplicaList.of(replica.pulled).replicas
    silent = removed or has_failed(replica)
    known = [control.ApplyMetadata(broker)] if silent and replica.leader_epoch == NONE else []
    yield sent_before_a_pause(followed, broker, *known, faults.Unfence(broker))
    if decision.broker in followed.failed_directories and replica.leader_epoch == NONE and not silent:
        unmade = FailDirectory(broker), control.ApplyMetadata(broker)  # its log could not be made there
        yield sent_before_a_pause(followed, broker, *unmade, faults.Unfence(broker))
    if replica.leader_epoch == NONE and RegisteredBefore.of(replica).is_before:
        yield sent_before_a_pause(followed, broker, UnfenceUnread(broker))
    lacking = followed.settings.lacking
    is_unhosted = lacking is None or decision.broker in lacking or is_withdrawn(replica)
    if replica.pulled is not None and is_unhosted:
        yield sent_before_a_pause(followed, broker, UnfenceUnhosted(broker))


@actions_of.register(events.ExpireSession)
def expire_session(decision: events.ExpireSession, node: int, followed: Followed) -> Iterator[Choice]:
    yield just(faults.ExpireSession(followed.index(decision.broker)))


@actions_of.register(events.GrantShutdown)
@actions_of.register(events.Shutdown)
def shutdown(decision: events.SessionDecision, node: int, followed: Followed) -> Iterator[Choice]:
    """A broker asked to stop, and may at once: for this partition it waits for nobody."""
    assert followed.state is not None
    broker = followed.index(decision.broker)
    asked = leaving.is_shutting_down(followed.state.controller.sessions[broker])
    begin: Choice = [] if asked else just(leaving.BeginShutdown(broker))
    yield [*begin, *just(leaving.GiveUpWaiting(broker))]


@actions_of.register(events.UnregisterBroker)
def unregister(decision: events.UnregisterBroker, node: int, followed: Followed) -> Iterator[Choice]:
    yield just(Unregister(followed.index(decision.broker)))


@actions_of.register(events.BeginShutdown)
def begin_shutdown(decision: events.BeginShutdown, node: int, followed: Followed) -> Iterator[Choice]:
    yield just(leaving.BeginShutdown(followed.index(decision.broker)))


@actions_of.register(events.AssignReplicasToDirs)
@actions_of.register(events.DirectoriesOffline)
def directories_told(decision: events.BrokerDecision, node: int, followed: Followed) -> Iterator[Choice]:
    """What the controller makes of a broker's word on its directories."""
    yield all_of(*looked_at(decision, followed))


@actions_of.register(events.ControllerFailover)
def controller_failover(decision: events.ControllerFailover, node: int, followed: Followed) -> Iterator[Choice]:
    yield just(faults.ControllerFailover())


@actions_of.register(events.PreferredElection)
def preferred_election(decision: events.PreferredElection, node: int, followed: Followed) -> Iterator[Choice]:
    yield just(control.PreferredElection())


@actions_of.register(events.UncleanElection)
def unclean_election(decision: events.UncleanElection, node: int, followed: Followed) -> Iterator[Choice]:
    yield just(control.UncleanElection())


@actions_of.register(events.StartReassignment)
def start_reassignment(decision: events.StartReassignment, node: int, followed: Followed) -> Iterator[Choice]:
    """A move to where the partition is already changes nothing."""
    assert followed.state is not None
    action = StartReassignment(tuple(map(followed.index, decision.target)))
    changes = followed.machine is not None and not action.guard(followed.machine, followed.state)
    yield just(action) if changes or followed.changed(decision) else []


@actions_of.register(events.CancelReassignment)
def cancel_reassignment(decision: events.CancelReassignment, node: int, followed: Followed) -> Iterator[Choice]:
    yield just(CancelReassignment())


@actions_of.register(events.AlterConfigs)
def alter_configs(decision: events.AlterConfigs, node: int, followed: Followed) -> Iterator[Choice]:
    assert followed.state is not None
    settings = TopicSettings.of(followed.state.controller)
    known = settings.min_insync, settings.elects_uncleanly
    for now in decision.settings:
        new = now.min_insync_replicas, now.unclean_leader_election
        if now.topic == followed.topic and new != known:
            yield just(ChangeSettings(*new))
            return
    yield []


@actions_of.register(events.DeleteTopic)
def delete(decision: events.DeleteTopic, node: int, followed: Followed) -> Iterator[Choice]:
    yield just(DeleteTopic())


@actions_of.register(events.CreateTopic)
@actions_of.register(events.CreatePartitions)
def create(decision: events.TopicDecision, node: int, followed: Followed) -> Iterator[Choice]:
    """The partition exists already: the topic's others are meant."""
    yield []


def begins_epoch(registration: PartitionRegistration, followed: Followed) -> bool:
    assert followed.state is not None
    return registration.leader_epoch > followed.state.controller.leader_epoch


def sent_before_a_pause(followed: Followed, broker: int, *actions: ReplicationAction) -> Choice:
    """A request may have been sent just before its sender was stopped: it is as if it had gone on for a moment."""
    assert followed.state is not None
    if not followed.state.replicas[broker].paused:
        return all_of(*actions)
    return all_of(faults.Resume(broker), *actions, faults.Pause(broker))


def looked_at(decision: events.BrokerDecision, followed: Followed) -> Iterator[ReplicationAction]:
    """The replica of the decision's broker has lost its log or has one again; it goes offline, or comes back."""
    assert followed.state is not None
    broker = followed.index(decision.broker)
    for registration in followed.changed(decision):
        before = broker in lost(followed.state.controller)
        after = decision.broker in registration.lost_replicas
        told = isinstance(decision, events.AssignReplicasToDirs) and is_withdrawn(followed.state.replicas[broker])
        if told and (after > before or begins_epoch(registration, followed)):
            known = followed.machine is not None and settled(followed.machine, followed.state, broker)
            yield ReportUnread(broker) if known else ReportDamaged(broker)
        elif before != after:
            is_late = after and not followed.state.controller.sessions[broker].fenced
            lost_action = ReportArrivesLate(broker) if is_late else ReportLost(broker)
            yield lost_action if after else ReportFound(broker)
        before = broker in offline(followed.state.controller)
        after = decision.broker in registration.offline_replicas
        if before != after:
            yield ReplicaOffline(broker) if after else ReplicaOnline(broker)

"""Decisions of the controller as actions: sessions, elections, and what operators change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegauge.impl.server.trace import events
from tidegauge.model_tests.harness.validation.observed import (
    RegisterAgain,
)
from tidegauge.model_tests.harness.validation.ways import Choice, actions_of, all_of, just
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.extensions import shutdown as leaving
from tidegauge.spec.replication.extensions.directories import (
    ReplicaOffline,
    ReplicaOnline,
    offline,
)
from tidegauge.spec.replication.extensions.reassignment import (
    CancelReassignment,
    ReplicaList,
    StartReassignment,
)
from tidegauge.spec.replication.extensions.settings import ChangeSettings, TopicSettings
from tidegauge.spec.replication.state import (
    NONE,
)

if TYPE_CHECKING:
    from tidegauge.model_tests.harness.validation.validation import Validator


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


@actions_of.register(events.AssignReplicasToDirs)
@actions_of.register(events.DirectoriesOffline)
def directories_told(decision: events.BrokerDecision, node: int, validator: Validator) -> Iterator[Choice]:
    """What the controller makes of a broker's word on its directories."""
    yield all_of(*looked_at(decision, validator))


@actions_of.register(events.ControllerFailover)
def controller_failover(decision: events.ControllerFailover, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(faults.ControllerFailover())


@actions_of.register(events.PreferredElection)
def preferred_election(decision: events.PreferredElection, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(control.PreferredElection())


@actions_of.register(events.UncleanElection)
def unclean_election(decision: events.UncleanElection, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(control.UncleanElection())


@actions_of.register(events.StartReassignment)
def start_reassignment(decision: events.StartReassignment, node: int, validator: Validator) -> Iterator[Choice]:
    """A move to where the partition is already changes nothing."""
    assert validator.state is not None
    action = StartReassignment(tuple(map(validator.index, decision.target)))
    changes = validator.machine is not None and not action.guard(validator.machine, validator.state)
    yield just(action) if changes or validator.changed(decision) else []


@actions_of.register(events.CancelReassignment)
def cancel_reassignment(decision: events.CancelReassignment, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(CancelReassignment())


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


@actions_of.register(events.CreateTopic)
@actions_of.register(events.CreatePartitions)
def create(decision: events.TopicDecision, node: int, validator: Validator) -> Iterator[Choice]:
    """The partition exists already: the topic's others are meant."""
    yield []


def sent_before_a_pause(validator: Validator, broker: int, *actions: ReplicationAction) -> Choice:
    """A request may have been sent just before its sender was stopped: it is as if it had gone on for a moment."""
    assert validator.state is not None
    if not validator.state.replicas[broker].paused:
        return all_of(*actions)
    return all_of(faults.Resume(broker), *actions, faults.Pause(broker))


def looked_at(decision: events.BrokerDecision, validator: Validator) -> Iterator[ReplicationAction]:
    """The replica of the decision's broker goes offline, or comes back."""
    assert validator.state is not None
    broker = validator.index(decision.broker)
    for registration in validator.changed(decision):
        before = broker in offline(validator.state.controller)
        after = decision.broker in registration.offline_replicas
        if before != after:
            yield ReplicaOffline(broker) if after else ReplicaOnline(broker)

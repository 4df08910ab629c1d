"""What the controller of the published model of replication 3.5 decides, and what brokers propose and learn of that."""

from __future__ import annotations

from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.published.replication35.actions import Receive, Replication35Action
from tidegauge.spec.published.replication35.rules import Replication35Rules, elected, reassigned, without
from tidegauge.spec.published.replication35.state import (
    CONTROLLER,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Broker,
    Brokers,
    Error,
    PartitionChange,
    Role,
    State,
    Status,
    is_among,
)
from tidegauge.spec.published.replication35.updates import metadata_of, settled, updated


@attrs.frozen
class FenceBroker(Replication35Action):
    """The controller has no heartbeat of a broker; `leader` is who leads then."""

    fair: ClassVar[bool] = False

    broker: int
    leader: int

    def guard(self, machine: Replication35Rules, state: State) -> str:
        if state.fences >= machine.max_fences:
            return "fences are left"
        if state.registrations[self.broker].is_fenced:
            return "the broker is unfenced"
        return "" if self.leader in machine.leaders_once_fenced(state, self.broker) else "that one may lead"

    def effect(self, machine: Replication35Rules, state: State) -> State:
        return evolve(fenced(machine, state, self.broker, self.leader), fences=state.fences + 1)


@attrs.frozen
class UnfenceBroker(Replication35Action):
    """The controller has a heartbeat of a broker that runs; `leader` is who leads then."""

    broker: int
    leader: int

    def guard(self, machine: Replication35Rules, state: State) -> str:
        if not state.registrations[self.broker].is_fenced:
            return "the broker is fenced"
        if state.brokers[self.broker].status != Status.RUNNING:
            return "the broker runs"
        return "" if self.leader in machine.leaders_once_unfenced(state, self.broker) else "that one may lead"

    def effect(self, machine: Replication35Rules, state: State) -> State:
        registration = evolve(state.registrations[self.broker], is_fenced=False)
        change = elected(state.partition, self.leader, state.partition.isr)
        return state.with_registration(self.broker, registration).with_partition(change)


@attrs.frozen
class PerformPartitionReassignment(Replication35Action):
    """An operator adds replicas and removes others; `leader` is who leads then."""

    fair: ClassVar[bool] = False

    adding: Brokers
    removing: Brokers
    leader: int

    def guard(self, machine: Replication35Rules, state: State) -> str:
        if state.reassignments >= machine.max_reassignments:
            return "reassignments are left"
        if state.partition.is_reassigned:
            return "no reassignment goes on"
        replicas = {*state.partition.replicas}
        if not {*self.removing} <= replicas or {*self.adding} & replicas or not (self.adding or self.removing):
            return "who is added is no replica, and who is removed is one"
        if len(replicas) + len(self.adding) - len(self.removing) < machine.min_isr:
            return "as many replicas stay as the ISR has to have"
        return "" if self.leader in leaders_of(state, self._changed(machine, state)) else "that one may lead"

    def effect(self, machine: Replication35Rules, state: State) -> State:
        change = evolve(self._changed(machine, state), leader=self.leader)
        return evolve(state.with_partition(change), reassignments=state.reassignments + 1)

    def _changed(self, machine: Replication35Rules, state: State) -> PartitionChange:
        partition = state.partition
        replicas = tuple(sorted((*partition.replicas, *self.adding)))
        isr = without(partition.isr, self.removing)
        if {*self.adding} <= {*isr} and len(isr) >= machine.min_isr:
            return reassigned(partition, without(replicas, self.removing), isr)
        return evolve(
            partition,
            replicas=replicas,
            adding=self.adding,
            removing=self.removing,
            partition_epoch=partition.partition_epoch + 1,
        )


def leaders_of(state: State, change: PartitionChange) -> Brokers:
    """Who may lead with that ISR: who does, or any member if that one is none."""
    leader = state.partition.leader
    return (leader,) if leader in change.isr else change.isr


def fenced(machine: Replication35Rules, state: State, broker: int, leader: int) -> State:
    """The controller has fenced a broker."""
    change = elected(state.partition, leader, machine.isr_once_fenced(state, broker))
    registration = evolve(state.registrations[broker], is_fenced=True)
    return state.with_registration(broker, registration).with_partition(change)


@attrs.frozen
class ReceiveMetadataUpdate(Replication35Action):
    """A broker learns of the metadata log up to that offset, and acts on the last record."""

    broker: int
    offset: int

    def guard(self, machine: Replication35Rules, state: State) -> str:
        broker = state.brokers[self.broker]
        if broker.status != Status.RUNNING:
            return "the broker runs"
        if not len(broker.metadata_log) < self.offset <= len(state.metadata_log):
            return "the metadata log goes so far, and the broker's does not"
        change = state.metadata_log[self.offset - 1]
        needs = machine.reasons_to_update(state, self.broker, change)
        return "" if needs else "the change is one for the broker's replica"

    def effect(self, machine: Replication35Rules, state: State) -> State:
        after = updated(machine, state, self.broker, state.metadata_log[self.offset - 1])
        log = machine.metadata_log(state, self.offset)
        return after.with_broker(self.broker, evolve(after.brokers[self.broker], metadata_log=log))


@attrs.frozen
class SendAlterPartitionRequest(Replication35Action):
    """A leader proposes another ISR: without followers that have timed out, with those that have caught up."""

    broker: int
    timed_out: Brokers = ()

    def guard(self, machine: Replication35Rules, state: State) -> str:
        broker = state.brokers[self.broker]
        if broker.status != Status.RUNNING or broker.replica.role != Role.LEADER:
            return "the broker runs, and leads"
        if broker.replica.is_pending:
            return "it waits for no response"
        if self.timed_out and state.shrinks >= machine.max_shrinks:
            return "members of the ISR may time out"
        if not {*self.timed_out} <= {*broker.replica.metadata.isr} - {self.broker}:
            return "other members of the ISR have timed out"
        request = self.request(machine, broker)
        if request.isr == broker.replica.metadata.isr:
            return "the ISR is another one"
        return "" if may_send(machine, state, request) else "a refused request is not sent again"

    def effect(self, machine: Replication35Rules, state: State) -> State:
        broker = state.brokers[self.broker]
        metadata, request = broker.replica.metadata, self.request(machine, broker)
        replica = evolve(
            broker.replica,
            metadata=evolve(metadata, maximal_isr=machine.maximal_isr(metadata.isr, request.isr)),
            pending_epoch=metadata.partition_epoch + 1,
            pending=request,
        )
        after = state.sent(request).with_replica(self.broker, replica)
        return evolve(after, shrinks=state.shrinks + (not {*metadata.isr} <= {*request.isr}))

    def request(self, machine: Replication35Rules, broker: Broker) -> AlterPartitionRequest:
        metadata = broker.replica.metadata
        isr = machine.caught_up(self.broker, broker.replica, self.timed_out)
        epochs = {member: follower.broker_epoch for member, follower in enumerate(broker.replica.followers)}
        epochs |= dict.fromkeys(metadata.isr, 0) | {self.broker: broker.broker_epoch}
        return AlterPartitionRequest(
            self.broker,
            CONTROLLER,
            tuple((member, epochs[member]) for member in isr),
            metadata.leader_epoch,
            metadata.partition_epoch,
            broker.broker_epoch,
        )


def may_send(machine: Replication35Rules, state: State, request: AlterPartitionRequest) -> bool:
    """What was sent before is sent again only if it is not refused again: else the model would have no end."""
    was_sent = is_among(state.messages, request) or is_among(state.processed, request)
    return not was_sent or machine.error_of(state, request) == Error.NONE


@attrs.frozen
class ReceiveAlterPartitionRequest(Receive[AlterPartitionRequest]):
    """The controller takes an ISR, or refuses it; `leader` is who leads then."""

    message: AlterPartitionRequest
    leader: int
    takes = AlterPartitionRequest

    def lacks(self, machine: Replication35Rules, state: State) -> str:
        return "" if self.leader in leaders_with(machine, state, self.message) else "that one may lead"

    def effect(self, machine: Replication35Rules, state: State) -> State:
        request, after = self.message, state.received(self.message)
        if error := machine.error_of(state, request):
            return after.sent(AlterPartitionResponse(CONTROLLER, request.source, request, error))
        change = evolve(machine.proposed(state, request.isr), leader=self.leader)
        response = AlterPartitionResponse(
            CONTROLLER,
            request.source,
            request,
            replicas=change.replicas,
            isr=change.isr,
            leader=change.leader,
            leader_epoch=change.leader_epoch,
            partition_epoch=change.partition_epoch,
        )
        return after.with_partition(change).sent(response)


def leaders_with(machine: Replication35Rules, state: State, request: AlterPartitionRequest) -> Brokers:
    """Who may lead after the proposal: who does, unless a reassignment is complete without it."""
    if machine.error_of(state, request):
        return (state.partition.leader,)
    return leaders_of(state, machine.proposed(state, request.isr))


@attrs.frozen
class ReceiveAlterPartitionResponse(Receive[AlterPartitionResponse]):
    """A leader has the ISR that it has proposed, or goes back to the one before."""

    message: AlterPartitionResponse
    takes = AlterPartitionResponse

    def lacks(self, machine: Replication35Rules, state: State) -> str:
        own, response = self.receiver(state), self.message
        if own.status != Status.RUNNING or own.replica.role != Role.LEADER:
            return "the broker runs, and leads"
        if not own.replica.is_pending or own.replica.pending != response.request:
            return "it waits for that response"
        if response.error:
            return ""
        is_news = response.partition_epoch > own.replica.metadata.partition_epoch
        is_own = response.leader_epoch == own.replica.metadata.leader_epoch
        return "" if is_news and is_own else "the partition epoch is a later one, and the leader epoch its own"

    def effect(self, machine: Replication35Rules, state: State) -> State:
        response, number = self.message, self.message.dest
        metadata = self.receiver(state).replica.metadata
        if response.error:
            metadata = evolve(metadata, maximal_isr=metadata.isr)
        else:
            metadata = metadata_of(
                PartitionChange(
                    response.replicas,
                    response.isr,
                    response.leader,
                    response.leader_epoch,
                    response.partition_epoch,
                )
            )
        after = machine.advanced_by_isr(state.received(response), number, metadata.maximal_isr)
        return after.with_replica(number, evolve(settled(after.brokers[number].replica), metadata=metadata))

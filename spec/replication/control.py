"""How the controller decides about a replicated partition: ISR changes, metadata, elections.

Only what the controller has written counts; a leader proposes, and a broker acts on the metadata that it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, Self

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.near_misses import epochs_around, with_epochs_around
from tidegauge.spec.replication.actions import (
    BrokerAction,
    ReplicationAction,
    advance_high_watermark,
    not_leading,
    on_network,
    propose_isr,
)
from tidegauge.spec.replication.rules import ReplicationRules, not_acting
from tidegauge.spec.replication.state import (
    NONE,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerId,
    Controller,
    Error,
    PartitionMetadata,
    RemoteReplica,
    Replica,
    State,
    received,
    sent,
)

NO_PREFERRED_NEEDED: Final = Refusal("the preferred replica leads", Error.ELECTION_NOT_NEEDED)
NO_PREFERRED_IN_SYNC: Final = Refusal("the preferred replica is not in sync", Error.PREFERRED_LEADER_NOT_AVAILABLE)
NO_REPLICAS: Final = Refusal("the partition's topic is deleted", Error.UNKNOWN_TOPIC_OR_PARTITION)
NO_UNCLEAN_NEEDED: Final = Refusal("the partition has a leader", Error.ELECTION_NOT_NEEDED)
NO_LIVE_REPLICA: Final = Refusal("no broker is live", Error.ELIGIBLE_LEADERS_NOT_AVAILABLE)

# --- ISR changes ---------------------------------------------------------------------------------------------------


@attrs.frozen
class ShrinkIsr(ReplicationAction):
    """The leader proposes an ISR without followers that have lagged for too long."""

    bounded_as: ClassVar[str] = "ShrinkIsr"

    broker: BrokerId
    lagging: tuple[BrokerId, ...]

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        for broker, replica in enumerate(state.replicas):
            if replica.leader == broker:
                lagging = machine.lagging(replica, broker)
                yield from (cls(broker, (follower,)) for follower in lagging)
                if len(lagging) > 1:
                    yield cls(broker, lagging)

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more ISR shrinks in this model"
        if leading := not_leading(state, self.broker):
            return leading
        leader = state.replicas[self.broker]
        if leader.pending_isr:
            return f"broker {self.broker} waits for the outcome of an ISR change"
        caught_up = sorted(set(self.lagging).difference(machine.lagging(leader, self.broker)))
        return f"{caught_up} do not lag behind broker {self.broker}" if caught_up or not self.lagging else ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        isr = tuple(b for b in state.replicas[self.broker].isr if b not in self.lagging)
        return propose_isr(machine, state.spend(self.bounded_as), self.broker, isr)


@attrs.frozen
class RetryAlterPartition(BrokerAction):
    """A leader whose proposal or its response was lost asks again."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        leader = state.replicas[self.broker]
        if not leader.pending_isr:
            return f"broker {self.broker} has proposed nothing"
        if state.network.has_alter_of(self.broker):
            return f"broker {self.broker} is still waiting for a response"
        return not_leading(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return propose_isr(machine, state, self.broker, state.replicas[self.broker].pending_isr)


@attrs.frozen
class ReceiveAlterPartition(ReplicationAction):
    """An ISR proposal reaches the controller, which writes it or refuses it."""

    request: AlterPartitionRequest

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return [cls(request) for request in state.network.alters]

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if self.request in state.network.alters:
            return ""
        if error := machine.alter_partition_error(state.controller, self.request):
            return Refusal(f"the controller does not write {self.request}", error)
        return f"no such proposal is on its way: {self.request}"

    @classmethod
    def attempts(cls, machine: ReplicationRules, state: State) -> Iterator[Self]:
        """Proposals of which one thing is wrong: an epoch, the sender, or the ISR."""
        controller = state.controller
        now = tuple((broker, session.broker_epoch) for broker, session in enumerate(controller.sessions))
        for broker, broker_epoch in now:
            proposal = AlterPartitionRequest(
                broker, broker_epoch, controller.leader_epoch, controller.partition_epoch, now
            )
            near = with_epochs_around(proposal, "broker_epoch", "leader_epoch", "partition_epoch")
            yield from map(cls, near)
            yield from (cls(evolve(proposal, isr=isr)) for isr in _wrong_isrs(now))

    def effect(self, machine: ReplicationRules, state: State) -> State:
        request, controller = self.request, state.controller
        error = machine.alter_partition_error(controller, request)
        if not error:
            proposed = machine.with_isr(controller, tuple(broker for broker, _ in request.isr))
            changed, unclean = machine.settled(controller, proposed)
            state = committed(state, changed, unclean=unclean)
            controller = state.controller
            if controller.leader_epoch != request.leader_epoch:
                error = Error.NEW_LEADER_ELECTED
        response = AlterPartitionResponse(
            request.leader,
            request.leader_epoch,
            request.partition_epoch,
            error,
            controller.isr,
            controller.partition_epoch,
            controller.epoch,
        )
        network = evolve(
            state.network,
            alters=received(state.network.alters, request),
            alter_responses=sent(state.network.alter_responses, response),
        )
        return state.with_network(network)


def _wrong_isrs(members: tuple[tuple[int, int], ...]) -> Iterator[tuple[tuple[int, int], ...]]:
    """None at all, one with a broker that does not exist, and those with another process of a broker."""
    yield ()
    yield (*members, (len(members), 0))
    for place, (broker, broker_epoch) in enumerate(members):
        others = members[:place] + members[place + 1 :]
        for epoch in epochs_around(broker_epoch):
            if epoch != broker_epoch:
                yield tuple(sorted((*others, (broker, epoch))))


def committed(state: State, controller: Controller, *, unclean: bool = False) -> State:
    """The controller writes a change of the partition: one partition epoch on, if anything but sessions changed."""
    old = state.controller
    if controller.registration != old.registration:
        controller = evolve(controller, partition_epoch=old.partition_epoch + 1)
    history = state.history
    if unclean:
        history = evolve(history, superseded_epoch=controller.leader_epoch, unsettled=True)
    return evolve(state, controller=controller, history=history)


@attrs.frozen
class ReceiveAlterPartitionResponse(ReplicationAction):
    """The leader learns the outcome of its proposal; an ineligible replica makes it give the proposal up.

    A proposal that has led to a new leader epoch was written, and the metadata will tell what came of it. Giving up is
    safe because a refused proposal can't be written later: a connection delivers each one once, and one that broke
    delivers nothing any more when the leader has asked again by the next.
    """

    response: AlterPartitionResponse

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return [cls(response) for response in state.network.alter_responses]

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if self.response not in state.network.alter_responses:
            return self.not_on_its_way(machine, state)
        return not_acting(state, self.response.leader)

    def not_on_its_way(self, machine: ReplicationRules, state: State) -> str:
        """The response to a proposal that is settled, or of an older controller, may be late: it is ignored."""
        broker = self.response.leader
        if reason := not_acting(state, broker):
            return reason
        if not settles_proposal(state.replicas[broker], broker, self.response):
            return Refusal(f"broker {broker} waits for no {self.response}", Error.OK)
        return f"no such response is on its way: {self.response}"

    @classmethod
    def attempts(cls, machine: ReplicationRules, state: State) -> Iterator[Self]:
        """Responses that would settle a proposal, but for one epoch."""
        for broker, leader in enumerate(state.replicas):
            if leader.leader == broker and leader.pending_isr:
                response = AlterPartitionResponse(
                    broker,
                    leader.leader_epoch,
                    leader.partition_epoch,
                    Error.OK,
                    leader.pending_isr,
                    leader.partition_epoch + 1,
                    leader.controller_epoch,
                )
                near = with_epochs_around(response, "leader_epoch", "proposed_on", "controller_epoch")
                yield from map(cls, near)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        response, broker = self.response, self.response.leader
        state = on_network(state, alter_responses=received(state.network.alter_responses, response))
        leader = state.replicas[broker]
        if not settles_proposal(leader, broker, response):
            return state
        if response.error is Error.INELIGIBLE_REPLICA:
            state = state.with_replica(broker, evolve(leader, pending_isr=()))
        elif not response.error and response.partition_epoch > leader.partition_epoch:
            leader = evolve(
                leader,
                isr=response.isr,
                partition_epoch=response.partition_epoch,
                controller_epoch=response.controller_epoch,
                pending_isr=(),
            )
            state = state.with_replica(broker, leader)
        return advance_high_watermark(machine, state, broker)


def settles_proposal(leader: Replica, broker: int, response: AlterPartitionResponse) -> bool:
    """Whether the response is to the open proposal of this leader, and of no controller older than it knows."""
    current = leader.leader == broker and response.leader_epoch == leader.leader_epoch
    current = current and response.proposed_on == leader.partition_epoch
    return current and bool(leader.pending_isr) and response.controller_epoch >= leader.controller_epoch


# --- metadata and elections ----------------------------------------------------------------------------------------


@attrs.frozen
class PullMetadata(BrokerAction):
    """A broker fetches the metadata, to act on them later: by then they may be out of date."""

    @classmethod
    def is_possible(cls, machine: ReplicationRules) -> bool:
        return machine.delayed_metadata

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if not machine.delayed_metadata:
            return "in this model a broker acts on metadata at once"
        if state.replicas[self.broker].pulled is not None:
            return f"broker {self.broker} has yet to act on what it pulled"
        return nothing_to_learn(state, self.broker) or not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = evolve(state.replicas[self.broker], pulled=machine.metadata(state.controller))
        return state.with_replica(self.broker, replica)


def nothing_to_learn(state: State, broker: int) -> str:
    """Why a broker that pulls metadata now would learn nothing new."""
    replica, controller = state.replicas[broker], state.controller
    if replica.broker_epoch != controller.sessions[broker].broker_epoch:
        return f"broker {broker} has not registered"
    known = (replica.partition_epoch, replica.controller_epoch)
    return f"broker {broker} knows it all" if known == (controller.partition_epoch, controller.epoch) else ""


@attrs.frozen
class ApplyMetadata(BrokerAction):
    """A broker acts on the metadata, the newest or those that it pulled: it leads or follows."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if state.replicas[self.broker].pulled is None and (reason := nothing_to_learn(state, self.broker)):
            return reason
        return not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        broker = self.broker
        old = evolve(state.replicas[broker], pulled=None)
        metadata = state.replicas[broker].pulled or machine.metadata(state.controller)
        if metadata.partition_epoch < old.partition_epoch or metadata.controller_epoch < old.controller_epoch:
            return state.with_replica(broker, old)
        return machine.metadata_applied(state, broker, old, metadata)


def with_metadata(machine: ReplicationRules, replica: Replica, metadata: PartitionMetadata, **more: Any) -> Replica:
    """The replica with the metadata's epochs, and with `more` fields changed."""
    return evolve(
        replica,
        controller_epoch=metadata.controller_epoch,
        leader_epoch=metadata.leader_epoch,
        partition_epoch=metadata.partition_epoch,
        parts=machine.parts_with_metadata(replica.parts, metadata),
        **more,
    )


def metadata_applied(
    machine: ReplicationRules, state: State, broker: int, old: Replica, metadata: PartitionMetadata
) -> State:
    """The broker leads or follows as the metadata say; it keeps a proposal that they have not overtaken."""
    pending_isr = old.pending_isr if old.partition_epoch == metadata.partition_epoch else ()
    new = with_metadata(machine, old, metadata, leader=metadata.leader, isr=metadata.isr, pending_isr=pending_isr)
    if new.leader_epoch == old.leader_epoch:
        state = state.with_replica(broker, new)
    elif new.leader == broker:
        state = become_leader(machine, state, broker, new)
    else:
        new = evolve(new, epoch_start_offset=NONE, remote=())
        if new.leader != NONE:
            new = machine.truncated(new, machine.truncation_on_becoming_follower(new))
        state = state.with_replica(broker, new)
    return advance_high_watermark(machine, state, broker) if new.leader == broker else state


def become_leader(machine: ReplicationRules, state: State, broker: int, replica: Replica) -> State:
    """The new epoch begins at the log's end, with nothing known of followers; an unclean loss is settled."""
    unknown = (RemoteReplica(),) * machine.brokers
    replica = evolve(replica, epoch_start_offset=replica.log_end_offset, remote=unknown)
    history = state.history
    if history.unsettled and replica.leader_epoch >= history.superseded_epoch:
        kept = 0
        while kept < min(len(history.committed), len(replica.log)) and history.committed[kept] == replica.log[kept]:
            kept += 1
        gone = {r.value for r in history.committed[kept:]} | (
            set(history.acknowledged) - {r.value for r in history.committed[:kept]}
        )
        history = evolve(
            history,
            committed=history.committed[:kept],
            lost=tuple(sorted(gone.union(history.lost))),
            unsettled=False,
        )
    return evolve(state.with_replica(broker, replica), history=history)


@attrs.frozen
class PreferredElection(ReplicationAction):
    """The first of the replica list takes the leadership back."""

    bounded_as: ClassVar[str] = "PreferredElection"

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return (cls(),)

    def guard(self, machine: ReplicationRules, state: State) -> str:
        controller = state.controller
        if not machine.may_perturb(state, self.bounded_as):
            return "no more preferred elections in this model"
        if not (order := machine.replica_order(controller)):
            return NO_REPLICAS
        preferred = order[0]
        if controller.leader == preferred:
            return NO_PREFERRED_NEEDED
        eligible = preferred in controller.isr and machine.is_active(controller, preferred)
        return "" if eligible else NO_PREFERRED_IN_SYNC

    def effect(self, machine: ReplicationRules, state: State) -> State:
        preferred = machine.replica_order(state.controller)[0]
        return committed(state.spend(self.bounded_as), machine.led_by(state.controller, preferred))


@attrs.frozen
class UncleanElection(ReplicationAction):
    """An operator accepts loss: a live replica from outside the ISR leads, since no other can."""

    bounded_as: ClassVar[str] = "UncleanElection"

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return (cls(),)

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more unclean elections in this model"
        if state.controller.leader != NONE:
            return NO_UNCLEAN_NEEDED
        if not machine.replica_order(state.controller):
            return NO_REPLICAS
        return "" if machine.elect(state.controller, unclean=True)[0] != NONE else NO_LIVE_REPLICA

    def effect(self, machine: ReplicationRules, state: State) -> State:
        controller, unclean = machine.with_leader(state.controller, unclean=True)
        return committed(state.spend(self.bounded_as), controller, unclean=unclean)

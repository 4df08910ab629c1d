"""Faults of brokers and of the network, and their healing: expired sessions, crashes, pauses, cut connections.

A machine bounds the faults. It never bounds what heals: restart, registration, unfencing, resuming.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import ClassVar, Self

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import AttemptedAction, Refusal
from tidegauge.spec.kernel.near_misses import epochs_around
from tidegauge.spec.kernel.piecemeal import one_at_a_time
from tidegauge.spec.replication.actions import BrokerAction, ReplicationAction, on_network
from tidegauge.spec.replication.control import committed
from tidegauge.spec.replication.rules import ReplicationRules, not_acting
from tidegauge.spec.replication.state import (
    NONE,
    BrokerId,
    Controller,
    Error,
    FetchRequest,
    FetchResponse,
    Session,
    State,
    any_of,
    none_of,
)


def with_session(controller: Controller, broker: int, session: Session) -> Controller:
    sessions = (*controller.sessions[:broker], session, *controller.sessions[broker + 1 :])
    return evolve(controller, sessions=sessions)


# --- membership ----------------------------------------------------------------------------------------------------


@attrs.frozen
class ExpireSession(BrokerAction):
    """The controller has had no heartbeat of a broker for too long, and fences it; the broker may not know it."""

    bounded_as: ClassVar[str] = "ExpireSession"

    @classmethod
    def is_possible(cls, machine: ReplicationRules) -> bool:
        return machine.may_stay_down or super().is_possible(machine)

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if state.controller.sessions[self.broker].fenced:
            return f"broker {self.broker} is fenced"
        if self.heals(machine, state):
            return ""
        return "" if machine.may_perturb(state, self.bounded_as) else "no more sessions expire in this model"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        controller = machine.without(state.controller, self.broker, clean=True)
        session = evolve(controller.sessions[self.broker], fenced=True)
        controller, unclean = machine.with_leader(with_session(controller, self.broker, session))
        state = state if self.heals(machine, state) else state.spend(self.bounded_as)
        return committed(state, controller, unclean=unclean)

    def heals(self, machine: ReplicationRules, state: State) -> bool:
        """Whether the broker is down and nobody promises that it comes back: the others go on without it."""
        return machine.may_stay_down and not state.replicas[self.broker].running


@attrs.frozen
class Register(BrokerAction):
    """A restarted broker gets a new broker epoch; it is fenced until it has caught up with the metadata."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if state.replicas[self.broker].broker_epoch != NONE:
            return f"broker {self.broker} is registered"
        return not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        broker_epoch = state.controller.sessions[self.broker].broker_epoch + 1
        controller = with_session(state.controller, self.broker, Session(broker_epoch, fenced=True))
        replica = state.replicas[self.broker]
        controller, unclean = machine.with_leader(machine.with_registration(controller, replica, self.broker))
        replica = machine.registered(replica, broker_epoch)
        return committed(state.with_replica(self.broker, replica), controller, unclean=unclean)


@attrs.frozen
class Unfence(BrokerAction):
    """A fenced broker's heartbeat shows that it has the metadata since its registration: it counts again."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica, session = state.replicas[self.broker], state.controller.sessions[self.broker]
        if not session.fenced:
            return f"broker {self.broker} is not fenced"
        if reason := machine.not_unfenced(state.controller, replica, self.broker):
            return reason
        if replica.broker_epoch != session.broker_epoch:
            return f"broker {self.broker} has not registered"
        if acting := not_acting(state, self.broker):
            return acting
        return not_caught_up(self.broker) if replica.leader_epoch == NONE else ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        session = evolve(state.controller.sessions[self.broker], fenced=False)
        controller, unclean = machine.with_leader(with_session(state.controller, self.broker, session))
        return committed(state, controller, unclean=unclean)


@cache
def not_caught_up(broker: int) -> Refusal:
    """Its heartbeat is taken, and it stays fenced."""
    return Refusal(f"broker {broker} has not caught up with the metadata", Error.OK)


@attrs.frozen
class HeartbeatOfFormerProcess(AttemptedAction[ReplicationRules, State], ReplicationAction):
    """A heartbeat that is not of the registered process, late or forged, and says that it has all metadata.

    It is refused in every state.
    """

    broker: BrokerId
    broker_epoch: int

    @classmethod
    def attempts(cls, machine: ReplicationRules, state: State) -> Iterator[Self]:
        for broker, session in enumerate(state.controller.sessions):
            yield from (cls(broker, broker_epoch) for broker_epoch in epochs_around(session.broker_epoch))
        yield cls(machine.brokers, 0)

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if self.broker >= machine.brokers:
            return Refusal(f"broker {self.broker} is not registered", Error.BROKER_ID_NOT_REGISTERED)
        registered = state.controller.sessions[self.broker].broker_epoch
        if self.broker_epoch == registered:
            return "the registered process sends it"
        error = machine.heartbeat_error(state.controller, self.broker, self.broker_epoch)
        return Refusal(f"broker {self.broker} is registered with broker epoch {registered}", error)


@attrs.frozen
class RegisterBesideProcess(AttemptedAction[ReplicationRules, State], ReplicationAction):
    """Another process would register under the id of a broker whose process lives and is not fenced: it is refused."""

    broker: BrokerId

    @classmethod
    def attempts(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return [cls(broker) for broker in range(machine.brokers)]

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if reason := not_acting(state, self.broker):
            return reason
        registered = state.controller.sessions[self.broker].broker_epoch
        if state.replicas[self.broker].broker_epoch != registered or not machine.is_active(
            state.controller, self.broker
        ):
            return f"no process of broker {self.broker} stands in the way"
        return beside_process(self.broker)


@cache
def beside_process(broker: int) -> Refusal:
    return Refusal(f"a process of broker {broker} lives", Error.DUPLICATE_BROKER_REGISTRATION)


@attrs.frozen
class ControllerFailover(ReplicationAction):
    """A new controller takes over with a higher epoch; proposals to the old one are lost, its responses are not."""

    bounded_as: ClassVar[str] = "ControllerFailover"

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return (cls(),)

    def guard(self, machine: ReplicationRules, state: State) -> str:
        return "" if machine.may_perturb(state, self.bounded_as) else "no more failovers in this model"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        controller = evolve(state.controller, epoch=state.controller.epoch + 1)
        state = evolve(state.spend(self.bounded_as), controller=controller)
        return on_network(state, alters=())


# --- disk ----------------------------------------------------------------------------------------------------------


@attrs.frozen
class Flush(BrokerAction):
    """A broker forces its log to the disk; it matters where a crash may follow."""

    fair: ClassVar[bool] = False

    @classmethod
    def is_possible(cls, machine: ReplicationRules) -> bool:
        return Crash.is_possible(machine)

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if not machine.may_perturb(state, Crash.bounded_as):
            return "no more crashes in this model"
        if replica.flushed == replica.log_end_offset:
            return f"broker {self.broker} has nothing to flush"
        return machine.not_hosting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = state.replicas[self.broker]
        return state.with_replica(self.broker, evolve(replica, flushed=replica.log_end_offset))


@attrs.frozen
class CheckpointHighWatermark(BrokerAction):
    """A broker writes its high watermark down; it matters where a crash may follow."""

    fair: ClassVar[bool] = False

    @classmethod
    def is_possible(cls, machine: ReplicationRules) -> bool:
        return Crash.is_possible(machine)

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if not machine.may_perturb(state, Crash.bounded_as):
            return "no more crashes in this model"
        if replica.checkpoint == replica.high_watermark:
            return f"broker {self.broker} has nothing to check-point"
        return machine.not_hosting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = state.replicas[self.broker]
        return state.with_replica(self.broker, evolve(replica, checkpoint=replica.high_watermark))


@attrs.frozen
class Crash(ReplicationAction):
    """A broker dies; of its log the first `kept` records survive, no fewer than were flushed."""

    bounded_as: ClassVar[str] = "Crash"

    broker: BrokerId
    kept: int

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        for broker, replica in enumerate(state.replicas):
            disk = machine.on_disk(replica)
            yield from (cls(broker, kept) for kept in range(disk.flushed, disk.log_end_offset + 1))

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        disk = machine.on_disk(replica)
        if not replica.running:
            return f"broker {self.broker} is down"
        if not disk.flushed <= self.kept <= disk.log_end_offset:
            return f"a crash of broker {self.broker} keeps {disk.flushed} to {disk.log_end_offset} records"
        return "" if machine.may_perturb(state, self.bounded_as) else "no more crashes in this model"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        state = machine.cut_off(state, self.broker)
        survivor = machine.survivor(machine.on_disk(state.replicas[self.broker]), self.kept)
        for broker, replica in enumerate(state.replicas):
            waiting = none_of(replica.outstanding, self.broker)
            if waiting != replica.outstanding:
                state = state.with_replica(broker, evolve(replica, outstanding=waiting))
        return state.with_replica(self.broker, survivor).spend(self.bounded_as)


@attrs.frozen
class Restart(BrokerAction):
    """A crashed broker starts again from what its disk has; it has yet to register."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        return f"broker {self.broker} is running" if state.replicas[self.broker].running else ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return state.with_replica(self.broker, machine.restarted(state.replicas[self.broker]))


# --- pauses and the network ----------------------------------------------------------------------------------------


@attrs.frozen
class Pause(BrokerAction):
    """A broker stands still (a long collection, a stopped process) and knows nothing of it."""

    bounded_as: ClassVar[str] = "Pause"

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more pauses in this model"
        return not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = evolve(state.replicas[self.broker], paused=True)
        return state.with_replica(self.broker, replica).spend(self.bounded_as)


@attrs.frozen
class Resume(BrokerAction):
    """A paused broker goes on where it stood."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        return "" if state.replicas[self.broker].paused else f"broker {self.broker} is not paused"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return state.with_replica(self.broker, evolve(state.replicas[self.broker], paused=False))


@attrs.frozen
class Disconnect(ReplicationAction):
    """The connection on which a follower fetches breaks: its requests and their responses are lost."""

    bounded_as: ClassVar[str] = "Disconnect"

    follower: BrokerId
    leader: BrokerId

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        for follower, replica in enumerate(state.replicas):
            for leader in sorted({request.leader for request in replica.outstanding}):
                yield cls(follower, leader)

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more broken connections in this model"
        if not any_of(state.replicas[self.follower].outstanding, self.leader):
            return f"broker {self.follower} waits for nothing from broker {self.leader}"
        return ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        link = (self.follower, self.leader)
        replica = state.replicas[self.follower]
        waiting = none_of(replica.outstanding, self.leader)
        state = state.with_replica(self.follower, evolve(replica, outstanding=waiting))
        state = on_network(
            state,
            fetches=fetches_without_link(state.network.fetches, link),
            fetch_responses=responses_without_link(state.network.fetch_responses, link),
        )
        return state.spend(self.bounded_as)


@one_at_a_time
def fetches_without_link(fetches: tuple[FetchRequest, ...], link: tuple[int, int]) -> tuple[FetchRequest, ...]:
    """The requests but for those of a follower to a leader."""
    return tuple(m for m in fetches if (m.follower, m.leader) != link)


@one_at_a_time
def responses_without_link(responses: tuple[FetchResponse, ...], link: tuple[int, int]) -> tuple[FetchResponse, ...]:
    """The responses but for those to a follower from a leader."""
    return tuple(m for m in responses if (m.request.follower, m.request.leader) != link)


@attrs.frozen
class DisconnectController(BrokerAction):
    """A leader's connection to the controller breaks: its proposal or the response to it is lost."""

    bounded_as: ClassVar[str] = "Disconnect"

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "no more broken connections in this model"
        return "" if state.network.has_alter_of(self.broker) else "nothing is on its way"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        state = on_network(
            state,
            alters=none_of(state.network.alters, self.broker),
            alter_responses=none_of(state.network.alter_responses, self.broker),
        )
        return state.spend(self.bounded_as)

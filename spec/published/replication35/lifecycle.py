"""Brokers of the published model of replication 3.5 start, register, and stop."""

from __future__ import annotations

from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.published.replication35.actions import Receive, Replication35Action
from tidegauge.spec.published.replication35.control import fenced
from tidegauge.spec.published.replication35.rules import Replication35Rules, elected
from tidegauge.spec.published.replication35.state import (
    CONTROLLER,
    OFFLINE,
    Fetcher,
    Metadata,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    Replica,
    Role,
    State,
    Status,
    fetches_of,
)
from tidegauge.spec.published.replication35.updates import forgetful


@attrs.frozen
class BrokerStart(Replication35Action):
    """A broker that is down starts, and registers."""

    broker: int

    def guard(self, machine: Replication35Rules, state: State) -> str:
        return "" if state.brokers[self.broker].status in OFFLINE else "the broker is down"

    def effect(self, machine: Replication35Rules, state: State) -> State:
        incarnation = state.next_incarnation
        broker = evolve(state.brokers[self.broker], status=Status.STARTING, incarnation=incarnation)
        after = evolve(state.with_broker(self.broker, broker), next_incarnation=incarnation + 1)
        return after.sent(RegisterBrokerRequest(self.broker, CONTROLLER, incarnation))


@attrs.frozen
class Shutdown(Replication35Action):
    """A broker stops, and the controller fences it; `leader` is who leads then."""

    fair: ClassVar[bool] = False

    broker: int
    leader: int

    status: ClassVar[Status]

    def lacks(self, machine: Replication35Rules, state: State) -> str:
        """What is missing but for what every shutdown needs."""
        raise NotImplementedError

    def counted(self, state: State) -> State:
        """With the shutdown counted."""
        raise NotImplementedError

    def guard(self, machine: Replication35Rules, state: State) -> str:
        if missing := self.lacks(machine, state):
            return missing
        if state.brokers[self.broker].status in OFFLINE:
            return "the broker is up"
        return "" if self.leader in machine.leaders_once_fenced(state, self.broker) else "that one may lead"

    def effect(self, machine: Replication35Rules, state: State) -> State:
        was_leader = state.brokers[self.broker].replica.role == Role.LEADER
        after = machine.given_up(state, self.broker) if was_leader else state
        after = with_sessions_dropped(after, self.broker)
        broker = evolve(
            after.brokers[self.broker],
            status=self.status,
            broker_epoch=0,
            incarnation=0,
            replica=self.stopped(after.brokers[self.broker].replica, state),
        )
        return self.counted(fenced(machine, after.with_broker(self.broker, broker), self.broker, self.leader))

    def stopped(self, replica: Replica, state: State) -> Replica:
        """The replica of the broker that is down. Where its leader epoch began stays known in a clean shutdown."""
        return evolve(forgetful(replica), epoch_start=replica.epoch_start)


@attrs.frozen
class CleanShutdown(Shutdown):
    """A broker stops, and keeps its log."""

    status = Status.OFFLINE_CLEAN

    def lacks(self, machine: Replication35Rules, state: State) -> str:
        return "" if state.clean_shutdowns < machine.max_clean_shutdowns else "clean shutdowns are left"

    def counted(self, state: State) -> State:
        return evolve(state, clean_shutdowns=state.clean_shutdowns + 1)


@attrs.frozen
class UncleanShutdown(Shutdown):
    """A broker crashes, and loses its whole log."""

    status = Status.OFFLINE_DIRTY

    def lacks(self, machine: Replication35Rules, state: State) -> str:
        if state.unclean_shutdowns >= machine.max_unclean_shutdowns:
            return "unclean shutdowns are left"
        return "" if machine.may_crash(state, self.broker) else "it is not the last member of the ISR"

    def counted(self, state: State) -> State:
        return evolve(state, unclean_shutdowns=state.unclean_shutdowns + 1)

    def stopped(self, replica: Replica, state: State) -> Replica:
        return evolve(forgetful(replica), log=(), hw=0)


def with_sessions_dropped(state: State, broker: int) -> State:
    """DropFetchSessions: what is on its way by the broker's connections is lost, and who waits for it knows."""
    for message in fetches_of(state.messages, broker):
        state = state.received(message)
    for number, each in enumerate(state.brokers):
        fetcher = each.fetchers[broker]
        if number == broker:
            state = state.with_broker(number, evolve(each, fetchers=(Fetcher(),) * len(each.fetchers)))
        elif fetcher.is_pending:
            partition = fetcher.partition and evolve(fetcher.partition, is_delayed=True)
            state = state.with_broker(number, each.with_fetcher(broker, Fetcher(partition)))
    return state


@attrs.frozen
class ReceiveBrokerRegRequest(Receive[RegisterBrokerRequest]):
    """The controller gives a broker the next broker epoch, and unfences it; `leader` is who leads then."""

    message: RegisterBrokerRequest
    leader: int
    takes = RegisterBrokerRequest

    def lacks(self, machine: Replication35Rules, state: State) -> str:
        registration = state.registrations[self.message.source]
        if not registration.is_fenced and registration.incarnation != self.message.incarnation:
            return "no other incarnation of the broker is unfenced"
        may = self.leader in machine.leaders_once_unfenced(state, self.message.source)
        return "" if may else "that one may lead"

    def effect(self, machine: Replication35Rules, state: State) -> State:
        broker, incarnation, epoch = self.message.source, self.message.incarnation, state.last_broker_epoch + 1
        registration = evolve(state.registrations[broker], is_fenced=False, broker_epoch=epoch, incarnation=incarnation)
        response = RegisterBrokerResponse(CONTROLLER, broker, incarnation, epoch, len(state.metadata_log))
        after = state.with_registration(broker, registration).received(self.message).sent(response)
        after = after.with_partition(elected(state.partition, self.leader, state.partition.isr))
        return evolve(after, last_broker_epoch=epoch)


@attrs.frozen
class ReceiveBrokerRegResponse(Receive[RegisterBrokerResponse]):
    """A broker runs, and knows all of the metadata log but for the last record at its registration."""

    message: RegisterBrokerResponse
    takes = RegisterBrokerResponse

    def lacks(self, machine: Replication35Rules, state: State) -> str:
        own = self.receiver(state)
        is_own = own.status == Status.STARTING and own.incarnation == self.message.incarnation
        return "" if is_own else "that incarnation of the broker starts"

    def effect(self, machine: Replication35Rules, state: State) -> State:
        own = self.receiver(state)
        broker = evolve(
            own,
            status=Status.RUNNING,
            broker_epoch=self.message.broker_epoch,
            metadata_log=machine.metadata_log(state, max(0, self.message.metadata_offset - 1)),
            replica=evolve(own.replica, metadata=Metadata()),
        )
        return state.received(self.message).with_broker(self.message.dest, broker)

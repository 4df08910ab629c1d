"""The actions of the published model of replication 3.5 (see `spec.published.replication35.machine`): records, fetches.

A guard returns what is missing, or "" when the action may happen. `control` has those of the controller and of what it
decides, `lifecycle` those of brokers that start and stop.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedAction
from tidegauge.spec.published.replication35.rules import Replication35Rules, fetched_from
from tidegauge.spec.published.replication35.state import (
    NOT_DIVERGING,
    UNKNOWN,
    Broker,
    Fetcher,
    FetchRequest,
    FetchResponse,
    FetchState,
    Follower,
    Message,
    Record,
    Replica,
    Role,
    State,
    Status,
    Write,
    is_among,
)

M = TypeVar("M", bound=Message)


@attrs.frozen
class Replication35Action(GuardedAction[Replication35Rules, State]):
    """An action of the model: one guard, one effect."""


@attrs.frozen
class Receive(Replication35Action, Generic[M]):
    """A message arrives."""

    message: M

    takes: ClassVar[type[Message]]

    def guard(self, machine: Replication35Rules, state: State) -> str:
        if not isinstance(self.message, self.takes) or not is_among(state.messages, self.message):
            return f"a {self.takes.__name__} is on its way"
        return self.lacks(machine, state)

    def lacks(self, machine: Replication35Rules, state: State) -> str:
        """What is missing, where the message is on its way."""
        raise NotImplementedError

    def receiver(self, state: State) -> Broker:
        """The broker that it arrives at."""
        return state.brokers[self.message.dest]


@attrs.frozen
class WriteRecordToLeader(Replication35Action):
    """A leader with enough members of the ISR appends a producer's value; each value is sent once."""

    fair: ClassVar[bool] = False

    broker: int
    value: int

    def guard(self, machine: Replication35Rules, state: State) -> str:
        broker = state.brokers[self.broker]
        if state.writes[self.value] != Write.UNSENT:
            return "the value was not sent before"
        if broker.status != Status.RUNNING or broker.replica.role != Role.LEADER:
            return "the broker runs, and leads"
        has_enough = len(broker.replica.metadata.maximal_isr) >= machine.min_isr
        return "" if has_enough else "the maximal ISR is large enough"

    def effect(self, machine: Replication35Rules, state: State) -> State:
        before = state.brokers[self.broker].replica
        hw = machine.committed(self.broker, before, before.metadata.maximal_isr, before.end + 1)
        replica = evolve(
            before,
            log=(*before.log, Record(before.metadata.leader_epoch, self.value)),
            unacked_from=before.end if before.unacked_from == UNKNOWN else before.unacked_from,
        )
        writes = [*state.writes]
        writes[self.value] = Write.SENT
        written = evolve(state.with_replica(self.broker, replica), writes=tuple(writes))
        return machine.advanced(written, self.broker, hw)


@attrs.frozen
class SendFetchRequest(Replication35Action):
    """A follower that waits for no response fetches from the leader."""

    broker: int
    leader: int

    def guard(self, machine: Replication35Rules, state: State) -> str:
        own = state.brokers[self.broker]
        if self.broker == self.leader or own.status != Status.RUNNING or own.replica.metadata.leader != self.leader:
            return "the broker runs, and knows that leader"
        fetcher = own.fetchers[self.leader]
        if fetcher.partition is None or fetcher.is_pending:
            return "the fetcher has the partition, and waits for no response"
        return "" if machine.needs_fetch(state, self.leader, self.broker) else "there is something to fetch, or to tell"

    def effect(self, machine: Replication35Rules, state: State) -> State:
        own = state.brokers[self.broker]
        partition = own.fetchers[self.leader].partition
        assert partition is not None
        request = FetchRequest(
            self.broker,
            self.leader,
            own.broker_epoch,
            own.replica.metadata.leader_epoch,
            partition.fetch_offset,
            partition.last_fetched_epoch,
        )
        fetcher = Fetcher(evolve(partition, is_delayed=False), is_pending=True)
        return state.sent(request).with_broker(self.broker, own.with_fetcher(self.leader, fetcher))


@attrs.frozen
class ReceiveFetchRequest(Receive[FetchRequest]):
    """A leader gives the record, or none, tells where the logs diverge, or refuses; it may commit."""

    message: FetchRequest
    takes = FetchRequest

    def lacks(self, machine: Replication35Rules, state: State) -> str:
        return "" if self.receiver(state).status == Status.RUNNING else "the broker runs"

    def effect(self, machine: Replication35Rules, state: State) -> State:
        request, replica = self.message, self.receiver(state).replica
        response = FetchResponse(
            request.dest, request.source, replica.metadata.leader_epoch, request.fetch_offset, replica.hw
        )
        after = state.received(request)
        if error := machine.fetch_error(replica, request):
            return after.sent(evolve(response, error=error))
        end = machine.end_of_epoch(replica, request.last_fetched_epoch)
        if machine.is_diverging(end, request):
            return after.sent(evolve(response, diverging=end))
        followers = [*replica.followers]
        followers[request.source] = Follower(request.fetch_offset, request.broker_epoch)
        leader = evolve(replica, followers=tuple(followers))
        hw = machine.committed(request.dest, leader, leader.metadata.maximal_isr)
        after = machine.advanced(after.with_replica(request.dest, leader), request.dest, hw)
        records = replica.log[request.fetch_offset : request.fetch_offset + 1]
        return after.sent(evolve(response, hw=max(hw, replica.hw), records=records))


@attrs.frozen
class ReceiveFetchResponse(Receive[FetchResponse]):
    """A follower appends the record, truncates its log, or waits; what it does not expect it lets be."""

    message: FetchResponse
    takes = FetchResponse

    def lacks(self, machine: Replication35Rules, state: State) -> str:
        own = self.receiver(state)
        is_awaited = own.status == Status.RUNNING and own.fetchers[self.message.source].is_pending
        return "" if is_awaited else "the broker runs, and the fetcher waits for a response"

    def effect(self, machine: Replication35Rules, state: State) -> State:
        response, own = self.message, self.receiver(state)
        replica, partition = own.replica, own.fetchers[response.source].partition
        if (
            partition is not None
            and partition.fetch_offset == response.fetch_offset
            and replica.metadata.leader_epoch == response.leader_epoch
        ):
            if response.error:
                partition = evolve(partition, is_delayed=True)
            else:
                replica = self._replicated(machine, replica)
                partition = FetchState(*fetched_from(replica))
        own = evolve(own.with_fetcher(response.source, Fetcher(partition)), replica=replica)
        return state.received(response).with_broker(response.dest, own)

    def _replicated(self, machine: Replication35Rules, replica: Replica) -> Replica:
        response = self.message
        if response.diverging != NOT_DIVERGING:
            return evolve(replica, log=replica.log[: machine.truncation_offset(replica, response.diverging)])
        log = replica.log + response.records
        return evolve(replica, log=log, hw=response.hw if response.hw <= len(log) else replica.hw)

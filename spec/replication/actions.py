"""How records get into a replicated partition: append, fetch, high watermark, truncation.

A guard returns what forbids the action, or nothing when it may happen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, ClassVar, Self

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import EnumeratedAction, Refusal
from tidegauge.spec.kernel.near_misses import epochs_around, with_epochs_around
from tidegauge.spec.replication.rules import ReplicationRules, not_acting
from tidegauge.spec.replication.state import (
    NONE,
    Acks,
    AlterPartitionRequest,
    BrokerId,
    Error,
    FetchRequest,
    FetchResponse,
    Record,
    State,
    has_asked,
    received,
    sent,
    with_all,
)


@attrs.frozen
class ReplicationAction(EnumeratedAction[ReplicationRules, State]):
    """An action of the replication machine: one guard, one effect."""


@attrs.frozen
class BrokerAction(ReplicationAction):
    """An action of one broker."""

    broker: BrokerId

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[BrokerAction]:
        return _of_each(cls, machine.brokers)


@cache
def _of_each(kind: type[BrokerAction], brokers: int) -> tuple[BrokerAction, ...]:
    """The action of each broker: they are the same in every state."""
    return tuple(kind(broker) for broker in range(brokers))


def not_leading(state: State, broker: int) -> str:
    """Why a broker refuses what only a leader does."""
    return not_acting(state, broker) or ("" if state.replicas[broker].leader == broker else refusal_of_follower(broker))


@cache
def refusal_of_follower(broker: int) -> Refusal:
    return Refusal(f"broker {broker} does not think it leads", Error.NOT_LEADER_OR_FOLLOWER)


# --- produce and fetch ---------------------------------------------------------------------------------------------


@attrs.frozen
class Append(ReplicationAction):
    """A broker that thinks it leads appends a producer's next record."""

    fair: ClassVar[bool] = False

    broker: BrokerId
    acks: Acks = Acks.ALL

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Append]:
        return _appends(cls, machine.brokers, machine.acks)

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if len(state.history.acks) >= machine.max_records:
            return f"all {machine.max_records} records are used"
        if leading := not_leading(state, self.broker):
            return leading
        required = machine.required_insync(state.replicas[self.broker])
        if self.acks is Acks.ALL and len(state.replicas[self.broker].isr) < required:
            return below_min_insync(self.broker, required)
        return ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = state.replicas[self.broker]
        record = Record(replica.leader_epoch, len(state.history.acks))
        history = evolve(state.history, acks=(*state.history.acks, self.acks))
        state = evolve(state, history=history)
        state = state.with_replica(self.broker, evolve(replica, log=(*replica.log, record)))
        return advance_high_watermark(machine, state, self.broker)


@cache
def _appends(kind: type[Append], brokers: int, acks: tuple[Acks, ...]) -> tuple[Append, ...]:
    """The appends of each broker: they are the same in every state."""
    return tuple(kind(broker, one) for broker in range(brokers) for one in acks)


@cache
def below_min_insync(broker: int, required: int) -> Refusal:
    return Refusal(f"broker {broker} has fewer than {required} replicas in sync", Error.NOT_ENOUGH_REPLICAS)


def advance_high_watermark(machine: ReplicationRules, state: State, broker: int) -> State:
    """The leader moves its high watermark as far as the rule lets it; what passes below is promised to clients."""
    leader = state.replicas[broker]
    high_watermark = machine.next_high_watermark(leader, broker)
    if high_watermark == leader.high_watermark:
        return state
    leader = evolve(leader, high_watermark=high_watermark)
    state = state.with_replica(broker, leader)
    history = state.history
    if leader.leader_epoch < history.superseded_epoch:
        return state
    shown = leader.log[:high_watermark]
    if len(shown) > len(history.committed) and shown[: len(history.committed)] == history.committed:
        history = evolve(history, committed=shown)
    if len(leader.isr) < machine.required_insync(leader):
        return evolve(state, history=history)
    acknowledged = {r.value for r in shown if r.epoch == leader.leader_epoch and history.acks[r.value] is Acks.ALL}
    if not acknowledged <= set(history.acknowledged):
        history = evolve(history, acknowledged=tuple(sorted(acknowledged.union(history.acknowledged))))
    return evolve(state, history=history)


@attrs.frozen
class SendFetch(BrokerAction):
    """A follower asks its leader for the next records; one request at a time in an epoch."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        if replica.leader in (NONE, self.broker):
            return f"broker {self.broker} follows nobody"
        if has_asked(replica.outstanding, replica.leader_epoch):
            return f"broker {self.broker} is still waiting for a response"
        if not state.replicas[replica.leader].running:
            return f"broker {replica.leader} is down"
        return not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = machine.before_fetch(state.replicas[self.broker])
        request = machine.fetch_request(replica, self.broker)
        state = state.with_replica(self.broker, evolve(replica, outstanding=with_all(replica.outstanding, (request,))))
        return on_network(state, fetches=sent(state.network.fetches, request))


def on_network(state: State, **changes: Any) -> State:
    return state.with_network(evolve(state.network, **changes))


@attrs.frozen
class ReceiveFetch(ReplicationAction):
    """A fetch reaches the leader, which responds with at most `records` records; a duplicate may stay on its way."""

    bounded_as: ClassVar[str] = "DuplicateFetch"

    request: FetchRequest
    records: int = 1
    duplicate: bool = False

    @classmethod
    def is_possible(cls, machine: ReplicationRules) -> bool:
        return True

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        duplicates = (False, True) if machine.may_perturb(state, cls.bounded_as) else (False,)
        return [cls(request, 1, duplicate) for request in state.network.fetches for duplicate in duplicates]

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if self.request not in state.network.fetches:
            return self.not_on_its_way(machine, state)
        if self.duplicate and not machine.may_perturb(state, self.bounded_as):
            return "no more duplicates in this model"
        if self.records < 0:
            return f"no response has {self.records} records"
        return not_acting(state, self.request.leader)

    def not_on_its_way(self, machine: ReplicationRules, state: State) -> str:
        """Any process may send a fetch; only one that is refused changes nothing."""
        request = self.request
        if reason := not_acting(state, request.leader):
            return reason
        if error := machine.fetch_error(state.replicas[request.leader], request.leader, request):
            return Refusal(f"broker {request.leader} does not serve {request}", error)
        return f"no such fetch is on its way: {request}"

    @classmethod
    def attempts(cls, machine: ReplicationRules, state: State) -> Iterator[Self]:
        """Fetches that would move the high watermark: of other epochs, of former processes, of no replica at all."""
        for broker, leader in enumerate(state.replicas):
            for follower in range(machine.brokers + 1):
                known = leader.remote[follower].broker_epoch if follower < len(leader.remote) else 0
                fetch = FetchRequest(
                    follower, broker, leader.leader_epoch, leader.log_end_offset, leader.last_epoch, known
                )
                if follower != broker and leader.leader == broker:
                    yield from map(cls, with_epochs_around(fetch, "leader_epoch", "broker_epoch"))
                elif follower != broker:
                    yield cls(fetch)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        state, response = fetched(machine, state, self.request, self.records)
        network = state.network
        if self.duplicate:
            state = state.spend(self.bounded_as)
        else:
            network = evolve(network, fetches=received(network.fetches, self.request))
        if self.request in state.replicas[self.request.follower].outstanding:
            network = evolve(network, fetch_responses=sent(network.fetch_responses, response))
        return state.with_network(network)


@attrs.frozen
class HoldFetch(ReplicationAction):
    """A long poll: the leader has recorded a fetch that finds nothing new, and will respond to it later."""

    request: FetchRequest

    @classmethod
    def is_possible(cls, machine: ReplicationRules) -> bool:
        return machine.long_polls

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return [cls(request) for request in state.network.fetches] if machine.long_polls else ()

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if self.request not in state.network.fetches:
            return f"no such fetch is on its way: {self.request}"
        if acting := not_acting(state, self.request.leader):
            return acting
        after, response = fetched(machine, state, self.request, 1)
        if response.error or response.records or response.diverging_end_offset != NONE:
            return "there is something to respond with"
        return "" if after != state else "the leader has already recorded this fetch"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return fetched(machine, state, self.request, 1)[0]


def fetched(
    machine: ReplicationRules, state: State, request: FetchRequest, records: int
) -> tuple[State, FetchResponse]:
    """The leader's side of a fetch: fencing, divergence, what it learns of the follower, and its response."""
    broker = request.leader
    leader = state.replicas[broker]
    if error := machine.fetch_error(leader, broker, request):
        return state, machine.refusal(leader, request, error)
    if diverging := machine.diverging_epoch(leader, request):
        return state, machine.divergence(leader, request, *diverging)
    if machine.may_update_follower(leader, request):
        state = recorded(machine, state, request)
    leader = state.replicas[broker]
    return state, machine.served(leader, request, leader.log[request.offset : request.offset + records])


def recorded(machine: ReplicationRules, state: State, request: FetchRequest) -> State:
    """The leader learns how far a follower is: it may join the ISR, and the high watermark may move."""
    broker = request.leader
    leader = state.replicas[broker]
    follower = machine.remote_replica(request)
    remote = (*leader.remote[: request.follower], follower, *leader.remote[request.follower + 1 :])
    leader = evolve(leader, remote=remote)
    state = state.with_replica(broker, leader)
    joining = request.follower not in leader.maximal_isr and not leader.pending_isr
    if joining and machine.may_join_isr(leader, request.follower):
        state = propose_isr(machine, state, broker, tuple(sorted((*leader.isr, request.follower))))
    return advance_high_watermark(machine, state, broker)


def propose_isr(machine: ReplicationRules, state: State, broker: int, isr: tuple[int, ...]) -> State:
    """The leader asks the controller for a new ISR, and waits for the larger of both until it knows the outcome."""
    leader = evolve(state.replicas[broker], pending_isr=isr)
    request = AlterPartitionRequest(
        broker,
        leader.broker_epoch,
        leader.leader_epoch,
        leader.partition_epoch,
        machine.isr_with_broker_epochs(leader, broker, isr),
    )
    state = state.with_replica(broker, leader)
    return on_network(state, alters=sent(state.network.alters, request))


@attrs.frozen
class ReceiveFetchResponse(ReplicationAction):
    """A response reaches the follower that waits for it: it truncates, or appends and learns the high watermark."""

    response: FetchResponse

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return [cls(response) for response in state.network.fetch_responses]

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if self.response not in state.network.fetch_responses:
            return self.not_on_its_way(machine, state)
        return not_acting(state, self.response.request.follower)

    def not_on_its_way(self, machine: ReplicationRules, state: State) -> str:
        """A response to a fetch of another epoch, or from another offset, may be late: it is ignored."""
        broker = self.response.request.follower
        if reason := not_acting(state, broker):
            return reason
        if not machine.accepts_fetch_response(state.replicas[broker], self.response):
            return Refusal(f"broker {broker} has not asked for {self.response}", Error.OK)
        return f"no such response is on its way: {self.response}"

    @classmethod
    def attempts(cls, machine: ReplicationRules, state: State) -> Iterator[Self]:
        """Responses that would have a follower give up its log."""
        for broker, follower in enumerate(state.replicas):
            if follower.leader not in (NONE, broker):
                for leader_epoch in epochs_around(follower.leader_epoch):
                    for offset in epochs_around(follower.log_end_offset):
                        request = machine.fetch_request(follower, broker)
                        request = evolve(request, leader_epoch=leader_epoch, offset=offset)
                        yield cls(FetchResponse(request, diverging_epoch=0, diverging_end_offset=0))

    def effect(self, machine: ReplicationRules, state: State) -> State:
        response, broker = self.response, self.response.request.follower
        state = on_network(state, fetch_responses=received(state.network.fetch_responses, response))
        follower = state.replicas[broker]
        waiting = received(follower.outstanding, response.request)
        if waiting == follower.outstanding:
            return state
        accepted = machine.accepts_fetch_response(follower, response)
        follower = evolve(follower, outstanding=waiting)
        return state.with_replica(broker, machine.after_response(follower, response) if accepted else follower)

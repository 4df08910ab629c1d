"""Messages of processes that have died, which arrive all the same.

Theory of operation
-------------------
When a process dies its connections end, and the machine without this extension takes what was on them for lost. But
what it had sent may be at its destination already, in a buffer or in a queue, and be handled later: after the broker's
next process has registered, fetched, or joined the ISR. So each process leaves behind (`LeftBehind`) what was on its
way when it died, and any of that may arrive once more. A heartbeat leaves nothing behind: one of every former process
may arrive.

Four checks hold this off, and without late messages no state would show that one is missing: only the latest of a
follower's processes counts at its leader (KIP-903), a proposal names the process that makes it, a heartbeat counts if
the registered process has sent it, and a response counts if it is to this fetch of this epoch.

How often something arrives late is bounded, by `ArriveLate` for all of them together.

Why the machine itself has none of it: what is left behind is state, which every model with a crash would have, and with
it three times as many states (`late-messages`: 27,641 instead of 8,765), for the sake of four checks. Traces of
campaigns are validated against the machine with it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Self, TypeVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.kernel.parts import Part, with_part
from tidegauge.spec.replication.actions import ReplicationAction, on_network
from tidegauge.spec.replication.control import committed
from tidegauge.spec.replication.convergence import acting_leader, living
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.faults import with_session
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import (
    NONE,
    AlterPartitionRequest,
    BrokerId,
    FetchRequest,
    FetchResponse,
    PartitionMetadata,
    Replica,
    State,
    received,
    sent,
    with_all,
)

M = TypeVar("M", FetchRequest, FetchResponse, AlterPartitionRequest)

# --- state -----------------------------------------------------------------------------------------------------------


@attrs.frozen
class LeftBehind(Part):
    """Of a replica: what former processes of its broker have sent, and nobody has received; each kind sorted."""

    fetches: tuple[FetchRequest, ...] = ()
    responses: tuple[FetchResponse, ...] = ()
    proposals: tuple[AlterPartitionRequest, ...] = ()

    def without_receiver(self, broker: int) -> LeftBehind:
        """What is left when a process that was to receive some of it has died as well."""
        return LeftBehind(
            tuple(m for m in self.fetches if m.leader != broker),
            tuple(m for m in self.responses if m.request.follower != broker),
            self.proposals,
        )


# --- actions ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class LateArrival(ReplicationAction):
    """Something arrives of a process that has died."""

    bounded_as: ClassVar[str] = "ArriveLate"

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "nothing more arrives late in this model"
        return self.not_left(machine, state)

    @abstractmethod
    def not_left(self, machine: ReplicationRules, state: State) -> str:
        """Why it is not on its way; empty if it is."""

    def spent(self, machine: ReplicationRules, state: State) -> State:
        """The state when it has arrived; what can no longer arrive is forgotten."""
        state = state.spend(self.bounded_as)
        if not machine.may_perturb(state, self.bounded_as):
            for broker, replica in enumerate(state.replicas):
                state = state.with_replica(broker, with_part(replica, LeftBehind()))
        return state


@attrs.frozen
class FetchArrivesLate(LateArrival):
    """A fetch of a former process is on its way to its leader again."""

    request: FetchRequest

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return [cls(request) for replica in state.replicas for request in LeftBehind.of(replica).fetches]

    def not_left(self, machine: ReplicationRules, state: State) -> str:
        left = LeftBehind.of(state.replicas[self.request.follower]).fetches
        return "" if self.request in left else f"nobody has left {self.request} behind"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        broker = self.request.follower
        left = LeftBehind.of(state.replicas[broker])
        left = evolve(left, fetches=received(left.fetches, self.request))
        state = state.with_replica(broker, with_part(state.replicas[broker], left))
        return self.spent(machine, on_network(state, fetches=sent(state.network.fetches, self.request)))


@attrs.frozen
class ProposalArrivesLate(LateArrival):
    """A former process's proposal of an ISR is on its way to the controller again."""

    request: AlterPartitionRequest

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return [cls(request) for replica in state.replicas for request in LeftBehind.of(replica).proposals]

    def not_left(self, machine: ReplicationRules, state: State) -> str:
        left = LeftBehind.of(state.replicas[self.request.leader]).proposals
        return "" if self.request in left else f"nobody has left {self.request} behind"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        broker = self.request.leader
        left = LeftBehind.of(state.replicas[broker])
        left = evolve(left, proposals=received(left.proposals, self.request))
        state = state.with_replica(broker, with_part(state.replicas[broker], left))
        return self.spent(machine, on_network(state, alters=sent(state.network.alters, self.request)))


@attrs.frozen
class ResponseArrivesLate(LateArrival):
    """The response of a leader that has died is on its way still, and the process that fetched still waits for it."""

    response: FetchResponse

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        return [cls(response) for replica in state.replicas for response in LeftBehind.of(replica).responses]

    def not_left(self, machine: ReplicationRules, state: State) -> str:
        request = self.response.request
        if self.response not in LeftBehind.of(state.replicas[request.leader]).responses:
            return f"nobody has left {self.response} behind"
        follower = state.replicas[request.follower]
        if not follower.running or follower.broker_epoch != request.broker_epoch:
            return f"another process of broker {request.follower} has fetched"
        return f"broker {request.follower} waits for it" if request in follower.outstanding else ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        request = self.response.request
        left = LeftBehind.of(state.replicas[request.leader])
        left = evolve(left, responses=received(left.responses, self.response))
        state = state.with_replica(request.leader, with_part(state.replicas[request.leader], left))
        follower = state.replicas[request.follower]
        waiting = evolve(follower, outstanding=with_all(follower.outstanding, (request,)))
        state = state.with_replica(request.follower, waiting)
        return self.spent(
            machine, on_network(state, fetch_responses=sent(state.network.fetch_responses, self.response))
        )


@attrs.frozen
class HeartbeatArrivesLate(LateArrival):
    """A heartbeat of a former process reaches the controller: that process had the metadata of its time."""

    broker: BrokerId
    broker_epoch: int

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        sessions = enumerate(state.controller.sessions)
        return [cls(broker, session.broker_epoch - 1) for broker, session in sessions if session.fenced]

    def not_left(self, machine: ReplicationRules, state: State) -> str:
        session = state.controller.sessions[self.broker]
        if self.broker_epoch < 0 or self.broker_epoch != session.broker_epoch - 1:
            return f"broker {self.broker} has had no process just before with broker epoch {self.broker_epoch}"
        if not session.fenced:
            return f"broker {self.broker} is not fenced: a heartbeat changes nothing"
        return machine.not_unfenced(state.controller, state.replicas[self.broker], self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        state, controller = self.spent(machine, state), state.controller
        session = controller.sessions[self.broker]
        if machine.heartbeat_error(controller, self.broker, self.broker_epoch):
            return state
        unfenced = with_session(controller, self.broker, evolve(session, fenced=False))
        controller, unclean = machine.with_leader(unfenced)
        return committed(state, controller, unclean=unclean)


# --- the extension ---------------------------------------------------------------------------------------------------


@attrs.frozen
class LateMessages(ReplicationExtension):
    """What processes that have died had sent may arrive."""

    action_types: ClassVar[tuple[type[Action], ...]] = (
        FetchArrivesLate,
        ProposalArrivesLate,
        ResponseArrivesLate,
        HeartbeatArrivesLate,
    )
    part_types: ClassVar[tuple[type[Part], ...]] = (LeftBehind,)
    leader_stays: ClassVar[frozenset[str]] = frozenset({"ArriveLate"})

    def step_invariants(self, machine: ReplicationRules) -> Mapping[str, StepInvariant[State]]:
        return {"UnfencedHasCaughtUp": unfenced_has_caught_up}

    def goals(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        if not machine.bounds[LateArrival.bounded_as]:
            return {}
        return {
            "a fetch of a former process is on its way": lambda s: any(
                request.broker_epoch < s.controller.sessions[request.follower].broker_epoch
                for request in s.network.fetches
            )
        }

    def converges(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        def live_process_counts(state: State) -> bool:
            leader = acting_leader(machine, state)
            return leader is None or all(
                state.replicas[leader].remote[broker].broker_epoch == state.replicas[broker].broker_epoch
                for broker in living(machine, state)
                if broker != leader
            )

        return {
            "of a live follower the process counts that lives": live_process_counts,
            "nothing of a former process is on its way": nothing_of_the_dead,
        }

    # --- rules -------------------------------------------------------------------------------------------------------

    def cut_off(
        self, machine: ReplicationRules, inner: Callable[[State, int], State], state: State, broker: int
    ) -> State:
        """What the process has sent may still arrive; what was sent to it may not."""
        after = inner(state, broker)
        if not machine.may_perturb(state, LateArrival.bounded_as):
            return after
        for other, replica in enumerate(after.replicas):
            after = after.with_replica(other, with_part(replica, LeftBehind.of(replica).without_receiver(broker)))
        network, before = state.network, LeftBehind.of(after.replicas[broker])
        left = LeftBehind(
            _united(before.fetches, (m for m in network.fetches if m.follower == broker)),
            _united(before.responses, (m for m in network.fetch_responses if m.request.leader == broker)),
            _united(before.proposals, (m for m in network.alters if m.leader == broker)),
        )
        return after.with_replica(broker, with_part(after.replicas[broker], left))

    def survivor(
        self, machine: ReplicationRules, inner: Callable[[Replica, int], Replica], replica: Replica, kept: int
    ) -> Replica:
        """What was sent does not end with the process."""
        return with_part(inner(replica, kept), LeftBehind.of(replica))

    def metadata_applied(
        self,
        machine: ReplicationRules,
        inner: Callable[[State, int, Replica, PartitionMetadata], State],
        state: State,
        broker: int,
        replica: Replica,
        metadata: PartitionMetadata,
    ) -> State:
        """Nor with the replica, when it is deleted."""
        after = inner(state, broker, replica, metadata)
        return after.with_replica(broker, with_part(after.replicas[broker], LeftBehind.of(replica)))


def nothing_of_the_dead(state: State) -> bool:
    """Whether all messages are those of processes that live; nothing is received of who is down."""
    replicas = state.replicas
    fetches = (
        request.broker_epoch == replicas[request.follower].broker_epoch
        for request in state.network.fetches
        if replicas[request.leader].running
    )
    proposals = (request.broker_epoch == replicas[request.leader].broker_epoch for request in state.network.alters)
    return all(fetches) and all(proposals)


def _united(before: tuple[M, ...], more: Iterable[M]) -> tuple[M, ...]:
    known: set[M] = set(before)
    return tuple(sorted(known.union(more)))


def unfenced_has_caught_up(before: State, action: Action, after: State) -> bool:
    """A process is unfenced when it has the metadata since its registration, and not before (KIP-631)."""
    sessions = zip(before.controller.sessions, after.controller.sessions, after.replicas, strict=True)
    return all(
        replica.leader_epoch != NONE
        for old, new, replica in sessions
        if old.fenced and not new.fenced and replica.running and replica.broker_epoch == new.broker_epoch
    )

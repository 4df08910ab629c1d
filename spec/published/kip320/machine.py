"""The published model of KIP-320: one partition, atomic fetches, and a controller that talks by LeaderAndIsr requests.

A port of Jason Gustafson's TLA+ specification (github.com/hachikuji/kafka-specification, module Kip320), rule by rule
and under its names, so that this explorer can be held against TLC: same states, same levels, same shortest
counterexamples. Its simplifications are therefore kept as they are. Our own machine is `spec.replication`.

Theory of operation
-------------------
The *quorum* holds the true leader, leader epoch and in-sync replicas (ISR). The controller changes it by electing a
member of the ISR or by taking a failed replica out; each change raises the leader epoch and sends a LeaderAndIsr
request to all. A request may be late, come twice or never, and a replica obeys only one of a newer epoch than its own.
So several replicas may *presume* leadership at once.

A presumed leader accepts writes. Its followers copy its log record by record, and it raises its high watermark (HW)
when its own idea of the ISR has got past it. It may take laggards out of the ISR and let others in, but only while it
is the true leader in the current epoch.

What the KIPs changed is in the rules (`spec.published.kip320.rules`), which the actions
(`spec.published.kip320.actions`) ask for; a variant (`spec.published.kip320.variants`) overrides one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.each import holds_of_each
from tidegauge.spec.kernel.machine import Action, Invariant, check_processes
from tidegauge.spec.published.kip320 import actions as protocol
from tidegauge.spec.published.kip320.actions import Kip320Action
from tidegauge.spec.published.kip320.rules import Kip320Rules
from tidegauge.spec.published.kip320.state import NO_EPOCH, LeaderAndIsr, Log, Replica, State


@attrs.frozen
class Kip320(Kip320Rules):
    """The protocol after KIP-320; the fields of its rules are the constants of the TLA+ model."""

    action_base = Kip320Action
    action_types: ClassVar[tuple[type[Action], ...]] = (
        protocol.ControllerElectLeader,
        protocol.ControllerShrinkIsr,
        protocol.BecomeLeader,
        protocol.BecomeFollower,
        protocol.LeaderWrite,
        protocol.LeaderIncHighWatermark,
        protocol.LeaderShrinkIsr,
        protocol.LeaderExpandIsr,
        protocol.FollowerFetch,
    )

    # --- the machine -------------------------------------------------------------------------------------------------

    def initial(self) -> Iterable[State]:
        """No leader, no epoch, empty logs; the ISR is everyone. Raises ValueError for constants that fit no state."""
        check_processes("replicas", self.replicas)
        nobody = Replica((), 0, None, NO_EPOCH, frozenset())
        yield State((nobody,) * self.replicas, LeaderAndIsr(None, NO_EPOCH, frozenset(range(self.replicas))), (), 0)

    def candidates(self, state: State) -> list[Kip320Action]:
        """Actions whose guards are worth a look: the controller's, presumed leaders', and heeding newer requests."""
        found: list[Kip320Action] = []
        if state.quorum.leader_epoch < self.max_leader_epoch:
            found += controller_actions(self.replicas)
        for index, replica in enumerate(state.replicas):
            if replica.leader == index:
                found += leader_actions(index, self.replicas)
            for request in state.requests[replica.leader_epoch + 1 :]:
                if request.leader is not None:
                    found.append(becoming(index, request.leader, request.leader_epoch))
        return found

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        leaders = range(self.replicas)
        return {"WeakIsr": holds_of_each(leaders, weak_isr), "StrongIsr": holds_of_each(leaders, strong_isr)}

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        """What a search must have reached, as far as the constants let it: the places that the KIPs are about."""
        goals: dict[str, Invariant[State]] = {"the controller has elected": lambda s: s.quorum.leader is not None}
        if self.max_records and self.log_size:
            goals["a record is committed"] = lambda s: any(replica.hw for replica in s.replicas)
        if self.replicas > 1:
            goals["a leader is alone in the ISR"] = lambda s: s.quorum.leader is not None and len(s.quorum.isr) == 1
        if self.replicas > 1 and self.max_leader_epoch:
            goals["two replicas presume leadership"] = two_presume_leadership
            if self.max_records > 1 and self.log_size:
                goals["two logs have parted"] = two_logs_have_parted
        return goals

    def type_ok(self, state: State) -> bool:
        """TypeOk: every constant's bound is kept. Not among the invariants, for it costs as much as the other two."""
        everyone, epochs = frozenset(range(self.replicas)), range(NO_EPOCH, self.max_leader_epoch + 1)
        held: tuple[Replica | LeaderAndIsr, ...] = (*state.replicas, *state.requests, state.quorum)
        return (
            all(update.leader is None or update.leader in everyone for update in held)
            and all(update.leader_epoch in epochs and update.isr <= everyone for update in held)
            and all(replica.hw <= replica.end_offset <= self.log_size for replica in state.replicas)
            and 0 <= state.next_record_id <= self.max_records
            and [request.leader_epoch for request in state.requests] == [*range(state.quorum.leader_epoch + 1)]
        )

    def explain(self, invariant: str, state: State) -> Mapping[str, object]:
        """The presumed leader and the member of its ISR that disagree below the leader's HW, with their logs."""
        for leader, own in enumerate(state.replicas):
            isr = own.isr if invariant == "WeakIsr" else state.quorum.isr
            for member in sorted(isr):
                log = state.replicas[member].log
                if own.leader == leader and not agree_below(own.hw, own.log, log):
                    return {"leader": leader, "hw": own.hw, "log": own.log, "member": member, "member's log": log}
        return {}

    @property
    def interchangeable(self) -> int:
        return self.replicas

    def permute(self, state: State, permutation: tuple[int, ...]) -> State:
        replicas: list[Replica] = [*state.replicas]
        for index, replica in enumerate(state.replicas):
            replicas[permutation[index]] = renamed_replica(replica, permutation)
        requests = tuple([renamed(request, permutation) for request in state.requests])
        return State(tuple(replicas), renamed(state.quorum, permutation), requests, state.next_record_id)


# --- invariants ------------------------------------------------------------------------------------------------------


def weak_isr(leader: int, state: State) -> bool:
    """A presumed leader agrees with every member of its *own* ISR below its HW."""
    return not state.presumes_leadership(leader) or agrees_with_all(state, leader, state.replicas[leader].isr)


def strong_isr(leader: int, state: State) -> bool:
    """A presumed leader agrees with every member of the *quorum's* ISR below its HW: none of them, elected
    next, would lose what was committed."""
    return not state.presumes_leadership(leader) or agrees_with_all(state, leader, state.quorum.isr)


def agrees_with_all(state: State, leader: int, members: frozenset[int]) -> bool:
    own = state.replicas[leader]
    if own.hw:
        for member in members:
            if not agree_below(own.hw, own.log, state.replicas[member].log):
                return False
    return True


def two_presume_leadership(state: State) -> bool:
    """One of them is a zombie."""
    return sum(map(state.presumes_leadership, range(len(state.replicas)))) > 1


def two_logs_have_parted(state: State) -> bool:
    """Two replicas have different records at one offset: what truncation is there for."""
    return any(
        record != other
        for one, replica in enumerate(state.replicas)
        for following in state.replicas[one + 1 :]
        for record, other in zip(replica.log, following.log, strict=False)
    )


def agree_below(hw: int, log: Log, other: Log) -> bool:
    """Both logs reach up to the HW and hold the same records there."""
    return len(log) >= hw and log[:hw] == other[:hw]


def leader_in_isr(state: State) -> bool:
    """As published: false from the initial state on, since no leader is no member. Hence not among the invariants."""
    return state.quorum.leader in state.quorum.isr


# --- instances and renaming, each made once --------------------------------------------------------------------------


@cache
def controller_actions(replicas: int) -> tuple[Kip320Action, ...]:
    elections = [protocol.ControllerElectLeader(replica) for replica in range(replicas)]
    failures = [protocol.ControllerShrinkIsr(replica) for replica in range(replicas)]
    return (*elections, *failures)


@cache
def leader_actions(leader: int, replicas: int) -> tuple[Kip320Action, ...]:
    """What may happen because `leader` presumes leadership."""
    found: list[Kip320Action] = [protocol.LeaderWrite(leader), protocol.LeaderIncHighWatermark(leader)]
    for follower in range(replicas):
        if follower != leader:
            found.append(protocol.LeaderShrinkIsr(leader, follower))
            found.append(protocol.LeaderExpandIsr(leader, follower))
            found.append(protocol.FollowerFetch(follower, leader))
    return tuple(found)


@cache
def becoming(replica: int, leader: int, leader_epoch: int) -> Kip320Action:
    """What `replica` does with a request that makes `leader` leader."""
    if leader == replica:
        return protocol.BecomeLeader(leader_epoch)
    return protocol.BecomeFollower(replica, leader_epoch)


@cache
def renamed(update: LeaderAndIsr, permutation: tuple[int, ...]) -> LeaderAndIsr:
    leader = None if update.leader is None else permutation[update.leader]
    return LeaderAndIsr(leader, update.leader_epoch, frozenset([permutation[member] for member in update.isr]))


@cache
def renamed_replica(replica: Replica, permutation: tuple[int, ...]) -> Replica:
    leader = None if replica.leader is None else permutation[replica.leader]
    isr = frozenset([permutation[member] for member in replica.isr])
    return Replica(replica.log, replica.hw, leader, replica.leader_epoch, isr)

"""The published model of Kafka's replication as of version 3.5: one partition, its brokers, and the KRaft controller.

A port of Jack Vanlightly's TLA+ specification (github.com/Vanlightly/kafka-tlaplus, `kraft/v3.5`), rule by rule and
under its names, so that this explorer can be held against TLC: same states, same levels, same shortest counterexamples.
Its simplifications are therefore kept as they are.

Theory of operation
-------------------
The controller writes each change of the partition to the metadata log, and brokers learn of it in their own time. It
fences a broker that sends it nothing: that one leaves the ISR, unless it is the last member, and another member of
the ISR leads in the next leader epoch. Nobody leads while no member is unfenced.

Followers fetch one record at a time. Where the last record of a follower is none of the leader's, the leader tells
where the logs diverge, and the follower truncates its log. A leader commits what all of its maximal ISR have: the ISR,
and the one that it has proposed and has no response to. The controller takes a proposal of the leader alone, in the
present partition epoch, of members that are unfenced and run under the broker epochs that the leader knew (KIP-903).

A broker may crash and lose its whole log; it registers again under another broker epoch, and fetches all.
`spec.replication` is our own model of the same protocol, and goes on to later KIPs: a crash takes only what was not
flushed, and who may be elected then is in the ELR. Here a fetch is a request and a response, each on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, combinations
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.machine import Action, Invariant, check_processes
from tidegauge.spec.published.replication35 import actions as protocol
from tidegauge.spec.published.replication35 import control, lifecycle
from tidegauge.spec.published.replication35.actions import Replication35Action
from tidegauge.spec.published.replication35.rules import Replication35Rules
from tidegauge.spec.published.replication35.state import (
    CONTROLLER,
    NOBODY,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Broker,
    Brokers,
    Fetcher,
    FetchRequest,
    FetchResponse,
    FetchState,
    Follower,
    Message,
    Metadata,
    PartitionChange,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    Registration,
    Replica,
    Role,
    State,
    Status,
    Write,
    arriving_at,
)


@attrs.frozen
class Replication35(Replication35Rules):
    """Replication as of 3.5; the fields of its rules are the constants of the TLA+ model."""

    action_base = Replication35Action
    action_types: ClassVar[tuple[type[Action], ...]] = (
        lifecycle.BrokerStart,
        lifecycle.ReceiveBrokerRegRequest,
        lifecycle.ReceiveBrokerRegResponse,
        control.UnfenceBroker,
        control.FenceBroker,
        control.ReceiveMetadataUpdate,
        control.SendAlterPartitionRequest,
        control.ReceiveAlterPartitionRequest,
        control.ReceiveAlterPartitionResponse,
        control.PerformPartitionReassignment,
        protocol.SendFetchRequest,
        protocol.ReceiveFetchRequest,
        protocol.ReceiveFetchResponse,
        protocol.WriteRecordToLeader,
        lifecycle.UncleanShutdown,
        lifecycle.CleanShutdown,
    )

    def initial(self) -> Iterable[State]:
        """Broker 0 leads, and no log has a record. Raises ValueError for constants that fit no state."""
        check_processes("brokers", self.brokers)
        check_processes("values", self.values)
        self._check_sizes()
        replicas, isr = tuple(range(self.replication_factor)), tuple(range(self.initial_isr))
        change = PartitionChange(replicas, isr, 0, 1, 1 if replicas == isr else 2)
        current = Metadata(replicas, isr, isr, 0, 1, change.partition_epoch)
        stale = Metadata(replicas, replicas, replicas, 0, 1, 1)
        unknown = (Follower(),) * self.brokers
        brokers = []
        for number in range(self.brokers):
            is_replica, is_stale = number in replicas, number in replicas[self.initial_isr :]
            replica = Replica(unknown, metadata=Metadata() if not is_replica else stale if is_stale else current)
            if is_replica:
                replica = attrs.evolve(replica, role=Role.FOLLOWER if number else Role.LEADER)
            if number == 0:
                replica = attrs.evolve(replica, epoch_start=0)
            fetchers = [Fetcher(FetchState(0, 0) if number and not each else None) for each in range(self.brokers)]
            log = () if is_stale else (change,)
            brokers.append(Broker(Status.RUNNING, number + 1, number + 1, log, tuple(fetchers), replica))
        yield State(
            tuple(brokers),
            tuple(
                Registration(number in replicas[self.initial_isr :], number + 1, number + 1)
                for number in range(self.brokers)
            ),
            (change,),
            (Write.UNSENT,) * self.values,
            last_broker_epoch=self.brokers,
            next_incarnation=self.brokers + 1,
        )

    def _check_sizes(self) -> None:
        if not 1 <= self.min_isr <= self.initial_isr <= self.replication_factor <= self.brokers:
            sizes = (
                f"min_isr={self.min_isr}, initial_isr={self.initial_isr}, "
                f"replication_factor={self.replication_factor}, brokers={self.brokers}"
            )
            raise ValueError(f"{sizes}: each is at least 1, and at least as large as the one before")

    def candidates(self, state: State) -> list[Replication35Action]:
        """Actions whose guards are worth a look."""
        found: list[Replication35Action] = []
        for number in range(self.brokers):
            found += self._of_broker(state, number)
            for message in arriving_at(state.messages, number):
                found += receiving(message)
        for message in arriving_at(state.messages, CONTROLLER):
            if isinstance(message, RegisterBrokerRequest):
                leaders = self.leaders_once_unfenced(state, message.source)
                found += [lifecycle.ReceiveBrokerRegRequest(message, leader) for leader in leaders]
            elif isinstance(message, AlterPartitionRequest):
                leaders = control.leaders_with(self, state, message)
                found += [control.ReceiveAlterPartitionRequest(message, leader) for leader in leaders]
        return [*found, *self._reassignments(state)]

    def _of_broker(self, state: State, number: int) -> list[Replication35Action]:
        broker = state.brokers[number]
        fenced = self.leaders_once_fenced(state, number)
        found: list[Replication35Action] = [made(lifecycle.BrokerStart, number)]
        found += [made(control.UnfenceBroker, number, leader) for leader in self.leaders_once_unfenced(state, number)]
        for kind in (control.FenceBroker, lifecycle.UncleanShutdown, lifecycle.CleanShutdown):
            found += [made(kind, number, leader) for leader in fenced]
        offsets = range(len(broker.metadata_log), len(state.metadata_log))
        found += [made(control.ReceiveMetadataUpdate, number, offset + 1) for offset in offsets]
        isr = broker.replica.metadata.isr if state.shrinks < self.max_shrinks else ()
        found += [made(control.SendAlterPartitionRequest, number, timed_out) for timed_out in subsets(isr)]
        found += [made(protocol.SendFetchRequest, number, leader) for leader in range(self.brokers)]
        return found + [made(protocol.WriteRecordToLeader, number, value) for value in range(self.values)]

    def _reassignments(self, state: State) -> Sequence[Replication35Action]:
        return reassignments_of(self.brokers) if state.reassignments < self.max_reassignments else ()

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            "LeaderCompletenessProperty": leader_is_complete,
            "LeaderCandidateCompletenessProperty": leader_candidates_are_complete,
            "ReplicationQuorumSupersetProperty": replication_quorum_is_superset,
            "LogMatchingProperty": logs_match,
            "MetadataLogMatchingProperty": metadata_logs_match,
            "ConsistentReadProperty": reads_are_consistent,
            "NoCommittedRecordLostGlobally": no_committed_record_is_lost,
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        """What a search must have reached, as far as the constants let it."""
        goals: dict[str, Invariant[State]] = {"a value is acknowledged": lambda s: Write.ACKED in s.writes}
        shutdowns = self.max_unclean_shutdowns + self.max_clean_shutdowns
        if self.initial_isr > 1 and shutdowns + self.max_fences:
            goals["another broker leads"] = lambda s: s.partition.leader not in (0, NOBODY)
        if self.initial_isr > 1 and shutdowns:
            goals["a broker is in the ISR again"] = self.has_come_back
        return goals

    def has_come_back(self, state: State) -> bool:
        """A member of the ISR was down once."""
        return any(state.registrations[member].incarnation > self.brokers for member in state.partition.isr)

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        """What the model calls EventuallyUnfenced, EventuallyWriteIsAcceptedOrRejected and the like."""
        return {
            "every broker runs, and is unfenced": are_running,
            "every write is acknowledged or refused": lambda s: Write.SENT not in s.writes,
            "every replica has what was acknowledged": is_replicated,
        }

    def explain(self, invariant: str, state: State) -> Mapping[str, object]:
        """Who leads, who is in the ISR, and the logs."""
        partition = state.partition
        return {
            "leader": (partition.leader, partition.leader_epoch),
            "ISR": partition.isr,
            "maximal ISRs": [each.replica.metadata.maximal_isr for each in state.brokers],
            "logs": [each.replica.log for each in state.brokers],
            "high watermarks": [each.replica.hw for each in state.brokers],
            "consumed": state.consumed,
            "writes": [each.name for each in state.writes],
        }


@cache
def made(kind: Callable[..., Replication35Action], *fields: int | Brokers) -> Replication35Action:
    """An action of a class, made once: most are worth a look in every state."""
    return kind(*fields)


@cache
def reassignments_of(brokers: int) -> tuple[Replication35Action, ...]:
    """Of the partition, to any of so many brokers from any, with any leader."""
    everyone = tuple(range(brokers))
    return tuple(
        control.PerformPartitionReassignment(adding, removing, leader)
        for adding in subsets(everyone)
        for removing in subsets(everyone)
        for leader in everyone
    )


def subsets(brokers: Brokers) -> Iterable[Brokers]:
    """The empty one first."""
    return chain.from_iterable(combinations(brokers, size) for size in range(len(brokers) + 1))


def receiving(message: Message) -> list[Replication35Action]:
    """What may become of a message to a broker."""
    match message:
        case RegisterBrokerResponse():
            return [lifecycle.ReceiveBrokerRegResponse(message)]
        case AlterPartitionResponse():
            return [control.ReceiveAlterPartitionResponse(message)]
        case FetchRequest():
            return [protocol.ReceiveFetchRequest(message)]
        case FetchResponse():
            return [protocol.ReceiveFetchResponse(message)]
    return []


def acked(state: State) -> set[int]:
    return {value for value, each in enumerate(state.writes) if each == Write.ACKED}


def values_of(replica: Replica) -> set[int]:
    return {record.value for record in replica.log}


def leader_is_complete(state: State) -> bool:
    """The leader that the controller has elected has all that was committed and acknowledged, if it runs."""
    leader = state.partition.leader
    if not state.true_hw or leader == NOBODY or state.brokers[leader].status != Status.RUNNING:
        return True
    replica = state.brokers[leader].replica
    return replica.end >= state.true_hw and acked(state) <= values_of(replica)


def leader_candidates_are_complete(state: State) -> bool:
    """Each member of the controller's ISR that runs has as many records as were committed."""
    members = (state.brokers[member] for member in state.partition.isr)
    return all(each.replica.end >= state.true_hw for each in members if each.status == Status.RUNNING)


def replication_quorum_is_superset(state: State) -> bool:
    """A leader of the present epoch commits with all of the controller's ISR; with more than its own by a proposal."""
    for number, broker in enumerate(state.brokers):
        metadata = broker.replica.metadata
        if state.is_non_stale_leader(number):
            if not broker.replica.is_pending and metadata.maximal_isr != metadata.isr:
                return False
            if not {*state.partition.isr} <= {*metadata.maximal_isr}:
                return False
    return True


def logs_match(state: State) -> bool:
    """No two logs have two values at an offset that is below both high watermarks."""
    stable = [each.replica.log[: each.replica.hw] for each in state.brokers]
    return not any(
        mine.value != other.value for one, two in combinations(stable, 2) for mine, other in zip(one, two, strict=False)
    )


def metadata_logs_match(state: State) -> bool:
    """Brokers' copies of the metadata log are the controller's, as far as they go."""
    return all(each.metadata_log == state.metadata_log[: len(each.metadata_log)] for each in state.brokers)


def reads_are_consistent(state: State) -> bool:
    """A leader of the present epoch has every record that a consumer has read, where it was."""
    return all(
        broker.replica.log[: len(state.consumed)] == state.consumed
        for number, broker in enumerate(state.brokers)
        if state.is_non_stale_leader(number)
    )


def no_committed_record_is_lost(state: State) -> bool:
    """What was acknowledged is in a log."""
    return acked(state) <= set().union(*(values_of(each.replica) for each in state.brokers))


def are_running(state: State) -> bool:
    return all(each.status == Status.RUNNING for each in state.brokers) and not any(
        each.is_fenced for each in state.registrations
    )


def is_replicated(state: State) -> bool:
    return all(acked(state) <= values_of(state.brokers[each].replica) for each in state.partition.replicas)

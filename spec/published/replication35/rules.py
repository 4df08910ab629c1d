"""The rules of the published model of replication 3.5, and its constants; a variant overrides one rule."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedMachine
from tidegauge.spec.published.replication35.state import (
    NOBODY,
    UNKNOWN,
    AlterPartitionRequest,
    Brokers,
    EpochEnd,
    Error,
    FetchRequest,
    Follower,
    MetadataLog,
    PartitionChange,
    Replica,
    Role,
    State,
    Write,
    last_epoch,
)


@attrs.frozen
class Replication35Rules(GuardedMachine[State]):
    """What brokers and the controller decide; its fields are the constants of the TLA+ model."""

    brokers: int = 3
    replication_factor: int = 3
    values: int = 1
    min_isr: int = 2
    initial_isr: int = 2
    """Its members at first; the other replicas are fenced, and know no more than that all were in it."""
    max_clean_shutdowns: int = 0
    max_unclean_shutdowns: int = 1
    max_fences: int = 1
    max_shrinks: int = 0
    max_reassignments: int = 0
    avoids_last_replica_standing: bool = True
    """The last member of the ISR does not lose its log."""

    # --- the controller ----------------------------------------------------------------------------------------------

    def leaders(self, state: State, isr: Brokers, unfenced: Iterable[int]) -> Brokers:
        """Who may lead: who does, if it can go on; else an unfenced member of the ISR; else nobody."""
        leader, candidates = state.partition.leader, tuple(member for member in isr if member in unfenced)
        if leader in candidates:
            return (leader,)
        return self.electable(state, candidates, unfenced) if candidates else (NOBODY,)

    def electable(self, state: State, candidates: Brokers, unfenced: Iterable[int]) -> Brokers:
        """Who lacks nothing that was committed: the members of the ISR."""
        return candidates

    def leaders_once_fenced(self, state: State, broker: int) -> Brokers:
        return self.leaders(state, self.isr_once_fenced(state, broker), unfenced(state) - {broker})

    def isr_once_fenced(self, state: State, broker: int) -> Brokers:
        """The last member of the ISR stays in it."""
        isr = state.partition.isr
        return without(isr, (broker,)) if len(isr) > 1 else isr

    def may_crash(self, state: State, broker: int) -> bool:
        """The last member of the ISR would lead again, without what it has lost."""
        return not self.avoids_last_replica_standing or state.partition.isr != (broker,)

    def leaders_once_unfenced(self, state: State, broker: int) -> Brokers:
        """Nobody is elected in place of who leads."""
        partition = state.partition
        if partition.leader != NOBODY:
            return (partition.leader,)
        return self.leaders(state, partition.isr, unfenced(state) | {broker})

    def error_of(self, state: State, request: AlterPartitionRequest) -> Error:
        """ValidateAlterPartitionRequest: a proposal is taken of the leader, in the present epochs (KIP-903)."""
        leader = request.source
        if (
            leader != state.partition.leader
            or request.broker_epoch != state.registrations[leader].broker_epoch
            or request.partition_epoch != state.partition.partition_epoch
        ):
            return Error.FENCED_LEADER_EPOCH
        eligible = all(self.is_eligible(state, member, epoch) for member, epoch in request.members)
        return Error.NONE if eligible else Error.INELIGIBLE_REPLICA

    def is_eligible(self, state: State, member: int, broker_epoch: int) -> bool:
        """A member of the ISR is unfenced, and runs still as the leader knew it."""
        registration = state.registrations[member]
        return not registration.is_fenced and broker_epoch in (0, registration.broker_epoch)

    def proposed(self, state: State, isr: Brokers) -> PartitionChange:
        """The partition with that ISR, less its leader; a reassignment is complete once all who are added are in it."""
        partition = state.partition
        reduced = without(isr, partition.removing)
        if partition.is_reassigned and {*partition.adding} <= {*reduced} and len(reduced) >= self.min_isr:
            return reassigned(partition, without(partition.replicas, partition.removing), reduced)
        return evolve(partition, isr=isr, partition_epoch=partition.partition_epoch + 1)

    # --- the leader --------------------------------------------------------------------------------------------------

    def caught_up(self, number: int, replica: Replica, timed_out: Brokers) -> Brokers:
        """The ISR that a leader proposes."""
        return tuple(
            member
            for member in replica.metadata.replicas
            if member == number or self.is_caught_up(replica, member, timed_out)
        )

    def is_caught_up(self, replica: Replica, follower: int, timed_out: Brokers) -> bool:
        """A member is until it times out; another replica once it has what is committed, and all of former epochs."""
        if follower in replica.metadata.isr:
            return follower not in timed_out
        end = replica.followers[follower].end
        return end != UNKNOWN and end >= replica.hw and end >= replica.epoch_start

    def maximal_isr(self, isr: Brokers, proposed: Brokers) -> Brokers:
        """A leader commits with both, until it knows which one is the controller's (KIP-497)."""
        return tuple(sorted({*isr, *proposed}))

    def committed(self, number: int, replica: Replica, maximal_isr: Brokers, end: int | None = None) -> int:
        """How many records all members of the maximal ISR have, of as many as the leader has; 0 of an empty log."""
        if not replica.log:
            return 0
        others = [self.replicated(replica.followers[member]) for member in maximal_isr if member != number]
        return max(0, min([replica.end if end is None else end, *others]))

    def replicated(self, follower: Follower) -> int:
        """How many records a follower has: those before where it fetches."""
        return follower.end

    def advanced(self, state: State, number: int, hw: int, is_acked: bool = True) -> State:
        """MaybeAdvanceHighWatermark: the leader commits up to there, and tells its producers."""
        replica = state.brokers[number].replica
        if hw <= replica.hw:
            return state
        known = Write.ACKED if is_acked else Write.REFUSED
        after = self.told(state, number, range(replica.hw, hw if is_acked else replica.end), known)
        after = after.with_replica(number, evolve(replica, hw=hw))
        if hw <= state.true_hw:
            return after
        return evolve(after, true_hw=hw, consumed=state.consumed + replica.log[state.true_hw : hw])

    def advanced_by_isr(self, state: State, number: int, maximal_isr: Brokers) -> State:
        """The same once the leader has another ISR; too small a one commits, but is no reason to acknowledge."""
        hw = self.committed(number, state.brokers[number].replica, maximal_isr)
        return self.advanced(state, number, hw, len(maximal_isr) >= self.min_isr)

    def told(self, state: State, number: int, offsets: Iterable[int], known: Write) -> State:
        """The producers of those records that this leader has written, and has told nothing of."""
        replica, writes = state.brokers[number].replica, [*state.writes]
        for offset in offsets:
            value = replica.log[offset].value
            if writes[value] == Write.SENT and UNKNOWN != replica.unacked_from <= offset:
                writes[value] = known
        return evolve(state, writes=tuple(writes))

    def given_up(self, state: State, number: int) -> State:
        """The producers of all that is not committed are refused."""
        replica = state.brokers[number].replica
        return self.told(state, number, range(replica.hw, replica.end), Write.REFUSED)

    # --- fetches -----------------------------------------------------------------------------------------------------

    def fetch_error(self, replica: Replica, request: FetchRequest) -> Error:
        """Why a replica does not serve a fetch."""
        own, asked = replica.metadata.leader_epoch, request.leader_epoch
        if replica.role == Role.LEADER and own == asked:
            return Error.NONE
        if own == asked:
            return Error.NOT_LEADER_OR_FOLLOWER
        return Error.UNKNOWN_LEADER_EPOCH if own < asked else Error.FENCED_LEADER_EPOCH

    def end_of_epoch(self, replica: Replica, epoch: int) -> EpochEnd:
        """LastOffsetForEpoch: where that epoch, or the last one before it, ends in the log."""
        log, is_own = replica.log, replica.role == Role.LEADER and replica.metadata.leader_epoch == epoch
        if is_own or not log or log[-1].epoch == epoch:
            return EpochEnd(epoch, len(log))
        former = [record.epoch for record in log if record.epoch <= epoch]
        return EpochEnd(former[-1] if former else epoch, len(former))

    def is_diverging(self, end: EpochEnd, request: FetchRequest) -> bool:
        """The follower's last record is none of the leader's."""
        return end.epoch < request.last_fetched_epoch or end.offset < request.fetch_offset

    def truncation_offset(self, replica: Replica, diverging: EpochEnd) -> int:
        """Where the follower's log leaves the leader's."""
        own = self.end_of_epoch(replica, diverging.epoch)
        return own.offset if own.epoch != diverging.epoch else min(own.offset, diverging.offset)

    def needs_fetch(self, state: State, leader: int, follower: int) -> bool:
        """Whether a fetch may change anything: else the model would have no end."""
        own, other = state.brokers[leader].replica, state.brokers[follower].replica
        known = Follower(other.end, state.brokers[follower].broker_epoch)
        return (own.end, own.hw, own.followers[follower]) != (other.end, other.hw, known)

    # --- metadata ----------------------------------------------------------------------------------------------------

    def metadata_log(self, state: State, offset: int) -> MetadataLog:
        """What a broker has of the controller's log once it has so many records."""
        return state.metadata_log[:offset]

    def reasons_to_update(self, state: State, number: int, record: PartitionChange) -> int:
        """PartitionNeedsAction: how many reasons a broker has to learn of that change; without any it need not."""
        replica = state.brokers[number].replica
        known = replica.metadata
        is_known = number in known.replicas
        return (
            (replica.role == Role.LEADER)
            + (is_known and record.leader_epoch > known.leader_epoch)
            + (not is_known and number in record.replicas)
        )


def unfenced(state: State) -> set[int]:
    return {number for number, each in enumerate(state.registrations) if not each.is_fenced}


def without(brokers: Brokers, gone: Iterable[int]) -> Brokers:
    return tuple(each for each in brokers if each not in gone)


def elected(partition: PartitionChange, leader: int, isr: Brokers) -> PartitionChange:
    """The partition with that leader and ISR. A leader epoch begins with a leader, and not with an ISR."""
    if (leader, isr) == (partition.leader, partition.isr):
        return partition
    return evolve(
        partition,
        leader=leader,
        isr=isr,
        leader_epoch=partition.leader_epoch + (leader != partition.leader),
        partition_epoch=partition.partition_epoch + 1,
    )


def reassigned(partition: PartitionChange, replicas: Brokers, isr: Brokers) -> PartitionChange:
    """A reassignment is complete."""
    return PartitionChange(replicas, isr, partition.leader, partition.leader_epoch + 1, partition.partition_epoch + 1)


def fetched_from(replica: Replica) -> tuple[int, int]:
    """At which offset a follower goes on, and the epoch of the record before."""
    return replica.end, last_epoch(replica.log)

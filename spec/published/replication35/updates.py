"""What a broker of the published model of replication 3.5 does once it learns of a change of the partition."""

from __future__ import annotations

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.published.replication35.rules import Replication35Rules, fetched_from
from tidegauge.spec.published.replication35.state import (
    NOBODY,
    UNKNOWN,
    Broker,
    FetchState,
    Follower,
    Metadata,
    PartitionChange,
    Replica,
    Role,
    State,
)


def updated(machine: Replication35Rules, state: State, number: int, change: PartitionChange) -> State:
    """The state once the broker has acted on the change: it has the replica, or had it."""
    known = state.brokers[number].replica.metadata
    if change.partition_epoch <= known.partition_epoch:
        return state  # the response to the leader's proposal was here before
    is_replica, was_replica = number in change.replicas, number in known.replicas
    if was_replica and not is_replica:
        after = deleted(machine, state, number, change)
    elif change.leader == number:
        is_same = known.leader == number and known.leader_epoch == change.leader_epoch
        after = (remaining_leader if is_same else becoming_leader)(machine, state, number, change)
    elif change.leader == NOBODY:
        after = waiting(machine, state, number, change)
    elif change.leader_epoch == known.leader_epoch and known.leader != number:
        after = state
    else:
        after = becoming_follower(machine, state, number, change)
    replica = after.brokers[number].replica
    metadata = metadata_of(change) if is_replica else Metadata()
    return after.with_replica(number, evolve(replica, metadata=metadata))


def metadata_of(change: PartitionChange) -> Metadata:
    return Metadata(change.replicas, change.isr, change.isr, change.leader, change.leader_epoch, change.partition_epoch)


def remaining_leader(machine: Replication35Rules, state: State, number: int, change: PartitionChange) -> State:
    """The ISR has changed: it may commit more, and waits no longer for the response to a proposal."""
    after = machine.advanced_by_isr(state, number, change.isr)
    replica = after.brokers[number].replica
    if change.partition_epoch < replica.pending_epoch:
        return after
    return after.with_replica(number, settled(replica))


def becoming_leader(machine: Replication35Rules, state: State, number: int, change: PartitionChange) -> State:
    """It leads in another epoch, and knows nothing of followers until they fetch, but of the ISR's if it led before."""
    was_leader = state.brokers[number].replica.role == Role.LEADER
    after = machine.advanced_by_isr(state, number, change.isr)
    broker = after.brokers[number]
    followers = tuple(
        known if was_leader and follower in change.isr else Follower()
        for follower, known in enumerate(broker.replica.followers)
    )
    replica = evolve(settled(broker.replica), role=Role.LEADER, epoch_start=broker.replica.end, followers=followers)
    return after.with_broker(number, evolve(not_fetching(broker), replica=replica))


def becoming_follower(machine: Replication35Rules, state: State, number: int, change: PartitionChange) -> State:
    """It fetches from the leader from its end on; what it has too much it learns from the response."""
    after = renounced(machine, state, number, change)
    broker, leader = after.brokers[number], change.leader
    known = broker.replica.metadata
    if change.leader_epoch > known.leader_epoch or broker.fetchers[leader].partition is None:
        going_on = FetchState(*fetched_from(broker.replica))
        broker = not_fetching(broker)
        broker = broker.with_fetcher(leader, evolve(broker.fetchers[leader], partition=going_on))
    replica = evolve(broker.replica, role=Role.FOLLOWER)
    return after.with_broker(number, evolve(broker, replica=replica))


def waiting(machine: Replication35Rules, state: State, number: int, change: PartitionChange) -> State:
    """Nobody leads."""
    after = renounced(machine, state, number, change)
    return after.with_broker(number, not_fetching(after.brokers[number]))


def deleted(machine: Replication35Rules, state: State, number: int, change: PartitionChange) -> State:
    """It has the replica no longer."""
    after = waiting(machine, state, number, change)
    return after.with_replica(number, evolve(after.brokers[number].replica, log=(), hw=0))


def renounced(machine: Replication35Rules, state: State, number: int, change: PartitionChange) -> State:
    """EnsureLeadershipRenounced: what is not committed is refused, and what it knew as a leader forgotten."""
    is_given_up = len(change.isr) < machine.min_isr or change.leader != number
    after = machine.given_up(state, number) if is_given_up else state
    return after.with_replica(number, forgetful(after.brokers[number].replica))


def forgetful(replica: Replica) -> Replica:
    """A replica that does not lead, and knows nothing of when it did."""
    return evolve(
        settled(replica),
        role=Role.NONE,
        epoch_start=UNKNOWN,
        followers=(Follower(),) * len(replica.followers),
        unacked_from=UNKNOWN,
    )


def settled(replica: Replica) -> Replica:
    """Waits for no response to a proposal."""
    return evolve(replica, pending_epoch=0, pending=None)


def not_fetching(broker: Broker) -> Broker:
    """With the partition in no fetcher; responses may be on their way."""
    return evolve(broker, fetchers=tuple(evolve(each, partition=None) for each in broker.fetchers))

"""The state of the published model of replication 3.5 (see `spec.published.replication35.machine`).

Sets of brokers are sorted tuples, so that states hash, order and print alike in every process. Offsets are Kafka's:
the first is 0 (in TLA+ 1), and a high watermark or the end of a log is how many records are before it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.piecemeal import PIECEMEAL, one_at_a_time, question
from tidegauge.spec.kernel.sorting import by_class

CONTROLLER: Final = -1
"""Whom a message to the controller goes to, and who its responses come from."""
NOBODY: Final = -1
"""NoLeader."""
UNKNOWN: Final = -1
"""Nil, in place of an offset."""
Brokers: TypeAlias = tuple[int, ...]
"""A set of them, in order."""


class Status(IntEnum):
    """What a broker is at. It is registered from when it runs."""

    RUNNING = 0
    STARTING = 1
    OFFLINE_CLEAN = 2
    OFFLINE_DIRTY = 3


OFFLINE: Final = (Status.OFFLINE_CLEAN, Status.OFFLINE_DIRTY)


class Role(IntEnum):
    """What a broker's replica is."""

    NONE = 0
    LEADER = 1
    FOLLOWER = 2


class Error(IntEnum):
    """The error of a response."""

    NONE = 0
    NOT_LEADER_OR_FOLLOWER = 6
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    INELIGIBLE_REPLICA = 107


class Write(IntEnum):
    """What its producer knows of a value."""

    UNSENT = 0
    SENT = 1
    ACKED = 2
    REFUSED = 3


@attrs.frozen(order=True, cache_hash=True)
class Record:
    """Of the partition's log: the leader epoch in which it was written, and the producer's value."""

    epoch: int
    value: int


Log: TypeAlias = tuple[Record, ...]


def last_epoch(log: Log) -> int:
    """Of the last record; 0 before the first one."""
    return log[-1].epoch if log else 0


@attrs.frozen(order=True, cache_hash=True)
class EpochEnd:
    """The end offset of an epoch."""

    epoch: int
    offset: int


NOT_DIVERGING: Final = EpochEnd(UNKNOWN, UNKNOWN)


@attrs.frozen(order=True, cache_hash=True)
class PartitionChange:
    """A record of the metadata log; the last one is what the controller knows of the partition."""

    replicas: Brokers
    isr: Brokers
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding: Brokers = ()
    removing: Brokers = ()

    @property
    def is_reassigned(self) -> bool:
        return bool(self.adding or self.removing)


MetadataLog: TypeAlias = tuple[PartitionChange, ...]


@attrs.frozen(order=True, cache_hash=True)
class Message:
    """From a broker or the controller to another."""

    source: int
    dest: int


@attrs.frozen(order=True, cache_hash=True)
class RegisterBrokerRequest(Message):
    """A broker that starts asks for a broker epoch."""

    incarnation: int


@attrs.frozen(order=True, cache_hash=True)
class RegisterBrokerResponse(Message):
    """The broker epoch; and how long the metadata log was, which Kafka has by a record of the registration."""

    incarnation: int
    broker_epoch: int
    metadata_offset: int


@attrs.frozen(order=True, cache_hash=True)
class AlterPartitionRequest(Message):
    """A leader proposes an ISR: each member with its broker epoch, or 0 for who is in the ISR already."""

    members: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int
    broker_epoch: int

    @property
    def isr(self) -> Brokers:
        return tuple(member for member, _ in self.members)


@attrs.frozen(order=True, cache_hash=True)
class AlterPartitionResponse(Message):
    """The partition as it is now, or an error; and the request, by which the leader knows whether it waits for this."""

    request: AlterPartitionRequest
    error: Error = Error.NONE
    replicas: Brokers = ()
    isr: Brokers = ()
    leader: int = NOBODY
    leader_epoch: int = 0
    partition_epoch: int = 0


@attrs.frozen(order=True, cache_hash=True)
class FetchRequest(Message):
    """A follower asks for the record at an offset."""

    broker_epoch: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int


@attrs.frozen(order=True, cache_hash=True)
class FetchResponse(Message):
    """The record there, if there is one; where the logs diverge; or an error."""

    leader_epoch: int
    fetch_offset: int
    hw: int
    error: Error = Error.NONE
    diverging: EpochEnd = NOT_DIVERGING
    records: Log = ()


Messages: TypeAlias = tuple[Message, ...]
"""A set of messages, in order."""


@question
def is_among(messages: Messages, message: Message) -> bool:
    return message in messages


@question
def arriving_at(messages: Messages, dest: int) -> Messages:
    """What may arrive at a broker, or at the controller."""
    return tuple(message for message in messages if message.dest == dest)


@question
def fetches_of(messages: Messages, broker: int) -> Messages:
    """The requests and responses of fetches that a broker sends or receives."""
    return tuple(
        message
        for message in messages
        if isinstance(message, FetchRequest | FetchResponse) and broker in (message.source, message.dest)
    )


@one_at_a_time
def with_message(messages: Messages, message: Message) -> Messages:
    return messages if message in messages else tuple(sorted((*messages, message), key=by_class))


@one_at_a_time
def without_message(messages: Messages, message: Message) -> Messages:
    return tuple(each for each in messages if each != message)


@attrs.frozen(cache_hash=True)
class Registration:
    """What the controller knows of a broker."""

    is_fenced: bool
    broker_epoch: int
    incarnation: int


@attrs.frozen(cache_hash=True)
class FetchState:
    """Where a fetcher goes on with the partition."""

    fetch_offset: int
    last_fetched_epoch: int
    is_delayed: bool = False


@attrs.frozen(cache_hash=True)
class Fetcher:
    """By which a broker fetches from another one: the partition, if it is to be fetched there."""

    partition: FetchState | None = None
    is_pending: bool = False
    """It waits for a response."""


@attrs.frozen(cache_hash=True)
class Follower:
    """What a leader knows of another replica: the offset it fetched at last, and its broker epoch then."""

    end: int = UNKNOWN
    broker_epoch: int = 0


@attrs.frozen(cache_hash=True)
class Metadata:
    """What a broker knows of the partition; the maximal ISR is that with which its leader commits."""

    replicas: Brokers = ()
    isr: Brokers = ()
    maximal_isr: Brokers = ()
    leader: int = NOBODY
    leader_epoch: int = 0
    partition_epoch: int = 0


@attrs.frozen(cache_hash=True)
class Replica:
    """A broker's replica of the partition."""

    followers: tuple[Follower, ...]
    """By broker."""
    role: Role = Role.NONE
    metadata: Metadata = Metadata()
    log: Log = ()
    hw: int = 0
    epoch_start: int = UNKNOWN
    """Of a leader: where its log ended when it was elected."""
    pending_epoch: int = 0
    """The partition epoch that a proposal of the leader comes to, if the controller takes it."""
    pending: AlterPartitionRequest | None = None
    unacked_from: int = UNKNOWN
    """The first record that it has written as a leader without a break: those from there on it acknowledges."""

    @property
    def end(self) -> int:
        return len(self.log)

    @property
    def is_pending(self) -> bool:
        """Whether it waits for a proposal's response."""
        return self.pending_epoch > self.metadata.partition_epoch


@attrs.frozen(cache_hash=True)
class Broker:
    """A broker: its registration, its copy of the metadata log, its fetchers (by broker), its replica."""

    status: Status
    broker_epoch: int
    incarnation: int
    metadata_log: MetadataLog
    fetchers: tuple[Fetcher, ...]
    replica: Replica

    def with_fetcher(self, number: int, fetcher: Fetcher) -> Broker:
        return evolve(self, fetchers=(*self.fetchers[:number], fetcher, *self.fetchers[number + 1 :]))


@attrs.frozen
class State:
    """Brokers by their numbers, the controller, the messages; what producers and consumers have seen; the limits."""

    brokers: tuple[Broker, ...]
    registrations: tuple[Registration, ...]
    metadata_log: MetadataLog
    writes: tuple[Write, ...]
    """By value."""
    last_broker_epoch: int
    next_incarnation: int
    messages: Messages = attrs.field(default=(), metadata=PIECEMEAL)
    processed: Messages = attrs.field(default=(), metadata=PIECEMEAL)
    true_hw: int = 0
    """The highest high watermark that a leader has had."""
    consumed: Log = ()
    """The records before it."""
    clean_shutdowns: int = 0
    unclean_shutdowns: int = 0
    fences: int = 0
    shrinks: int = 0
    reassignments: int = 0

    @property
    def partition(self) -> PartitionChange:
        return self.metadata_log[-1]

    def is_non_stale_leader(self, number: int) -> bool:
        replica = self.brokers[number].replica
        return replica.role == Role.LEADER and replica.metadata.leader_epoch == self.partition.leader_epoch

    def with_broker(self, number: int, broker: Broker) -> State:
        return evolve(self, brokers=(*self.brokers[:number], broker, *self.brokers[number + 1 :]))

    def with_replica(self, number: int, replica: Replica) -> State:
        return self.with_broker(number, evolve(self.brokers[number], replica=replica))

    def with_registration(self, number: int, registration: Registration) -> State:
        others = self.registrations
        return evolve(self, registrations=(*others[:number], registration, *others[number + 1 :]))

    def with_partition(self, change: PartitionChange) -> State:
        """The controller writes a change to the metadata log, if it is one."""
        return self if change == self.partition else evolve(self, metadata_log=(*self.metadata_log, change))

    def sent(self, message: Message) -> State:
        return evolve(self, messages=with_message(self.messages, message))

    def received(self, message: Message) -> State:
        """A message is processed."""
        return evolve(
            self,
            messages=without_message(self.messages, message),
            processed=with_message(self.processed, message),
        )

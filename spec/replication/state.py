"""What a replicated partition is made of: records, messages, replicas, the controller, and what must not be forgotten.

Everything is a frozen attrs class of integers and tuples, so that states hash, order and print alike in every process.
Absence is -1, as in Kafka's messages. Two fields of a state are for the explorer only: `History` has what was promised
to clients, `spent` counts the perturbations (crashes, expired sessions, lost messages) that a bound limits.

A class with `parts` can be extended (`spec.kernel.parts`). Nothing here names an extension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

import attrs

from tidegauge.spec.kernel.bounds import Spent, spend
from tidegauge.spec.kernel.naming import named
from tidegauge.spec.kernel.parts import Part, Parts
from tidegauge.spec.kernel.piecemeal import PIECEMEAL, one_at_a_time, question

NONE = -1

BrokerId = Annotated[int, "a broker of the machine"]
"""The index of a replica, in an action or a message; never NONE."""


class Error(IntEnum):
    """Kafka's error codes, as far as replication responds with them."""

    OK = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_LEADER_OR_FOLLOWER = 6
    NOT_ENOUGH_REPLICAS = 19
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_REQUEST = 42
    KAFKA_STORAGE_ERROR = 56
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    INVALID_UPDATE_VERSION = 95
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108


class Acks(IntEnum):
    """What a producer waits for."""

    ALL = -1
    NOTHING = 0
    LEADER = 1

    def __repr__(self) -> str:
        return self.name


@attrs.frozen(order=True, cache_hash=True)
class Record:
    """One record: the leader epoch under which it was appended, and a value that no other record has."""

    epoch: int
    value: int

    def __str__(self) -> str:
        return f"{self.value}@{self.epoch}"


Log = tuple[Record, ...]


@attrs.frozen(order=True, cache_hash=True)
class FetchRequest:
    """A follower asks for what follows `offset`; it names its epochs so that the leader can fence it (KIP-320)."""

    follower: BrokerId
    leader: BrokerId
    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    broker_epoch: int
    parts: Parts = ()


@attrs.frozen(order=True, cache_hash=True)
class FetchResponse:
    """The leader's response; a diverging epoch (KIP-595) in place of records when the logs diverge."""

    request: FetchRequest
    error: Error = Error.OK
    records: Log = ()
    high_watermark: int = NONE
    diverging_epoch: int = NONE
    diverging_end_offset: int = NONE
    parts: Parts = ()


@attrs.frozen(order=True, cache_hash=True)
class AlterPartitionRequest:
    """A leader proposes an ISR: ids with the broker epochs that it knows, -1 where it knows none (KIP-903)."""

    leader: BrokerId
    broker_epoch: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[BrokerId, int], ...]


@attrs.frozen(order=True, cache_hash=True)
class AlterPartitionResponse:
    """The controller's response: the partition as it now is, or why the proposal was refused."""

    leader: BrokerId
    leader_epoch: int
    proposed_on: int
    """The partition epoch that the proposal was made on: which of a leader's proposals the response is to."""
    error: Error
    isr: tuple[BrokerId, ...]
    partition_epoch: int
    controller_epoch: int


@attrs.frozen
class RemoteReplica:
    """What a leader learned of a follower from its last fetch in this epoch."""

    end_offset: int = NONE
    broker_epoch: int = NONE
    parts: Parts = ()


@attrs.frozen
class PartitionMetadata:
    """What the metadata log says of the partition, as a broker pulls it."""

    controller_epoch: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    parts: Parts = ()


@attrs.frozen(cache_hash=True)
class Replica:
    """One broker's replica: its log, the metadata that it last applied, and what it knows as a leader."""

    running: bool = True
    paused: bool = False
    broker_epoch: int = NONE
    log: Log = ()
    flushed: int = 0
    high_watermark: int = 0
    checkpoint: int = 0
    controller_epoch: int = NONE
    leader: int = NONE
    leader_epoch: int = NONE
    partition_epoch: int = NONE
    isr: tuple[int, ...] = ()
    epoch_start_offset: int = NONE
    remote: tuple[RemoteReplica, ...] = ()
    pending_isr: tuple[int, ...] = ()
    outstanding: tuple[FetchRequest, ...] = attrs.field(default=(), metadata=PIECEMEAL)
    pulled: PartitionMetadata | None = None
    parts: Parts = ()

    @property
    def log_end_offset(self) -> int:
        return len(self.log)

    @property
    def last_epoch(self) -> int:
        return self.log[-1].epoch if self.log else NONE

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR with the proposed one: whom the leader must wait for until it knows which holds."""
        return self.isr if not self.pending_isr else tuple(sorted({*self.isr, *self.pending_isr}))


@attrs.frozen
class Session:
    """A broker's membership: its incarnation, and whether it may lead and be in sync."""

    broker_epoch: int = 0
    fenced: bool = False
    parts: Parts = ()


@attrs.frozen(cache_hash=True)
class Controller:
    """What the controller has committed of the partition and of its brokers."""

    epoch: int
    sessions: tuple[Session, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_leader: int = NONE
    parts: Parts = ()

    @property
    def registration(self) -> tuple[object, ...]:
        """What a change of the partition changes, besides its epochs."""
        parts = tuple(part for part in self.parts if getattr(part, "is_of_partition", True))
        return self.leader, self.leader_epoch, self.isr, self.elr, parts


@attrs.frozen
class ControllerPart(Part):
    """A part of what the controller has committed."""

    is_of_partition: ClassVar[bool] = True
    """Whether a change of it is one of the partition, which counts in the partition epoch."""

    def only_on(self, replicas: tuple[int, ...]) -> Self:
        """What is left of it when the partition has these replicas and no others."""
        return self


@attrs.frozen(cache_hash=True)
class Network:
    """Messages on their way, each kind sorted; any of them may be the next to arrive."""

    fetches: tuple[FetchRequest, ...] = attrs.field(default=(), metadata=PIECEMEAL)
    fetch_responses: tuple[FetchResponse, ...] = attrs.field(default=(), metadata=PIECEMEAL)
    alters: tuple[AlterPartitionRequest, ...] = attrs.field(default=(), metadata=PIECEMEAL)
    alter_responses: tuple[AlterPartitionResponse, ...] = attrs.field(default=(), metadata=PIECEMEAL)

    def has_alter_of(self, leader: int) -> bool:
        """Whether a proposal of this leader or the response to one is on its way."""
        return any_of(self.alters, leader) or any_of(self.alter_responses, leader)

    def without_broker(self, broker: int) -> Network:
        """All of a broker's connections are cut: what was on them is gone."""
        return Network(
            fetches_without(self.fetches, broker),
            responses_without(self.fetch_responses, broker),
            none_of(self.alters, broker),
            none_of(self.alter_responses, broker),
        )


M = TypeVar("M", bound="FetchRequest | FetchResponse | AlterPartitionRequest | AlterPartitionResponse")


def fields_within(kind: type[Any], prefix: str = "") -> Iterator[str]:
    """The paths of a message's fields, those of a request in it as well: they compare without `__lt__` of attrs."""
    for field in attrs.fields(kind):
        if field.name == "request":
            yield from fields_within(FetchRequest, "request.")
        else:
            yield prefix + field.name


_FIELDS: Final[Mapping[type[object], Callable[[object], Any]]] = {
    kind: attrgetter(*fields_within(kind))
    for kind in (FetchRequest, FetchResponse, AlterPartitionRequest, AlterPartitionResponse)
}


def in_order(messages: Iterable[M]) -> tuple[M, ...]:
    """Messages of one class as a network has them: in the order of their fields."""
    found = tuple(messages)
    return found if len(found) < 2 else tuple(sorted(found, key=_FIELDS[type(found[0])]))


@one_at_a_time
def sent(messages: tuple[M, ...], message: M) -> tuple[M, ...]:
    """`messages` with one more; one equal to another on its way is the same message."""
    return messages if message in messages else in_order((*messages, message))


@one_at_a_time
def received(messages: tuple[M, ...], message: M) -> tuple[M, ...]:
    return tuple([m for m in messages if m is not message and m != message])


@one_at_a_time
def with_all(messages: tuple[M, ...], more: tuple[M, ...]) -> tuple[M, ...]:
    """`messages` with more, which they do not have."""
    return in_order((*messages, *more))


OfLeader = TypeVar("OfLeader", bound="FetchRequest | AlterPartitionRequest | AlterPartitionResponse")


@question
def any_of(messages: tuple[OfLeader, ...], leader: int) -> bool:
    """Whether a message to this leader, or of it, is among them."""
    return any(m.leader == leader for m in messages)


@one_at_a_time
def none_of(messages: tuple[OfLeader, ...], leader: int) -> tuple[OfLeader, ...]:
    """The messages but for those to this leader, or of it."""
    return tuple(m for m in messages if m.leader != leader)


@one_at_a_time
def fetches_without(fetches: tuple[FetchRequest, ...], broker: int) -> tuple[FetchRequest, ...]:
    """What is left of them when a broker's connections are cut."""
    return tuple(m for m in fetches if broker not in (m.follower, m.leader))


@one_at_a_time
def responses_without(responses: tuple[FetchResponse, ...], broker: int) -> tuple[FetchResponse, ...]:
    """What is left of them when a broker's connections are cut."""
    return tuple(m for m in responses if broker not in (m.request.follower, m.request.leader))


@question
def responses_of(responses: tuple[FetchResponse, ...], leader: int) -> tuple[FetchResponse, ...]:
    """Those that a leader has sent."""
    return tuple(m for m in responses if m.request.leader == leader)


@question
def has_asked(outstanding: tuple[FetchRequest, ...], leader_epoch: int) -> bool:
    """Whether a request of this epoch waits for its response."""
    return any(request.leader_epoch == leader_epoch for request in outstanding)


@attrs.frozen(cache_hash=True)
class History:
    """What clients were promised: for the invariants, not for the protocol.

    `acks[v]` is what value v's producer asked for; `acknowledged` has the acks=all values that were acknowledged;
    `committed` is the longest log that any leader showed below its high watermark; `lost` is what unclean elections
    were declared to lose; leaders below `superseded_epoch` were overtaken by an unclean election, which is `unsettled`
    until its leader has taken over.
    """

    acks: tuple[Acks, ...] = ()
    acknowledged: tuple[int, ...] = ()
    committed: Log = ()
    lost: tuple[int, ...] = ()
    superseded_epoch: int = NONE
    unsettled: bool = False
    parts: Parts = ()


@attrs.frozen(cache_hash=True)
class State:
    """A partition, its replicas (indexed by broker id), its controller and the network between them."""

    replicas: tuple[Replica, ...]
    controller: Controller
    network: Network = Network()
    history: History = History()
    spent: Spent = attrs.field(default=(), metadata=PIECEMEAL)

    def with_replica(self, broker: int, replica: Replica) -> State:
        replicas = [*self.replicas]
        replicas[broker] = replica
        return State(tuple(replicas), self.controller, self.network, self.history, self.spent)

    def spend(self, perturbation: str) -> State:
        spent = spend(self.spent, perturbation)
        return State(self.replicas, self.controller, self.network, self.history, spent)

    def with_network(self, network: Network) -> State:
        return State(self.replicas, self.controller, network, self.history, self.spent)


def named_brokers(value: object) -> Iterator[int]:
    """Every broker that `value`, an action or a message, names, in the messages within it as well."""
    return named(value, BrokerId)

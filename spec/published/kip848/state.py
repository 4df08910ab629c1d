"""The state of the published KIP-848 models (see `spec.published.kip848.machine`): clients, coordinator, messages.

Sets of partitions and of topics are sorted tuples, so that states hash, order and print alike in every process.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, TypeVar

import attrs

Partition = tuple[int, int]
"""A topic, counted from 1, and one of its partitions, from 1."""
Partitions = tuple[Partition, ...]
Topics = tuple[int, ...]

UNSAID: Final[Partitions] = ((0, 0),)
"""Where a message says nothing of partitions, or none was sent yet: Nil of the models."""
JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
NO_MEMBER: Final = 0

T = TypeVar("T", bound=tuple[object, ...])


def united(one: Partitions, other: Partitions) -> Partitions:
    return tuple(sorted({*one, *other}))


def without(one: Partitions, other: Iterable[Partition]) -> Partitions:
    dropped = set(other)
    return tuple(each for each in one if each not in dropped)


def shared(one: Partitions, other: Iterable[Partition]) -> Partitions:
    kept = set(other)
    return tuple(each for each in one if each in kept)


class ClientStatus(IntEnum):
    """What a client is at."""

    UNSUBSCRIBED = 0
    JOINING = 1
    RECONCILING = 2
    ACKNOWLEDGING = 3
    STABLE = 4
    PREPARE_LEAVING = 5
    LEAVING = 6
    FENCED = 7


class MemberStatus(IntEnum):
    """What the coordinator knows of a member; each version of the model has the stable one and two of its own."""

    STABLE = 0
    REVOKING = 1
    ASSIGNING = 2
    UNACKED_ASSIGNMENT = 3
    UNREL_PARTITIONS = 4


class GroupStatus(IntEnum):
    """What the coordinator knows of the group."""

    EMPTY = 0
    ASSIGNING = 1
    RECONCILING = 2
    STABLE = 3


class Error(IntEnum):
    """The error of a response."""

    NONE = 0
    UNKNOWN_MEMBER_ID = 25
    FENCED_MEMBER_EPOCH = 110


@attrs.frozen(order=True, cache_hash=True)
class HeartbeatRequest:
    """A client's heartbeat, which also joins and leaves."""

    source: int
    connection: int
    member: int
    member_epoch: int
    subscribed: Topics
    partitions: Partitions


@attrs.frozen(order=True, cache_hash=True)
class HeartbeatResponse:
    """The coordinator's response."""

    dest: int
    connection: int
    error: Error
    member: int
    member_epoch: int
    assignment: Partitions = UNSAID


@attrs.frozen(cache_hash=True)
class Reconciliation:
    """A client gives back and takes up partitions, until it has what it was assigned in this epoch."""

    epoch: int
    assignment: Partitions


@attrs.frozen(cache_hash=True)
class Client:
    """A consumer."""

    subscribed: Topics
    status: ClientStatus = ClientStatus.JOINING
    connection: int = 0
    member: int = NO_MEMBER
    member_epoch: int = JOINING_EPOCH
    assignment: Partitions = ()
    """What it owns."""
    assigned: Partitions = ()
    """Version 2: what it was assigned. Version 1: what of that is to be reconciled."""
    last_sent: Partitions = UNSAID
    has_inflight: bool = False
    reconciliation: Reconciliation | None = None
    leaving_with: Partitions | None = None
    """What it owned when it began to leave."""


@attrs.frozen(cache_hash=True)
class Member:
    """What the coordinator keeps of a member; targets and what is pending are version 2's but for what is revoked."""

    host: int
    subscribed: Topics
    status: MemberStatus = MemberStatus.STABLE
    member_epoch: int = 0
    target_epoch: int = 0
    assigned: Partitions = ()
    revoking: Partitions = ()
    assigning: Partitions = ()
    reported: Partitions = UNSAID
    """What it last said that it owns."""


Members = tuple[tuple[int, Member], ...]
"""By member id, in order."""


@attrs.frozen(cache_hash=True)
class Group:
    """The coordinator's state."""

    members: Members
    partition_epochs: tuple[int, ...]
    """Of each partition: the epoch of the member that has it, 0 if nobody has."""
    epoch: int = 0
    status: GroupStatus = GroupStatus.EMPTY
    target_epoch: int = 0
    target: tuple[tuple[int, Partitions], ...] = ()
    """Who is to have what; nothing before the first assignment."""

    def member(self, member: int) -> Member | None:
        return next((one for known, one in self.members if known == member), None)

    def target_of(self, member: int) -> Partitions:
        return dict(self.target)[member]

    def members_with(self, member: int, one: Member) -> Members:
        return tuple(sorted({**dict(self.members), member: one}.items()))


@attrs.frozen(cache_hash=True)
class Network:
    """Messages: how often each is on its way. In version 1 one that has arrived stays, with the number 0."""

    requests: tuple[tuple[HeartbeatRequest, int], ...] = ()
    responses: tuple[tuple[HeartbeatResponse, int], ...] = ()
    discarded: tuple[HeartbeatRequest | HeartbeatResponse, ...] = ()
    """Version 2: the message that the last step took, if it took one."""


@attrs.frozen
class State:
    """Clients by number, the group, the network; and the numbers that were given away."""

    clients: tuple[Client, ...]
    group: Group
    network: Network = Network()
    last_member: int = 0
    last_connection: int = 0
    perturbations: int = 0

    def with_client(self, number: int, client: Client) -> State:
        clients = (*self.clients[:number], client, *self.clients[number + 1 :])
        return State(clients, self.group, self.network, self.last_member, self.last_connection, self.perturbations)

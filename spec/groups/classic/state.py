"""What the machine of classic groups is made of: members, the coordinator's memory and log, requests that are late.

Frozen attrs classes of integers and tuples, as everywhere in this room. A *process* is a client that wants to be a
member; the coordinator gives it a *member id*. Two processes may share a group instance id (KIP-345): then one of them
replaces the other, which does not know it. A process that crashes and starts again is the same process without memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Annotated

import attrs

from tidegauge.spec.kernel.bounds import Spent, spend
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.naming import named
from tidegauge.spec.kernel.piecemeal import IN_PARTS, PIECEMEAL

NONE = -1

ProcessNumber = Annotated[int, "a process of the machine"]
"""The index of a process, in an action or a message."""


class Error(IntEnum):
    """Kafka's error codes, those of groups here."""

    NONE = 0
    COORDINATOR_LOAD_IN_PROGRESS = 14
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    UNKNOWN_MEMBER_ID = 25
    REBALANCE_IN_PROGRESS = 27
    MEMBER_ID_REQUIRED = 79
    FENCED_INSTANCE_ID = 82


# --- what members say ----------------------------------------------------------------------------------------------


@attrs.frozen(order=True)
class Subscription:
    """What a member says of itself when it joins: what it wants, and what it has (KIP-429)."""

    topics: tuple[int, ...]
    owned: tuple[int, ...] = ()
    """The partitions that it goes on with meanwhile; with the eager protocol, none."""
    generation: int = NONE
    """The generation of what it says that it owns."""


@attrs.frozen(order=True)
class Share:
    """What the leader gives to one member."""

    member_id: int
    partitions: tuple[int, ...]


@attrs.frozen(order=True)
class JoinRequest:
    """JoinGroup; without a member id if the coordinator has given it none."""

    process: ProcessNumber
    member_id: int
    subscription: Subscription


@attrs.frozen(order=True)
class SyncRequest:
    """SyncGroup; the leader's has what each member is to own."""

    process: ProcessNumber
    member_id: int
    generation: int
    protocol: int
    shares: tuple[Share, ...] = ()


@attrs.frozen(order=True)
class HeartbeatRequest:
    """Heartbeat."""

    process: ProcessNumber
    member_id: int
    generation: int


@attrs.frozen(order=True)
class LeaveRequest:
    """LeaveGroup of one member."""

    process: ProcessNumber
    member_id: int


@attrs.frozen(order=True)
class CommitRequest:
    """OffsetCommit for one partition."""

    process: ProcessNumber
    member_id: int
    generation: int
    partition: int
    offset: int


@attrs.frozen
class Joined:
    """A JoinGroup that has succeeded; the leader is told who the members are."""

    member_id: int
    generation: int
    protocol: int
    leader: int
    members: tuple[tuple[int, Subscription], ...] = ()


@attrs.frozen
class Synced:
    """A SyncGroup that has succeeded."""

    partitions: tuple[int, ...]


@attrs.frozen
class Failed:
    """A JoinGroup or SyncGroup that has waited in vain."""

    error: Error


Response = Joined | Synced | Failed


# --- the coordinator -----------------------------------------------------------------------------------------------


class Status(IntEnum):
    """The state of a group. A group that another coordinator has taken over is in none here: nobody asks it."""

    EMPTY = 0
    PREPARING_REBALANCE = 1
    COMPLETING_REBALANCE = 2
    STABLE = 3


class Waiting(IntEnum):
    """The request of a member that waits for its response at the coordinator."""

    NOTHING = 0
    JOIN = 1
    SYNC = 2


@attrs.frozen(cache_hash=True)
class Member:
    """A member as its coordinator knows it. The log has the fields before `waiting`."""

    member_id: int
    instance: int = NONE
    """Its group instance id, if it is a static member."""
    protocols: tuple[int, ...] = (0,)
    subscription: Subscription = Subscription(())
    partitions: tuple[int, ...] = ()
    """What it is assigned."""
    waiting: Waiting = Waiting.NOTHING
    connection: int = NONE
    """The process that will have the response; NONE if nobody is there any more."""
    is_new: bool = False
    """It has not yet been told its member id by a response to JoinGroup."""
    unsynced: bool = False
    """It was told the generation, and has not asked for its assignment."""
    watched: bool = True
    """Whether it is removed when its session ends."""

    def durable(self, protocol: int) -> Member:
        """What the log has of it: of what it knows, the protocol of the generation."""
        return Member(self.member_id, self.instance, (protocol,), self.subscription, self.partitions)


@attrs.frozen(cache_hash=True)
class GroupRecord:
    """The record of a group: the last one says all."""

    generation: int
    protocol: int = NONE
    leader: int = NONE
    members: tuple[Member, ...] = attrs.field(default=(), metadata=IN_PARTS)


@attrs.frozen(cache_hash=True)
class Group:
    """What the coordinator has in memory."""

    status: Status = Status.EMPTY
    generation: int = 0
    protocol: int = NONE
    leader: int = NONE
    members: tuple[Member, ...] = attrs.field(default=(), metadata=IN_PARTS)
    """In the order in which they came."""
    pending: tuple[int, ...] = ()
    """Member ids that were given, and whose members have not joined under them yet (KIP-394)."""
    initial: bool = False
    """The members of an empty group are given time to come (`group.initial.rebalance.delay.ms`)."""

    def member(self, member_id: int) -> Member | None:
        return next((one for one in self.members if one.member_id == member_id), None)

    def of_instance(self, instance: int) -> Member | None:
        """The static member with this group instance id."""
        return next((one for one in self.members if one.instance == instance != NONE), None)

    def with_member(self, member: Member) -> Group:
        """The group with a member as it is now."""
        return evolve(self, members=tuple(member if one.member_id == member.member_id else one for one in self.members))

    def unassigned(self) -> Group:
        """The group without an assignment."""
        return evolve(self, members=tuple(evolve(one, partitions=()) for one in self.members))

    def rejoining(self) -> Group:
        """The group whose members are not to ask for their assignments any more."""
        return evolve(self, members=tuple(evolve(one, unsynced=False) for one in self.members))


@attrs.frozen(order=True)
class Offset:
    """An offset that is committed, and by whom."""

    value: int = 0
    member_id: int = NONE
    generation: int = NONE


@attrs.frozen
class OffsetRecord:
    """The record of an offset of one partition."""

    partition: int
    offset: Offset


@attrs.frozen
class Entry:
    """What the coordinator has appended, and that is not committed yet."""

    record: GroupRecord | OffsetRecord = attrs.field(metadata=IN_PARTS)
    replacing: int = NONE
    """The member id of the static member that is told of it, if its process was replaced."""


@attrs.frozen(cache_hash=True)
class Log:
    """What is committed in the group's partition of `__consumer_offsets`, as the cleaner leaves it."""

    groups: tuple[GroupRecord, ...] = attrs.field(default=(), metadata=IN_PARTS)
    """The last two, in their order: the cleaner may not have come by."""
    offsets: tuple[Offset, ...] = ()
    """The last one of each partition."""


@attrs.frozen(order=True)
class Owner:
    """Who was given a partition last, and in which generation."""

    member_id: int = NONE
    generation: int = NONE


# --- processes -----------------------------------------------------------------------------------------------------


class Phase(IntEnum):
    """What a process is doing."""

    DOWN = 0
    UNJOINED = 1
    JOINING = 2
    """Its JoinGroup is on its way, or waits."""
    JOINED = 3
    """It knows its generation, and has not asked for its assignment."""
    SYNCING = 4
    """Its SyncGroup is on its way, or waits."""
    STABLE = 5
    FENCED = 6
    """It was told that another process has its group instance id: the end of it."""
    REFUSED = 7
    """It was told that the group has no protocol that it knows: the end of it."""


ENDED = (Phase.DOWN, Phase.FENCED, Phase.REFUSED)


@attrs.frozen(cache_hash=True)
class Process:
    """A client that wants to be a member."""

    phase: Phase = Phase.DOWN
    member_id: int = NONE
    generation: int = NONE
    protocol: int = NONE
    topics: tuple[int, ...] = ()
    asked: tuple[int, ...] = ()
    """The topics that it has asked for when it joined."""
    leads: bool = False
    known: int = 0
    """How many partitions there were when it led."""
    shares: tuple[Share, ...] = ()
    """What it gives to each member, if it leads."""
    owned: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    """Where it goes on in each partition; NONE where it has not asked yet."""
    rejoin: bool = False
    """It will join again as soon as it can."""
    hung: bool = False
    """Its application does nothing any more; heartbeats go on."""
    response: Response | None = attrs.field(default=None, metadata=IN_PARTS)
    """The response that is on its way to it."""

    def at(self, partition: int, position: int) -> Process:
        """The process when it has come so far in a partition."""
        return evolve(self, positions=(*self.positions[:partition], position, *self.positions[partition + 1 :]))


@attrs.frozen(cache_hash=True)
class Late:
    """Requests whose senders have sent them again, or have given them up, and that may yet arrive."""

    joins: tuple[JoinRequest, ...] = ()
    syncs: tuple[SyncRequest, ...] = ()
    heartbeats: tuple[HeartbeatRequest, ...] = ()
    commits: tuple[CommitRequest, ...] = ()


@attrs.frozen(cache_hash=True)
class State:
    """Processes, their coordinator, its log, and what is late."""

    processes: tuple[Process, ...]
    group: Group | None = attrs.field(default=Group(), metadata=IN_PARTS)
    """None while a new coordinator reads the log."""
    log: Log = Log()
    appended: tuple[Entry, ...] = attrs.field(default=(), metadata=IN_PARTS)
    """The end of the log that is not committed yet."""
    partitions: int = 1
    """How many there are."""
    member_ids: int = 0
    """How many were given."""
    owners: tuple[Owner, ...] = ()
    """Of each partition, by the records of the group that are committed."""
    told: tuple[int, ...] = ()
    """Of each partition, the offset of which a member was told last that it is committed."""
    lost: int = NONE
    """The last generation that a coordinator began, and took with it: its number comes again."""
    late: Late = Late()
    spent: Spent = attrs.field(default=(), metadata=PIECEMEAL)

    @property
    def loaded(self) -> Group:
        """The group, where a guard has asked whether it is loaded."""
        assert self.group is not None, "the coordinator is loading"
        return self.group

    def with_process(self, number: int, process: Process) -> State:
        return evolve(self, processes=(*self.processes[:number], process, *self.processes[number + 1 :]))

    def spend(self, perturbation: str) -> State:
        return evolve(self, spent=spend(self.spent, perturbation))


def named_processes(value: object) -> Iterator[int]:
    """Every process that `value`, an action or a message, names."""
    return named(value, ProcessNumber)

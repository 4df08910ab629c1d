"""What the machine of consumer groups is made of: processes, the coordinator's group, its log, requests that are late.

Frozen attrs classes of integers and tuples. A *process* is a client that wants to be a member; it makes its member id
itself when it starts. Sets of partitions are sorted tuples.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Annotated, Final

import attrs

from tidegauge.spec.groups.consumer.classic_group import ClassicGroup, Stage
from tidegauge.spec.kernel.bounds import Spent, spend
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.naming import named
from tidegauge.spec.kernel.piecemeal import IN_PARTS, PIECEMEAL

NONE: Final = -1
JOINING_EPOCH: Final = 0
"""The member epoch of one that joins, or joins again."""
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
"""The member epoch of a static member that leaves and comes back."""
FIRST_EPOCH: Final = 1
"""The epoch of a group without members and without assignment (KAFKA-20268)."""

ProcessNumber = Annotated[int, "a process of the machine"]
"""The index of a process, in an action or a message."""


class Age(IntEnum):
    """How long ago a group's regular expressions were resolved."""

    RECENT = 0
    """Less than ten seconds: it is not done again yet."""
    PAST = 1
    DUE = 2
    """`group.consumer.regex.refresh.interval.ms`, or nothing is resolved."""


class Error(IntEnum):
    """Kafka's error codes, those of consumer groups here."""

    NONE = 0
    COORDINATOR_LOAD_IN_PROGRESS = 14
    ILLEGAL_GENERATION = 22
    UNKNOWN_MEMBER_ID = 25
    REBALANCE_IN_PROGRESS = 27
    GROUP_ID_NOT_FOUND = 69
    FENCED_INSTANCE_ID = 82
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    STALE_MEMBER_EPOCH = 113


@attrs.frozen(order=True)
class HeartbeatRequest:
    """ConsumerGroupHeartbeat: it joins, goes on, acknowledges what was revoked, and leaves."""

    process: ProcessNumber
    member_id: int
    epoch: int
    topics: tuple[int, ...] = ()
    expression: int = NONE
    """The regular expression of the topics that it wants, beside those that it names."""
    owned: tuple[int, ...] | None = None
    """What it owns; None if that is what it has said before."""
    full: bool = False
    """It says all, since it cannot know what the coordinator knows of it: the response has to do so too."""
    classic: bool = False
    """It is a JoinGroup, or a LeaveGroup, of a member that speaks the classic protocol (`spec.groups.migration`)."""
    generation: int = NONE
    """In a static member's JoinGroup: the generation in which it has owned that (KIP-792)."""


@attrs.frozen(order=True)
class CommitRequest:
    """OffsetCommit for one partition."""

    process: ProcessNumber
    member_id: int
    epoch: int
    partition: int
    offset: int


@attrs.frozen
class Response:
    """What a member is told by its heartbeat."""

    epoch: int
    assignment: tuple[int, ...] | None = None
    """What it is to own; None if that is what it was told before."""


# --- the coordinator -----------------------------------------------------------------------------------------------

Held = tuple[tuple[int, int], ...]
"""Partitions, each with the epoch in which the member was assigned it (KIP-1251)."""


def partitions_of(held: Held) -> tuple[int, ...]:
    return tuple(partition for partition, _ in held)


@attrs.frozen(cache_hash=True)
class Member:
    """A member as its coordinator knows it: what it wants, its epoch, and what it has."""

    member_id: int
    instance: int = NONE
    """Its group instance id, if it is a static member."""
    topics: tuple[int, ...] = ()
    expression: int = NONE
    epoch: int = JOINING_EPOCH
    """STATIC_LEAVING_EPOCH if it is to come back."""
    previous_epoch: int = JOINING_EPOCH
    assigned: Held = ()
    revoking: Held = ()
    """What it has to give back, and has not acknowledged."""
    classic: bool = False
    """Whether it speaks the classic protocol (`spec.groups.migration`)."""
    waits: bool = False
    """Whether others had something of its part of the target when it asked last; of interest where targets wait."""

    @property
    def held(self) -> dict[int, int]:
        """All that it may own, with the epochs of that."""
        return dict((*self.assigned, *self.revoking))


@attrs.frozen(cache_hash=True)
class Group:
    """The group: all of it is in the log."""

    epoch: int = FIRST_EPOCH
    target_epoch: int = FIRST_EPOCH
    """The epoch of the group for which the target was made."""
    target: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Member id -> what it is to own, by member id."""
    members: tuple[Member, ...] = attrs.field(default=(), metadata=IN_PARTS)
    """By member id."""
    target_is_new: bool = False
    """Whether less than `consumer.assignment.interval.ms` has passed since the target was made (KIP-1263)."""
    known: tuple[int, ...] = ()
    """The partitions of what the members want, as they were when the epoch began."""
    racks: int = 0
    """The racks of their replicas at that time, as `State.racks`."""
    resolved: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Regular expression -> the topics that it has matched, as far as a member has it and it is resolved."""
    resolved_of: int = 0
    """How many topics there had been by then."""
    resolved_age: Age = Age.DUE

    @property
    def expressions(self) -> tuple[int, ...]:
        """The members' regular expressions."""
        return tuple(sorted({one.expression for one in self.members} - {NONE}))

    def member(self, member_id: int) -> Member | None:
        return next((one for one in self.members if one.member_id == member_id), None)

    def of_instance(self, instance: int) -> Member | None:
        """The static member with this group instance id."""
        return next((one for one in self.members if one.instance == instance != NONE), None)

    def target_of(self, member_id: int) -> tuple[int, ...]:
        return dict(self.target).get(member_id, ())

    def is_past_its_target(self, member: Member) -> bool:
        """Whether a member has had all that an older epoch's target gives it, and goes on with the next one."""
        is_there = member.epoch == self.target_epoch < self.epoch
        return is_there and not member.waits and not member.revoking

    def wants(self, member: Member) -> tuple[int, ...]:
        """The topics that a member names, and those that its expression has matched."""
        matched = dict(self.resolved).get(member.expression, ())
        return tuple(sorted({*member.topics, *matched})) if matched else member.topics

    def with_member(self, member: Member) -> Group:
        others = [one for one in self.members if one.member_id != member.member_id]
        return evolve(self, members=tuple(sorted((*others, member), key=lambda one: one.member_id)))

    def without(self, member_id: int) -> Group:
        """The group without a member, and its part of the target."""
        members = tuple(one for one in self.members if one.member_id != member_id)
        target = tuple(one for one in self.target if one[0] != member_id)
        return evolve(self, members=members, target=target)

    def at_age(self, age: Age) -> Group:
        """The group when so much time has passed; of nothing that is resolved there is no time."""
        return evolve(self, resolved_age=age) if self.resolved and self.resolved_age < age else self

    def with_old_target(self) -> Group:
        """The group when the next target may be made."""
        return evolve(self, target_is_new=False) if self.target_is_new else self


@attrs.frozen(order=True)
class Offset:
    """An offset that is committed, and by whom."""

    value: int = 0
    member_id: int = NONE


@attrs.frozen
class Entry:
    """What the coordinator has appended in one batch, and that is not committed yet."""

    group: Group | None = attrs.field(default=None, metadata=IN_PARTS)
    """The group that its records amount to."""
    classic: ClassicGroup | None = attrs.field(default=None, metadata=IN_PARTS)
    """Or the classic group (`spec.groups.migration`)."""
    assigns: bool = False
    """Whether it is the assignment of a classic group's leader: the group is stable when it is committed."""
    replacing: int = NONE
    """Or the member id of a classic group's static member whose next process has its response then."""
    offset: tuple[int, Offset] | None = None
    """Or the offset of a partition."""
    request: HeartbeatRequest | None = attrs.field(default=None, metadata=IN_PARTS)
    """What is responded to when it is committed."""
    response: Response | None = attrs.field(default=None, metadata=IN_PARTS)


@attrs.frozen(cache_hash=True)
class Log:
    """What the committed records of the group in `__consumer_offsets` amount to: the last one of each key."""

    group: Group = Group()
    offsets: tuple[Offset, ...] = ()
    classic: ClassicGroup | None = attrs.field(default=None, metadata=IN_PARTS)
    """The classic group that there is instead (`spec.groups.migration`)."""


# --- processes -----------------------------------------------------------------------------------------------------


class Phase(IntEnum):
    """What a process is."""

    DOWN = 0
    UP = 1
    FENCED = 2
    """It was told that another process has its group instance id: the end of it."""


@attrs.frozen(cache_hash=True)
class Process:
    """A client that wants to be a member."""

    phase: Phase = Phase.DOWN
    member_id: int = NONE
    epoch: int = JOINING_EPOCH
    topics: tuple[int, ...] = ()
    expression: int = NONE
    asked: tuple[tuple[int, ...], int] = ((), NONE)
    """Topics and expression of its last heartbeat that was responded to."""
    owned: tuple[int, ...] = ()
    assigned: tuple[int, ...] | None = None
    """What it is to own, until it does."""
    said: tuple[int, ...] | None = None
    """What it has said that it owns, in its last heartbeat that was responded to."""
    full: bool = True
    """Its next heartbeat says all."""
    waiting: bool = False
    """Its heartbeat waits for its records to be committed."""
    hung: bool = False
    """Its application does nothing any more; heartbeats go on."""
    classic: bool = False
    """Whether it speaks the classic protocol (`spec.groups.migration`)."""
    stage: Stage = Stage.OUTSIDE
    """How far it is in a generation, if it does."""
    static: bool = False
    """Whether it is a static member that does: the coordinator makes its member id."""
    positions: tuple[int, ...] = ()
    """Where it goes on in each partition; NONE where it has not asked yet."""

    @property
    def works(self) -> bool:
        """Whether it goes on."""
        return self.phase is Phase.UP and not self.hung

    def at(self, partition: int, position: int) -> Process:
        """The process when it has come so far in a partition."""
        return evolve(self, positions=(*self.positions[:partition], position, *self.positions[partition + 1 :]))


@attrs.frozen(cache_hash=True)
class State:
    """Processes, their coordinator, its log, and what is late."""

    processes: tuple[Process, ...]
    group: Group | None = attrs.field(default=Group(), metadata=IN_PARTS)
    """None while a new coordinator reads the log."""
    resolving: tuple[int, ...] | None = None
    """The regular expressions that a task of the coordinator's holds against the topics; None if there is no task."""
    classic: ClassicGroup | None = attrs.field(default=None, metadata=IN_PARTS)
    """The classic group that there is instead (`spec.groups.migration`)."""
    log: Log = Log()
    appended: tuple[Entry, ...] = attrs.field(default=(), metadata=IN_PARTS)
    """The end of the log that is not committed yet."""
    partitions: int = 1
    """How many there are."""
    racks: int = 0
    """How often replicas have come to other racks: another number, other racks."""
    created: int = 1
    """How many topics there have been, in their order."""
    deleted: tuple[int, ...] = ()
    """Those that there are no more."""
    member_ids: int = 0
    """How many were made."""
    told: tuple[int, ...] = ()
    """Of each partition, the offset of which a member was told last that it is committed."""
    heartbeats: tuple[HeartbeatRequest, ...] = ()
    """Those whose senders have given them up, and that may yet arrive."""
    commits: tuple[CommitRequest, ...] = ()
    """As heartbeats."""
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

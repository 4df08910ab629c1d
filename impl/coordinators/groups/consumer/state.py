"""A consumer group (KIP-848) as its coordinator has it in memory: values that never change, one after the other.

A call makes another group of one; what has to be in the log is the difference between the two (`records`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias
from typing import Protocol as Interface

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.state import Protocol

JOINING_EPOCH: Final = 0
"""The member epoch of one that joins, or joins again."""
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
"""The member epoch of a static member that leaves and comes back."""
FIRST_EPOCH: Final = 1
"""The epoch of a group without members and without assignment (KAFKA-20268)."""
EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"

Place: TypeAlias = tuple[str, int]
"""A partition: the topic's id, as the metadata image has it, and the index."""
Held: TypeAlias = Mapping[Place, int]
"""Partitions, each with the epoch in which the member was assigned it (KIP-1251)."""


class Resolved(NamedTuple):
    """What a regular expression has matched."""

    topics: frozenset[str]
    version: int
    """Of the topics that it was held against."""
    time_ms: int
    """ms since 1970."""


class ClassicSide(NamedTuple):
    """What a member says of itself that speaks the classic protocol (`migration`)."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]

    @property
    def metadata(self) -> bytes:
        """What it has told for its first protocol: consumers tell the same for each, but for what assignors add."""
        return self.protocols[0].metadata if self.protocols else b""


class Topic(NamedTuple):
    """What the coordinator knows of a topic."""

    topic_id: str
    partitions: int


Topics: TypeAlias = Mapping[str, Topic]
"""By name."""


class KnownTopics(Interface):
    """What the coordinator knows of topics when a heartbeat comes."""

    def topic_hash(self, name: str) -> int:
        """Of a topic that there is: its id, its partitions and their replicas' racks (`metadata_hash`)."""

    @property
    def topics(self) -> Topics:
        """Those that there are."""

    @property
    def version(self) -> int:
        """Another one may have other topics."""

    @property
    def newest(self) -> int:
        """The version in which a topic came last."""

    @property
    def time_ms(self) -> int:
        """Now, in ms since 1970."""

    def check(self, expression: str) -> None:
        """Raises PatternError for what is no expression."""

    def matching(self, expression: str) -> frozenset[str]:
        """The names that an expression matches as a whole, of topics that whose heartbeat it is may describe.

        What is no expression matches nothing.
        """


@attrs.frozen
class ConsumerHeartbeat:
    """A ConsumerGroupHeartbeat; None where nothing has changed since the last one."""

    group: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    expression: str | None = None
    """A regular expression of names of topics; "" if it has none any more."""
    assignor: str | None = None
    owned: frozenset[Place] | None = None
    client_id: str = ""
    client_host: str = ""
    classic: ClassicSide | None = None
    """Of a JoinGroup: its member speaks the classic protocol."""

    @property
    def is_full(self) -> bool:
        """Whether it says all, so that the response has to say all too."""
        says_all = self.rebalance_timeout_ms != -1 and self.topics is not None and self.owned is not None
        return self.epoch == JOINING_EPOCH or says_all


@attrs.frozen
class HeartbeatResponse:
    """What a member is told."""

    error: ErrorCode = ErrorCode.none
    message: str = ""
    member_id: str | None = None
    epoch: int = 0
    assignment: frozenset[Place] | None = None
    """What it is to own; None if that is what it was told before."""


@attrs.frozen(eq=False)
class ConsumerMember:
    """A member: what it wants, its epoch, and what it has."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    """The names that it subscribes to."""
    expression: str = ""
    """The regular expression of names that it subscribes to besides; "" if there is none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    epoch: int = JOINING_EPOCH
    """STATIC_LEAVING_EPOCH if it is to come back."""
    previous_epoch: int = JOINING_EPOCH
    assigned: Held = attrs.field(factory=dict)
    revoking: Held = attrs.field(factory=dict)
    """What it has to give back, and has not acknowledged."""
    is_waiting: bool = False
    """Whether another member has to give back first what the target gives it."""
    classic: ClassicSide | None = None
    """If it speaks the classic protocol."""

    @property
    def subscription(self) -> tuple[object, ...]:
        """What the record of a member says."""
        own = self.instance_id, self.rack_id, self.client_id, self.client_host
        return *own, self.topics, self.expression, self.rebalance_timeout_ms, self.assignor, self.classic

    @property
    def current(self) -> tuple[object, ...]:
        """What the record of a member's assignment says."""
        return self.epoch, self.previous_epoch, self.assigned, self.revoking, self.is_waiting


@attrs.frozen(eq=False, slots=False)
class ConsumerGroup:
    """A group. Without members it is empty, and stays until it is deleted."""

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    """Of the topics that the members subscribe to, as they were when the epoch began."""
    target_epoch: int = FIRST_EPOCH
    """The epoch of the group for which the target was made."""
    target: Mapping[str, frozenset[Place]] = attrs.field(factory=dict)
    """Who is to own what, by member id."""
    target_ms: int = 0
    """When the target was made, in ms since 1970 (KIP-1263); 0 if none was, or nobody knows."""
    members: Mapping[str, ConsumerMember] = attrs.field(factory=dict)
    """By member id."""
    resolved: Mapping[str, Resolved] = attrs.field(factory=dict)
    """What the members' regular expressions have matched, as far as they are resolved."""
    revision: int = 0
    """Later ones have larger numbers."""

    @cached_property
    def holders(self) -> Mapping[Place, str]:
        """Who has a partition, or has yet to give it back."""
        return {place: one.member_id for one in self.members.values() for place in (*one.assigned, *one.revoking)}

    @cached_property
    def instances(self) -> Mapping[str, str]:
        """The member ids of static members, by group instance id."""
        return {one.instance_id: one.member_id for one in self.members.values() if one.instance_id is not None}

    @property
    def state(self) -> str:
        """Kafka's name for it."""
        if not self.members:
            return EMPTY
        if self.epoch > self.target_epoch:
            return ASSIGNING
        all_are = all(
            one.epoch == self.target_epoch and not one.revoking and not one.is_waiting for one in self.members.values()
        )
        return STABLE if all_are else RECONCILING

    @cached_property
    def expressions(self) -> set[str]:
        """The members' regular expressions."""
        return {member.expression for member in self.members.values()} - {""}

    @property
    def subscriptions(self) -> set[frozenset[str]]:
        """What members want, each once: most want the same."""
        if not self.resolved:
            return {member.topics for member in self.members.values()}
        return {self.wants(member) for member in self.members.values()}

    def wants(self, member: ConsumerMember) -> frozenset[str]:
        """The names that a member subscribes to, and those that its expression has matched."""
        resolved = self.resolved.get(member.expression)
        return member.topics if resolved is None else member.topics | resolved.topics

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member subscribes to it."""
        return any(topic in self.wants(member) for member in self.members.values())

    def with_member(self, member: ConsumerMember) -> ConsumerGroup:
        return attrs.evolve(self, members={**self.members, member.member_id: member})

    def without(self, member_id: str) -> ConsumerGroup:
        """The group without a member, its part of the target, and what only it has matched."""
        members = {known: one for known, one in self.members.items() if known != member_id}
        target = {one: has for one, has in self.target.items() if one in members}
        group = attrs.evolve(self, members=members, target=target)
        if self.resolved.keys() <= group.expressions:
            return group
        return attrs.evolve(group, resolved={one: self.resolved[one] for one in group.expressions & {*self.resolved}})

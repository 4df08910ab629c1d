"""A group of the classic protocol, as its coordinator keeps it in memory: its state, its generation and its members.

The log has less: the members of the last generation that was stable, and their assignments (`group_metadata`). The rest
is known here alone, and a new coordinator begins without it.

    Empty               nobody is in the group; it may have offsets
    PreparingRebalance  a rebalance has begun, and the coordinator waits for members to join
    CompletingRebalance a generation has begun, and the coordinator waits for its leader's assignment
    Stable              every member may have its assignment
    Dead                the group's tombstone is on its way into the log
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

import attrs

from tidegauge.impl.coordinators.groups.classic.subscriptions import CONSUMER, subscribed_topics
from tidegauge.impl.coordinators.groups.group_metadata import GroupMember, GroupMetadata
from tidegauge.impl.coordinators.groups.record_formats import NO_TIME

Token: TypeAlias = Hashable
"""A request that waits for its response: what it is, its shell knows."""
NO_GENERATION: Final = 0
"""Before the first one."""


class ClassicState(Enum):
    """The state of a group, under the name that Kafka tells."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Protocol(NamedTuple):
    """A way to assign that a member knows, and what its leader has to know of the member then."""

    name: str
    metadata: bytes


class InitialDelay(NamedTuple):
    """The wait for the first members of a group that was empty."""

    delay_ms: int
    """How long the present part of the wait takes."""
    remaining_ms: int
    """How much longer it may take after this part, while members come."""


@attrs.define
class ClassicMember:
    """A member of a group; times in ms."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    """The best one first."""
    assignment: bytes = b""
    is_new: bool = False
    """Its first JoinGroup has no response yet: it sends no heartbeats, so its session is the one of that request."""
    joining: Token | None = None
    """Its JoinGroup that waits."""
    syncing: Token | None = None
    """Its SyncGroup that waits."""
    session_deadline: int | None = None
    """When its session ends; None while what it waits for keeps it alive."""

    def metadata_for(self, protocol: str | None) -> bytes:
        """What it has told for a protocol."""
        return next((known.metadata for known in self.protocols if known.name == protocol), b"")

    @property
    def is_waiting(self) -> bool:
        """Whether what it waits for keeps its session alive: a new member's first request does not."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)


@attrs.define
class ClassicGroup:
    """A group; times in ms, deadlines on the clock of timers and `state_time` since 1970."""

    group_id: str
    state: ClassicState = ClassicState.EMPTY
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_time: int = NO_TIME
    members: dict[str, ClassicMember] = attrs.field(factory=dict)
    instances: dict[str, str] = attrs.field(factory=dict)
    """The member id of each static member, by its instance id."""
    pending: dict[str, int] = attrs.field(factory=dict)
    """Member ids that were given and have not joined yet (KIP-394), with their deadlines."""
    unsynced: dict[str, None] = attrs.field(factory=dict)
    """The members of the generation that have not asked for their assignment yet."""
    initial: InitialDelay | None = None
    """Of a rebalance of a group that was empty."""
    has_new_member: bool = False
    """Whether one has joined in the present part of that wait."""
    join_deadline: int | None = None
    """When the coordinator waits no longer for members to join."""
    sync_deadline: int | None = None
    """When it waits no longer for the unsynced."""
    is_storing: bool = False
    """Whether the leader's assignment is on its way into the log."""
    supported: Counter[str] = attrs.field(factory=Counter, eq=False, repr=False)
    """How many members know each protocol."""
    joined: int = attrs.field(default=0, eq=False, repr=False)
    """How many members have a JoinGroup that waits."""
    read: tuple[int, frozenset[str] | None] | None = attrs.field(default=None, eq=False, repr=False)
    """What the members of a generation subscribe to, once somebody has asked."""

    # --- questions -----------------------------------------------------------------------------------------------

    @property
    def is_consumers(self) -> bool:
        """Whether its members are consumers, whose metadata tell their subscriptions."""
        return self.protocol_type == CONSUMER

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to know of it: its first members have gone before they were a generation."""
        is_unused = self.state is ClassicState.EMPTY and self.generation == NO_GENERATION
        return is_unused and not (self.pending or self.protocol_type)

    @property
    def has_all_joined(self) -> bool:
        """Whether everybody who could join has done so."""
        return self.joined == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of any member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member may need the offsets of a topic."""
        topics = self.subscriptions()
        return self.is_consumers if topics is None else topic in topics

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether one with these protocols can be in the group: one of them is known to all."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        return protocol_type == self.protocol_type and any(self.supported[name] == len(self.members) for name in names)

    def elected_protocol(self) -> str | None:
        """The protocol with the most votes: each member votes for the best of its own that everybody knows.

        Of two with as many votes the one that was voted for first.
        """
        votes: Counter[str] = Counter()
        for member in self.members.values():
            known = (one.name for one in member.protocols if self.supported[one.name] == len(self.members))
            votes.update([name for name in (next(known, None),) if name is not None])
        return max(votes, key=votes.__getitem__, default=None)

    def subscriptions(self) -> frozenset[str] | None:
        """What its members subscribe to, if that is known."""
        if not self.is_consumers or (self.members and self.protocol is None):
            return None
        if self.read is None or self.read[0] != self.generation:
            known = (member.metadata_for(self.protocol) for member in self.members.values())
            self.read = self.generation, subscribed_topics(known)
        return self.read[1]

    def written(self, assignments: dict[str, bytes]) -> GroupMetadata:
        """What the log is to say of it."""
        return GroupMetadata(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_time=self.state_time,
            members=tuple(
                GroupMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    member.session_timeout_ms,
                    member.metadata_for(self.protocol),
                    assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ),
        )

    # --- changes -------------------------------------------------------------------------------------------------

    def enter(self, state: ClassicState, wall_ms: int) -> None:
        """Be in another state from now on; what belongs to a generation that is not complete ends."""
        self.state = state
        self.state_time = wall_ms
        self.is_storing = False

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """A member is in the group; the first one says of what type it is, and leads it. None of its requests waits."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)

    def remove(self, member_id: str) -> None:
        """A member leaves the group, of which a rebalance goes on or begins; none of its requests waits any more."""
        member = self.members.pop(member_id)
        self._count(member, -1)
        if member.instance_id is not None:
            del self.instances[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, member: ClassicMember, member_id: str) -> ClassicMember:
        """A static member goes on under another id; nothing waits for a response under the old one."""
        was_leader = self.leader == member.member_id
        self.members.pop(member.member_id)
        self.unsynced.pop(member.member_id, None)
        replacement = attrs.evolve(member, member_id=member_id, is_new=False, session_deadline=None)
        self.members[member_id] = replacement
        if member.instance_id is not None:
            self.instances[member.instance_id] = member_id
        if was_leader:
            self.leader = member_id
        return replacement

    def update(
        self,
        member: ClassicMember,
        protocols: Sequence[Protocol],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """What a member says of itself when it joins again."""
        self._count(member, -1)
        member.protocols = tuple(protocols)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._count(member, 1)

    def wait_to_join(self, member: ClassicMember, token: Token | None) -> Token | None:
        """A member's JoinGroup waits from now on, or none does; returns the one that has waited."""
        before, member.joining = member.joining, token
        self.joined += (token is not None) - (before is not None)
        return before

    def _count(self, member: ClassicMember, change: int) -> None:
        for name in {protocol.name for protocol in member.protocols}:
            self.supported[name] += change
            if not self.supported[name]:
                del self.supported[name]


def from_log(group: str, metadata: GroupMetadata) -> ClassicGroup:
    """A group as the log has it: its last generation is stable, and what was going on since is forgotten."""
    found = ClassicGroup(
        group,
        ClassicState.STABLE if metadata.members else ClassicState.EMPTY,
        metadata.generation,
        metadata.protocol_type or None,
        metadata.protocol,
        metadata.leader,
        metadata.state_time,
    )
    for known in metadata.members:
        member = ClassicMember(
            known.member_id,
            known.instance_id,
            known.client_id,
            known.client_host,
            known.rebalance_timeout_ms,
            known.session_timeout_ms,
            (Protocol(metadata.protocol or "", known.subscription),),
            known.assignment,
        )
        found.add(member, metadata.protocol_type)
    return found

"""One member of a classic group, as it knows itself: what it may ask, and what it makes of responses.

Theory of operation
-------------------
A member joins, is told a generation, asks for its part of it, and works: UNJOINED, JOINING, JOINED, SYNCING, STABLE.
Who is told to lead shares the partitions out while it is JOINED. UNSETTLED is STABLE with a reason to join again: the
group rebalances, the member has given something back, or the leader has seen partitions that nobody has.

What it owns it goes on with until it joins again. With the eager protocol it gives everything back then; with the
cooperative one (KIP-429) what is left of its subscription stays, and it says so. A member that is told that it is none
any more has lost what it owns: that is no one's to commit. One whose generation is over keeps its member id, so that it
does not have to wait for itself.

An error is about what the member was when it asked: one that is about a former membership changes nothing.

The rules are those of `spec.groups.classic`, and this core goes in lockstep with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.assignors.subscription import (
    NO_GENERATION,
    NO_RACKS,
    Assignment,
    Assignor,
    Members,
    Partition,
    RackAwareAssignor,
    Racks,
    Subscription,
)

NO_MEMBER: Final = ""


class State(Enum):
    """What a member is doing."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    """Its JoinGroup is on its way, or waits for other members."""
    JOINED = "joined"
    """It knows its generation, and has not asked for its part."""
    SYNCING = "syncing"
    """Its SyncGroup is on its way, or waits for the leader's."""
    STABLE = "stable"
    UNSETTLED = "unsettled"
    """It has its part, and joins again as soon as it can."""
    FENCED = "fenced"
    """Another process has its group instance id: the end of it."""
    REFUSED = "refused"
    """The group has no assignor that it knows: the end of it."""
    LEFT = "left"


WORKING: Final = frozenset({State.STABLE, State.UNSETTLED})
PRESENT: Final = WORKING | {State.JOINED, State.SYNCING}
"""States of one who knows its generation, and sends heartbeats."""
ENDED: Final = frozenset({State.FENCED, State.REFUSED, State.LEFT})


@attrs.frozen
class Identity:
    """Whom a request is from."""

    member_id: str = NO_MEMBER
    generation: int = NO_GENERATION


@attrs.frozen
class GroupMetadata:
    """Whom offsets in a transaction are from: a member of a group, in one generation or member epoch (KIP-447)."""

    group_id: str
    identity: Identity = Identity()
    instance_id: str | None = None
    """Of a static member (KIP-345)."""


@attrs.frozen
class GivenBack:
    """What a member stops working on before it joins; `is_lost`: it may be another one's already."""

    partitions: tuple[Partition, ...] = ()
    is_lost: bool = False


@attrs.frozen
class Changes:
    """What a new part of a generation changes."""

    revoked: tuple[Partition, ...]
    assigned: tuple[Partition, ...]


class Membership:
    """The core of one member. Nothing here waits: who calls it sends the requests, and asks the application first."""

    def __init__(
        self,
        topics: Iterable[str],
        assignors: tuple[Assignor, ...],
        instance_id: str | None = None,
        rack: str = "",
    ) -> None:
        self.state = State.UNJOINED
        self.identity = Identity()
        self.topics = tuple(sorted(topics))
        """What it wants."""
        self.asked: tuple[str, ...] = ()
        """What it wanted when it joined."""
        self.protocol: str | None = None
        self.leads = False
        self.known: Mapping[str, int] = {}
        """How many partitions each topic had when it led."""
        self.known_racks: Racks = {}
        """Where the replicas of these were, if it is in a rack itself."""
        self.shares: Assignment = {}
        """What it gives to each member, if it leads."""
        self.owned: tuple[Partition, ...] = ()
        self.had: tuple[Partition, ...] = ()
        """What it owned last, whether it has given it back or not."""
        self.had_in = NO_GENERATION
        self.instance_id = instance_id
        self.rack = rack
        self.assignors = assignors

    @property
    def is_cooperative(self) -> bool:
        return self.assignors[0].is_cooperative

    # --- to join -------------------------------------------------------------------------------------------------

    def wants_to_join(self) -> bool:
        """Whether it has to join, to be a member or to have another part."""
        is_other = self.state is State.STABLE and self.topics != self.asked
        return self.state in (State.UNJOINED, State.UNSETTLED) or is_other

    def kept_on_joining(self) -> tuple[Partition, ...]:
        """What it goes on with while it joins."""
        is_known = self.identity.member_id != NO_MEMBER and self.identity.generation != NO_GENERATION
        if not self.is_cooperative or not is_known:
            return ()
        return tuple(each for each in self.owned if each[0] in self.topics)

    def to_give_back(self) -> GivenBack:
        """What the application has to let go before `join`."""
        kept = self.kept_on_joining()
        given = tuple(each for each in self.owned if each not in kept)
        return GivenBack(given, is_lost=self.identity.generation == NO_GENERATION)

    def join(self) -> None:
        """It joins. The application has let go what it had to."""
        self.owned = self.kept_on_joining()
        self.state, self.asked, self.leads = State.JOINING, self.topics, False

    def says(self, assignor: Assignor) -> Subscription:
        """What it says of itself as it joins, to the leader by this assignor."""
        if assignor.is_cooperative:
            return Subscription(self.topics, self.owned, self.identity.generation, self.instance_id, self.rack)
        had, since = (self.had, self.had_in) if assignor.tells_owned else ((), NO_GENERATION)
        return Subscription(self.topics, had, since, self.instance_id, self.rack)

    def member_id_given(self, member_id: str) -> None:
        """It has to join under this id (KIP-394)."""
        self._rejoins()
        self.identity = Identity(member_id)

    def joined(
        self,
        identity: Identity,
        protocol: str,
        leader: str,
        members: Members,
        partitions: Mapping[str, int],
        racks: Racks = NO_RACKS,
    ) -> None:
        """It is in a generation. The leader is told the members, and looks how many partitions there are."""
        has_led = bool(self.known) and identity.generation == self.identity.generation
        self.leads = leader == identity.member_id
        self.state, self.identity, self.protocol = State.JOINED, identity, protocol
        self.known = self.known_on_joining(partitions, has_led=has_led) if self.leads else {}
        if not (self.leads and has_led):
            self.known_racks = self._told_of_racks(racks) if self.leads else {}
        self.shares = self._shared(partitions, members, racks) if members else {}

    def _shared(self, partitions: Mapping[str, int], members: Members, racks: Racks) -> Assignment:
        assignor = self.assignor
        if isinstance(assignor, RackAwareAssignor):
            return assignor.assign_near(partitions, members, racks)
        return assignor.assign(partitions, members)

    def _told_of_racks(self, racks: Racks) -> Racks:
        """A leader that is in no rack itself does not look at those of replicas, as Kafka's does not."""
        return dict(racks) if self.rack else {}

    def known_on_joining(self, partitions: Mapping[str, int], *, has_led: bool) -> Mapping[str, int]:
        """How many partitions the leader takes to be shared out; no more than when it first led this generation.

        If it has lost its connection, its first shares may be what counts, and not those that it makes now.
        """
        if not has_led:
            return dict(partitions)
        return {topic: min(number, self.known.get(topic, 0)) for topic, number in partitions.items()}

    @property
    def assignor(self) -> Assignor:
        """The generation's. Raises ValueError for one that was not named in JoinGroup."""
        found = next((one for one in self.assignors if one.name == self.protocol), None)
        if found is None:
            raise ValueError(f"the group has chosen the assignor {self.protocol!r}, which this member did not name")
        return found

    def sync(self) -> Assignment:
        """It asks for its part; the leader says what each member is given."""
        self.state = State.SYNCING
        return self.shares

    def synced(self, partitions: Iterable[Partition]) -> Changes:
        """It has its part. If it has to give something back, it says so by joining again."""
        given = tuple(sorted(partitions))
        changes = Changes(
            tuple(each for each in self.owned if each not in given),
            tuple(each for each in given if each not in self.owned),
        )
        self.owned = self.had = given
        self.had_in = self.identity.generation
        self.shares = {}
        self.state = State.UNSETTLED if changes.revoked else State.STABLE
        return changes

    # --- what it is told -----------------------------------------------------------------------------------------

    def failed(self, error: ErrorCode) -> None:
        """A JoinGroup or SyncGroup of its own was refused."""
        match error:
            case ErrorCode.fenced_instance_id:
                self._ends(State.FENCED)
            case ErrorCode.inconsistent_group_protocol:
                self._ends(State.REFUSED)
            case ErrorCode.unknown_member_id:
                self._rejoins()
                self.identity = Identity()
            case ErrorCode.illegal_generation:
                self._rejoins()
                self.identity = Identity(self.identity.member_id)
            case _:
                self._rejoins()

    def is_about_now(self, asked: Identity) -> bool:
        """Whether what a heartbeat or a commit was told is about what the member is now."""
        return self.state in PRESENT and asked == self.identity

    def told(self, error: ErrorCode, asked: Identity) -> None:
        """A heartbeat or a commit of `asked` was refused."""
        if not self.is_about_now(asked):
            return
        if error is not ErrorCode.rebalance_in_progress:
            self.failed(error)
        elif self.state is State.STABLE:
            self.state = State.UNSETTLED

    def lost_connection(self) -> None:
        """It gets no response to its JoinGroup or SyncGroup, and joins again."""
        if self.state in (State.JOINING, State.SYNCING):
            self._rejoins()

    def subscribe(self, topics: Iterable[str]) -> None:
        """It wants these topics from now on."""
        self.topics = tuple(sorted(topics))

    def notices(self, partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> bool:
        """The leader looks whether there is more, less or something elsewhere than it has shared out: all join again.

        `racks`: of the topics in `partitions`.
        """
        is_other = dict(partitions) != dict(self.known) or self._told_of_racks(racks) != self.known_racks
        is_new = self.state is State.STABLE and self.leads and is_other
        if is_new:
            self.state = State.UNSETTLED
        return is_new

    # --- what it may do ------------------------------------------------------------------------------------------

    def heartbeat(self) -> Identity | None:
        """Whom a heartbeat is from; None while there is nobody."""
        return self.identity if self.state in PRESENT else None

    def may_commit(self) -> bool:
        """It commits while it has its part of its generation."""
        return self.state in WORKING

    def leave(self) -> str | None:
        """It goes; the member id to leave with. A static member leaves by its time-out only, and says nothing."""
        member_id = self.identity.member_id
        says_so = self.state not in ENDED and member_id != NO_MEMBER and self.instance_id is None
        self._ends(State.LEFT)
        return member_id if says_so else None

    def expired(self) -> str | None:
        """Its application has not polled for too long: it leaves, and joins anew when that comes back."""
        member_id = self.identity.member_id
        if self.state in ENDED or member_id == NO_MEMBER:
            return None
        self._rejoins()
        self.identity = Identity()
        return member_id

    # --- states --------------------------------------------------------------------------------------------------

    def _rejoins(self) -> None:
        """It joins again, as what it was."""
        self.state, self.shares, self.leads = State.UNJOINED, {}, False

    def _ends(self, state: State) -> None:
        self.state, self.identity, self.leads = state, Identity(), False
        self.asked, self.shares, self.known, self.known_racks, self.protocol = (), {}, {}, {}, None

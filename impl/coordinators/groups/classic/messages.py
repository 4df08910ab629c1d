"""What members of a classic group ask its coordinator, what they are told, and what has to be in the log first."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.state import ClassicMember, Protocol, Token
from tidegauge.impl.coordinators.groups.group_metadata import GroupMetadata

NO_MEMBER: Final = ""
UNKNOWN_GENERATION: Final = -1
MEMBER_ID_REQUIRED_FROM: Final = 4
"""The version of JoinGroup from which a dynamic member is given its id before it is in the group (KIP-394)."""
SKIP_ASSIGNMENT_FROM: Final = 9
"""The version from which a leader is told that it has nothing to assign (KIP-814)."""


class Moment(NamedTuple):
    """What time it is: on the clock of timers, which never jumps, and since 1970; in ms."""

    timer_ms: int
    wall_ms: int


# --- requests --------------------------------------------------------------------------------------------------------


@attrs.frozen
class JoinGroup:
    """A member wants to be in the next generation."""

    group: str
    protocol_type: str
    protocols: tuple[Protocol, ...]
    member_id: str = NO_MEMBER
    """The empty one for who has none yet."""
    instance_id: str | None = None
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    client_id: str = ""
    client_host: str = ""
    version: int = SKIP_ASSIGNMENT_FROM
    unique: str = ""
    """A text that was never used before: the end of the member id, if one is given."""
    reason: str = ""


@attrs.frozen
class SyncGroup:
    """A member wants its assignment; the leader has everybody's."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    """By member id."""


@attrs.frozen
class Heartbeat:
    """A member lives."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None = None


class Leaving(NamedTuple):
    """One that leaves: a member, or the one with an instance id."""

    member_id: str
    instance_id: str | None = None
    reason: str = ""


@attrs.frozen
class LeaveGroup:
    """Members leave the group."""

    group: str
    members: tuple[Leaving, ...]


# --- responses -------------------------------------------------------------------------------------------------------


class JoinedMember(NamedTuple):
    """What a leader is told of a member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@attrs.frozen
class JoinResponse:
    """To a JoinGroup."""

    error: ErrorCode = ErrorCode.none
    member_id: str = NO_MEMBER
    generation: int = UNKNOWN_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER
    members: tuple[JoinedMember, ...] = ()
    """For the leader."""
    skip_assignment: bool = False


@attrs.frozen
class SyncResponse:
    """To a SyncGroup."""

    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Left(NamedTuple):
    """To one that leaves."""

    member_id: str
    instance_id: str | None
    error: ErrorCode


@attrs.frozen
class LeaveResponse:
    """To a LeaveGroup."""

    error: ErrorCode = ErrorCode.none
    members: tuple[Left, ...] = ()


Response: TypeAlias = JoinResponse | SyncResponse | LeaveResponse

# --- what comes of a call --------------------------------------------------------------------------------------------


class Purpose(Enum):
    """Why a group is written down."""

    ASSIGNMENT = "assignment"
    """The leader's; the group is stable once it is committed."""
    EMPTY = "empty"
    """The last member has gone."""
    REPLACEMENT = "replacement"
    """A static member has another id."""


@attrs.frozen
class Replacement:
    """A static member that came again under another id while its group was stable."""

    old: ClassicMember
    """As it was before."""
    member_id: str
    token: Token
    old_leader: str | None
    version: int
    """Of its JoinGroup."""


@attrs.frozen
class GroupWrite:
    """A record that has to be in the log before what hangs on it is told."""

    group: str
    purpose: Purpose
    metadata: GroupMetadata
    replacement: Replacement | None = None
    responses: tuple[tuple[Token, LeaveResponse], ...] = ()
    """What was asked for is done, and told when the record is committed."""


class Note(NamedTuple):
    """What operators may want to know."""

    what: Noted
    group: str
    generation: int
    member: str = ""
    members: int = 0
    why: str = ""


class Noted(Enum):
    """What of."""

    REBALANCE = "rebalance begun"
    GENERATION = "generation begun"
    STABLE = "group stable"
    EMPTY = "group empty"
    JOINED = "member joined"
    LEFT = "member left"
    EXPIRED = "member expired"
    REPLACED = "static member replaced"
    REMOVED = "members removed"
    STALLED = "nobody joined again"
    NOT_WRITTEN = "group not written"


@attrs.frozen
class Outcome:
    """What a call makes the shell do: response requests that wait, append records, and tell operators."""

    responses: tuple[tuple[Token, Response], ...] = ()
    writes: tuple[GroupWrite, ...] = ()
    notes: tuple[Note, ...] = ()

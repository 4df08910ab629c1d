"""The classic groups of one partition of `__consumer_offsets`: what members ask, and what time brings about.

Theory of operation
-------------------
A group lives in memory (`state`), and changes at once with each request (`members`, `rebalances`). What others may rely
on is in the log first: the assignment of a generation, that a group is empty, a static member's new id. Such a change
is a `GroupWrite`: the shell appends it, and says what becomes of it; only then are the requests told that hang on
it. Between the two the group may have gone on, and then it only counts in the log.

A request that waits is a *token*, opaque here. Each call returns the tokens that have a response now: those of others
too, as a rebalance has one for everybody.

There is no clock here: the caller says what time it is, and calls `time_passed` no later than `next_deadline`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.deadlines import Deadlines
from tidegauge.impl.coordinators.fields import LONGEST_STRING
from tidegauge.impl.coordinators.groups.classic.members import ClassicRules
from tidegauge.impl.coordinators.groups.classic.messages import (
    NO_MEMBER,
    GroupWrite,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    LeaveResponse,
    Left,
    Moment,
    Noted,
    Outcome,
    Purpose,
    Response,
    SyncGroup,
    SyncResponse,
)
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicState, Token, from_log
from tidegauge.impl.coordinators.groups.classic.turn import ClassicLimits, DeadlineKey, Timer, Turn
from tidegauge.impl.coordinators.groups.group_metadata import GroupMetadata
from tidegauge.impl.coordinators.groups.requests import Commit

NONE = ErrorCode.none
NOTHING = Outcome()
UNIQUE_BYTES = 64
"""Room for the end of a member id that is given."""
_DEFAULT_LIMITS = ClassicLimits()
_CORRECT = ClassicRules()


class Failed(NamedTuple):
    """A record that is not in the log, or nobody knows for too long."""

    write: GroupWrite
    error: ErrorCode


class Adopted(NamedTuple):
    """The group was a consumer group."""

    metadata: GroupMetadata | None
    """What the log is to say of it; None if it has been a classic group there all the time."""


class Dissolved(NamedTuple):
    """The group is a consumer group from now on."""


class End(Enum):
    """What becomes of a group without members that is to be deleted."""

    ENDING = "its tombstone is on its way"
    ENDED = "its tombstone is committed"
    KEPT = "its tombstone never will be in the log"


Asked: TypeAlias = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | Commit
    | GroupMetadata
    | GroupWrite
    | Failed
    | Adopted
    | Dissolved
    | End
    | DeadlineKey
    | str
)
"""What the core takes in; a text is the id of a member whose commit was taken."""


class Watch(Protocol):
    """Is told of every decision about a group."""

    def __call__(
        self, asked: Asked, group: ClassicGroup, came: Outcome | ErrorCode, token: Token | None, /
    ) -> None: ...


class ClassicGroups:
    """Rules on requests of the members of groups, and on what time brings about."""

    def __init__(self, limits: ClassicLimits = _DEFAULT_LIMITS, rules: ClassicRules = _CORRECT) -> None:
        self.limits = limits
        self.rules = rules
        self.groups: dict[str, ClassicGroup] = {}
        self.deadlines: Deadlines[DeadlineKey] = Deadlines()
        self.watch: Watch | None = None
        """Who follows the decisions, if anybody does."""

    def __iter__(self) -> Iterator[ClassicGroup]:
        return iter(self.groups.values())

    def get(self, group: str) -> ClassicGroup | None:
        """A group; None if it has never had members, or is not known."""
        return self.groups.get(group)

    # --- requests ------------------------------------------------------------------------------------------------

    def join(self, request: JoinGroup, token: Token, now: Moment) -> Outcome:
        """A member wants to be in the next generation; the response may wait for the others.

        Errors: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INVALID_REQUEST, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
        MEMBER_ID_REQUIRED, INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, COORDINATOR_NOT_AVAILABLE.
        """
        error = self.join_error(request)
        if error is not NONE:
            return _only(token, JoinResponse(error, request.member_id))
        group = self.groups.get(request.group)
        if group is None:
            if request.member_id != NO_MEMBER:
                return _only(token, JoinResponse(ErrorCode.unknown_member_id, request.member_id))
            group = self.groups[request.group] = ClassicGroup(request.group, state_time=now.wall_ms)
        turn = self._turn(group, now)
        self.rules.join(turn, request, token)
        return self._done(turn, request, token)

    def join_error(self, request: JoinGroup) -> ErrorCode:
        """What no group takes: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INVALID_REQUEST."""
        if not _fits(request.group) or not request.group:
            return ErrorCode.invalid_group_id
        if not self.limits.min_session_ms <= request.session_timeout_ms <= self.limits.max_session_ms:
            return ErrorCode.invalid_session_timeout
        ids = (request.client_id, request.client_host, request.instance_id or "")
        names = (request.protocol_type, *(protocol.name for protocol in request.protocols))
        all_fit = all(_fits(one, UNIQUE_BYTES) for one in ids) and all(_fits(one) for one in names)
        return NONE if all_fit else ErrorCode.invalid_request

    def sync(self, request: SyncGroup, token: Token, now: Moment) -> Outcome:
        """A member wants its assignment; the response waits for the leader's.

        Errors: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS,
        INCONSISTENT_GROUP_PROTOCOL, COORDINATOR_NOT_AVAILABLE, and those of the append.
        """
        if not request.group:
            return _only(token, SyncResponse(ErrorCode.invalid_group_id))
        group = self.groups.get(request.group)
        if group is None:
            return _only(token, SyncResponse(ErrorCode.unknown_member_id))
        turn = self._turn(group, now)
        self.rules.sync(turn, request, token)
        return self._done(turn, request, token)

    def heartbeat(self, request: Heartbeat, now: Moment) -> ErrorCode:
        """A member lives.

        Errors: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS,
        COORDINATOR_NOT_AVAILABLE.
        """
        if not request.group:
            return ErrorCode.invalid_group_id
        group = self.groups.get(request.group)
        if group is None:
            return ErrorCode.unknown_member_id
        return self._told(request, group, self.rules.heartbeat(self._turn(group, now), request))

    def leave(self, request: LeaveGroup, token: Token, now: Moment) -> Outcome:
        """Members leave. Where the group is empty then, the response waits until that is in the log.

        Errors: INVALID_GROUP_ID, COORDINATOR_NOT_AVAILABLE, and those of the append; of a member UNKNOWN_MEMBER_ID,
        FENCED_INSTANCE_ID.
        """
        if not request.group:
            return _only(token, LeaveResponse(ErrorCode.invalid_group_id))
        group = self.groups.get(request.group)
        if group is None:
            left = (Left(one.member_id, one.instance_id, ErrorCode.unknown_member_id) for one in request.members)
            return _only(token, LeaveResponse(NONE, tuple(left)))
        turn = self._turn(group, now)
        self.rules.leave(turn, request, token)
        return self._done(turn, request, token)

    # --- commits of offsets, and deletions -----------------------------------------------------------------------

    def commit_error(self, group: ClassicGroup, commit: Commit) -> ErrorCode:
        """Why a commit is refused: COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
        ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
        """
        return self._told(commit, group, self.rules.commit_error(group, commit))

    def committed_by(self, group: str, member_id: str, now: Moment) -> None:
        """A commit was taken: its member lives."""
        if (known := self.groups.get(group)) is not None:
            turn = self._turn(known, now)
            self.rules.committed_by(turn, member_id)
            self._done(turn, member_id)

    def ending(self, groups: Iterable[str]) -> None:
        """The tombstones of empty groups are on their way: nobody joins those before it is known what comes of it."""
        for group in groups:
            if (known := self.groups.get(group)) is not None and known.state is ClassicState.EMPTY:
                known.state = ClassicState.DEAD
                self._watched(End.ENDING, known)

    def ended(self, groups: Iterable[str]) -> None:
        """The tombstones are committed."""
        for group in groups:
            if (known := self.groups.get(group)) is not None and known.state is ClassicState.DEAD:
                for member_id in known.pending:
                    self.deadlines.cancel(DeadlineKey(group, Timer.SESSION, member_id))
                del self.groups[group]
                self._watched(End.ENDED, known)

    def kept(self, groups: Iterable[str]) -> None:
        """The tombstones are not in the log, and never will be."""
        for group in groups:
            if (known := self.groups.get(group)) is not None and known.state is ClassicState.DEAD:
                known.state = ClassicState.EMPTY
                self._forget_blank(known)
                self._watched(End.KEPT, known)

    def _watched(self, end: End, group: ClassicGroup) -> None:
        if self.watch is not None:
            self.watch(end, group, NOTHING, None)

    # --- the log -------------------------------------------------------------------------------------------------

    def written(self, write: GroupWrite, now: Moment) -> Outcome:
        """A record is committed."""
        group = self.groups.get(write.group)
        if group is None:
            return Outcome(write.responses)
        turn = self._turn(group, now)
        if write.purpose is Purpose.ASSIGNMENT:
            self.rules.assignment_written(turn, write)
        elif write.replacement is not None:
            self.rules.replaced(turn, write.replacement)
        turn.responses += write.responses
        return self._done(turn, write)

    def failed(self, write: GroupWrite, error: ErrorCode, now: Moment) -> Outcome:
        """A record is not in the log, or nobody knows for too long; it may be committed later all the same."""
        responses = [(token, LeaveResponse(error)) for token, _ in write.responses]
        group = self.groups.get(write.group)
        if group is None:
            return Outcome(tuple(responses))
        turn = self._turn(group, now)
        turn.note(Noted.NOT_WRITTEN, why=f"{write.purpose.value}: {error.name.upper()}")
        if write.purpose is Purpose.ASSIGNMENT:
            self.rules.assignment_failed(turn, write, error)
        elif write.replacement is not None:
            self.rules.replacement_failed(turn, write.replacement, error)
        turn.responses += responses
        return self._done(turn, Failed(write, error))

    def load(self, group: str, metadata: GroupMetadata, now: Moment) -> Outcome:
        """Take a group over as the log has it: its members have new sessions.

        One that has more members than it may rebalances, and so does one that was a consumer group: what its last
        member of that protocol had is nobody's.
        """
        known = self.groups[group] = from_log(group, metadata)
        turn = self._turn(known, now)
        for member in known.members.values():
            turn.begin_session(member)
        if known.members and metadata.leader is None:
            self.rules.begin(turn, "it was a consumer group, and nobody has assigned since")
        elif len(known.members) > self.limits.max_size:
            self.rules.begin(turn, f"it has {len(known.members)} members, and may have {self.limits.max_size}")
        return self._done(turn, metadata)

    # --- a group that goes over (`migration`) --------------------------------------------------------------------

    def dissolve(self, group: ClassicGroup, now: Moment) -> Outcome:
        """The group is a consumer group from now on: who waits for a response joins again."""
        return self._end(group, now, ErrorCode.rebalance_in_progress)

    def adopt(self, group: ClassicGroup, now: Moment, why: str, metadata: GroupMetadata | None = None) -> Outcome:
        """A group is a classic one from now on, or again: its members have new sessions, and join again.

        `metadata`: what the log is to say of it, if that is new.
        """
        self.groups[group.group_id] = group
        turn = self._turn(group, now)
        group.pending.clear()
        group.initial = None
        for member in group.members.values():
            member.is_new = False
            turn.begin_session(member)
        if group.members:
            group.state = ClassicState.STABLE
            self.rules.begin(turn, why)
        else:  # whom it waited for has gone, and no deadline of it runs
            group.state = ClassicState.EMPTY
        return self._seen(Adopted(metadata), turn)

    def abandon(self, group_id: str, now: Moment) -> Outcome:
        """It is not in the log that the group has become a classic one, and never will be."""
        group = self.groups.get(group_id)
        if group is None:
            return NOTHING
        return self._end(group, now, ErrorCode.coordinator_not_available)

    def _end(self, group: ClassicGroup, now: Moment, error: ErrorCode) -> Outcome:
        """Who waits for a response gets this error, and the group is forgotten."""
        turn = self._turn(group, now)
        for member in group.members.values():
            turn.respond_to_join(member, JoinResponse(error, member.member_id))
            turn.respond_to_sync(member, SyncResponse(error))
        self._forget(turn)
        return self._seen(Dissolved(), turn)

    def _forget(self, turn: Turn) -> None:
        for member_id in (*turn.group.members, *turn.group.pending):
            turn.end_session(member_id)
        turn.wait_for_joins(None)
        turn.wait_for_syncs(None)
        self.groups.pop(turn.group.group_id, None)

    def unload(self) -> Outcome:
        """Another broker coordinates the groups: who waits is to look for it."""
        responses: list[tuple[Token, Response]] = []
        for group in self.groups.values():
            for member in group.members.values():
                if member.joining is not None:
                    responses.append((member.joining, JoinResponse(ErrorCode.not_coordinator, member.member_id)))
                if member.syncing is not None:
                    responses.append((member.syncing, SyncResponse(ErrorCode.not_coordinator)))
        self.groups.clear()
        self.deadlines = Deadlines()
        return Outcome(tuple(responses))

    # --- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """When to call `time_passed` at the latest, on the clock of timers."""
        return self.deadlines.first()

    def time_passed(self, now: Moment) -> Iterator[Outcome]:
        """What has ended by now, one after the other; the caller may stop at any of them, and go on later."""
        for key in self.deadlines.due(now.timer_ms):
            yield self.timed_out(key, now)

    def timed_out(self, key: DeadlineKey, now: Moment) -> Outcome:
        """A deadline of a group is reached."""
        group = self.groups.get(key.group)
        if group is None:
            return NOTHING
        turn = self._turn(group, now)
        if key.timer is Timer.SESSION:
            self.rules.session_timed_out(turn, key.member_id)
        elif key.timer is Timer.JOIN:
            self.rules.joining_timed_out(turn)
        else:
            self.rules.syncing_timed_out(turn)
        return self._done(turn, key)

    # --- turns ---------------------------------------------------------------------------------------------------

    def _turn(self, group: ClassicGroup, now: Moment) -> Turn:
        return Turn(group, now, self.limits, self.deadlines)

    def _done(self, turn: Turn, asked: Asked, token: Token | None = None) -> Outcome:
        self._forget_blank(turn.group)
        return self._seen(asked, turn, token)

    def _seen(self, asked: Asked, turn: Turn, token: Token | None = None) -> Outcome:
        outcome = turn.outcome()
        if self.watch is not None:
            self.watch(asked, turn.group, outcome, token)
        return outcome

    def _told(self, asked: Asked, group: ClassicGroup, error: ErrorCode) -> ErrorCode:
        if self.watch is not None:
            self.watch(asked, group, error, None)
        return error

    def _forget_blank(self, group: ClassicGroup) -> None:
        if group.is_blank:
            self.groups.pop(group.group_id, None)


def _only(token: Token, response: Response) -> Outcome:
    return Outcome(((token, response),))


def _fits(text: str, less: int = 0) -> bool:
    return len(text.encode()) <= LONGEST_STRING - less

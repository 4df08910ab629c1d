"""One call about one group: what it sees, and what comes of it."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

import attrs

from tidegauge.impl.coordinators.deadlines import Deadlines
from tidegauge.impl.coordinators.groups.classic.messages import (
    GroupWrite,
    JoinResponse,
    LeaveResponse,
    Moment,
    Note,
    Noted,
    Outcome,
    Response,
    SyncResponse,
)
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicMember, Token

UNLIMITED: Final = (1 << 31) - 1
NEW_MEMBER_JOIN_MS: Final = 5 * 60 * 1000
"""How long a new member's first JoinGroup may wait: its client can have gone, and there are no heartbeats yet."""


@attrs.frozen
class ClassicLimits:
    """What the settings say; times in ms."""

    max_size: int = UNLIMITED
    """`group.max.size`."""
    initial_delay_ms: int = 3_000
    """`group.initial.rebalance.delay.ms`."""
    min_session_ms: int = 6_000
    """`group.min.session.timeout.ms`."""
    max_session_ms: int = 30 * 60 * 1000
    """`group.max.session.timeout.ms`."""
    new_member_join_ms: int = NEW_MEMBER_JOIN_MS


class Timer(Enum):
    """What of a group has a deadline."""

    SESSION = "session"
    """A member's, or that of a member id that was given."""
    JOIN = "join"
    SYNC = "sync"


class DeadlineKey(NamedTuple):
    """Of what group, and of what member."""

    group: str
    timer: Timer
    member_id: str = ""


@attrs.define
class Turn:
    """What a rule works on."""

    group: ClassicGroup
    now: Moment
    limits: ClassicLimits
    deadlines: Deadlines[DeadlineKey]
    responses: list[tuple[Token, Response]] = attrs.field(factory=list)
    writes: list[GroupWrite] = attrs.field(factory=list)
    notes: list[Note] = attrs.field(factory=list)

    def outcome(self) -> Outcome:
        """What has come of it."""
        return Outcome(tuple(self.responses), tuple(self.writes), tuple(self.notes))

    def note(self, what: Noted, *, member: str = "", members: int = 0, why: str = "") -> None:
        """Tell operators."""
        self.notes.append(Note(what, self.group.group_id, self.group.generation, member, members, why))

    # --- responses -----------------------------------------------------------------------------------------------

    def respond(self, token: Token | None, response: Response) -> None:
        """Respond to a request, if there is one."""
        if token is not None:
            self.responses.append((token, response))

    def respond_to_join(self, member: ClassicMember, response: JoinResponse) -> None:
        """Respond to a member's JoinGroup, if one waits."""
        self.respond(self.group.wait_to_join(member, None), response)

    def respond_to_sync(self, member: ClassicMember, response: SyncResponse) -> bool:
        """Respond to a member's SyncGroup, if one waits."""
        token, member.syncing = member.syncing, None
        self.respond(token, response)
        return token is not None

    def respond_when_written(self, token: Token, response: LeaveResponse) -> None:
        """Respond to a request when what it has brought about is in the log."""
        if self.writes:
            last = self.writes.pop()
            self.writes.append(attrs.evolve(last, responses=(*last.responses, (token, response))))
        else:
            self.respond(token, response)

    # --- deadlines -----------------------------------------------------------------------------------------------

    def begin_session(self, member: ClassicMember, timeout_ms: int | None = None) -> None:
        """A member's session ends after this time from now, or after its own."""
        member.session_deadline = self.now.timer_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms)
        self.deadlines.set(self._key(Timer.SESSION, member.member_id), member.session_deadline)

    def expect(self, member_id: str, timeout_ms: int) -> None:
        """A member id was given; it is forgotten if it does not join in this time."""
        deadline = self.group.pending[member_id] = self.now.timer_ms + timeout_ms
        self.deadlines.set(self._key(Timer.SESSION, member_id), deadline)

    def end_session(self, member_id: str) -> None:
        """Nothing is expected of a member any more."""
        self.deadlines.cancel(self._key(Timer.SESSION, member_id))

    def wait_for_joins(self, timeout_ms: int | None) -> None:
        """Members may join for so long; None ends that."""
        self.group.join_deadline = self._set(Timer.JOIN, timeout_ms)

    def wait_for_syncs(self, timeout_ms: int | None) -> None:
        """Members may ask for their assignment for so long; None ends that."""
        self.group.sync_deadline = self._set(Timer.SYNC, timeout_ms)

    def _set(self, timer: Timer, timeout_ms: int | None) -> int | None:
        if timeout_ms is None:
            self.deadlines.cancel(self._key(timer))
            return None
        deadline = self.now.timer_ms + timeout_ms
        self.deadlines.set(self._key(timer), deadline)
        return deadline

    def _key(self, timer: Timer, member_id: str = "") -> DeadlineKey:
        return DeadlineKey(self.group.group_id, timer, member_id)

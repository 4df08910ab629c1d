"""The consumer groups of one partition of `__consumer_offsets`: what members ask, and what time brings about.

Theory of operation
-------------------
A call makes another group of one (`state`) by the rules (`rules`), which counts in memory at once. What it changes is
in the log before anybody is told of it: the call returns a `ConsumerWrite` with the records and the response, and the
shell says what becomes of it. Until it is committed, who describes the group sees the former one.

There is no clock here: the caller says what time it is, and calls `time_passed` no later than `next_deadline`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.deadlines import Deadlines
from tidegauge.impl.coordinators.fields import LONGEST_STRING
from tidegauge.impl.coordinators.groups.classic.messages import Heartbeat, JoinGroup, SyncGroup
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup
from tidegauge.impl.coordinators.groups.consumer.assignors import ASSIGNORS
from tidegauge.impl.coordinators.groups.consumer.records import changes, replayed
from tidegauge.impl.coordinators.groups.consumer.rules import ConsumerRules
from tidegauge.impl.coordinators.groups.consumer.state import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerGroup,
    ConsumerHeartbeat,
    ConsumerMember,
    HeartbeatResponse,
    KnownTopics,
    Place,
    Resolved,
)
from tidegauge.impl.coordinators.groups.group_metadata import GroupMetadata
from tidegauge.impl.coordinators.groups.record_formats import ConsumerKey, GroupRecord
from tidegauge.impl.coordinators.groups.requests import Commit
from tidegauge.impl.coordinators.name_patterns import PatternError

NONE = ErrorCode.none
RETRY_MS: Final = 1_000
"""Until a member is removed again whose going was not written."""
UNLIMITED: Final = (1 << 31) - 1
_CORRECT = ConsumerRules()
_NO_RESPONSE: Final = HeartbeatResponse()


@attrs.frozen
class ConsumerLimits:
    """What the settings say."""

    max_size: int = UNLIMITED
    """`group.consumer.max.size`."""
    assignors: tuple[str, ...] = tuple(ASSIGNORS)
    """`group.consumer.assignors`."""
    refresh_ms: int = 600_000
    """`group.consumer.regex.refresh.interval.ms`."""
    interval_ms: Callable[[str], int] = lambda group: 0
    """`consumer.assignment.interval.ms` of a group: it changes while the group is at work."""


class ConsumerTimer(Enum):
    """What of a member has a deadline."""

    SESSION = "session"
    REBALANCE = "rebalance"
    JOIN = "join"
    """A classic member was told to join again."""
    SYNC = "sync"
    """A classic member has joined, and asks for its assignment next."""


class ConsumerDeadline(NamedTuple):
    """Of what member."""

    group: str
    timer: ConsumerTimer
    member_id: str


@attrs.frozen(eq=False)
class Resolution:
    """Regular expressions that are to be held against topics; `ConsumerGroups.end_resolution` takes what they match."""

    group_id: str
    expressions: tuple[str, ...]
    """In their order."""


@attrs.frozen(eq=False)
class ConsumerWrite:
    """Records that have to be in the log before the response is told; without records, those of earlier calls."""

    group_id: str
    before: ConsumerGroup | None
    after: ConsumerGroup | None
    records: tuple[GroupRecord, ...]
    response: HeartbeatResponse = attrs.field(factory=HeartbeatResponse)
    resolution: Resolution | None = None
    """What is begun by the heartbeat, and not waited for."""
    was_classic: ClassicGroup | None = None
    """The classic group that goes over."""
    classic: GroupMetadata | None = None
    """What the log says of the classic group that it becomes."""

    @property
    def is_of_both(self) -> bool:
        """Whether the group goes over from one protocol to the other."""
        return self.was_classic is not None or self.classic is not None


class Committing(NamedTuple):
    """A commit of offsets, and what is said of it."""

    commit: Commit
    error: ErrorCode
    refused: Mapping[tuple[str, int], ErrorCode]


class Beat(NamedTuple):
    """A heartbeat, what the coordinator knew of topics when it came, and what has come of it."""

    request: ConsumerHeartbeat
    known: KnownTopics
    came: ConsumerWrite | HeartbeatResponse


class Ended(NamedTuple):
    """Expressions were held against these topics, and what is written of that."""

    resolution: Resolution
    known: KnownTopics
    write: ConsumerWrite


class Told(NamedTuple):
    """A member has the response to its heartbeat."""

    write: ConsumerWrite


class Removed(NamedTuple):
    """An operator has removed a member."""

    member_id: str


class Landed(NamedTuple):
    """What was written is in the log, or it never will be."""

    write: ConsumerWrite
    is_committed: bool


class Loaded(NamedTuple):
    """The group is as the log has it."""


class Deleted(NamedTuple):
    """The group is no more."""


class WentOver(NamedTuple):
    """The group is a classic one from now on."""


class Synced(NamedTuple):
    """A classic member's SyncGroup, and what it is told that it has."""

    request: SyncGroup
    error: ErrorCode
    assigned: frozenset[Place] = frozenset()


class Asked(NamedTuple):
    """A classic member's Heartbeat, and what is said of it."""

    request: Heartbeat
    error: ErrorCode


class Refused(NamedTuple):
    """A JoinGroup that does not get so far as to be a heartbeat, or a heartbeat in a classic group."""

    request: JoinGroup | ConsumerHeartbeat
    error: ErrorCode
    owned: frozenset[Place] = frozenset()
    """What a JoinGroup says that its member owns."""


Decided: TypeAlias = (
    Beat
    | Ended
    | Told
    | Committing
    | ConsumerDeadline
    | Removed
    | Landed
    | Loaded
    | Deleted
    | WentOver
    | Synced
    | Asked
    | Refused
)


class Watch(Protocol):
    """Is told of every decision about a group, right after it."""

    def __call__(self, group_id: str, decided: Decided, /) -> None: ...


class ConsumerGroups:
    """Rules on heartbeats, and on what time brings about."""

    def __init__(self, limits: ConsumerLimits | None = None, rules: ConsumerRules = _CORRECT) -> None:
        self.limits = limits or ConsumerLimits()
        self.rules = rules
        self.groups: dict[str, ConsumerGroup] = {}
        """As all calls have left them."""
        self.committed: dict[str, ConsumerGroup] = {}
        """As the log has them."""
        self.deadlines: Deadlines[ConsumerDeadline] = Deadlines()
        self._revisions = 0
        self._looked: dict[str, int] = {}
        """By group: the version of the topics that its epoch is of."""
        self.resolving: dict[str, Resolution] = {}
        """By group: what is being resolved."""
        self.watching: Watch | None = None
        """Who follows the decisions, if anybody does."""

    def get(self, group: str) -> ConsumerGroup | None:
        return self.groups.get(group)

    def has_looked(self, group: str, version: int) -> bool:
        """Whether a group knows the topics of this version."""
        return self._looked.get(group) == version

    # --- heartbeats ----------------------------------------------------------------------------------------------

    def heartbeat(
        self, request: ConsumerHeartbeat, known: KnownTopics, session_timeout_ms: int, now_ms: int
    ) -> ConsumerWrite | HeartbeatResponse:
        """A member joins, goes on or leaves.

        Errors: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
        UNRELEASED_INSTANCE_ID, FENCED_MEMBER_EPOCH, INVALID_REQUEST for texts that are too long,
        INVALID_REGULAR_EXPRESSION.
        """
        came = self._heartbeat(request, known, session_timeout_ms, now_ms)
        self.tell(request.group, Beat(request, known, came))
        return came

    def _heartbeat(
        self, request: ConsumerHeartbeat, known: KnownTopics, session_timeout_ms: int, now_ms: int
    ) -> ConsumerWrite | HeartbeatResponse:
        before = self.groups.get(request.group)
        if error := self._error(before, request):
            return error
        group = before or ConsumerGroup(request.group)
        if request.epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH):
            return self._left(group, request)
        try:
            after, response = self._advanced(group, request, known)
        except PatternError as error:
            return HeartbeatResponse(ErrorCode.invalid_regular_expression, str(error))
        self._looked[request.group] = known.version
        former = group.members.get(request.member_id)
        if former is not None and former.revoking is not after.members[request.member_id].revoking:
            self._cancel(request.group, request.member_id, ConsumerTimer.REBALANCE)
        self.watch(after.members[request.member_id], request.group, session_timeout_ms, now_ms)
        write = self._write(request.group, before, after, response)
        resolution = self._begun(after, known)
        return write if resolution is None else attrs.evolve(write, resolution=resolution)

    def _error(self, group: ConsumerGroup | None, request: ConsumerHeartbeat) -> HeartbeatResponse | None:
        own = (request.member_id, request.instance_id or "", request.client_id, request.client_host)
        texts = (request.group, *own, request.expression or "")
        if any(len(text.encode()) > LONGEST_STRING for text in texts):
            return HeartbeatResponse(ErrorCode.invalid_request, "a text is too long")
        if group is None:
            if request.epoch == JOINING_EPOCH:
                return None
            return HeartbeatResponse(ErrorCode.group_id_not_found, f"there is no group {request.group!r}")
        error = self.rules.heartbeat_error(group, request)
        if error is NONE and self._is_full(group, request):
            return HeartbeatResponse(ErrorCode.group_max_size_reached, f"it has {len(group.members)} members")
        return None if error is NONE else HeartbeatResponse(error, self._why(group, request, error))

    def _is_full(self, group: ConsumerGroup, request: ConsumerHeartbeat) -> bool:
        is_known = request.member_id in group.members or (request.instance_id or "") in group.instances
        return not is_known and len(group.members) >= self.limits.max_size

    def _why(self, group: ConsumerGroup, request: ConsumerHeartbeat, error: ErrorCode) -> str:
        if error is not ErrorCode.fenced_member_epoch:
            return ""
        return f"the member is in epoch {group.members[request.member_id].epoch}, not {request.epoch}: join again"

    def _advanced(
        self, group: ConsumerGroup, request: ConsumerHeartbeat, topics: KnownTopics
    ) -> tuple[ConsumerGroup, HeartbeatResponse]:
        rules = self.rules
        known = group.members.get(request.member_id)
        if request.epoch == JOINING_EPOCH:
            group = rules.joined(group, request)
        before = group.members[request.member_id]
        member = _updated(before, request)
        if member.expression not in ("", before.expression):
            topics.check(member.expression)
        resolved = group.resolved
        if member is not before:
            group = rules.still_resolved(group.with_member(member))
        is_seen = self.has_looked(group.group_id, topics.version)
        is_as_before = is_seen and member.topics == before.topics and group.resolved is resolved
        hashed = group.metadata_hash if is_as_before else rules.metadata_hash(group, topics)
        if rules.begins_epoch(group, before, member, hashed):
            group = attrs.evolve(group, epoch=rules.next_epoch(group), metadata_hash=hashed)
        if rules.needs_target(group, topics.time_ms, self.limits.interval_ms(request.group)):
            target = rules.target(group, topics.topics, self.limits.assignors)
            made_ms = rules.time_of_target(topics.time_ms)
            group = attrs.evolve(group, target=target, target_epoch=group.epoch, target_ms=made_ms)
        after = rules.reconciled(group, member, request.owned, topics.topics)
        if after is not member:
            group = group.with_member(after)
        told = frozenset(after.assigned) if rules.tells_assignment(known, after, request) else None
        return group, HeartbeatResponse(member_id=request.member_id, epoch=after.epoch, assignment=told)

    # --- regular expressions -------------------------------------------------------------------------------------

    def _begun(self, group: ConsumerGroup, known: KnownTopics) -> Resolution | None:
        is_resolving = group.group_id in self.resolving
        if not self.rules.needs_resolution(group, known, self.limits.refresh_ms, is_resolving=is_resolving):
            return None
        begun = self.resolving[group.group_id] = Resolution(group.group_id, tuple(sorted(group.expressions)))
        return begun

    def end_resolution(self, resolution: Resolution, known: KnownTopics) -> ConsumerWrite | None:
        """What expressions match now is the group's, and a target is made of it with the next heartbeat.

        None if the group has been unloaded, deleted, or become a classic one since they were begun.
        """
        before = self.groups.get(resolution.group_id)
        if before is None or self.resolving.get(resolution.group_id) is not resolution:
            return None
        del self.resolving[resolution.group_id]
        found = {one: Resolved(known.matching(one), known.version, known.time_ms) for one in resolution.expressions}
        group = self.rules.resolved(before, found)
        if self.rules.resolution_begins_epoch(before, group):
            hashed = self.rules.metadata_hash(group, known)
            group = attrs.evolve(group, epoch=self.rules.next_epoch(group), metadata_hash=hashed)
            self._looked[group.group_id] = known.version
        write = self._write(group.group_id, before, group)
        self.tell(group.group_id, Ended(resolution, known, write))
        return write

    # --- leaving -------------------------------------------------------------------------------------------------

    def _left(self, group: ConsumerGroup, request: ConsumerHeartbeat) -> ConsumerWrite:
        response = HeartbeatResponse(member_id=request.member_id, epoch=request.epoch)
        member = group.members[request.member_id]
        if request.epoch == STATIC_LEAVING_EPOCH and member.instance_id is not None:
            self._cancel(group.group_id, member.member_id, ConsumerTimer.REBALANCE)
            after = group.with_member(self.rules.away(member))
        else:
            after = self._removed(group, member.member_id)
        return self._write(group.group_id, group, after, response)

    def _removed(self, group: ConsumerGroup, member_id: str) -> ConsumerGroup:
        """The next heartbeat looks at the topics again: fewer may be wanted."""
        self._looked.pop(group.group_id, None)
        return self.rules.removed(group, member_id)

    def _write(
        self,
        group_id: str,
        before: ConsumerGroup | None,
        after: ConsumerGroup | None,
        response: HeartbeatResponse = _NO_RESPONSE,
    ) -> ConsumerWrite:
        records = () if before is after else tuple(changes(before, after, group_id))
        if not records:
            return ConsumerWrite(group_id, before, before, (), response)
        self._revisions += 1
        if after is None:
            self.groups.pop(group_id, None)
            self.resolving.pop(group_id, None)
        else:
            after = self.groups[group_id] = attrs.evolve(after, revision=self._revisions)
        if before is not None and (after is None or before.members is not after.members):
            for member_id in before.members.keys() - (after.members.keys() if after is not None else ()):
                self._unwatch(group_id, member_id)
        return ConsumerWrite(group_id, before, after, records, response)

    def responded(self, write: ConsumerWrite) -> None:
        """A member is told what has come of its heartbeat."""
        self.tell(write.group_id, Told(write))

    def tell(self, group_id: str, decided: Decided) -> None:
        """Who follows the decisions is told of one."""
        if self.watching is not None:
            self.watching(group_id, decided)

    # --- commits -------------------------------------------------------------------------------------------------

    def commit_errors(
        self, group: ConsumerGroup, commit: Commit
    ) -> tuple[ErrorCode, Mapping[tuple[str, int], ErrorCode]]:
        """Why nothing of a commit is taken; and why partitions of it are not, by topic and number.

        Errors: those of `ConsumerRules.commit_error`, and of `ConsumerRules.place_error`.
        """
        error = self.rules.commit_error(group, commit)
        places = {
            (new.topic, new.partition): (commit.topic_ids.get(new.topic, ""), new.partition) for new in commit.offsets
        }
        errors = (
            {} if error is not NONE else {one: self.rules.place_error(group, commit, at) for one, at in places.items()}
        )
        refused = {one: stale for one, stale in errors.items() if stale is not NONE}
        self.tell(group.group_id, Committing(commit, error, refused))
        return error, refused

    # --- the log -------------------------------------------------------------------------------------------------

    def written(self, write: ConsumerWrite) -> None:
        """The records are committed."""
        if write.after is None:
            self.committed.pop(write.group_id, None)
        else:
            self.committed[write.group_id] = write.after
        self.tell(write.group_id, Landed(write, is_committed=True))

    def failed(self, write: ConsumerWrite, now_ms: int) -> None:
        """The records never will be in the log, nor will those that were decided on since.

        The group is what it was, and waits for its members again: one whose time was over is removed at the next try.
        Nobody waits for who has joined since.
        """
        self._looked.pop(write.group_id, None)
        members = {} if write.before is None else write.before.members
        if (group := self.groups.get(write.group_id)) is not None:
            for member_id in group.members.keys() - members.keys():
                self._unwatch(write.group_id, member_id)
        if write.before is None:
            self.groups.pop(write.group_id, None)
        else:
            self.groups[write.group_id] = write.before
            for member in members.values():
                self._watch_again(member, write.group_id, now_ms)
        self.tell(write.group_id, Landed(write, is_committed=False))

    def _watch_again(self, member: ConsumerMember, group: str, now_ms: int) -> None:
        """Time that runs goes on. A classic member has all of its session again: it may not know that it was gone."""
        session = ConsumerDeadline(group, ConsumerTimer.SESSION, member.member_id)
        if self.deadlines.get(session) is None:
            left_ms = RETRY_MS if member.classic is None else member.classic.session_timeout_ms
            self.deadlines.set(session, now_ms + left_ms)
        if not member.revoking:
            self._cancel(group, member.member_id, ConsumerTimer.REBALANCE)
        elif member.classic is None:
            self.expect(group, member, ConsumerTimer.REBALANCE, now_ms)

    def is_committed(self, write: ConsumerWrite) -> bool:
        """Whether the group is in the log as the write has it, or later."""
        committed = self.committed.get(write.group_id)
        if committed is None and write.group_id not in self.groups:
            return True  # it has gone over since
        return write.after is None or (committed is not None and committed.revision >= write.after.revision)

    def replay(self, key: ConsumerKey, value: bytes | None) -> None:
        """A record of the log that is loaded. Raises RecordError."""
        group = replayed(self.committed.get(key.group), key, value)
        if group is None:
            self.committed.pop(key.group, None)
        else:
            self.committed[key.group] = group

    def load(self, group_id: str, session_timeout_ms: int, now_ms: int) -> None:
        """All of the log was replayed: the members have new sessions."""
        group = self.committed[group_id]
        self.groups[group_id] = group
        for member in group.members.values():
            self.watch(member, group_id, session_timeout_ms, now_ms)
        self.tell(group_id, Loaded())

    def forget(self, group_id: str) -> None:
        """The group is a classic one from now on; in the log it is that with the next record."""
        group = self.groups.pop(group_id, None)
        self._looked.pop(group_id, None)
        self.resolving.pop(group_id, None)
        for member_id in () if group is None else group.members:
            self._unwatch(group_id, member_id)
        self.tell(group_id, WentOver())

    def unload(self) -> None:
        """Another broker coordinates the groups."""
        self.groups.clear()
        self.committed.clear()
        self._looked.clear()
        self.resolving.clear()
        self.deadlines = Deadlines()

    def delete(self, group_id: str) -> ConsumerWrite | ErrorCode:
        """GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.group_id_not_found
        if group.members:
            return ErrorCode.non_empty_group
        write = self._write(group_id, group, None)
        self.tell(group_id, Deleted())
        return write

    # --- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """When to call `time_passed` at the latest, on the clock of timers."""
        return self.deadlines.first()

    def time_passed(self, now_ms: int) -> Iterator[ConsumerWrite]:
        """What has ended by now, one after the other; the caller may stop at any of them, and go on later."""
        for due in self.deadlines.due(now_ms):
            if (write := self.timed_out(due)) is not None:
                yield write

    def timed_out(self, due: ConsumerDeadline) -> ConsumerWrite | None:
        """A deadline of a member is reached: it is removed."""
        group = self.groups.get(due.group)
        member = None if group is None else group.members.get(due.member_id)
        if group is None or member is None or (due.timer is ConsumerTimer.REBALANCE and not member.revoking):
            return None
        write = self._write(group.group_id, group, self._removed(group, due.member_id))
        self.tell(group.group_id, due)
        return write

    def remove(self, group: ConsumerGroup, member_id: str) -> ConsumerWrite:
        """A member is out of the group: it leaves, or an operator removes it."""
        write = self._write(group.group_id, group, self._removed(group, member_id))
        self.tell(group.group_id, Removed(member_id))
        return write

    def watch(self, member: ConsumerMember, group: str, session_timeout_ms: int, now_ms: int) -> None:
        """A session begins anew; who has to give back has its own time for that, which does not.

        A classic member has a session of its own length, and joins again to give back.
        """
        if member.classic is not None:
            session_timeout_ms = member.classic.session_timeout_ms
        self.deadlines.set(
            ConsumerDeadline(group, ConsumerTimer.SESSION, member.member_id), now_ms + session_timeout_ms
        )
        if not member.revoking or member.classic is not None:
            self._cancel(group, member.member_id, ConsumerTimer.REBALANCE)
        else:
            self.expect(group, member, ConsumerTimer.REBALANCE, now_ms)

    def expect(self, group: str, member: ConsumerMember, timer: ConsumerTimer, now_ms: int) -> None:
        """A member has its rebalance time-out for what it is waited for; time that runs already goes on."""
        due = ConsumerDeadline(group, timer, member.member_id)
        if self.deadlines.get(due) is None:
            self.deadlines.set(due, now_ms + max(0, member.rebalance_timeout_ms))

    def expect_no_more(self, group: str, member_id: str, *timers: ConsumerTimer) -> None:
        """It has come."""
        for timer in timers:
            self._cancel(group, member_id, timer)

    def _unwatch(self, group: str, member_id: str) -> None:
        for timer in ConsumerTimer:
            self._cancel(group, member_id, timer)

    def _cancel(self, group: str, member_id: str, timer: ConsumerTimer) -> None:
        self.deadlines.cancel(ConsumerDeadline(group, timer, member_id))


def _updated(member: ConsumerMember, request: ConsumerHeartbeat) -> ConsumerMember:
    """The member with what a heartbeat says of it; the same one if that is nothing new."""
    said: Mapping[str, object] = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "topics": None if request.topics is None else frozenset(request.topics),
        "rebalance_timeout_ms": None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        "expression": request.expression,
        "assignor": request.assignor,
        "client_id": request.client_id,
        "client_host": request.client_host,
    }
    new = {name: value for name, value in said.items() if value is not None and getattr(member, name) != value}
    if member.classic != request.classic:
        new["classic"] = request.classic
    return attrs.evolve(member, **new) if new else member  # type: ignore[arg-type]

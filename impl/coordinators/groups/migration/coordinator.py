"""Groups that go over from one protocol to the other, and classic members of consumer groups.

Theory of operation
-------------------
A group is a classic one if the classic core has it (`classic.coordinator`); else it is a consumer group. One without
members may lie beneath a classic group that nobody has led yet: the first record of that takes it away.

A group that goes over is another one in memory at once, and one batch in the log: a tombstone or a record of the
classic group, and records or tombstones of the consumer group (`ConsumerWrite`). Should that never be in the log, the
group is what it was; classic members, which were told to join again, do so.

A JoinGroup in a consumer group is a heartbeat of a member that says all (`spec.groups.migration`).
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.coordinator import ClassicGroups
from tidegauge.impl.coordinators.groups.classic.messages import (
    MEMBER_ID_REQUIRED_FROM,
    NO_MEMBER,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    Leaving,
    Left,
    Moment,
    Outcome,
    SyncGroup,
    SyncResponse,
)
from tidegauge.impl.coordinators.groups.classic.state import Protocol, from_log
from tidegauge.impl.coordinators.groups.classic.subscriptions import CONSUMER
from tidegauge.impl.coordinators.groups.consumer.coordinator import (
    Asked,
    ConsumerGroups,
    ConsumerTimer,
    ConsumerWrite,
    Refused,
    Synced,
)
from tidegauge.impl.coordinators.groups.consumer.records import changes
from tidegauge.impl.coordinators.groups.consumer.state import (
    JOINING_EPOCH,
    ClassicSide,
    ConsumerGroup,
    ConsumerHeartbeat,
    ConsumerMember,
    HeartbeatResponse,
    KnownTopics,
    Place,
    Topics,
)
from tidegauge.impl.coordinators.groups.group_metadata import group_record
from tidegauge.impl.coordinators.groups.migration.embedded import (
    encode_assignment,
    read_subscription,
    version_of,
    without_owned,
)
from tidegauge.impl.coordinators.groups.migration.rules import MigrationRules, named_places
from tidegauge.impl.coordinators.groups.record_formats import GroupRecord, group_tombstone
from tidegauge.impl.records.batches import RecordError

NONE = ErrorCode.none
WHY = "the group was a consumer group, and only classic members are left"
UNDONE = "the group could not go over"


class Decision(NamedTuple):
    """What has to be in the log, and what classic members are told at once."""

    write: ConsumerWrite
    outcome: Outcome = Outcome()


class Migration:
    """Rules on what members ask of a group that may be of either type."""

    def __init__(self, classic: ClassicGroups, consumers: ConsumerGroups, rules: MigrationRules) -> None:
        self.classic = classic
        self.consumers = consumers
        self.rules = rules

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        """The consumer group; None if there is none, or a classic one in its place."""
        return None if self.classic.get(group) is not None else self.consumers.get(group)

    def mixed_group(self, group: str) -> ConsumerGroup | None:
        """The consumer group with members, which a classic member may join as well."""
        known = self.consumer_group(group)
        return known if known is not None and known.members else None

    # --- ConsumerGroupHeartbeat ----------------------------------------------------------------------------------

    def heartbeat(
        self, request: ConsumerHeartbeat, known: KnownTopics, session_timeout_ms: int, now: Moment
    ) -> Decision | HeartbeatResponse:
        """A member of a consumer group joins, goes on or leaves; a classic group that it joins goes over.

        Errors: those of `ConsumerGroups.heartbeat`; GROUP_ID_NOT_FOUND for a classic group that stays one; and
        UNKNOWN_MEMBER_ID for a member of one that has become a classic one without it, or FENCED_INSTANCE_ID if that
        has its place.
        """
        classic = self.classic.get(request.group)
        if classic is None:
            made = self.consumers.heartbeat(request, known, session_timeout_ms, now.timer_ms)
            return made if isinstance(made, HeartbeatResponse) else self.decided(made, known.topics, now)
        if request.epoch != JOINING_EPOCH:
            error = self.rules.heartbeat_in_classic_error(classic, request.member_id, request.instance_id)
            self.consumers.tell(request.group, Refused(request, error))
            return HeartbeatResponse(error, f"{request.group} is a classic group by now")
        if refusal := self.rules.refusal(classic):
            self.consumers.tell(request.group, Refused(request, ErrorCode.group_id_not_found))
            why = f"{request.group} is a group of the classic protocol, and stays one: {refusal}"
            return HeartbeatResponse(ErrorCode.group_id_not_found, why)
        before = self.consumers.get(request.group)
        try:
            group = self.rules.upgraded(classic, before, known.topics)
        except RecordError as error:
            return HeartbeatResponse(ErrorCode.group_id_not_found, f"a classic member cannot be read: {error}")
        self.consumers.groups[request.group] = group
        made = self.consumers.heartbeat(request, known, session_timeout_ms, now.timer_ms)
        if isinstance(made, HeartbeatResponse):
            self._put_back(request.group, before)
            return made
        outcome = self.classic.dissolve(classic, now)
        for member in self.consumers.groups[request.group].members.values():
            self.consumers.watch(member, request.group, session_timeout_ms, now.timer_ms)
        records = (group_tombstone(request.group), *changes(None, made.after, request.group))
        return Decision(attrs.evolve(made, before=before, records=records, was_classic=classic), outcome)

    def _put_back(self, group_id: str, group: ConsumerGroup | None) -> None:
        if group is None:
            self.consumers.groups.pop(group_id, None)
        else:
            self.consumers.groups[group_id] = group

    def decided(self, write: ConsumerWrite, topics: Topics, now: Moment) -> Decision:
        """What the core of consumer groups has decided; the group goes back if only classic members are left."""
        before, after = write.before, write.after
        if after is None or not self.rules.downgrades(after):
            return Decision(write)
        assert before is not None, "a consumer group begins with a member of its own protocol"
        if self.rules.downgrades(before) and before.members.keys() <= after.members.keys():
            return Decision(write)  # it was loaded so: it goes back when somebody has gone
        left = attrs.evolve(after, epoch=before.epoch) if len(after.members) < len(before.members) else after
        metadata = self.rules.downgraded(left, topics, now.wall_ms)
        self.consumers.forget(write.group_id)
        group = from_log(write.group_id, metadata)
        for member in group.members.values():
            side = after.members[member.member_id].classic
            assert side is not None, "only classic members are left"
            protocols = [Protocol(one.name, without_owned(one.metadata)) for one in side.protocols]
            group.update(member, protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        records = (*changes(before, None, write.group_id), group_record(write.group_id, metadata))
        outcome = self.classic.adopt(group, now, WHY, metadata)
        return Decision(attrs.evolve(write, after=None, records=records, classic=metadata), outcome)

    # --- classic members of a consumer group -----------------------------------------------------------------------

    def join(self, request: JoinGroup, known: KnownTopics, now: Moment) -> Decision | JoinResponse:
        """A classic member joins a consumer group that has members.

        Errors: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INVALID_REQUEST, INCONSISTENT_GROUP_PROTOCOL,
        MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED.
        """
        made = self._join(request, known, now)
        if isinstance(made, Refused):
            self.consumers.tell(request.group, made)
            return JoinResponse(made.error, made.request.member_id)
        return made

    def _join(self, request: JoinGroup, known: KnownTopics, now: Moment) -> Decision | JoinResponse | Refused:
        group = self.consumers.groups[request.group]
        if (error := self.classic.join_error(request)) is not NONE:
            return Refused(request, error)
        names = [one.name for one in request.protocols]
        try:
            says = read_subscription(request.protocols[0].metadata if request.protocols else b"")
        except RecordError:
            return Refused(request, ErrorCode.inconsistent_group_protocol)
        if not self.rules.supports(group, request.protocol_type, names):
            return Refused(request, ErrorCode.inconsistent_group_protocol)
        member_id = request.member_id
        if member_id == NO_MEMBER:
            member_id = f"{request.instance_id or request.client_id}-{request.unique}"
            if request.instance_id is None and request.version >= MEMBER_ID_REQUIRED_FROM:
                return JoinResponse(ErrorCode.member_id_required, member_id)
        elif request.instance_id is not None:
            error = self.rules.member_error(group, member_id, request.instance_id)
            if error is not NONE:
                return Refused(request, error)
        topics = known.topics
        owned = frozenset((topics[name].topic_id, index) for name, index in says.owned if name in topics)
        if (error := self.rules.claims_error(group.members.get(member_id), owned)) is not NONE:
            return Refused(attrs.evolve(request, member_id=member_id), error, owned)
        beat = ConsumerHeartbeat(
            request.group,
            member_id,
            JOINING_EPOCH,
            instance_id=request.instance_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topics=tuple(says.topics),
            expression="",
            owned=owned,
            client_id=request.client_id,
            client_host=request.client_host,
            classic=ClassicSide(request.session_timeout_ms, request.protocols),
        )
        made = self.consumers.heartbeat(beat, known, request.session_timeout_ms, now.timer_ms)
        if isinstance(made, HeartbeatResponse):
            return JoinResponse(made.error, member_id)
        self.consumers.expect_no_more(request.group, member_id, ConsumerTimer.JOIN, ConsumerTimer.SYNC)
        joined = self.consumers.groups[request.group].members[member_id]
        self.consumers.expect(request.group, joined, ConsumerTimer.SYNC, now.timer_ms)
        return self.decided(made, topics, now)

    def join_response(self, request: JoinGroup, told: HeartbeatResponse) -> JoinResponse:
        """What a classic member is told when its JoinGroup is in the log: it follows, and nobody leads."""
        return JoinResponse(
            member_id=told.member_id or request.member_id,
            generation=told.epoch,
            protocol_type=CONSUMER,
            protocol=request.protocols[0].name,
        )

    def sync(self, request: SyncGroup, topics: Topics, now: Moment) -> tuple[ConsumerWrite, SyncResponse] | ErrorCode:
        """What a classic member has, and what has to be in the log before it is told.

        Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
        REBALANCE_IN_PROGRESS.
        """
        made, assigned = self._sync(request, topics, now)
        error = made if isinstance(made, ErrorCode) else NONE
        self.consumers.tell(request.group, Synced(request, error, assigned))
        return made

    def _sync(
        self, request: SyncGroup, topics: Topics, now: Moment
    ) -> tuple[tuple[ConsumerWrite, SyncResponse] | ErrorCode, frozenset[Place]]:
        group = self.consumers.groups[request.group]
        error = self.rules.generation_error(group, request.member_id, request.instance_id, request.generation)
        if error is not NONE:
            return error, frozenset()
        member = group.members[request.member_id]
        side = _side(member)
        is_other = request.protocol is not None and request.protocol not in [one.name for one in side.protocols]
        if is_other or request.protocol_type not in (None, CONSUMER):
            return ErrorCode.inconsistent_group_protocol, frozenset()
        if not self.rules.may_sync(group, member):
            self.consumers.expect(request.group, member, ConsumerTimer.JOIN, now.timer_ms)
            return ErrorCode.rebalance_in_progress, frozenset()
        self.consumers.expect_no_more(request.group, request.member_id, ConsumerTimer.SYNC)
        self.consumers.watch(member, request.group, side.session_timeout_ms, now.timer_ms)
        assignment = encode_assignment(named_places(member, topics), version_of(side.metadata))
        protocol = request.protocol or side.protocols[0].name
        write = ConsumerWrite(request.group, group, group, ())
        told = SyncResponse(protocol_type=CONSUMER, protocol=protocol, assignment=assignment)
        return (write, told), frozenset(member.assigned)

    def beat(self, request: Heartbeat, now: Moment) -> ErrorCode:
        """A classic member lives; REBALANCE_IN_PROGRESS tells it to join again, and begins its time for that.

        Errors besides: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
        """
        error = self._beat(request, now)
        self.consumers.tell(request.group, Asked(request, error))
        return error

    def _beat(self, request: Heartbeat, now: Moment) -> ErrorCode:
        group = self.consumers.groups[request.group]
        error = self.rules.generation_error(group, request.member_id, request.instance_id, request.generation)
        if error is not NONE:
            return error
        member = group.members[request.member_id]
        self.consumers.watch(member, request.group, _side(member).session_timeout_ms, now.timer_ms)
        if not self.rules.must_rejoin(group, member):
            return NONE
        self.consumers.expect(request.group, member, ConsumerTimer.JOIN, now.timer_ms)
        return ErrorCode.rebalance_in_progress

    def leave(self, group_id: str, leaving: Leaving, topics: Topics, now: Moment) -> tuple[Left, Decision | None]:
        """A classic member leaves a consumer group; an operator removes a static one of any protocol by its instance.

        Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        group = self.consumers.groups[group_id]
        member_id, error = leaving.member_id, NONE
        if member_id == NO_MEMBER and leaving.instance_id is not None:
            member_id = group.instances.get(leaving.instance_id, NO_MEMBER)
            error = NONE if member_id else ErrorCode.unknown_member_id
        else:
            error = self.rules.member_error(group, member_id, leaving.instance_id)
        left = Left(leaving.member_id, leaving.instance_id, error)
        if error is not NONE:
            return left, None
        return left, self.decided(self.consumers.remove(group, member_id), topics, now)

    # --- the log -----------------------------------------------------------------------------------------------------

    def failed(self, write: ConsumerWrite, now: Moment) -> Outcome:
        """It is not in the log what has become of a group, and never will be: it is what it was.

        What was decided since is given up with it, and so is a classic group that it has become meanwhile.
        """
        has_members = write.before is not None and bool(write.before.members)
        outcome = self.classic.abandon(write.group_id, now) if write.is_of_both or has_members else Outcome()
        self.consumers.failed(write, now.timer_ms)
        if write.was_classic is None:
            return outcome
        again = self.classic.adopt(write.was_classic, now, UNDONE)
        responses, notes = (*outcome.responses, *again.responses), (*outcome.notes, *again.notes)
        return attrs.evolve(again, responses=responses, notes=notes)

    def beneath(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group without members that lies beneath a classic one: the next record takes it away."""
        return None if self.classic.get(group_id) is None else self.consumers.get(group_id)

    def landed(self, group: ConsumerGroup) -> None:
        """A record of the classic group is committed, and with it the tombstones of the group that lay beneath.

        The log has no consumer group then, though there may be another one in memory, which has yet to be written.
        """
        self.consumers.committed.pop(group.group_id, None)
        if self.consumers.get(group.group_id) is group:
            self.consumers.forget(group.group_id)


def tombstones(group: ConsumerGroup | None) -> tuple[GroupRecord, ...]:
    """The records by which a group without members is no more; none where there is none."""
    return () if group is None else tuple(changes(group, None, group.group_id))


def _side(member: ConsumerMember) -> ClassicSide:
    assert member.classic is not None, "it speaks the classic protocol"
    return member.classic

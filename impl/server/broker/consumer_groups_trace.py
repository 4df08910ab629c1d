"""What a coordinator of consumer groups (KIP-848) decides, as events of the trace, where that is of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.impl.coordinators.groups.classic.messages import JoinGroup
from tidegauge.impl.coordinators.groups.consumer.coordinator import (
    Asked,
    Beat,
    Committing,
    ConsumerDeadline,
    ConsumerTimer,
    Deleted,
    Ended,
    Landed,
    Loaded,
    Refused,
    Removed,
    Synced,
    Told,
    WentOver,
)
from tidegauge.impl.coordinators.groups.consumer.state import (
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerHeartbeat,
    HeartbeatResponse,
)
from tidegauge.impl.server import trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerGroups, Decided
    from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup, KnownTopics, Place
    from tidegauge.impl.server.trace.consumer_groups import GroupSeen, TopicSeen
    from tidegauge.impl.server.trace.tracer import Tracer


class ConsumerGroupsTrace:
    """Records the decisions of one core, in one leader epoch."""

    def __init__(self, tracer: Tracer, core: ConsumerGroups, partition: int, leader_epoch: int) -> None:
        self._tracer = tracer
        self._core = core
        self._of = (partition, leader_epoch)

    def decided(self, group_id: str, decided: Decided) -> None:
        """The core has decided this just now."""
        kinds, record = trace.consumer_groups, self._tracer.record
        of = (*self._of, group_id, self._seen(self._core.get(group_id)))
        match decided:
            case Beat(request=request, known=known, came=came):
                told = came if isinstance(came, HeartbeatResponse) else came.response
                is_written = not isinstance(came, HeartbeatResponse) and bool(came.records)
                topics = tuple(_topics(self._core.get(group_id), request.topics or (), known))
                begun = None if isinstance(came, HeartbeatResponse) else came.resolution
                resolves = None if begun is None else begun.expressions
                said = (told.error, told.epoch, _places(told), is_written)
                leaves = request.epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)
                kind = kinds.ReceiveLeave if leaves else kinds.ReceiveHeartbeat
                times = known.time_ms, self._core.limits.interval_ms(group_id)
                record(kind, *of, request, *said, topics, resolves, *times)
            case Ended(resolution=resolution, known=known, write=write):
                topics = tuple(_topics(self._core.get(group_id), (), known))
                matches = tuple((one, tuple(sorted(known.matching(one)))) for one in resolution.expressions)
                record(kinds.EndResolution, *of, resolution.expressions, bool(write.records), topics, matches)
            case Told(write=write):
                told, after = write.response, write.after
                revision = 0 if after is None else after.revision
                record(kinds.RespondToHeartbeat, *of, told.member_id or "", told.epoch, _places(told), revision)
            case Committing(commit=commit, error=error, refused=refused):
                record(kinds.ReceiveCommit, *of, commit, error, refused)
            case ConsumerDeadline(timer=ConsumerTimer.SESSION, member_id=member_id):
                record(kinds.ExpireSession, *of, member_id)
            case ConsumerDeadline(timer=ConsumerTimer.REBALANCE, member_id=member_id):
                record(kinds.ExpireRebalance, *of, member_id)
            case ConsumerDeadline(member_id=member_id):
                record(kinds.ExpireRejoin, *of, member_id)
            case Removed(member_id=member_id):
                record(kinds.RemoveMember, *of, member_id)
            case Landed(write=write, is_committed=True):
                record(kinds.CommitRecord, *of, self._seen(write.after))
            case Landed(write=write):
                record(kinds.FailRecord, *of, self._seen(write.after))
            case Loaded():
                record(kinds.LoadGroup, *of)
            case Deleted():
                record(kinds.DeleteGroup, *of)
            case WentOver():
                record(kinds.GoOver, *of)
            case Synced(request=request, error=error, assigned=assigned):
                record(kinds.ReceiveSync, *of, request, error, tuple(sorted(assigned)))
            case Asked(request=request, error=error):
                record(kinds.ReceiveClassicHeartbeat, *of, request, error)
            case Refused(request=JoinGroup() as request, error=error, owned=owned):
                record(kinds.RefuseJoin, *of, request, error, tuple(sorted(owned)))
            case Refused(request=ConsumerHeartbeat() as request, error=error):
                record(kinds.RefuseHeartbeat, *of, request, error)

    def _seen(self, group: ConsumerGroup | None) -> GroupSeen | None:
        if group is None:
            return None
        kinds, of = trace.consumer_groups, group.group_id
        members = (
            kinds.MemberSeen.of(
                member,
                has_session=self._runs(of, ConsumerTimer.SESSION, member.member_id),
                has_to_give_back_in_time=self._runs(of, ConsumerTimer.REBALANCE, member.member_id),
            )
            for member in group.members.values()
        )
        return kinds.GroupSeen.of(group, tuple(members))

    def _runs(self, group_id: str, timer: ConsumerTimer, member_id: str) -> bool:
        return self._core.deadlines.get(ConsumerDeadline(group_id, timer, member_id)) is not None


def _places(told: HeartbeatResponse) -> tuple[Place, ...] | None:
    return None if told.assignment is None else tuple(sorted(told.assignment))


def _topics(group: ConsumerGroup | None, named: Iterable[str], known: KnownTopics) -> Iterator[TopicSeen]:
    """The topics that a decision may be about, of those that there are."""
    names = {*named}
    if group is not None:
        names.update(*group.subscriptions)
    topics = known.topics
    for name in sorted(names):
        if (topic := topics.get(name)) is not None:
            yield trace.consumer_groups.TopicSeen(name, topic.topic_id, topic.partitions, known.topic_hash(name))

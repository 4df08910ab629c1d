"""What a consumer group's coordinator makes of heartbeats that nobody sends, of time-outs of nobody, and at what time.

Another core with the same group is asked, of one member after the other, so nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from typing import Protocol as Interface

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.consumer.coordinator import (
    ConsumerDeadline,
    ConsumerGroups,
    ConsumerTimer,
    ConsumerWrite,
    Resolution,
)
from tidegauge.impl.coordinators.groups.consumer.rules import PAUSE_MS
from tidegauge.impl.coordinators.groups.consumer.state import (
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerGroup,
    ConsumerHeartbeat,
    ConsumerMember,
    HeartbeatResponse,
)
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.model_tests.harness.cores.consumer_abstraction import GROUP
from tidegauge.model_tests.harness.cores.known_topics import Known
from tidegauge.spec.kernel.changes import Change

NO_EXPRESSION: Final = "topic-("
"""What is no regular expression."""
REBALANCE_MS: Final = 700
NOBODY: Final = "member-999"


class Beside(Interface):
    """A coordinator beside the machine."""

    asked: int
    """How many states have been asked about."""

    @property
    def core(self) -> GroupCoordinator:
        """The coordinator, which has loaded its log."""


def another(consumers: ConsumerGroups) -> ConsumerGroups:
    """A core that knows the same groups: nobody's time runs in it."""
    made = ConsumerGroups(consumers.limits, consumers.rules)
    made.groups, made.committed = {**consumers.groups}, {**consumers.committed}
    return made


def asked_differs(cores: Beside, known: Known) -> Iterator[Change]:
    """Where it makes something else of what nobody has asked than it should."""
    consumers = cores.core.consumers
    if (group := consumers.get(GROUP)) is None:
        return
    yield from _clocks(consumers, group, known)
    yield from _waiting(group)
    own = [one for one in group.members.values() if one.classic is None]
    yield from _times_out(consumers, group)
    yield from _expressions(consumers, group, known)
    if own and (member := own[cores.asked % len(own)]).epoch > 0:
        yield from _leaves(consumers, group, member, known)
        yield from _says_all(consumers, group, member, known)
        yield from _unsubscribes(consumers, group, member, known)
        yield from _says_another(consumers, group, member, known)


def _waiting(group: ConsumerGroup) -> Iterator[Change]:
    """Who is in the target's epoch waits if it has not all that the target gives it; who has to give back does not.

    While the target is an older one, members may want less than it gives them.
    """
    for member in group.members.values():
        if member.epoch == group.target_epoch == group.epoch and not member.revoking:
            missing = group.target.get(member.member_id, frozenset()) - member.assigned.keys()
            wanted = bool(missing)
        elif member.revoking or member.epoch == STATIC_LEAVING_EPOCH:
            wanted = False
        else:
            continue
        if member.is_waiting is not wanted:
            yield Change(f"{member.member_id} waits for others", wanted, member.is_waiting)


def _beat(member: ConsumerMember, epoch: int, **says: Any) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(GROUP, member.member_id, epoch, instance_id=member.instance_id, **says)


def _leaves(consumers: ConsumerGroups, group: ConsumerGroup, member: ConsumerMember, known: Known) -> Iterator[Change]:
    """Only a static member leaves to come back, if it says so."""
    for epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH):
        core = another(consumers)
        core.heartbeat(_beat(member, epoch), known, 0, 0)
        after = core.groups[GROUP]
        left = after.members.get(member.member_id)
        comes_back = epoch == STATIC_LEAVING_EPOCH and member.instance_id is not None
        wanted: tuple[object, ...] = (None, group.epoch + 1)
        found: tuple[object, ...] = (left, after.epoch)
        if comes_back:
            wanted = (STATIC_LEAVING_EPOCH, member.assigned, {}, group.epoch)
            found = (None, after.epoch) if left is None else (left.epoch, left.assigned, left.revoking, after.epoch)
        if found != wanted:
            yield Change(f"{member.member_id}, which leaves in epoch {epoch}", wanted, found)


def _says_all(
    consumers: ConsumerGroups, group: ConsumerGroup, member: ConsumerMember, known: Known
) -> Iterator[Change]:
    """Who says all is told all; who leaves one thing out is told what is new."""
    joins = another(consumers).heartbeat(_beat(member, 0), known, 0, 0)
    if isinstance(joins, ConsumerWrite) and joins.response.assignment is None:
        yield Change(f"what {member.member_id} is told, which joins again", "all that it is to own", joins)
    everything: dict[str, Any] = {
        "rebalance_timeout_ms": REBALANCE_MS,
        "topics": tuple(member.topics),
        "owned": frozenset((*member.assigned, *member.revoking)),
    }
    for without in (None, *everything):
        core = another(consumers)
        said = {name: value for name, value in everything.items() if name != without}
        made = core.heartbeat(_beat(member, member.epoch, **said), known, 0, 0)
        after = core.groups[GROUP].members.get(member.member_id)
        if isinstance(made, HeartbeatResponse) or after is None:
            continue
        is_told = without is None or after.assigned.keys() != member.assigned.keys()
        if (found := made.response.assignment) != (frozenset(after.assigned) if is_told else None):
            yield Change(f"what {member.member_id} is told, which leaves out {without}", after.assigned, found)


def _unsubscribes(
    consumers: ConsumerGroups, group: ConsumerGroup, member: ConsumerMember, known: Known
) -> Iterator[Change]:
    """What a member wants no more it gives back at once, though the next target has to wait (KAFKA-19431).

    What it wants again then it is given by that target, and not before.
    """
    is_there = member.epoch == group.target_epoch and not member.revoking and not member.expression
    if not is_there or group.target_ms == 0:
        return
    core = another(consumers)
    core.limits = attrs.evolve(core.limits, interval_ms=lambda _: known.time_ms + 1)
    core.heartbeat(_beat(member, member.epoch, topics=()), known, 0, 0)
    after = core.groups[GROUP].members[member.member_id]
    wanted: tuple[object, ...] = (member.epoch, {}, member.assigned)
    if (found := (after.epoch, after.assigned, after.revoking)) != wanted:
        yield Change(f"{member.member_id} wants nothing any more", wanted, found)
    for topics in (None, tuple(member.topics)):
        core.heartbeat(_beat(member, member.epoch, topics=topics, owned=frozenset()), known, 0, 0)
    after = core.groups[GROUP].members[member.member_id]
    if (found := (after.epoch, after.assigned, after.revoking)) != (wanted := (member.epoch, {}, {})):
        yield Change(f"{member.member_id} wants again what it had", wanted, found)


def _says_another(
    consumers: ConsumerGroups, group: ConsumerGroup, member: ConsumerMember, known: Known
) -> Iterator[Change]:
    """An expression that has been resolved begins an epoch at once, and so does none any more, with other topics."""
    for expression in ("", *group.resolved):
        core = another(consumers)
        core.heartbeat(_beat(member, member.epoch), known, 0, 0)
        before = core.groups[GROUP]
        if expression == member.expression or expression not in ("", *before.resolved):
            continue
        one = before.members[member.member_id]
        made = core.heartbeat(_beat(one, one.epoch, expression=expression), known, 0, 0)
        after = core.groups[GROUP]
        wanted: tuple[object, ...] = (before.epoch + 1, core.rules.metadata_hash(after, known))
        if (found := (after.epoch, after.metadata_hash)) != wanted:
            yield Change(f"the group whose {member.member_id} wants {expression!r} now", wanted, found)
        if isinstance(made, ConsumerWrite) and made.resolution is not None:
            is_over = core.end_resolution(Resolution(GROUP, made.resolution.expressions), known)
            if is_over is not None or core.groups[GROUP] is not after:
                yield Change("what comes of expressions that another heartbeat has had resolved", None, is_over)


def _expressions(consumers: ConsumerGroups, group: ConsumerGroup, known: Known) -> Iterator[Change]:
    """What is no expression is refused, of whom it may be, and nothing changes; one alone is all that a member says."""
    members = [ConsumerMember(NOBODY), *(one for one in group.members.values() if one.classic is None)][:2]
    for member in members:
        core = another(consumers)
        epoch = 0 if member.member_id == NOBODY else member.epoch
        made = core.heartbeat(_beat(member, epoch, expression=NO_EXPRESSION), known, 0, 0)
        is_refused = isinstance(made, HeartbeatResponse) and made.error is ErrorCode.invalid_regular_expression
        is_in = epoch >= 0
        if is_in and not (is_refused and core.groups[GROUP] is group):
            yield Change(f"{member.member_id} says what is no expression", ErrorCode.invalid_regular_expression, made)
    core = another(consumers)
    made = core.heartbeat(_beat(members[0], 0, expression="topic-.", rebalance_timeout_ms=REBALANCE_MS), known, 0, 0)
    if not isinstance(made, ConsumerWrite) or made.response.assignment is None:
        yield Change("what who joins with an expression alone is told", "all that it is to own", made)
    if isinstance(made, ConsumerWrite) and made.resolution is not core.resolving.get(GROUP):
        yield Change("what is resolved then", core.resolving.get(GROUP), made.resolution)
    if not core.has_looked(GROUP, known.version):
        yield Change("the topics are known that the heartbeat was held against", True, False)


def _times_out(consumers: ConsumerGroups, group: ConsumerGroup) -> Iterator[Change]:
    """Nobody is removed who is none, or who has nothing to give back."""
    core = another(consumers)
    due = [ConsumerDeadline(GROUP, timer, NOBODY) for timer in ConsumerTimer]
    due += [ConsumerDeadline("another group", timer, NOBODY) for timer in ConsumerTimer]
    idle = [one for one, member in group.members.items() if not member.revoking]
    due += [ConsumerDeadline(GROUP, ConsumerTimer.REBALANCE, one) for one in idle]
    made = [core.timed_out(one) for one in due]
    if made != [None] * len(due) or core.groups.get(GROUP) is not group:
        yield Change("time-outs of nobody", [], made)


def _clocks(consumers: ConsumerGroups, group: ConsumerGroup, known: Known) -> Iterator[Change]:
    """A time is over at its end, or not before it is past; without an interval the clock says nothing."""
    rules, is_due = consumers.rules, group.epoch > group.target_epoch
    for before_ms in (-1, 0, 1):
        if rules.needs_target(group, max(0, group.target_ms - before_ms), 0) is not is_due:
            yield Change("a target is made without an interval", is_due, not is_due)
    if group.target_ms:
        for more_ms in (-1, 0):
            now_ms, wanted = group.target_ms + PAUSE_MS + more_ms, is_due and more_ms >= 0
            if rules.needs_target(group, now_ms, PAUSE_MS) is not wanted:
                yield Change(f"a target is made {more_ms} ms after the interval", wanted, not wanted)
    if not group.resolved or not group.expressions:
        return
    last = max(group.resolved.values(), key=lambda one: one.time_ms)
    is_new = group.resolved.keys() != group.expressions or last.version < known.newest
    refresh_ms = 2 * PAUSE_MS
    times = {-1: is_new, 0: False, PAUSE_MS: False, PAUSE_MS + 1: is_new, refresh_ms: is_new, refresh_ms + 1: True}
    for passed_ms, wanted in times.items():
        at = attrs.evolve(known, time_ms=last.time_ms + passed_ms)
        for is_resolving in (False, True):
            found = rules.needs_resolution(group, at, refresh_ms, is_resolving=is_resolving)
            if found is not (wanted and not is_resolving):
                yield Change(f"expressions are resolved again after {passed_ms} ms", wanted, found)

"""What no field of a classic group's state shows, asked of its coordinator beside the specification's state.

Which timers run, and until when; who waits; whether there is the group; what its members subscribe to. And what would
come of a deletion, and of each record that is on its way, if it never came into the log: a copy of the coordinator is
told so, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy as shallow
from typing import Final
from typing import Protocol as Interface

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.coordinator import Asked, ClassicGroups, Dissolved, End
from tidegauge.impl.coordinators.groups.classic.messages import (
    SKIP_ASSIGNMENT_FROM,
    GroupWrite,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    LeaveResponse,
    Leaving,
    Moment,
    Purpose,
    Replacement,
    SyncGroup,
)
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicState, Protocol, Token
from tidegauge.impl.coordinators.groups.classic.turn import DeadlineKey, Timer
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.group_metadata import GroupMetadata
from tidegauge.impl.coordinators.groups.record_formats import OffsetKey
from tidegauge.impl.coordinators.groups.requests import Commit, NewOffset, Ruling
from tidegauge.model_tests.harness.cores.classic_times import GROUP, first_wait_differs
from tidegauge.model_tests.harness.cores.group_abstraction import (
    abstract_group,
    number_of,
    subscription,
    topic_name,
)
from tidegauge.spec.groups.classic import coordinating
from tidegauge.spec.groups.classic import state as spec
from tidegauge.spec.groups.classic.machine import ClassicGroups as Machine
from tidegauge.spec.groups.classic.state import NONE, State, Status, Waiting
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.evolving import evolve

TOPIC: Final = "topic"
ERROR: Final = ErrorCode.not_enough_replicas
"""Of what is not written."""


class Waits(Interface):
    """A request."""

    error: ErrorCode | None
    """That of its response; None while it waits."""


class Beside(Interface):
    """A coordinator beside the machine."""

    machine: Machine
    coordinator: GroupCoordinator | None
    """None while it is loading."""
    subscribed: tuple[int, frozenset[int]]
    """A generation, and the topics that its members subscribe to."""

    @property
    def waiting(self) -> Sequence[Waits]:
        """The requests without a response."""

    @property
    def leaving(self) -> Sequence[Waits]:
        """Those of who has left."""

    @property
    def appended(self) -> Sequence[GroupWrite | Ruling]:
        """What is on its way into the log."""

    @property
    def now(self) -> Moment: ...

    @property
    def core(self) -> GroupCoordinator:
        """The coordinator."""

    @property
    def classic(self) -> ClassicGroups:
        """Its core of classic groups."""

    @property
    def group(self) -> ClassicGroup:
        """What it knows of the group."""

    def name_of(self, member_id: int, /) -> str:
        """A member id."""

    def process_of(self, token: Token, /) -> int:
        """The process that will have a response."""

    def join_group(self, request: spec.JoinRequest, given: int, /) -> JoinGroup:
        """A request as the coordinator has it; the member id that it is given, if it is, has this number."""


def told_otherwise(cores: Beside, state: State) -> Iterator[Change]:
    """Where the coordinator differs from the specification in what no field shows."""
    if cores.coordinator is None or state.group is None:
        return
    yield from timers(cores, state.group, state.member_ids)
    yield from _waiting(cores)
    yield from _subscriptions(cores, state.group)
    yield from _syncs_of_former_versions(cores)
    yield from _all_leave(cores)
    yield from _deletion(cores, state)
    yield from _not_deleted(cores)
    yield from _goes_over(cores)
    if cores.group.initial is not None:
        yield from first_wait_differs((copied(cores.core.classic), copied(cores.core.classic)), cores.now)
    yield from _not_written(cores, state)


# --- timers, and who waits -------------------------------------------------------------------------------------------


def timers(cores: Beside, group: spec.Group, member_ids: int) -> Iterator[Change]:
    """Of each member that is watched, and of each id that was given, the session runs; else that of nobody.

    Members are waited for while a rebalance goes on, and then until all have asked for their assignment. What the group
    has of its deadlines is when they end.
    """
    members = {one.member_id: one for one in group.members}
    is_joining = group.status is Status.PREPARING_REBALANCE
    is_unsynced = any(member.unsynced for member in group.members)
    known, deadlines = cores.group, cores.core.classic.deadlines
    wanted = {(Timer.JOIN, ""): is_joining, (Timer.SYNC, ""): is_unsynced and not is_joining}
    has = {(Timer.JOIN, ""): known.join_deadline, (Timer.SYNC, ""): known.sync_deadline}
    for number in range(member_ids):
        is_watched = number in members and members[number].watched
        name = cores.name_of(number)
        wanted[Timer.SESSION, name] = is_watched or number in group.pending
        member = known.members.get(name)
        has[Timer.SESSION, name] = known.pending.get(name) if member is None else member.session_deadline
    for (timer, member_id), runs in wanted.items():
        found = deadlines.get(DeadlineKey(GROUP, timer, member_id))
        if (found is not None) is not runs:
            yield Change(f"timers.{timer.value} {member_id}", runs, found)
        if found != has[timer, member_id]:
            yield Change(f"timers.{timer.value} {member_id} as the group has it", found, has[timer, member_id])


def _waiting(cores: Beside) -> Iterator[Change]:
    """Every request without a response is a member's, and no member has two."""
    held = {id(member.syncing if member.joining is None else member.joining) for member in cores.group.members.values()}
    forgotten = [one for one in cores.waiting if id(one) not in held]
    if forgotten != (leaving := [one for one in cores.leaving if one.error is None]):
        yield Change("requests that wait, and are no member's", leaving, forgotten)
    if held - {id(None)}:
        told = {id(token): response.error for token, response in copied(cores.core.classic).unload().responses}
        wanted = dict.fromkeys(held - {id(None)}, ErrorCode.not_coordinator)
        if told != wanted:
            yield Change("who is told that another broker coordinates the group", wanted, told)


def _subscriptions(cores: Beside, group: spec.Group) -> Iterator[Change]:
    """The offsets of what the members of a generation subscribe to stay; while it is not stable no others expire.

    An operator deletes none before there is a generation.
    What is known of it is what they had said when the generation began, or what is in the log.
    """
    is_stable = group.status is Status.STABLE
    if group.status is Status.EMPTY or cores.subscribed[:1] != (group.generation,):
        topics = frozenset(topic for member in group.members for topic in member.subscription.topics)
        cores.subscribed = group.generation, topics
    core = cores.core
    for topic in range(cores.machine.topics + 1):
        is_wanted = topic in cores.subscribed[1]
        key = OffsetKey(GROUP, topic_name(topic), 0)
        is_kept = bool(group.members) and (is_wanted or not is_stable)
        is_joining = group.status is Status.PREPARING_REBALANCE
        if (found := core.is_kept_for_members(key)) is not (is_kept or is_joining):
            yield Change(f"the offsets of topic {topic} are kept", is_kept or is_joining, found)
        if group.members or group.status is Status.EMPTY:
            is_refused = bool(group.members) and (is_wanted or group.protocol == NONE)
            refused = core.delete_offsets(GROUP, [key[1:]]).refused.get(key[1:], ErrorCode.none)
            if (refused is ErrorCode.group_subscribed_to_topic) is not is_refused:
                yield Change(f"deletion of the offsets of topic {topic}", f"refused: {is_refused}", refused.name)


def _syncs_of_former_versions(cores: Beside) -> Iterator[Change]:
    """SyncGroup says of what protocol the generation is, or nothing (before KIP-559); another one is refused."""
    group, rules = cores.group, cores.core.classic.rules
    for member in group.members.values():
        said = SyncGroup(GROUP, group.generation, member.member_id, member.instance_id)
        wanted = rules.sync_error(group, said)
        other = ErrorCode.inconsistent_group_protocol
        for protocol_type, protocol, error in (
            (group.protocol_type, group.protocol, wanted),
            (None, group.protocol, wanted),
            (group.protocol_type, None, wanted),
            ("another type", None, other),
            (None, "another protocol", wanted if group.protocol is None else other),
        ):
            found = rules.sync_error(group, attrs.evolve(said, protocol_type=protocol_type, protocol=protocol))
            if found is not error:
                yield Change(f"the error of SyncGroup that says {protocol_type}, {protocol}", error.name, found.name)


def _all_leave(cores: Beside) -> Iterator[Change]:
    """All members leave at once, with one who is none: who leaves is told when it is in the log that nobody is left."""
    group = cores.group
    if not group.members:
        return
    leaving = (*(Leaving(one.member_id, one.instance_id) for one in group.members.values()), Leaving("nobody"))
    errors = [*(ErrorCode.none for _ in group.members), ErrorCode.unknown_member_id]
    left, token = copied(cores.core.classic), object()
    outcome = left.leave(LeaveGroup(GROUP, leaving), token, cores.now)
    for is_written, is_gone in ((True, False), (True, True), (False, False), (False, True)):
        copy, told = copied(left), [*outcome.responses]
        for write in outcome.writes:
            if is_gone:
                copy.groups.clear()
            told += (copy.written(write, cores.now) if is_written else copy.failed(write, ERROR, cores.now)).responses
        responses = [one for own, one in told if own is token and isinstance(one, LeaveResponse)]
        error = ErrorCode.none if is_written or not outcome.writes else ERROR
        found = [(one.error, [member.error for member in one.members]) for one in responses]
        if found != (wanted := [(error, errors if error is ErrorCode.none else [])]):
            yield Change("what members are told that leave at once", wanted, found)


# --- deletion --------------------------------------------------------------------------------------------------------


def _deletion(cores: Beside, state: State) -> Iterator[Change]:
    """Whether the group may be deleted, and what becomes of one that is being deleted."""
    group, core = state.loaded, cores.core
    is_empty = group.status is Status.EMPTY and not group.members
    is_blank = group.status is Status.EMPTY and group.generation == 0 and not (group.members or group.pending)
    is_there = not is_blank or any(offset != spec.Offset() for offset in state.log.offsets)
    if core.is_known(GROUP) is not is_there:
        yield Change("the group is known", is_there, not is_there)
    if (core.classic.get(GROUP) is None) is not is_blank:
        yield Change("the group has or has had members", not is_blank, is_blank)
    nobody = ErrorCode.none if is_there else ErrorCode.group_id_not_found
    expected = nobody if is_empty else ErrorCode.non_empty_group
    ruling = core.delete_group(GROUP)
    if ruling.error is not expected:
        yield Change("deletion of the group", expected.name, ruling.error.name)
    elif ruling.error is ErrorCode.none and not is_blank:
        yield from _deletion_that_fails(cores, ruling)
        yield from _deletion_that_ends(cores, ruling)
        yield from _deletion_of_who_never_came(cores, ruling)


def _deletion_that_fails(cores: Beside, ruling: Ruling) -> Iterator[Change]:
    """While its tombstone is on its way nobody joins and nobody deletes the group; then it is what it was."""
    core, group = cores.core, cores.group
    before = group.state, group.generation, [*group.pending]
    core.appended(ruling)
    commit = Commit(GROUP, (NewOffset(TOPIC, 0, 1),))
    deletions = core.delete_group(GROUP).error, core.delete_offsets(GROUP, [(TOPIC, 0)]).error
    found = core.commit(commit, cores.now.wall_ms).error, *deletions
    expected = ErrorCode.coordinator_not_available, ErrorCode.group_id_not_found, ErrorCode.group_id_not_found
    if found != expected:
        yield Change("commit, deletion of a group that is being deleted, of its offsets", expected, found)
    if (told := _told_of_who_is_dead(cores)) != (wanted := [ErrorCode.coordinator_not_available] * 4):
        yield Change("what members are told of a group that is being deleted", wanted, told)
    core.failed(ruling)
    group = cores.group
    after = group.state, group.generation, [*group.pending]
    if after != before:
        yield Change("a group whose deletion was not written", before, after)


def _deletion_of_who_never_came(cores: Beside, ruling: Ruling) -> Iterator[Change]:
    """Nobody is expected any more when it is known that the tombstone never will be in the log."""
    copy, group = copied(cores.core.classic), cores.group
    copy.ending(ruling.ended)
    for member_id in group.pending:
        copy.timed_out(DeadlineKey(GROUP, Timer.SESSION, member_id), cores.now)
    if copy.get(GROUP) is None:
        yield Change("a group to which nobody has come is there while its tombstone is on its way", True, False)
    copy.kept(ruling.ended)
    is_there = group.generation > 0 or group.protocol_type is not None
    if (found := copy.get(GROUP) is not None) is not is_there:
        yield Change("a group to which nobody has come is there when its deletion was not written", is_there, found)


def _told_of_who_is_dead(cores: Beside) -> list[ErrorCode]:
    """What a group whose tombstone is on its way tells everybody who asks."""
    core, now = copied(cores.core.classic), cores.now
    outcomes = (
        core.join(JoinGroup(GROUP, "consumer", (Protocol("range", b""),), client_id="client"), object(), now),
        core.sync(SyncGroup(GROUP, 0, "nobody"), object(), now),
        core.leave(LeaveGroup(GROUP, (Leaving("nobody"),)), object(), now),
    )
    told = [response.error for outcome in outcomes for _, response in outcome.responses]
    return [*told, core.heartbeat(Heartbeat(GROUP, 0, "nobody"), now)]


def _deletion_that_ends(cores: Beside, ruling: Ruling) -> Iterator[Change]:
    """Once its tombstone is committed there is no such group, and nobody is expected in it."""
    copy, told = copied(cores.core.classic), list[Asked]()
    copy.watch = lambda asked, group, came, token: told.append(asked)
    pending = [DeadlineKey(GROUP, Timer.SESSION, one) for one in cores.group.pending]
    copy.ending(("another group", *ruling.ended))
    copy.ended(("another group", *ruling.ended))
    left = copy.get(GROUP), [key for key in pending if copy.deadlines.get(key) is not None]
    if left != (None, []):
        yield Change("what is left of a group that was deleted", (None, []), left)
    if told != [End.ENDING, End.ENDED]:
        yield Change("what is told of a group that was deleted", [End.ENDING, End.ENDED], told)


def _not_deleted(cores: Beside) -> Iterator[Change]:
    """Of a group that has members no deletion is begun, and of one of which none is on its way none ends."""
    classic, group, told = cores.core.classic, cores.core.classic.get(GROUP), list[Asked]()
    before = None if group is None else group.state
    watch, classic.watch = classic.watch, lambda asked, group, came, token: told.append(asked)
    for end in (classic.ended, classic.kept, *([] if before is ClassicState.EMPTY else [classic.ending])):
        end((GROUP, "another group"))
    classic.watch = watch
    after = None if group is None else group.state
    if classic.get(GROUP) is not group or (after, told) != (before, []):
        yield Change("a group that nobody deletes", before, (classic.get(GROUP), after, told))


# --- a group that may have no more members ---------------------------------------------------------------------------


def ask_where_it_is_full(cores: Beside, state: State, request: spec.JoinRequest) -> None:
    """Who is one too many is refused, and no member or expected any more (`group.max.size`); one more is let in.

    While members join those count that have joined; a group without members has room for the first.
    """
    group = state.loaded
    member = group.member(request.member_id)
    most = len(group.members)
    is_let_in = group.status is Status.EMPTY or member is not None
    if group.status is Status.PREPARING_REBALANCE:
        most = sum(1 for one in group.members if one.waiting is Waiting.JOIN)
        is_let_in = member is not None and member.waiting is Waiting.JOIN
    for max_size in (most, most + 1):
        copy = copied(cores.core.classic)
        copy.limits = attrs.evolve(copy.limits, max_size=max_size)
        asked, token = cores.join_group(request, state.member_ids), object()
        told = dict(copy.join(asked, token, cores.now).responses).get(token)
        is_refused = told is not None and told.error is ErrorCode.group_max_size_reached
        assert is_refused is (max_size == most and not is_let_in), f"{told} is told where {max_size} may be members"
        if is_refused:
            expected = _excluded(cores, state, request.member_id).loaded
            found = abstract_group(copy.get(GROUP) or ClassicGroup(GROUP), cores.process_of)
            assert found == expected, f"{found} is left of a group without one too many, and not {expected}"
            key = DeadlineKey(GROUP, Timer.SESSION, cores.name_of(request.member_id))
            assert request.member_id == NONE or copy.deadlines.get(key) is None, "who was refused is expected"


def _excluded(cores: Beside, state: State, member_id: int) -> State:
    """The group without who was refused: a rebalance that has waited for it alone goes on."""
    if state.loaded.member(member_id) is not None:
        state = coordinating.left(cores.machine, state, member_id)
    pending = tuple(one for one in state.loaded.pending if one != member_id)
    state = evolve(state, group=evolve(state.loaded, pending=pending))
    return coordinating.completed_if_all_joined(cores.machine, state)


def refuses_what_is_no_group(cores: Beside) -> None:
    """A group has a name; one that nobody is in has no members; and one that was left before is in a later one."""
    classic, now, token = ClassicGroups(cores.core.classic.limits, cores.core.classic.rules), cores.now, object()
    protocols = (Protocol("range", b""),)
    for group, wanted in (("", ErrorCode.invalid_group_id), ("nobody's", ErrorCode.unknown_member_id)):
        outcomes = (
            classic.join(JoinGroup(group, "consumer", protocols, "member"), token, now),
            classic.join(JoinGroup(group, "consumer", (), "member"), token, now),
            classic.sync(SyncGroup(group, 0, "member"), token, now),
            classic.leave(LeaveGroup(group, (Leaving("member"),)), token, now),
        )
        told = [response for outcome in outcomes for _, response in outcome.responses]
        errors = (one.members[0].error if isinstance(one, LeaveResponse) and one.members else one.error for one in told)
        found = [*errors, classic.heartbeat(Heartbeat(group, 0, "member"), now)]
        assert found == [wanted] * len(found), f"{found} is told who asks for the group {group!r}"
        assert not classic.groups, f"who is refused leaves a group {group!r}"
    left = GroupMetadata("", 5, None, None, 0, ())
    classic.load(GROUP, left, now)
    assert classic.groups[GROUP].generation == left.generation, "a group that was left begins anew"


def load_where_it_is_too_large(cores: Beside) -> None:
    """A group that has more members than it may have rebalances when it is loaded; one that has as many is stable."""
    metadata = cores.core.offsets.metadata.get(GROUP)
    if metadata is None or not metadata.members:
        return
    size = len(metadata.members)
    for max_size, state in ((size, ClassicState.STABLE), (size - 1, ClassicState.PREPARING_REBALANCE)):
        groups = ClassicGroups(attrs.evolve(cores.core.classic.limits, max_size=max_size), cores.core.classic.rules)
        groups.load(GROUP, metadata, cores.now)
        found = groups.groups[GROUP].state
        assert found is state, f"a group of {size} is {found.value} where {max_size} may be members"


# --- what is not written ---------------------------------------------------------------------------------------------


def copied(classic: ClassicGroups) -> ClassicGroups:
    """A copy of the core, whose requests that wait are those of the original."""
    made = ClassicGroups(classic.limits, classic.rules)
    made.groups = {name: _copy_of(group) for name, group in classic.groups.items()}
    for group in classic:
        sessions = (DeadlineKey(group.group_id, Timer.SESSION, one) for one in (*group.members, *group.pending))
        for key in (DeadlineKey(group.group_id, Timer.JOIN), DeadlineKey(group.group_id, Timer.SYNC), *sessions):
            if (deadline := classic.deadlines.get(key)) is not None:
                made.deadlines.set(key, deadline)
    return made


def _copy_of(group: ClassicGroup) -> ClassicGroup:
    """With members and tables of its own; all else that a group and a member hold is never changed in place."""
    made = shallow(group)
    made.members = {name: shallow(member) for name, member in group.members.items()}
    for field in attrs.fields(ClassicGroup):
        if field.name != "members" and isinstance(table := getattr(group, field.name), dict):
            setattr(made, field.name, table.copy())
    return made


def _goes_over(cores: Beside) -> Iterator[Change]:
    """A group that becomes a consumer group, or never was in the log, is gone; one that comes back joins again."""
    held = {id(token) for one in cores.group.members.values() for token in (one.joining, one.syncing)} - {id(None)}
    now = cores.now
    for error in (ErrorCode.rebalance_in_progress, ErrorCode.coordinator_not_available):
        copy, told = copied(cores.core.classic), list[Asked]()
        copy.watch = lambda asked, group, came, token, told=told: told.append(asked)
        if (group := copy.get(GROUP)) is None:
            return
        is_over = error is ErrorCode.rebalance_in_progress
        outcome = copy.dissolve(group, now) if is_over else copy.abandon(GROUP, now)
        found = {id(token): response.error for token, response in outcome.responses}
        if found != dict.fromkeys(held, error):
            yield Change("who is told that the group goes over", dict.fromkeys(held, error), found)
        left = copy.get(GROUP), len(copy.deadlines), [type(one) for one in told]
        if left != (None, 0, [Dissolved]):
            yield Change("what is left of a group that goes over, and what is told", (None, 0, [Dissolved]), left)
        if again := copy.abandon(GROUP, now).responses:
            yield Change("who is told when it has gone", (), again)
        yield from _comes_back(copy, group, now)


def _comes_back(classic: ClassicGroups, group: ClassicGroup, now: Moment) -> Iterator[Change]:
    """All have to join again at once, with new sessions and what they have had; nobody else is expected."""
    members = [*group.members.values()]
    had = [one.assignment for one in members]
    classic.adopt(group, now, "it comes back")
    sessions = {one.member_id: now.timer_ms + one.session_timeout_ms for one in members}
    keys = {name: DeadlineKey(GROUP, Timer.SESSION, name) for name in sessions}
    found = {name: classic.deadlines.get(key) for name, key in keys.items()}
    longest = max((one.rebalance_timeout_ms for one in members), default=0)
    state = ClassicState.PREPARING_REBALANCE if members else group.state
    until = now.timer_ms + longest if members else None
    wanted: tuple[object, ...] = (sessions, until, state, None, {}, [], None, had)
    new = [one.member_id for one in group.members.values() if one.is_new]
    join, sync = (classic.deadlines.get(DeadlineKey(GROUP, timer)) for timer in (Timer.JOIN, Timer.SYNC))
    has = [one.assignment for one in group.members.values()]
    is_there = classic.get(GROUP) is group
    if (found, join, group.state, group.initial, group.pending, new, sync, has) != wanted or not is_there:
        yield Change("a group that comes back", wanted, (found, join, group))
    if members and is_there:
        group.leader = None  # as the log has it
        group.wait_to_join(members[-1], token := object())
        told = dict(classic.timed_out(DeadlineKey(GROUP, Timer.JOIN), now).responses).get(token)
        leads = [classic.groups[GROUP].leader, told.leader if isinstance(told, JoinResponse) else None]
        if leads != [members[-1].member_id] * 2:
            yield Change("who leads a group that nobody has led", members[-1].member_id, leads)


def _not_written(cores: Beside, state: State) -> Iterator[Change]:
    """What would come of the first record of the group that is on its way, if it never were in the log."""
    write = next((one for one in cores.appended if isinstance(one, GroupWrite)), None)
    if write is None:
        return
    copy = copied(cores.core.classic)
    expected, wanted = _without(cores, state, write)
    outcome = copy.failed(write, ERROR, cores.now)
    found = abstract_group(copy.get(GROUP) or ClassicGroup(GROUP), cores.process_of)
    if found != expected.loaded:
        yield Change(f"the group whose {write.purpose.value} is not written", expected.loaded, found)
    told = [(token, response.error) for token, response in outcome.responses]
    if told != wanted:
        yield Change(f"who is told that a {write.purpose.value} is not written", wanted, told)
    if len(outcome.writes) != len(expected.appended) - len(state.appended):
        yield Change("what is written then", expected.appended[len(state.appended) :], outcome.writes)
    for member in expected.loaded.members:
        key = DeadlineKey(GROUP, Timer.SESSION, cores.name_of(member.member_id))
        if (copy.deadlines.get(key) is not None) is not member.watched:
            yield Change(f"the session of {member.member_id} runs then", member.watched, copy.deadlines.get(key))
    if write.replacement is not None and write.replacement.member_id in cores.group.members:
        _gone(cores, write, write.replacement)
        yield from _told_to_who_is_replaced(cores, write, write.replacement)


def _gone(cores: Beside, write: GroupWrite, replacement: Replacement) -> None:
    """A static member that is replaced, and is gone before that is in the log, or never is, has had its response."""
    instance_id = replacement.old.instance_id
    leaving = LeaveGroup(GROUP, (Leaving(replacement.member_id, instance_id),))
    for is_written in (True, False):
        copy = copied(cores.core.classic)
        copy.leave(leaving, object(), cores.now)
        outcome = copy.written(write, cores.now) if is_written else copy.failed(write, ERROR, cores.now)
        told = [response for token, response in outcome.responses if token is replacement.token]
        known = copy.groups[GROUP].instances.get(instance_id or "")
        assert not told, f"{told} is told who has left"
        assert known is None, f"{known} has come back without joining"


def _told_to_who_is_replaced(cores: Beside, write: GroupWrite, replacement: Replacement) -> Iterator[Change]:
    """A client of before KIP-814 must not take itself for the leader: it is told of the former one, and of no members.

    So is one whose replacement is not in the log.
    """
    member = cores.group.members.get(replacement.member_id)
    if member is None or member.joining is not replacement.token or cores.group.state is not ClassicState.STABLE:
        return
    of_old = attrs.evolve(write, replacement=attrs.evolve(replacement, version=SKIP_ASSIGNMENT_FROM - 1))
    for is_written in (True, False):
        copy = copied(cores.core.classic)
        outcome = copy.written(of_old, cores.now) if is_written else copy.failed(of_old, ERROR, cores.now)
        (told,) = (response for token, response in outcome.responses if token is replacement.token)
        assert isinstance(told, JoinResponse), "it has asked to join"
        found = told.leader, told.skip_assignment, () if is_written else told.error
        wanted = replacement.old_leader, False, () if is_written else ERROR
        if found != wanted or (is_written and told.members):
            yield Change("what an old client is told that takes a static member's place", wanted, told)


def _without(cores: Beside, state: State, write: GroupWrite) -> tuple[State, list[tuple[object, ErrorCode]]]:
    """The group then, in the specification's own steps, and who is told: a rebalance begins, or a static member has
    its former id again. Who has left is told in any case.
    """
    group, left = state.loaded, [(token, ERROR) for token, _ in write.responses]
    entry = next(one for one in state.appended if isinstance(one.record, spec.GroupRecord))
    assert isinstance(entry.record, spec.GroupRecord), "it was found so"
    if write.purpose is Purpose.ASSIGNMENT and cores.machine.is_current(group, entry.record):
        told = [(one.syncing, ERROR) for one in cores.group.members.values() if one.syncing is not None]
        state = coordinating.all_responded(state, Waiting.SYNC, spec.Error.REBALANCE_IN_PROGRESS)
        state = evolve(state, group=state.loaded.unassigned())
        return coordinating.prepared(cores.machine, state), [*told, *left]
    member = group.member(entry.replacing)
    if write.replacement is None or member is None or (member.waiting, group.status) != (Waiting.JOIN, Status.STABLE):
        return state, left
    old = write.replacement.old
    former = evolve(
        member,
        member_id=number_of(old.member_id),
        protocols=tuple(int(one.name) for one in old.protocols),
        subscription=subscription(old.protocols[0].metadata),
        waiting=Waiting.NOTHING,
        connection=NONE,
        watched=True,
    )
    others = tuple(one for one in group.members if one is not member)
    leader = former.member_id if group.leader == member.member_id else group.leader
    group = evolve(group, members=(*others, former), leader=leader)
    return evolve(state, group=group), [(write.replacement.token, ERROR), *left]

"""Rules of classic groups asked alone, in states to which walks and small models seldom come."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.spec.groups.classic.coordinating import appended, completed, responded
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.processes import FetchOffsets, NoticePartitions, Resubscribe
from tidegauge.spec.groups.classic.requests import ReceiveCommit, ReceiveJoin
from tidegauge.spec.groups.classic.state import (
    NONE,
    CommitRequest,
    Entry,
    Error,
    Group,
    GroupRecord,
    Joined,
    JoinRequest,
    Member,
    Offset,
    OffsetRecord,
    Phase,
    Process,
    State,
    Status,
    Subscription,
    Synced,
    Waiting,
)
from tidegauge.spec.groups.classic.timing import CommitRecord, ExpireRebalance, ExpireSession, ExpireSync, Timeout
from tidegauge.spec.kernel.bounds import Bounds

MACHINE = ClassicGroups()
STATIC = ClassicGroups(instances=(0, 0), partitions=1)
TOPICS = Subscription((0,))


def initial(machine: ClassicGroups = MACHINE) -> State:
    return next(iter(machine.initial()))


def member(member_id: int, **fields: object) -> Member:
    return Member(member_id, subscription=TOPICS, **fields)  # type: ignore[arg-type]


# --- members ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("known", "generation", "partitions", "takes"), [(1, 4, 3, 1), (1, 3, 3, 3), (0, 4, 3, 3)])
def test_a_leader_shares_out_what_it_knew_when_it_first_led_the_generation(
    known: int, generation: int, partitions: int, takes: int
) -> None:
    process = Process(known=known, generation=4)
    assert MACHINE.known_on_joining(process, generation, partitions) == takes


def test_with_one_topic_nobody_has_anything_else_to_want() -> None:
    for topics, refused in ((1, True), (2, False)):
        machine = ClassicGroups(topics=topics, bounds=Bounds(Resubscribe=1))
        state = initial(machine).with_process(0, machine.started())
        assert bool(Resubscribe(0).guard(machine, state)) is refused


def test_a_coordinator_that_loads_tells_no_offsets_and_who_hangs_asks_for_none() -> None:
    machine = ClassicGroups(commits=1, partitions=1)
    process = attrs.evolve(machine.started(), phase=Phase.STABLE, owned=(0,))
    state = initial(machine).with_process(0, process)
    assert not FetchOffsets(0).guard(machine, state)
    assert FetchOffsets(0).guard(machine, attrs.evolve(state, group=None))
    assert FetchOffsets(0).guard(machine, state.with_process(0, attrs.evolve(process, hung=True)))


def test_a_member_asks_only_for_offsets_that_it_does_not_know() -> None:
    machine = ClassicGroups(commits=2)
    process = attrs.evolve(machine.started(), phase=Phase.STABLE, owned=(0, 1), positions=(NONE, 1))
    state = initial(machine).with_process(0, process)
    state = attrs.evolve(state, log=attrs.evolve(state.log, offsets=(Offset(2), Offset(2))))
    assert FetchOffsets(0).effect(machine, state).processes[0].positions == (2, 1)


def test_who_is_no_member_or_hangs_or_has_a_name_does_not_leave() -> None:
    process = attrs.evolve(MACHINE.started(), phase=Phase.STABLE, member_id=1)
    for changes, leaves in (({}, True), ({"member_id": NONE}, False), ({"hung": True}, False)):
        state = initial().with_process(0, attrs.evolve(process, **changes))
        assert (MACHINE.leave_request(state, 0) is not None) is leaves
        assert STATIC.leave_request(state, 0) is None


def test_a_member_that_knows_another_protocol_now_begins_a_rebalance() -> None:
    group = Group(Status.STABLE, 1, 0, 1, (member(1), member(2)))
    for member_id, protocols, begins in ((2, (0,), False), (2, (0, 1), True), (1, (0,), True)):
        known = group.member(member_id)
        assert known is not None
        assert MACHINE.rejoining_rebalances(group, known, protocols, TOPICS) is begins


@pytest.mark.parametrize(
    ("cooperative", "changes", "kept"),
    [
        (True, {}, (0, 2)),
        (False, {}, ()),
        (True, {"member_id": NONE}, ()),
        (True, {"generation": NONE}, ()),
        (True, {"topics": (1,)}, ()),
    ],
)
def test_who_is_no_member_any_more_has_lost_what_it_owned(
    changes: dict[str, object], kept: tuple[int, ...], *, cooperative: bool
) -> None:
    process = Process(member_id=1, generation=3, topics=(0,), owned=(0, 2))
    machine = ClassicGroups(cooperative=cooperative, topics=2)
    assert machine.kept_on_joining(attrs.evolve(process, **changes)) == kept  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "notices"), [({}, True), ({"rejoin": True}, False), ({"hung": True}, False), ({"known": 2}, False)]
)
def test_a_leader_that_joins_again_anyway_notices_nothing(changes: dict[str, object], *, notices: bool) -> None:
    process = attrs.evolve(Process(Phase.STABLE, leads=True, known=1), **changes)  # type: ignore[arg-type]
    state = initial().with_process(0, process)
    assert bool(NoticePartitions(0).guard(MACHINE, state)) is not notices
    if notices:
        assert NoticePartitions(0).effect(MACHINE, state).processes[0] == attrs.evolve(process, rejoin=True)


def test_who_alone_wants_a_partition_keeps_it_before_others_get_what_is_left() -> None:
    """Of six partitions two are a fair part; member 1 alone wants the three of topic 0, which it has."""
    machine = ClassicGroups(processes=3, partitions=6, topics=2, cooperative=True)
    says = ((1, Subscription((0, 1), (0, 2, 4), 3)), (2, Subscription((1,), (3, 5), 3)), (3, Subscription((), (), 3)))
    assert machine.target(says, 6) == {1: [0, 2, 4], 2: [3, 5, 1], 3: []}


def test_a_request_that_nobody_has_sent_is_not_tried() -> None:
    request = JoinRequest(0, NONE, TOPICS)
    for sent, is_tried in ((request, True), (JoinRequest(1, NONE, TOPICS), False)):
        state = attrs.evolve(initial(), late=attrs.evolve(initial().late, joins=(sent,)))
        assert (ReceiveJoin(request, late=True).tried(MACHINE, state) is not None) is is_tried


# --- static members --------------------------------------------------------------------------------------------------


def replacing(machine: ClassicGroups, status: Status, *, waiting: Waiting = Waiting.NOTHING) -> State:
    """The next process of the only member has asked to join: process 1 of member 0, whose id is to be 1."""
    protocol = NONE if status is Status.PREPARING_REBALANCE else 0
    former = member(0, instance=0, partitions=(0,), waiting=waiting)
    group = Group(status, 3, protocol, 0, (former, member(7)))
    state = attrs.evolve(initial(machine), group=group, member_ids=1).with_process(1, machine.started())
    request = machine.join_request(state, 1)
    assert request is not None
    return machine.step(state, ReceiveJoin(request))


def test_the_next_process_of_a_static_member_is_told_when_its_record_is_committed() -> None:
    machine = attrs.evolve(STATIC, bounds=Bounds(FailOver=1))
    asked = replacing(machine, Status.STABLE)
    (entry,) = asked.appended
    assert entry.replacing == 1
    assert [one.member_id for one in asked.loaded.members] == [7, 1]
    assert asked.processes[1].response is None
    told = machine.step(asked, CommitRecord())
    assert told.processes[1].response == Joined(1, 3, 0, 1)
    assert replacing(STATIC, Status.STABLE).processes[1].response == Joined(1, 3, 0, 1)


class TellsAtOnce(ClassicGroups):
    """A coordinator without a record of the next process (KAFKA-10284)."""

    def persists_replacement(self) -> bool:
        return False


def test_without_a_record_the_next_process_is_told_at_once() -> None:
    asked = replacing(TellsAtOnce(instances=(0, 0), bounds=Bounds(FailOver=1)), Status.STABLE)
    assert asked.processes[1].response == Joined(1, 3, 0, 1)
    assert not asked.appended


class GoesOn(ClassicGroups):
    """A coordinator that begins no rebalance for the next process (KAFKA-9801)."""

    def replacing_rebalances(self, group: Group) -> bool:
        return False


def test_without_a_rebalance_the_next_process_joins_a_generation_that_is_being_shared_out() -> None:
    asked = replacing(GoesOn(instances=(0, 0), bounds=Bounds(FailOver=1)), Status.COMPLETING_REBALANCE)
    response = asked.processes[1].response
    assert isinstance(response, Joined)
    assert (response.member_id, response.generation, len(response.members)) == (1, 3, 2)
    assert not asked.appended


@pytest.mark.parametrize(
    ("waiting", "status", "is_told"),
    [
        (Waiting.JOIN, Status.STABLE, True),
        (Waiting.NOTHING, Status.STABLE, False),
        (Waiting.JOIN, Status.PREPARING_REBALANCE, False),
    ],
)
def test_who_has_joined_again_meanwhile_is_not_told_of_its_record(
    waiting: Waiting, status: Status, *, is_told: bool
) -> None:
    machine = attrs.evolve(STATIC, bounds=Bounds(FailOver=1))
    asked = replacing(machine, Status.STABLE)
    group = attrs.evolve(asked.loaded, status=status)
    now = group.member(1)
    assert now is not None
    group = group.with_member(attrs.evolve(now, waiting=waiting))
    told = machine.step(attrs.evolve(asked, group=group), CommitRecord())
    assert (told.processes[1].response is not None) is is_told


# --- time-outs -------------------------------------------------------------------------------------------------------


def hanging(status: Status, phase: Phase) -> State:
    """Process 0 goes on under member id 1; process 1 hangs in this phase, under 2, and is late with a request."""
    joined, late = member(1, waiting=Waiting.JOIN, connection=0), member(2, unsynced=True)
    if status is not Status.PREPARING_REBALANCE:
        joined = member(1)
    goes_on = attrs.evolve(MACHINE.started(), phase=Phase.JOINING, member_id=1)
    hangs = attrs.evolve(MACHINE.started(), phase=phase, member_id=2, generation=3, hung=True)
    group = Group(status, 3, 0, 1, (joined, late))
    return attrs.evolve(initial(), group=group).with_process(0, goes_on).with_process(1, hangs)


@pytest.mark.parametrize(
    ("action", "status"), [(ExpireRebalance(), Status.PREPARING_REBALANCE), (ExpireSync(), Status.STABLE)]
)
@pytest.mark.parametrize("phase", [Phase.JOINED, Phase.SYNCING, Phase.STABLE, Phase.JOINING])
def test_who_hangs_is_late_in_every_model(action: Timeout, status: Status, phase: Phase) -> None:
    """Nobody who goes on is removed, so it is no perturbation, and none is counted."""
    machine, before = ClassicGroups(bounds=Bounds({type(action).__name__: 1})), hanging(status, phase)
    assert not action.guard(MACHINE, before)
    after = machine.step(before, action)
    assert after.loaded.member(2) is None
    assert after.spent == before.spent


@pytest.mark.parametrize("phase", [Phase.JOINED, Phase.SYNCING, Phase.STABLE, Phase.JOINING])
def test_heartbeats_of_who_hangs_keep_its_session(phase: Phase) -> None:
    """To end it is a perturbation; of who has to join nobody beats."""
    machine, before = ClassicGroups(bounds=Bounds(ExpireSession=1)), hanging(Status.STABLE, phase)
    beats = phase is not Phase.JOINING
    assert bool(ExpireSession(2).guard(MACHINE, before)) is beats
    assert (machine.step(before, ExpireSession(2)).spent != before.spent) is beats


@pytest.mark.parametrize(
    ("fields", "may"),
    [
        ({}, True),
        ({"watched": False}, False),
        ({"waiting": Waiting.SYNC}, False),
        ({"waiting": Waiting.JOIN}, False),
        ({"waiting": Waiting.JOIN, "is_new": True}, True),
    ],
)
def test_the_session_of_who_waits_for_others_does_not_end_unless_it_is_new(
    fields: dict[str, object], *, may: bool
) -> None:
    assert MACHINE.may_expire_session(member(1, **fields)) is may


def test_only_where_the_coordinator_waits_in_vain_somebody_is_late_for_its_assignment() -> None:
    for unsynced in (True, False):
        group = Group(Status.STABLE, members=(member(1), member(2, unsynced=unsynced)))
        assert MACHINE.may_expire_sync(group) is unsynced
        assert not MACHINE.may_expire_sync(attrs.evolve(group, status=Status.PREPARING_REBALANCE))
        assert not ClassicGroups(sync_timeout=False).may_expire_sync(group)


# --- the coordinator -------------------------------------------------------------------------------------------------


def test_who_has_its_assignment_is_watched_from_then_on() -> None:
    for waiting, watched in ((Waiting.SYNC, True), (Waiting.JOIN, False)):
        group = Group(Status.STABLE, 1, 0, 1, (member(1, waiting=waiting, connection=0, watched=False),))
        after = responded(attrs.evolve(initial(), group=group), 1, Synced(()))
        assert after.loaded.members == (member(1, watched=watched),)


class IsSilent(ClassicGroups):
    """A coordinator that has no words for some members (KAFKA-14422)."""

    def has_response(self, group: Group, member: Member) -> bool:
        return member.member_id == 1


def test_a_generation_begins_without_a_response_for_whom_the_coordinator_has_no_words() -> None:
    machine = IsSilent()
    members = (member(1, waiting=Waiting.JOIN, connection=0), member(2, waiting=Waiting.JOIN, connection=1))
    state = attrs.evolve(initial(machine), group=Group(Status.PREPARING_REBALANCE, 1, leader=1, members=members))
    after = completed(machine, state)
    assert [one.response is None for one in after.processes] == [False, True]
    assert [one.waiting for one in after.loaded.members] == [Waiting.NOTHING, Waiting.JOIN]


def test_the_protocol_is_what_most_prefer_of_those_that_all_know() -> None:
    def selected(*of_members: tuple[int, ...]) -> int:
        members = [member(number, protocols=protocols) for number, protocols in enumerate(of_members)]
        return MACHINE.selected_protocol(members)

    assert selected((0, 1), (1, 0), (1, 0)) == 1
    assert selected((0, 1), (1, 0)) == 0
    assert selected((2, 0, 1), (1, 0), (0, 1)) == 0
    assert selected((2, 1), (2, 1), (1,)) == 1


def test_any_protocol_will_do_where_nobody_is() -> None:
    assert MACHINE.has_protocol(Group(), (4,))
    one = Group(members=(member(1, protocols=(1, 2)), member(2, protocols=(2, 3))))
    assert [MACHINE.has_protocol(one, (protocol,)) for protocol in (1, 2, 3)] == [False, True, False]
    assert MACHINE.has_protocol(one, (4, 2))


class TellsTooSoon(ClassicGroups):
    """A coordinator that does not wait until a commit is committed."""

    def tells_when_committed(self) -> bool:
        return False


def test_only_of_offsets_somebody_is_told_too_soon() -> None:
    machine = TellsTooSoon(bounds=Bounds(FailOver=1))
    assert appended(machine, initial(machine), Entry(OffsetRecord(1, Offset(4)))).told == (0, 4)
    assert appended(machine, initial(machine), Entry(GroupRecord(1))).told == (0, 0)
    assert appended(ClassicGroups(bounds=Bounds(FailOver=1)), initial(), Entry(OffsetRecord(1, Offset(4)))).told == (
        0,
        0,
    )


@pytest.mark.parametrize(
    ("group", "logged", "error"),
    [
        (Group(), (), Error.ILLEGAL_GENERATION),
        (Group(generation=1), (), Error.UNKNOWN_MEMBER_ID),
        (Group(), (GroupRecord(1),), Error.UNKNOWN_MEMBER_ID),
        (Group(Status.STABLE, 1, 0, 1, (member(1),)), (), Error.NONE),
    ],
)
def test_who_commits_in_a_group_that_never_was_is_told_of_its_generation(
    group: Group, logged: tuple[GroupRecord, ...], error: Error
) -> None:
    machine = ClassicGroups(commits=1)
    state = initial(machine)
    state = attrs.evolve(state, group=group, log=attrs.evolve(state.log, groups=logged))
    assert ReceiveCommit(CommitRequest(0, 1, 1, 0, 1), late=True).outcome(machine, state)[0] is error


def test_an_assignment_that_is_appended_is_no_commit_on_its_way() -> None:
    machine = ClassicGroups(commits=1, partitions=1, bounds=Bounds(FailOver=1))
    process = attrs.evolve(machine.started(), phase=Phase.STABLE, owned=(0,))
    state = attrs.evolve(initial(machine), appended=(Entry(GroupRecord(1)),)).with_process(0, process)
    assert not FetchOffsets(0).guard(machine, state)

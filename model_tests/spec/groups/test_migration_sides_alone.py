"""Rules of members that speak the classic protocol asked alone, in classic groups and in consumer groups."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.spec.groups.consumer.classic_group import ClassicGroup, ClassicMember, Stage, Standing
from tidegauge.spec.groups.consumer.state import (
    JOINING_EPOCH,
    NONE,
    Entry,
    Error,
    Group,
    HeartbeatRequest,
    Member,
    Phase,
    Process,
    Response,
    State,
)
from tidegauge.spec.groups.migration.classic_side import join, replace, sync, take_effect
from tidegauge.spec.groups.migration.machine import GroupMigration
from tidegauge.spec.groups.migration.requests import ReceiveSync
from tidegauge.spec.groups.migration.timing import EndJoining
from tidegauge.spec.kernel.bounds import Bounds

MACHINE = GroupMigration(processes=2, classic=(True, True), instances=(0, 1), bounds=Bounds(FailOver=1))
"""Records are committed in a step of their own."""
STABLE = ClassicGroup(
    Standing.STABLE, 5, (ClassicMember(1, assigned=(0,), instance=0), ClassicMember(2, instance=1)), 1
)
COMPLETING = ClassicGroup(Standing.COMPLETING, 5, (ClassicMember(1), ClassicMember(2)), 1)


def state_of(classic: ClassicGroup | None, *processes: Process, **changes: Any) -> State:
    state = next(iter(MACHINE.initial()))
    for number, process in enumerate(processes):
        state = state.with_process(number, process)
    return attrs.evolve(state, classic=classic, **changes)


def process(member_id: int = 1, **changes: Any) -> Process:
    """One of the classic protocol in generation 5."""
    return attrs.evolve(Process(Phase.UP, member_id, 5, classic=True, stage=Stage.JOINED), **changes)


# --- in a classic group ----------------------------------------------------------------------------------------------


def test_the_next_process_of_a_static_member_claims_what_it_says_and_has_its_part() -> None:
    request = HeartbeatRequest(0, 7, JOINING_EPOCH, topics=(0,), owned=(0,), full=True, classic=True)
    after = replace(MACHINE, state_of(STABLE), request, STABLE.members[0]).classic
    assert after is not None
    found = after.member(7)
    assert found is not None
    assert (found.claims, found.assigned, found.said, found.joined) == ((0,), (0,), NONE, True)
    assert (after.leader, after.member(1)) == (7, None)


def test_who_joins_claims_what_it_says() -> None:
    request = HeartbeatRequest(0, 1, JOINING_EPOCH, topics=(0,), owned=(0,), classic=True, generation=4)
    after = join(MACHINE, state_of(attrs.evolve(STABLE, standing=Standing.PREPARING)), request).classic
    assert after is not None
    assert after.member(1) == ClassicMember(1, (0,), (0,), True, False, (0,), 0, 4)


@pytest.mark.parametrize(("member_id", "is_storing", "writes"), [(1, False, True), (1, True, False), (2, False, False)])
def test_the_leaders_assignment_is_written_once(member_id: int, *, is_storing: bool, writes: bool) -> None:
    before = state_of(attrs.evolve(COMPLETING, is_storing=is_storing), process(member_id))
    after = sync(MACHINE, before, 0)
    assert [entry.assigns for entry in after.appended] == [True] * writes
    assert after.classic is not None
    assert after.classic.is_storing is (is_storing or writes)
    assert after.processes[0].waiting


STORED = Entry(classic=ClassicGroup(Standing.STABLE, 5, (ClassicMember(1, assigned=(0,)),), 1), assigns=True)
STORING = attrs.evolve(COMPLETING, is_storing=True, members=(ClassicMember(1, syncing=True), ClassicMember(2)))


@pytest.mark.parametrize(
    ("group", "asked", "is_told"),
    [
        (STORING, process(waiting=True), True),
        (STORING, process(waiting=False), False),
        (STORING, process(2, waiting=True), False),
        (STORING, process(3, waiting=True), False),
        (attrs.evolve(STORING, members=(ClassicMember(1), ClassicMember(2))), process(waiting=True), False),
        (attrs.evolve(STORING, members=(ClassicMember(2, syncing=True),)), process(2, waiting=True), False),
        (attrs.evolve(STORING, members=(ClassicMember(2, syncing=True),)), process(waiting=True), False),
        (attrs.evolve(STORING, is_storing=False), process(waiting=True), None),
        (attrs.evolve(STORING, generation=6), process(waiting=True), None),
        (None, process(waiting=True), None),
    ],
)
def test_who_waits_for_its_assignment_is_told_it_when_that_is_in_the_log(
    group: ClassicGroup | None, asked: Process, *, is_told: bool | None
) -> None:
    """`is_told` is None where the group has gone on, and nothing happens."""
    before = state_of(group, asked)
    after = take_effect(MACHINE, before, STORED)
    if is_told is None:
        assert after == before
        return
    assert after.classic == STORED.classic
    assert (after.processes[0].stage is Stage.IN) is is_told
    assert after.processes[0].assigned == ((0,) if is_told else None)


@pytest.mark.parametrize(
    ("is_loading", "standing", "may"),
    [(False, Standing.PREPARING, True), (True, Standing.PREPARING, False), (False, Standing.STABLE, False)],
)
def test_the_time_to_join_ends_while_a_loaded_group_prepares(
    standing: Standing, *, is_loading: bool, may: bool
) -> None:
    members = (ClassicMember(1, joined=True), ClassicMember(2, joined=True))
    group = ClassicGroup(standing, 5, members, 1, is_first=True)
    state = state_of(group, **({"group": None} if is_loading else {}))
    assert (EndJoining().guard(MACHINE, state) == "") is may


# --- in a consumer group ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "others", "left"), [((0, 1), (), (0, 1)), ((0, 1), (1,), (0,)), ((0,), (0,), ()), ((), (1,), ())]
)
def test_what_a_member_owned_it_may_own_still_if_nobody_was_given_it(
    claims: tuple[int, ...], others: tuple[int, ...], left: tuple[int, ...]
) -> None:
    member = ClassicMember(1, claims=claims)
    group = ClassicGroup(Standing.STABLE, 5, (member, ClassicMember(2, assigned=others)), 1)
    assert MACHINE.left_over(group, member) == left
    upgraded = MACHINE.upgraded(group, Group()).member(1)
    assert upgraded is not None
    assert upgraded.revoking == tuple((partition, 5) for partition in left)


@pytest.mark.parametrize(
    ("member", "rejoins", "syncs"),
    [
        (Member(1, epoch=5), False, True),
        (Member(1, epoch=4), True, False),
        (Member(1, epoch=5, revoking=((0, 4),)), True, True),
        (Member(1, epoch=4, revoking=((0, 4),)), True, True),
    ],
)
def test_a_member_that_has_to_give_back_joins_again_and_is_told_what_it_has(
    member: Member, *, rejoins: bool, syncs: bool
) -> None:
    group = Group(epoch=5, target_epoch=5, members=(attrs.evolve(member, classic=True),))
    assert MACHINE.must_rejoin(group, member) is rejoins
    assert MACHINE.may_sync(group, member) is syncs


def test_a_member_joins_again_when_something_is_free_that_is_its_part() -> None:
    member, other = Member(1, epoch=5, classic=True), Member(2, epoch=5, assigned=((0, 5),))
    group = Group(epoch=5, target_epoch=5, target=((1, (0,)), (2, ())), members=(member, other))
    assert not MACHINE.must_rejoin(group, member)
    assert MACHINE.must_rejoin(group.without(2), member)


@pytest.mark.parametrize(
    ("changes", "asks"),
    [
        ({}, True),
        ({"phase": Phase.DOWN}, False),
        ({"waiting": True}, False),
        ({"assigned": (0,)}, False),
        ({"stage": Stage.IN}, False),
        ({"stage": Stage.JOINED}, False),
    ],
)
def test_a_process_outside_of_a_generation_asks_to_join_when_it_has_nothing_else_to_do(
    changes: dict[str, Any], *, asks: bool
) -> None:
    state = state_of(STABLE, attrs.evolve(process(stage=Stage.OUTSIDE), **changes))
    assert (MACHINE.heartbeat_request(state, 0) is not None) is asks


@pytest.mark.parametrize(("epoch", "stage", "assigned"), [(JOINING_EPOCH, Stage.JOINED, None), (5, Stage.IN, (0, 1))])
def test_who_has_joined_asks_for_its_assignment_and_who_has_asked_has_it(
    epoch: int, stage: Stage, assigned: tuple[int, ...] | None
) -> None:
    request = HeartbeatRequest(0, 1, epoch, classic=True)
    after = MACHINE.after_response(process(epoch=4), request, Response(5, (0, 1)))
    assert (after.stage, after.assigned) == (stage, assigned)
    nothing = MACHINE.after_response(process(owned=(0,)), HeartbeatRequest(0, 1, 5, classic=True), Response(5))
    assert nothing.assigned == ()


@pytest.mark.parametrize(
    ("static", "generation", "owned"), [(True, 6, (0,)), (True, 7, ()), (False, 7, (0,)), (False, 6, (0,))]
)
def test_a_static_process_that_has_missed_a_generation_has_lost_what_it_owned(
    generation: int, owned: tuple[int, ...], *, static: bool
) -> None:
    assert MACHINE.after_generation(process(static=static, owned=(0,)), generation).owned == owned


@pytest.mark.parametrize(("classic", "stage"), [(True, Stage.OUTSIDE), (False, Stage.IN)])
def test_a_classic_process_that_has_given_back_joins_again(stage: Stage, *, classic: bool) -> None:
    giving = process(classic=classic, stage=Stage.IN, owned=(0, 1), assigned=(0,))
    after = MACHINE.after_giving_back(giving)
    assert (after.owned, after.stage) == ((0,), stage)


class TellsAtOnce(GroupMigration):
    """Tells an assignment that is not in the log yet."""

    def tells_when_committed(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("machine", "is_pending", "is_told"),
    [(MACHINE, False, True), (MACHINE, True, False), (TellsAtOnce(), True, True), (TellsAtOnce(), False, True)],
)
def test_an_assignment_is_told_when_all_that_was_written_is_committed(
    machine: GroupMigration, *, is_pending: bool, is_told: bool
) -> None:
    member = Member(1, epoch=5, assigned=((0, 5),), classic=True)
    group = Group(epoch=5, target_epoch=5, members=(member,))
    before = state_of(None, process(), group=group, appended=(Entry(group=group),) * is_pending)
    after = ReceiveSync(0).taken(machine, before)
    assert (after.processes[0].stage is Stage.IN) is is_told
    assert len(after.appended) == is_pending + (not is_told)


@pytest.mark.parametrize(("instance", "error"), [(NONE, Error.NONE), (0, Error.FENCED_INSTANCE_ID), (1, Error.NONE)])
def test_a_member_is_who_has_its_instance_id(instance: int, error: Error) -> None:
    group = Group(epoch=5, members=(Member(1, instance=1, epoch=5, classic=True), Member(2, instance=0, classic=True)))
    assert MACHINE.side_error(group, instance, 1, classic=True) is error
    assert MACHINE.side_error(group, instance, 1, classic=False) is (error or Error.UNKNOWN_MEMBER_ID)

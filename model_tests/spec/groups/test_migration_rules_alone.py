"""Rules of groups that go over asked alone, in states to which walks and small models seldom come."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.spec.groups.consumer.classic_group import ClassicGroup, ClassicMember, Standing
from tidegauge.spec.groups.consumer.requests import ReceiveCommit
from tidegauge.spec.groups.consumer.state import (
    JOINING_EPOCH,
    NONE,
    CommitRequest,
    Entry,
    Error,
    Group,
    HeartbeatRequest,
    Member,
)
from tidegauge.spec.groups.migration.classic_side import told_replaced
from tidegauge.spec.groups.migration.machine import GroupMigration
from tidegauge.spec.groups.migration.properties import owners_commit
from tidegauge.spec.groups.migration.rules import Policy
from tidegauge.spec.groups.migration.timing import EndJoining
from tidegauge.spec.kernel.bounds import Bounds

MACHINE = GroupMigration(processes=2, classic=(True, True), instances=(0, 1), bounds=Bounds(StartOver=1))


@pytest.mark.parametrize(
    ("instance", "said", "claims"), [(0, 4, (0,)), (0, 3, ()), (0, 5, ()), (0, 6, ()), (NONE, 3, (0,)), (NONE, 4, (0,))]
)
def test_a_static_member_that_has_missed_a_generation_owns_nothing(
    instance: int, said: int, claims: tuple[int, ...]
) -> None:
    member = ClassicMember(1, claims=(0,), instance=instance, said=said)
    assert MACHINE.claims(ClassicGroup(Standing.COMPLETING, generation=5), member) == claims


@pytest.mark.parametrize(
    ("member", "owned", "error"),
    [
        (Member(1, assigned=((0, 1),)), (0,), Error.NONE),
        (Member(1, revoking=((0, 1),)), (0,), Error.NONE),
        (Member(1, assigned=((0, 1),)), (0, 1), Error.UNKNOWN_MEMBER_ID),
        (Member(1, assigned=((0, 1),)), None, Error.NONE),
        (None, (), Error.NONE),
        (None, None, Error.NONE),
        (None, (0,), Error.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_says_that_it_owns_what_it_has_not_is_no_member(
    member: Member | None, owned: tuple[int, ...] | None, error: Error
) -> None:
    assert MACHINE.claims_error(member, HeartbeatRequest(0, 1, JOINING_EPOCH, owned=owned, classic=True)) is error


def test_the_generation_of_a_classic_member_is_its_epoch() -> None:
    group = Group(epoch=4, members=(Member(1, epoch=3, classic=True), Member(2, epoch=4)))
    errors = [MACHINE.generation_error(group, NONE, 1, generation) for generation in (2, 3, 4)]
    assert errors == [Error.ILLEGAL_GENERATION, Error.NONE, Error.ILLEGAL_GENERATION]
    assert MACHINE.generation_error(group, NONE, 2, 4) is Error.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("instance", "full", "is_taken"), [(NONE, False, True), (NONE, True, True), (0, True, True), (0, False, False)]
)
def test_who_joins_anew_need_not_be_known(instance: int, *, full: bool, is_taken: bool) -> None:
    request = HeartbeatRequest(0, 7, JOINING_EPOCH, owned=(), full=full, classic=True)
    assert (MACHINE.heartbeat_error(Group(), instance, request) is Error.NONE) is is_taken


def test_only_members_of_the_consumer_protocol_have_a_time_for_giving_back() -> None:
    member = Member(1, revoking=((0, 1),))
    assert MACHINE.may_expire_rebalance(member)
    assert not MACHINE.may_expire_rebalance(attrs.evolve(member, classic=True))
    assert not MACHINE.may_expire_rebalance(Member(1))


@pytest.mark.parametrize(
    ("members", "leader", "goes_on"), [((3, 4), -1, True), ((0, 4), 0, False), ((3, 4), 3, False), ((), -1, False)]
)
def test_a_new_coordinator_rebalances_a_generation_that_nobody_has_led(
    members: tuple[int, ...], leader: int, *, goes_on: bool
) -> None:
    group = ClassicGroup(Standing.STABLE, 5, tuple(map(ClassicMember, members)), leader)
    after = MACHINE.taken_over(group)
    expected = attrs.evolve(group, standing=Standing.PREPARING, leader=members[0]) if goes_on else group
    assert after == expected


@pytest.mark.parametrize(
    ("instances", "starts_over", "policy", "wanted"),
    [
        ((0, 1), 1, Policy.BIDIRECTIONAL, True),
        ((), 1, Policy.BIDIRECTIONAL, False),
        ((0, 1), 0, Policy.BIDIRECTIONAL, False),
        ((0, 1), 1, Policy.UPGRADE, False),
    ],
)
def test_a_next_process_by_the_other_protocol_is_a_goal_where_constants_let_it_come(
    instances: tuple[int, ...], starts_over: int, policy: Policy, *, wanted: bool
) -> None:
    machine = attrs.evolve(MACHINE, instances=instances, policy=policy, bounds=Bounds(StartOver=starts_over))
    goal = "the next process of a static member has its part by the other protocol"
    assert (goal in machine.sometimes) is wanted


@pytest.mark.parametrize(
    ("group", "waiting", "process_id", "goes_on"),
    [
        (ClassicGroup(Standing.STABLE, 5, (ClassicMember(1, joined=True, instance=0),), 1), True, 1, True),
        (ClassicGroup(Standing.STABLE, 5, (ClassicMember(1, joined=True, instance=0),), 1), False, 1, False),
        (ClassicGroup(Standing.STABLE, 5, (ClassicMember(1, joined=True, instance=0),), 1), True, 2, False),
        (ClassicGroup(Standing.STABLE, 5, (ClassicMember(1, instance=0),), 1), True, 1, None),
        (ClassicGroup(Standing.PREPARING, 5, (ClassicMember(1, joined=True, instance=0),), 1), True, 1, None),
        (ClassicGroup(Standing.STABLE, 5, (ClassicMember(2, joined=True, instance=0),), 1), True, 1, None),
        (None, True, 1, None),
    ],
)
def test_the_next_process_of_a_static_member_goes_on_in_a_stable_generation(
    group: ClassicGroup | None, process_id: int, *, waiting: bool, goes_on: bool | None
) -> None:
    """`goes_on` is None where nothing happens at all."""
    before = attrs.evolve(next(iter(MACHINE.initial())), classic=group)
    process = attrs.evolve(before.processes[0], member_id=process_id, waiting=waiting, classic=True, static=True)
    before = before.with_process(0, process)
    after = told_replaced(MACHINE, before, 1)
    if goes_on is None:
        assert after == before
        return
    assert after.classic is not None
    assert after.classic.members == (ClassicMember(1, instance=0),)
    assert after.processes[0] == (MACHINE.after_generation(process, 5) if goes_on else process)


def test_a_commit_that_is_taken_is_the_owners() -> None:
    state = next(iter(MACHINE.initial()))
    owner = Member(1, epoch=3, previous_epoch=3, assigned=((0, 3),))
    before = attrs.evolve(state, group=Group(epoch=3, members=(owner, Member(2, epoch=3))))
    taken = attrs.evolve(before, appended=(Entry(),))
    in_classic = attrs.evolve(before, classic=ClassicGroup())
    for member_id, holds in ((1, True), (2, False)):
        commit = ReceiveCommit(CommitRequest(0, member_id, 3, 0, 1))
        assert owners_commit(before, commit, taken) is holds
        assert owners_commit(before, commit, before)
        assert owners_commit(in_classic, commit, taken)
        assert owners_commit(before, EndJoining(), taken)

"""Properties of groups that go over are false of states in which what they forbid has happened; goals alike."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.spec.groups.consumer.actions import LOG, MEMORY, PLACES
from tidegauge.spec.groups.consumer.classic_group import ClassicGroup, ClassicMember, Stage, Standing
from tidegauge.spec.groups.consumer.state import (
    JOINING_EPOCH,
    STATIC_LEAVING_EPOCH,
    Entry,
    Group,
    Log,
    Member,
    Phase,
    Process,
    State,
)
from tidegauge.spec.groups.consumer.timing import FailOver
from tidegauge.spec.groups.migration.machine import GroupMigration
from tidegauge.spec.groups.migration.properties import classic_groups_at, replacements
from tidegauge.spec.groups.migration.rules import Policy
from tidegauge.spec.groups.migration.timing import EndJoining
from tidegauge.spec.kernel.bounds import Bounds

MACHINE = GroupMigration(processes=2, classic=(True, False), instances=(0, 1))
ACTION = EndJoining()


def state_of(**changes: Any) -> State:
    return attrs.evolve(next(iter(MACHINE.initial())), **changes)


def with_processes(*processes: Process, **changes: Any) -> State:
    return state_of(processes=processes, **changes)


def group_of(*members: Member, epoch: int = 5, **changes: Any) -> Group:
    return Group(epoch=epoch, target_epoch=epoch, members=members, **changes)


def classic_of(*members: ClassicMember, generation: int = 5, standing: Standing = Standing.STABLE) -> ClassicGroup:
    return ClassicGroup(standing, generation, members, members[0].member_id if members else -1)


def test_a_classic_group_is_in_the_log_in_memory_and_in_each_batch_that_is_not_committed() -> None:
    groups = [classic_of(generation=number) for number in range(9)]
    entries = tuple(Entry(classic=one) for one in groups[2:])
    state = state_of(log=Log(classic=groups[0]), classic=groups[1], appended=entries)
    assert [[one.generation for one in classic_groups_at(place, state)] for place in PLACES] == [
        [0], [1], [2], [3], [4], [5], [6, 7, 8]
    ]  # fmt: skip
    assert [list(classic_groups_at(place, state_of())) for place in (LOG, MEMORY)] == [[], []]


@pytest.mark.parametrize(
    ("epoch", "member_id", "stage", "classic", "is_classic", "holds"),
    [
        (5, 1, Stage.IN, True, False, True),
        (6, 1, Stage.IN, True, False, False),
        (6, 1, Stage.JOINED, True, False, True),
        (6, 1, Stage.OUTSIDE, False, False, False),
        (6, 1, Stage.IN, True, True, True),
        (6, 2, Stage.IN, True, False, True),
    ],
)
def test_no_process_is_ahead_of_its_member(
    epoch: int, member_id: int, stage: Stage, *, classic: bool, is_classic: bool, holds: bool
) -> None:
    process = Process(Phase.UP, member_id, epoch, classic=classic, stage=stage)
    state = with_processes(process, Process(), group=group_of(Member(1, epoch=5)))
    state = attrs.evolve(state, classic=classic_of() if is_classic else None)
    assert MACHINE.invariants["ToldEpochsAreTheMembers"](state) is holds


CLASSIC, CONSUMER = ClassicMember(1), Member(1, epoch=5, classic=True)


@pytest.mark.parametrize(
    ("policy", "before", "after", "holds"),
    [
        (Policy.UPGRADE, (CLASSIC,), (CONSUMER,), True),
        (Policy.UPGRADE, (CLASSIC,), (Member(2),), False),
        (Policy.DOWNGRADE, (CLASSIC,), (CONSUMER,), False),
        (Policy.DISABLED, (), (CONSUMER,), True),
        (Policy.BIDIRECTIONAL, (ClassicMember(1, instance=0),), (Member(7, instance=0),), True),
        (Policy.BIDIRECTIONAL, (ClassicMember(1, instance=0),), (Member(1, instance=1),), False),
    ],
)
def test_a_classic_group_becomes_a_consumer_group_where_the_policy_lets_it_and_keeps_its_members(
    policy: Policy, before: tuple[ClassicMember, ...], after: tuple[Member, ...], *, holds: bool
) -> None:
    may = attrs.evolve(MACHINE, policy=policy).step_invariants["GoesOverAsItMay"]
    assert may(state_of(classic=classic_of(*before)), ACTION, state_of(group=group_of(*after))) is holds


@pytest.mark.parametrize(
    ("policy", "before", "after", "holds"),
    [
        (Policy.DOWNGRADE, (CONSUMER,), (CLASSIC,), True),
        (Policy.DOWNGRADE, (CONSUMER,), (), False),
        (Policy.UPGRADE, (CONSUMER,), (CLASSIC,), False),
        (Policy.UPGRADE, (), (CLASSIC,), True),
        (Policy.DOWNGRADE, (CONSUMER, Member(2)), (CLASSIC,), True),
        (Policy.DOWNGRADE, (CONSUMER, Member(2)), (CLASSIC, ClassicMember(2)), False),
        (Policy.DOWNGRADE, (CONSUMER, Member(2, instance=1)), (CLASSIC, ClassicMember(7, instance=1)), True),
    ],
)
def test_a_consumer_group_becomes_a_classic_one_where_the_policy_lets_it_with_its_classic_members(
    policy: Policy, before: tuple[Member, ...], after: tuple[ClassicMember, ...], *, holds: bool
) -> None:
    may = attrs.evolve(MACHINE, policy=policy).step_invariants["GoesOverAsItMay"]
    was, now = state_of(group=group_of(*before)), state_of(classic=classic_of(*after))
    assert may(was, ACTION, now) is holds
    assert may(attrs.evolve(was, classic=classic_of()), ACTION, now), "it was a classic group"
    assert may(attrs.evolve(was, group=None), ACTION, now)
    assert may(was, ACTION, attrs.evolve(now, group=None))


@pytest.mark.parametrize(
    ("instances", "spent", "holds"),
    [
        ((0, 0), (), True),
        ((0, 1), (), False),
        ((0, 1), (("FailOver", 1),), True),
        ((0, 1), (("DelayHeartbeat", 1),), True),
        ((0, 1), (("Crash", 1),), False),
        ((), (("FailOver", 1),), False),
        ((), (("DelayHeartbeat", 1),), False),
    ],
)
def test_who_is_fenced_for_good_is_static_and_was_replaced_or_forgotten(
    instances: tuple[int, ...], spent: tuple[tuple[str, int], ...], *, holds: bool
) -> None:
    only = attrs.evolve(MACHINE, instances=instances).invariants["OnlyTheReplacedEnd"]
    assert only(with_processes(Process(Phase.FENCED), Process(), spent=spent)) is holds


STATIC = Member(1, instance=0, epoch=5, assigned=((0, 5),))
NEXT = attrs.evolve(STATIC, member_id=7)


def test_a_static_member_is_replaced_that_has_another_member_id() -> None:
    before, after = state_of(group=group_of(STATIC, Member(2))), state_of(group=group_of(NEXT, Member(3)))
    assert list(replacements(before, after)) == [(STATIC, NEXT)]
    assert list(replacements(before, before)) == []
    loading = attrs.evolve(after, group=None)
    assert list(replacements(before, loading)) == list(replacements(loading, after)) == []
    classic = state_of(classic=classic_of(ClassicMember(7, instance=0)))
    assert list(replacements(before, classic)) == [(STATIC, ClassicMember(7, instance=0))]
    again = state_of(classic=classic_of(ClassicMember(8, instance=0)))
    assert [one.member_id for one, _ in replacements(classic, again)] == [7]


@pytest.mark.parametrize(
    ("former", "member", "holds"),
    [
        ({}, {}, False),
        ({"epoch": STATIC_LEAVING_EPOCH}, {}, True),
        ({"classic": True}, {}, True),
        ({}, {"classic": True}, True),
        ({}, {"member_id": 1}, True),
    ],
)
def test_a_process_of_the_new_protocol_that_has_not_left_loses_its_place_to_the_other_one_only(
    former: dict[str, Any], member: dict[str, Any], *, holds: bool
) -> None:
    before = state_of(group=group_of(attrs.evolve(STATIC, **former)))
    after = state_of(group=group_of(attrs.evolve(NEXT, **member)))
    assert MACHINE.step_invariants["OnlyTheReleasedAreReplaced"](before, ACTION, after) is holds


def with_target(member: Member, *partitions: int) -> State:
    return state_of(group=group_of(member, target=((member.member_id, partitions),)))


def classic_state(assigned: tuple[int, ...], standing: Standing = Standing.STABLE, member_id: int = 1) -> State:
    return state_of(classic=classic_of(ClassicMember(member_id, assigned=assigned, instance=0), standing=standing))


NOTHING = attrs.evolve(NEXT, assigned=())


@pytest.mark.parametrize(
    ("before", "after", "holds"),
    [
        (with_target(STATIC, 0), with_target(NEXT, 0), True),
        (with_target(STATIC, 0), with_target(NOTHING, 0), False),
        (with_target(STATIC), with_target(NOTHING, 0), True),
        (with_target(STATIC, 0), with_target(NOTHING), True),
        (classic_state((0,)), classic_state((0,), member_id=7), True),
        (classic_state((0,)), classic_state((), member_id=7), False),
        (classic_state((0,)), classic_state((0,), Standing.PREPARING, 7), False),
        (classic_state((0,), Standing.PREPARING), classic_state((0,), Standing.PREPARING, 7), True),
        (classic_state((0,), Standing.PREPARING), classic_state((), Standing.PREPARING, 7), False),
        (classic_state((0,), Standing.COMPLETING), classic_state((), Standing.PREPARING, 7), True),
        (classic_state((0,)), with_target(NEXT, 0), True),
        (classic_state((0,)), with_target(NOTHING, 0), False),
        (with_target(STATIC, 0), classic_state((), member_id=7), False),
        (with_target(STATIC), classic_state((), member_id=7), True),
    ],
)
def test_the_next_process_of_a_static_member_keeps_its_part_and_a_stable_group(
    before: State, after: State, *, holds: bool
) -> None:
    assert MACHINE.step_invariants["TheReplacedKeepTheirPart"](before, ACTION, after) is holds


@pytest.mark.parametrize(
    ("old", "new", "has", "holds"),
    [
        (Process(Phase.UP, 1, 5), Process(Phase.UP, 1, JOINING_EPOCH), 7, False),
        (Process(Phase.UP, 1, 5), Process(Phase.UP, 1, JOINING_EPOCH), 1, True),
        (Process(Phase.UP, 1, 5), Process(Phase.FENCED, 1, JOINING_EPOCH), 7, True),
        (Process(Phase.UP, 1, 5), Process(Phase.UP, 1, 5, waiting=True), 7, True),
        (Process(Phase.UP, 1, JOINING_EPOCH), Process(Phase.UP, 1, JOINING_EPOCH, waiting=True), 7, True),
        (Process(Phase.UP, 1, 5, hung=True), Process(Phase.UP, 1, JOINING_EPOCH), 7, True),
    ],
)
def test_who_loses_its_place_to_another_process_ends(old: Process, new: Process, has: int, *, holds: bool) -> None:
    group = group_of(Member(has, instance=0))
    before, after = (with_processes(one, Process(), group=group) for one in (old, new))
    ends = MACHINE.step_invariants["TheReplacedEnd"]
    assert ends(before, ACTION, after) is holds
    assert ends(attrs.evolve(before, group=None), ACTION, after)


@pytest.mark.parametrize(
    ("old", "new", "kept", "holds"),
    [
        (classic_of(generation=5), classic_of(generation=4), (), False),
        (classic_of(generation=5), classic_of(generation=5), (), True),
        (None, classic_of(generation=4), (), True),
        (classic_of(generation=5), classic_of(generation=4), (Entry(classic=classic_of()),), True),
        (classic_of(generation=5), classic_of(generation=4), (Entry(group=Group()),), False),
    ],
)
def test_generations_rise_but_where_several_batches_count_at_once(
    old: ClassicGroup | None, new: ClassicGroup, kept: tuple[Entry, ...], *, holds: bool
) -> None:
    before = state_of(log=Log(group=group_of(Member(1), epoch=5), classic=old), appended=kept)
    after = state_of(log=Log(classic=new))
    rise = MACHINE.step_invariants["EpochsRise"]
    assert rise(before, FailOver(len(kept)), after) is holds
    assert rise(before, ACTION, after) is (old is not None and new.generation >= old.generation)


@pytest.mark.parametrize(
    ("epoch", "member_id", "stage", "is_classic", "holds"),
    [
        (5, 1, Stage.IN, False, True),
        (4, 1, Stage.IN, False, False),
        (4, 1, Stage.JOINED, False, True),
        (5, 2, Stage.IN, False, False),
        (5, 2, Stage.IN, True, True),
        (4, 2, Stage.IN, True, False),
    ],
)
def test_a_classic_process_comes_to_the_epoch_of_its_member(
    epoch: int, member_id: int, stage: Stage, *, is_classic: bool, holds: bool
) -> None:
    process = Process(Phase.UP, member_id, epoch, classic=True, stage=stage)
    state = with_processes(process, Process(), group=group_of(Member(1, epoch=5, classic=True)))
    state = attrs.evolve(state, classic=classic_of(generation=5) if is_classic else None)
    assert MACHINE.converges["a classic process is in the epoch of its member"](state) is holds
    assert not MACHINE.converges["a classic process is in the epoch of its member"](attrs.evolve(state, group=None))


# --- goals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epochs", "owned", "is_classic", "is_reached"),
    [
        ((5, 5), ((0,), (1,)), False, True),
        ((5, 5), ((0,), (1,)), True, False),
        ((5, 5), ((0,), ()), False, False),
        ((5, JOINING_EPOCH), ((0,), (1,)), False, False),
    ],
)
def test_members_of_both_protocols_own_a_part_each(
    epochs: tuple[int, int], owned: tuple[tuple[int, ...], ...], *, is_classic: bool, is_reached: bool
) -> None:
    machine = attrs.evolve(MACHINE, topics=2)
    processes = (Process(Phase.UP, n, epochs[n], owned=owned[n], classic=n == 0) for n in range(2))
    state = with_processes(*processes, classic=classic_of() if is_classic else None)
    assert machine.sometimes["members of both protocols own a part each"](state) is is_reached


@pytest.mark.parametrize(
    ("classic", "is_reached"),
    [
        (attrs.evolve(classic_of(CLASSIC), leader=-1), True),
        (classic_of(CLASSIC), False),
        (classic_of(), False),
        (None, False),
    ],
)
def test_a_consumer_group_is_a_classic_one_that_nobody_has_led(
    classic: ClassicGroup | None, *, is_reached: bool
) -> None:
    machine = attrs.evolve(MACHINE, bounds=Bounds(Leave=1))
    goal = machine.sometimes["a consumer group is a classic one again"]
    assert goal(state_of(log=Log(classic=classic))) is is_reached

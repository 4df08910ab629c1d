"""Properties of consumer groups asked alone: of states that no right rule leads to, and of those beside them."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.model_tests.spec.groups.consumer_states import (
    MACHINE,
    SOMETHING,
    SPACED,
    heartbeat,
    holds_of_step,
    in_group,
    initial,
    member,
    up,
)
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.ownership import gives_back_in_time, is_last_owner
from tidegauge.spec.groups.consumer.requests import ReceiveCommit
from tidegauge.spec.groups.consumer.state import (
    JOINING_EPOCH,
    STATIC_LEAVING_EPOCH,
    CommitRequest,
    Entry,
    Error,
    Group,
    Log,
    Member,
    Offset,
    Phase,
    Process,
)
from tidegauge.spec.groups.consumer.timing import ExpireRebalance, ExpireSession
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Action

# --- who has what ----------------------------------------------------------------------------------------------------

HOLDS, OTHER = member(1, assigned=((0, 3),)), member(2)


@pytest.mark.parametrize(
    ("members", "epoch", "is_last"),
    [
        ((HOLDS, OTHER), 3, True),
        ((HOLDS, OTHER), 1, True),
        ((member(1), member(2, assigned=((0, 3),))), 3, False),
        ((member(1), member(2, revoking=((0, 2),))), 3, False),
        ((member(1), OTHER), 3, True),
        ((member(1), OTHER), 2, False),
        ((OTHER,), 3, False),
    ],
)
def test_the_last_owner_has_the_partition_or_gave_it_back_in_the_epoch_of_the_target(
    members: tuple[Member, ...], epoch: int, *, is_last: bool
) -> None:
    group = Group(3, 3, members=members)
    request = CommitRequest(0, 1, epoch, 0, 1)
    assert is_last_owner(group, request) is is_last
    before = in_group(group)
    taken = attrs.evolve(before, appended=(Entry(offset=(0, Offset(1, 1))),))
    assert holds_of_step("OwnersCommit", before, ReceiveCommit(request), taken) is is_last
    assert holds_of_step("OwnersCommit", before, ReceiveCommit(request), before)
    assert holds_of_step("OwnersCommit", before, SOMETHING, taken)
    assert not holds_of_step("OwnersCommit", attrs.evolve(before, group=None), ReceiveCommit(request), taken)


def test_while_the_coordinator_loads_no_commit_would_be_taken() -> None:
    one_committer = MACHINE.invariants["OneCommitter"]
    both = up(1, owned=(0,)), up(2, owned=(0,))
    assert one_committer(in_group(None, *both))
    assert one_committer(in_group(Group(3, 3, members=(HOLDS,)), *both))
    assert not one_committer(in_group(Group(3, 3, members=(HOLDS, attrs.evolve(HOLDS, member_id=2))), *both))


class RefusesOwners(ConsumerGroups):
    """A coordinator that takes no commit."""

    def commit_error(self, group: Group, request: CommitRequest) -> Error:
        return Error.STALE_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("process", "group", "holds"),
    [
        (up(1, owned=(0,)), Group(3, 3, members=(HOLDS,)), False),
        (up(1, owned=()), Group(3, 3, members=(HOLDS,)), True),
        (up(1, owned=(1,)), Group(3, 3, members=(HOLDS,)), True),
        (up(1, 2, owned=(0,)), Group(3, 3, members=(HOLDS,)), True),
        (up(1, 4, owned=(0,)), Group(3, 3, members=(HOLDS,)), True),
        (up(2, owned=(0,)), Group(3, 3, members=(HOLDS,)), True),
        (up(1, owned=(0,)), None, True),
    ],
)
def test_who_has_what_it_owns_may_commit_it(process: Process, group: Group | None, *, holds: bool) -> None:
    machine = RefusesOwners(commits=1)
    assert machine.invariants["OwnersAreNotRefused"](in_group(group, process)) is holds
    assert MACHINE.invariants["OwnersAreNotRefused"](in_group(group, process))


@pytest.mark.parametrize(
    ("after", "request_epoch", "holds"),
    [
        (member(1, topics=(0,), assigned=((0, 3),)), 3, True),
        (member(1, topics=(1,), assigned=((0, 3),)), 3, False),
        (member(1, topics=(1,), assigned=((0, 3),)), 9, True),
        (member(1, topics=(1,), assigned=((1, 3),)), 3, True),
        (member(1, topics=(0, 1), assigned=((0, 3), (3, 3))), 3, False),
        (member(2, topics=(1,), assigned=((0, 3),)), 3, True),
    ],
)
def test_a_heartbeat_that_is_taken_leaves_a_member_nothing_that_it_does_not_want(
    after: Member, request_epoch: int, *, holds: bool
) -> None:
    """Partition 3 is of topic 1, and is not there."""
    machine = ConsumerGroups(topics=2, partitions=3)
    before = in_group(Group(3, 3, members=(member(1),)), machine=machine)
    now = attrs.evolve(before, group=Group(3, 3, members=(after,)))
    name, action = "OnlyWhatIsWantedIsAssigned", heartbeat(epoch=request_epoch)
    assert holds_of_step(name, before, action, now, machine) is holds
    assert holds_of_step(name, before, SOMETHING, now, machine)
    assert holds_of_step(name, attrs.evolve(before, group=None), action, now, machine)
    assert holds_of_step(name, before, action, attrs.evolve(now, group=None), machine)


@pytest.mark.parametrize(
    ("changes", "owned", "holds"),
    [
        ({}, (0,), True),
        ({}, (1,), False),
        ({"epoch": 4}, (1,), True),
        ({"target": ((1, (1,)),)}, (1,), True),
        ({"members": (member(1, assigned=((0, 3),)), member(2))}, (1,), True),
    ],
)
def test_where_a_group_has_come_to_its_target_processes_own_their_parts(
    changes: dict[str, Any], owned: tuple[int, ...], *, holds: bool
) -> None:
    group = attrs.evolve(Group(3, 3, ((1, (0,)),), members=(member(1, assigned=((0, 3),)),)), **changes)
    agreed = MACHINE.invariants["StableMeansAgreed"]
    assert agreed(in_group(group, up(1, owned=owned))) is holds
    assert agreed(in_group(None, up(1, owned=owned)))
    for told in ({"assigned": (0,)}, {"waiting": True}, {"full": True}, {"epoch": 2}):
        assert agreed(in_group(group, attrs.evolve(up(1, owned=(1,)), **told)))


@pytest.mark.parametrize(
    ("group", "holds"),
    [
        (Group(3, 3, ((1, (0,)), (2, (1,))), (member(1), OTHER), known=(0, 1)), True),
        (Group(3, 3, ((1, (0,)), (2, ())), (member(1), OTHER), known=(0, 1)), False),
        (Group(4, 3, ((1, (0,)), (2, ())), (member(1), OTHER), known=(0, 1)), True),
        (Group(4, 3, ((1, (0,)), (2, (0,))), (member(1), OTHER), known=(0, 1)), False),
    ],
)
def test_a_target_gives_nothing_twice_and_that_of_the_groups_epoch_leaves_nothing_out(
    group: Group, *, holds: bool
) -> None:
    assert MACHINE.invariants["TargetCovers"](in_group(group)) is holds


HAD = member(1, instance=0, assigned=((0, 3),))


@pytest.mark.parametrize(
    ("members", "target", "holds"),
    [
        ((HAD,), ((1, (0,)),), True),
        ((member(1, instance=0),), ((1, ()), (2, (0,))), False),
        ((member(1, instance=0),), ((1, (0,)),), True),
        ((member(2, instance=0, assigned=((0, 3),)),), ((2, (0,)),), True),
        ((member(2, assigned=((0, 3),)),), ((2, (0,)),), False),
        ((), (), True),
    ],
)
def test_what_a_member_gives_back_in_the_epoch_of_the_target_is_nobody_elses(
    members: tuple[Member, ...], target: tuple[tuple[int, tuple[int, ...]], ...], *, holds: bool
) -> None:
    """The next process of a static member has it; who is in an earlier epoch than the target's is in time."""
    new = Group(3, 3, target, members)
    assert gives_back_in_time(HAD, new) is holds
    assert gives_back_in_time(attrs.evolve(HAD, epoch=2), new)
    assert gives_back_in_time(attrs.evolve(HAD, epoch=STATIC_LEAVING_EPOCH, previous_epoch=2), new)


# --- members ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "spent", "holds"),
    [
        ({"epoch": JOINING_EPOCH}, (), False),
        ({"epoch": JOINING_EPOCH}, ("LoseResponse",), False),
        ({"epoch": JOINING_EPOCH}, ("LoseResponse", "FailOver"), True),
        ({"epoch": JOINING_EPOCH}, ("LoseResponse", "LoseResponse"), True),
        ({"epoch": JOINING_EPOCH}, ("DelayHeartbeat",), True),
        ({"epoch": JOINING_EPOCH, "member_id": 4}, (), True),
        ({"epoch": 2}, (), True),
        ({"hung": True}, (), True),
    ],
)
def test_who_is_a_member_is_told_otherwise_after_two_lost_responses_alone(
    changes: dict[str, Any], spent: tuple[str, ...], *, holds: bool
) -> None:
    before = in_group(Group(3, 3, members=(member(1),)), up(1))
    for perturbation in spent:
        before = before.spend(perturbation)
    after = before.with_process(0, attrs.evolve(before.processes[0], **changes))
    name = "OnlyTheRemovedAreFenced"
    assert holds_of_step(name, before, SOMETHING, after) is holds
    for group in (None, Group(3, 3), Group(3, 3, members=(member(2),))):
        assert holds_of_step(name, attrs.evolve(before, group=group), SOMETHING, after)


@pytest.mark.parametrize(
    ("process", "action", "is_spent", "holds"),
    [
        (up(1), SOMETHING, False, False),
        (up(3), SOMETHING, False, True),
        (Process(), SOMETHING, False, True),
        (up(1), ExpireSession(1), False, True),
        (up(1), ExpireRebalance(1), True, True),
        (up(1), ExpireRebalance(1), False, False),
        (up(1, hung=True), ExpireRebalance(1), False, True),
        (up(3), ExpireRebalance(1), False, True),
    ],
)
def test_who_goes_on_is_removed_only_if_it_is_late(
    process: Process, action: Action, *, is_spent: bool, holds: bool
) -> None:
    before = in_group(Group(3, 3, members=(member(1),)), process)
    after = attrs.evolve(before, group=Group(4, 4))
    after = after.spend("ExpireRebalance") if is_spent else after
    name = "OnlyTheLateAreRemoved"
    assert holds_of_step(name, before, action, after) is holds
    assert holds_of_step(name, attrs.evolve(before, group=None), action, after)
    assert holds_of_step(name, before, action, attrs.evolve(after, group=None))
    delayed = before.spend("DelayHeartbeat")
    late = attrs.evolve(after, spent=(*delayed.spent, *after.spent))
    assert holds_of_step(name, delayed, action, late) is (holds or action is not SOMETHING)


@pytest.mark.parametrize(
    ("process_epoch", "member_epoch", "holds"),
    [(3, 3, True), (2, 3, True), (3, 2, False), (4, 5, False), (3, STATIC_LEAVING_EPOCH, True), (3, None, True)],
)
def test_no_process_is_in_an_epoch_that_the_log_has_not(
    process_epoch: int, member_epoch: int | None, *, holds: bool
) -> None:
    members = () if member_epoch is None else (member(1, member_epoch),)
    state = attrs.evolve(in_group(None, up(1, process_epoch)), log=Log(Group(3, 3, members=members)))
    assert MACHINE.invariants["ToldEpochsAreLogged"](state) is holds


@pytest.mark.parametrize(
    ("instances", "spent", "holds"),
    [
        ((0, 0), (), True),
        ((0,), (), False),
        ((0, 1), (), False),
        ((), (), False),
        ((0,), ("Crash",), False),
        ((0,), ("DelayHeartbeat",), False),
        ((0,), ("Crash", "DelayHeartbeat"), True),
        ((), ("Crash", "DelayHeartbeat"), False),
    ],
)
def test_a_process_ends_for_another_one_of_its_name_or_for_its_own_former_life(
    instances: tuple[int, ...], spent: tuple[str, ...], *, holds: bool
) -> None:
    state = in_group(Group(), Process(Phase.FENCED))
    for perturbation in spent:
        state = state.spend(perturbation)
    machine = attrs.evolve(MACHINE, instances=instances)
    assert machine.invariants["OnlyTheReplacedEnd"](state) is holds


@pytest.mark.parametrize(
    ("old", "new", "holds"),
    [
        (Offset(2, 1), Offset(3, 2), True),
        (Offset(2, 1), Offset(2, 1), True),
        (Offset(2, 1), Offset(2, 2), True),
        (Offset(2, 1), Offset(1, 1), True),
        (Offset(2, 1), Offset(1, 2), False),
    ],
)
def test_an_offset_goes_back_only_where_its_committer_says_so(old: Offset, new: Offset, *, holds: bool) -> None:
    before, after = (attrs.evolve(initial(), log=Log(offsets=(Offset(), one))) for one in (old, new))
    assert holds_of_step("OffsetsDoNotGoBack", before, SOMETHING, after) is holds


@pytest.mark.parametrize(
    ("process", "has", "spent", "holds"),
    [
        (up(1, owned=(0,)), (0,), (), True),
        (up(1, owned=(0,)), (1,), (), False),
        (up(1, owned=()), (1,), (), True),
        (up(1, 2, owned=(0,)), (1,), (), True),
        (up(2, owned=(0,)), (1,), (), True),
        (up(1, owned=(0,)), (1,), ("DelayHeartbeat",), True),
    ],
)
def test_a_process_in_the_epoch_of_its_member_owns_what_that_has(
    process: Process, has: tuple[int, ...], spent: tuple[str, ...], *, holds: bool
) -> None:
    group = Group(3, 3, members=(member(1, assigned=tuple((one, 3) for one in has)),))
    state = in_group(group, process)
    for perturbation in spent:
        state = state.spend(perturbation)
    assert MACHINE.invariants["OwningIsHaving"](state) is holds
    assert MACHINE.invariants["OwningIsHaving"](attrs.evolve(state, group=None))


# --- goals -----------------------------------------------------------------------------------------------------------


def test_of_a_group_that_is_not_loaded_nothing_is_reached() -> None:
    bounds = Bounds(FailOver=1, Leave=1, Resubscribe=2)
    machine = attrs.evolve(SPACED, instances=(0,), matches=((0,),), expressions=(0,), named=(0,), bounds=bounds)
    assert "an old target has more for a member, which waits for the next one" in machine.sometimes
    loading = attrs.evolve(in_group(None, up(1, owned=(0,))).spend("FailOver"))
    reached = {name for name, is_reached in machine.sometimes.items() if is_reached(loading)}
    assert not reached
    assert not machine.converges["who is gone is no member"](loading)


def test_a_new_coordinator_goes_on_with_a_member_that_is_told_no_more_than_before() -> None:
    goal = MACHINE.sometimes["a new coordinator goes on with the members"]
    state = in_group(Group(3, 3, members=(member(1),)), up(1))
    assert goal(state.spend("FailOver"))
    assert not goal(state)
    for other in ({"epoch": 2}, {"full": True}):
        assert not goal(in_group(state.group, attrs.evolve(up(1), **other)).spend("FailOver"))


def test_a_static_member_that_is_away_keeps_something() -> None:
    machine = attrs.evolve(MACHINE, instances=(0,), bounds=Bounds(Leave=1))
    goal = machine.sometimes["a static member is away, and keeps what it has"]
    for epoch, assigned, is_reached in (
        (STATIC_LEAVING_EPOCH, ((0, 3),), True),
        (STATIC_LEAVING_EPOCH, (), False),
        (3, ((0, 3),), False),
    ):
        group = Group(3, 3, members=(member(1, epoch, instance=0, assigned=assigned),))
        assert goal(in_group(group)) is is_reached


def test_who_is_gone_is_no_member_of_a_group_that_is_loaded() -> None:
    goal = MACHINE.converges["who is gone is no member"]
    for members, holds in (((member(1),), True), ((member(1), member(2)), False), ((), True)):
        assert goal(in_group(Group(3, 3, members=members), up(1))) is holds

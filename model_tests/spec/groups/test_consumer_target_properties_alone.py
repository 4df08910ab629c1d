"""Properties of consumer groups' targets and regular expressions asked alone, of states that no right rule leads to."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.model_tests.spec.groups.consumer_states import (
    MACHINE,
    MATCHING,
    SOMETHING,
    SPACED,
    heartbeat,
    holds_of_step,
    in_group,
    initial,
    member,
)
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.state import (
    JOINING_EPOCH,
    NONE,
    STATIC_LEAVING_EPOCH,
    Age,
    Group,
    Log,
    Member,
    State,
)
from tidegauge.spec.groups.consumer.targets import is_target_new

OTHER = member(2)


# --- targets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("in_memory", "logged", "is_new"),
    [
        (Group(3, 3, target_is_new=True), Group(), True),
        (Group(3, 3), Group(3, 3, members=(OTHER,), target_is_new=True), True),
        (Group(3, 3), Group(3, 3, members=(OTHER,)), False),
        (Group(3, 3), Group(3, 3, target_is_new=True), False),
        (Group(3, 3), Group(3, 2, members=(OTHER,), target_is_new=True), False),
        (Group(3, 3), Group(3, 3, ((2, (0,)),), members=(OTHER,), target_is_new=True), False),
    ],
)
def test_a_target_is_new_by_what_the_coordinator_or_the_log_knows(
    in_memory: Group, logged: Group, *, is_new: bool
) -> None:
    state = attrs.evolve(in_group(in_memory), log=Log(logged, initial().log.offsets))
    assert is_target_new(state) is is_new
    made = attrs.evolve(state, group=attrs.evolve(in_memory, target_epoch=4, epoch=4, members=(OTHER,)))
    empty = attrs.evolve(made, group=Group(4, 4))
    kept = attrs.evolve(state, group=attrs.evolve(in_memory, epoch=4, members=(OTHER,)))
    assert holds_of_step("TargetsAreApart", state, SOMETHING, made) is not is_new
    for after in (state, empty, kept, attrs.evolve(made, group=None)):
        assert holds_of_step("TargetsAreApart", state, SOMETHING, after)
    assert holds_of_step("TargetsAreApart", attrs.evolve(state, group=None), SOMETHING, made)


@pytest.mark.parametrize("machine", [MACHINE, SPACED])
def test_a_target_that_is_made_is_new_where_targets_wait(machine: ConsumerGroups) -> None:
    name, before = "MadeTargetsAreNew", in_group(Group(4, 3, members=(OTHER,)))
    for is_new in (True, False):
        made = attrs.evolve(before, group=Group(4, 4, members=(OTHER,), target_is_new=is_new))
        kept = attrs.evolve(before, group=Group(4, 3, members=(OTHER,), target_is_new=is_new))
        empty = attrs.evolve(before, group=Group(4, 4, target_is_new=is_new))
        assert holds_of_step(name, before, SOMETHING, made, machine) is (is_new is machine.spaces_targets)
        for after in (kept, empty, attrs.evolve(before, group=None)):
            assert holds_of_step(name, before, SOMETHING, after, machine)
        assert holds_of_step(name, attrs.evolve(before, group=None), SOMETHING, made, machine)


PAST = Group(4, 3, members=(member(1, assigned=((0, 3),)), member(2, 2)))
"""Member 1 has had what the target of epoch 3 has for it; member 2 has not come there yet."""


@pytest.mark.parametrize(
    ("members", "holds"),
    [
        ((member(1, assigned=((0, 3), (1, 3))), member(2, 2)), False),
        ((member(1, assigned=((0, 3),), revoking=((1, 3),)), member(2, 2)), False),
        ((member(1), member(2, assigned=((1, 3),))), True),
        ((member(2, assigned=((1, 3),)),), True),
        ((member(1, assigned=((0, 3),)), member(2, 2)), True),
    ],
)
def test_who_has_had_all_of_an_old_target_gets_no_more_of_it(members: tuple[Member, ...], *, holds: bool) -> None:
    name, before = "TargetsAreGivenOnce", in_group(PAST)
    after = attrs.evolve(before, group=attrs.evolve(PAST, members=members))
    assert holds_of_step(name, before, SOMETHING, after, SPACED) is holds
    assert holds_of_step(name, before, SOMETHING, after)
    made = attrs.evolve(after, group=attrs.evolve(after.loaded, target_epoch=4))
    for other in (made, before, attrs.evolve(before, group=None)):
        assert holds_of_step(name, before, SOMETHING, other, SPACED)
    assert holds_of_step(name, attrs.evolve(before, group=None), SOMETHING, after, SPACED)


def test_of_several_that_are_past_their_target_none_gets_more_of_it() -> None:
    two = attrs.evolve(PAST, members=(member(1), member(2)))
    after = attrs.evolve(two, members=(member(1), member(2, assigned=((1, 3),))))
    assert not holds_of_step("TargetsAreGivenOnce", in_group(two), SOMETHING, in_group(after), SPACED)


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({"waits": True}, True),
        ({"waits": True, "assigned": ((0, 3),)}, False),
        ({"waits": True, "revoking": ((1, 2),)}, False),
        ({"waits": True, "epoch": 2, "assigned": ((0, 3),)}, True),
        ({"assigned": ((0, 3),)}, True),
    ],
)
def test_who_waits_lacks_something_and_has_nothing_to_give_back(fields: dict[str, Any], *, holds: bool) -> None:
    group = Group(3, 3, ((1, (0,)),), members=(member(1, **fields),), known=(0, 1))
    assert SPACED.invariants["WhoWaitsLacksSomething"](in_group(group)) is holds


@pytest.mark.parametrize(
    ("old", "new", "holds"),
    [
        (2, 3, True),
        (2, 2, True),
        (2, 1, False),
        (2, JOINING_EPOCH, False),
        (2, STATIC_LEAVING_EPOCH, True),
        (JOINING_EPOCH, JOINING_EPOCH, True),
    ],
)
def test_the_epoch_of_a_member_goes_back_only_when_it_leaves_to_come_back(old: int, new: int, *, holds: bool) -> None:
    def logged(of_member: int, **changes: Any) -> State:
        group = attrs.evolve(Group(3, 3, members=(member(1, of_member),)), **changes)
        return attrs.evolve(initial(), log=Log(group, initial().log.offsets))

    assert holds_of_step("EpochsRise", logged(old), SOMETHING, logged(new)) is holds
    assert not holds_of_step("EpochsRise", logged(old, epoch=4), SOMETHING, logged(new))
    assert not holds_of_step("EpochsRise", logged(old, target_epoch=4), SOMETHING, logged(new))


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({"assigned": ((0, 3),)}, True),
        ({}, False),
        ({"waits": True}, True),
        ({"revoking": ((1, 2),)}, True),
        ({"epoch": 2}, True),
    ],
)
def test_where_targets_wait_a_member_has_its_part_or_waits_for_it(fields: dict[str, Any], *, holds: bool) -> None:
    group = Group(3, 3, ((1, (0,)),), members=(member(1, **fields),), known=(0, 1))
    assert SPACED.invariants["WhoLacksSomethingWaits"](in_group(group)) is holds
    assert MACHINE.invariants["WhoLacksSomethingWaits"](in_group(group))
    later = attrs.evolve(group, epoch=4)
    assert SPACED.invariants["WhoLacksSomethingWaits"](in_group(later))


@pytest.mark.parametrize(
    ("after", "holds"),
    [
        (Group(4, 4), True),
        (Group(4, 3, target_is_new=True), True),
        (Group(4, 3), False),
        (Group(3, 2), True),
    ],
)
def test_after_a_heartbeat_that_is_taken_an_epoch_has_its_target_or_waits_for_the_interval(
    after: Group, *, holds: bool
) -> None:
    before = in_group(Group(3, 2))
    now = attrs.evolve(before, group=after)
    assert holds_of_step("WhatWaitsIsMade", before, heartbeat(), now) is holds
    assert holds_of_step("WhatWaitsIsMade", before, SOMETHING, now)
    assert holds_of_step("WhatWaitsIsMade", attrs.evolve(before, group=None), heartbeat(), now)
    assert holds_of_step("WhatWaitsIsMade", before, heartbeat(), attrs.evolve(now, group=None))


# --- regular expressions ---------------------------------------------------------------------------------------------

BRINGS = member(1, topics=(), expression=NONE)
RESOLVED = Group(3, 3, members=(BRINGS,), resolved=((1, (1,)),))


@pytest.mark.parametrize(
    ("request_fields", "later", "holds"),
    [
        ({"topics": (), "expression": 0}, {"epoch": 4}, False),
        ({"topics": (), "expression": 0}, {}, True),
        ({"topics": (), "expression": 1}, {"epoch": 4}, True),
        ({"topics": (), "expression": NONE}, {"epoch": 4}, True),
        ({"topics": (0,), "expression": 0}, {"epoch": 4}, True),
        ({"topics": (), "expression": 0}, {"epoch": 4, "known": (0,)}, True),
        ({"topics": (), "expression": 0}, {"epoch": 4, "racks": 1}, True),
        ({"topics": (), "expression": 0, "member_id": 2}, {"epoch": 4}, False),
        ({"topics": (0,), "expression": 0, "member_id": 2}, {"epoch": 4}, True),
    ],
)
def test_an_expression_that_nobody_has_had_resolved_begins_no_epoch(
    request_fields: dict[str, Any], later: dict[str, Any], *, holds: bool
) -> None:
    before = in_group(RESOLVED, machine=MATCHING)
    after = attrs.evolve(before, group=attrs.evolve(RESOLVED, **later))
    name, action = "UnresolvedBeginsNoEpoch", heartbeat(**request_fields)
    assert holds_of_step(name, before, action, after, MATCHING) is holds
    assert holds_of_step(name, before, SOMETHING, after, MATCHING)
    assert holds_of_step(name, attrs.evolve(before, group=None), action, after, MATCHING)
    assert holds_of_step(name, before, action, attrs.evolve(after, group=None), MATCHING)
    has_it = attrs.evolve(RESOLVED, members=(attrs.evolve(BRINGS, expression=0),))
    if request_fields.get("member_id", 1) == 1:
        assert holds_of_step(name, attrs.evolve(before, group=has_it), action, after, MATCHING)


def test_the_next_process_of_a_static_member_brings_what_the_former_one_has_not() -> None:
    machine = attrs.evolve(MATCHING, instances=(0,))
    known = attrs.evolve(BRINGS, instance=0, epoch=STATIC_LEAVING_EPOCH)
    for expression, holds in ((NONE, False), (0, True)):
        before = in_group(attrs.evolve(RESOLVED, members=(attrs.evolve(known, expression=expression),)))
        after = attrs.evolve(before, group=attrs.evolve(RESOLVED, epoch=4))
        action = heartbeat(2, JOINING_EPOCH, topics=(), expression=0)
        assert holds_of_step("UnresolvedBeginsNoEpoch", before, action, after, machine) is holds


@pytest.mark.parametrize(
    ("before", "after", "age", "holds"),
    [
        (None, (0,), Age.DUE, True),
        (None, (0,), Age.PAST, True),
        (None, (0,), Age.RECENT, False),
        (None, (0, 1), Age.DUE, False),
        (None, (), Age.DUE, False),
        ((1,), (0,), Age.DUE, False),
        ((0,), (0,), Age.RECENT, True),
        ((0,), None, Age.RECENT, True),
        (None, None, Age.DUE, True),
    ],
)
def test_one_task_resolves_all_expressions_and_not_again_within_ten_seconds(
    before: tuple[int, ...] | None, after: tuple[int, ...] | None, age: Age, *, holds: bool
) -> None:
    group = Group(3, 3, members=(member(1, expression=0),), resolved_age=age)
    state = in_group(group, machine=MATCHING)
    former, later = attrs.evolve(state, resolving=before), attrs.evolve(state, resolving=after)
    assert holds_of_step("ResolutionsAreApart", former, SOMETHING, later, MATCHING) is holds


@pytest.mark.parametrize(
    ("group", "resolving", "epoch", "holds"),
    [
        (Group(3, 3, members=(member(1, expression=0),)), None, 3, False),
        (Group(3, 3, members=(member(1, expression=0),)), (0,), 3, True),
        (Group(3, 3, members=(member(1, expression=0),)), None, 9, True),
        (Group(3, 3, members=(member(1),)), None, 3, True),
        (Group(3, 3, members=(member(1, expression=0),), resolved_age=Age.PAST), None, 3, True),
    ],
)
def test_a_heartbeat_that_is_taken_begins_what_is_due(
    group: Group, resolving: tuple[int, ...] | None, epoch: int, *, holds: bool
) -> None:
    before = in_group(group, machine=MATCHING)
    after, action = attrs.evolve(before, resolving=resolving), heartbeat(epoch=epoch)
    assert holds_of_step("WhatIsDueBegins", before, action, after, MATCHING) is holds
    assert holds_of_step("WhatIsDueBegins", before, SOMETHING, after, MATCHING)
    assert holds_of_step("WhatIsDueBegins", attrs.evolve(before, group=None), action, after, MATCHING)
    assert holds_of_step("WhatIsDueBegins", before, action, attrs.evolve(after, group=None), MATCHING)

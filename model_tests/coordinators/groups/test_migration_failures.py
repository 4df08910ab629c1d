"""What becomes of a group that goes over at its coordinator when that, or what came before, is not in the log."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.messages import Heartbeat, LeaveGroup, Leaving
from tidegauge.impl.coordinators.groups.classic.state import ClassicState
from tidegauge.impl.coordinators.groups.classic.turn import ClassicLimits
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.model_tests.coordinators.groups.test_migration import GROUP, KNOWN, Coordinator, at


def test_a_group_whose_going_over_is_not_written_is_a_classic_one_and_rebalances() -> None:
    one = Coordinator()
    one.stable()
    one.is_writing = False
    one.beat()
    one.fail()
    assert one.core.migration.consumer_group(GROUP) is None
    assert GROUP not in one.core.consumers.groups
    group = one.core.classic.groups[GROUP]
    assert (group.state, [*group.members]) == (ClassicState.PREPARING_REBALANCE, ["a-"])
    assert one.core.classic.heartbeat(Heartbeat(GROUP, 1, "a-"), at()) is ErrorCode.rebalance_in_progress
    assert group.members["a-"].session_deadline is not None


@pytest.mark.parametrize("is_being_deleted", [False, True])
def test_a_group_without_members_whose_going_over_is_not_written_is_empty(is_being_deleted: bool) -> None:
    """It was waiting for more members, or about to be deleted: nothing would have ended that any more."""
    one = Coordinator(classic=ClassicLimits(initial_delay_ms=0 if is_being_deleted else 3_000))
    one.join("", version=3, unique="x")
    one.carry_out(one.core.classic.leave(LeaveGroup(GROUP, (Leaving("-x"),)), object(), at()))
    if is_being_deleted:
        for outcome in one.core.classic.time_passed(at()):
            one.carry_out(outcome)
        one.core.classic.ending([GROUP])
    one.is_writing = False
    one.beat()
    one.fail()
    assert one.core.classic.groups[GROUP].state is ClassicState.EMPTY
    one.join("", version=3, unique="y")
    assert one.core.classic.groups[GROUP].members.keys() == {"-y"}


def test_a_group_whose_going_back_is_not_written_is_a_consumer_group_whose_last_member_goes_again() -> None:
    one = Coordinator()
    one.stable()
    one.beat()
    one.join("b")
    one.is_writing = False
    one.beat(epoch=-1)
    token = one.join("a-")
    one.fail()
    assert one.core.classic.get(GROUP) is None
    assert {*one.group.members} == {"a-", "b", "c"}
    assert one.told[token].error is ErrorCode.coordinator_not_available
    one.is_writing = True
    for write in one.core.consumers.time_passed(5_000):
        one.decided(one.core.migration.decided(write, KNOWN.topics, at(5_000)))
    assert one.core.classic.groups[GROUP].members.keys() == {"a-", "b"}


def is_of_one_type(core: GroupCoordinator) -> bool:
    """Whether a group with members is a consumer group or a classic one, and not both."""
    known = core.consumers.get(GROUP)
    return core.classic.get(GROUP) is None or known is None or not known.members


def test_a_group_that_has_gone_back_since_is_a_consumer_group_again_if_what_came_before_is_not_written() -> None:
    """It was of both types: its next record left those of the consumer group in the log."""
    one = Coordinator()
    one.stable()
    one.beat()
    one.beat("d")
    one.is_writing = False
    one.beat("d", epoch=-1)
    one.beat(epoch=-1)
    assert one.core.classic.groups[GROUP].members.keys() == {"a-"}
    one.fail()
    assert is_of_one_type(one.core)
    assert {*one.group.members} == {"a-", "c", "d"}


def test_a_classic_group_over_an_empty_one_is_none_if_that_is_not_written_to_be_empty() -> None:
    one = Coordinator()
    one.beat()
    one.is_writing = False
    one.beat(epoch=-1)
    token = one.join("", version=3, unique="x")
    assert one.core.classic.groups[GROUP].members.keys() == {"-x"}
    one.fail()
    assert is_of_one_type(one.core)
    assert {*one.group.members} == {"c"}
    assert one.told[token].error is ErrorCode.coordinator_not_available


def test_who_waits_in_a_group_that_has_gone_over_and_back_is_told_if_its_going_over_is_not_written() -> None:
    one = Coordinator()
    one.stable()
    one.is_writing = False
    one.beat()
    one.beat(epoch=-1)
    token = one.join("", version=3, unique="x")
    one.fail()
    assert one.told[token].error is ErrorCode.coordinator_not_available
    group = one.core.classic.groups[GROUP]
    assert (group.state, [*group.members]) == (ClassicState.PREPARING_REBALANCE, ["a-"])

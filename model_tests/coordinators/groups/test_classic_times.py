"""When the coordinator of a classic group waits no longer: for first members, for who syncs, for who was replaced."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.coordinator import NOTHING
from tidegauge.impl.coordinators.groups.classic.messages import JoinGroup, Moment
from tidegauge.impl.coordinators.groups.group_metadata import GroupMetadata
from tidegauge.model_tests.coordinators.groups.members import DELAY_MS, RANGE, REBALANCE_MS, SESSION_MS, Members


@pytest.mark.parametrize("rebalance_timeout_ms", [DELAY_MS - 1, DELAY_MS])
def test_the_first_wait_is_the_only_one_where_the_rebalance_timeout_is_no_longer(rebalance_timeout_ms: int) -> None:
    group = Members()
    (a,) = group.joining("a", rebalance_timeout_ms=rebalance_timeout_ms)
    group.after(DELAY_MS - 1)
    (b,) = group.joining("b", rebalance_timeout_ms=rebalance_timeout_ms)
    group.after(1)
    assert group.state == ("CompletingRebalance", 1, {a, b})


def static_a(group: Members) -> str:
    """A stable group of two, of which the follower is static and has not asked for its assignment; its member id."""
    (a,) = group.joining("a", session_timeout_ms=2 * REBALANCE_MS)
    group.join("b", instance_id="b", session_timeout_ms=2 * REBALANCE_MS)
    group.after(2 * DELAY_MS)
    group.sync("a syncs", a)
    group.commit()
    b = group.group.instances["b"]
    assert (group.state, list(group.group.unsynced)) == (("Stable", 1, {a, b}), [b])
    return a


def test_who_was_replaced_is_not_waited_for_to_ask_for_its_assignment() -> None:
    group = Members()
    a = static_a(group)
    group.join("b restarts", instance_id="b", session_timeout_ms=2 * REBALANCE_MS)
    group.commit()
    assert (group.group.sync_deadline, group.group.unsynced) == (None, {})
    group.after(REBALANCE_MS)
    assert group.state == ("Stable", 1, {a, group.group.instances["b"]})


def test_a_session_that_ends_before_the_new_id_is_in_the_log_begins_anew_with_the_response() -> None:
    group = Members()
    a = static_a(group)
    group.join("b restarts", instance_id="b")
    group.after(SESSION_MS)
    b = group.group.instances["b"]
    assert group.group.members[b].session_deadline is None, "its request waits"
    group.commit()
    assert group.responses["b restarts"].member_id == b
    assert group.group.members[b].session_deadline == group.now_ms + SESSION_MS
    group.after(SESSION_MS)
    assert group.state == ("PreparingRebalance", 1, {a})


def test_a_new_id_that_is_not_in_the_log_stays_the_members_where_another_generation_is_stable_by_then() -> None:
    group = Members()
    a = static_a(group)
    group.join("b restarts", instance_id="b")
    (late,) = group.writes
    group.writes.clear()
    group.join("a leads", a)
    b = group.group.instances["b"]
    group.sync("b syncs again", b)
    group.sync("a assigns", a)
    group.commit()
    assert group.state == ("Stable", 2, {a, b})
    group.take(group.core.failed(late, ErrorCode.not_coordinator, group.now))
    assert group.state == ("Stable", 2, {a, b})


def test_a_group_that_is_about_to_be_deleted_is_known_though_the_id_that_it_gave_expires() -> None:
    group = Members()
    group.given("a")
    group.core.ending(["g"])
    group.after(SESSION_MS)
    assert group.state == ("Dead", 0, set())
    response = group.join("b")
    assert response is not None
    assert response.error is ErrorCode.coordinator_not_available


@pytest.mark.parametrize(("protocol_type", "is_known"), [("consumer", True), ("", False)])
def test_a_group_before_its_first_generation_is_known_by_the_type_that_its_record_has(
    protocol_type: str, is_known: bool
) -> None:
    group = Members()
    group.core.load("g", GroupMetadata(protocol_type, 0, None, None, 0, ()), group.now)
    assert ("g" in group.core.groups) is is_known


def test_what_was_due_when_another_broker_became_the_coordinator_brings_nothing_about() -> None:
    group = Members()
    for name in ("g", "h"):
        asked = JoinGroup(name, "consumer", RANGE, session_timeout_ms=SESSION_MS, unique=name)
        group.core.join(asked, name, group.now)
    due = group.core.time_passed(Moment(SESSION_MS, 0))
    assert [note.group for note in next(due).notes] == ["g"]
    group.core.unload()
    assert list(due) == [NOTHING]

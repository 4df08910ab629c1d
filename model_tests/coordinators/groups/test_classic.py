"""The classic group protocol at its coordinator: who is in a generation, who is told what, and when."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.messages import JoinedMember, Leaving, Left, SyncResponse
from tidegauge.impl.coordinators.groups.classic.state import Protocol
from tidegauge.impl.coordinators.groups.requests import Commit
from tidegauge.model_tests.coordinators.groups.members import (
    DELAY_MS,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    WALL_MS,
    Members,
)

NONE = ErrorCode.none
IN_PROGRESS = ErrorCode.rebalance_in_progress
UNKNOWN = ErrorCode.unknown_member_id


# --- the first generation --------------------------------------------------------------------------------------------


def test_members_of_an_empty_group_wait_for_more_and_are_one_generation() -> None:
    group = Members()
    (a,) = group.joining("a")
    group.after(DELAY_MS - 1)
    (b,) = group.joining("b")
    group.after(DELAY_MS)
    assert group.state == ("PreparingRebalance", 0, {a, b}), "b has come, and others may"
    group.after(DELAY_MS)
    assert group.state == ("CompletingRebalance", 1, {a, b})
    told = group.responses["a"]
    assert (told.generation, told.protocol_type, told.protocol, told.leader) == (1, "consumer", "range", a)
    assert told.members == (JoinedMember(a, None, b"r"), JoinedMember(b, None, b"r"))
    assert group.responses["b"] == attrs.evolve(told, member_id=b, members=())


def test_the_wait_for_the_first_members_ends_with_the_rebalance_timeout_however_many_come() -> None:
    group = Members()
    group.joining("a", rebalance_timeout_ms=4 * DELAY_MS)
    for nth in range(20):
        group.after(DELAY_MS - 1)
        if "a" in group.responses:
            break
        group.joining(f"b{nth}", rebalance_timeout_ms=4 * DELAY_MS)
    assert group.now_ms <= 6 * DELAY_MS
    assert group.responses["a"].generation == 1


def test_without_an_initial_delay_the_first_member_is_a_generation_at_once() -> None:
    group = Members(initial_delay_ms=0)
    (a,) = group.joining("a")
    group.after(0)
    assert group.state == ("CompletingRebalance", 1, {a})


def test_everybody_is_told_its_assignment_once_that_is_in_the_log() -> None:
    group = Members()
    a, b, c = group.joining("a", "b", "c")
    group.after(2 * DELAY_MS)
    assert group.sync("b syncs", b) is None
    assert group.sync("a syncs", a, assignments=((a, b"1"), (b, b"2"), ("nobody", b"3"))) is None
    assert group.sync("a again", a, assignments=((a, b"9"),)) is None
    assert group.responses.pop("a syncs") == SyncResponse(IN_PROGRESS), "the later request is the member's"
    assert len(group.writes) == 1, "what the leader assigns first counts"
    (written,) = [write.metadata for write in group.writes]
    assert (written.generation, written.protocol, written.leader, written.protocol_type) == (1, "range", a, "consumer")
    assert {one.member_id: one.assignment for one in written.members} == {a: b"1", b: b"2", c: b""}
    group.commit()
    assert group.state == ("Stable", 1, {a, b, c})
    told = SyncResponse(NONE, "consumer", "range", b"1")
    assert (group.responses["a again"], group.responses["b syncs"]) == (told, attrs.evolve(told, assignment=b"2"))
    assert group.sync("c syncs", c) == attrs.evolve(told, assignment=b"")
    assert group.group.sync_deadline is None


@pytest.mark.parametrize("error", [ErrorCode.coordinator_not_available, ErrorCode.not_coordinator])
def test_an_assignment_that_is_not_written_is_nobodys_and_the_group_rebalances(error: ErrorCode) -> None:
    group = Members()
    a, b = group.joining("a", "b")
    group.after(2 * DELAY_MS)
    group.sync("b syncs", b)
    group.sync("a syncs", a, assignments=((a, b"1"), (b, b"2")))
    (late,) = group.writes
    group.refuse(error)
    assert group.responses["a syncs"] == group.responses["b syncs"] == SyncResponse(error)
    assert group.state == ("PreparingRebalance", 1, {a, b})
    group.take(group.core.written(late, group.now))
    assert group.state == ("PreparingRebalance", 1, {a, b}), "it is too late"
    group.join("a rejoins", a)
    group.join("b rejoins", b)
    group.take(group.core.written(late, group.now))
    assert group.state == ("CompletingRebalance", 2, {a, b})


# --- JoinGroup -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"session_timeout_ms": 5_999}, ErrorCode.invalid_session_timeout),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.invalid_session_timeout),
        ({"protocols": ()}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": ""}, ErrorCode.inconsistent_group_protocol),
        ({"member_id": "x"}, UNKNOWN),
        ({"instance_id": "i" * 40_000}, ErrorCode.invalid_request),
        ({"protocols": (Protocol("x" * 40_000, b""),)}, ErrorCode.invalid_request),
    ],
)
def test_who_is_refused_leaves_no_group_behind(fields: dict[str, Any], error: ErrorCode) -> None:
    group = Members()
    response = group.join("a", **fields)
    assert response is not None
    assert response.error is error
    assert not group.core.groups
    assert group.core.next_deadline() is None


def test_a_member_id_that_nobody_joins_with_is_forgotten_with_its_session() -> None:
    group = Members()
    a = group.given("a")
    assert (a, group.state) == ("a-1", ("Empty", 0, set()))
    group.after(SESSION_MS - 1)
    assert list(group.group.pending) == [a]
    group.after(1)
    assert not group.core.groups
    response = group.join("a", a)
    assert response is not None
    assert response.error is UNKNOWN


def test_an_old_client_is_a_member_at_once() -> None:
    group = Members()
    assert group.join("a", version=3) is None
    assert group.state == ("PreparingRebalance", 0, {"a-1"})


def test_a_member_without_a_protocol_that_all_know_is_refused() -> None:
    group = Members()
    (a,) = group.stable("a")
    for fields in ({"protocol_type": "connect"}, {"protocols": (Protocol("sticky", b""),)}):
        response = group.join(f"b {fields}", **fields)
        assert response is not None
        assert response.error is ErrorCode.inconsistent_group_protocol
    assert group.state == ("Stable", 1, {a})


def test_the_protocol_with_the_most_votes_is_taken_of_those_that_all_know() -> None:
    group = Members(initial_delay_ms=DELAY_MS)
    names = {"a": "srq", "b": "rs", "c": "xrs"}
    for name, known in names.items():
        group.joining(name, protocols=tuple(Protocol(one, f"{name}{one}".encode()) for one in known))
    group.after(2 * DELAY_MS)
    assert group.group.protocol == "r"
    assert [one.metadata for one in group.responses["a"].members] == [b"ar", b"br", b"cr"]


def test_a_follower_that_joins_again_unchanged_is_told_the_generation_and_the_leader_rebalances() -> None:
    group = Members()
    a, b = group.stable("a", "b")
    response = group.join("b again", b)
    assert response is not None
    assert (response.error, response.generation, response.leader, response.members) == (NONE, 1, a, ())
    assert group.join("a again", a) is None
    assert group.state == ("PreparingRebalance", 1, {a, b})
    assert group.heartbeat(b) is IN_PROGRESS


@pytest.mark.parametrize("is_stable", [True, False])
def test_a_member_with_other_metadata_has_the_group_rebalance(is_stable: bool) -> None:
    group = Members()
    if is_stable:
        a, b = group.stable("a", "b")
    else:
        a, b = group.joining("a", "b")
        group.after(2 * DELAY_MS)
        assert group.join("a again", a) == group.responses["a"], "it has missed the response, perhaps"
        group.sync("a syncs", a)
        assert len(group.writes) == 1
    assert group.join("b changes", b, protocols=(Protocol("range", b"other"),)) is None
    if not is_stable:
        assert group.responses["a syncs"] == SyncResponse(IN_PROGRESS)
    group.join("a rejoins", a)
    assert group.state == ("CompletingRebalance", 2, {a, b})
    group.commit()
    assert group.state == ("CompletingRebalance", 2, {a, b}), "an older assignment is no assignment"


def test_a_member_that_asks_twice_has_one_request_that_waits() -> None:
    group = Members()
    a = group.given("a")
    group.join("first", a)
    group.join("second", a)
    assert group.responses["first"].error is IN_PROGRESS
    group.after(2 * DELAY_MS)
    assert group.responses["second"].generation == 1
    assert group.group.joined == 0


# --- rebalances ------------------------------------------------------------------------------------------------------


def test_who_has_not_joined_again_in_time_is_out_and_another_one_leads() -> None:
    group = Members()
    a, b, c = group.stable("a", "b", "c", session_timeout_ms=REBALANCE_MS + 1)
    group.join("b changes", b, protocols=(Protocol("range", b"x"),), session_timeout_ms=REBALANCE_MS + 1)
    for _ in range(6):
        group.after(REBALANCE_MS // 6 - 1)
        assert group.heartbeat(c) is IN_PROGRESS, "it lives, and does not join"
        assert "b changes" not in group.responses
    group.after(6)
    assert group.state == ("CompletingRebalance", 2, {b})
    assert group.responses["b changes"].leader == b
    assert (group.heartbeat(a), group.heartbeat(c)) == (UNKNOWN, UNKNOWN)


def test_a_pending_member_holds_a_rebalance_up_until_it_joins_or_its_id_expires() -> None:
    group = Members()
    (a,) = group.stable("a")
    b = group.given("b")
    group.join("a again", a)
    assert group.state == ("PreparingRebalance", 1, {a})
    group.join("b", b)
    assert group.state == ("CompletingRebalance", 2, {a, b})
    group.given("c", session_timeout_ms=6_000)
    group.join("a changes", a, protocols=(Protocol("range", b"x"),))
    group.join("b changes", b)
    assert group.state == ("PreparingRebalance", 2, {a, b})
    group.after(6_000)
    assert group.state == ("CompletingRebalance", 3, {a, b})


def test_a_group_whose_last_member_leaves_is_empty_and_that_is_written_first() -> None:
    group = Members()
    (a,) = group.stable("a")
    assert group.leave("a leaves", Leaving(a)) is None
    assert group.state == ("Empty", 2, set())
    (write,) = group.writes
    assert (write.metadata.members, write.metadata.generation, write.metadata.protocol) == ((), 2, None)
    assert (write.metadata.protocol_type, write.metadata.leader) == ("consumer", None)
    assert write.metadata.state_time == WALL_MS + group.now_ms
    group.commit()
    assert group.responses["a leaves"].members == (Left(a, None, NONE),)
    (b,) = group.joining("b")
    group.after(2 * DELAY_MS)
    assert group.state == ("CompletingRebalance", 3, {b}), "generations go on"


def test_a_leave_that_is_not_written_has_its_error() -> None:
    group = Members()
    (a,) = group.stable("a")
    group.leave("a leaves", Leaving(a))
    group.refuse(ErrorCode.not_coordinator)
    assert group.responses["a leaves"].error is ErrorCode.not_coordinator
    assert group.state == ("Empty", 2, set())


def test_members_leave_together_and_each_has_its_own_error() -> None:
    group = Members()
    a, b, _ = group.stable("a", "b", "c")
    pending = group.given("d")
    assert group.join("s", instance_id="i") is None
    gone = (Leaving(b), Leaving("x"), Leaving("", "i"), Leaving("", "j"), Leaving(a, "i"), Leaving(pending))
    left = group.leave("leave", *gone)
    errors = [NONE, UNKNOWN, NONE, UNKNOWN, UNKNOWN, NONE]
    assert left.members == tuple(
        Left(one.member_id, one.instance_id, error) for one, error in zip(gone, errors, strict=True)
    )
    assert group.responses["s"].error is UNKNOWN, "it was removed"
    assert len(group.group.members) == 2
    assert not group.group.pending


def test_a_leave_of_one_that_waits_for_its_assignment_ends_both_requests() -> None:
    group = Members()
    a, b = group.joining("a", "b")
    group.after(2 * DELAY_MS)
    group.sync("b syncs", b)
    group.leave("b leaves", Leaving(b))
    assert group.responses["b syncs"].error is UNKNOWN
    assert group.state == ("PreparingRebalance", 1, {a})
    assert group.group.sync_deadline is None


def test_who_waits_for_an_assignment_when_a_rebalance_begins_has_none_and_a_whole_session() -> None:
    group = Members()
    a, b = group.stable("a", "b")
    for name, member_id in zip("ab", (a, b), strict=True):
        group.join(f"{name} joins", member_id, protocols=(Protocol("range", b"x"),))
    assert group.state == ("CompletingRebalance", 2, {a, b})
    group.sync("b waits", b)
    group.after(SESSION_MS - 1)
    group.heartbeat(a)
    group.after(1)
    assert group.group.members[b].session_deadline is None
    group.joining("c")
    assert group.responses["b waits"] == SyncResponse(IN_PROGRESS)
    assert group.group.members[b].session_deadline == group.now_ms + SESSION_MS
    assert [one.assignment for one in group.group.members.values()] == [b"", b"", b""]
    assert group.sync("b asks again", b).error is IN_PROGRESS
    group.leave("a leaves", Leaving(a))
    assert group.group.leader == b


def test_members_that_never_ask_for_their_assignment_are_out() -> None:
    group = Members()
    a, b = group.joining("a", "b", session_timeout_ms=4 * REBALANCE_MS)
    group.after(2 * DELAY_MS)
    group.sync("a syncs", a, assignments=((a, b"1"),))
    group.commit()
    group.after(REBALANCE_MS)
    assert group.state == ("PreparingRebalance", 1, {a})
    assert group.heartbeat(a) is IN_PROGRESS
    assert group.heartbeat(b) is UNKNOWN


# --- sessions --------------------------------------------------------------------------------------------------------


def test_heartbeats_and_commits_keep_a_session_and_silence_ends_it() -> None:
    group = Members()
    a, b = group.stable("a", "b")
    for _ in range(3):
        group.after(SESSION_MS - 1)
        assert group.heartbeat(a) is NONE
        group.core.committed_by("g", b, group.now)
    group.after(SESSION_MS - 1)
    group.heartbeat(a)
    group.after(1)
    assert group.state == ("PreparingRebalance", 1, {a})
    group.join("a again", a)
    assert group.state == ("CompletingRebalance", 2, {a})


def test_who_waits_for_others_keeps_its_session_and_has_a_whole_one_afterwards() -> None:
    group = Members()
    a, b = group.stable("a", "b", session_timeout_ms=6_000)
    group.join("a again", a, session_timeout_ms=6_000)
    for _ in range(5):
        group.after(5_000)
        group.heartbeat(b)
    assert group.group.members[a].session_deadline is None
    group.join("b again", b, session_timeout_ms=6_000)
    assert group.group.members[a].session_deadline == group.now_ms + 6_000
    group.sync("b waits", b)
    group.after(5_999)
    group.heartbeat(a)
    group.after(3_000)
    group.sync("a assigns", a)
    group.commit()
    assert group.group.members[b].session_deadline == group.now_ms + 6_000


def test_a_new_members_request_waits_five_minutes_at_most() -> None:
    group = Members()
    (a,) = group.stable("a", session_timeout_ms=1_800_000, rebalance_timeout_ms=1_800_000)
    (b,) = group.joining("b")
    group.after(5 * 60 * 1000 - 1)
    assert group.state == ("PreparingRebalance", 1, {a, b})
    group.after(1)
    assert group.responses["b"].error is UNKNOWN
    assert group.state == ("PreparingRebalance", 1, {a})


@pytest.mark.parametrize(
    ("generation", "member", "instance", "error"),
    [(1, 0, None, NONE), (2, 0, None, ErrorCode.illegal_generation), (1, 1, None, UNKNOWN), (1, 0, "i", UNKNOWN)],
)
def test_a_heartbeat_is_of_a_member_of_the_present_generation(
    generation: int, member: int, instance: str | None, error: ErrorCode
) -> None:
    group = Members()
    (a,) = group.stable("a")
    assert group.heartbeat((a, "x")[member], generation, instance) is error
    sync = group.sync("sync", (a, "x")[member], generation, instance_id=instance)
    assert sync.error is error


def test_a_sync_of_another_protocol_is_refused() -> None:
    group = Members()
    (a,) = group.stable("a")
    others: tuple[dict[str, Any], ...] = ({"protocol": "sticky"}, {"protocol_type": "connect"})
    for nth, fields in enumerate(others):
        assert group.sync(str(nth), a, **fields).error is ErrorCode.inconsistent_group_protocol
    assert group.sync("right", a, protocol="range", protocol_type="consumer").error is NONE


def test_a_member_commits_in_a_rebalance_and_not_before_it_knows_its_assignment() -> None:
    group = Members()
    (a,) = group.stable("a")

    def error(**fields: Any) -> ErrorCode:
        return group.core.commit_error(group.group, Commit("g", (), **{"generation": 1, "member_id": a, **fields}))

    assert error() is NONE
    assert error(generation=0) is ErrorCode.illegal_generation
    assert error(generation=-1, member_id="") is UNKNOWN
    group.joining("b")
    assert group.group.state.value == "PreparingRebalance"
    assert error() is NONE
    group.join("a again", a)
    assert error() is ErrorCode.illegal_generation
    assert error(generation=2) is IN_PROGRESS
    assert error(generation=2, is_transactional=True) is NONE


# --- static members --------------------------------------------------------------------------------------------------


def static(group: Members, *names: str, **fields: Any) -> list[str]:
    """A stable group of static members."""
    for name in names:
        group.join(name, instance_id=name, **fields)
    group.after(2 * DELAY_MS)
    ids = [group.group.instances[name] for name in names]
    for name, member_id in zip(names, ids, strict=True):
        group.sync(f"{name} syncs", member_id, assignments=tuple((one, one.encode()) for one in ids))
    group.commit()
    assert group.state == ("Stable", 1, set(ids))
    return ids


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("name", ["a", "b"])
def test_a_static_member_comes_again_without_a_rebalance(name: str, version: int) -> None:
    group = Members()
    ids = dict(zip("ab", static(group, "a", "b"), strict=True))
    assert group.join("again", instance_id=name, version=version) is None, "its id is to be in the log first"
    assert group.heartbeat(ids[name], 1, name) is ErrorCode.fenced_instance_id
    assert group.heartbeat(ids[name], 1) is UNKNOWN
    group.commit()
    told, new = group.responses["again"], group.group.instances[name]
    assert new != ids[name]
    assert (told.error, told.generation, told.member_id) == (NONE, 1, new)
    leads = name == "a"
    assert told.leader == (ids["a"] if not leads or version == 8 else new)
    assert told.skip_assignment is (leads and version == 9)
    assert len(told.members) == (2 if leads and version == 9 else 0)
    assert group.state == ("Stable", 1, {new, ids["b" if leads else "a"]})
    assert group.sync("again syncs", new).assignment == ids[name].encode()
    assert {one.member_id: one.assignment for one in group.log[-1].members}[new] == ids[name].encode()


def test_a_static_member_whose_new_id_is_not_written_has_its_old_one() -> None:
    group = Members()
    a, b = static(group, "a", "b")
    group.join("again", instance_id="a", protocols=(Protocol("range", b"new"),))
    group.refuse(ErrorCode.coordinator_not_available)
    assert group.responses["again"].error is ErrorCode.coordinator_not_available
    assert group.state == ("Stable", 1, {a, b})
    assert group.heartbeat(a, 1, "a") is NONE
    assert (group.group.leader, group.group.members[a].protocols, group.group.joined) == (a, RANGE, 0)


def test_a_static_member_that_changes_the_protocol_of_the_group_has_it_rebalance() -> None:
    group = Members()
    both = (Protocol("range", b""), Protocol("sticky", b""))
    _, b = static(group, "a", "b", protocols=both)
    group.join("again", instance_id="a", protocols=both[1:])
    assert not group.writes
    assert group.state[:2] == ("PreparingRebalance", 1)
    group.join("b again", b, instance_id="b", protocols=both)
    assert group.responses["b again"].protocol == "sticky"


def test_a_static_member_that_comes_again_in_a_rebalance_has_joined_it() -> None:
    group = Members()
    _, b = static(group, "a", "b")
    group.join("a restarts", instance_id="a")
    assert len(group.writes) == 1
    group.join("b changes", b, instance_id="b", protocols=(Protocol("range", b"x"),))
    assert group.responses["a restarts"].generation == 2, "all have joined"
    group.commit()
    assert group.state[:2] == ("CompletingRebalance", 2)
    group.join("b restarts", instance_id="b")
    assert group.state[:2] == ("PreparingRebalance", 2), "the leader knows of the old one"
    group.join("b restarts again", instance_id="b")
    assert group.responses["b restarts"].error is ErrorCode.fenced_instance_id


def test_a_static_member_that_comes_again_has_joined_a_rebalance_that_began_since() -> None:
    group = Members()
    a, b, c = static(group, "a", "b", "c")
    group.join("a restarts", instance_id="a")
    group.join("b changes", b, instance_id="b", protocols=(Protocol("range", b"x"),))
    group.commit()
    assert "a restarts" not in group.responses, "its id is in the log, and the generation is over"
    group.join("c joins", c, instance_id="c")
    assert group.responses["a restarts"].generation == 2
    group.sync("b syncs again", b, instance_id="b")
    group.join("b restarts", instance_id="b")
    assert group.responses["b syncs again"].error is ErrorCode.fenced_instance_id
    assert a not in group.group.members


def test_a_static_member_is_waited_for_until_its_session_ends() -> None:
    group = Members()
    a, b = static(group, "a", "b", session_timeout_ms=2 * REBALANCE_MS)
    group.join("a leads", a, instance_id="a", session_timeout_ms=2 * REBALANCE_MS)
    group.after(REBALANCE_MS)
    assert group.state == ("CompletingRebalance", 2, {a, b}), "it comes back, perhaps"
    assert set(group.group.unsynced) == {a, b}


def test_a_rebalance_that_nobody_joins_goes_on_until_sessions_end() -> None:
    group = Members()
    static(group, "a", session_timeout_ms=3 * REBALANCE_MS)
    group.joining("b", session_timeout_ms=6_000)
    group.leave("b leaves", Leaving(next(iter(set(group.group.members) - set(group.group.instances.values())))))
    group.after(REBALANCE_MS)
    assert group.state[:2] == ("PreparingRebalance", 1)
    assert group.group.join_deadline == group.now_ms + REBALANCE_MS
    group.after(3 * REBALANCE_MS)
    assert group.state == ("Empty", 2, set())


# --- sizes -----------------------------------------------------------------------------------------------------------


def test_a_group_has_no_more_members_than_it_may() -> None:
    group = Members(max_size=2)
    a, b = group.stable("a", "b")
    response = group.join("c", instance_id="i")
    assert response is not None
    assert response.error is ErrorCode.group_max_size_reached
    group.join("b again", b, protocols=(Protocol("range", b"x"),))
    group.join("a again", a)
    assert group.state == ("CompletingRebalance", 2, {a, b})


def test_an_id_that_was_given_is_taken_back_when_the_group_is_full() -> None:
    group = Members(max_size=1)
    a, b = group.given("a"), group.given("b")
    group.join("a", a)
    response = group.join("b", b)
    assert response is not None
    assert response.error is ErrorCode.group_max_size_reached
    group.after(DELAY_MS)
    assert group.state == ("CompletingRebalance", 1, {a})
    assert not group.group.pending


def test_a_group_that_is_too_large_when_it_is_loaded_loses_who_joins_last() -> None:
    group = Members(max_size=3)
    a, b, c = group.stable("a", "b", "c")
    group.core.limits = attrs.evolve(group.core.limits, max_size=2)
    group.reload()
    assert group.state == ("PreparingRebalance", 1, {a, b, c})
    group.join("c rejoins", c)
    group.join("a rejoins", a)
    response = group.join("b rejoins", b)
    assert response is not None
    assert response.error is ErrorCode.group_max_size_reached
    assert group.state == ("CompletingRebalance", 2, {a, c})


# --- coordinators ----------------------------------------------------------------------------------------------------


def test_another_coordinator_knows_the_last_stable_generation_and_members_have_new_sessions() -> None:
    group = Members()
    a, b = group.stable("a", "b")
    group.joining("c")
    group.join("b rejoins", b)
    group.reload()
    assert {group.responses[one].error for one in ("c", "b rejoins")} == {ErrorCode.not_coordinator}
    assert group.state == ("Stable", 1, {a, b})
    assert (group.heartbeat(a), group.sync("b syncs again", b).assignment) == (NONE, b"b")
    assert (group.group.leader, group.group.protocol, group.group.members[a].protocols) == (a, "range", RANGE)
    group.after(SESSION_MS - 1)
    assert group.state == ("Stable", 1, {a, b})
    group.after(1)
    assert group.state == ("Empty", 2, set())


def test_a_coordinator_that_is_none_any_more_says_so_to_who_waits_for_an_assignment() -> None:
    group = Members()
    group.stable("z")
    a, b = group.joining("a", "b")
    group.leave("z leaves", Leaving("z-1"))
    group.sync("b syncs", b)
    group.reload()
    assert group.responses["b syncs"].error is ErrorCode.not_coordinator
    assert group.heartbeat(a) is UNKNOWN

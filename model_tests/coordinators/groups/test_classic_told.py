"""What a coordinator of classic groups tells operators and who follows it, and what it knows of subscriptions."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.fields import LONGEST_STRING
from tidegauge.impl.coordinators.groups.classic import subscriptions
from tidegauge.impl.coordinators.groups.classic.coordinator import End
from tidegauge.impl.coordinators.groups.classic.messages import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Leaving,
    Moment,
    Noted,
    SyncGroup,
)
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicState, Protocol, from_log
from tidegauge.impl.coordinators.groups.requests import Commit
from tidegauge.model_tests.coordinators.groups.members import DELAY_MS, RANGE, REBALANCE_MS, SESSION_MS, Members
from tidegauge.model_tests.harness.cores.migration_abstraction import subscription

NONE = ErrorCode.none
UNKNOWN = ErrorCode.unknown_member_id


def test_operators_are_told_what_becomes_of_a_group() -> None:
    group = Members()
    a, b = group.stable("a", "b", rebalance_timeout_ms=SESSION_MS - 1)
    assert group.noted() == [
        (Noted.JOINED, 0, a, 0),
        (Noted.REBALANCE, 0, "", 1),
        (Noted.JOINED, 0, b, 0),
        (Noted.GENERATION, 1, "", 2),
        (Noted.STABLE, 1, "", 2),
    ]
    group.leave("b leaves", Leaving(b, reason="enough"))
    assert group.noted() == [(Noted.LEFT, 1, b, 0), (Noted.REBALANCE, 1, "", 1)]
    c = group.given("c")
    group.after(SESSION_MS)
    assert group.noted() == [
        (Noted.REMOVED, 1, "", 1),
        (Noted.EMPTY, 2, "", 0),
        (Noted.EXPIRED, 2, c, 0),
    ], "a has not joined again in time, and nobody has joined with the id that c was given"
    group.refuse(ErrorCode.not_leader_or_follower)
    assert group.noted() == [(Noted.NOT_WRITTEN, 2, "", 0)]
    assert a not in group.group.members


def test_operators_are_told_of_a_member_that_sends_nothing_and_of_those_who_never_ask() -> None:
    group = Members()
    (a,) = group.stable("a")
    group.noted()
    group.after(SESSION_MS)
    assert group.noted()[:2] == [(Noted.EXPIRED, 1, a, 0), (Noted.REBALANCE, 1, "", 0)]
    group = Members()
    group.joining("a", session_timeout_ms=2 * REBALANCE_MS)
    group.after(DELAY_MS + DELAY_MS)
    group.noted()
    group.after(REBALANCE_MS)
    assert group.noted()[0] == (Noted.REMOVED, 1, "", 1), "it has not sent SyncGroup"


def test_operators_are_told_how_many_members_have_left_together() -> None:
    group = Members()
    a, b, _ = group.stable("a", "b", "c")
    outcome = group.core.leave(LeaveGroup("g", (Leaving(a), Leaving("nobody"), Leaving(b))), "leave", group.now)
    (began,) = [note for note in outcome.notes if note.what is Noted.REBALANCE]
    assert began.why == "2 members have left"


def test_who_follows_a_coordinator_is_told_that_a_group_is_not_deleted_after_all() -> None:
    group = Members()
    (a,) = group.stable("a")
    group.leave("leaves", Leaving(a))
    told: list[Any] = []
    group.core.watch = lambda asked, known, came, token: told.append((asked, known.state))
    group.core.ending(["g"])
    group.core.kept(["g"])
    assert told == [(End.ENDING, ClassicState.DEAD), (End.KEPT, ClassicState.EMPTY)]


def test_a_protocol_that_no_member_knows_any_more_is_forgotten() -> None:
    group = Members()
    both = (*RANGE, Protocol("sticky", b""))
    (a,) = group.stable("a", protocols=both)
    group.join("again", a, protocols=both[1:])
    assert dict(group.group.supported) == {"sticky": 1}


def test_who_follows_a_coordinator_is_told_what_it_takes_in() -> None:
    group = Members()
    told: list[Any] = []
    group.core.watch = lambda asked, known, came, token: told.append((asked, token))
    (a,) = group.stable("a")
    group.heartbeat(a)
    group.core.committed_by("g", a, group.now)
    group.leave("leaves", Leaving(a))
    kinds = [(type(asked).__name__, token) for asked, token in told]
    assert kinds == [
        ("JoinGroup", "a asks"),
        ("JoinGroup", "a"),
        ("DeadlineKey", None),
        ("SyncGroup", "a syncs"),
        ("GroupWrite", None),
        ("Heartbeat", None),
        ("str", None),
        ("LeaveGroup", "leaves"),
    ]


def test_a_group_without_a_name_is_none() -> None:
    group, wrong = Members(), ErrorCode.invalid_group_id
    for outcome in (
        group.core.join(JoinGroup("", "consumer", RANGE), "joins", group.now),
        group.core.sync(SyncGroup("", 1, "a"), "syncs", group.now),
        group.core.leave(LeaveGroup("", (Leaving("a"),)), "leaves", group.now),
    ):
        ((_, response),) = outcome.responses
        assert response.error is wrong
    assert group.core.heartbeat(Heartbeat("", 1, "a"), group.now) is wrong


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize(
    ("field", "length", "wrong"),
    [
        ("group", LONGEST_STRING, ErrorCode.invalid_group_id),
        ("protocol_type", LONGEST_STRING, ErrorCode.invalid_request),
        ("client_id", LONGEST_STRING - 64, ErrorCode.invalid_request),
    ],
)
def test_names_are_as_long_as_a_record_has_room_for(field: str, length: int, wrong: ErrorCode, more: int) -> None:
    """A member id is the client's id and 64 bytes more at most."""
    group = Members()
    longest: dict[str, Any] = {field: "x" * (length + more)}
    asked = attrs.evolve(JoinGroup("g", "consumer", RANGE, session_timeout_ms=SESSION_MS), **longest)
    assert group.core.join_error(asked) is (wrong if more else ErrorCode.none)


def test_operators_are_told_why_a_member_joins_if_it_says_so() -> None:
    whys = []
    for reason in ("", "it has new topics"):
        asked = JoinGroup("g", "consumer", RANGE, version=3, reason=reason)
        outcome = Members().core.join(asked, "a", Moment(0, 0))
        whys += [note.why for note in outcome.notes if note.what is Noted.REBALANCE]
    assert ["; it says: " in why for why in whys] == [False, True]
    assert whys[1].endswith("; it says: it has new topics")


def test_a_group_without_a_protocol_type_has_an_empty_one_in_the_log() -> None:
    written = ClassicGroup("g").written({})
    assert written.protocol_type == ""
    assert from_log("g", written).protocol_type is None


def test_so_many_topics_of_all_members_are_read_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MOST_TOPICS", 3)
    says = [protocol.metadata for names in ("t", "uv", "wx") for protocol in consumers(*names)]
    assert subscriptions.subscribed_topics(says[:2]) == frozenset("tuv")
    assert subscriptions.subscribed_topics(says[1:]) is None


def test_what_consumers_subscribe_to_is_what_the_members_of_the_present_generation_have_said() -> None:
    """It is read once a generation; before there is a protocol nobody knows, and any topic may be needed."""
    group = Members()
    (a,) = group.joining("a", protocols=consumers("t"))
    assert group.group.subscriptions() is None
    assert group.group.is_subscribed("u")
    group.after(2 * DELAY_MS)
    assert [group.group.subscriptions() for _ in range(2)] == [frozenset("t")] * 2
    assert [group.group.is_subscribed(topic) for topic in "tu"] == [True, False]
    group.join("again", a, protocols=consumers("u"))
    assert group.group.generation == 2
    assert (group.group.subscriptions(), group.group.is_subscribed("t")) == (frozenset("u"), False)
    group.leave("leaves", Leaving(a))
    assert (group.group.subscriptions(), group.group.is_subscribed("u")) == (frozenset(), False)
    group.commit()
    group.joining("b", protocols=consumers("u"))
    assert group.group.subscriptions() is None, "the generation is the empty group's yet"
    connect = Members()
    connect.stable("a", protocol_type="connect", protocols=consumers("t"))
    assert connect.group.subscriptions() is None
    assert not connect.group.is_subscribed("t")


def consumers(*topics: str) -> tuple[Protocol, ...]:
    """The protocol of consumers that subscribe to these topics."""
    return (Protocol("range", subscription(topics, (), 0)),)


def test_a_record_of_a_group_that_is_gone_is_told_to_who_waits_for_it() -> None:
    group = Members()
    (a,) = group.stable("a")
    group.leave("leaves", Leaving(a))
    (write,) = group.writes
    group.core.groups.clear()
    group.take(group.core.failed(write, ErrorCode.not_coordinator, group.now))
    assert group.responses["leaves"].error is ErrorCode.not_coordinator


def test_a_transactional_producer_of_before_kip_447_commits_whatever_the_group_does() -> None:
    group = Members()
    group.stable("a")
    rules, says = group.core.rules, Commit("g", [])
    assert rules.commit_error(group.group, says) is UNKNOWN
    assert rules.commit_error(group.group, attrs.evolve(says, is_transactional=True)) is NONE
    group.after(SESSION_MS)
    assert group.group.state is ClassicState.EMPTY
    assert rules.commit_error(group.group, says) is NONE

"""What a coordinator of consumer groups (KIP-848) says and refuses beside the rules that lockstep compares."""

from __future__ import annotations

from typing import Any, Final

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.fields import LONGEST_STRING
from tidegauge.impl.coordinators.groups.classic.state import Protocol
from tidegauge.impl.coordinators.groups.consumer.coordinator import (
    Beat,
    ConsumerGroups,
    ConsumerLimits,
    ConsumerWrite,
    Decided,
    Deleted,
    Removed,
    Told,
    WentOver,
)
from tidegauge.impl.coordinators.groups.consumer.rules import PAUSE_MS, ConsumerRules
from tidegauge.impl.coordinators.groups.consumer.state import (
    ClassicSide,
    ConsumerGroup,
    ConsumerHeartbeat,
    ConsumerMember,
    HeartbeatResponse,
    Resolved,
    Topic,
)
from tidegauge.impl.coordinators.groups.requests import Commit, NewOffset
from tidegauge.model_tests.harness.cores.known_topics import Known

NONE = ErrorCode.none
GROUP: Final = "group"
ID: Final = "00000000-0000-0000-0000-000000000001"
KNOWN: Final = Known({"orders": Topic(ID, 2)})
SESSION_MS: Final = 1_000
REBALANCE_MS: Final = 300
TOO_LONG: Final = "x" * (LONGEST_STRING + 1)
CLASSIC: Final = ClassicSide(9, (Protocol("p", b"m"),))


def asked(member_id: str = "a", epoch: int = 0, **said: Any) -> ConsumerHeartbeat:
    """A heartbeat that says all, unless it is told otherwise."""
    says: dict[str, Any] = {
        "rebalance_timeout_ms": REBALANCE_MS,
        "topics": ("orders",),
        "owned": frozenset(),
        **said,
    }
    return ConsumerHeartbeat(GROUP, member_id, epoch, **says)


def beat(core: ConsumerGroups, request: ConsumerHeartbeat, now_ms: int = 0) -> HeartbeatResponse:
    """The response to a heartbeat, and what it writes is committed."""
    made = core.heartbeat(request, KNOWN, SESSION_MS, now_ms)
    if isinstance(made, HeartbeatResponse):
        return made
    if made.records:
        core.written(made)
    return made.response


def joined(*members: str, limits: ConsumerLimits | None = None) -> ConsumerGroups:
    """A coordinator whose group has these members."""
    core = ConsumerGroups(limits)
    for member in members:
        assert beat(core, asked(member)).error is NONE
    return core


# --- who is let in ---------------------------------------------------------------------------------------------------


def test_a_group_is_full_for_who_is_new_and_for_nobody_else() -> None:
    core = joined("a", limits=ConsumerLimits(max_size=2))
    assert beat(core, asked("s", instance_id="i")).error is NONE
    refused = beat(core, asked("c"))
    assert (refused.error, refused.message) == (ErrorCode.group_max_size_reached, "it has 2 members")
    assert beat(core, asked("c", instance_id="j")).error is ErrorCode.group_max_size_reached
    assert beat(core, asked("a")).error is NONE, "it joins again"
    assert beat(core, asked("s", -2, instance_id="i")).error is NONE
    assert beat(core, asked("t", instance_id="i")).error is NONE, "it takes the place of the former process"
    assert beat(core, asked("unknown", 1)).error is ErrorCode.unknown_member_id


def test_a_member_goes_on_in_a_group_that_is_full() -> None:
    core = joined("a", limits=ConsumerLimits(max_size=1))
    assert beat(core, asked("a", 2)).error is NONE


@pytest.mark.parametrize("field", ["member_id", "instance_id", "client_id", "client_host", "expression"])
def test_a_text_that_no_record_has_room_for_is_refused(field: str) -> None:
    core = ConsumerGroups()
    too_long: dict[str, Any] = {field: TOO_LONG}
    refused = beat(core, attrs.evolve(asked(), **too_long))
    assert (refused.error, refused.message) == (ErrorCode.invalid_request, "a text is too long")
    assert core.get(GROUP) is None
    assert beat(core, attrs.evolve(asked(), client_id=TOO_LONG[1:])).error is NONE


def test_a_group_that_is_not_there_is_found_by_who_joins_alone() -> None:
    for epoch in (1, -1, -2):
        assert beat(ConsumerGroups(), asked("a", epoch)).error is ErrorCode.group_id_not_found


def test_a_member_is_told_in_which_epoch_it_is_and_not_why_it_is_unknown() -> None:
    core = joined("a")
    fenced = beat(core, asked("a", 9))
    assert (fenced.error, fenced.message) == (
        ErrorCode.fenced_member_epoch,
        "the member is in epoch 2, not 9: join again",
    )
    assert beat(core, asked("x", 2)) == HeartbeatResponse(ErrorCode.unknown_member_id)


def test_who_says_that_it_comes_back_and_is_no_static_member_is_out() -> None:
    core = joined("a", "b")
    beat(core, asked("a", -2))
    assert {*core.groups[GROUP].members} == {"b"}


# --- what a heartbeat says -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "is_full"),
    [
        (ConsumerHeartbeat(GROUP, "a", 0), True),
        (asked("a", 3), True),
        (asked("a", 3, rebalance_timeout_ms=-1), False),
        (asked("a", 3, topics=None), False),
        (asked("a", 3, owned=None), False),
        (ConsumerHeartbeat(GROUP, "a", 3), False),
    ],
)
def test_who_joins_says_all_and_so_does_who_leaves_nothing_out(request_: ConsumerHeartbeat, is_full: bool) -> None:
    assert request_.is_full is is_full


def test_what_a_heartbeat_leaves_out_is_as_it_was() -> None:
    core = ConsumerGroups()
    beat(core, asked(rack_id="r", assignor="range", expression="x.*", client_id="c", client_host="/h"))
    before = core.groups[GROUP].members["a"]
    short = ConsumerHeartbeat(GROUP, "a", 2, client_id="c", client_host="/h")
    made = core.heartbeat(short, KNOWN, SESSION_MS, 0)
    assert isinstance(made, ConsumerWrite)
    assert made.records == ()
    assert core.groups[GROUP].members["a"].subscription == before.subscription
    beat(core, attrs.evolve(short, rebalance_timeout_ms=7))
    assert core.groups[GROUP].members["a"].rebalance_timeout_ms == 7


# --- what is told of a group -----------------------------------------------------------------------------------------

IN_EPOCH = ConsumerMember("a", epoch=4)


@pytest.mark.parametrize(
    ("members", "epoch", "state"),
    [
        ((), 4, "Empty"),
        ((), 5, "Empty"),
        ((IN_EPOCH,), 5, "Assigning"),
        ((IN_EPOCH,), 4, "Stable"),
        ((attrs.evolve(IN_EPOCH, epoch=3),), 4, "Reconciling"),
        ((attrs.evolve(IN_EPOCH, revoking={(ID, 0): 3}),), 4, "Reconciling"),
        ((attrs.evolve(IN_EPOCH, is_waiting=True),), 4, "Reconciling"),
        ((IN_EPOCH, ConsumerMember("b", epoch=3)), 4, "Reconciling"),
    ],
)
def test_the_state_of_a_group(members: tuple[ConsumerMember, ...], epoch: int, state: str) -> None:
    by_name = {one.member_id: one for one in members}
    assert ConsumerGroup(GROUP, epoch=epoch, target_epoch=4, members=by_name).state == state


def test_a_group_subscribes_to_what_one_of_its_members_names_or_matches() -> None:
    members = {
        "a": ConsumerMember("a", topics=frozenset({"t"})),
        "b": ConsumerMember("b", topics=frozenset({"v"}), expression="u.*"),
    }
    group = ConsumerGroup(GROUP, members=members, resolved={"u.*": Resolved(frozenset({"u1"}), 1, 0)})
    assert [name for name in ("t", "u1", "v", "w") if group.is_subscribed(name)] == ["t", "u1", "v"]
    assert group.subscriptions == {frozenset({"t"}), frozenset({"u1", "v"})}
    assert group.without("b").resolved == {}
    assert group.without("a").resolved == group.resolved


def test_a_classic_member_has_told_what_its_first_protocol_says() -> None:
    assert CLASSIC.metadata == b"m"
    assert ClassicSide(9, ()).metadata == b""


# --- offsets ---------------------------------------------------------------------------------------------------------


def of_members(*members: ConsumerMember) -> ConsumerGroup:
    return ConsumerGroup(GROUP, epoch=5, target_epoch=5, members={one.member_id: one for one in members})


ONE = of_members(
    ConsumerMember("m", epoch=5, previous_epoch=4, assigned={(ID, 0): 3, (ID, 1): 5}, revoking={(ID, 2): 2}),
    ConsumerMember("c", epoch=5, classic=CLASSIC),
)


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, NONE),
        (None, 0, ErrorCode.unknown_member_id),
        ("", -1, ErrorCode.unknown_member_id),
        ("m", -1, ErrorCode.stale_member_epoch),
        ("m", 5, NONE),
        ("m", 4, ErrorCode.stale_member_epoch),
        ("m", 6, ErrorCode.stale_member_epoch),
        ("x", 5, ErrorCode.unknown_member_id),
    ],
)
def test_who_is_told_offsets(member_id: str | None, epoch: int, error: ErrorCode) -> None:
    """A member in its epoch, and who says that it is none."""
    assert ConsumerRules().fetch_error(ONE, member_id, epoch) is error


@pytest.mark.parametrize(
    ("group", "member_id", "epoch", "error", "places"),
    [
        (of_members(), "", -1, NONE, ""),
        (of_members(), "m", 0, ErrorCode.unknown_member_id, ""),
        (of_members(), "m", 5, ErrorCode.unknown_member_id, ""),
        (ONE, "", -1, ErrorCode.unknown_member_id, ""),
        (ONE, "m", 5, NONE, ""),
        (ONE, "m", 6, ErrorCode.stale_member_epoch, ""),
        (ONE, "m", 4, NONE, "13"),
        (ONE, "m", 3, NONE, "13"),
        (ONE, "m", 2, NONE, "013"),
        (ONE, "m", 1, NONE, "0123"),
        (ONE, "m", -1, NONE, "0123"),
        (ONE, "c", 5, NONE, ""),
        (ONE, "c", 4, ErrorCode.illegal_generation, ""),
    ],
)
def test_whose_commit_is_taken_and_of_which_partitions_it_is_not(
    group: ConsumerGroup, member_id: str, epoch: int, error: ErrorCode, places: str
) -> None:
    """A member may be behind by epochs, with what it has had since then; a classic one may not (KIP-1251)."""
    new = [NewOffset("orders", index, 7) for index in range(4)]
    commit = Commit(GROUP, new, epoch, member_id, topic_ids={"orders": ID})
    refused = {("orders", int(index)): ErrorCode.stale_member_epoch for index in places}
    assert ConsumerGroups().commit_errors(group, commit) == (error, refused)


@pytest.mark.parametrize(
    ("member_id", "error"), [("m", ErrorCode.stale_member_epoch), ("c", ErrorCode.rebalance_in_progress)]
)
def test_what_a_member_has_not_it_commits_in_the_epoch_of_the_target_and_in_none_before(
    member_id: str, error: ErrorCode
) -> None:
    new = [NewOffset("orders", index, 7) for index in range(4)]
    commit = Commit(GROUP, new, 5, member_id, topic_ids={"orders": ID})
    missing = {("orders", index): error for index in range(4) if (ID, index) not in ONE.members[member_id].assigned}
    missing = {place: why for place, why in missing.items() if (ID, place[1]) not in ONE.members[member_id].revoking}
    assert missing
    assert ConsumerGroups().commit_errors(attrs.evolve(ONE, target_epoch=5), commit) == (NONE, {})
    assert ConsumerGroups().commit_errors(attrs.evolve(ONE, target_epoch=6), commit) == (NONE, missing)


# --- deletion, time and the log --------------------------------------------------------------------------------------


def test_a_group_without_members_is_deleted_and_no_other() -> None:
    core = joined("a")
    told: list[Decided] = []
    core.watching = lambda group, decided: told.append(decided)
    assert core.delete("another") is ErrorCode.group_id_not_found
    assert core.delete(GROUP) is ErrorCode.non_empty_group
    beat(core, asked("a", -1))
    told.clear()
    write = core.delete(GROUP)
    assert isinstance(write, ConsumerWrite)
    assert {one.value for one in write.records} == {None}
    assert (told, core.groups, [*core.committed]) == ([Deleted()], {}, [GROUP])
    core.written(write)
    assert core.committed == {}


def test_who_follows_a_coordinator_is_told_what_becomes_of_a_member_and_of_its_group() -> None:
    core = joined("a", "b")
    told: list[Decided] = []
    core.watching = lambda group, decided: told.append(decided)
    request = asked("a", 2)
    made = core.heartbeat(request, KNOWN, SESSION_MS, 0)
    assert isinstance(made, ConsumerWrite)
    core.responded(made)
    core.remove(core.groups[GROUP], "b")
    core.forget(GROUP)
    assert told == [Beat(request, KNOWN, made), Told(made), Removed("b"), WentOver()]
    assert (core.groups, core.next_deadline() is None or [*core.time_passed(SESSION_MS)]) == ({}, [])


def test_a_member_is_out_at_the_end_of_its_session_and_not_before() -> None:
    core = joined("a")
    beat(core, asked("a", 2), now_ms=10)
    assert [*core.time_passed(SESSION_MS + 9)] == []
    (removal,) = core.time_passed(SESSION_MS + 10)
    assert removal.after is not None
    assert removal.after.members == {}


def test_a_member_that_does_not_give_back_in_the_time_that_it_has_named_is_out() -> None:
    core = joined("a", "b")
    assert beat(core, asked("a", 2, owned=None), now_ms=5).assignment == frozenset({(ID, 0)})
    beat(core, asked("a", 2, owned=None), now_ms=100)
    assert [*core.time_passed(REBALANCE_MS + 4)] == [], "its heartbeats do not put that off"
    (removal,) = core.time_passed(REBALANCE_MS + 5)
    assert removal.after is not None
    assert {*removal.after.members} == {"b"}


def test_who_names_no_time_to_give_back_has_none() -> None:
    core = ConsumerGroups()
    beat(core, asked("a", rebalance_timeout_ms=-1))
    beat(core, asked("b"))
    beat(core, asked("a", 2, rebalance_timeout_ms=-1, owned=None), now_ms=5)
    assert len([*core.time_passed(5)]) == 1


def test_what_is_written_is_in_the_log_when_that_or_a_later_one_is_committed() -> None:
    core = ConsumerGroups()
    first, second = (core.heartbeat(asked(one), KNOWN, SESSION_MS, 0) for one in "ab")
    assert isinstance(first, ConsumerWrite)
    assert isinstance(second, ConsumerWrite)
    assert not core.is_committed(first)
    core.written(first)
    assert (core.is_committed(first), core.is_committed(second)) == (True, False)
    core.written(second)
    assert (core.is_committed(first), core.is_committed(second)) == (True, True)
    core.forget(GROUP)
    core.committed.clear()
    assert core.is_committed(second), "the group is a classic one since"


def test_a_coordinator_that_has_resigned_knows_nothing() -> None:
    core = joined("a")
    core.unload()
    assert (core.groups, core.committed, core.next_deadline()) == ({}, {}, None)
    assert not core.has_looked(GROUP, KNOWN.version)


# --- topics ----------------------------------------------------------------------------------------------------------


OTHERS: Final = Known({"orders": Topic(ID, 2), "others": Topic(ID[:-1] + "2", 1)}, version=3, newest=2, time_ms=5)
BY_EXPRESSION: Final[dict[str, Any]] = {"expression": "o.*", "topics": ()}


def resolved(core: ConsumerGroups, known: Known, write: ConsumerWrite | HeartbeatResponse) -> ConsumerWrite | None:
    """What is written of what a heartbeat has begun."""
    assert isinstance(write, ConsumerWrite)
    assert write.resolution is not None, "nothing is begun"
    return core.end_resolution(write.resolution, known)


def test_what_an_expression_matches_comes_after_the_heartbeat_that_brings_it() -> None:
    core = ConsumerGroups()
    begun = core.heartbeat(asked(**BY_EXPRESSION), KNOWN, SESSION_MS, 0)
    assert isinstance(begun, ConsumerWrite)
    assert (begun.response.epoch, begun.response.assignment) == (1, frozenset())
    assert core.groups[GROUP].resolved == {}
    assert resolved(core, OTHERS, begun) is not None
    assert core.groups[GROUP].resolved == {"o.*": Resolved(frozenset({"orders", "others"}), 3, 5)}
    assert (core.groups[GROUP].epoch, core.groups[GROUP].target_epoch) == (2, 1)
    told = core.heartbeat(asked("a", 1, **BY_EXPRESSION), OTHERS, SESSION_MS, 0)
    assert isinstance(told, ConsumerWrite)
    assert (told.response.epoch, len(told.response.assignment or ())) == (2, 3)
    assert told.resolution is None, "it is resolved"


@pytest.mark.parametrize(
    ("known", "is_begun"),
    [
        (Known(OTHERS.topics, 9, 9, PAUSE_MS), False),
        (Known(OTHERS.topics, 9, 1, PAUSE_MS + 1), False),
        (Known(OTHERS.topics, 9, 2, PAUSE_MS + 1), True),
        (Known(OTHERS.topics, 1, 1, 50_000), False),
        (Known(OTHERS.topics, 1, 1, 50_001), True),
        (Known(OTHERS.topics, 9, 9, -1), True),
    ],
    ids=["too soon", "nothing is new", "a topic is new", "not yet due", "due", "a clock that was set back"],
)
def test_when_expressions_are_resolved_again(known: Known, is_begun: bool) -> None:
    core = ConsumerGroups(ConsumerLimits(refresh_ms=50_000))
    resolved(core, KNOWN, core.heartbeat(asked(**BY_EXPRESSION), KNOWN, SESSION_MS, 0))
    again = core.heartbeat(asked("a", 1, **BY_EXPRESSION), known, SESSION_MS, 0)
    assert isinstance(again, ConsumerWrite)
    assert (again.resolution is not None) is is_begun


def test_expressions_are_resolved_together_and_one_that_comes_meanwhile_after_them() -> None:
    core = ConsumerGroups()
    first = core.heartbeat(asked(**BY_EXPRESSION), KNOWN, SESSION_MS, 0)
    second = core.heartbeat(asked("b", expression="x", topics=()), KNOWN, SESSION_MS, 0)
    assert isinstance(second, ConsumerWrite)
    assert second.resolution is None, "one is being resolved"
    resolved(core, KNOWN, first)
    assert set(core.groups[GROUP].resolved) == {"o.*"}
    later = attrs.evolve(KNOWN, time_ms=PAUSE_MS + 1)
    third = core.heartbeat(asked("a", 1, **BY_EXPRESSION), later, SESSION_MS, 0)
    assert isinstance(third, ConsumerWrite)
    assert third.resolution is not None
    assert third.resolution.expressions == ("o.*", "x")
    resolved(core, later, third)
    assert core.groups[GROUP].resolved["x"] == Resolved(frozenset(), 1, PAUSE_MS + 1)
    assert core.groups[GROUP].epoch == 2, "an expression that matches nothing begins no epoch"


def test_nothing_is_kept_of_what_only_a_member_that_leaves_has_matched() -> None:
    """The other member's expression is not resolved yet: there are as many as before."""
    core = ConsumerGroups()
    resolved(core, KNOWN, core.heartbeat(asked(**BY_EXPRESSION), KNOWN, SESSION_MS, 0))
    core.heartbeat(asked("b", expression="x", topics=()), KNOWN, SESSION_MS, 0)
    core.remove(core.groups[GROUP], "a")
    assert (core.groups[GROUP].expressions, core.groups[GROUP].resolved) == ({"x"}, {})


def test_a_member_with_another_expression_gives_back_what_the_former_one_matched() -> None:
    core = ConsumerGroups()
    resolved(core, KNOWN, core.heartbeat(asked(**BY_EXPRESSION), KNOWN, SESSION_MS, 0))
    beat(core, asked("a", 1, **BY_EXPRESSION))
    places = frozenset(core.groups[GROUP].members["a"].assigned)
    assert len(places) == 2
    told = beat(core, asked("a", 2, expression="or.*", topics=(), owned=places))
    assert (told.epoch, told.assignment, core.groups[GROUP].epoch) == (2, frozenset(), 3)
    assert beat(core, asked("a", 2, expression="or.*", topics=())).epoch == 3


def test_what_was_begun_in_a_group_that_is_gone_is_of_no_effect() -> None:
    core = ConsumerGroups()
    begun = core.heartbeat(asked(**BY_EXPRESSION), KNOWN, SESSION_MS, 0)
    core.forget(GROUP)
    assert resolved(core, KNOWN, begun) is None
    core.heartbeat(asked(**BY_EXPRESSION), KNOWN, SESSION_MS, 0)
    assert resolved(core, KNOWN, begun) is None, "the group has begun again"
    assert core.groups[GROUP].resolved == {}


def test_what_is_no_expression_is_refused_and_nothing_is_changed() -> None:
    core = joined("a")
    before = core.groups[GROUP]
    refused = beat(core, asked("b", expression="("))
    assert refused.error is ErrorCode.invalid_regular_expression
    assert refused.message
    assert core.groups[GROUP] is before


# --- targets ---------------------------------------------------------------------------------------------------------

BOTH: Final = frozenset({(ID, 0), (ID, 1)})


def at(core: ConsumerGroups, time_ms: int, request: ConsumerHeartbeat, known: Known = KNOWN) -> HeartbeatResponse:
    """The response to a heartbeat at a time; what it writes is committed."""
    made = core.heartbeat(request, attrs.evolve(known, time_ms=time_ms), SESSION_MS, 0)
    assert isinstance(made, ConsumerWrite)
    if made.records:
        core.written(made)
    return made.response


def spaced(interval_ms: int = 1_000) -> ConsumerGroups:
    """A coordinator with such an interval between targets, whose group has a member since the time 5,000."""
    core = ConsumerGroups(ConsumerLimits(interval_ms=lambda group: interval_ms if group == GROUP else 0))
    assert at(core, 5_000, asked("a")).assignment == BOTH, "the first target is made at once"
    return core


def test_the_next_target_is_made_when_the_interval_has_passed_and_not_before() -> None:
    core = spaced()
    second = at(core, 5_001, asked("b"))
    assert (second.epoch, second.assignment) == (2, frozenset()), "it is a member, in the epoch of the target"
    assert (core.groups[GROUP].epoch, core.groups[GROUP].state) == (3, "Assigning")
    at(core, 5_999, asked("a", 2))
    assert core.groups[GROUP].target_epoch == 2
    at(core, 6_000, asked("a", 2))
    group = core.groups[GROUP]
    assert (group.target_epoch, group.target_ms, set(group.target)) == (3, 6_000, {"a", "b"})


def test_one_target_is_made_for_all_epochs_that_began_meanwhile() -> None:
    core = spaced()
    for member in ("b", "c"):
        at(core, 5_001, asked(member))
    at(core, 5_002, asked("b", -1))
    assert (core.groups[GROUP].epoch, core.groups[GROUP].target_epoch) == (5, 2)
    at(core, 6_500, asked("c", 2))
    assert (core.groups[GROUP].target_epoch, set(core.groups[GROUP].target)) == (5, {"a", "c"})


@pytest.mark.parametrize("time_ms", [1, 5_001])
def test_without_an_interval_a_target_is_made_at_once_though_the_clock_was_set_back(time_ms: int) -> None:
    core = spaced(interval_ms=0)
    at(core, time_ms, asked("b"))
    assert core.groups[GROUP].target_epoch == core.groups[GROUP].epoch == 3


def test_no_target_waits_for_a_clock_that_was_set_back() -> None:
    """Nor for one that is behind the former coordinator's: who has died would keep its partitions until then."""
    core = spaced()
    at(core, 4_999, asked("b"))
    assert (core.groups[GROUP].target_epoch, core.groups[GROUP].target_ms) == (3, 4_999)
    at(core, 5_500, asked("c"))
    assert (core.groups[GROUP].epoch, core.groups[GROUP].target_epoch) == (4, 3), "the interval counts from there"


def test_who_joins_an_empty_group_does_not_wait() -> None:
    core = spaced()
    at(core, 5_001, asked("a", -1))
    assert core.groups[GROUP].target_ms == 0
    assert at(core, 5_002, asked("b")).assignment == BOTH


def test_what_a_member_unsubscribes_from_it_gives_back_before_the_next_target() -> None:
    core = spaced()
    told = at(core, 5_001, asked("a", 2, topics=("others",), owned=BOTH))
    assert (told.epoch, told.assignment) == (2, frozenset())
    assert set(core.groups[GROUP].members["a"].revoking) == BOTH
    assert at(core, 5_002, asked("a", 2, topics=("others",))).epoch == 2
    assert not core.groups[GROUP].holders
    assert core.groups[GROUP].target == {"a": BOTH}, "the target is as it was"


def test_what_was_given_back_already_is_not_asked_for_again() -> None:
    core = spaced()
    at(core, 5_001, asked("a", 2, topics=("others",)))
    assert core.groups[GROUP].members["a"].revoking == {}
    assert not core.groups[GROUP].holders


def test_a_member_gives_back_more_in_the_epoch_that_it_is_in() -> None:
    known = Known({name: Topic(f"00000000-0000-0000-0000-00000000000{n}", 1) for n, name in enumerate("tuv")})
    core, (t, u, v) = ConsumerGroups(ConsumerLimits(interval_ms=lambda group: 1_000)), known.topics
    places = {name: (topic.topic_id, 0) for name, topic in known.topics.items()}
    owned = frozenset(places.values())
    assert at(core, 5_000, asked("a", topics=(t, u, v)), known).assignment == owned
    at(core, 5_001, asked("a", 2, topics=(t, u), owned=owned), known)
    told = at(core, 5_002, asked("a", 2, topics=(t,), owned=owned), known)
    assert (told.epoch, told.assignment) == (2, frozenset({places[t]})), "what it has to give back meanwhile is more"
    assert set(core.groups[GROUP].members["a"].revoking) == {places[u], places[v]}
    told = at(core, 5_003, asked("a", 2, topics=(), owned=frozenset({places[t]})), known)
    assert (told.epoch, told.assignment) == (2, frozenset()), "and what it has to give back after that"
    assert at(core, 5_004, asked("a", 2, topics=()), known).epoch == 2


def test_what_is_deleted_is_given_back_before_the_next_target() -> None:
    core = spaced()
    gone = Known({}, version=2)
    assert at(core, 5_001, asked("a", 2, owned=BOTH), gone).assignment == frozenset()
    assert core.groups[GROUP].target_epoch == 2


def test_who_subscribes_again_before_the_next_target_has_its_part_again() -> None:
    core = spaced()
    at(core, 5_001, asked("a", 2, topics=("others",), owned=BOTH))
    told = at(core, 5_002, asked("a", 2))
    assert (told.epoch, told.assignment) == (2, BOTH)


def test_when_a_target_was_made_is_known_to_the_next_coordinator() -> None:
    core, later = spaced(), ConsumerGroups(ConsumerLimits(interval_ms=lambda group: 1_000))
    later.committed = dict(core.committed)
    later.load(GROUP, SESSION_MS, 0)
    at(later, 5_999, asked("b"))
    assert later.groups[GROUP].target_epoch == 2
    at(later, 6_000, asked("b", 2))
    assert later.groups[GROUP].target_epoch == 3

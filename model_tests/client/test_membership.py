"""What few walks of lockstep come to: a member that is told late, leads again, or wants less."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.assignors.known import assignors_of
from tidegauge.impl.client.assignors.subscription import Subscription
from tidegauge.impl.client.membership import Changes, GivenBack, Identity, Membership, State

ME = Identity("me", 1)
A, B = ("a", 0), ("b", 0)


def member(assignor: str = "cooperative-sticky") -> Membership:
    """One that has joined, leads, and waits for its part."""
    one = Membership(["a", "b"], assignors_of([assignor]))
    one.join()
    one.joined(ME, assignor, "me", {"me": Subscription(("a", "b"))}, {"a": 1, "b": 1})
    return one


def stable(assignor: str = "cooperative-sticky") -> Membership:
    one = member(assignor)
    assert one.sync() == {"me": (A, B)}
    assert one.synced([A, B]) == Changes((), (A, B))
    return one


def test_a_rebalance_is_a_reason_to_join_only_for_who_has_its_part() -> None:
    waiting, working = member(), stable()
    for one in (waiting, working):
        one.told(ErrorCode.rebalance_in_progress, ME)
    assert (waiting.state, working.state) == (State.JOINED, State.UNSETTLED)
    assert working.may_commit(), "until it joins"


def test_what_was_said_of_a_former_membership_changes_nothing() -> None:
    one = stable()
    one.told(ErrorCode.unknown_member_id, Identity("me", 0))
    one.told(ErrorCode.fenced_instance_id, Identity("other", 1))
    assert (one.state, one.identity) == (State.STABLE, ME)


def test_a_leader_that_leads_the_same_generation_again_goes_by_what_it_has_shared_out_first() -> None:
    one = member()
    one.sync()
    one.lost_connection()
    one.join()
    one.joined(ME, "cooperative-sticky", "me", {"me": Subscription(("a", "b"))}, {"a": 3, "b": 1})
    one.sync()
    one.synced([A, B])
    assert one.notices({"a": 3, "b": 1}), "nobody may have the new ones"
    assert one.state is State.UNSETTLED


def test_a_cooperative_member_gives_back_what_it_does_not_want_and_an_eager_one_all() -> None:
    for assignor, given, kept in (("cooperative-sticky", (B,), (A,)), ("sticky", (A, B), ())):
        one = stable(assignor)
        one.subscribe(["a"])
        assert one.wants_to_join()
        assert one.to_give_back() == GivenBack(given, is_lost=False)
        one.join()
        said = one.says(one.assignors[0])
        assert (one.owned, said.topics) == (kept, ("a",))
        assert said.owned == (kept or (A, B)), "an eager one says what it had, for the sticky assignor"


def test_a_leader_in_a_rack_has_all_join_again_when_replicas_are_elsewhere() -> None:
    here, there = {"a": (frozenset("r"),)}, {"a": (frozenset("s"),)}
    for rack, notices in (("r", True), ("", False)):
        one = Membership(["a"], assignors_of(["range"]), rack=rack)
        one.join()
        assert one.says(one.assignors[0]).rack == rack
        one.joined(ME, "range", "me", {"me": Subscription(("a",))}, {"a": 1}, here)
        one.sync()
        one.synced([A])
        assert not one.notices({"a": 1}, here)
        assert one.notices({"a": 1}, there) is notices


@pytest.mark.parametrize(
    ("error", "identity", "is_lost"),
    [
        (ErrorCode.unknown_member_id, Identity(), True),
        (ErrorCode.illegal_generation, Identity("me"), True),
        (ErrorCode.rebalance_in_progress, ME, False),
    ],
)
def test_what_is_lost_and_what_is_only_given_back(error: ErrorCode, identity: Identity, is_lost: bool) -> None:
    one = stable("range")
    one.told(error, ME)
    assert (one.identity, one.to_give_back()) == (identity, GivenBack((A, B), is_lost=is_lost))
    assert one.may_commit() is not is_lost


def test_a_static_member_says_nothing_when_it_goes() -> None:
    static = Membership(["a"], assignors_of(["range"]), "i")
    static.join()
    static.joined(ME, "range", "other", {}, {})
    assert static.leave() is None
    dynamic = stable()
    assert (dynamic.leave(), dynamic.state, dynamic.heartbeat()) == ("me", State.LEFT, None)

"""Rules of lag asked alone, in states to which the small models seldom come."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.spec.lag.machine import Lag, Shrink, who_keeps_up_stays
from tidegauge.spec.lag.state import Fetched, Follower, Request, State, Witness

MACHINE = Lag(limit=1)


def state_with(*fetches: Fetched, end: int = 3) -> State:
    """At time 5, with a follower in sync that is behind and has fetched so."""
    follower = Follower(end=1, process=0, caught_up_at=0)
    return State((follower,), (None,), (0,), Witness(fetches=(fetches,)), now=5, end=end)


def is_kept(*fetches: Fetched) -> bool:
    """Whether the follower is one that must not be dropped."""
    state = state_with(*fetches)
    assert MACHINE.lagging(state) == {0}
    return not who_keeps_up_stays(MACHINE, state, Shrink(), state)


@pytest.mark.parametrize(
    ("offset", "leader_end", "shows_it"), [(2, 2, True), (3, 2, True), (1, 2, False)], ids=["all", "more", "less"]
)
def test_one_fetch_of_all_that_the_leader_had_then_shows_that_a_follower_keeps_up(
    offset: int, leader_end: int, shows_it: bool
) -> None:
    assert is_kept(Fetched(at=4, process=0, offset=offset, leader_end=leader_end)) is shows_it


@pytest.mark.parametrize(("at", "shows_it"), [(3, False), (4, True), (5, True)])
def test_what_a_follower_had_before_the_limit_shows_nothing(at: int, shows_it: bool) -> None:
    assert is_kept(Fetched(at=at, process=0, offset=2, leader_end=2)) is shows_it


def test_two_fetches_in_a_row_show_that_a_follower_had_all_at_the_first() -> None:
    first = Fetched(at=4, process=0, offset=1, leader_end=2)
    assert is_kept(first, Fetched(at=5, process=0, offset=2, leader_end=3))
    assert not is_kept(first, Fetched(at=5, process=1, offset=2, leader_end=3)), "of another process"


def test_no_fetch_is_at_rest_at_a_broker_that_does_not_lead() -> None:
    state = state_with(end=1)
    request = Request(epoch=0, process=0, offset=1)
    assert MACHINE.is_at_rest(state, 0, request)
    assert not MACHINE.is_at_rest(attrs.evolve(state, leads=False), 0, request)

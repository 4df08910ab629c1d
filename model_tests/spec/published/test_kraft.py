"""What the published KRaft model is made of; TLC's counts of it are in `test_tlc`."""

from __future__ import annotations

from typing import Any

import pytest

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.published.kraft import variants
from tidegauge.spec.published.kraft.machine import Kraft
from tidegauge.spec.published.kraft.state import NOBODY, Entry, Error, Position, RequestVoteResponse, Role


def test_a_log_is_truncated_behind_the_last_entry_that_is_not_behind_the_leaders() -> None:
    log = (Entry(2, 0), Entry(2, 1), Entry(4, 2))
    cut = {
        end: len(Kraft().truncated(log, end)) for end in (Position(), Position(1, 2), Position(5, 2), Position(1, 3))
    }
    assert cut == {Position(): 0, Position(1, 2): 1, Position(5, 2): 2, Position(1, 3): 2}
    assert Kraft().truncated(log, Position(3, 4)) == log


@pytest.mark.parametrize("constant", ["servers", "values"])
def test_constants_that_fit_no_state_are_refused_by_name(constant: str) -> None:
    with pytest.raises(ValueError, match=f"{constant}=0"):
        next(iter(Kraft(**{constant: 0}).initial()))


def test_a_violation_shows_who_leads_and_the_logs() -> None:
    found = explore(variants.CommitsWithoutMajority(), symmetry=True)
    values: dict[str, Any] = dict(found.violations[0].values)
    assert sorted(values["high watermarks"]) == [0, 0, 1]
    assert sorted(map(len, values["logs"])) == [0, 0, 1]


@pytest.mark.parametrize("error", [Error.NONE, Error.FENCED_LEADER_EPOCH])
def test_a_response_of_a_former_epoch_says_nothing_but_to_who_counts_stale_votes(error: Error) -> None:
    """What KB9 of TLC's runs takes out is a clause of all responses: one with an error leads to an illegal state."""
    server = evolve(next(iter(Kraft().initial())).servers[0], epoch=4, role=Role.VOTED, voted_for=2)
    leader = NOBODY if error == Error.NONE else 0
    response = RequestVoteResponse(2, 0, 3, error == Error.NONE, leader, error)
    assert Kraft().responded(0, server, response) == (server, True)
    after, is_all = variants.CountsStaleVotes().responded(0, server, response)
    assert (after.role, is_all) == ((Role.VOTED, False) if error == Error.NONE else (Role.ILLEGAL, True))


def test_who_counts_stale_votes_learns_of_no_leader_from_a_former_epoch() -> None:
    """The clause that makes a server a follower asks for its own epoch."""
    server = evolve(next(iter(Kraft().initial())).servers[0], epoch=4, role=Role.CANDIDATE)
    response = RequestVoteResponse(2, 0, 3, False, 1)
    assert variants.CountsStaleVotes().responded(0, server, response) == (server, False)
    now = evolve(response, epoch=4)
    assert Kraft().responded(0, server, now) == (evolve(server, role=Role.FOLLOWER, leader=1), True)

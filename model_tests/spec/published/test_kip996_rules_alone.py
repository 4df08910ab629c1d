"""Rules of the published KIP-996 model asked alone, in states that its small searches do not reach."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.spec.published.kip853.actions import sending
from tidegauge.spec.published.kip853.state import (
    Fetching,
    FetchRequest,
    FetchResponse,
    LastResponse,
    RequestVoteRequest,
    RequestVoteResponse,
    Role,
    Server,
    State,
    taken,
)
from tidegauge.spec.published.kip996.actions import (
    CheckQuorumResign,
    ConcludePreVote,
    SendFetchRequest,
    fetch_failures,
)
from tidegauge.spec.published.kip996.machine import Kip996
from tidegauge.spec.published.kip996.messages import HandleVoteResponse
from tidegauge.spec.published.kip996.variants import Unattached
from tidegauge.spec.published.kraft.state import NOBODY, Error, Position, Result

MACHINE = Kip996(servers=3, max_servers=3, hosts=3, max_epoch=3)


def state_with(number: int, **changes: Any) -> State:
    """The beginning, in which server 0 leads the other two, but for one server."""
    (state,) = MACHINE.initial()
    return state.with_server(number, attrs.evolve(state.servers[number], **changes))


def voter(**changes: Any) -> Server:
    """Server 1, which knows no leader."""
    known: dict[str, Any] = {"role": Role.UNATTACHED, "leader": NOBODY, "voted_for": NOBODY}
    return state_with(1, **{**known, **changes}).servers[1]


def asks(source: int = 2, *, pre_vote: bool = False, end: Position | None = None) -> RequestVoteRequest:
    """A server asks for a vote; its log is as long as the voter's, or ends elsewhere."""
    return RequestVoteRequest(source, 1, 1, voter().end if end is None else end, pre_vote=pre_vote)


@pytest.mark.parametrize(
    ("changes", "grants"),
    [
        ({}, True),
        ({"role": Role.PROSPECTIVE}, True),
        ({"role": Role.PROSPECTIVE, "leader": 0}, False),
        ({"role": Role.FOLLOWER, "leader": 0}, False),
        ({"role": Role.CANDIDATE, "voted_for": 2}, False),
        ({"voted_for": 2}, True),
        ({"voted_for": 0}, False),
    ],
    ids=["unattached", "asks itself", "knows a leader", "follows", "candidate", "voted so", "voted otherwise"],
)
def test_a_server_votes_once_and_only_where_it_knows_no_leader(changes: dict[str, Any], grants: bool) -> None:
    assert MACHINE.grants(voter(**changes), asks()) is grants


def test_no_server_votes_for_one_whose_log_is_behind() -> None:
    start = Position(0, 0)
    ahead = voter()
    assert (ahead.end.epoch, ahead.end.offset) > (start.epoch, start.offset)
    assert not MACHINE.grants(ahead, asks(end=start))
    assert not MACHINE.grants(ahead, asks(end=start, pre_vote=True))
    assert MACHINE.grants(voter(voted_for=2), asks(end=start)), "a second vote does not look at the log"


@pytest.mark.parametrize(
    ("last", "failures"),
    [
        (None, 0),
        (LastResponse(0, Error.NONE), 0),
        (LastResponse(0, Error.NOT_LEADER), 1),
        (LastResponse(2, Error.NOT_LEADER), 0),
    ],
    ids=["none", "served", "refused", "refused by another one"],
)
def test_a_fetch_fails_that_the_leader_has_refused(last: LastResponse | None, failures: int) -> None:
    assert fetch_failures(state_with(1, fetching=Fetching(last=last)), 1) == failures


def test_an_observer_whose_fetches_fail_asks_another_server_only_while_it_follows() -> None:
    (state,) = MACHINE.initial()
    own = state.servers[2]
    lost = Fetching(pending=FetchRequest(2, 0, own.epoch, own.end, observer=True))
    alone = attrs.evolve(own.config, members=(0, 1))
    for role, reason in ((Role.FOLLOWER, ""), (Role.UNATTACHED, "it waits for no response")):
        observing = state_with(2, config=alone, fetching=lost, role=role)
        assert SendFetchRequest(2, 1).lacks(MACHINE, observing) == reason


def test_a_leader_resigns_where_a_majority_of_its_voters_has_another_configuration() -> None:
    """Who is no voter by its own configuration counts as behind; those of later epochs do not."""
    (state,) = MACHINE.initial()
    assert not CheckQuorumResign(0).should(state)
    later = [attrs.evolve(one, epoch=one.epoch + 1) for one in state.servers]
    gone = attrs.evolve(later[2], config=attrs.evolve(later[2].config, members=(0, 1)))
    assert CheckQuorumResign(0).should(attrs.evolve(state, servers=(state.servers[0], later[1], later[2])))
    assert not CheckQuorumResign(0).should(attrs.evolve(state, servers=(state.servers[0], later[1], gone)))


@pytest.mark.parametrize(("leader", "role"), [(NOBODY, Role.UNATTACHED), (0, Role.FOLLOWER)])
def test_a_server_that_nobody_would_vote_for_goes_back_to_what_it_was(leader: int, role: Role) -> None:
    state = state_with(1, role=Role.PROSPECTIVE, leader=leader, votes=(1,))
    after = ConcludePreVote(1).effect(MACHINE, state).servers[1]
    assert (after.role, after.leader) == (role, leader)


@pytest.mark.parametrize(("epoch", "keeps"), [(1, True), (2, False)], ids=["of its epoch", "of a later one"])
def test_a_leader_forgets_what_voters_have_where_a_vote_ends_its_leadership(epoch: int, keeps: bool) -> None:
    response = RequestVoteResponse(1, 0, epoch, leader=NOBODY, granted=False)
    (state,) = MACHINE.initial()
    own = attrs.evolve(state.servers[0], ends=tuple((member, 1) for member in state.servers[0].members))
    assert own.role == Role.LEADER
    assert own.epoch == 1
    state = state.with_server(0, own)
    action = HandleVoteResponse(response)
    after, _ = MACHINE.responded(0, own, response)
    assert (after.role == Role.LEADER) is keeps
    ended = action.effect(MACHINE, sending(state, response)).servers[0]
    assert (ended.ends == own.ends) is keeps


@pytest.mark.parametrize(("servers", "max_epoch", "may"), [(1, 2, False), (2, 1, False), (2, 2, True), (3, 3, True)])
def test_an_election_needs_two_servers_and_another_epoch(servers: int, max_epoch: int, may: bool) -> None:
    assert Unattached(servers=servers, max_epoch=max_epoch)._may_elect() is may


def test_a_fetch_is_lost_if_neither_it_nor_a_response_is_on_its_way() -> None:
    pending = FetchRequest(1, 0, 1, Position(), observer=False)
    response = FetchResponse(0, 1, 1, pending, Result.OK, leader=0, hw=0)
    state = state_with(1, fetching=Fetching(pending=pending))
    assert fetch_failures(state, 1) == 1
    assert fetch_failures(sending(state, pending), 1) == 0
    responded = sending(state, response)
    assert fetch_failures(responded, 1) == 0
    assert fetch_failures(attrs.evolve(responded, messages=taken(responded.messages, response)), 1) == 1

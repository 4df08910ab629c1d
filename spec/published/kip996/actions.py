"""The actions of the published KIP-996 model that a server takes by itself, where they differ from KIP-853's."""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.piecemeal import question
from tidegauge.spec.published.kip853 import actions as former
from tidegauge.spec.published.kip853.actions import OfServer, sending
from tidegauge.spec.published.kip853.rules import Kip853Rules, following, unattached
from tidegauge.spec.published.kip853.state import (
    Fetching,
    FetchRequest,
    FetchResponse,
    Messages,
    RequestVoteRequest,
    RequestVoteResponse,
    Role,
    Server,
    State,
    is_under_way,
)
from tidegauge.spec.published.kip996.rules import Kip996Rules, released
from tidegauge.spec.published.kraft.state import NOBODY, Error


@question
def has_votes_under_way(messages: Messages, server: int, pre_vote: bool) -> bool:
    """Whether somebody may still vote for this server."""
    under_way = [message for message, at in messages if at.under_way]
    asked = [one for one in under_way if isinstance(one, RequestVoteRequest) and one.source == server]
    voted = [one for one in under_way if isinstance(one, RequestVoteResponse) and one.dest == server]
    return pre_vote in {one.pre_vote for one in asked} | {one.pre_vote for one in voted}


@question
def is_responded(messages: Messages, request: FetchRequest) -> bool:
    """Whether a response to this fetch is on its way."""
    responses = (message for message, at in messages if at.under_way and isinstance(message, FetchResponse))
    return any(response.request == request for response in responses)


def may_disrupt(machine: Kip853Rules, state: State) -> bool:
    """Whether a timeout needs no reason."""
    assert isinstance(machine, Kip996Rules)
    return state.disruptions < machine.max_disruptions


def fetch_failures(state: State, number: int) -> int:
    """Why a server's fetches time out: its leader has refused one, and one got lost."""
    server = state.servers[number]
    last, pending = server.fetching.last, server.fetching.pending
    is_refused = last is not None and last.error != Error.NONE and last.peer == server.leader
    is_lost = pending is not None and not (
        is_under_way(state.messages, pending) or is_responded(state.messages, pending)
    )
    return is_refused + is_lost


@attrs.frozen
class OfReasons(OfServer):
    """What happens for a reason, of several."""

    def reasons(self, machine: Kip853Rules, state: State) -> int:
        """How many of them there are."""
        raise NotImplementedError


@attrs.frozen
class RestartWithState(former.RestartWithState):
    """A server restarts: it has its configuration, epoch, vote and log. A leader that is a voter has resigned."""

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        return "" if state.restarts < machine.max_restarts else "restarts are left"

    def restarted(self, machine: Kip853Rules, state: State) -> Server:
        own = self.own(state)
        if own.role == Role.LEADER and self.is_voter(state):
            return machine.resigned(self.server, own)
        return released(own) if own.role in (Role.LEADER, Role.PROSPECTIVE) else own


@attrs.frozen
class CheckQuorumResign(OfReasons):
    """A leader resigns, for fewer than a majority are of its epoch or a former one; or without a reason."""

    def should(self, state: State) -> bool:
        own = self.own(state)
        behind = 0
        for other in self.others(state):
            peer = state.servers[other]
            behind += other not in peer.members or own.epoch >= peer.epoch
        return behind + self.is_voter(state) <= len(own.members) // 2

    def reasons(self, machine: Kip853Rules, state: State) -> int:
        return self.should(state) + may_disrupt(machine, state)

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        if self.own(state).role != Role.LEADER:
            return "it leads"
        return "" if self.reasons(machine, state) else "most voters are of later epochs, or disruptions are left"

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own = self.own(state)
        resigned = machine.resigned(self.server, own).with_no_ends(own.members)
        after = state.with_server(self.server, resigned).failing(self.server)
        return evolve(after, disruptions=state.disruptions + (not self.should(state)))


# --- elections -------------------------------------------------------------------------------------------------------


@attrs.frozen
class Timeout(OfReasons):
    """A voter asks all others whether they would vote for it."""

    def is_due(self, machine: Kip853Rules, state: State) -> bool:
        """Whether there is a reason."""
        raise NotImplementedError

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own = self.own(state)
        server = evolve(own, role=Role.PROSPECTIVE, votes=(self.server,), fetching=Fetching())
        asked = [
            RequestVoteRequest(self.server, other, own.epoch, own.end, pre_vote=True) for other in self.others(state)
        ]
        after = sending(state.with_server(self.server, server), *asked)
        return evolve(after, disruptions=state.disruptions + (not self.is_due(machine, state)))


@attrs.frozen
class VoterFetchTimeout(Timeout):
    """A follower is served by no leader any more, or times out without a reason."""

    def is_due(self, machine: Kip853Rules, state: State) -> bool:
        return fetch_failures(state, self.server) > 0

    def reasons(self, machine: Kip853Rules, state: State) -> int:
        return fetch_failures(state, self.server) + may_disrupt(machine, state)

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        if self.own(state).role != Role.FOLLOWER or not self.is_voter(state):
            return "it is a voter, and follows"
        return "" if self.reasons(machine, state) else "its fetches fail, or disruptions are left"


@attrs.frozen
class VoterElectionTimeout(Timeout):
    """Who knows no leader, or has not got the votes of a majority, asks anew."""

    def is_due(self, machine: Kip853Rules, state: State) -> bool:
        own = self.own(state)
        if own.role != Role.CANDIDATE:
            return own.role == Role.UNATTACHED
        is_over = not has_votes_under_way(state.messages, self.server, False)
        return is_over and len(own.votes) < len(own.members) // 2 + 1

    def reasons(self, machine: Kip853Rules, state: State) -> int:
        return int(self.is_due(machine, state) or may_disrupt(machine, state))

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        if self.own(state).role not in (Role.UNATTACHED, Role.CANDIDATE) or not self.is_voter(state):
            return "it is a voter, and unattached or a candidate"
        return "" if self.reasons(machine, state) else "its election has failed, or disruptions are left"


@attrs.frozen
class ResignedElectionTimeout(OfServer):
    """Who has resigned is unattached in the next epoch."""

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        return "" if self.own(state).role == Role.RESIGNED else "it has resigned"

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own = self.own(state)
        return state.with_server(self.server, unattached(own, own.epoch + 1))


@attrs.frozen
class ConcludePreVote(OfReasons):
    """A majority would vote for a server: it is a candidate. Or nobody is left who would: it goes back."""

    def has_majority(self, machine: Kip853Rules, state: State) -> bool:
        return machine.is_majority(len(self.own(state).votes), self.own(state))

    def reasons(self, machine: Kip853Rules, state: State) -> int:
        is_over = not has_votes_under_way(state.messages, self.server, True)
        return is_over + self.has_majority(machine, state)

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        own = self.own(state)
        if own.role != Role.PROSPECTIVE or not self.is_voter(state):
            return "it is a voter, and has asked"
        if own.epoch >= machine.max_epoch:
            return "epochs are left"
        return "" if self.reasons(machine, state) else "a majority would vote for it, or all have responded"

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own = self.own(state)
        if self.has_majority(machine, state):
            return self._asking(state)
        if own.leader == NOBODY:
            return state.with_server(self.server, released(own))
        return state.with_server(self.server, following(self.server, own, own.leader, own.epoch))

    def _asking(self, state: State) -> State:
        own = self.own(state)
        server = evolve(
            own, role=Role.CANDIDATE, epoch=own.epoch + 1, leader=NOBODY, votes=(self.server,), voted_for=self.server
        )
        asked = [RequestVoteRequest(self.server, other, server.epoch, own.end) for other in self.others(state)]
        return sending(state.with_server(self.server, server), *asked)


@attrs.frozen
class BecomeLeader(former.BecomeLeader):
    """A candidate with the votes of a majority leads, and tells all others, though it may have told them before."""

    def was_told(self, state: State) -> bool:
        return False


# --- values and fetches ----------------------------------------------------------------------------------------------


@attrs.frozen
class HandleClientRequest(former.ClientRequest):
    """A leader writes a client's value to its log; each value is sent once."""


@attrs.frozen
class SendFetchRequest(former.SendFetchRequest):
    """A follower asks its leader, a voter without one any server, and an observer whose fetches fail any other one."""

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        if self.server == self.peer:
            return "the peer is another server"
        own, is_voter = self.own(state), self.is_voter(state)
        if not is_voter and own.role == Role.FOLLOWER and fetch_failures(state, self.server):
            return ""
        if own.fetching.pending is not None:
            return "it waits for no response"
        if own.role == Role.FOLLOWER:
            return "" if own.leader == self.peer else "the peer is its leader"
        return "" if is_voter and own.role == Role.UNATTACHED else "it follows, or is a voter without a leader"

    def says_observer(self, state: State) -> bool:
        return False

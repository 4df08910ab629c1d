"""The rules of the published KIP-996 model, which differ from those of KIP-853's; a variant overrides one rule."""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.published.kip853.rules import Kip853Rules
from tidegauge.spec.published.kip853.state import FetchResponse, RequestVoteRequest, RequestVoteResponse, Role, Server
from tidegauge.spec.published.kraft.state import NOBODY, Error


@attrs.frozen
class Kip996Rules(Kip853Rules):
    """What KRaft with KIP-996 decides; its fields are the constants of the TLA+ model."""

    max_disruptions: int = 0
    """How often servers time out without a reason."""

    def grants(self, voter: Server, request: RequestVoteRequest) -> bool:
        """Whether a server votes, or would; a second vote for the same candidate does not look at its log."""
        if request.pre_vote:
            return self.would_vote(voter) and self.is_not_behind(request.end, voter)
        if voter.role not in (Role.UNATTACHED, Role.PROSPECTIVE):
            return False
        if voter.voted_for != NOBODY:
            return self.is_free_for(voter, request.source)
        return voter.leader == NOBODY and self.is_not_behind(request.end, voter)

    def would_vote(self, voter: Server) -> bool:
        """Who leads would not, nor who follows and has been served: a leader is at work."""
        if voter.role == Role.FOLLOWER:
            return not voter.fetching.has_succeeded
        return voter.role != Role.LEADER

    def is_free_for(self, voter: Server, candidate: int) -> bool:
        """A vote is given once in an epoch."""
        return voter.voted_for == candidate

    def may_have_led(self, number: int, server: Server) -> bool:
        """It is a voter no more, or has resigned, and may be on its way to another election."""
        return number not in server.members or server.role in (Role.RESIGNED, Role.PROSPECTIVE, Role.UNATTACHED)

    def is_news(self, number: int, server: Server, leader: int) -> bool:
        """A server that knows no leader learns of one. As published, that this one leads is illegal news."""
        return leader != NOBODY and server.leader == NOBODY

    def is_all(self, response: RequestVoteResponse | FetchResponse) -> bool:
        """Whether a response that tells of a leader is for nothing else."""
        return response.error != Error.NONE

    def resigned(self, number: int, leader: Server) -> Server:
        return evolve(leader, role=Role.RESIGNED, leader=number, votes=(), voted_for=NOBODY)

    def elected(self, number: int, candidate: Server) -> Server:
        """It leads, and its log has an entry that says so; whom it has voted for is forgotten."""
        return evolve(super().elected(number, candidate), voted_for=NOBODY)

    def without_leader(self, number: int, leader: Server) -> Server:
        """A leader that has committed that it is a voter no more."""
        return self.resigned(number, leader)


def released(server: Server) -> Server:
    """It knows no leader any more, and has its vote."""
    return evolve(server, role=Role.UNATTACHED, leader=NOBODY, votes=())

"""The actions of the published KIP-996 model that take a message in, where they differ from KIP-853's."""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.published.kip853 import messages as former
from tidegauge.spec.published.kip853.rules import Kip853Rules, illegal, unattached
from tidegauge.spec.published.kip853.state import Fetching, LastResponse, RequestVoteResponse, Role, Server, State
from tidegauge.spec.published.kraft.state import NOBODY, Error


@attrs.frozen
class HandleVoteRequest(former.HandleVoteRequest):
    """A server votes, or tells whether it would."""

    def effect(self, machine: Kip853Rules, state: State) -> State:
        request, own = self.message, self.own(state)
        source, dest, pre_vote = request.source, request.dest, request.pre_vote
        if request.epoch < own.epoch:
            error = Error.FENCED_LEADER_EPOCH
            return self.handled(
                state, own, RequestVoteResponse(dest, source, own.epoch, own.leader, False, error, pre_vote)
            )
        voter = unattached(own, request.epoch) if request.epoch > own.epoch else own
        granted = machine.grants(voter, request)
        after = self._voted(voter) if granted and not pre_vote else voter
        response = RequestVoteResponse(dest, source, request.epoch, after.leader, granted, pre_vote=pre_vote)
        if after.role == own.role:
            return self.handled(state, after, response)
        return self.handled(state, evolve(after, fetching=Fetching()), response).failing(dest)

    def _voted(self, voter: Server) -> Server:
        """As published, to vote a second time is illegal, be it for the same candidate."""
        return illegal(voter) if voter.voted_for != NOBODY else evolve(voter, voted_for=self.message.source)


@attrs.frozen
class HandleVoteResponse(former.HandleVoteResponse):
    """Who has asked, or is a candidate, counts a vote; any voter learns of a later epoch and its leader."""

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own, dest = self.own(state), self.message.dest
        after, is_all = machine.responded(dest, own, self.message)
        counts = Role.PROSPECTIVE if self.message.pre_vote else Role.CANDIDATE
        if not is_all and after.role == counts and self.message.granted:
            after = evolve(after, votes=tuple(sorted({*after.votes, self.message.source})))
        if own.role != Role.LEADER or after.role == Role.LEADER:
            return self.handled(state, after)
        return self.handled(state, after.with_no_ends(own.members)).failing(dest)


@attrs.frozen
class AcceptFetchRequest(former.AcceptFetchRequestFromVoter):
    """The leader gives a voter the next entry, or none, and commits what a majority has. No observer is served."""

    def lacks(self, machine: Kip853Rules, own: Server) -> str:
        if missing := self.lacks_validity(machine, own):
            return missing
        return "" if self.message.source in own.members else "a voter asks"

    def left(self, state: State) -> State:
        """Clients that still wait are told that it has failed."""
        return state.failing(self.message.dest)


@attrs.frozen
class HandleFetchResponse(former.HandleFetchResponse):
    """A server appends the entry or truncates its log, and goes by the last configuration that is there then."""

    def is_handled(self, own: Server, is_all: bool) -> bool:
        return is_all

    def fetching(self, own: Server) -> Fetching:
        has_succeeded = own.fetching.has_succeeded or self.message.error == Error.NONE
        return Fetching(None, LastResponse(self.message.source, self.message.error), has_succeeded)

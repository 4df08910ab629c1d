"""The actions of the published KIP-853 model that take a message in."""

from __future__ import annotations

from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.published.kip853.actions import Kip853Action, sending
from tidegauge.spec.published.kip853.rules import Kip853Rules, config_of, end_of_epoch, unattached
from tidegauge.spec.published.kip853.state import (
    BeginQuorumEpochRequest,
    Fetching,
    FetchRequest,
    FetchResponse,
    LastResponse,
    Outcome,
    RequestVoteRequest,
    RequestVoteResponse,
    Role,
    Server,
    State,
    is_under_way,
    taken,
)
from tidegauge.spec.published.kraft.state import NOBODY, Error, Message, Result


@attrs.frozen
class Handle(Kip853Action):
    """A message arrives."""

    message: Message

    takes: ClassVar[type[Message]]

    def own(self, state: State) -> Server:
        return state.servers[self.message.dest]

    def lacks(self, machine: Kip853Rules, own: Server) -> str:
        """What is missing, where the message is on its way."""
        return ""

    def guard(self, machine: Kip853Rules, state: State) -> str:
        if not isinstance(self.message, self.takes) or not is_under_way(state.messages, self.message):
            return f"a {self.takes.__name__} is on its way"
        return self.lacks(machine, self.own(state))

    def handled(self, state: State, server: Server, *responses: Message) -> State:
        """The state once the server has become this, and has responded."""
        after = evolve(state.with_server(self.message.dest, server), messages=taken(state.messages, self.message))
        return sending(after, *responses)


# --- elections -------------------------------------------------------------------------------------------------------


@attrs.frozen
class HandleVoteRequest(Handle):
    """A server votes, or does not. As published, one that knows no leader may vote in a former epoch, and goes back."""

    message: RequestVoteRequest
    takes = RequestVoteRequest

    def effect(self, machine: Kip853Rules, state: State) -> State:
        request, own = self.message, self.own(state)
        voter = unattached(own, request.epoch) if request.epoch > own.epoch else own
        granted = machine.grants(voter, request)
        after = self._voted(voter) if granted and voter.role == Role.UNATTACHED else voter
        if request.epoch < own.epoch:
            error = Error.FENCED_LEADER_EPOCH
            response = RequestVoteResponse(request.dest, request.source, own.epoch, after.leader, False, error)
            return self.handled(state, after, response)
        response = RequestVoteResponse(request.dest, request.source, request.epoch, after.leader, granted)
        if after.role == own.role:
            return self.handled(state, after, response)
        return self.handled(state, evolve(after, fetching=Fetching()), response).failing(request.dest)

    def _voted(self, voter: Server) -> Server:
        return evolve(
            voter,
            role=Role.VOTED,
            epoch=self.message.epoch,
            leader=NOBODY,
            votes=(),
            voted_for=self.message.source,
        )


@attrs.frozen
class HandleVoteResponse(Handle):
    """A candidate counts a vote; any voter learns of a later epoch and its leader."""

    message: RequestVoteResponse
    takes = RequestVoteResponse

    def lacks(self, machine: Kip853Rules, own: Server) -> str:
        return "" if self.message.dest in own.members else "it is a voter"

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own = self.own(state)
        after, is_all = machine.responded(self.message.dest, own, self.message)
        if not is_all and own.role == Role.CANDIDATE and self.message.granted:
            after = evolve(after, votes=tuple(sorted({*after.votes, self.message.source})))
        return self.handled(state, after)


@attrs.frozen
class AcceptBeginQuorumRequest(Handle):
    """A server learns who leads."""

    message: BeginQuorumEpochRequest
    takes = BeginQuorumEpochRequest

    def lacks(self, machine: Kip853Rules, own: Server) -> str:
        return "the message is of no former epoch" if self.message.epoch < own.epoch else ""

    def effect(self, machine: Kip853Rules, state: State) -> State:
        source, dest, epoch = self.message.source, self.message.dest, self.message.epoch
        after = machine.transitioned(dest, self.own(state), source, epoch)
        return self.handled(state, evolve(after, fetching=Fetching())).failing(dest)


# --- fetches ---------------------------------------------------------------------------------------------------------


def error_of(own: Server, request: FetchRequest) -> Error:
    """Why a server does not serve a fetch."""
    if own.role != Role.LEADER:
        return Error.NOT_LEADER
    if request.epoch < own.epoch:
        return Error.FENCED_LEADER_EPOCH
    return Error.UNKNOWN_LEADER_EPOCH if request.epoch > own.epoch else Error.NONE


@attrs.frozen
class HandleFetchRequest(Handle):
    """A fetch arrives."""

    message: FetchRequest
    takes = FetchRequest

    def lacks_validity(self, machine: Kip853Rules, own: Server) -> str:
        if error_of(own, self.message) != Error.NONE:
            return "it leads in that epoch"
        return "" if machine.is_valid(own, self.message) else "the leader has the follower's last entry"


@attrs.frozen
class RejectFetchRequest(HandleFetchRequest):
    """A server that does not lead, or leads in another epoch, refuses."""

    def lacks(self, machine: Kip853Rules, own: Server) -> str:
        return "" if error_of(own, self.message) != Error.NONE else "it does not lead in that epoch"

    def effect(self, machine: Kip853Rules, state: State) -> State:
        request, own = self.message, self.own(state)
        error = error_of(own, request)
        response = FetchResponse(
            request.dest, request.source, own.epoch, request, Result.NOT_OK, own.leader, own.hw, error
        )
        return self.handled(state, own, response)


@attrs.frozen
class DivergingFetchRequest(HandleFetchRequest):
    """The leader tells a follower whose last entry it does not have where the logs diverge."""

    def lacks(self, machine: Kip853Rules, own: Server) -> str:
        if error_of(own, self.message) != Error.NONE:
            return "it leads in that epoch"
        return "the leader does not have the follower's last entry" if machine.is_valid(own, self.message) else ""

    def effect(self, machine: Kip853Rules, state: State) -> State:
        request, own = self.message, self.own(state)
        response = FetchResponse(
            request.dest,
            request.source,
            own.epoch,
            request,
            Result.DIVERGING,
            own.leader,
            own.hw,
            diverging=end_of_epoch(own.log, request.end.epoch),
        )
        return self.handled(state, own, response)


@attrs.frozen
class AcceptFetchRequestFromVoter(HandleFetchRequest):
    """The leader gives the next entry, or none, and commits what a majority has; that may end its own leadership."""

    def lacks(self, machine: Kip853Rules, own: Server) -> str:
        if missing := self.lacks_validity(machine, own):
            return missing
        return "" if self.message.source in own.members and not self.message.observer else "a voter asks"

    def effect(self, machine: Kip853Rules, state: State) -> State:
        request, own = self.message, self.own(state)
        leader = machine.with_end(own, request)
        hw = machine.high_watermark(request.dest, leader)
        leaves = machine.leaves(request.dest, own, hw)
        response = FetchResponse(
            request.dest,
            request.source,
            own.epoch,
            request,
            Result.OK,
            NOBODY if leaves else own.leader,
            min(hw, request.end.offset + 1),
            entries=machine.fetched(own, request),
        )
        if hw <= own.hw:
            return self.handled(state, leader, response)
        return self._committing(machine, self.handled(state, leader, response), hw, leaves)

    def _committing(self, machine: Kip853Rules, state: State, hw: int, leaves: bool) -> State:
        number, own = self.message.dest, self.own(state)
        committed = {entry.value for entry in own.log[own.hw : hw]}
        acked = tuple(value for value in own.unacked if value in committed)
        after = evolve(own, config=config_of(own.log, hw), hw=hw)
        after = after.with_members_ends(after.members)
        after = evolve(after, unacked=tuple(value for value in own.unacked if value not in acked))
        state = state.with_server(number, after).with_outcomes(acked, Outcome.ACKED)
        if not leaves:
            return state
        left = evolve(machine.without_leader(number, after), hw=0, ends=())
        return self.left(state.with_server(number, left))

    def left(self, state: State) -> State:
        """Clients that still wait are told nothing."""
        return state


@attrs.frozen
class AcceptFetchRequestFromObserver(HandleFetchRequest):
    """The leader gives an observer the next entry, or none."""

    def lacks(self, machine: Kip853Rules, own: Server) -> str:
        if missing := self.lacks_validity(machine, own):
            return missing
        return "" if self.message.observer else "an observer asks"

    def effect(self, machine: Kip853Rules, state: State) -> State:
        request, own = self.message, self.own(state)
        response = FetchResponse(
            request.dest,
            request.source,
            own.epoch,
            request,
            Result.OK,
            own.leader,
            min(own.hw, request.end.offset + 1),
            entries=machine.fetched(own, request),
        )
        return self.handled(state, own, response)


@attrs.frozen
class HandleFetchResponse(Handle):
    """A follower appends the entry or truncates its log, and goes by the last configuration that is there then."""

    message: FetchResponse
    takes = FetchResponse

    def lacks(self, machine: Kip853Rules, own: Server) -> str:
        return "" if own.fetching.pending == self.message.request else "the server waits for that response"

    def is_handled(self, own: Server, is_all: bool) -> bool:
        """Whether the response has no more to it; only a follower takes entries in."""
        return is_all or own.role != Role.FOLLOWER

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own = self.own(state)
        after, is_all = machine.responded(self.message.dest, own, self.message)
        if not self.is_handled(own, is_all):
            after = self._replicated(machine, own, after)
        return self.handled(state, evolve(after, fetching=self.fetching(own)))

    def fetching(self, own: Server) -> Fetching:
        return Fetching(last=LastResponse(self.message.source, self.message.error))

    def _replicated(self, machine: Kip853Rules, own: Server, after: Server) -> Server:
        """With what the leader gave. Who is a voter or an observer by that, and was none, follows."""
        log = own.log + self.message.entries
        if self.message.result == Result.DIVERGING:
            log = machine.truncated(own.log, self.message.diverging)
        config = config_of(log, self.message.hw)
        number = self.message.dest
        if (number in own.members) != (number in config.members):
            after = evolve(after, role=Role.FOLLOWER, votes=())
        hw = self.message.hw if self.message.result == Result.OK else own.hw
        return evolve(after, log=log, config=config, hw=hw, voted_for=own.voted_for).with_members_ends(config.members)

"""The actions of the published KRaft model (see `spec.published.kraft.machine`): each has a guard and an effect.

A guard returns what is missing, or "" when the action may happen.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedAction
from tidegauge.spec.published.kraft.rules import KraftRules, end_of_epoch, unattached
from tidegauge.spec.published.kraft.state import (
    NOBODY,
    BeginQuorumRequest,
    BeginQuorumResponse,
    Entry,
    Error,
    FetchRequest,
    FetchResponse,
    Message,
    RequestVoteRequest,
    RequestVoteResponse,
    Result,
    Role,
    Server,
    State,
    count_of,
    sent,
    taken,
)


@attrs.frozen
class KraftAction(GuardedAction[KraftRules, State]):
    """An action of the model: one guard, one effect."""


@attrs.frozen
class OfServer(KraftAction):
    """A server does something by itself."""

    server: int

    @classmethod
    def sends(cls, machine: KraftRules, state: State, number: int) -> list[Message]:
        """The messages of which none may have been sent before."""
        return []

    def told(self, machine: KraftRules, state: State, server: Server) -> State:
        """The state once the server has become this, and has sent what it sends."""
        messages = state.messages
        for message in self.sends(machine, state, self.server):
            messages = sent(messages, message)
        return evolve(state.with_server(self.server, server), messages=messages)

    def lacks(self, machine: KraftRules, state: State) -> str:
        """What is missing, whatever was sent before."""
        raise NotImplementedError

    def guard(self, machine: KraftRules, state: State) -> str:
        if missing := self.lacks(machine, state):
            return missing
        known = any(count_of(state.messages, each) is not None for each in self.sends(machine, state, self.server))
        return "none of its messages was sent before" if known else ""


@attrs.frozen
class Restart(OfServer):
    """A server restarts: it has its epoch, its vote and its log."""

    def lacks(self, machine: KraftRules, state: State) -> str:
        return "" if state.restarts < machine.max_restarts else "restarts are left"

    def effect(self, machine: KraftRules, state: State) -> State:
        server = evolve(
            state.servers[self.server],
            role=Role.FOLLOWER,
            leader=NOBODY,
            votes=(),
            ends=(0,) * machine.servers,
            hw=0,
            pending=None,
        )
        return evolve(state.with_server(self.server, server), restarts=state.restarts + 1)


@attrs.frozen
class RequestVote(OfServer):
    """A server knows no leader, and is a candidate: it votes for itself and asks all others."""

    @classmethod
    def sends(cls, machine: KraftRules, state: State, number: int) -> list[Message]:
        own = state.servers[number]
        return [
            RequestVoteRequest(number, other, own.epoch + 1, own.end)
            for other in range(machine.servers)
            if other != number
        ]

    def lacks(self, machine: KraftRules, state: State) -> str:
        if state.elections >= machine.max_elections:
            return "elections are left"
        may = state.servers[self.server].role in (Role.FOLLOWER, Role.CANDIDATE, Role.UNATTACHED)
        return "" if may else "it follows, is a candidate, or is unattached"

    def effect(self, machine: KraftRules, state: State) -> State:
        own = state.servers[self.server]
        server = evolve(
            own,
            role=Role.CANDIDATE,
            epoch=own.epoch + 1,
            leader=NOBODY,
            voted_for=self.server,
            votes=(self.server,),
            pending=None,
        )
        return evolve(self.told(machine, state, server), elections=state.elections + 1)


@attrs.frozen
class BecomeLeader(OfServer):
    """A candidate with the votes of a majority leads, and tells all others."""

    @classmethod
    def sends(cls, machine: KraftRules, state: State, number: int) -> list[Message]:
        epoch = state.servers[number].epoch
        return [BeginQuorumRequest(number, other, epoch) for other in range(machine.servers) if other != number]

    def lacks(self, machine: KraftRules, state: State) -> str:
        own = state.servers[self.server]
        if own.role != Role.CANDIDATE:
            return "it is a candidate"
        return "" if machine.is_majority(len(own.votes)) else "a majority has voted for it"

    def effect(self, machine: KraftRules, state: State) -> State:
        own = state.servers[self.server]
        server = evolve(own, role=Role.LEADER, leader=self.server, ends=(0,) * machine.servers)
        return self.told(machine, state, server)


@attrs.frozen
class ClientRequest(OfServer):
    """A leader writes a client's value to its log; each value is sent once."""

    value: int

    def lacks(self, machine: KraftRules, state: State) -> str:
        if state.servers[self.server].role != Role.LEADER:
            return "it leads"
        return "" if state.acked[self.value] is None else "the value was not sent before"

    def effect(self, machine: KraftRules, state: State) -> State:
        own = state.servers[self.server]
        acked = [*state.acked]
        acked[self.value] = False
        server = evolve(own, log=(*own.log, Entry(own.epoch, self.value)))
        return evolve(state.with_server(self.server, server), acked=tuple(acked))


@attrs.frozen
class SendFetchRequest(OfServer):
    """A follower that waits for no response asks its leader for the next entry."""

    def lacks(self, machine: KraftRules, state: State) -> str:
        own = state.servers[self.server]
        if own.role != Role.FOLLOWER or own.leader in (NOBODY, self.server):
            return "it follows a leader"
        return "it waits for no response" if own.pending is not None else ""

    def effect(self, machine: KraftRules, state: State) -> State:
        own = state.servers[self.server]
        request = FetchRequest(self.server, own.leader, own.epoch, own.end)
        after = state.with_server(self.server, evolve(own, pending=request))
        return evolve(after, messages=sent(state.messages, request))


# --- messages --------------------------------------------------------------------------------------------------------


@attrs.frozen
class Handle(KraftAction):
    """A message arrives."""

    message: Message

    takes: ClassVar[type[Message]]

    def lacks(self, machine: KraftRules, own: Server) -> str:
        """What is missing, where the message is on its way."""
        return ""

    def handled(self, machine: KraftRules, own: Server) -> tuple[Server, Message | None]:
        """The server once it has the message, and what it responds."""
        raise NotImplementedError

    def guard(self, machine: KraftRules, state: State) -> str:
        if not isinstance(self.message, self.takes) or not count_of(state.messages, self.message):
            return f"a {self.takes.__name__} is on its way"
        own = state.servers[self.message.dest]
        if missing := self.lacks(machine, own):
            return missing
        response = self.handled(machine, own)[1]
        is_again = isinstance(response, FetchResponse) and count_of(state.messages, response) is not None
        return "no such FetchResponse was sent before" if is_again else ""

    def effect(self, machine: KraftRules, state: State) -> State:
        server, response = self.handled(machine, state.servers[self.message.dest])
        messages = taken(state.messages, self.message)
        if response is not None:
            messages = sent(messages, response)
        return evolve(state.with_server(self.message.dest, server), messages=messages)


@attrs.frozen
class HandleRequestVoteRequest(Handle):
    """A server votes, or does not."""

    message: RequestVoteRequest
    takes = RequestVoteRequest

    def handled(self, machine: KraftRules, own: Server) -> tuple[Server, Message]:
        request, epoch = self.message, self.message.epoch
        if epoch < own.epoch:
            error = Error.FENCED_LEADER_EPOCH
            return own, RequestVoteResponse(request.dest, request.source, own.epoch, False, own.leader, error)
        voter = unattached(own, epoch) if epoch > own.epoch else own
        granted = machine.grants(voter, request)
        after = voter
        if granted:
            after = evolve(after, voted_for=request.source)
            if voter.role == Role.UNATTACHED:
                after = evolve(after, role=Role.VOTED, leader=NOBODY)
        if after.role != own.role:
            after = evolve(after, pending=None)
        return after, RequestVoteResponse(request.dest, request.source, epoch, granted, after.leader)


@attrs.frozen
class HandleRequestVoteResponse(Handle):
    """A candidate counts a vote; anybody learns of a later epoch and its leader."""

    message: RequestVoteResponse
    takes = RequestVoteResponse

    def lacks(self, machine: KraftRules, own: Server) -> str:
        _, is_all = machine.responded(self.message.dest, own, self.message)
        return "" if is_all or own.role == Role.CANDIDATE else "it is a candidate"

    def handled(self, machine: KraftRules, own: Server) -> tuple[Server, None]:
        after, is_all = machine.responded(self.message.dest, own, self.message)
        if is_all or not self.message.granted:
            return after, None
        return evolve(after, votes=tuple(sorted({*after.votes, self.message.source}))), None


@attrs.frozen
class HandleBeginQuorumRequest(Handle):
    """A server learns who leads."""

    message: BeginQuorumRequest
    takes = BeginQuorumRequest

    def handled(self, machine: KraftRules, own: Server) -> tuple[Server, Message]:
        source, dest, epoch = self.message.source, self.message.dest, self.message.epoch
        if epoch < own.epoch:
            return own, BeginQuorumResponse(dest, source, own.epoch, Error.FENCED_LEADER_EPOCH)
        after = evolve(machine.transitioned(dest, own, source, epoch), pending=None)
        return after, BeginQuorumResponse(dest, source, epoch)


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


@attrs.frozen
class RejectFetchRequest(HandleFetchRequest):
    """A server that does not lead, or leads in another epoch, refuses."""

    def lacks(self, machine: KraftRules, own: Server) -> str:
        return "" if error_of(own, self.message) != Error.NONE else "it does not lead in that epoch"

    def handled(self, machine: KraftRules, own: Server) -> tuple[Server, Message]:
        request, error = self.message, error_of(own, self.message)
        return own, FetchResponse(
            request.dest, request.source, own.epoch, request, Result.NOT_OK, own.leader, own.hw, error
        )


@attrs.frozen
class DivergingFetchRequest(HandleFetchRequest):
    """The leader tells a follower whose last entry it does not have where the logs diverge."""

    def lacks(self, machine: KraftRules, own: Server) -> str:
        if error_of(own, self.message) != Error.NONE:
            return "it leads in that epoch"
        return "the leader does not have the follower's last entry" if machine.is_valid(own, self.message) else ""

    def handled(self, machine: KraftRules, own: Server) -> tuple[Server, Message]:
        request = self.message
        diverging = end_of_epoch(own.log, request.end.epoch)
        return own, FetchResponse(
            request.dest,
            request.source,
            own.epoch,
            request,
            Result.DIVERGING,
            own.leader,
            own.hw,
            diverging=diverging,
        )


@attrs.frozen
class AcceptFetchRequest(HandleFetchRequest):
    """The leader gives the next entry, or none, and commits what a majority has."""

    def lacks(self, machine: KraftRules, own: Server) -> str:
        if error_of(own, self.message) != Error.NONE:
            return "it leads in that epoch"
        return "" if machine.is_valid(own, self.message) else "the leader has the follower's last entry"

    def handled(self, machine: KraftRules, own: Server) -> tuple[Server, Message]:
        request = self.message
        leader = machine.with_end(own, request)
        leader = evolve(leader, hw=machine.high_watermark(request.dest, leader))
        return leader, FetchResponse(
            request.dest,
            request.source,
            own.epoch,
            request,
            Result.OK,
            own.leader,
            min(leader.hw, request.end.offset + 1),
            entries=machine.fetched(own, request),
        )

    def effect(self, machine: KraftRules, state: State) -> State:
        before, after = state.servers[self.message.dest], super().effect(machine, state)
        committed = {entry.value for entry in before.log[before.hw : after.servers[self.message.dest].hw]}
        acked = [value in committed if acked is False else acked for value, acked in enumerate(state.acked)]
        return evolve(after, acked=tuple(acked))


@attrs.frozen
class HandleFetchResponse(Handle):
    """A follower has the response that it waits for."""

    message: FetchResponse
    takes = FetchResponse

    result: ClassVar[Result]

    def lacks(self, machine: KraftRules, own: Server) -> str:
        if own.pending != self.message.request:
            return "the server waits for that response"
        _, is_all = machine.responded(self.message.dest, own, self.message)
        if is_all:
            return "the response is of the server's epoch, and has no error"
        return "" if self.message.result == self.result else f"the response is {self.result.name}"


@attrs.frozen
class HandleSuccessFetchResponse(HandleFetchResponse):
    """A follower appends the entry, and has the leader's high watermark."""

    result = Result.OK

    def handled(self, machine: KraftRules, own: Server) -> tuple[Server, None]:
        return evolve(own, hw=self.message.hw, log=own.log + self.message.entries, pending=None), None


@attrs.frozen
class HandleDivergingFetchResponse(HandleFetchResponse):
    """A follower truncates its log."""

    result = Result.DIVERGING

    def handled(self, machine: KraftRules, own: Server) -> tuple[Server, None]:
        return evolve(own, log=machine.truncated(own.log, self.message.diverging), pending=None), None


@attrs.frozen
class HandleErrorFetchResponse(HandleFetchResponse):
    """A follower is refused, and may learn of a later epoch or of its leader."""

    def lacks(self, machine: KraftRules, own: Server) -> str:
        if own.pending != self.message.request:
            return "the server waits for that response"
        _, is_all = machine.responded(self.message.dest, own, self.message)
        return "" if is_all else "the response is of another epoch, or has an error"

    def handled(self, machine: KraftRules, own: Server) -> tuple[Server, None]:
        after, _ = machine.responded(self.message.dest, own, self.message)
        return evolve(after, pending=None), None

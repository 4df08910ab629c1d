"""The actions of the published PullRaft model (see `spec.published.pull_raft.machine`): each has a guard and an effect.

A guard returns what is missing, or "" when the action may happen.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedAction
from tidegauge.spec.published.kraft.state import NOBODY, Entry, Message, count_of, sent, taken
from tidegauge.spec.published.pull_raft.rules import PullRaftRules
from tidegauge.spec.published.pull_raft.state import (
    LeaderNotifyRequest,
    PullEntriesRequest,
    PullEntriesResponse,
    RequestVoteRequest,
    RequestVoteResponse,
    Role,
    Server,
    State,
)


@attrs.frozen
class PullRaftAction(GuardedAction[PullRaftRules, State]):
    """An action of the model: one guard, one effect."""


@attrs.frozen
class OfServer(PullRaftAction):
    """A server does something by itself."""

    server: int

    def sends(self, machine: PullRaftRules, state: State) -> list[Message]:
        """The messages of which none may have been sent before."""
        return []

    def told(self, machine: PullRaftRules, state: State, server: Server) -> State:
        """The state once the server has become this, and has sent what it sends."""
        messages = state.messages
        for message in self.sends(machine, state):
            messages = sent(messages, message)
        return evolve(state.with_server(self.server, server), messages=messages)

    def lacks(self, machine: PullRaftRules, state: State) -> str:
        """What is missing, whatever was sent before."""
        raise NotImplementedError

    def guard(self, machine: PullRaftRules, state: State) -> str:
        if missing := self.lacks(machine, state):
            return missing
        known = any(count_of(state.messages, each) is not None for each in self.sends(machine, state))
        return "none of its messages was sent before" if known else ""


@attrs.frozen
class Restart(OfServer):
    """A server restarts: it has its epoch, its log, and whom it takes for the leader."""

    def lacks(self, machine: PullRaftRules, state: State) -> str:
        return "" if state.restarts < machine.max_restarts else "restarts are left"

    def effect(self, machine: PullRaftRules, state: State) -> State:
        own = state.servers[self.server]
        server = evolve(own, role=Role.FOLLOWER, votes=(), ends=(0,) * machine.servers, commit_index=0)
        return evolve(state.with_server(self.server, server), restarts=state.restarts + 1)


@attrs.frozen
class RequestVote(OfServer):
    """A server is a candidate: it votes for itself and asks all others."""

    def sends(self, machine: PullRaftRules, state: State) -> list[Message]:
        own, others = state.servers[self.server], range(machine.servers)
        return [RequestVoteRequest(self.server, to, own.epoch + 1, own.end) for to in others if to != self.server]

    def lacks(self, machine: PullRaftRules, state: State) -> str:
        if state.elections >= machine.max_elections:
            return "elections are left"
        return "it does not lead" if state.servers[self.server].role == Role.LEADER else ""

    def effect(self, machine: PullRaftRules, state: State) -> State:
        own = state.servers[self.server]
        server = evolve(own, role=Role.CANDIDATE, epoch=own.epoch + 1, leader=self.server, votes=(self.server,))
        return evolve(self.told(machine, state, server), elections=state.elections + 1)


@attrs.frozen
class BecomeLeader(OfServer):
    """A candidate with the votes of a majority leads, and tells those that have not voted for it."""

    def sends(self, machine: PullRaftRules, state: State) -> list[Message]:
        own = state.servers[self.server]
        return [LeaderNotifyRequest(self.server, to, own.epoch) for to in range(machine.servers) if to not in own.votes]

    def lacks(self, machine: PullRaftRules, state: State) -> str:
        own = state.servers[self.server]
        if own.role != Role.CANDIDATE:
            return "it is a candidate"
        return "" if machine.is_majority(len(own.votes)) else "a majority has voted for it"

    def effect(self, machine: PullRaftRules, state: State) -> State:
        server = evolve(state.servers[self.server], role=Role.LEADER, ends=(0,) * machine.servers)
        return self.told(machine, state, server)


@attrs.frozen
class ClientRequest(OfServer):
    """A leader writes a client's value to its log; each value is sent once."""

    value: int

    def lacks(self, machine: PullRaftRules, state: State) -> str:
        if state.servers[self.server].role != Role.LEADER:
            return "it leads"
        return "" if state.acked[self.value] is None else "the value was not sent before"

    def effect(self, machine: PullRaftRules, state: State) -> State:
        own = state.servers[self.server]
        acked = [*state.acked]
        acked[self.value] = False
        server = evolve(own, log=(*own.log, Entry(own.epoch, self.value)))
        return evolve(state.with_server(self.server, server), acked=tuple(acked))


@attrs.frozen
class SendPullEntriesRequest(OfServer):
    """A follower asks whom it takes for the leader for the next entry."""

    def sends(self, machine: PullRaftRules, state: State) -> list[Message]:
        own = state.servers[self.server]
        return [PullEntriesRequest(self.server, own.leader, own.epoch, own.end)]

    def lacks(self, machine: PullRaftRules, state: State) -> str:
        own = state.servers[self.server]
        follows = own.role == Role.FOLLOWER and own.leader not in (NOBODY, self.server)
        return "" if follows else "it follows a leader"

    def effect(self, machine: PullRaftRules, state: State) -> State:
        return self.told(machine, state, state.servers[self.server])


# --- messages --------------------------------------------------------------------------------------------------------


@attrs.frozen
class UpdateTerm(PullRaftAction):
    """A server is of the epoch of a message, which may have been taken in already: it follows nobody yet."""

    message: Message

    def guard(self, machine: PullRaftRules, state: State) -> str:
        if self.message.epoch <= state.servers[self.message.dest].epoch:
            return "the message is of a later epoch"
        return "" if count_of(state.messages, self.message) is not None else "the message was sent"

    def effect(self, machine: PullRaftRules, state: State) -> State:
        own = state.servers[self.message.dest]
        server = evolve(own, epoch=self.message.epoch, role=Role.FOLLOWER, leader=NOBODY)
        return state.with_server(self.message.dest, server)


@attrs.frozen
class Handle(PullRaftAction):
    """A message of the server's epoch arrives."""

    message: Message

    takes: ClassVar[type[Message]]

    def is_in_time(self, own: Server) -> bool:
        return self.message.epoch == own.epoch

    def lacks(self, machine: PullRaftRules, own: Server) -> str:
        """What is missing, where the message is on its way."""
        return ""

    def handled(self, machine: PullRaftRules, own: Server) -> tuple[Server, Message | None]:
        """The server once it has the message, and what it responds."""
        raise NotImplementedError

    def guard(self, machine: PullRaftRules, state: State) -> str:
        if not isinstance(self.message, self.takes) or not count_of(state.messages, self.message):
            return f"a {self.takes.__name__} is on its way"
        own = state.servers[self.message.dest]
        if not self.is_in_time(own):
            return "the message is of the server's epoch"
        if missing := self.lacks(machine, own):
            return missing
        response = self.handled(machine, own)[1]
        is_again = response is not None and count_of(state.messages, response) is not None
        return "no such response was sent before" if is_again else ""

    def effect(self, machine: PullRaftRules, state: State) -> State:
        server, response = self.handled(machine, state.servers[self.message.dest])
        messages = taken(state.messages, self.message)
        if response is not None:
            messages = sent(messages, response)
        return evolve(state.with_server(self.message.dest, server), messages=messages)


@attrs.frozen
class HandleRequestVoteRequest(Handle):
    """A server votes, or does not: a request of a former epoch is refused."""

    message: RequestVoteRequest
    takes = RequestVoteRequest

    def is_in_time(self, own: Server) -> bool:
        return self.message.epoch <= own.epoch

    def handled(self, machine: PullRaftRules, own: Server) -> tuple[Server, Message]:
        request, granted = self.message, machine.grants(own, self.message)
        after = evolve(own, leader=request.source) if granted else own
        return after, RequestVoteResponse(request.dest, request.source, own.epoch, granted)


@attrs.frozen
class HandleRequestVoteResponse(Handle):
    """A vote is counted, also where nobody needs it any more."""

    message: RequestVoteResponse
    takes: ClassVar[type[Message]] = RequestVoteResponse

    def handled(self, machine: PullRaftRules, own: Server) -> tuple[Server, None]:
        if not self.message.granted:
            return own, None
        return evolve(own, votes=tuple(sorted({*own.votes, self.message.source}))), None


@attrs.frozen
class LearnOfLeader(Handle):
    """A server learns who leads without its vote."""

    message: LeaderNotifyRequest
    takes: ClassVar[type[Message]] = LeaderNotifyRequest

    def handled(self, machine: PullRaftRules, own: Server) -> tuple[Server, None]:
        return evolve(own, leader=self.message.source), None


@attrs.frozen
class HandlePullEntriesRequest(Handle):
    """A pull arrives at a leader; one that only a candidate has waits."""

    message: PullEntriesRequest
    takes = PullEntriesRequest


@attrs.frozen
class RejectPullEntriesRequest(HandlePullEntriesRequest):
    """The leader tells a follower whose last entry it does not have which one both have."""

    def lacks(self, machine: PullRaftRules, own: Server) -> str:
        if own.role != Role.LEADER:
            return "it leads"
        return "the leader does not have the follower's last entry" if machine.is_valid(own, self.message) else ""

    def handled(self, machine: PullRaftRules, own: Server) -> tuple[Server, Message]:
        request = self.message
        common = machine.last_common(own, request.end)
        return own, PullEntriesResponse(request.dest, request.source, own.epoch, (), common=common)


@attrs.frozen
class AcceptPullEntriesRequest(HandlePullEntriesRequest):
    """The leader gives the next entry once there is one, and commits what a majority has."""

    def lacks(self, machine: PullRaftRules, own: Server) -> str:
        if own.role != Role.LEADER:
            return "it leads"
        if not machine.is_valid(own, self.message):
            return "the leader has the follower's last entry"
        return "" if self.message.end.offset < len(own.log) else "there is an entry behind it"

    def handled(self, machine: PullRaftRules, own: Server) -> tuple[Server, Message]:
        request = self.message
        leader = machine.with_end(own, request)
        leader = evolve(leader, commit_index=machine.commit_index(request.dest, leader))
        at = request.end.offset
        entries, known = own.log[at : at + 1], min(leader.commit_index, at + 1)
        return leader, PullEntriesResponse(request.dest, request.source, own.epoch, entries, known)

    def effect(self, machine: PullRaftRules, state: State) -> State:
        before, after = state.servers[self.message.dest], super().effect(machine, state)
        upto = after.servers[self.message.dest].commit_index
        committed = {entry.value for entry in before.log[before.commit_index : upto]}
        acked = [value in committed if acked is False else acked for value, acked in enumerate(state.acked)]
        return evolve(after, acked=tuple(acked))


@attrs.frozen
class HandlePullEntriesResponse(Handle):
    """A response to a pull arrives."""

    message: PullEntriesResponse
    takes = PullEntriesResponse


@attrs.frozen
class HandleSuccessPullEntriesResponse(HandlePullEntriesResponse):
    """A follower appends the entry, and has the leader's commit index."""

    def lacks(self, machine: PullRaftRules, own: Server) -> str:
        return "" if self.message.entries else "the response has an entry"

    def handled(self, machine: PullRaftRules, own: Server) -> tuple[Server, None]:
        return evolve(own, commit_index=self.message.commit_index, log=own.log + self.message.entries), None


@attrs.frozen
class HandleFailPullEntriesResponse(HandlePullEntriesResponse):
    """A follower truncates its log."""

    def lacks(self, machine: PullRaftRules, own: Server) -> str:
        return "the response has no entry" if self.message.entries else ""

    def handled(self, machine: PullRaftRules, own: Server) -> tuple[Server, None]:
        return evolve(own, log=machine.truncated(own.log, self.message.common)), None

"""The actions of variant 2 of the published PullRaft model that differ from the first one's, under the same names."""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.published.kraft.state import NOBODY, Message
from tidegauge.spec.published.pull_raft import actions as first
from tidegauge.spec.published.pull_raft.rules import PullRaftRules
from tidegauge.spec.published.pull_raft.state import RequestVoteRequest, State
from tidegauge.spec.published.pull_raft.state import Server as FirstServer
from tidegauge.spec.published.pull_raft_2.rules import PullRaft2Rules
from tidegauge.spec.published.pull_raft_2.state import UNKNOWN, LeaderNotifyRequest, RequestVoteResponse, second


@attrs.frozen
class Restart(first.Restart):
    """A server restarts: it has its epoch, its vote and its log, and follows nobody."""

    def effect(self, machine: PullRaftRules, state: State) -> State:
        after = super().effect(machine, state)
        unknown = (UNKNOWN,) * machine.servers
        server = evolve(second(after.servers[self.server]), leader=NOBODY, voters_ends=unknown)
        return after.with_server(self.server, server)


@attrs.frozen
class UpdateTerm(first.UpdateTerm):
    """A server is of the epoch of a message: it has voted for nobody there."""

    def effect(self, machine: PullRaftRules, state: State) -> State:
        after, dest = super().effect(machine, state), self.message.dest
        return after.with_server(dest, evolve(second(after.servers[dest]), voted_for=NOBODY))


@attrs.frozen
class RequestVote(first.RequestVote):
    """A server is a candidate: it votes for itself, asks all others, and follows nobody."""

    def effect(self, machine: PullRaftRules, state: State) -> State:
        after = super().effect(machine, state)
        server = evolve(second(after.servers[self.server]), voted_for=self.server, leader=NOBODY)
        return after.with_server(self.server, server)


@attrs.frozen
class BecomeLeader(first.BecomeLeader):
    """A candidate with the votes of a majority leads, and tells all others."""

    def sends(self, machine: PullRaftRules, state: State) -> list[Message]:
        own, others = second(state.servers[self.server]), range(machine.servers)
        assert isinstance(machine, PullRaft2Rules)
        return [
            LeaderNotifyRequest(self.server, to, own.epoch, machine.told(own, to)) for to in others if to != self.server
        ]

    def effect(self, machine: PullRaftRules, state: State) -> State:
        after = super().effect(machine, state)
        return after.with_server(self.server, evolve(after.servers[self.server], leader=self.server))


@attrs.frozen
class HandleRequestVoteRequest(first.HandleRequestVoteRequest):
    """A server votes, or does not, and tells its last entry; whom it follows is not changed by that."""

    message: RequestVoteRequest

    def handled(self, machine: PullRaftRules, own: FirstServer) -> tuple[FirstServer, Message]:
        request, granted = self.message, machine.grants(own, self.message)
        after = evolve(second(own), voted_for=request.source) if granted else own
        return after, RequestVoteResponse(request.dest, request.source, own.epoch, granted, own.end)


@attrs.frozen
class HandleRequestVoteResponse(first.HandleRequestVoteResponse):
    """A vote is counted, and the voter's last entry noted."""

    message: RequestVoteResponse
    takes = RequestVoteResponse

    def handled(self, machine: PullRaftRules, own: FirstServer) -> tuple[FirstServer, None]:
        after, response = super().handled(machine, own)
        if not self.message.granted:
            return after, response
        ends = [*second(after).voters_ends]
        ends[self.message.source] = self.message.end
        return evolve(second(after), voters_ends=tuple(ends)), response


@attrs.frozen
class LearnOfLeader(first.LearnOfLeader):
    """A server learns who leads, and truncates its log where the leader knows that it diverges."""

    message: LeaderNotifyRequest
    takes = LeaderNotifyRequest

    def handled(self, machine: PullRaftRules, own: FirstServer) -> tuple[FirstServer, None]:
        after, response = super().handled(machine, own)
        if self.message.common == UNKNOWN:
            return after, response
        return evolve(after, log=machine.truncated(own.log, self.message.common)), response

"""The rules of the published KRaft model, and its constants; a variant overrides one rule."""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import RuledMachine
from tidegauge.spec.published.kraft.state import (
    NOBODY,
    Error,
    FetchRequest,
    FetchResponse,
    Log,
    Position,
    RequestVoteRequest,
    RequestVoteResponse,
    Role,
    Server,
    State,
)


@attrs.frozen
class KraftRules(RuledMachine[State]):
    """What KRaft decides; its fields are the constants of the TLA+ model."""

    servers: int = 3
    values: int = 1
    max_elections: int = 1
    max_restarts: int = 0

    # --- votes -------------------------------------------------------------------------------------------------------

    def grants(self, voter: Server, request: RequestVoteRequest) -> bool:
        """Whether a server of the request's epoch votes: it has not, or for that one, and its log is not ahead."""
        return self.is_free_for(voter, request.source) and self.is_not_behind(request.end, voter)

    def is_free_for(self, voter: Server, candidate: int) -> bool:
        """A vote is given once in an epoch."""
        return voter.role == Role.UNATTACHED or (voter.role == Role.VOTED and voter.voted_for == candidate)

    def is_not_behind(self, end: Position, voter: Server) -> bool:
        """The candidate's last entry is of a later epoch than the voter's, or as far in the same one."""
        return (end.epoch, end.offset) >= (voter.end.epoch, voter.end.offset)

    def is_majority(self, servers: int) -> bool:
        return 2 * servers > self.servers

    # --- fetches -----------------------------------------------------------------------------------------------------

    def is_valid(self, leader: Server, request: FetchRequest) -> bool:
        """The leader has the last entry of the follower."""
        end = end_of_epoch(leader.log, request.end.epoch)
        return request.end == Position() or (request.end.offset <= end.offset and request.end.epoch == end.epoch)

    def fetched(self, leader: Server, request: FetchRequest) -> Log:
        """The entry behind the follower's last one, if there is one."""
        return leader.log[request.end.offset : request.end.offset + 1]

    def with_end(self, leader: Server, request: FetchRequest) -> Server:
        """A follower has what it asks for more behind."""
        ends = [*leader.ends]
        ends[request.source] = request.end.offset
        return evolve(leader, ends=tuple(ends))

    def high_watermark(self, number: int, leader: Server) -> int:
        """The last entry that a majority has, if it is of the leader's epoch."""
        for offset in range(len(leader.log), 0, -1):
            having = sum(server == number or end >= offset for server, end in enumerate(leader.ends))
            if self.is_replicated(having):
                return offset if self.may_commit(leader, offset) else leader.hw
        return leader.hw

    def is_replicated(self, servers: int) -> bool:
        return self.is_majority(servers)

    def may_commit(self, leader: Server, offset: int) -> bool:
        """An entry of a former epoch is committed with one of the leader's own (Raft, section 5.4.2)."""
        return leader.log[offset - 1].epoch == leader.epoch

    def truncated(self, log: Log, diverging: Position) -> Log:
        """Up to the last entry that is not behind where the leader's log diverges."""
        for offset in range(len(log), 0, -1):
            if (log[offset - 1].epoch, offset) <= (diverging.epoch, diverging.offset):
                return log[:offset]
        return ()

    # --- transitions -------------------------------------------------------------------------------------------------

    def transitioned(self, number: int, server: Server, leader: int, epoch: int) -> Server:
        """MaybeTransition: the server once it knows of that epoch and of its leader."""
        if not has_consistent_leader(number, server, leader, epoch):
            return illegal(server)
        if epoch > server.epoch:
            return unattached(server, epoch) if leader == NOBODY else following(server, leader, epoch)
        if leader != NOBODY and server.leader == NOBODY:
            return following(server, leader, epoch)
        return server

    def responded(
        self, number: int, server: Server, response: RequestVoteResponse | FetchResponse
    ) -> tuple[Server, bool]:
        """MaybeHandleCommonResponse: the server, and whether that is all that the response is for."""
        if self.is_stale(server, response):
            return server, True
        if response.epoch > server.epoch or response.error != Error.NONE:
            return self.transitioned(number, server, response.leader, response.epoch), True
        if response.epoch == server.epoch and response.leader != NOBODY and server.leader == NOBODY:
            return evolve(server, role=Role.FOLLOWER, leader=response.leader), True
        return server, False

    def is_stale(self, server: Server, response: RequestVoteResponse | FetchResponse) -> bool:
        """A response of a former epoch counts for nothing."""
        return response.epoch < server.epoch


def end_of_epoch(log: Log, epoch: int) -> Position:
    """The last entry of that epoch or a former one."""
    for offset in range(len(log), 0, -1):
        if log[offset - 1].epoch <= epoch:
            return Position(offset, log[offset - 1].epoch)
    return Position()


def has_consistent_leader(number: int, server: Server, leader: int, epoch: int) -> bool:
    """Nobody takes another server for the leader of an epoch than this one does."""
    if leader == number:
        return server.role == Role.LEADER
    return epoch != server.epoch or NOBODY in (leader, server.leader) or server.leader == leader


def illegal(server: Server) -> Server:
    return evolve(server, role=Role.ILLEGAL, epoch=0, leader=NOBODY)


def unattached(server: Server, epoch: int) -> Server:
    return evolve(server, role=Role.UNATTACHED, epoch=epoch, leader=NOBODY)


def following(server: Server, leader: int, epoch: int) -> Server:
    """A server that follows or leads in that epoch has a leader already."""
    if server.epoch == epoch and server.role in (Role.FOLLOWER, Role.LEADER):
        return illegal(server)
    return evolve(server, role=Role.FOLLOWER, epoch=epoch, leader=leader)

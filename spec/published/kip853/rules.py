"""The rules of the published KIP-853 model, and its constants; a variant overrides one rule."""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import RuledMachine
from tidegauge.spec.published.kip853.state import (
    CONFIGURES,
    Command,
    Config,
    Entry,
    FetchRequest,
    FetchResponse,
    Log,
    RequestVoteRequest,
    RequestVoteResponse,
    Role,
    Server,
    State,
)
from tidegauge.spec.published.kraft.state import NOBODY, Error, Position


@attrs.frozen
class Kip853Rules(RuledMachine[State]):
    """What KRaft with KIP-853 decides; its fields are the constants of the TLA+ model."""

    servers: int = 2
    max_servers: int = 2
    """How many servers ever start."""
    hosts: int = 2
    values: int = 1
    values_per_epoch: int = 1
    max_epoch: int = 2
    max_restarts: int = 0
    max_added: int = 0
    max_removed: int = 0
    min_voters: int = 2
    max_voters: int = 2

    # --- votes -------------------------------------------------------------------------------------------------------

    def grants(self, voter: Server, request: RequestVoteRequest) -> bool:
        """Whether a server votes: it has not, or for that one, and its log is not ahead."""
        return self.is_free_for(voter, request.source) and self.is_not_behind(request.end, voter)

    def is_free_for(self, voter: Server, candidate: int) -> bool:
        """A vote is given once in an epoch."""
        return voter.role == Role.UNATTACHED or (voter.role == Role.VOTED and voter.voted_for == candidate)

    def is_not_behind(self, end: Position, voter: Server) -> bool:
        """The candidate's last entry is of a later epoch than the voter's, or as far in the same one."""
        return (end.epoch, end.offset) >= (voter.end.epoch, voter.end.offset)

    def is_majority(self, servers: int, server: Server) -> bool:
        """Of the voters that this server knows of."""
        return 2 * servers > len(server.members)

    def is_elected(self, candidate: Server) -> bool:
        """A majority has voted for it."""
        return self.is_majority(len(candidate.votes), candidate)

    # --- fetches -----------------------------------------------------------------------------------------------------

    def is_valid(self, leader: Server, request: FetchRequest) -> bool:
        """The leader has the last entry of the follower."""
        end = end_of_epoch(leader.log, request.end.epoch)
        return request.end.offset == 0 or (request.end.offset <= end.offset and request.end.epoch == end.epoch)

    def fetched(self, leader: Server, request: FetchRequest) -> Log:
        """The entry behind the follower's last one, if there is one."""
        return leader.log[request.end.offset : request.end.offset + 1]

    def with_end(self, leader: Server, request: FetchRequest) -> Server:
        """A voter has what it asks for more behind."""
        ends = {**dict(leader.ends), request.source: request.end.offset}
        return evolve(leader, ends=tuple(sorted(ends.items())))

    def high_watermark(self, number: int, leader: Server) -> int:
        """The last entry that a majority has, if it is of the leader's epoch; a leader that is removed counts not."""
        ends = dict(leader.ends)
        for offset in range(len(leader.log), 0, -1):
            having = sum(member == number or ends[member] >= offset for member in leader.members)
            if self.is_replicated(having, leader):
                return offset if self.may_commit(leader, offset) else leader.hw
        return leader.hw

    def is_replicated(self, servers: int, leader: Server) -> bool:
        return self.is_majority(servers, leader)

    def may_commit(self, leader: Server, offset: int) -> bool:
        """An entry of a former epoch is committed with one of the leader's own (Raft, section 5.4.2)."""
        return leader.log[offset - 1].epoch == leader.epoch

    def truncated(self, log: Log, diverging: Position) -> Log:
        """Up to the last entry that is not behind where the leader's log diverges."""
        for offset in range(len(log), 0, -1):
            if (log[offset - 1].epoch, offset) <= (diverging.epoch, diverging.offset):
                return log[:offset]
        return ()

    # --- voters ------------------------------------------------------------------------------------------------------

    def may_reconfigure(self, leader: Server) -> bool:
        """One change at a time, and none before an entry of the leader's epoch is committed."""
        return leader.config.committed and any(entry.epoch == leader.epoch for entry in leader.log[: leader.hw])

    def reconfigured(self, leader: Server, command: Command, server: int, members: tuple[int, ...]) -> Server:
        """The leader goes by the new voters at once."""
        entry = Entry(leader.epoch, command, config=leader.config.number + 1, server=server, members=members)
        log = (*leader.log, entry)
        return evolve(leader, log=log, config=config_of(log, leader.hw)).with_members_ends(members)

    def leaves(self, number: int, leader: Server, hw: int) -> bool:
        """Whether the leader commits that it is a voter no more."""
        return any(
            entry.command == Command.REMOVE_VOTER and number not in entry.members
            for entry in leader.log[leader.hw : hw]
        )

    # --- transitions -------------------------------------------------------------------------------------------------

    def transitioned(self, number: int, server: Server, leader: int, epoch: int) -> Server:
        """MaybeTransition: the server once it knows of that epoch and of its leader."""
        if not self.has_consistent_leader(number, server, leader, epoch):
            return illegal(server)
        if epoch > server.epoch:
            return unattached(server, epoch) if leader == NOBODY else following(number, server, leader, epoch)
        return following(number, server, leader, epoch) if self.is_news(number, server, leader) else server

    def has_consistent_leader(self, number: int, server: Server, leader: int, epoch: int) -> bool:
        """Nobody takes another server for the leader of an epoch than this one does."""
        if leader == number:
            has_led = server.epoch == epoch and self.may_have_led(number, server)
            return has_led or server.role == Role.LEADER
        return epoch != server.epoch or NOBODY in (leader, server.leader) or server.leader == leader

    def may_have_led(self, number: int, server: Server) -> bool:
        """It resigned, or is a voter no more: others may not know of that yet."""
        return number not in server.members or server.role == Role.RESIGNED

    def is_news(self, number: int, server: Server, leader: int) -> bool:
        """A server that knows no leader learns of one."""
        return leader not in (NOBODY, number) and server.leader == NOBODY

    def responded(
        self, number: int, server: Server, response: RequestVoteResponse | FetchResponse
    ) -> tuple[Server, bool]:
        """MaybeHandleCommonResponse: the server, and whether that is all that the response is for."""
        if response.epoch < server.epoch:
            return server, True
        if response.epoch > server.epoch or response.error in (Error.FENCED_LEADER_EPOCH, Error.NOT_LEADER):
            return self.transitioned(number, server, response.leader, response.epoch), True
        if self.is_news(number, server, response.leader):
            return following(number, server, response.leader, response.epoch), self.is_all(response)
        return server, False

    def is_all(self, response: RequestVoteResponse | FetchResponse) -> bool:
        """Whether a response that tells of a leader is for nothing else."""
        return True

    def resigned(self, number: int, leader: Server) -> Server:
        return evolve(leader, role=Role.RESIGNED, leader=NOBODY, votes=())

    def elected(self, number: int, candidate: Server) -> Server:
        """It leads, and its log has an entry that says so."""
        log = (*candidate.log, Entry(candidate.epoch, Command.LEADER_CHANGE))
        return evolve(candidate, role=Role.LEADER, leader=number, votes=(), log=log)

    def without_leader(self, number: int, leader: Server) -> Server:
        """A leader that has committed that it is a voter no more."""
        return unattached(leader, leader.epoch)


def end_of_epoch(log: Log, epoch: int) -> Position:
    """The last entry of that epoch or a former one."""
    for offset in range(len(log), 0, -1):
        if log[offset - 1].epoch <= epoch:
            return Position(offset, log[offset - 1].epoch)
    return Position()


def config_of(log: Log, hw: int) -> Config:
    """The last configuration in a log: it counts from its entry on, committed or not."""
    for offset in range(len(log), 0, -1):
        entry = log[offset - 1]
        if entry.command in CONFIGURES:
            return Config(entry.config, entry.members, hw >= offset)
    return Config(0, (), False)


def illegal(server: Server) -> Server:
    return evolve(server, role=Role.ILLEGAL, epoch=0, leader=NOBODY, votes=(), voted_for=NOBODY)


def unattached(server: Server, epoch: int) -> Server:
    """It knows no leader, and has not voted."""
    return evolve(server, role=Role.UNATTACHED, epoch=epoch, leader=NOBODY, votes=(), voted_for=NOBODY)


def following(number: int, server: Server, leader: int, epoch: int) -> Server:
    """A server that follows or leads in that epoch has a leader already."""
    has_leader = epoch == server.epoch and server.role in (Role.FOLLOWER, Role.LEADER)
    if leader == number or has_leader or epoch < server.epoch:
        return illegal(server)
    voted_for = NOBODY if epoch > server.epoch else server.voted_for
    return evolve(server, role=Role.FOLLOWER, epoch=epoch, leader=leader, votes=(), voted_for=voted_for)

"""The rules of the published PullRaft model, and its constants; a variant overrides one rule."""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import RuledMachine
from tidegauge.spec.published.kraft.state import NOBODY, Log, Position
from tidegauge.spec.published.pull_raft.state import PullEntriesRequest, RequestVoteRequest, Server, State


@attrs.frozen
class PullRaftRules(RuledMachine[State]):
    """What PullRaft decides; its fields are the constants of the TLA+ model."""

    servers: int = 3
    values: int = 2
    max_elections: int = 1
    max_restarts: int = 0

    # --- votes -------------------------------------------------------------------------------------------------------

    def grants(self, voter: Server, request: RequestVoteRequest) -> bool:
        """Whether a server votes: in its epoch, once, and for a candidate whose log is not behind its own."""
        may = self.is_free_for(voter, request.source) and self.is_not_behind(request.end, voter)
        return request.epoch == voter.epoch and may

    def is_free_for(self, voter: Server, candidate: int) -> bool:
        """A vote is given once in an epoch."""
        return voter.leader in (NOBODY, candidate)

    def is_not_behind(self, end: Position, voter: Server) -> bool:
        """The candidate's last entry is of a later epoch than the voter's, or as far in the same one."""
        return (end.epoch, end.offset) >= (voter.end.epoch, voter.end.offset)

    def is_majority(self, servers: int) -> bool:
        return 2 * servers > self.servers

    # --- pulls -------------------------------------------------------------------------------------------------------

    def is_valid(self, leader: Server, request: PullEntriesRequest) -> bool:
        """The leader has the last entry of the follower (ValidPullPosition)."""
        return end_of_first(leader.log, request.end.offset) == request.end

    def last_common(self, leader: Server, end: Position) -> Position:
        """The last entry of the leader that is not behind the follower's last one (LastCommonEntry)."""
        for index in range(len(leader.log), 0, -1):
            if (leader.log[index - 1].epoch, index) <= (end.epoch, end.offset):
                return Position(index, leader.log[index - 1].epoch)
        return Position()

    def with_end(self, leader: Server, request: PullEntriesRequest) -> Server:
        """A follower has what it asks for more behind."""
        ends = [*leader.ends]
        ends[request.source] = request.end.offset
        return evolve(leader, ends=tuple(ends))

    def commit_index(self, number: int, leader: Server) -> int:
        """The last entry that a majority has, if it is of the leader's epoch (NewCommitIndex)."""
        for index in range(len(leader.log), 0, -1):
            having = sum(server == number or end >= index for server, end in enumerate(leader.ends))
            if self.is_replicated(having):
                return index if self.may_commit(leader, index) else leader.commit_index
        return leader.commit_index

    def is_replicated(self, servers: int) -> bool:
        return self.is_majority(servers)

    def may_commit(self, leader: Server, index: int) -> bool:
        """An entry of a former epoch is committed with one of the leader's own (Raft, section 5.4.2)."""
        return leader.log[index - 1].epoch == leader.epoch

    def truncated(self, log: Log, common: Position) -> Log:
        """Up to the last entry that both logs have."""
        return log[: common.offset]


def end_of_first(log: Log, entries: int) -> Position:
    """The last one of so many entries of a log; none where the log is shorter."""
    return Position(entries, log[entries - 1].epoch) if 0 < entries <= len(log) else Position()

"""The rules of variant 2 of the published PullRaft model: those of the first one, but for whom a vote is free."""

from __future__ import annotations

import attrs

from tidegauge.spec.published.kraft.state import NOBODY, Position
from tidegauge.spec.published.pull_raft import state as first
from tidegauge.spec.published.pull_raft.rules import PullRaftRules
from tidegauge.spec.published.pull_raft_2.state import UNKNOWN, VotingServer, second


@attrs.frozen
class PullRaft2Rules(PullRaftRules):
    """What variant 2 of PullRaft decides; its fields are the constants of the TLA+ model."""

    def is_free_for(self, voter: first.Server, candidate: int) -> bool:
        """A vote is given once in an epoch; whom a server takes for the leader does not matter."""
        return second(voter).voted_for in (NOBODY, candidate)

    def told(self, leader: VotingServer, server: int) -> Position:
        """The last entry that both logs have, where the leader knows the other log by its vote."""
        end = leader.voters_ends[server]
        return end if end == UNKNOWN else self.last_common(leader, end)

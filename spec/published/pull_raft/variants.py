"""The published PullRaft model with a rule taken out: what the explorer then finds says what that rule is for."""

from __future__ import annotations

import attrs

from tidegauge.spec.published.kraft.state import Position
from tidegauge.spec.published.pull_raft.machine import PullRaft
from tidegauge.spec.published.pull_raft.state import Server


@attrs.frozen
class PullVotesForAll(PullRaft):
    """A server votes for everybody who asks: two servers lead in one epoch, which no invariant tells."""

    def is_free_for(self, voter: Server, candidate: int) -> bool:
        return True


@attrs.frozen
class PullVotesForShorterLogs(PullRaft):
    """A server votes for a candidate whose log is behind its own: the next leader lacks what was acknowledged."""

    def is_not_behind(self, end: Position, voter: Server) -> bool:
        return True


@attrs.frozen
class PullCommitsWithoutMajority(PullRaft):
    """A leader commits what it has: the next leader lacks what was acknowledged."""

    def is_replicated(self, servers: int) -> bool:
        return True

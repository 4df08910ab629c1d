"""The state of variant 2 of the published PullRaft model: votes apart from leaders, and the last entries of voters."""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.keyed import KEYED
from tidegauge.spec.published.kraft.state import Messages, Names, Position, named
from tidegauge.spec.published.pull_raft import state as first

UNKNOWN: Final = Position(-1, -1)
"""Nil, where the last entry of another server's log is named."""


@attrs.frozen(order=True, cache_hash=True)
class RequestVoteResponse(first.RequestVoteResponse):
    """The vote, or none, and the voter's last entry."""

    end: Position


@attrs.frozen(order=True, cache_hash=True)
class LeaderNotifyRequest(first.LeaderNotifyRequest):
    """A leader tells all that it leads, and to its voters the last entry that both logs have."""

    common: Position


@attrs.frozen(cache_hash=True)
class VotingServer(first.Server):
    """A voter; `leader` is whom it was told of."""

    voted_for: int
    voters_ends: tuple[Position, ...]
    """Of a candidate, by server: the last entry of whom has voted for it, in whichever epoch."""

    def renamed(self, names: Names) -> VotingServer:
        ends = [UNKNOWN] * len(names)
        for server, end in enumerate(self.voters_ends):
            ends[names[server]] = end
        renamed = second(super().renamed(names))
        return evolve(renamed, voted_for=named(self.voted_for, names), voters_ends=tuple(ends))


@attrs.frozen
class VotingState(first.State):
    """All servers, which are voters of this variant."""

    servers: tuple[VotingServer, ...]
    messages: Messages = attrs.field(metadata=KEYED)
    acked: tuple[bool | None, ...]
    elections: int = 0
    restarts: int = 0


def second(server: first.Server) -> VotingServer:
    """A server of variant 2, which has no others."""
    assert isinstance(server, VotingServer)
    return server

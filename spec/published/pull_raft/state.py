"""The state of the published PullRaft model (see `spec.published.pull_raft.machine`): servers, all messages."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.keyed import KEYED, in_order
from tidegauge.spec.published.kraft.state import (
    Log,
    Message,
    Messages,
    Names,
    Position,
    end_of,
    named,
    renamed,
)

NOWHERE: Final = Position()
"""Before the first entry."""


class Role(IntEnum):
    """What a server is at."""

    FOLLOWER = 0
    CANDIDATE = 1
    LEADER = 2


@attrs.frozen(order=True, cache_hash=True)
class RequestVoteRequest(Message):
    """A candidate asks for a vote."""

    end: Position


@attrs.frozen(order=True, cache_hash=True)
class RequestVoteResponse(Message):
    """The vote, or none."""

    granted: bool


@attrs.frozen(order=True, cache_hash=True)
class LeaderNotifyRequest(Message):
    """A leader tells those that have not voted for it that it leads."""


@attrs.frozen(order=True, cache_hash=True)
class PullEntriesRequest(Message):
    """A follower asks for what is behind its last entry."""

    end: Position


@attrs.frozen(order=True, cache_hash=True)
class PullEntriesResponse(Message):
    """The entry there and the leader's commit index, or the last entry that both logs have."""

    entries: Log
    """One; none where the leader does not have the follower's last entry."""
    commit_index: int = 0
    common: Position = NOWHERE


@attrs.frozen(cache_hash=True)
class Server:
    """A voter: what it keeps (epoch, leader, log), and what it forgets when it restarts."""

    epoch: int
    role: Role
    leader: int
    """Whom it has voted for, and takes for the leader."""
    log: Log
    commit_index: int
    votes: tuple[int, ...]
    """Of a candidate: who has voted for it."""
    ends: tuple[int, ...]
    """Of a leader, by server: the index up to which that has the log (matchIndex)."""

    @property
    def end(self) -> Position:
        return end_of(self.log)

    def renamed(self, names: Names) -> Self:
        ends = [0] * len(names)
        for server, end in enumerate(self.ends):
            ends[names[server]] = end
        return evolve(
            self,
            leader=named(self.leader, names),
            votes=tuple(sorted(names[server] for server in self.votes)),
            ends=tuple(ends),
        )


@attrs.frozen
class State:
    """All servers, by their numbers."""

    servers: tuple[Server, ...]
    messages: Messages = attrs.field(metadata=KEYED)
    acked: tuple[bool | None, ...]
    """By value: None until a client has sent it, then whether it is acknowledged."""
    elections: int = 0
    restarts: int = 0

    def with_server(self, number: int, server: Server) -> State:
        servers = [*self.servers]
        servers[number] = server
        return evolve(self, servers=tuple(servers))

    def renamed(self, names: Names) -> State:
        servers = [*self.servers]
        for number, server in enumerate(self.servers):
            servers[names[number]] = renamed(server, names)
        messages = [(renamed(message, names), count) for message, count in self.messages]
        return evolve(self, servers=tuple(servers), messages=tuple(sorted(messages, key=in_order)))

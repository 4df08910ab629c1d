"""The state of the published KRaft model (see `spec.published.kraft.machine`): servers, and every message ever sent."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from typing import Final, Protocol, Self, TypeAlias, TypeVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.keyed import KEYED, Pairs, in_order, value_of, with_value

NOBODY: Final = -1
"""Nil, where a server is named."""
Names: TypeAlias = tuple[int, ...]
"""By server: its name in a renaming."""


class Role(IntEnum):
    """What a server is at."""

    UNATTACHED = 0
    VOTED = 1
    CANDIDATE = 2
    LEADER = 3
    FOLLOWER = 4
    ILLEGAL = 5
    """IllegalState: a transition that the protocol does not have."""


class Error(IntEnum):
    """The error of a response."""

    NONE = 0
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    NOT_LEADER = 6


class Result(IntEnum):
    """What a FetchResponse is about."""

    OK = 0
    NOT_OK = 1
    DIVERGING = 2


@attrs.frozen(order=True, cache_hash=True)
class Entry:
    """An entry of a log: the epoch in which it was written, and a client's value."""

    epoch: int
    value: int


Log: TypeAlias = tuple[Entry, ...]


@attrs.frozen(order=True, cache_hash=True)
class Position:
    """An offset, counted from 1, and the epoch of the entry there; 0 and 0 before the first one."""

    offset: int = 0
    epoch: int = 0


def end_of(log: Log) -> Position:
    """The last entry's position."""
    return Position(len(log), log[-1].epoch) if log else Position()


@attrs.frozen(order=True, cache_hash=True)
class Message:
    """From one server to another."""

    source: int
    dest: int
    epoch: int

    def renamed(self, names: Names) -> Self:
        return evolve(self, source=names[self.source], dest=names[self.dest])


@attrs.frozen(order=True, cache_hash=True)
class RequestVoteRequest(Message):
    """A candidate asks for a vote."""

    end: Position


@attrs.frozen(order=True, cache_hash=True)
class RequestVoteResponse(Message):
    """The vote, or none, and the leader that the voter knows of."""

    granted: bool
    leader: int
    error: Error = Error.NONE

    def renamed(self, names: Names) -> Self:
        return evolve(super().renamed(names), leader=named(self.leader, names))


@attrs.frozen(order=True, cache_hash=True)
class BeginQuorumRequest(Message):
    """A leader tells that it leads."""


@attrs.frozen(order=True, cache_hash=True)
class BeginQuorumResponse(Message):
    """It has arrived. Nobody takes this message in."""

    error: Error = Error.NONE


@attrs.frozen(order=True, cache_hash=True)
class FetchRequest(Message):
    """A follower asks for what is behind its last entry."""

    end: Position


@attrs.frozen(order=True, cache_hash=True)
class FetchResponse(Message):
    """The entry there, if there is one; where the logs diverge; or an error."""

    request: FetchRequest
    result: Result
    leader: int
    hw: int
    error: Error = Error.NONE
    entries: Log = ()
    diverging: Position = Position()

    def renamed(self, names: Names) -> Self:
        return evolve(super().renamed(names), leader=named(self.leader, names), request=self.request.renamed(names))


def named(server: int, names: Names) -> int:
    return server if server == NOBODY else names[server]


class Renamed(Protocol):
    """What is named by servers."""

    def renamed(self, names: Names) -> Self: ...


P = TypeVar("P", bound=Renamed)
Messages: TypeAlias = Pairs[Message, int]
"""Every message that was ever sent, in order, and how often it is on its way now."""


class HasMessages(Protocol):
    """A state of any of the models whose messages are counted."""

    @property
    def messages(self) -> Messages: ...


def count_of(messages: Messages, message: Message) -> int | None:
    """How often a message is on its way; None if it was never sent."""
    return value_of(messages, message)


def sent(messages: Messages, message: Message) -> Messages:
    """With the message once more on its way."""
    return with_value(messages, (message, (value_of(messages, message) or 0) + 1))


def taken(messages: Messages, message: Message) -> Messages:
    """With the message once less on its way."""
    return with_value(messages, (message, (value_of(messages, message) or 0) - 1))


def messages_of(state: HasMessages) -> Messages:
    return state.messages


def to(server: int) -> Callable[[Message], bool]:
    """Which messages are to that server."""
    return lambda message: message.dest == server


@lru_cache(1 << 16)
def renamed(part: P, names: Names) -> P:
    """A server, or a message, of the servers that have these names. A search renames each many thousand times."""
    return part.renamed(names)


@attrs.frozen(cache_hash=True)
class Server:
    """A voter: what it keeps (epoch, vote, log), and what it forgets when it restarts."""

    epoch: int
    role: Role
    voted_for: int
    leader: int
    pending: FetchRequest | None
    """The request that it waits for the response to."""
    log: Log
    hw: int
    votes: tuple[int, ...]
    """Of a candidate: who has voted for it."""
    ends: tuple[int, ...]
    """Of a leader, by server: the offset up to which that has the log."""

    @property
    def end(self) -> Position:
        return end_of(self.log)

    def renamed(self, names: Names) -> Self:
        ends = [0] * len(names)
        for server, end in enumerate(self.ends):
            ends[names[server]] = end
        pending = self.pending.renamed(names) if self.pending is not None else None
        return evolve(
            self,
            voted_for=named(self.voted_for, names),
            leader=named(self.leader, names),
            pending=pending,
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

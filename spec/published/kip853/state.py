"""The state of the published KIP-853 model (see `spec.published.kip853.machine`): servers, hosts, messages, values."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.keyed import KEYED, Pairs, value_of, with_value
from tidegauge.spec.kernel.piecemeal import IN_PARTS
from tidegauge.spec.published.kraft.state import NOBODY, Error, Message, Position, Result

START: Final = Position()
"""Before the first entry."""
FIRST: Final = Position(-1, 0)
"""What a new server's first fetch names, which nobody serves."""


class Role(IntEnum):
    """What a server is at; only its configuration tells whether it is a voter or an observer."""

    UNATTACHED = 0
    VOTED = 1
    CANDIDATE = 2
    LEADER = 3
    FOLLOWER = 4
    RESIGNED = 5
    PROSPECTIVE = 6
    """It asks whether it would be voted for (KIP-996)."""
    ILLEGAL = 7
    """IllegalState: a transition that the protocol does not have."""


class Command(IntEnum):
    """What an entry is."""

    APPEND = 0
    INIT_CLUSTER = 1
    ADD_VOTER = 2
    REMOVE_VOTER = 3
    LEADER_CHANGE = 4


class Outcome(IntEnum):
    """What has become of a client's value."""

    UNSENT = 0
    SENT = 1
    ACKED = 2
    FAILED = 3


@attrs.frozen(order=True, cache_hash=True)
class Entry:
    """An entry of a log: a client's value, voters as they are from here on, or that a leader begins."""

    epoch: int
    command: Command
    value: int = NOBODY
    config: int = 0
    """The id of the configuration."""
    server: int = NOBODY
    """Who was added or removed."""
    members: tuple[int, ...] = ()


Log: TypeAlias = tuple[Entry, ...]
CONFIGURES: Final = (Command.INIT_CLUSTER, Command.ADD_VOTER, Command.REMOVE_VOTER)


def end_of(log: Log) -> Position:
    """The last entry's position."""
    return Position(len(log), log[-1].epoch) if log else Position()


@attrs.frozen(order=True, cache_hash=True)
class Config:
    """The voters, and whether a server knows that they are committed."""

    number: int
    members: tuple[int, ...]
    committed: bool


# --- messages --------------------------------------------------------------------------------------------------------


@attrs.frozen(order=True, cache_hash=True)
class RequestVoteRequest(Message):
    """A candidate asks for a vote; or a server whether it would be voted for (KIP-996)."""

    end: Position
    pre_vote: bool = False


@attrs.frozen(order=True, cache_hash=True)
class RequestVoteResponse(Message):
    """The vote, or none, and the leader that the voter knows of."""

    leader: int
    granted: bool
    error: Error = Error.NONE
    pre_vote: bool = False


@attrs.frozen(order=True, cache_hash=True)
class BeginQuorumEpochRequest(Message):
    """A leader tells that it leads."""


@attrs.frozen(order=True, cache_hash=True)
class FetchRequest(Message):
    """A voter or an observer asks for what is behind its last entry."""

    end: Position
    observer: bool


@attrs.frozen(order=True, cache_hash=True)
class FetchResponse(Message):
    """The entry there, if there is one; where the logs diverge; or an error."""

    request: FetchRequest
    result: Result
    leader: int
    hw: int
    error: Error = Error.NONE
    entries: Log = ()
    diverging: Position = START


@attrs.frozen(order=True, cache_hash=True)
class Whereabouts:
    """Of a message: whether it is on its way, and whether it has been taken in, as it may be more than once."""

    under_way: bool
    taken: bool


Messages: TypeAlias = Pairs[Message, Whereabouts]
"""Every message that was ever sent, in order."""


def is_under_way(messages: Messages, message: Message) -> bool:
    at = value_of(messages, message)
    return at is not None and at.under_way


def was_sent(messages: Messages, message: Message) -> bool:
    return value_of(messages, message) is not None


def sent(messages: Messages, message: Message) -> Messages:
    """With the message on its way: one that is already, is once."""
    at = value_of(messages, message)
    return with_value(messages, (message, Whereabouts(True, at is not None and at.taken)))


def taken(messages: Messages, message: Message) -> Messages:
    """With the message taken in, which was on its way."""
    return with_value(messages, (message, Whereabouts(False, True)))


def messages_of(state: State) -> Messages:
    return state.messages


# --- servers ---------------------------------------------------------------------------------------------------------


@attrs.frozen(cache_hash=True)
class LastResponse:
    """The last response to a fetch."""

    peer: int
    error: Error


@attrs.frozen(cache_hash=True)
class Fetching:
    """What a server knows of its own fetches."""

    pending: FetchRequest | None = None
    """The request that it waits for the response to."""
    last: LastResponse | None = None
    has_succeeded: bool = False
    """Whether the leader of its epoch has ever served it (KIP-996)."""


@attrs.frozen(cache_hash=True)
class Server:
    """A voter or an observer."""

    config: Config
    epoch: int
    role: Role
    voted_for: int
    leader: int
    fetching: Fetching
    unacked: tuple[int, ...]
    """Of a leader: the values whose clients wait."""
    log: Log
    hw: int
    votes: tuple[int, ...]
    """Of a candidate: who has voted for it."""
    ends: tuple[tuple[int, int], ...]
    """Of a leader, by voter: the offset up to which that has the log."""

    @property
    def end(self) -> Position:
        return end_of(self.log)

    @property
    def members(self) -> tuple[int, ...]:
        return self.config.members

    def with_members_ends(self, members: tuple[int, ...]) -> Server:
        """What it knows of the voters of a configuration: nothing of new ones."""
        known = dict(self.ends)
        return evolve(self, ends=tuple((member, known.get(member, 0)) for member in members))

    def with_no_ends(self, members: tuple[int, ...]) -> Server:
        return evolve(self, ends=tuple((member, 0) for member in members))


@attrs.frozen
class State:
    """All servers that ever started, by their numbers."""

    servers: tuple[Server, ...] = attrs.field(metadata=IN_PARTS)
    hosts: tuple[int, ...]
    """By server; with a server's number, which stands for its disk, its identity."""
    messages: Messages = attrs.field(metadata=KEYED)
    values: tuple[Outcome, ...]
    restarts: int = 0
    added: int = 0
    removed: int = 0
    disruptions: int = 0
    """Timeouts that nothing gave a reason for (KIP-996)."""

    def with_server(self, number: int, server: Server) -> State:
        return evolve(self, servers=(*self.servers[:number], server, *self.servers[number + 1 :]))

    def failing(self, number: int) -> State:
        """Clients that wait for this server are told that it has failed."""
        server = self.servers[number]
        after = self.with_server(number, evolve(server, unacked=()))
        return after.with_outcomes(server.unacked, Outcome.FAILED)

    def with_outcomes(self, values: tuple[int, ...], outcome: Outcome) -> State:
        outcomes = tuple(outcome if value in values else known for value, known in enumerate(self.values))
        return evolve(self, values=outcomes)

"""The state of the published models of transactions (see `spec.published.transactions_diary.machine`)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias

import attrs

from tidegauge.spec.kernel.evolving import evolve

NONE: Final = -1
"""No coordinator, producer id or epoch."""
Partitions: TypeAlias = tuple[int, ...]
"""Topic partitions, in order."""


class ClientState(IntEnum):
    """What a client is at; it is no part of the protocol."""

    READY = 0
    SENT_INIT_PID_REQUEST = 1
    HAS_PID = 2
    BEGUN_TXN = 3
    TERMINATED = 4
    """It was refused for good."""


class TxnState(IntEnum):
    """The state of a transaction."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    PREPARE_EPOCH_FENCE = 7


class Code(IntEnum):
    """What a response says."""

    OK = 0
    NOT_COORDINATOR = 16
    INVALID_TRANSITION = 48
    """The protocol does not have that step: no response may say so."""
    INVALID_PRODUCER_ID_MAPPING = 49
    CONCURRENT_TRANSACTIONS = 51
    PRODUCER_FENCED = 90


@attrs.frozen(order=True, cache_hash=True)
class Message:
    """Between a client and a broker."""

    client: int
    broker: int


@attrs.frozen(order=True, cache_hash=True)
class InitPidRequest(Message):
    """A client asks for a producer id and epoch."""


@attrs.frozen(order=True, cache_hash=True)
class InitPidResponse(Message):
    """A producer id and epoch; none of either with an error."""

    code: Code
    pid: int = NONE
    pepoch: int = NONE


@attrs.frozen(order=True, cache_hash=True)
class AddPartitionsRequest(Message):
    """A client adds partitions to its transaction."""

    pid: int
    pepoch: int
    partitions: Partitions


@attrs.frozen(order=True, cache_hash=True)
class AddPartitionsResponse(Message):
    """The partitions of the transaction; none with an error."""

    code: Code
    partitions: Partitions = ()


Messages: TypeAlias = tuple[Message, ...]
"""A set, in order."""


def _in_order(message: Message) -> tuple[str, Message]:
    return type(message).__name__, message


def with_message(messages: Messages, message: Message) -> Messages:
    return tuple(sorted({*messages, message}, key=_in_order))


def without_message(messages: Messages, message: Message) -> Messages:
    return tuple(each for each in messages if each != message)


@attrs.frozen(cache_hash=True)
class Metadata:
    """What a coordinator knows of the transactional id, or is about to."""

    pid: int
    pepoch: int
    last_pepoch: int
    state: TxnState
    partitions: Partitions


@attrs.frozen(cache_hash=True)
class Entry:
    """An entry of the transaction log, and what the coordinator responds then."""

    transition: Metadata
    response: Message | None
    """Once the entry is committed."""
    error: Message | None
    """If the coordinator is deposed first."""


@attrs.frozen(cache_hash=True)
class Client:
    """A producer."""

    state: ClientState = ClientState.READY
    tc: int = NONE
    """The broker that it takes for the coordinator."""
    pid: int = NONE
    epoch: int = NONE
    last_state: ClientState | None = None
    last_error: Code | None = None
    pending: Partitions = ()
    partitions: Partitions = ()


@attrs.frozen(cache_hash=True)
class Broker:
    """A replica of the transaction log's partition; its leader is the transaction coordinator."""

    leader: int
    """Whom it takes for the leader."""
    cepoch: int = 1
    """The coordinator epoch that it knows of."""
    metadata: Metadata | None = None
    transition: Metadata | None = None
    """What is written and not yet committed."""
    log: tuple[Entry, ...] = ()


@attrs.frozen
class State:
    """Clients and brokers by their numbers, and every message on its way or taken."""

    clients: tuple[Client, ...]
    brokers: tuple[Broker, ...]
    leader: int = 0
    """The coordinator, as the controller has it."""
    cepoch: int = 1
    hwm: int = 0
    """How many entries are committed; every replica knows."""
    pids: int = 0
    """The last producer id that was given out."""
    elections: int = 0
    messages: Messages = ()
    discarded: Messages = ()

    def with_client(self, number: int, client: Client) -> State:
        clients = [*self.clients]
        clients[number] = client
        return evolve(self, clients=tuple(clients))

    def with_broker(self, number: int, broker: Broker) -> State:
        brokers = [*self.brokers]
        brokers[number] = broker
        return evolve(self, brokers=tuple(brokers))

    def sent(self, message: Message) -> State:
        return evolve(self, messages=with_message(self.messages, message))

    def taken(self, message: Message) -> State:
        messages = without_message(self.messages, message)
        return evolve(self, messages=messages, discarded=with_message(self.discarded, message))

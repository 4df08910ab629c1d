"""What a recording asks of a client library: one producer, one reader and one admin, each used by one thread.

A library is named as it is installed (`confluent-kafka`); it is imported when it is first asked for, so that none is
needed but the one that is used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import MappingProxyType
from typing import Final, Protocol

import attrs

Delivered = Callable[[int | None, str | None], None]
"""(offset, None): at this offset; (None, None): sent and not acknowledged (acks=0); (None, error): nobody knows."""

Properties = Mapping[str, str | int | bool]
"""Settings as the library names them, on top of what the recording sets."""


SESSION_MS: Final = 6_000
"""How long a group waits for a member, and for its next poll; brokers grant no less by default."""
HEARTBEAT_MS: Final = 500
MEMBER_SETTINGS: Final[Properties] = {
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "fetch_max_wait_ms": 50,
    "session_timeout_ms": SESSION_MS,
    "heartbeat_interval_ms": HEARTBEAT_MS,
    "max_poll_interval_ms": SESSION_MS,
}
"""Of a member of a group, as kafka-python and aiokafka name them."""
TRANSACTION_MS: Final = 5_000
"""How long a coordinator waits for a process that is gone."""


class NotSentError(Exception):
    """The library refused to send: nothing happened at the cluster."""


class UnavailableError(Exception):
    """The cluster cannot be reached or used as asked, or the library is not installed; says which and the way out."""


@attrs.frozen
class Record:
    """A record as it was read; `value` is None for a tombstone."""

    offset: int
    value: bytes | None


class Producer(Protocol):
    """Sends one record at a time; may have many on their way."""

    def send(self, topic: str, partition: int, value: bytes, delivered: Delivered) -> None:
        """Send; `delivered` is called once, in any thread. Raises NotSentError."""

    def serve(self, seconds: float) -> None:
        """Give the library time to call `delivered`."""

    def close(self, seconds: float) -> None:
        """Wait at most so long for what is on its way, then let go."""


class TransactionalProducer(Protocol):
    """The process of a transactional id: it does one thing after the other, and each waits for its end.

    `__init__` waits until the coordinator has ended what older processes have left. Every method raises
    UnavailableError where nobody knows what became of it.
    """

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, value: bytes) -> int:
        """The offset at which it was acknowledged."""

    def commit_offset(self, topic: str, partition: int, offset: int) -> None:
        """The group goes on there, if the transaction is committed."""

    def committed(self, topic: str, partition: int) -> int:
        """Where the group goes on; 0 where it has said nothing."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None:
        """Let go of it, also in the midst of a transaction."""


@attrs.frozen
class Polled:
    """What a poll returned of a partition."""

    partition: int
    records: Sequence[Record]
    """One or more."""


class Assigned(Protocol):
    """Told what a member has been assigned: all that it owns, or with `incremental` what has come to it."""

    def __call__(self, partitions: Sequence[int], generation: int | None, *, incremental: bool) -> None: ...


@attrs.frozen
class Rebalances:
    """What a member's library calls as it rebalances."""

    assigned: Assigned
    released: Callable[[Sequence[int]], None]
    """Before what is taken away may be another one's; or after, where it is lost."""


class Member(Protocol):
    """A member of a group, which has subscribed to the topic. Every method may raise UnavailableError."""

    def poll(self, seconds: float) -> list[Polled]:
        """What comes within so long."""

    def generation(self) -> int | None:
        """The group's generation; None where the library does not tell it."""

    def commit(self, partition: int, offset: int, metadata: str) -> None:
        """Commit, and wait for the response."""

    def committed(self, partition: int) -> tuple[int, str] | None:
        """The committed offset and its metadata, as the coordinator says; None where there is none."""

    def close(self) -> None:
        """Leave the group."""


class Reader(Protocol):
    """Reads one partition at a time, by position."""

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Read on from there."""

    def read(self, seconds: float) -> list[Record]:
        """What comes within so long, from where the last read ended. Raises UnavailableError."""

    def end_offset(self, topic: str, partition: int) -> int:
        """The latest offset, as the cluster says. Raises UnavailableError."""

    def close(self) -> None: ...


class Admin(Protocol):
    """Makes the topic, and removes it."""

    def create_topic(self, topic: str, partitions: int, replication_factor: int) -> None:
        """Make a topic and wait until it can be used. Raises UnavailableError."""

    def delete_topic(self, topic: str) -> None:
        """Raises UnavailableError."""

    def close(self) -> None: ...


@attrs.frozen
class Library:
    """A client library."""

    producer: Callable[[str, int, Properties], Producer]
    """(bootstrap, acks, properties); retries only where the library can tell a repetition from a second record."""
    reader: Callable[[str, Properties], Reader]
    admin: Callable[[str, Properties], Admin]
    transactional: Callable[[str, str, str, Properties], TransactionalProducer]
    """(bootstrap, transactional id, group, properties)."""
    member: Callable[[str, str, str, str, Properties, Rebalances], Member]
    """(bootstrap, group, topic, protocol, properties, rebalances); classic or consumer, if the library has it."""
    isolation: str = "isolation_level"
    """The setting of a reader: read_committed or read_uncommitted."""


LIBRARIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "confluent-kafka": "tidegauge.model_tests.harness.recording.confluent_clients",
        "kafka-python": "tidegauge.model_tests.harness.recording.kafka_python_clients",
        "aiokafka": "tidegauge.model_tests.harness.recording.aiokafka_clients",
    }
)
"""Library -> the module that speaks to it."""


@contextmanager
def quiet() -> Iterator[None]:
    """The libraries keep their logs to themselves meanwhile: what goes wrong is in the history."""
    loggers = [logging.getLogger(name) for name in ("kafka", "aiokafka", "asyncio")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def library(name: str) -> Library:
    """The library of this name. Raises UnavailableError when it is not installed, ValueError when it is not known."""
    if name not in LIBRARIES:
        raise ValueError(f"client {name!r} is not known: use one of {', '.join(LIBRARIES)}")
    try:
        module = import_module(LIBRARIES[name])
    except ImportError as error:
        raise UnavailableError(f"{name} is not installed ({error}): pip install {name}") from None
    found: Library = module.LIBRARY
    return found

"""Settings: which there are of what, what their values may be, and what an operation makes of them (KIP-339)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final

import attrs

from tidegauge.spec.administration.state import Settings

MIN_INSYNC: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
POLICY: Final = "cleanup.policy"
RETENTION: Final = "retention.ms"
THREADS: Final = "log.cleaner.threads"
SESSION: Final = "consumer.session.timeout.ms"
LONGEST: Final = (1 << 15) - 1
"""Characters of a value."""
DEFAULT_POLICY: Final = "delete"


class Kind(IntEnum):
    """Of what there are settings, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class Operation(IntEnum):
    """What is done with one setting, by Kafka's numbers; NO_SUCH is none of them."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
    NO_SUCH = 4


@attrs.frozen
class Resource:
    """A topic by its name's number, a broker, or all brokers (-1), or the group."""

    kind: Kind
    number: int


@attrs.frozen
class Change:
    """An operation on one setting."""

    name: str
    operation: Operation
    value: str | None = None


@attrs.frozen
class _Number:
    """Says of a text whether it is a number within these bounds."""

    least: int
    most: int = (1 << 31) - 1

    def __call__(self, text: str) -> bool:
        return text.removeprefix("-").isdecimal() and self.least <= int(text) <= self.most


def items(text: str) -> tuple[str, ...]:
    """The items of a list."""
    return tuple(item.strip() for item in text.split(",") if item.strip())


def is_policy(text: str) -> bool:
    """Each of the two words at most once (KIP-1161)."""
    return sorted(items(text)) in ([], ["compact"], ["delete"], ["compact", "delete"])


def _is_truth(text: str) -> bool:
    return text in ("true", "false")


VALUES: Final[Mapping[Kind, Mapping[str, Callable[[str], bool]]]] = {
    Kind.TOPIC: {MIN_INSYNC: _Number(1), UNCLEAN: _is_truth, POLICY: is_policy, RETENTION: _Number(-1)},
    Kind.BROKER: {MIN_INSYNC: _Number(1), UNCLEAN: _is_truth, THREADS: _Number(1)},
    Kind.GROUP: {SESSION: _Number(45_000, 60_000)},
}
"""What may be set, and whether a value may be."""


def changed(settings: Settings, change: Change) -> Settings:
    """What a change that is no error makes of the settings; to a list items are added that it lacks."""
    known = dict(settings)
    if change.operation is Operation.DELETE:
        known.pop(change.name, None)
    elif change.operation is Operation.SET:
        known[change.name] = change.value or ""
    else:
        now, given = items(known.get(change.name, DEFAULT_POLICY)), items(change.value or "")
        added = (*now, *(item for item in given if item not in now))
        left = tuple(item for item in now if item not in given)
        known[change.name] = ",".join(added if change.operation is Operation.APPEND else left)
    return tuple(sorted(known.items()))

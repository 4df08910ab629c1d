"""What can be wrong with a group; docs/history.md defines each."""

from __future__ import annotations

from enum import Enum

import attrs


class Name(Enum):
    """What is wrong."""

    ASSIGNED_TWICE = "assigned-twice"
    UNASSIGNED = "unassigned"
    TWO_COMMITTERS = "two-committers"
    COMMIT_OF_FORMER_GENERATION = "commit-of-former-generation"
    FAILED_COMMIT_READ = "failed-commit-read"
    COMMIT_READ_TOO_SOON = "commit-read-too-soon"
    COMMITTED_OFFSET_ORDER = "committed-offset-order"
    LOST_DELIVERY = "lost-delivery"
    DOUBLED_DELIVERY = "doubled-delivery"
    DELIVERED_AFTER_COMMIT = "delivered-after-commit"
    SKIPPED_DELIVERY = "skipped-delivery"
    NONMONOTONIC_DELIVERY = "nonmonotonic-delivery"
    UNDELIVERED = "undelivered"


class Promise(Enum):
    """What the application promises of deliveries."""

    AT_LEAST_ONCE = "at least once"
    """It commits what it has been through."""
    AT_MOST_ONCE = "at most once"
    """It commits what it is about to go through, and waits for that."""


@attrs.frozen
class GroupAnomaly:
    """One kind of anomaly: the rows of its first occurrence, how many there are, and why."""

    name: Name
    rows: tuple[int, ...]
    count: int
    witness: str

    def __str__(self) -> str:
        times = "" if self.count == 1 else f" (and {self.count - 1} more)"
        return f"{self.name.value}{times}: {self.witness}"

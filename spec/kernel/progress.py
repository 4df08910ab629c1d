"""How far a search may go, and how far it has come.

A search knows no clock of its own: its caller passes a function that returns seconds (`time.process_time` for
CPU seconds), and without it a search has neither a rate nor a limit on time.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeVar

import attrs

Clock = Callable[[], float]
"""Returns seconds; only differences are used."""


N = TypeVar("N", int | None, float | None)


class Stop(Enum):
    """When a violation ends the search."""

    FIRST = "first"
    """At the first violation."""
    EACH = "each"
    """Once every invariant is violated: the shortest counterexample of each."""
    NEVER = "never"
    """Not at all: the whole state space is visited, and violations are counted."""


class Cut(Enum):
    """What ended a search before it had seen everything."""

    VIOLATION = "violation"
    STATES = "states"
    DEPTH = "depth"
    SECONDS = "seconds"


def _positive(_: object, attribute: attrs.Attribute[N], value: N) -> None:
    if value is not None and not value > 0:  # no comparison holds of nan
        raise ValueError(
            f"{attribute.name}={value} leaves nothing to search: give a positive number, or None for no limit"
        )


@attrs.frozen
class Limits:
    """Bounds on a search; None is no bound."""

    states: int | None = attrs.field(default=None, validator=_positive)
    """Distinct states."""
    depth: int | None = attrs.field(default=None, validator=_positive)
    """Levels, that is states in the longest trace; the initial states are level one."""
    seconds: float | None = attrs.field(default=None, validator=_positive)
    """By the clock that was passed."""


UNLIMITED = Limits()


@attrs.frozen
class Progress:
    """Where a search stands."""

    distinct: int
    generated: int
    depth: int
    frontier: int
    """States that have been reached but not yet expanded."""
    seconds: float | None = None

    @property
    def rate(self) -> float | None:
        """Distinct states per second; None without a clock."""
        return self.distinct / self.seconds if self.seconds else None


OnProgress = Callable[[Progress], None]

"""How far a search may go, and how far it has come.

A search knows no clock of its own: its caller passes a function that returns seconds (`time.process_time` for
CPU seconds), and without it a search has neither a rate nor a limit on time.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, TypeVar

import attrs

from tidegauge.spec.kernel.statistics import estimated_states

Clock = Callable[[], float]
"""Returns seconds; only differences are used."""
MOST_WORKERS: Final = 64
"""Of a search: each may be a process of some hundred megabytes."""


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
        raise ValueError(f"{attribute.name}={value} leaves nothing to search: give a positive number, or no limit")


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
    levels: tuple[int, ...] = ()
    """The sizes of the levels that are known as a whole: the last of them is being expanded."""

    @property
    def estimated(self) -> int | None:
        """About how many states there will be, from the growth of the levels; None if that does not say."""
        return estimated_states(self.levels)

    @property
    def seconds_left(self) -> float | None:
        """What the rest of them takes at the rate so far; None without an estimate or a rate."""
        if self.rate is None or self.estimated is None:
            return None
        return max(self.estimated - self.distinct, 0) / self.rate

    @property
    def rate(self) -> float | None:
        """Distinct states per second; None without a clock."""
        return self.distinct / self.seconds if self.seconds else None


OnProgress = Callable[[Progress], None]

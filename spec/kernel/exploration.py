"""What a search found, and by which engine."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

import attrs

from tidegauge.spec.kernel.convergence import Convergence
from tidegauge.spec.kernel.coverage import ActionCoverage, never_enabled
from tidegauge.spec.kernel.lasso import Lasso
from tidegauge.spec.kernel.leads_to import Responses
from tidegauge.spec.kernel.progress import Cut
from tidegauge.spec.kernel.statistics import Statistics
from tidegauge.spec.kernel.traces import Trace, Violation

S = TypeVar("S")


class Engine(Enum):
    """How states are found; what is found is the same."""

    PLAIN = "plain"
    """The machine runs in every state."""
    FAST = "fast"
    """What the machine has done once is looked up (see `tidegauge.spec.kernel.fast.search`); needs numba."""


@attrs.frozen
class Exploration(Generic[S]):
    """What a search found."""

    machine: str
    engine: Engine
    cut: Cut | None
    """What ended the search early; None when every reachable state was visited."""
    distinct: int
    generated: int
    """Steps taken, whether or not they led anywhere new; initial states are not counted."""
    levels: tuple[int, ...]
    """New states at each distance from the initial ones."""
    terminal: int
    """States in which nothing can happen."""
    coverage: tuple[ActionCoverage, ...]
    violations: tuple[Violation[S], ...]
    """The first violation of each violated invariant, in the order in which they were met."""
    reached: Mapping[str, Trace[S]]
    """A shortest trace to each goal that was reached."""
    unreached: tuple[str, ...]
    orbits: int | None
    """With symmetry: the sum of the orbits' sizes, which is `distinct` of the unreduced search."""
    convergence: Convergence[S] | None
    """Whether the machine's goals are reached for good; None if that was not asked, or an invariant is violated."""
    responses: Responses[S] | None
    """Whether what is owed comes; None if that was not asked, an invariant is violated, or the search was cut."""
    statistics: Statistics
    seconds: float | None
    asked: int | None = attrs.field(default=None, eq=False)
    """By the fast engine: how often the machine ran; all else was looked up."""
    bytes: int | None = attrs.field(default=None, eq=False)
    """By the fast engine: memory that its states take, without what is known of rules and of fair steps."""
    workers: int = attrs.field(default=1, eq=False)
    """Processes that the states were spread over."""
    compiling: float | None = attrs.field(default=None, eq=False)
    """By the fast engine, with a clock: what it took to compile, which `seconds` leaves out."""

    @property
    def complete(self) -> bool:
        return self.cut is None

    @property
    def holds(self) -> bool:
        """Whether nothing was violated in what was visited, no goal failed, and all came that is owed."""
        return not self.violations and not self.lassos

    @property
    def lassos(self) -> tuple[Lasso[S], ...]:
        """A failure of each goal that is not reached for good, and of all that is owed and does not come."""
        reached = self.convergence.lassos if self.convergence else ()
        return (*reached, *(self.responses.lassos if self.responses else ()))

    @property
    def depth(self) -> int:
        """States in the longest of the shortest traces; the initial states alone are depth 1."""
        return len(self.levels)

    @property
    def rate(self) -> float | None:
        """Distinct states per second of the clock; None without one."""
        return self.distinct / self.seconds if self.seconds else None

    @property
    def never_enabled(self) -> tuple[str, ...]:
        return never_enabled(self.coverage)

    def violation(self, invariant: str) -> Violation[S] | None:
        """The first violation of `invariant`, if it is violated."""
        return next((violation for violation in self.violations if violation.invariant == invariant), None)

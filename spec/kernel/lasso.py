"""A behaviour in which something good does not happen: a way in, and what goes on there for ever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

import attrs

from tidegauge.spec.kernel.traces import Step, Trace

S = TypeVar("S")

_NOTHING: Final = "nothing fair can happen any more"


@attrs.frozen
class Lasso(Generic[S]):
    """A behaviour in which a goal is not reached for good, or what is owed never comes."""

    goal: str
    values: Mapping[str, object]
    """What made it false, as the machine explains it."""
    stem: Trace[S]
    """The way to a state of a component in which the goal is false."""
    cycle: tuple[Step[S], ...]
    """Steps from that state back to it; none where nothing fair can happen."""
    component: int
    """States of the component."""
    false_in: int
    """Those of them in which the goal is false."""
    since: int | None = None
    """Of what is owed (`Machine.leads_to`): after how many steps of the stem it is."""

    @property
    def trace(self) -> Trace[S]:
        """The stem, and the cycle once."""
        return Trace(self.stem.initial, (*self.stem.steps, *self.cycle))

    @property
    def words(self) -> str:
        """What goes on for ever."""
        if self.since is not None:
            lasts = f"weak fairness lets {self.component} states go on for ever" if self.cycle else _NOTHING
            return f"it is owed from step {self.since} on, and {lasts}"
        if not self.cycle:
            return _NOTHING
        if self.component == 1:
            return "fair steps lead to this state alone, for ever"
        where = "each" if self.false_in == self.component else str(self.false_in)
        return f"fair steps lead to {self.component} states, each again and again, and it is false in {where} of them"

"""Searches by several shares that stand in this process: what is sent is pickled as ever, and nothing is forked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from tidegauge.spec.kernel.exploration import Exploration
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.progress import UNLIMITED, Limits, Stop
from tidegauge.spec.kernel.shared.search import MOST, SharedSearch, Watch
from tidegauge.spec.kernel.shared.share import Share, kept_steps

S = TypeVar("S")


class InOneProcess:
    """The shares of a search, called one after the other."""

    def __init__(self, shares: Sequence[Share[Any]]) -> None:
        self.shares, self.count = shares, len(shares)

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]], watch: Watch | None = None) -> list[Any]:
        return [getattr(share, method)(*own) for share, own in zip(self.shares, arguments, strict=True)]


def crew_of(machine: Machine[Any], count: int, *, symmetry: bool = False, converges: bool) -> InOneProcess:
    keeps = kept_steps(machine, converges=converges, symmetry=symmetry)
    return InOneProcess([Share(machine, share, count, symmetry=symmetry, keeps=keeps) for share in range(count)])


def explore_by_shares(
    machine: Machine[S],
    count: int,
    *,
    limits: Limits = UNLIMITED,
    stop: Stop = Stop.FIRST,
    symmetry: bool = False,
    converges: bool = True,
    most: int = MOST,
) -> Exploration[S]:
    """What `explore` finds with so many workers; `most`: states of a part, by the number of shares."""
    crew = crew_of(machine, count, symmetry=symmetry, converges=converges)
    how: dict[str, Any] = {"symmetry": symmetry, "converges": converges, "most": most}
    search = SharedSearch(machine, limits, stop, None, None, crew, **how)
    return search.run()

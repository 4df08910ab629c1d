"""The loop of every random walk: a strategy draws the next actions in the state that the former ones led to.

`spec.kernel.simulation` walks over a machine alone, `model_tests.harness.lockstep` over a machine beside an
implementation. They differ in what walks, in the strategy and in what ends a walk: all three are parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import TypeAlias, TypeVar

from tidegauge.spec.kernel.machine import Action

W = TypeVar("W")

Strategy: TypeAlias = Callable[[W, Random], Iterable[Action] | None]
"""Draws what the walker does next: one action, or several as a round; None if nothing can happen."""


def random_of_walk(seed: int, number: int) -> Random:
    """The random numbers of one walk: the same in every process, since a string seeds without its hash."""
    return Random(f"{seed}/{number}")


def drawn_actions(walker: W, strategy: Strategy[W], rng: Random, *, ended: Callable[[W], bool]) -> Iterator[Action]:
    """The actions of a walk. The caller takes each before it asks for the next, since that depends on the new state.

    The walk ends when `ended` says so, but not within a round, or when the strategy finds nothing more to do.
    """
    while not ended(walker):
        actions = strategy(walker, rng)
        if actions is None:
            return
        yield from actions

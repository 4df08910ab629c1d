"""How much a search searches: few seeds, walks or examples in an ordinary run, all of them with --deep.

The whole suite must end in minutes, so a search says two amounts where it begins: the ordinary one, which still finds
every bug that the test is there to find, and the deep one. conftest says which counts before any test is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, TypeVar

T = TypeVar("T")

_run = {"is deep": False}


def choose_deep(deep: bool) -> bool:
    """Say whether this is a deep run, for all amounts from now on; returns what was said before."""
    before, _run["is deep"] = _run["is deep"], deep
    return before


def amount(ordinary: int, *, deep: int) -> int:
    """How many of what a search takes: `ordinary`, or `deep` with --deep.

    Raises ValueError where the deep amount is not the larger one.
    """
    if deep <= ordinary:
        raise ValueError(f"a deep run has more than an ordinary one: {ordinary}, {deep}")
    return deep if _run["is deep"] else ordinary


def stride(ordinary: int) -> int:
    """Of many places every so many-th is tried, and with --deep each of them."""
    return 1 if _run["is deep"] else ordinary


def ends(values: Iterable[T]) -> list[T]:
    """The first and the last of several, and with --deep all of them."""
    every = list(values)
    return every if _run["is deep"] else every[:: max(1, len(every) - 1)]


def crossed(*choices: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Parameters of a test: every choice at least once, and with --deep every combination of them."""
    if _run["is deep"]:
        return list(product(*choices))
    return [tuple(values[n % len(values)] for values in choices) for n in range(max(map(len, choices)))]

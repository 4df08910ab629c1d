"""Invariants that say the same of each process, or of each of whatever is numbered.

What is asked of one process reads less of a state than what is asked of all, and so there are fewer combinations of
what it reads. The fast engine asks of one after the other; everywhere else such an invariant is one as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from tidegauge.spec.kernel.machine import Invariant

__all__ = ["holds_of_each", "parts_of"]

S = TypeVar("S")
_PARTS: Final = "__parts__"


def holds_of_each(numbers: Iterable[int], rule: Callable[[int, S], bool]) -> Invariant[S]:
    """What holds in a state if the rule holds of each number there."""
    numbers = tuple(numbers)

    def holds(state: S) -> bool:
        return all(rule(number, state) for number in numbers)

    holds.__doc__ = rule.__doc__
    setattr(holds, _PARTS, [partial(rule, number) for number in numbers])
    return holds


def parts_of(holds: Invariant[S]) -> Sequence[Invariant[S]]:
    """What holds if and only if an invariant does, all together: the invariant itself, or of each number one."""
    found: Sequence[Invariant[S]] = getattr(holds, _PARTS, [holds])
    return found

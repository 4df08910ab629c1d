"""Delta debugging: leave items out of a failing list until no single one can be left out (Zeller & Hildebrandt 2002).

Traces, locksteps and clusters use it alike: each says by a function whether a shorter list of actions still fails. Any
part of a list of actions can be tried, since replay skips the actions that are not enabled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

Trial = Callable[[Sequence[T]], Sequence[T] | None]
"""Returns the items that the failure needs, at most those that it is given; None if there is no failure."""

SLIDING = 4
"""Blocks of up to so many items are left out wherever they begin: three actions that belong together go together."""


def minimised(items: Sequence[T], trial: Trial[T], *, attempts: int | None = None) -> tuple[T, ...]:
    """The shortest failing list that is found by leaving out blocks of `items`, large ones first.

    No single item of the result can be left out, unless `attempts` trials were too few. Raises ValueError if `items`
    does not fail.
    """
    needed = trial(items)
    if needed is None:
        raise ValueError(f"the list of {len(items)} does not fail: nothing to minimise")
    best, left = tuple(needed), attempts
    block = _largest(len(best))
    while best:
        shorter = None
        for start in range(len(best) - block, -block, -(block if block > SLIDING else 1)):
            if left is not None:
                if left == 0:
                    return best
                left -= 1
            shorter = trial(best[: max(0, start)] + best[start + block :])
            if shorter is not None:
                break
        if shorter is not None:
            best = tuple(shorter)
            block = min(max(block, SLIDING), _largest(len(best)))
        elif block > 1:
            block = block // 2 if block > SLIDING else block - 1
        else:
            break
    return best


def _largest(length: int) -> int:
    """The block to begin with: half of the list, or all but one item of a short one."""
    return max(1, length // 2, min(SLIDING, length - 1))

"""Delta debugging: cut a failing list down until nothing can be left out (Zeller & Hildebrandt 2002).

Any part of a list can be tried, since replay skips actions that are not enabled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def minimised(items: Sequence[T], fails: Callable[[Sequence[T]], bool], *, attempts: int = 2_000) -> tuple[T, ...]:
    """The shortest list found by leaving out blocks of `items`, large ones first, that still fails.

    From the result no single item can be left out, unless `attempts` trials were not enough to know. Raises
    ValueError if `items` does not fail to begin with.
    """
    best = tuple(items)
    if not fails(best):
        raise ValueError(f"the list of {len(best)} does not fail: nothing to minimise")
    block = max(1, len(best) // 2)
    left = attempts
    while best:
        shorter = None
        for start in range(len(best) - block, -block, -block):
            if not left:
                return best
            left -= 1
            candidate = best[: max(0, start)] + best[start + block :]
            if fails(candidate):
                shorter = candidate
                break
        if shorter is not None:
            best = shorter
            block = min(block, max(1, len(best) // 2))
        elif block > 1:
            block //= 2
        else:
            break
    return best

"""Whether the plain engine would have been faster."""

from __future__ import annotations

from typing import Final

__all__ = ["is_slow"]

_ENOUGH: Final = 10_000
"""States after which it can be told: of the first ones little is known, and each is asked about."""
_ALWAYS: Final = 25
_A_STATE: Final = 240


def is_slow(states: int, asked: int, words: int) -> bool:
    """Whether so many states, of so many words each, took longer than by the plain engine since the machine was asked.

    That takes as long for a state as 240 / (25 + words) runs over a view. So it was, within a quarter, in models of
    transactions and of groups with 41 to 495 words (`python -m benchmarks.explorer --all`).
    """
    return states >= _ENOUGH and asked * (_ALWAYS + words) > _A_STATE * states

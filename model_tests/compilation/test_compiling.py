"""What numba takes to compile is counted apart from all else, with what it compiles for it."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

pytest.importorskip("numba", reason="numba is not installed")

from numba.core import event
from numba.core.decorators import njit  # which keeps nothing

from tidegauge.compilation.compiling import Compiling

EVENTS: Any = event
"""numba has no types."""
COMPILE = "numba:compile"


class Hands:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_clock_stands_still_while_something_is_compiled_and_what_that_takes() -> None:
    hands = Hands()
    compiling = Compiling(hands)
    with compiling.noticed():
        hands.now += 1
        EVENTS.start_event(COMPILE)
        hands.now += 2
        EVENTS.start_event(COMPILE)
        hands.now += 4
        assert (compiling.seconds, compiling.clock()) == (6, 101)
        EVENTS.end_event(COMPILE)
        hands.now += 8
        EVENTS.end_event(COMPILE)
        hands.now += 16
        assert (compiling.seconds, compiling.clock()) == (14, 117)
        EVENTS.start_event(COMPILE)
        hands.now += 32
        EVENTS.end_event(COMPILE)
    EVENTS.start_event(COMPILE)
    hands.now += 64
    EVENTS.end_event(COMPILE)
    assert (compiling.seconds, compiling.clock()) == (46, 181)


def test_numba_says_when_it_compiles() -> None:
    ticks = count()
    compiled: Any = njit
    more = compiled(lambda x: x + 1)
    twice = compiled(lambda x: 2 * more(x))

    compiling = Compiling(lambda: float(next(ticks)))

    with compiling.noticed():
        assert twice(20) == 42
        spent = compiling.seconds
        assert spent > 0
        assert twice(1) == 4
        assert compiling.seconds == spent

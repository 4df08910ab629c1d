"""What the fast engine takes to compile is no part of a search: neither of its seconds nor of a limit on them."""

from __future__ import annotations

from typing import Any

import pytest

from tidegauge.model_tests.spec.kernel.toys import DieHard
from tidegauge.spec.kernel.exploration import Engine
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.progress import Cut, Limits, Progress, Stop

pytest.importorskip("numba", reason="numba is not installed")

from numba.core import event

EVENTS: Any = event
"""numba has no types."""


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("compiled", "cut"), [(True, None), (False, Cut.SECONDS)])
def test_a_limit_of_seconds_counts_the_search_alone(compiled: bool, cut: Cut | None, workers: int) -> None:
    now = [0.0]

    def told(progress: Progress) -> None:
        """Some code is compiled for 100 seconds, or something else takes as long."""
        if not now[0]:
            if compiled:
                EVENTS.start_event("numba:compile")
            now[0] += 100
            if compiled:
                EVENTS.end_event("numba:compile")

    found = explore(
        DieHard((3, 5, 7)),
        stop=Stop.NEVER,
        limits=Limits(seconds=50),
        clock=lambda: now[0],
        progress=told,
        engine=Engine.FAST,
        workers=workers,
    )
    assert found.cut is cut
    assert found.seconds == (0 if compiled else 100)
    assert found.compiling == (100 if compiled else 0)


def test_without_a_clock_nothing_is_counted() -> None:
    assert explore(DieHard((3, 5, 7)), engine=Engine.FAST).compiling is None

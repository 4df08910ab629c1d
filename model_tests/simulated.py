"""Async tests in virtual time: the same schedule in every run, no waiting, and an end to whatever hangs."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec

import trio

from tidegauge.model_tests.harness.deterministic import run_deterministically

P = ParamSpec("P")

LONGEST = 3_600.0
"""Seconds of virtual time that a test may take."""


def simulated(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run an async test as a simulation of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def bounded() -> None:
            with trio.fail_after(LONGEST):
                await test(*args, **kwargs)

        run_deterministically(bounded, seed=1)

    return run

"""Waiting requests are woken by what they wait for, by their deadline, and by nothing else."""

from __future__ import annotations

import math

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.ports.clock import SimulatedClock
from tidegauge.impl.server.purgatory import Purgatory
from tidegauge.model_tests.simulated import simulated


def never() -> str | None:
    return None


@simulated
async def test_a_waiter_looks_again_whenever_one_of_its_keys_is_woken() -> None:
    purgatory: Purgatory[str] = Purgatory(SimulatedClock())
    looks: list[str] = []

    def ready() -> str | None:
        looks.append("look")
        return "done" if len(looks) == 3 else None

    async with trio.open_nursery() as nursery:
        results: list[str | None] = []

        async def wait() -> None:
            results.append(await purgatory.until(["a", "b"], ready, math.inf))

        nursery.start_soon(wait)
        for key in ("a", "c", "b", "a"):
            await wait_all_tasks_blocked()
            purgatory.wake(key)
    assert results == ["done"]
    assert len(looks) == 3
    assert len(purgatory) == 0


@simulated
async def test_a_deadline_ends_the_wait() -> None:
    purgatory: Purgatory[str] = Purgatory(SimulatedClock())
    begun = trio.current_time()
    assert await purgatory.until(["a"], never, 250) is None
    assert trio.current_time() - begun == pytest.approx(0.25)
    assert len(purgatory) == 0


@simulated
async def test_waking_ahead_of_time_does_not_put_the_deadline_off() -> None:
    purgatory: Purgatory[str] = Purgatory(SimulatedClock())

    async def knock() -> None:
        while True:
            await trio.sleep(0.1)
            purgatory.wake("a")

    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(knock)
        assert await purgatory.until(["a"], never, 250) is None
        nursery.cancel_scope.cancel()
    assert trio.current_time() - begun == pytest.approx(0.25)


@simulated
async def test_nobody_looks_while_the_node_stands_still() -> None:
    clock = SimulatedClock()
    purgatory: Purgatory[str] = Purgatory(clock)
    async with trio.open_nursery() as nursery:
        looked: list[float] = []

        def look() -> bool:
            looked.append(trio.current_time())
            return True

        async def wait() -> None:
            await purgatory.until(["a"], look, math.inf)

        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        clock.stop()
        purgatory.wake("a")
        await trio.sleep(5)
        assert looked == []
        clock.go_on()
    assert looked == [trio.current_time()]


@simulated
async def test_a_cancelled_waiter_leaves() -> None:
    purgatory: Purgatory[str] = Purgatory(SimulatedClock())
    with trio.move_on_after(1):
        await purgatory.until(["a", "b"], never, math.inf)
    assert len(purgatory) == 0


@simulated
async def test_a_wake_before_the_wait_begins_is_not_lost() -> None:
    purgatory: Purgatory[str] = Purgatory(SimulatedClock())
    looks: list[str] = []

    def ready() -> str | None:
        looks.append("look")
        return "done"

    seen = purgatory.wakes
    purgatory.wake("a")
    assert await purgatory.until(["a"], ready, 250, since=seen) == "done"
    assert await purgatory.until(["a"], ready, 250, since=purgatory.wakes) is None
    assert looks == ["look"]
    assert len(purgatory) == 0

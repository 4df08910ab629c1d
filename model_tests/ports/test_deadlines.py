"""Waits with deadlines: set, come too late, cancelled, many; and what they leave behind."""

from __future__ import annotations

import math
import random

import trio
from trio.testing import wait_all_tasks_blocked

from model_tests.simulated import simulated
from tidegauge.impl.ports.deadlines import MOST_ENDED, Signal, deadlines


@simulated
async def test_a_wait_ends_when_its_signal_is_set_or_at_its_deadline_to_the_moment() -> None:
    rng = random.Random(1)
    ended: dict[int, tuple[float, bool]] = {}
    start = trio.current_time()
    plans = [(rng.choice((math.inf, rng.uniform(0, 9))), rng.uniform(0, 9)) for _ in range(300)]

    async def wait(number: int, signal: Signal, deadline: float) -> None:
        was_set = await deadlines().wait(signal, deadline)
        ended[number] = trio.current_time() - start, was_set

    async def set_later(signal: Signal, seconds: float) -> None:
        await trio.sleep(seconds)
        signal.set()

    async with trio.open_nursery() as nursery:
        for number, (deadline, set_at) in enumerate(plans):
            nursery.start_soon(wait, number, signal := Signal(), start + deadline)
            nursery.start_soon(set_later, signal, set_at)
    for number, (deadline, set_at) in enumerate(plans):
        at, was_set = ended[number]
        assert was_set == (set_at < deadline)
        assert math.isclose(at, min(set_at, deadline), abs_tol=1e-6)


@simulated
async def test_a_signal_that_is_set_already_is_not_waited_for_though_the_deadline_has_passed() -> None:
    signal = Signal()
    signal.set()
    assert await deadlines().wait(signal, trio.current_time() - 1)
    signal.clear()
    assert not await deadlines().wait(signal, trio.current_time() - 1)


@simulated
async def test_a_signal_that_is_set_after_the_deadline_but_before_its_task_runs_counts() -> None:
    signal, results = Signal(), list[bool]()

    async def wait() -> None:
        results.append(await deadlines().wait(signal, math.inf))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        signal.wake()  # as its deadline does
        signal.set()
    assert results == [True]


@simulated
async def test_a_wait_that_is_cancelled_leaves_its_signal_for_the_next_one() -> None:
    signal = Signal()
    with trio.move_on_after(1) as scope:
        await deadlines().wait(signal, trio.current_time() + 5)
    assert scope.cancelled_caught
    signal.set()
    assert await deadlines().wait(signal, trio.current_time() + 5)
    assert trio.current_time() - scope.deadline < 1


@simulated
async def test_waits_that_have_ended_are_forgotten_long_before_their_deadlines_and_no_other_is() -> None:
    """A request has 30 seconds and a response after one millisecond."""
    service, rng = deadlines(), random.Random(1)
    plans = [trio.current_time() + rng.uniform(40, 90) for _ in range(300)]
    ended: list[tuple[float, float]] = []

    async def wait_long(deadline: float) -> None:
        assert not await service.wait(Signal(), deadline)
        ended.append((deadline, trio.current_time()))

    async with trio.open_nursery() as nursery:
        for deadline in plans:
            nursery.start_soon(wait_long, deadline)
        for _ in range(40):
            signals = [Signal() for _ in range(50)]
            async with trio.open_nursery() as requests:
                for signal in signals:
                    requests.start_soon(service.wait, signal, trio.current_time() + rng.uniform(20, 90))
                await wait_all_tasks_blocked()
                for signal in signals:
                    signal.set()
            assert len(service) <= 2 * (MOST_ENDED + len(plans))
    assert sorted(plan for plan, _ in ended) == sorted(plans)
    assert all(math.isclose(plan, at, abs_tol=1e-6) for plan, at in ended)

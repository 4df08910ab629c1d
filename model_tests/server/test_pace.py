"""Long work goes on in slices: one task at a time, and others in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import pytest
import trio

from tidegauge.impl.records.slices import Sliced
from tidegauge.impl.server.pace import ELEMENT, LANES, SLICE, Pace, line
from tidegauge.model_tests.simulated import simulated


async def passes(until: trio.Event, seen: list[int]) -> None:
    """Counts the passes of the loop."""
    while not until.is_set():
        seen[0] += 1
        await trio.lowlevel.checkpoint()


@simulated
async def test_a_full_slice_makes_a_pause_and_less_makes_none() -> None:
    pace = Pace()
    before = line().passes
    await pace.did(SLICE - 1)
    assert line().passes == before
    await pace.did(1)
    assert (line().passes, pace.spent) == (before + 1, 0)


@simulated
async def test_each_item_counts() -> None:
    pace, count = Pace(), 10 * SLICE // ELEMENT
    before = line().passes
    assert [item async for item in pace.each(range(count))] == list(range(count))
    assert 9 <= line().passes - before <= 10


@simulated
async def test_of_many_tasks_with_long_work_one_goes_on_at_each_pass() -> None:
    """So that what others wait for is one slice, however many work."""
    ended, count, went_on = trio.Event(), [0], list[tuple[int, int]]()

    async def work(number: int) -> None:
        pace = Pace()
        for _ in range(20):
            await pace.did(SLICE)
            went_on.append((count[0], number))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(passes, ended, count)
        async with trio.open_nursery() as workers:
            for number in range(5):
                workers.start_soon(work, number)
        ended.set()
    at = [at for at, _ in went_on]
    assert len(at) == 100
    assert max(at.count(one) for one in at) <= 2, "a pass is counted before or after the task of it"
    assert count[0] >= 100
    numbers = [number for _, number in went_on][5:-5]
    assert all(sorted(numbers[n : n + 5]) == list(range(5)) for n in range(0, len(numbers) - 5, 5)), "in turn"


@simulated
async def test_a_task_for_which_others_wait_goes_ahead_of_those_for_which_nobody_does() -> None:
    went_on: list[int] = []

    async def work(number: int) -> None:
        pace = Pace()
        for _ in range(6):
            with pace.ahead() if number == 2 else nullcontext():
                await pace.did(SLICE)
            went_on.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(work, number)
    of_two = [at for at, number in enumerate(went_on) if number == 2]
    assert all(after - before <= 2 for before, after in pairwise(of_two)), f"{went_on}: at most one goes in between"
    assert went_on.count(0) == went_on.count(1) == 6


@simulated
async def test_a_task_that_is_cancelled_hands_the_turn_on() -> None:
    done = []

    async def work(scope: trio.CancelScope) -> None:
        with scope:
            pace = Pace()
            for _ in range(10):
                await pace.did(SLICE)
            done.append(scope)

    scopes = [trio.CancelScope() for _ in range(6)]
    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            for scope in scopes:
                nursery.start_soon(work, scope)
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            for scope in scopes[::2]:
                scope.cancel()
    assert sorted(map(id, done)) == sorted(map(id, scopes[1::2]))


def sliced(log: list[Any], name: str) -> Sliced[str]:
    """Work that is half in slices, half apart."""
    yield SLICE
    log.append(("begun", name))
    found = yield lambda: name * 2
    log.append(("ended", name))
    return str(found)


@simulated
async def test_work_in_slices_gets_the_result_of_what_is_called_apart() -> None:
    called = []

    async def apart(work: Callable[[], Any]) -> Any:
        called.append(work)
        await trio.lowlevel.checkpoint()
        return work()

    assert await Pace(apart).finish(sliced([], "x")) == "xx"
    assert len(called) == 1


@simulated
async def test_only_so_many_works_at_once_have_something_apart() -> None:
    """Each may hold much memory from its first call to its end."""
    log: list[Any] = []
    at_once = [0, 0]

    async def apart(work: Callable[[], Any]) -> Any:
        at_once[0] += 1
        at_once[1] = max(at_once)
        await trio.sleep(1)
        at_once[0] -= 1
        return work()

    async with trio.open_nursery() as nursery:
        for name in "abcdefg":
            nursery.start_soon(Pace(apart).finish, sliced(log, name))
    assert at_once == [0, LANES]
    assert sum(kind == "ended" for kind, _ in log) == 7


@simulated
async def test_work_that_fails_or_is_cancelled_gives_its_lane_back() -> None:
    async def failing(work: Callable[[], Any]) -> Any:
        raise OSError("no")

    async def endless(work: Callable[[], Any]) -> Any:
        await trio.sleep_forever()

    for _ in range(LANES + 1):
        with pytest.raises(OSError, match="no"):
            await Pace(failing).finish(sliced([], "x"))
        with trio.move_on_after(1):
            await Pace(endless).finish(sliced([], "x"))
    assert await Pace().finish(sliced([], "x")) == "xx"


@simulated
async def test_a_node_that_is_stopped_does_not_go_on_after_a_pause() -> None:
    resumed, went_on = trio.Event(), []

    async def work(until_running: Callable[[], Awaitable[None]]) -> None:
        await Pace(until_running=until_running).did(SLICE)
        went_on.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, resumed.wait)
        await trio.sleep(5)
        assert not went_on
        resumed.set()
    assert went_on

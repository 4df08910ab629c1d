"""Runs under a seed are repeatable, in every process; a guest run stands still between calls."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from hashlib import sha256

import pytest
import trio
import trio.testing

from tidegauge.model_tests.harness.deterministic import GuestRun, StillBusy, run_deterministically


async def scramble() -> str:
    """The order in which forty tasks run that all wake up at once, again and again."""
    order: list[str] = []

    async def worker(number: int) -> None:
        for round_ in range(5):
            await trio.sleep(1)
            order.append(f"{round_}.{number}")

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(worker, number)
    return sha256(" ".join(order).encode()).hexdigest()


def test_two_processes_with_different_hash_seeds_give_one_hash() -> None:
    program = (
        "from tidegauge.model_tests.harness.deterministic import run_deterministically\n"
        "from tidegauge.model_tests.harness_tests.test_deterministic import scramble\n"
        "print(run_deterministically(scramble, seed=7))\n"
    )

    def hash_in_a_process_of_its_own(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    assert hash_in_a_process_of_its_own("1") == hash_in_a_process_of_its_own("2")


def test_another_seed_gives_another_order() -> None:
    assert run_deterministically(scramble, seed=7) == run_deterministically(scramble, seed=7)
    assert run_deterministically(scramble, seed=7) != run_deterministically(scramble, seed=8)


@pytest.fixture
def alarms() -> Iterator[list[int]]:
    """A signal with a handler each millisecond, as a sampling profiler has them."""
    seen: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    yield seen
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_signals_that_come_meanwhile_change_nothing(alarms: list[int]) -> None:
    found = {run_deterministically(scramble, seed=7) for _ in range(20)}
    assert len(alarms) > 20
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert found == {run_deterministically(scramble, seed=7)}


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C is Python's own, which trio takes over for a run: a test before may have left another handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_a_run_that_waits_for_ever() -> None:
    async def waits() -> None:
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        run_deterministically(waits, seed=0)


def test_hours_of_virtual_time_pass_at_once() -> None:
    async def sleep() -> float:
        await trio.sleep(3600)
        return trio.current_time()

    assert run_deterministically(sleep, seed=0) == 3600


def test_who_waits_until_all_others_wait_goes_on_before_time_does() -> None:
    async def waits() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1)
            await trio.testing.wait_all_tasks_blocked()
            return trio.current_time()

    assert run_deterministically(waits, seed=0) == 0


def test_what_another_thread_may_have_asked_for_is_done_before_time_goes_on() -> None:
    async def asks() -> list[float]:
        done: list[float] = []
        trio.lowlevel.current_trio_token().run_sync_soon(lambda: done.append(trio.current_time()))
        await trio.sleep(1)
        return done

    assert run_deterministically(asks, seed=0) == [0]


class Steps(trio.abc.Instrument):
    """Counts the steps of tasks."""

    def __init__(self) -> None:
        self.seen = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.seen += 1


def test_an_instrument_sees_steps_from_when_it_is_added_until_it_is_removed() -> None:
    steps = Steps()

    async def watched() -> int:
        trio.lowlevel.add_instrument(steps)
        await trio.sleep(1)
        trio.lowlevel.remove_instrument(steps)
        seen = steps.seen
        await trio.sleep(1)
        return seen

    assert run_deterministically(watched, seed=0) == steps.seen > 0


def test_a_guest_run_is_frozen_between_calls() -> None:
    ticks: list[float] = []

    async def begin() -> None:
        async def tick() -> None:
            while True:
                await trio.sleep(1)
                ticks.append(trio.current_time())

        trio.lowlevel.spawn_system_task(tick)

    async def nothing() -> None:
        pass

    with GuestRun(seed=1) as guest:
        guest.call(begin)
        for _ in range(10):
            guest.call(nothing)
        assert ticks == [], "no time passes that nobody asked for"
        guest.call(trio.sleep, 2.5)
        assert ticks == [1, 2]


def test_a_call_returns_when_all_that_it_set_off_has_come_to_rest() -> None:
    reached: list[int] = []

    async def begin() -> None:
        async def relay(left: int) -> None:
            await trio.lowlevel.checkpoint()
            reached.append(left)
            if left:
                trio.lowlevel.spawn_system_task(relay, left - 1)

        trio.lowlevel.spawn_system_task(relay, 20)

    with GuestRun(seed=1) as guest:
        guest.call(begin)
        assert reached == list(range(20, -1, -1))


def test_what_a_call_raises_comes_out_and_the_run_goes_on() -> None:
    async def fail() -> None:
        raise KeyError("x")

    async def result() -> int:
        return 42

    with GuestRun(seed=1) as guest:
        with pytest.raises(KeyError):
            guest.call(fail)
        assert guest.call(result) == 42


def test_a_program_that_never_rests_is_reported() -> None:
    async def begin() -> None:
        async def spin() -> None:
            while not stopped:
                await trio.lowlevel.checkpoint()

        trio.lowlevel.spawn_system_task(spin)

    stopped = False
    with GuestRun(seed=1, max_ticks=500) as guest:
        with pytest.raises(StillBusy, match="500 ticks"):
            guest.call(begin)
        stopped = True


def test_a_loop_in_another_thread_takes_no_chance_away() -> None:
    alone = run_deterministically(scramble, seed=5)
    over = threading.Event()

    async def busy() -> None:
        while not over.is_set():
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(trio.lowlevel.checkpoint)

    thread = threading.Thread(target=trio.run, args=(busy,))
    thread.start()
    try:
        assert all(run_deterministically(scramble, seed=5) == alone for _ in range(50))
    finally:
        over.set()
        thread.join()

"""Work that waits for a disk is done on a few threads: all of it, with a bounded number under way, and the first error
is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tidegauge.impl.ports.side_by_side import AT_MOST_WAITING, FEW, THREADS_AT_ONCE, do_side_by_side

MANY = 4 * AT_MOST_WAITING + 3


@pytest.mark.parametrize("number", [0, 1, FEW, FEW + 1, AT_MOST_WAITING, MANY])
def test_all_work_is_done_once_and_no_thread_is_left(number: int) -> None:
    before = threading.active_count()
    done: list[int] = []

    do_side_by_side(partial(done.append, which) for which in range(number))

    assert sorted(done) == list(range(number))
    assert threading.active_count() == before


def test_a_few_works_are_done_by_the_caller() -> None:
    threads: list[threading.Thread] = []

    do_side_by_side([lambda: threads.append(threading.current_thread())] * FEW)

    assert threads == [threading.current_thread()] * FEW


def test_works_that_wait_for_each_other_are_under_way_together() -> None:
    barrier = threading.Barrier(THREADS_AT_ONCE)

    do_side_by_side([partial(barrier.wait, 10)] * (2 * THREADS_AT_ONCE))


def test_no_more_than_the_bound_are_begun_and_not_done() -> None:
    """Each work that is begun holds a descriptor."""
    asked: list[int] = []
    done: list[int] = []
    most = 0
    held = threading.Event()

    def work(which: int) -> None:
        held.wait(10)
        done.append(which)

    def works() -> Iterator[Callable[[], None]]:
        nonlocal most
        for which in range(MANY):
            most = max(most, len(asked) - len(done))
            asked.append(which)
            if len(asked) == AT_MOST_WAITING:
                held.set()
            yield partial(work, which)

    do_side_by_side(works())

    assert sorted(done) == list(range(MANY))
    assert most <= AT_MOST_WAITING


@pytest.mark.parametrize("number", [FEW, MANY])
@pytest.mark.parametrize("raised", [OSError(5, "a failing device"), KeyboardInterrupt()])
def test_the_first_error_is_raised_and_what_was_begun_is_done(number: int, raised: BaseException) -> None:
    asked: list[int] = []
    done: list[int] = []

    def work(which: int) -> None:
        if which == 1:
            raise raised
        done.append(which)
        if which == number - 1:
            raise OSError(28, "no room: not the first error")

    def works() -> Iterator[Callable[[], None]]:
        for which in range(number):
            asked.append(which)
            yield partial(work, which)

    with pytest.raises(type(raised)) as caught:
        do_side_by_side(works())

    assert caught.value is raised
    assert sorted(done) == [which for which in asked if which != 1]


def test_after_an_error_no_more_is_begun() -> None:
    asked: list[int] = []

    def fail() -> None:
        raise OSError(5, "a failing device")

    def works() -> Iterator[Callable[[], None]]:
        for which in range(MANY):
            asked.append(which)
            yield fail

    with pytest.raises(OSError, match="a failing device"):
        do_side_by_side(works())

    assert len(asked) <= AT_MOST_WAITING + 1


def test_what_was_begun_is_done_when_the_next_one_cannot_be_made() -> None:
    before = threading.active_count()
    done: list[int] = []

    def works() -> Iterator[Callable[[], None]]:
        for which in range(2 * FEW):
            yield partial(done.append, which)
        raise FileNotFoundError(2, "no such file", "the next one")

    with pytest.raises(FileNotFoundError):
        do_side_by_side(works())

    assert sorted(done) == list(range(2 * FEW))
    assert threading.active_count() == before


def test_of_two_errors_that_of_the_earlier_work_is_raised() -> None:
    second_failed = threading.Event()

    def fail_late() -> None:
        second_failed.wait(10)
        raise OSError(5, "the first work")

    def fail() -> None:
        second_failed.set()
        raise OSError(28, "the second work")

    with pytest.raises(OSError, match="the first work"):
        do_side_by_side([fail_late, fail, *[int] * FEW])

"""A repair in which the disk refuses an operation closes no file of the log: it is read as far as it goes."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest

from tidegauge.impl.ports.failing_disk import FailingDisk, Operation
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.model_tests.storage.test_damage import CLOSED, END, FIELDS, flip, opened, readable, written


def repaired_with_a_failure(failing: int, error: int) -> tuple[SimulatedDisk, list[int], bool]:
    """What is read of a log after a repair of which one operation fails, by its number; whether it got so far."""
    inner = written()
    flip(inner, CLOSED, 1, FIELDS["value"])
    disk = FailingDisk(inner)
    log = opened(disk)
    readable(log)  # meets the damage
    done = 0

    def refuse(operation: Operation, path: str) -> None:
        nonlocal done
        done += 1
        if done == failing:
            raise OSError(error, operation.value, path)

    disk.watched_by(refuse)
    with suppress(OSError):
        log.repair()
    disk.watched_by(None)
    read = readable(log)
    log.abandon()
    return inner, read, done >= failing


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE])
def test_a_repair_of_which_any_operation_fails_closes_no_file_of_the_log(error: int) -> None:
    failing, is_reached = 1, True
    while is_reached:
        disk, read, is_reached = repaired_with_a_failure(failing, error)
        assert read[:5] == list(range(5)), failing
        assert read == sorted({*read} & {*range(END)} - {5}), failing
        again = opened(disk)
        assert readable(again)[:5] == list(range(5)), failing
        failing += 1
    assert failing > 5

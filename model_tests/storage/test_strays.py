"""Strays are listed, and deleted one by one; what is none is refused, and stays."""

from __future__ import annotations

import random

import pytest

from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.storage.strays import delete_stray, strays

FIRST = f"orders-0.{1:032x}-stray"
SECOND = f"orders-1.{2:032x}-stray"


def with_directories(*names: str) -> SimulatedDisk:
    """A log directory with these logs, each of one file; all of it is on stable storage."""
    disk = SimulatedDisk(random.Random(0))
    for name in names:
        disk.make_directory(f"logs/{name}")
        file = disk.open(f"logs/{name}/log", create=True)
        file.append(b"records")
        file.sync()
        disk.sync_directory(f"logs/{name}")
    disk.sync_directory("logs")
    return disk


def test_only_what_has_the_name_of_a_stray_is_one() -> None:
    assert strays(with_directories(SECOND, "orders-2", FIRST, "stray-0"), "logs") == [FIRST, SECOND]


def test_a_stray_that_is_deleted_is_gone_for_good_and_no_other_is() -> None:
    disk = with_directories(FIRST, SECOND, "orders-2")
    delete_stray(disk, "logs", FIRST)
    disk.crash(names=CrashOutcome.LOST)
    disk.power_on()
    assert disk.list_directory("logs") == [SECOND, "orders-2"]


@pytest.mark.parametrize(("names", "known"), [([SECOND, FIRST], f"{FIRST}, {SECOND}"), ([], "none")])
def test_what_is_no_stray_is_not_deleted(names: list[str], known: str) -> None:
    disk = with_directories("orders-2", *names)
    with pytest.raises(ValueError, match=f"'orders-2' is no stray in logs: there are {known}$"):
        delete_stray(disk, "logs", "orders-2")
    assert disk.list_directory("logs") == sorted(["orders-2", *names])

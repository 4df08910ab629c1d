"""Notes of how far a log is committed: the highest intact line counts of any process, and a start syncs none."""

from __future__ import annotations

import random

import pytest

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.storage.offset_notes import MOST_BYTES, OffsetNote, OffsetNotes, read_note

NAME = "noted"


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(random.Random(1))
    disk.make_directory("d")
    return disk


def noted(disk: SimulatedDisk, *offsets: int) -> None:
    """What one process writes."""
    notes = OffsetNotes(disk, "d", NAME)
    for offset in offsets:
        notes.write(OffsetNote(offset, 1))
    notes.close()


def read(disk: SimulatedDisk) -> int:
    note = read_note(disk, "d", NAME)
    return -1 if note is None else note.end_offset


def content(disk: SimulatedDisk) -> bytes:
    file = disk.open(f"d/{NAME}")
    try:
        return file.read(0, file.size)
    finally:
        file.close()


def test_every_process_goes_on_with_the_file(disk: SimulatedDisk) -> None:
    assert read_note(disk, "d", NAME) is None
    noted(disk, 3, 5)
    noted(disk, 8)
    assert read(disk) == 8
    noted(disk, 9, 12)
    assert read(disk) == 12
    assert content(disk).startswith(b"3 1 "), "what earlier processes wrote is still there"


def test_a_start_syncs_no_note(disk: SimulatedDisk) -> None:
    """It would cost every start the time of a disk; a machine that loses power loses the newest notes at most."""
    noted(disk, 3)
    assert not disk.unsynced(f"d/{NAME}"), "but the first of all is there to stay"
    noted(disk, 5)
    assert disk.unsynced(f"d/{NAME}")
    disk.crash()
    disk.power_on()
    assert read(disk) in (3, 5)


@pytest.mark.parametrize("left", range(1, 13))
def test_what_a_crash_has_torn_spoils_no_later_line(disk: SimulatedDisk, left: int) -> None:
    noted(disk, 3, 5)
    file = disk.open(f"d/{NAME}")
    file.truncate(file.size - left)
    file.close()
    noted(disk, 8)
    assert read(disk) == 8


def test_a_file_that_has_grown_begins_anew_with_the_last_note(disk: SimulatedDisk) -> None:
    notes = OffsetNotes(disk, "d", NAME)
    lines = MOST_BYTES // len(OffsetNote(100_000, 1).line) + 10
    for offset in range(100_000, 100_000 + lines):
        notes.write(OffsetNote(offset, 1))
    notes.close()
    assert len(content(disk)) < MOST_BYTES
    assert read(disk) == 100_000 + lines - 1

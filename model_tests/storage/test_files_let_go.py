"""Opening a log closes every file that it only looks into: a broker has thousands of logs, and few descriptors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tidegauge.impl.ports.disk import RealDisk
from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.interrupted_replacements import finish_replacements
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_names import LogNames
from tidegauge.impl.storage.segment_names import LOG_SUFFIX, SNAPSHOT_SUFFIX, SWAP_SUFFIX, file_name
from tidegauge.impl.storage.surviving_logs import surviving_end_offsets
from tidegauge.model_tests.storage.test_damage import (
    ACTIVE,
    CLOSED,
    CONFIG,
    DIRECTORY,
    END,
    FIELDS,
    SEGMENTS,
    batch,
    flip,
    written,
)
from tidegauge.model_tests.storage.test_kept_or_told import leave_behind_a_damaged_end


def nothing_but_garbage(disk: SimulatedDisk) -> None:
    """One file is left, and nothing tells which offsets it held."""
    for name in disk.list_directory(DIRECTORY):
        if name.endswith((SNAPSHOT_SUFFIX, LOG_SUFFIX)) and name != file_name(0, LOG_SUFFIX):
            disk.remove(f"{DIRECTORY}/{name}")
    disk.zero(f"{DIRECTORY}/{file_name(0, LOG_SUFFIX)}", 0, 4 * len(batch(0)))


def epochs_of_another_log(disk: SimulatedDisk) -> None:
    path = f"{DIRECTORY}/{checkpoints.LEADER_EPOCH_CHECKPOINT}"
    disk.remove(path)
    disk.open(path, create=True).append(b"0\n2\n7 0\n9 6\n")


def empty_end(disk: SimulatedDisk) -> None:
    disk.open(ACTIVE).truncate(0)


OPENINGS: Final[Mapping[str, tuple[Callable[[SimulatedDisk], object], Mapping[str, Any]]]] = {
    "a clean stop": (lambda disk: None, {}),
    "all is read": (lambda disk: None, {"reads_all": True}),
    "a crash": (lambda disk: disk.open(ACTIVE).truncate(70), {"clean_shutdown": False, "recovery_point": 8}),
    "a damaged batch": (lambda disk: flip(disk, CLOSED, 1, FIELDS["value"]), {"reads_all": True}),
    "a leader epoch that has grown": (lambda disk: flip(disk, CLOSED, 3, 14, bit=5), {"reads_all": True}),
    "a missing segment": (lambda disk: disk.remove(CLOSED), {}),
    "a lost point": (empty_end, {"recovery_point": 0, "high_watermark": 0}),
    "a low point": (empty_end, {"recovery_point": 5, "high_watermark": 0}),
    "a point that nothing bears out": (lambda disk: None, {"recovery_point": 10**15}),
    "nothing but garbage": (nothing_but_garbage, {"recovery_point": 0, "high_watermark": 0}),
    "copies of batches": (leave_behind_a_damaged_end, {"reads_all": True}),
    "epochs of another log": (epochs_of_another_log, {}),
}


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_log_that_is_open_has_its_segments_open_and_a_closed_one_nothing(opening: str, tmp_path: Path) -> None:
    simulated = written()
    spoil, known = OPENINGS[opening]
    spoil(simulated)
    for name in simulated.list_directory(DIRECTORY):
        (tmp_path / name).write_bytes(simulated.files()[f"{DIRECTORY}/{name}"])
    disk = RealDisk()
    log = Log.open(
        disk,
        str(tmp_path),
        CONFIG,
        0,
        **{"recovery_point": END, "high_watermark": END, "clean_shutdown": True, **known},
    )
    assert disk.open_files <= len(log.segments) <= SEGMENTS + 1
    log.close()
    assert disk.open_files == 0


def test_who_looks_where_logs_end_closes_their_files() -> None:
    disk = written()
    before = sum(disk.open_files.values())
    assert surviving_end_offsets(disk, ["logs"]) == {("tide", 0): END}
    assert sum(disk.open_files.values()) == before


def test_a_replacement_that_is_finished_closes_its_file_and_no_index_is_left_without_a_log() -> None:
    """The cleaner has put four records of the middle segment into the first one."""
    disk = written()
    first = f"{DIRECTORY}/{file_name(0, LOG_SUFFIX)}"
    disk.open(f"{first}{SWAP_SUFFIX}", create=True).append(disk.files()[first], disk.files()[CLOSED])
    disk.remove(ACTIVE)
    before = sum(disk.open_files.values())
    finish_replacements(disk, DIRECTORY, LogNames(disk.list_directory(DIRECTORY)), CONFIG.index_interval_bytes)
    assert sum(disk.open_files.values()) == before
    disk.crash(names=CrashOutcome.LOST)
    disk.power_on()
    kept = [name for name in disk.list_directory(DIRECTORY) if not name.endswith(SNAPSHOT_SUFFIX)]
    assert kept == [file_name(0, LOG_SUFFIX), checkpoints.LEADER_EPOCH_CHECKPOINT]

"""Damage below a log's start is no damage to the log: nothing is refused, repaired or cut for it."""

from __future__ import annotations

import itertools
import logging
import random

import pytest

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.damage import DAMAGE_NOTE
from tidegauge.impl.storage.errors import CorruptLogError, DamagedLogError
from tidegauge.impl.storage.log import Log
from tidegauge.model_tests.storage.test_damage import (
    BATCHES_A_SEGMENT,
    CONFIG,
    DIRECTORY,
    END,
    FIELDS,
    batch,
    flip,
    readable,
    written,
)

WAYS = ("at a start", "while it is open", "before the start moves")


def path_of(offset: int) -> str:
    return f"{DIRECTORY}/{offset // BATCHES_A_SEGMENT * BATCHES_A_SEGMENT:020d}.log"


def spoil(disk: SimulatedDisk, offset: int, field: str) -> None:
    flip(disk, path_of(offset), offset % BATCHES_A_SEGMENT, FIELDS[field], bit=5)


def started_at(log: Log, offset: int) -> None:
    log.delete_records_before(offset)
    log.prepare_log_start(offset)
    log.record_log_start_written(offset)


def reopened(disk: SimulatedDisk, start: int) -> Log:
    return Log.open(
        disk,
        DIRECTORY,
        CONFIG,
        0,
        recovery_point=END,
        log_start_offset=start,
        high_watermark=END,
        clean_shutdown=True,
        reads_all=True,
    )


def met(log: Log) -> None:
    """Read all of it from its start, with the checksums; what is damaged is met."""
    for offset in range(log.log_start_offset, log.log_end_offset):
        log.distrust(offset)
    readable(log)


def damaged_log(disk: SimulatedDisk, start: int, spoilt: dict[int, str], how: str) -> Log:
    """A log with these damaged batches, whose start is found or moved."""
    log = reopened(disk, 0)
    if how == WAYS[0]:
        started_at(log, start)
        log.close()
        for offset, field in spoilt.items():
            spoil(disk, offset, field)
        return reopened(disk, start)
    if how == WAYS[1]:
        started_at(log, start)
    for offset, field in spoilt.items():
        spoil(disk, offset, field)
    met(log)
    if how == WAYS[2]:
        started_at(log, start)
        met(log)
    return log


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("field", ["length", "magic", "crc", "value"])
def test_damage_in_the_part_of_a_segment_below_the_start_is_no_gap(
    field: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = damaged_log(disk := written(), 6, {4: field}, how)
    with caplog.at_level(logging.WARNING):
        assert (log.damage.gaps, readable(log)) == ([], list(range(6, END)))
    assert not disk.exists(f"{DIRECTORY}/{DAMAGE_NOTE}")
    assert log.recovery.lost_nothing
    assert log.truncate_to(7) == 7
    assert readable(log) == [6]


def without_index(start: int) -> tuple[SimulatedDisk, Log]:
    """A log in one segment that is walked from its first batch on, and starts in it."""
    disk = SimulatedDisk(random.Random(1))
    log = Log.open(disk, DIRECTORY, LogConfig(), 0)
    for offset in range(END):
        log.append_as_leader(batch(offset), 1, 0)
    log.close()
    log = Log.open(disk, DIRECTORY, LogConfig(), 0, recovery_point=END, clean_shutdown=True)
    started_at(log, start)
    return disk, log


def test_what_is_met_below_the_start_on_the_way_to_a_record_is_told_and_costs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A length that leads nowhere stops each walk over the segment, until it is known."""
    disk, log = without_index(6)
    flip(disk, path_of(0), 3, FIELDS["length"], bit=5)
    assert readable(log) == list(range(6, END))
    (line,) = [line for line in caplog.messages if line.startswith("damage met")]
    assert "start=3 end=4" in line
    assert "nothing is lost, for the log starts behind it" in line
    assert not log.damage


def test_a_follower_that_cuts_its_log_walks_over_what_is_damaged_below_the_start() -> None:
    disk, log = without_index(6)
    flip(disk, path_of(0), 3, FIELDS["length"], bit=5)
    assert log.truncate_to(8) == 8
    assert (log.damage.gaps, readable(log)) == ([], [6, 7])


def test_a_follower_that_meets_damage_when_it_cuts_its_log_cuts_nothing() -> None:
    """What is damaged is known from then on, so that the replica may be repaired."""
    disk, log = without_index(2)
    flip(disk, path_of(0), 3, FIELDS["length"], bit=5)
    with pytest.raises(CorruptLogError):
        log.truncate_to(8)
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(3, 4)]
    assert log.log_end_offset == END


def refused(first: int, second: int) -> list[int]:
    """Two that are damaged, and one that lies between them in the same file: nothing bears that one out."""
    same_file = first // BATCHES_A_SEGMENT == second // BATCHES_A_SEGMENT
    return [first, first + 1, second] if same_file and second == first + 2 else [first, second]


@pytest.mark.parametrize("how", WAYS)
def test_a_repair_keeps_all_from_the_start_to_the_first_damage_behind_it(how: str) -> None:
    """Any two damaged batches, any log start: what is refused is damaged, and what a repair cuts lies behind that."""
    rng = random.Random(f"below/{how}")
    for start, pair in itertools.product(range(END), itertools.combinations(range(END), 2)):
        if rng.random() > 0.25 or not set(pair) & set(range(start)):
            continue
        spoilt = {offset: rng.choice(["length", "magic", "crc", "value"]) for offset in pair}
        log = damaged_log(written(), start, spoilt, how)
        lost = [offset for offset in refused(*pair) if offset >= start]
        assert readable(log) == [offset for offset in range(start, END) if offset not in lost], (start, spoilt)
        assert [(gap.start, gap.end) for gap in log.damage.gaps if gap.end <= start] == [], (start, spoilt)
        assert bool(log.damage) == bool(lost), (start, spoilt)
        if lost:
            assert log.repair() == lost[0], (start, spoilt)
            assert readable(log) == list(range(start, lost[0])), (start, spoilt)


def test_a_log_whose_first_segment_is_missing_stays_damaged_when_its_end_is_cut() -> None:
    """Its records were not deleted: a replica that starts later than the others would hide them as a leader."""
    disk = written()
    disk.remove(path_of(0))
    log = reopened(disk, 0)
    gaps = log.damage.gaps
    assert [(gap.start, gap.end) for gap in gaps] == [(0, 4)]
    log.truncate_to(END - 1)
    assert log.damage.gaps == gaps
    assert log.repair() == 0


def test_a_missing_end_of_a_segment_is_refused_though_more_of_it_is_damaged() -> None:
    disk = written()
    disk.open(path_of(END - 1)).truncate(3 * len(batch(0)))
    log = reopened(disk, 0)
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(11, END)]
    spoil(disk, 8, "value")
    met(log)
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(8, 9), (11, END)]


def test_a_log_that_starts_anew_inside_what_was_damaged_serves_what_it_gets() -> None:
    disk = written()
    spoil(disk, 5, "value")
    log = reopened(disk, 0)
    log.truncate_fully_and_start_at(5)
    log.append_as_leader(batch(5), 4, 0)
    assert (readable(log), log.damage.gaps) == ([5], [])


def test_a_log_that_is_cut_inside_what_was_damaged_serves_what_it_gets_there() -> None:
    disk = written()
    for offset in (5, 6):
        spoil(disk, offset, "value")
    log = reopened(disk, 0)
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(5, 7)]
    log.truncate_to(6)
    log.append_as_leader(batch(6), 4, 0)
    with pytest.raises(DamagedLogError):
        log.read(5, 1)
    assert readable(log) == [0, 1, 2, 3, 4, 6]

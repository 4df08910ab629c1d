"""The gaps of a log: what they let a reader have, what is left of them, and the note that goes with them."""

from __future__ import annotations

import random

import pytest

from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.damage import DAMAGE_NOTE, DAMAGED_SUFFIX, Damage, Gap, unused_path
from tidegauge.impl.storage.errors import CorruptLogError, DamagedLogError
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.recovery import Recovery
from tidegauge.impl.storage.stray_segments import StraySegments
from tidegauge.impl.storage.survey import Around
from tidegauge.model_tests.storage.test_damage import (
    ACTIVE,
    CLOSED,
    DIRECTORY,
    FIELDS,
    batch,
    flip,
    opened,
    readable,
    written,
)

LATER, EARLIER = Gap(7, 9, "zeroed"), Gap(2, 4, "gone")
NOTE = f"log/{DAMAGE_NOTE}"


def damaged(*gaps: Gap) -> tuple[SimulatedDisk, Damage]:
    """A log of these gaps, with its note."""
    disk = SimulatedDisk(random.Random(0))
    disk.make_directory("log")
    damage = Damage(disk, "log", gaps)
    if gaps:
        damage.write_note()
    return disk, damage


def note_after_a_crash(disk: SimulatedDisk) -> bytes | None:
    """What stable storage has of the note."""
    disk.crash(names=CrashOutcome.LOST)
    disk.power_on()
    return disk.files().get(NOTE)


@pytest.mark.parametrize(
    ("offset", "end"), [(0, 2), (1, 2), (2, None), (3, None), (4, 7), (6, 7), (7, None), (9, 12), (11, 12)]
)
def test_a_read_ends_before_the_next_gap_and_none_begins_in_one(offset: int, end: int | None) -> None:
    _, damage = damaged(LATER, EARLIER)
    assert (bool(damage), damage.start) == (True, 2)
    if end is None:
        with pytest.raises(DamagedLogError, match="gone" if offset < 4 else "zeroed"):
            damage.readable_end(offset, 12)
    else:
        assert damage.readable_end(offset, 12) == end
        assert damage.readable_end(offset, offset + 1) == offset + 1


def test_only_a_log_that_was_whole_is_told_of_its_first_gap() -> None:
    _, damage = damaged(EARLIER)
    damage.check(was_whole=False)
    with pytest.raises(DamagedLogError):
        damage.check(was_whole=True)
    damaged()[1].check(was_whole=True)


@pytest.mark.parametrize(
    ("start", "left"), [(2, [EARLIER, LATER]), (3, [EARLIER, LATER]), (4, [LATER]), (8, [LATER]), (9, [])]
)
def test_what_lies_below_the_log_start_is_no_gap(start: int, left: list[Gap]) -> None:
    disk, damage = damaged(EARLIER, LATER)
    damage.keep_from(start)
    assert damage.gaps == left
    assert (note_after_a_crash(disk) is None) == (not left), "the note goes with the last gap, durably"


@pytest.mark.parametrize(
    ("end", "left"),
    [(12, [(2, 4), (7, 9)]), (8, [(2, 4), (7, 8)]), (7, [(2, 4)]), (3, [(2, 3)]), (2, []), (0, [])],
)
def test_what_was_cut_is_no_gap(end: int, left: list[tuple[int, int]]) -> None:
    disk, damage = damaged(EARLIER, LATER)
    damage.keep_below(end)
    assert [(gap.start, gap.end) for gap in damage.gaps] == left
    assert (note_after_a_crash(disk) is None) == (not left)


@pytest.mark.parametrize(("start", "left"), [(3, [EARLIER, LATER]), (4, [LATER]), (8, [LATER]), (9, [])])
def test_what_lies_below_the_log_start_is_in_no_doubt(start: int, left: list[Gap]) -> None:
    damage = Damage(SimulatedDisk(random.Random(0)), "log", (), (LATER, EARLIER))
    damage.keep_from(start)
    assert damage.doubted == left
    damage.forget()
    assert damage.doubted == []


@pytest.mark.parametrize(("end", "left"), [(8, [(2, 4), (7, 8)]), (7, [(2, 4)]), (2, [])])
def test_what_was_cut_is_in_no_doubt(end: int, left: list[tuple[int, int]]) -> None:
    damage = Damage(SimulatedDisk(random.Random(0)), "log", (), (LATER, EARLIER))
    damage.keep_below(end)
    assert [(gap.start, gap.end) for gap in damage.doubted] == left


def test_a_replica_is_repaired_from_its_first_gap_on_be_it_in_doubt() -> None:
    disk = SimulatedDisk(random.Random(0))
    assert Damage(disk, "log").first is None
    assert Damage(disk, "log", (LATER,), (EARLIER,)).first == EARLIER
    assert Damage(disk, "log", (LATER, EARLIER)).first == EARLIER


def test_a_log_that_starts_anew_has_no_gap() -> None:
    disk, damage = damaged(EARLIER)
    damage.forget()
    assert (damage.gaps, note_after_a_crash(disk)) == ([], None)


def test_a_note_of_another_process_stays_until_something_is_known() -> None:
    """A log without a gap loses none: the note is an earlier process's, which opening the log renews."""
    disk, _ = damaged(EARLIER)
    whole = Damage(disk, "log")
    whole.keep_from(3)
    whole.keep_below(1)
    assert NOTE in disk.files()
    whole.renew_note(())
    assert NOTE in disk.files(), "it is not among the names"
    whole.renew_note((DAMAGE_NOTE,))
    assert note_after_a_crash(disk) is None
    whole.clear_note()


def test_a_note_names_each_gap_durably() -> None:
    disk, damage = damaged(LATER, EARLIER)
    damage.renew_note(())
    assert note_after_a_crash(disk) == b"[2, 4): gone\n[7, 9): zeroed\n"


@pytest.mark.parametrize(
    ("found", "changed", "may_end_early", "doubt"),
    [
        (Recovery(), False, False, ""),
        (Recovery(cut_bytes=1), True, True, ""),
        (Recovery(strays=("a.stray",)), True, False, ""),
        (Recovery(gaps=(EARLIER,)), True, False, ""),
        (Recovery(is_point_rejected=True), True, True, "its recovery point is damaged"),
        (Recovery(ends_in_damage=True), False, True, "it ends in damage"),
        (Recovery(is_start_in_doubt=True), False, False, "nothing tells where it starts"),
    ],
)
def test_each_thing_that_recovery_finds_says_what_follows(
    found: Recovery, changed: bool, may_end_early: bool, doubt: str
) -> None:
    """Files that have changed are flushed; who may end early, or lacks something, is no clean replica."""
    assert (found.has_changed_files, found.may_end_early, found.doubt) == (changed, may_end_early, doubt)
    assert found.lost_nothing == (not doubt and not found.gaps)


@pytest.mark.parametrize(("log_start", "gaps"), [(0, [(5, 6)]), (5, [(5, 6)]), (6, [])])
def test_damage_that_a_read_meets_is_news_once(
    log_start: int, gaps: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    """Below the log start it is walked over from now on, and is no gap."""
    disk = written()
    flip(disk, CLOSED, 1, FIELDS["value"])
    log = opened(disk)
    met = CorruptLogError(CLOSED, len(batch(0)))
    assert log.damage.examine(log.segments[1], Around(), met, log_start)
    assert not log.damage.examine(log.segments[1], Around(), met, log_start)
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == gaps
    assert len([line for line in caplog.messages if line.startswith("damage met")]) == 1
    assert (f"{DIRECTORY}/{DAMAGE_NOTE}" in disk.files()) == bool(gaps)


def test_a_path_is_unused_with_the_first_number_that_nothing_has() -> None:
    disk, _ = damaged()
    for number in ("", ".1", ".2"):
        assert unused_path(disk, "log/a.stray") == f"log/a.stray{number}"
        disk.open(f"log/a.stray{number}", create=True)


def test_what_is_set_aside_has_the_next_free_name_of_the_segments_behind_the_gap() -> None:
    """A name that another segment has is free."""
    disk = written()
    disk.open(f"{CLOSED}{DAMAGED_SUFFIX}", create=True).append(b"of a repair before")
    flip(disk, CLOSED, 1, FIELDS["value"])
    log = opened(disk)
    assert 5 not in readable(log)
    assert log.repair() == 5
    assert disk.exists(f"{ACTIVE}{DAMAGED_SUFFIX}")
    assert not disk.exists(f"{ACTIVE}{DAMAGED_SUFFIX}{DAMAGED_SUFFIX}")


def test_what_is_appended_to_a_file_in_which_damage_was_met_is_one_of_its_batches() -> None:
    disk = SimulatedDisk(random.Random(1))
    log = Log.open(disk, DIRECTORY, LogConfig(), 0)
    for offset in range(3):
        log.append_as_leader(batch(offset), 1, 0)
    (path,) = (path for path in disk.files() if path.endswith(".log"))
    flip(disk, path, 1, FIELDS["value"])
    assert log.damage.examine(log.segments[0], Around(), CorruptLogError(path, len(batch(0))), 0)
    log.append_as_leader(batch(3), 1, 0)
    assert [header.base_offset for header in log.segments[0].headers()] == [0, 2, 3]


def test_strays_that_are_put_back_have_their_names_durably_and_are_told(caplog: pytest.LogCaptureFixture) -> None:
    disk = written()
    strays = StraySegments(disk, DIRECTORY)
    strays.put_back()
    assert not caplog.messages
    strays.set_aside(4, "it is a test")
    assert not disk.exists(CLOSED)
    strays.put_back()
    assert (strays.names, caplog.text.count("stray segments put back")) == ([], 1)
    disk.crash(names=CrashOutcome.LOST)
    disk.power_on()
    assert disk.exists(CLOSED)


def test_what_was_set_aside_before_is_kept_by_the_next_repair() -> None:
    disk = written()
    disk.open(f"{ACTIVE}{DAMAGED_SUFFIX}", create=True).append(b"of a repair before")
    active = disk.files()[ACTIVE]
    flip(disk, CLOSED, 1, FIELDS["value"])
    log = opened(disk)
    assert 5 not in readable(log)
    assert log.repair() == 5
    assert disk.files()[f"{ACTIVE}{DAMAGED_SUFFIX}"] == b"of a repair before"
    assert disk.files()[f"{ACTIVE}{DAMAGED_SUFFIX}{DAMAGED_SUFFIX}"] == active


def test_a_copy_of_what_is_damaged_has_its_name_durably_before_the_file_is_cut() -> None:
    disk = written()
    flip(disk, ACTIVE, 1, FIELDS["value"])
    log = opened(disk)
    assert 9 not in readable(log)
    (name,) = log.damage.set_aside(log._segments)
    disk.crash(tails=CrashOutcome.LOST, names=CrashOutcome.LOST)
    disk.power_on()
    assert disk.size(f"{DIRECTORY}/{name}") == 3 * len(batch(0))


def test_of_a_file_whose_end_is_missing_nothing_is_set_aside() -> None:
    disk = written()
    disk.open(ACTIVE).truncate(2 * len(batch(0)))
    log = opened(disk)
    assert (log.repair(), readable(log)) == (10, list(range(10)))
    assert [name for name in disk.list_directory(DIRECTORY) if ".from-" in name] == []

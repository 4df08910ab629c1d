"""What the disk damages below the recovery point is told and not served, and nothing else is lost for it."""

from __future__ import annotations

import errno
import logging
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import attrs
import pytest

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.ports.failing_disk import WRITES, FailingDisk, Operation
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.batches import CHECKSUM_START, checked_headers
from tidegauge.impl.records.payload import Record, build_batch, decode_batches
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.damage import DAMAGE_NOTE, Gap
from tidegauge.impl.storage.errors import CorruptLogError, DamagedLogError
from tidegauge.impl.storage.interrupted_replacements import finish_replacements
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_names import LogNames
from tidegauge.model_tests.harness.damage.files import stays_unseen

DIRECTORY = "logs/tide-0"
BATCHES_A_SEGMENT = 4
SEGMENTS = 3


def value(offset: int) -> bytes:
    return b"%03d" % offset * 20


def batch(offset: int) -> bytes:
    return build_batch([Record(0, 100 + offset, None, value(offset))])


CONFIG = LogConfig(segment_bytes=BATCHES_A_SEGMENT * len(batch(0)), index_interval_bytes=150)
END = BATCHES_A_SEGMENT * SEGMENTS
CLOSED = f"{DIRECTORY}/{BATCHES_A_SEGMENT:020d}.log"
"""The middle segment, which holds the offsets [4, 8)."""
ACTIVE = f"{DIRECTORY}/{2 * BATCHES_A_SEGMENT:020d}.log"


def written(*, clean: bool = True, last_epoch: int = 3) -> SimulatedDisk:
    """Three segments of four records each, all flushed, of epochs 1, 2 and 3; the last record may have a later one."""
    disk = SimulatedDisk(random.Random(1))
    log = Log.open(disk, DIRECTORY, CONFIG, 0)
    for offset in range(END):
        epoch = last_epoch if offset == END - 1 else 1 + offset // BATCHES_A_SEGMENT
        log.append_as_leader(batch(offset), leader_epoch=epoch, now_ms=0)
    log.flush()
    if clean:
        log.close()
    else:
        disk.crash()
        disk.power_on()
    return disk


def opened(disk: Disk, *, clean: bool = True, recovery_point: int = END, high_watermark: int = END) -> Log:
    return Log.open(
        disk,
        DIRECTORY,
        CONFIG,
        0,
        recovery_point=recovery_point,
        high_watermark=high_watermark,
        clean_shutdown=clean,
    )


def readable(log: Log) -> list[int]:
    """The offsets that can be read, each with its right value; those that cannot are refused with words."""
    found = []
    for offset in range(log.log_start_offset, log.log_end_offset):
        try:
            data = log.read(offset, 1)
        except DamagedLogError:
            continue
        (record,) = decode_batches(data)
        assert (record.offset, record.value) == (offset, value(offset))
        found.append(offset)
    return found


def without(*gone: int) -> list[int]:
    return [offset for offset in range(END) if offset not in gone]


def flip(disk: SimulatedDisk, path: str, batch_number: int, position: int, bit: int = 0) -> None:
    disk.flip_bit(path, batch_number * len(batch(0)) + position, bit)


FIELDS = {"base offset": 7, "length": 11, "magic": 16, "crc": 18, "attributes": 22, "value": 80}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("field", FIELDS)
def test_a_damaged_byte_in_a_closed_segment_costs_its_batch_and_no_other(field: str, clean: bool) -> None:
    disk = written(clean=clean)
    flip(disk, CLOSED, 1, FIELDS[field], bit=5)
    log = opened(disk, clean=clean)
    assert log.log_end_offset == END
    assert readable(log) == without(5)
    log.append_as_leader(batch(END), 3, 0)
    assert readable(log) == [*without(5), END]
    assert [name for name in disk.list_directory(DIRECTORY) if "stray" in name or "damaged" in name] == []


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(("field", "bit"), [("last offset delta", 31), ("base offset", 1)])
def test_a_closed_segment_that_seems_to_end_earlier_is_read_and_loses_its_last_batch_alone(
    field: str, bit: int, clean: bool
) -> None:
    """Its end was believed, and that it was missing up to the next one: all below a negative offset was refused."""
    disk = written(clean=clean)
    last_byte = {"last offset delta": 26, "base offset": 7}[field]
    flip(disk, CLOSED, BATCHES_A_SEGMENT - 1, last_byte - bit // 8, bit % 8)
    log = opened(disk, clean=clean)
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(7, 8)]
    assert readable(log) == without(7)
    assert log.epochs.entries == ((1, 0), (2, 4), (3, 8)), "the segment behind is not read for the epoch it begins"


@pytest.mark.parametrize("clean", [True, False])
def test_a_leader_epoch_that_has_grown_in_a_closed_segment_is_damage(clean: bool) -> None:
    disk = written(clean=clean)
    flip(disk, CLOSED, 1, 14, bit=5)
    disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")  # so that all of the log is read
    log = opened(disk, clean=clean)
    assert readable(log) == without(5)
    assert [tuple(entry) for entry in log.epochs.entries] == [(1, 0), (2, 4), (3, 8)]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kept", [0, 1, 60, 61, 200, 2 * len(batch(0))])
def test_a_closed_segment_that_is_cut_short_keeps_what_is_left(kept: int, clean: bool) -> None:
    disk = written(clean=clean)
    disk.open(CLOSED).truncate(kept)
    log = opened(disk, clean=clean)
    lost = range(4 + kept // len(batch(0)), 8)
    assert (log.log_end_offset, readable(log)) == (END, without(*lost))


@pytest.mark.parametrize("clean", [True, False])
def test_zeroes_from_a_place_on_in_a_closed_segment_cost_what_was_there(clean: bool) -> None:
    disk = written(clean=clean)
    size = disk.size(CLOSED)
    file = disk.open(CLOSED)
    file.truncate(200)
    file.append(bytes(size - 200))
    log = opened(disk, clean=clean)
    assert (log.log_end_offset, readable(log)) == (END, without(5, 6, 7))


@pytest.mark.parametrize("clean", [True, False])
def test_a_missing_closed_segment_is_a_gap_and_not_the_end_of_the_log(clean: bool) -> None:
    disk = written(clean=clean)
    disk.remove(CLOSED)
    log = opened(disk, clean=clean)
    assert (log.log_end_offset, readable(log)) == (END, without(4, 5, 6, 7))
    assert "no segment holds them" in str(log.damage.gaps[0])


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_never_gets_shorter_than_what_was_flushed(clean: bool) -> None:
    for damage in ("short", "missing", "damaged"):
        disk = written(clean=clean)
        if damage == "missing":
            disk.remove(ACTIVE)
        elif damage == "short":
            disk.open(ACTIVE).truncate(100)
        else:
            flip(disk, ACTIVE, 0, 80)
        log = opened(disk, clean=clean)
        assert log.log_end_offset == END, damage
        assert readable(log) == without(*range(8, 12)) if damage != "damaged" else without(8), damage
        log.append_as_leader(batch(END), 3, 0)
        log.close()
        again = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=END + 1, clean_shutdown=True)
        assert readable(again)[-1] == END, damage
        assert again.damage, damage


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", [5, 99, 10**15])
@pytest.mark.parametrize("content", [b"", b"nonsense" * 20, batch(0)])
def test_a_stray_segment_is_set_aside_and_no_reason_to_remove_others(content: bytes, name: int, clean: bool) -> None:
    disk = written(clean=clean)
    disk.open(f"{DIRECTORY}/{name:020d}.log", create=True).append(content)
    log = opened(disk, clean=clean)
    assert (log.log_end_offset, readable(log)) == (END, without())
    assert not log.damage
    assert disk.files()[f"{DIRECTORY}/{name:020d}.log.stray"] == content


def test_a_file_that_is_named_like_a_segment_and_is_none_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    disk = written()
    disk.open(f"{DIRECTORY}/notes.log", create=True).append(b"mine")
    assert readable(opened(disk)) == without()
    assert disk.exists(f"{DIRECTORY}/notes.log")
    assert "not a segment: file=logs/tide-0/notes.log" in caplog.text


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("text", [None, "", "0\n1\n7 9\n", "0\n3\n1 0\n2 4\n9 8\n", "0\n1\n1 99999999999\n", "\0" * 20])
def test_leader_epochs_that_cannot_be_are_made_anew_from_a_damaged_log(text: str | None, clean: bool) -> None:
    disk = written(clean=clean)
    flip(disk, CLOSED, 1, FIELDS["length"], bit=5)
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    disk.remove(path)
    if text is not None:
        disk.open(path, create=True).append(text.encode())
    log = opened(disk, clean=clean)
    assert [tuple(entry) for entry in log.epochs.entries] == [(1, 0), (2, 4), (3, 8)]
    assert readable(log) == without(5)


@pytest.mark.parametrize("clean", [True, False])
def test_a_recovery_point_that_nothing_else_knows_of_is_rejected(clean: bool, caplog: pytest.LogCaptureFixture) -> None:
    log = opened(written(clean=clean), clean=clean, recovery_point=10**12)
    assert (log.log_end_offset, readable(log)) == (END, without())
    assert (log.damage.gaps, log.recovery.is_point_rejected) == ([], True)
    assert "recovery point rejected: log=logs/tide-0 recovery_point=1000000000000 log_end=12" in caplog.text


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("log_start", [5, 12, 13, 10**12])
def test_a_log_start_that_nothing_else_knows_of_hides_nothing(
    log_start: int, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = written(clean=clean)
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=END, log_start_offset=log_start, clean_shutdown=clean)
    assert (log.log_start_offset, readable(log)) == (0, without())
    assert f"log start rejected: log=logs/tide-0 log_start={log_start}" in caplog.text


def test_a_log_does_not_end_before_a_log_start_that_the_leader_epochs_bear_out() -> None:
    """What lies before a log start is flushed first, though the recovery point may be older."""
    disk = written()
    log = opened(disk)
    log_start = END - 1
    log.delete_records_before(log_start)
    log.prepare_log_start(log_start)
    log.abandon()
    for number in range(BATCHES_A_SEGMENT):
        flip(disk, ACTIVE, number, FIELDS["value"])
    log = Log.open(
        disk, DIRECTORY, CONFIG, 0, recovery_point=2 * BATCHES_A_SEGMENT, log_start_offset=log_start, reads_all=True
    )
    assert (log.log_start_offset, log.log_end_offset) == (log_start, log_start)


def test_a_read_ends_before_damage_and_begins_again_behind_it() -> None:
    disk = written()
    flip(disk, CLOSED, 2, FIELDS["value"])
    log = opened(disk)
    assert [header.base_offset for header in checked_headers(log.read(4, 1 << 20))] == [4, 5]
    with pytest.raises(DamagedLogError, match=r"\[6, 7\)"):
        log.read(6, 1 << 20)
    assert [header.base_offset for header in checked_headers(log.read(7, 1 << 20))] == [7]


def test_damage_in_the_life_of_a_log_is_met_when_it_is_distrusted() -> None:
    disk = SimulatedDisk(random.Random(1))
    log = Log.open(disk, DIRECTORY, CONFIG, 0)
    for offset in range(END):
        log.append_as_leader(batch(offset), 0, 0)
    flip(disk, CLOSED, 1, FIELDS["value"])
    log.distrust(5)
    with pytest.raises(DamagedLogError):
        log.read(5, 1)
    assert readable(log) == without(5)
    assert disk.exists(f"{DIRECTORY}/{DAMAGE_NOTE}")


def test_a_repaired_log_ends_before_the_damage_and_keeps_the_rest_aside() -> None:
    disk = written()
    closed, active = disk.files()[CLOSED], disk.files()[ACTIVE]
    flip(disk, CLOSED, 1, FIELDS["value"])
    log = opened(disk)
    assert readable(log) == without(5)
    assert log.repair() == 5
    assert (readable(log), log.latest_epoch, bool(log.damage)) == (list(range(5)), 2, False)
    files, size = disk.files(), len(batch(0))
    assert files[f"{CLOSED}.from-{size}.damaged"][size:] == closed[2 * size :]
    assert files[f"{ACTIVE}.damaged"] == active
    for offset in range(5, END):
        log.append_as_leader(batch(offset), 4, 0)
    log.close()
    again = opened(disk)
    assert (readable(again), again.recovery.lost_nothing) == (without(), True)


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_log_with_a_missing_segment_is_repaired_to_where_it_was_whole(gone: int) -> None:
    disk = written()
    disk.remove(f"{DIRECTORY}/{gone * BATCHES_A_SEGMENT:020d}.log")
    log = opened(disk)
    assert log.damage
    assert log.repair() == gone * BATCHES_A_SEGMENT
    assert readable(log) == list(range(gone * BATCHES_A_SEGMENT))
    assert opened(disk, recovery_point=log.flushed_end_offset, high_watermark=0).recovery.lost_nothing


def test_damage_is_remembered_until_the_log_is_whole_again() -> None:
    disk = written()
    flip(disk, CLOSED, 1, FIELDS["value"])
    opened(disk).read(0, 1)
    log = opened(disk)
    with pytest.raises(CorruptLogError):
        log.read(5, 1)
    log.close()
    again = opened(disk)
    assert [(gap.start, gap.end) for gap in again.damage.gaps] == [(5, 6)]
    flip(disk, CLOSED, 1, FIELDS["value"])  # the operator puts the right byte back
    again.close()
    assert not opened(disk).damage
    assert not disk.exists(f"{DIRECTORY}/{DAMAGE_NOTE}")


def test_records_that_are_deleted_take_the_damage_below_them_along() -> None:
    disk = written()
    flip(disk, CLOSED, 1, FIELDS["length"], bit=5)
    log = opened(disk)
    log.delete_records_before(6)
    assert (readable(log), bool(log.damage)) == (list(range(6, END)), False)


def test_a_batch_in_the_value_of_a_damaged_batch_is_no_batch_of_the_log() -> None:
    inner = build_batch([Record(6, 1, None, b"forged")], leader_epoch=2)
    disk = SimulatedDisk(random.Random(1))
    log = Log.open(disk, DIRECTORY, LogConfig(), 0)
    for number in range(8):
        content = inner if number == 5 else value(number)
        log.append_as_leader(build_batch([Record(0, 100, None, content)]), 2, 0)
    position = 5 * len(batch(0))
    log.close()
    disk.flip_bit(f"{DIRECTORY}/{0:020d}.log", position + FIELDS["length"], 5)
    log = Log.open(disk, DIRECTORY, LogConfig(), 0, recovery_point=8, clean_shutdown=True)
    assert [(gap.start, gap.end) for gap in _mapped(log, range(8))] == [(5, 6)]
    assert b"forged" not in log.read(6, 1)


def test_a_lost_sector_that_reaches_into_the_next_base_offset_costs_that_batch_too() -> None:
    disk = written()
    disk.zero(f"{DIRECTORY}/{0:020d}.log", 16, len(batch(0)) + 8)
    flip(disk, CLOSED, 3, FIELDS["value"])
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=END, clean_shutdown=True, reads_all=True)
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(0, 2), (7, 8)]
    assert readable(log) == without(0, 1, 7)
    assert not log.recovery.lost_nothing


@pytest.mark.parametrize("gone", [2, 3])
def test_what_lies_behind_a_damaged_recovery_point_stays_if_what_follows_bears_it_out(gone: int) -> None:
    """Two batches bear each other out; the name of the next file bears out the last one."""
    disk = written(clean=False)
    for number in range(gone):
        flip(disk, CLOSED, number, FIELDS["value"])
    log = opened(disk, clean=False, recovery_point=BATCHES_A_SEGMENT + 1, high_watermark=0)
    damaged = range(BATCHES_A_SEGMENT, BATCHES_A_SEGMENT + gone)
    assert readable(log) == without(*damaged)
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(damaged.start, damaged.stop)]


def test_the_last_batch_of_a_log_behind_a_damaged_recovery_point_is_not_believed_and_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = written(clean=False)
    for number in range(BATCHES_A_SEGMENT - 1):
        flip(disk, ACTIVE, number, FIELDS["value"])
    point = 2 * BATCHES_A_SEGMENT + 1
    before = disk.files()[ACTIVE]
    log = opened(disk, clean=False, recovery_point=point)
    assert (readable(log), log.log_end_offset) == (list(range(point - 1)), point)
    assert f"log ends in damage: segment={ACTIVE} log_end={point} recovery_point={point}" in caplog.text
    assert disk.files()[ACTIVE] == before


def test_a_last_base_offset_that_has_grown_beyond_the_recovery_point_is_damage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A log that was closed ends at its recovery point, and so it is known where the damage ends."""
    disk = written()
    flip(disk, ACTIVE, BATCHES_A_SEGMENT - 1, FIELDS["base offset"], bit=4)
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=END, clean_shutdown=True, reads_all=True)
    assert (readable(log), log.log_end_offset) == (without(END - 1), END)
    assert "log ends in damage" not in caplog.text


def test_what_is_found_damaged_later_in_a_segment_comes_beside_what_is_known_of_it() -> None:
    disk = written()
    log = opened(disk)
    for number, known in ((0, [(4, 5)]), (3, [(4, 5), (7, 8)]), (1, [(4, 8)])):
        flip(disk, CLOSED, number, FIELDS["value"])
        log.distrust(BATCHES_A_SEGMENT)  # what was read once is not looked at again
        assert [(gap.start, gap.end) for gap in _mapped(log, range(END))] == known


def test_a_first_segment_that_was_being_deleted_is_no_damage() -> None:
    disk = written()
    first = f"{DIRECTORY}/{0:020d}.log"
    disk.rename(first, f"{first}.deleted")
    log = opened(disk)
    assert (readable(log), bool(log.damage)) == (list(range(BATCHES_A_SEGMENT, END)), False)
    assert not disk.exists(f"{first}.deleted")
    disk = written()
    disk.remove(first)
    assert opened(disk).damage, "one that nobody was deleting is missed"


class Interrupted(FailingDisk):
    """A disk that takes so many writes."""

    def __init__(self, disk: SimulatedDisk, writes: int) -> None:
        super().__init__(disk)
        self.left = writes
        self.watched_by(self.count)

    def count(self, operation: Operation, _: str) -> None:
        self.left -= operation in WRITES
        if self.left < 0:
            raise OSError(errno.EMFILE, "no descriptors")


def test_a_first_segment_that_was_being_deleted_is_no_damage_however_often_recovery_is_interrupted() -> None:
    """Until the leader epochs are written, nothing but the deleted segment says that the log has not lost it."""
    left = -1
    for writes in range(100):
        disk = written(clean=False)
        first = f"{DIRECTORY}/{0:020d}.log"
        disk.rename(first, f"{first}.deleted")
        interrupted = Interrupted(disk, writes)
        with suppress(OSError):
            Log.open(interrupted, DIRECTORY, CONFIG, 0)
        log = opened(disk, clean=False)
        assert (readable(log), bool(log.damage)) == (list(range(BATCHES_A_SEGMENT, END)), False), writes
        if (left := interrupted.left) >= 0:
            break
    assert left == 0, "it was interrupted at every step"


@pytest.mark.parametrize("seed", range(4))
def test_what_was_left_over_is_gone_for_good_when_recovery_has_dropped_it(seed: int) -> None:
    disk = SimulatedDisk(random.Random(seed))
    disk.make_directory(DIRECTORY)
    for left in (f"{0:020d}.log.cleaned", f"{4:020d}.index.deleted", f"{8:020d}.index"):
        disk.open(f"{DIRECTORY}/{left}", create=True).append(b"left")
    disk.sync_directory(DIRECTORY)
    assert not finish_replacements(disk, DIRECTORY, LogNames(disk.list_directory(DIRECTORY)), 150).all
    disk.crash()
    disk.power_on()
    assert disk.list_directory(DIRECTORY) == []


def test_an_intact_log_that_is_read_whole_after_a_clean_shutdown_has_nothing_to_flush() -> None:
    disk = FailingDisk(written())
    done: Counter[Operation] = Counter()
    disk.watched_by(lambda operation, _: done.update([operation]))
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=END, clean_shutdown=True, reads_all=True)
    assert log.recovery.scanned_segments == SEGMENTS
    log.close()
    assert done[Operation.READ]
    assert not done.keys() & (WRITES - {Operation.MAKE_DIRECTORY})


def test_indexes_are_written_again_where_nobody_knows_that_they_were_flushed() -> None:
    disk = FailingDisk(written())
    written_again = set()
    disk.watched_by(lambda operation, path: written_again.add(path) if operation is Operation.APPEND else None)
    Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=0).close()
    indexes = {path.replace(".log", suffix) for path in (CLOSED, ACTIVE) for suffix in (".index", ".timeindex")}
    assert indexes <= written_again


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_an_index_that_does_not_hold_what_the_log_says_is_written_again(suffix: str) -> None:
    disk = written()
    index = CLOSED.replace(".log", f".{suffix}")
    before = content(disk, index)
    disk.flip_bit(index, len(before) - 1, 1)
    Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=END, clean_shutdown=True, reads_all=True).close()
    disk.crash()
    disk.power_on()
    assert content(disk, index) == before


def test_a_log_that_was_closed_below_its_high_watermark_says_so(caplog: pytest.LogCaptureFixture) -> None:
    assert opened(written(), high_watermark=END + 1).log_end_offset == END
    assert f"log ends below its high watermark: log={DIRECTORY} log_end={END} high_watermark={END + 1}" in caplog.text


@pytest.mark.parametrize("reads_all", [False, True])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_a_damaged_index_of_a_small_segment_is_made_good_when_somebody_may_read_it(
    suffix: str, reads_all: bool
) -> None:
    """Nobody reads it while the segment is the active one and so small that its batches are read."""
    disk = SimulatedDisk(random.Random(1))
    config = attrs.evolve(CONFIG, index_interval_bytes=1 << 12)
    log = Log.open(disk, DIRECTORY, config, 0)
    log.append_as_leader(batch(0), 1, 0)
    log.close()
    index = f"{DIRECTORY}/{0:020d}.{suffix}"
    before = content(disk, index)
    disk.open(index).append(b"damaged.")
    damaged = content(disk, index)
    for _ in range(2):
        log = Log.open(disk, DIRECTORY, config, 0, recovery_point=1, clean_shutdown=True, reads_all=reads_all)
        log.close()
        assert content(disk, index) == damaged
    log = Log.open(disk, DIRECTORY, config, 0, recovery_point=1, clean_shutdown=True, reads_all=reads_all)
    log.roll(0)
    log.close()
    assert content(disk, index) == before


def content(disk: SimulatedDisk, path: str) -> bytes:
    file = disk.open(path)
    return file.read(0, file.size)


def _mapped(log: Log, offsets: Sequence[int]) -> list[Gap]:
    for offset in offsets:
        try:
            log.read(offset, 1)
        except CorruptLogError:
            continue
    return list(log.damage.gaps)


def test_each_recovery_and_cut_is_told_with_offsets_and_bytes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tidegauge")
    disk = written(clean=False)
    disk.open(ACTIVE).append(b"torn")
    opened(disk, clean=False)
    assert f"torn tail cut: segment={ACTIVE} bytes=4 log_end=12" in caplog.text
    flip(disk, CLOSED, 1, FIELDS["length"], bit=5)
    log = opened(disk)
    assert readable(log) == without(5)
    assert "damage met: log=logs/tide-0 start=5 end=6" in caplog.text
    log.repair()
    assert "log repaired: log=logs/tide-0 start=5 end=12" in caplog.text


@pytest.mark.parametrize("last_epoch", [3, 5])
def test_a_flipped_bit_of_the_last_batch_is_found_unless_its_offset_grows_or_its_epoch_may_follow(
    last_epoch: int,
) -> None:
    intact = written(clean=False, last_epoch=last_epoch)
    content = intact.files()[ACTIVE]
    start, end = 3 * len(batch(0)), 4 * len(batch(0))
    for position in range(start, end):
        for bit in range(8) if position - start < CHECKSUM_START else (position % 8,):
            disk = written(clean=False, last_epoch=last_epoch)
            disk.flip_bit(ACTIVE, position, bit)
            log = opened(disk, clean=False, recovery_point=2 * BATCHES_A_SEGMENT, high_watermark=0)
            is_found = bool(log.damage) or log.log_end_offset < END
            assert is_found is not stays_unseen(content, position, bit), (position - start, bit, log.log_end_offset)


def test_after_a_crash_without_its_recovery_point_a_log_ends_before_damage_and_keeps_what_lies_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With one replica nobody else has that: it stays in files of other names, byte for byte, and each is told."""
    disk = written(clean=False)
    before = disk.files()
    flip(disk, CLOSED, 1, FIELDS["value"])
    log = opened(disk, clean=False, recovery_point=0)
    assert (readable(log), log.log_end_offset) == (list(range(5)), 5)
    size = len(batch(0))
    kept = {name: disk.files()[f"{DIRECTORY}/{name}"] for name in disk.list_directory(DIRECTORY)}
    cut, stray = f"{CLOSED.rpartition('/')[2]}.from-{size}.damaged", f"{ACTIVE.rpartition('/')[2]}.stray"
    assert kept[cut][size:] == before[CLOSED][2 * size :]
    assert kept[stray] == before[ACTIVE]
    assert f"what was cut is kept as {DIRECTORY}/{cut}" in caplog.text
    assert f"it is kept as {DIRECTORY}/{stray} until an operator removes it" in caplog.text
    assert "log ends below its high watermark: log=logs/tide-0 log_end=5 high_watermark=12" in caplog.text


def test_checkpoints_that_all_have_a_huge_number_tell_of_no_end_that_is_lost() -> None:
    huge = 999_999_999_999_999
    log = Log.open(
        written(),
        DIRECTORY,
        CONFIG,
        0,
        recovery_point=huge,
        log_start_offset=huge,
        high_watermark=huge,
        clean_shutdown=True,
    )
    assert (log.log_end_offset, bool(log.damage)) == (END, False)
    assert readable(log) == list(range(END))

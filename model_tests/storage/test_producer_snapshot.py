"""Producer snapshots: Kafka's bytes, when they are written and removed, and the memory that comes back from them."""

from __future__ import annotations

import errno
import random
from contextlib import suppress
from typing import Any

import pytest

from tidegauge.impl.partition.producer_state import BatchMetadata, ProducerEntry, RepeatedBatchError
from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.ports.failing_disk import SYNCS, FailingDisk, Operation
from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk, SimulatedFile
from tidegauge.impl.records.batches import BatchHeader, headers
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch
from tidegauge.impl.storage import producer_snapshot
from tidegauge.impl.storage.config import NEVER, LogConfig
from tidegauge.impl.storage.damage import DAMAGE_NOTE
from tidegauge.impl.storage.errors import DamagedLogError, FailedLogError
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.producer_snapshot import decode_snapshot, encode_snapshot, snapshot_name, snapshot_offset
from tidegauge.impl.storage.segment_names import LOG_SUFFIX, file_name

DIRECTORY = "logs/tide-0"
CASTAGNOLI = 0x82F63B78


def crc32c_bit_by_bit(data: bytes) -> int:
    """CRC-32C by its definition (RFC 3720, appendix B.4)."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (CASTAGNOLI if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def kafkas_bytes(*producers: tuple[int, int, int, int, int, int, int, int]) -> bytes:
    """The file as Kafka's schema has it, field by field: version, crc, and an array of entries."""
    body = len(producers).to_bytes(4, "big")
    for producer in producers:
        for value, size in zip(producer, (8, 2, 4, 8, 4, 8, 4, 8), strict=True):
            body += value.to_bytes(size, "big", signed=True)
    return (1).to_bytes(2, "big") + crc32c_bit_by_bit(body).to_bytes(4, "big") + body


ENTRIES = (
    ProducerEntry(
        4000, 3, [BatchMetadata(7, 30, 2, 100), BatchMetadata(11, 41, 3, 1_700_000_000_123)], 1_700_000_000_123
    ),
    ProducerEntry(1, 0, [], 1_600_000_000_000, coordinator_epoch=5, current_txn_first_offset=17),
)


def test_the_bytes_are_kafkas() -> None:
    assert encode_snapshot(ENTRIES) == kafkas_bytes(
        (4000, 3, 11, 41, 3, 1_700_000_000_123, -1, -1),
        (1, 0, -1, -1, 0, 1_600_000_000_000, 5, 17),
    )
    assert encode_snapshot(()) == kafkas_bytes()


def test_a_file_gives_back_the_last_batch_of_each_producer() -> None:
    found = decode_snapshot(encode_snapshot(ENTRIES))
    assert found == [ProducerEntry(4000, 3, [ENTRIES[0].batches[-1]], 1_700_000_000_123), ENTRIES[1]]


@pytest.mark.parametrize("place", range(0, 98, 7))
def test_damage_anywhere_is_seen(place: int) -> None:
    content = bytearray(encode_snapshot(ENTRIES))
    content[place] ^= 0x10
    assert decode_snapshot(bytes(content)) is None


@pytest.mark.parametrize("content", [b"", b"\0\1", encode_snapshot(ENTRIES)[:-1], encode_snapshot(ENTRIES) + b"\0"])
def test_a_file_that_is_cut_short_or_too_long_is_damaged(content: bytes) -> None:
    assert decode_snapshot(content) is None


def test_an_entry_count_that_the_file_does_not_hold_is_damage_even_with_the_right_checksum() -> None:
    body = (7).to_bytes(4, "big")
    assert decode_snapshot(b"\0\1" + crc32c_bit_by_bit(body).to_bytes(4, "big") + body) is None


def test_files_are_named_by_twenty_digits() -> None:
    assert snapshot_name(42) == "00000000000000000042.snapshot"
    assert snapshot_offset("00000000000000000042.snapshot") == 42
    assert [snapshot_offset(name) for name in ("42.snapshot", "00000000000000000042.log", "x.snapshot")] == [None] * 3


# --- beside a log ----------------------------------------------------------------------------------------------------


class CrashingDisk(SimulatedDisk):
    """Crashes instead of its nth change of names or sync of them."""

    crash_at = 0
    changes = 0
    tails = names = CrashOutcome.LOST

    def count(self) -> None:
        self.changes += 1
        if self.changes == self.crash_at:
            self.crash(tails=self.tails, names=self.names)

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        self.count()
        return super().open(path, create=create)

    def rename(self, source: str, target: str) -> None:
        self.count()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.count()
        super().remove(path)

    def sync_directory(self, path: str) -> None:
        self.count()
        super().sync_directory(path)


def new_disk() -> SimulatedDisk:
    return SimulatedDisk(random.Random(0))


def batch(sequence: int, *, producer: int = 7, epoch: int = 0, timestamp: int = 1_000) -> bytes:
    return build_batch([Record(0, timestamp, None, b"v")], producer=ProducerIdentity(producer, epoch, sequence))


SIZE = len(batch(0))


def opened(disk: Disk, segment_batches: int = 3, **named: Any) -> Log:
    config = LogConfig(segment_bytes=segment_batches * SIZE, message_timestamp_after_max_ms=NEVER)
    return Log.open(disk, DIRECTORY, config, now_ms=0, **named)


def append(log: Log, *sequences: int, **named: Any) -> None:
    for sequence in sequences:
        log.append_as_leader(batch(sequence, **named), 0, 0, admit=log.producers.admit)


def snapshots(disk: SimulatedDisk) -> list[int]:
    return sorted(o for o in map(snapshot_offset, disk.list_directory(DIRECTORY)) if o is not None)


def memory(log: Log) -> dict[int, tuple[int, list[BatchMetadata]]]:
    return {producer: (entry.epoch, list(entry.batches)) for producer, entry in log.producers.entries.items()}


def replayed(log: Log) -> dict[int, tuple[int, list[BatchMetadata]]]:
    """Memory by reading all of the log, with nothing else."""
    found: dict[int, tuple[int, list[BatchMetadata]]] = {}
    for offset in log.segment_base_offsets:
        for _, header in headers(log.read(offset, 1 << 20)):
            epoch, batches = found.get(header.producer_id, (header.producer_epoch, []))
            known = [] if epoch != header.producer_epoch else batches
            metadata = BatchMetadata(header.base_sequence, header.last_offset, 0, header.max_timestamp)
            found[header.producer_id] = header.producer_epoch, [*known, metadata][-5:]
    return found


def test_one_is_written_where_a_segment_begins_and_one_when_the_log_is_closed() -> None:
    disk = new_disk()
    log = opened(disk)
    append(log, *range(7))
    assert log.segment_base_offsets == (0, 3, 6)
    assert snapshots(disk) == [3, 6]
    log.close()
    assert snapshots(disk) == [3, 6, 7]
    file = disk.open(f"{DIRECTORY}/{snapshot_name(6)}")
    assert bytes(file.read(0, file.size)) == kafkas_bytes((7, 0, 5, 5, 0, 1_000, -1, -1))
    assert opened(disk, clean_shutdown=True).producers.entries[7].last_sequence == 6


@pytest.mark.parametrize("producer", [7, -1], ids=["a producer", "none"])
def test_that_of_a_clean_stop_is_there_after_a_loss_of_power_though_nothing_else_was_to_be_flushed(
    producer: int,
) -> None:
    """An older one would come back, and say that the log went on."""
    disk = new_disk()
    log = opened(disk)
    append(log, *range(2), producer=producer)
    log.close()
    log = opened(disk, clean_shutdown=True, recovery_point=2)
    append(log, 2, producer=producer)
    log.truncate_to(1)
    assert not log.is_dirty
    log.close()
    disk.crash(tails=CrashOutcome.LOST, names=CrashOutcome.LOST)
    disk.power_on()
    assert snapshots(disk) == [1]
    assert opened(disk, clean_shutdown=True, recovery_point=1).log_end_offset == 1


def test_a_snapshot_holds_nothing_of_the_batch_that_began_its_segment() -> None:
    disk = new_disk()
    log = opened(disk)
    append(log, 0, 1, 2)
    append(log, 0, producer=8)
    file = disk.open(f"{DIRECTORY}/{snapshot_name(3)}")
    assert [entry.producer_id for entry in decode_snapshot(bytes(file.read(0, file.size))) or ()] == [7]


def test_a_followers_append_across_segments_leaves_the_leaders_snapshots() -> None:
    leader_disk, follower_disk = new_disk(), new_disk()
    leader, follower = opened(leader_disk), opened(follower_disk)
    append(leader, *range(8))
    follower.append_as_follower(b"".join(leader.read(offset, 1 << 20) for offset in leader.segment_base_offsets))
    assert snapshots(follower_disk) == snapshots(leader_disk) == [3, 6]
    assert memory(follower) == memory(leader)


@pytest.mark.parametrize("end", range(9))
def test_memory_after_a_cut_is_that_of_what_is_left(end: int) -> None:
    disk = new_disk()
    log = opened(disk)
    append(log, 0, 1, 2, 3, 4)
    append(log, 0, 1, producer=8)
    append(log, 0, epoch=1)
    log.truncate_to(end)
    assert memory(log) == replayed(log)
    assert all(offset <= end for offset in snapshots(disk))


FIELDS = {"producer id": 43, "producer epoch": 51, "base sequence": 53}
"""Where they stand in a batch."""


def rotten(field: str, *places: int) -> tuple[SimulatedDisk, Log]:
    """A log of seven batches that is open while the disk changes a field of some."""
    disk = new_disk()
    log = opened(disk)
    append(log, *range(7))
    for place in places:
        base_offset = place - place % 3
        disk.flip_bit(f"{DIRECTORY}/{file_name(base_offset, LOG_SUFFIX)}", place % 3 * SIZE + FIELDS[field], bit=3)
    return disk, log


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("place", range(5))
def test_memory_after_a_cut_has_nothing_of_what_the_disk_has_changed(field: str, place: int) -> None:
    """The damage is met, as by a read. What a snapshot says stays: it was written when the batch was intact."""
    disk, log = rotten(field, place)
    with pytest.raises(DamagedLogError):
        log.truncate_to(5)
    assert (log.log_end_offset, log.damage.start) == (5, place)
    assert disk.exists(f"{DIRECTORY}/{DAMAGE_NOTE}")
    epoch, batches = memory(log)[7]
    kept = sorted({*range(5)} - {place} | {2})  # the last one before segment 3
    assert (list(memory(log)), epoch, [known.last_sequence for known in batches]) == ([7], 0, kept)


@pytest.mark.parametrize("field", FIELDS)
def test_a_repair_goes_on_to_the_first_damage_and_remembers_what_lies_before(field: str) -> None:
    disk, log = rotten(field, 1, 4)
    log.distrust(4)
    with pytest.raises(DamagedLogError):
        log.read(4, 1)
    assert log.damage.start == 4, "nothing has looked at what is before"
    assert log.repair() == log.log_end_offset == 1
    assert memory(log) == replayed(log)
    assert (bool(log.damage), disk.exists(f"{DIRECTORY}/{DAMAGE_NOTE}")) == (False, False)
    append(log, *range(1, 4))
    assert log.log_end_offset == 4


def test_an_open_log_believes_no_header_that_is_not_intact() -> None:
    """After a clean stop of a log that is too large to be read, whose last snapshot is gone."""
    disk, log = rotten("producer id")
    log.close()
    for offset in (6, 7):
        disk.remove(f"{DIRECTORY}/{snapshot_name(offset)}")
    disk.flip_bit(f"{DIRECTORY}/{file_name(3, LOG_SUFFIX)}", SIZE + FIELDS["producer id"], bit=3)
    again = opened(disk, clean_shutdown=True)
    assert list(memory(again)) == [7]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize("end", [0, 2, 4])
def test_memory_after_a_cut_whose_flush_fails_is_that_of_what_is_left(end: int, error: int) -> None:
    """A repeat of a batch that is gone must not count as one: it would be acknowledged, and is nowhere."""
    disk = FailingDisk(new_disk())
    log = opened(disk)
    append(log, 0, 1, 2, 3, 4)
    append(log, 0, 1, producer=8)
    disk.fail(operations=SYNCS, error=error)
    with suppress(OSError):
        log.truncate_fully_and_start_at(0) if not end else log.truncate_to(end)
    assert log.log_end_offset == end
    assert memory(log) == replayed(log)


def cut_with_a_failure(end: int, failing: int, error: int) -> tuple[SimulatedDisk, Log, bool]:
    """A log that is cut while its disk refuses one operation, by its number; whether the cut has got so far."""
    inner = new_disk()
    disk = FailingDisk(inner)
    log = opened(disk)
    append(log, 0, 1, 2, 3, 4)
    append(log, 0, 1, producer=8)
    log.flush()
    done = 0

    def refuse(operation: Operation, path: str) -> None:
        nonlocal done
        done += 1
        if done == failing:
            raise OSError(error, operation.value, path)

    disk.watched_by(refuse)
    with suppress(OSError):
        log.truncate_fully_and_start_at(0) if not end else log.truncate_to(end)
    disk.watched_by(None)
    return inner, log, done >= failing


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize("end", [0, 2, 4, 6])
def test_a_cut_of_which_any_operation_fails_leaves_no_batch_in_memory_that_is_gone(end: int, error: int) -> None:
    """Where less is remembered than the log has, it takes nothing before it is opened again."""
    forgot, failing, is_reached = 0, 1, True
    while is_reached:
        disk, log, is_reached = cut_with_a_failure(end, failing, error)
        known = {batch.last_offset for _, batches in memory(log).values() for batch in batches}
        if log.has_failed:
            forgot += not known
            assert all(offset < log.log_end_offset for offset in known), failing
            with pytest.raises(FailedLogError):
                append(log, 0, producer=9)
        else:
            assert memory(log) == replayed(log), failing
            log.truncate_fully_and_start_at(0) if not end else log.truncate_to(end)
            append(log, *range(3 - end % 3), producer=9)  # up to where a snapshot was
            assert memory(log) == replayed(log), failing
        log.abandon()
        again = opened(disk)
        assert memory(again) == replayed(again), failing
        failing += 1
    assert failing > 8
    assert forgot or end < 3


@pytest.mark.parametrize("clean", [False, True])
def test_memory_after_a_restart_is_that_before_it(clean: bool) -> None:
    disk = new_disk()
    log = opened(disk)
    append(log, *range(8))
    before = memory(log)
    assert len(before[7][1]) == 5
    if clean:
        log.close()
    else:
        log.flush()
        disk.crash()
        disk.power_on()
    assert memory(opened(disk, clean_shutdown=clean, recovery_point=8)) == before


def test_a_repeat_of_a_batch_before_the_snapshots_one_is_known_after_a_restart() -> None:
    disk = new_disk()
    log = opened(disk, segment_batches=2)
    append(log, *range(8))
    log.close()
    again = opened(disk, segment_batches=2, clean_shutdown=True)
    with pytest.raises(RepeatedBatchError) as caught:
        append(again, 4)
    assert caught.value.base_offset == 4


@pytest.mark.parametrize(("look_back", "known"), [(producer_snapshot.LOOK_BACK, 5), (100, 1)])
def test_what_a_snapshot_leaves_out_is_looked_for_behind_others_records_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, look_back: int, known: int
) -> None:
    monkeypatch.setattr(producer_snapshot, "LOOK_BACK", look_back)
    disk = new_disk()
    log = opened(disk, segment_batches=150)
    append(log, *range(6))
    append(log, *range(400), producer=8)
    log.close()
    again = opened(disk, segment_batches=150, clean_shutdown=True)
    assert [m.last_offset for m in again.producers.entries[7].batches] == list(range(6))[-known:]
    assert len(again.producers.entries[8].batches) == 5


def test_headers_from_an_offset_are_those_of_the_batches_that_reach_there() -> None:
    log = opened(new_disk(), segment_batches=500)
    append(log, *range(300))
    (segment,) = log.segments
    for offset in (0, 1, 57, 58, 250, 299):
        assert [header.base_offset for header in segment.headers_from(offset)] == list(range(offset, 300))
    assert list(segment.headers_from(300)) == []


def test_a_damaged_snapshot_is_removed_and_the_log_read_instead() -> None:
    disk = new_disk()
    log = opened(disk)
    append(log, *range(7))
    log.close()
    for offset in (3, 6, 7):
        disk.flip_bit(f"{DIRECTORY}/{snapshot_name(offset)}", 20)
    again = opened(disk, clean_shutdown=True)
    assert memory(again) == replayed(again)
    assert snapshots(disk) == []


def test_without_snapshots_the_log_is_read() -> None:
    disk = new_disk()
    append(log := opened(disk), *range(7))
    log.close()
    for offset in snapshots(disk):
        disk.remove(f"{DIRECTORY}/{snapshot_name(offset)}")
    again = opened(disk, clean_shutdown=True)
    assert memory(again) == replayed(again)


@pytest.mark.parametrize("names", [CrashOutcome.LOST, CrashOutcome.SEEDED, CrashOutcome.KEPT])
@pytest.mark.parametrize("tails", [CrashOutcome.LOST, CrashOutcome.SEEDED, CrashOutcome.KEPT])
def test_a_crash_at_any_point_leaves_memory_of_what_is_in_the_log(tails: CrashOutcome, names: CrashOutcome) -> None:
    def run(disk: CrashingDisk) -> None:
        log = opened(disk, segment_batches=2)
        append(log, *range(5))
        log.flush()
        log.truncate_to(3)
        append(log, 0, 1, 2, epoch=1)
        log.close()

    disk = CrashingDisk(random.Random(0))
    run(disk)
    for crash_at in range(1, disk.changes + 1):
        disk = CrashingDisk(random.Random(crash_at))
        disk.tails, disk.names, disk.crash_at = tails, names, crash_at
        with pytest.raises(OSError, match="the disk is off"):
            run(disk)
        disk.power_on()
        log = opened(disk, segment_batches=2)
        assert memory(log) == replayed(log), f"after a crash at change {crash_at}"


def test_snapshots_go_with_their_segments() -> None:
    disk = new_disk()
    log = opened(disk)
    append(log, *range(10))
    assert snapshots(disk) == [3, 6, 9]
    log.delete_records_before(7)
    log.retention(now_ms=0)
    assert log.segment_base_offsets == (6, 9)
    assert snapshots(disk) == [6, 9]


def test_a_producer_is_known_after_retention_has_deleted_its_records_and_unknown_after_a_restart() -> None:
    """As at Kafka: memory goes on, but a snapshot at the log's start is not read again."""
    disk = new_disk()
    log = opened(disk)
    append(log, 0, 1, 2)
    append(log, 0, 1, 2, producer=8)
    log.delete_records_before(3)
    append(log, 3)
    append(log, 4)
    assert log.producers.entries[7].last_sequence == 4
    log.delete_records_before(8)
    log.flush()
    log.abandon()
    again = opened(disk, log_start_offset=8, recovery_point=8)
    assert memory(again) == {}
    append(again, 5)


def test_strays_of_an_earlier_life_are_removed() -> None:
    disk = new_disk()
    append(log := opened(disk), *range(4))
    log.close()
    stray = disk.open(f"{DIRECTORY}/{snapshot_name(2)}", create=True)
    stray.append(encode_snapshot(ENTRIES))
    later = disk.open(f"{DIRECTORY}/{snapshot_name(9)}", create=True)
    later.append(encode_snapshot(ENTRIES))
    again = opened(disk, clean_shutdown=True, recovery_point=4)
    assert snapshots(disk) == [3, 4]
    assert list(again.producers.entries) == [7]


def test_a_log_that_starts_anew_remembers_nobody() -> None:
    disk = new_disk()
    append(log := opened(disk), *range(4))
    log.truncate_fully_and_start_at(20)
    assert memory(log) == {}
    assert snapshots(disk) == []
    append(log, 9)
    assert log.producers.entries[7].batches[-1].last_offset == 20


def test_a_refused_batch_leaves_log_and_memory_as_they_were() -> None:
    log = opened(new_disk())
    append(log, 0)
    before = memory(log), log.log_end_offset, log.size

    def object_to(_: list[BatchHeader]) -> None:
        raise RepeatedBatchError(0, 1, 7)

    with pytest.raises(RepeatedBatchError):
        log.append_as_leader(batch(1), 0, 0, admit=object_to)  # type: ignore[arg-type]
    assert (memory(log), log.log_end_offset, log.size) == before

"""Compaction: what is kept, what goes and when; in one round or many, whatever the log holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.batches import (
    CHECKSUM_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    BatchHeader,
    CorruptRecordError,
    headers,
)
from tidegauge.impl.records.checksum import crc32c
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch, encode_record
from tidegauge.impl.storage.cleaner import CleanedLog, Round, Slices
from tidegauge.impl.storage.cleaner_batches import delete_horizon
from tidegauge.impl.storage.cleaner_choice import cleanable, dirtiest
from tidegauge.impl.storage.cleaner_filter import LastRecord
from tidegauge.impl.storage.config import NEVER, LogConfig
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.offset_map import OffsetMap
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.storage.compacted import SMALL_MAP, fill, newest, records_of

DIRECTORY = "logs/tide-0"
RETENTION_MS = 1_000
CONFIG = LogConfig(
    segment_bytes=500,
    index_interval_bytes=100,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=RETENTION_MS,
)


def opened(disk: SimulatedDisk, config: LogConfig = CONFIG) -> Log:
    return Log.open(disk, DIRECTORY, config, 0)


def new_log(config: LogConfig = CONFIG) -> tuple[SimulatedDisk, Log]:
    disk = SimulatedDisk(Random(0))
    return disk, opened(disk, config)


def work(
    disk: SimulatedDisk,
    log: Log,
    first_dirty: int = 0,
    now_ms: int = 5_000,
    memory: int = 1 << 16,
    last_records: Mapping[int, LastRecord] | None = None,
) -> Round:
    end = log.closed_segments[-1].next_offset if log.closed_segments else 0
    return Round(log, disk, OffsetMap(memory), first_dirty, end, now_ms, last_records or {})


def done(round_: Round) -> CleanedLog | None:
    """Run the round to its end."""
    return rest(round_.run())


def rest(slices: Slices) -> CleanedLog | None:
    """Run what is left of a round."""
    while True:
        try:
            next(slices)
        except StopIteration as stop:
            result: CleanedLog | None = stop.value
            return result


def cleaned(
    disk: SimulatedDisk, log: Log, first_dirty: int = 0, now_ms: int = 5_000, memory: int = 1 << 16
) -> CleanedLog:
    result = done(work(disk, log, first_dirty, now_ms, memory))
    assert result is not None
    return result


def put(log: Log, *records: tuple[bytes | None, bytes | None], now_ms: int = 1_000) -> None:
    """One batch."""
    batch = build_batch([Record(n, now_ms, key, value) for n, (key, value) in enumerate(records)])
    # A client's record without a key would be refused.
    log.append_as_leader(batch, 0, now_ms, origin=Origin.BROKER)


def close_segment(log: Log) -> None:
    log.roll(0)
    put(log, (b"active", b"-"))


def shown(records: Iterable[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records]


@settings(max_examples=amount(50, deep=150))
@given(seed=st.integers(0, 1 << 32), batches=st.integers(0, 60), memory=st.sampled_from([SMALL_MAP, 24 * 40, 1 << 16]))
def test_the_newest_value_of_each_key_survives_any_rounds(seed: int, batches: int, memory: int) -> None:
    rng = Random(seed)
    disk, log = new_log(LogConfig(segment_bytes=rng.choice((200, 500, 2000)), delete_retention_ms=RETENTION_MS))
    first_dirty, now_ms = 0, 2_000
    for _ in range(3):
        fill(log, rng, batches // 3, now_ms)
        before, start, end = records_of(log), log.log_start_offset, log.log_end_offset
        active = log.read(log.segment_base_offsets[-1], 1 << 20)
        result = cleaned(disk, log, first_dirty=first_dirty, now_ms=now_ms, memory=memory)
        after = records_of(log)
        assert newest(after) == newest(before)
        assert set(shown(after)) <= set(shown(before))
        assert [record.offset for record in after] == sorted({record.offset for record in after})
        assert (log.log_start_offset, log.log_end_offset) == (start, end)
        assert log.read(log.segment_base_offsets[-1], 1 << 20) == active
        clean = [record.key for record in after if record.offset < result.end_offset]
        assert len(clean) == len(set(clean)), "a key twice in the clean part"
        timestamps = {record.offset: record.timestamp for record in before}
        assert all(record.timestamp == timestamps[record.offset] for record in after)
        first_dirty, now_ms = result.end_offset, now_ms + rng.choice((0, RETENTION_MS // 2, RETENTION_MS + 1))
        if rng.random() < 0.5:
            log.close()
            disk.crash(tails=CrashOutcome.LOST, names=CrashOutcome.LOST)
            disk.power_on()
            log = opened(disk, log.config)
            assert shown(records_of(log)) == shown(after)
    assert not [name for name in disk.list_directory(DIRECTORY) if name.endswith((".cleaned", ".swap"))]


def test_offsets_and_order_stay_and_another_implementation_reads_the_result() -> None:
    disk, log = new_log()
    put(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    put(log, (b"b", b"2"))
    put(log, (b"a", b"2"), (b"d", b"1"))
    close_segment(log)
    cleaned(disk, log)
    expected = [(2, b"c", b"1"), (3, b"b", b"2"), (4, b"a", b"2"), (5, b"d", b"1"), (6, b"active", b"-")]
    assert shown(records_of(log)) == expected
    (first, *_) = [header for _, header in headers(log.read(0, 1 << 20))]
    assert (first.base_offset, first.last_offset_delta, first.records_count) == (0, 2, 1)
    log.close()
    found = []
    for name in disk.list_directory(DIRECTORY):
        if name.endswith(".log"):
            batches = MemoryRecords(disk.files()[f"{DIRECTORY}/{name}"])
            while batches.has_next():
                batch = batches.next_batch()
                assert batch.validate_crc()
                found += [(record.offset, record.key, record.value) for record in batch]
    assert found == expected


def test_reads_go_on_behind_a_gap_from_any_offset() -> None:
    disk, log = new_log()
    for number in range(30):
        put(log, (b"k", b"%d" % number))
    close_segment(log)
    cleaned(disk, log)
    kept = [record.offset for record in records_of(log)]
    assert kept == [29, 30]
    for offset in range(log.log_end_offset):
        assert [record.offset for record in records_of(log, offset)] == [each for each in kept if each >= offset]


def test_a_tombstone_stays_for_delete_retention_ms_after_the_cleaner_met_it() -> None:
    disk, log = new_log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), now_ms=1_500)
    close_segment(log)
    cleaned(disk, log, now_ms=5_000)
    assert shown(records_of(log))[:2] == [(1, b"b", b"1"), (2, b"a", None)]
    horizons = [delete_horizon(header) for _, header in headers(log.read(2, 1 << 20))]
    assert horizons[0] == 5_000 + RETENTION_MS
    assert records_of(log)[1].timestamp == 1_500
    cleaned(disk, log, now_ms=5_000 + RETENTION_MS - 1)
    assert (2, b"a", None) in shown(records_of(log))
    cleaned(disk, log, now_ms=5_000 + RETENTION_MS)
    assert shown(records_of(log)) == [(1, b"b", b"1"), (3, b"active", b"-")]


def test_the_time_of_a_tombstone_begins_when_the_values_that_it_is_for_go() -> None:
    disk, log = new_log(LogConfig(segment_bytes=4000, delete_retention_ms=RETENTION_MS))
    put(log, *[(b"key-%d" % n, b"v") for n in range(8)])
    put(log, (b"key-7", None))
    close_segment(log)
    first = cleaned(disk, log, memory=SMALL_MAP)
    assert first.end_offset <= 7
    assert [delete_horizon(header) for _, header in headers(log.read(8, 1 << 20))] == [None]
    cleaned(disk, log, first_dirty=first.end_offset, now_ms=9_000)
    assert next(delete_horizon(header) for _, header in headers(log.read(8, 1 << 20))) == 9_000 + RETENTION_MS


def odd_batch(*records: Record, base_timestamp: int = 0, max_timestamp: int = 0, key_length: bytes = b"\x02") -> bytes:
    """A batch of two records whose header and checksum are right, whatever the records say."""
    payload = b"".join(encode_record(record, 0, 0) for record in records).replace(b"\x02a", key_length + b"a", 1)
    header = BatchHeader.parse(build_batch([Record(offset, 0, b"k", b"v") for offset in range(2)]))
    header = header._replace(
        batch_length=HEADER_SIZE + len(payload) - LENGTH_OVERHEAD,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        crc=0,
    )
    checksum = crc32c(payload, crc32c(header.pack()[CHECKSUM_START:]))
    return header._replace(crc=checksum).pack() + payload


A, B = Record(0, 0, b"a", b"v"), Record(1, 0, b"b", b"w")
ODD = {
    "offset delta 5, where 1 to 1": odd_batch(A, B._replace(offset=5)),
    "offset delta 0, where 1 to 1": odd_batch(A, B._replace(offset=0)),
    f"offset delta {(1 << 63) - 1}": odd_batch(A, B._replace(offset=(1 << 63) - 1)),
    "a key of 5 bytes in a record of": odd_batch(A, B, key_length=b"\x0a"),
    f"timestamp is {(1 << 63) + 190}": odd_batch(A, B._replace(timestamp=200), base_timestamp=(1 << 63) - 10),
}
"""Record batches that a topic takes that is not compacted, by what is odd inside of them."""


@pytest.mark.parametrize("odd", ODD)
def test_a_record_that_was_taken_unseen_and_cannot_be_is_refused_with_words(odd: str) -> None:
    """There is no place in a header or in the map for some of them; the topic is compacted since it has taken them."""
    disk, log = new_log(LogConfig(segment_bytes=500, message_timestamp_after_max_ms=NEVER))
    log.append_as_leader(ODD[odd], 0, 0)
    close_segment(log)
    before = log.segments
    with pytest.raises(CorruptRecordError, match=rf"the batch of the offsets 0 to 1 holds .*{odd}"):
        cleaned(disk, log)
    assert log.segments == before
    assert not [name for name in disk.list_directory(DIRECTORY) if name.endswith(".cleaned")]


def test_records_without_a_key_go() -> None:
    disk, log = new_log()
    put(log, (None, b"nobody"), (b"a", b"1"))
    close_segment(log)
    assert cleaned(disk, log).counts.records_without_key == 1
    assert shown(records_of(log))[0] == (1, b"a", b"1")


def test_what_lies_beyond_the_map_is_left_for_the_next_round() -> None:
    disk, log = new_log(LogConfig(segment_bytes=4000))
    put(log, *[(b"key-%d" % n, b"v") for n in range(8)])
    put(log, (None, b"nobody"), (b"key-0", b"w"))
    close_segment(log)
    first = cleaned(disk, log, memory=SMALL_MAP)
    assert first.end_offset == 5
    assert (8, None, b"nobody") in shown(records_of(log))
    cleaned(disk, log, first_dirty=first.end_offset)
    assert (8, None, b"nobody") not in shown(records_of(log))


def test_a_map_that_is_too_small_for_a_batch_makes_progress_all_the_same() -> None:
    disk, log = new_log(LogConfig(segment_bytes=4000))
    put(log, *[(b"key-%d" % n, b"old") for n in range(30)])
    put(log, *[(b"key-%d" % n, b"new") for n in range(30)])
    close_segment(log)
    first_dirty = rounds = 0
    while first_dirty < 60:
        result = cleaned(disk, log, first_dirty=first_dirty, memory=SMALL_MAP)
        assert result.end_offset > first_dirty
        first_dirty, rounds = result.end_offset, rounds + 1
    assert rounds == 12
    assert [record.value for record in records_of(log)] == [b"new"] * 30 + [b"-"]


def test_no_batch_grows_over_another_so_that_followers_may_go_on_anywhere() -> None:
    disk, log = new_log()
    for number in range(30):
        put(log, (b"k", b"%d" % number), (b"k", b"again"))
    before = [header.base_offset for segment in log.closed_segments for header in segment.headers()]
    close_segment(log)
    cleaned(disk, log)
    after = [header for segment in log.closed_segments for header in segment.headers()]
    assert len(after) < len(before)
    assert {header.base_offset for header in after} <= {*before, 58}
    assert all(header.last_offset_delta == 1 for header in after)
    for segment, following in zip(log.closed_segments, log.segment_base_offsets[1:], strict=True):
        assert [header.next_offset for header in segment.headers()][-1] == following


def test_segments_are_joined_up_to_segment_bytes() -> None:
    disk, log = new_log()
    for number in range(60):
        put(log, (b"key-%d" % (number % 4), b"%d" % number))
    close_segment(log)
    before = len(log.closed_segments)
    for _ in range(3):
        cleaned(disk, log)
    assert before > 8
    assert len(log.closed_segments) == 1
    assert all(segment.size <= CONFIG.segment_bytes for segment in log.closed_segments)
    assert len(records_of(log)) == 5


def produced(producer_id: int, epoch: int, sequence: int, key: bytes, *, transactional: bool = False) -> bytes:
    identity = ProducerIdentity(producer_id, epoch, sequence)
    return build_batch([Record(0, 1_000, key, b"v")], producer=identity, transactional=transactional)


def test_the_batch_with_an_active_producers_last_sequence_stays_without_records() -> None:
    disk, log = new_log()
    log.append_as_leader(produced(7, 2, 5, b"a"), 0, 0)
    log.append_as_leader(produced(8, 0, 9, b"a"), 0, 0)
    put(log, (b"a", b"newest"))
    close_segment(log)
    assert done(work(disk, log, last_records={7: LastRecord(0, 2)})) is not None
    kept = [header for _, header in headers(log.read(0, 1 << 20))]
    assert (kept[0].producer_id, kept[0].producer_epoch, kept[0].base_sequence) == (7, 2, 5)
    assert (kept[0].records_count, kept[0].last_offset, kept[1].base_offset) == (0, 0, 2)
    assert done(work(disk, log)) is not None
    assert next(headers(log.read(0, 1 << 20)))[1].base_offset == 2


def marker(producer_id: int, kind: int, epoch: int = 0) -> bytes:
    key = (0).to_bytes(2, "big") + kind.to_bytes(2, "big")
    identity = ProducerIdentity(producer_id, epoch, -1)
    return build_batch([Record(0, 1_000, key, bytes(6))], producer=identity, transactional=True, control=True)


def markers(log: Log) -> list[int]:
    """Offsets of the control batches with a record."""
    found: list[BatchHeader] = []
    for segment in log.closed_segments:
        found += [header for header in segment.headers() if header.is_control and header.records_count]
    return [header.base_offset for header in found]


def test_a_marker_stays_while_its_transaction_has_records_and_then_for_its_time() -> None:
    disk, log = new_log()
    log.append_as_leader(produced(7, 0, 0, b"a", transactional=True), 0, 0)
    log.append_as_leader(marker(7, 1), 0, 0, origin=Origin.BROKER)
    close_segment(log)
    cleaned(disk, log, now_ms=5_000)
    cleaned(disk, log, now_ms=50_000)
    assert (markers(log), shown(records_of(log))[0]) == ([1], (0, b"a", b"v"))
    put(log, (b"a", b"newer"))
    close_segment(log)
    # Its last record goes in this round; in the next the marker is met alone, and gets its time.
    for now_ms in (60_000, 61_000, 61_000 + RETENTION_MS - 1):
        cleaned(disk, log, now_ms=now_ms)
        assert markers(log) == [1]
    cleaned(disk, log, now_ms=61_000 + RETENTION_MS)
    assert markers(log) == []


def test_a_log_that_changes_under_the_cleaner_is_left_alone() -> None:
    for steps in range(1, 12):
        disk, log = new_log()
        fill(log, Random(steps), 40)
        slices = work(disk, log).run()
        for _ in range(steps):
            next(slices)
        log.truncate_to(log.segment_base_offsets[1] + 1)
        expected = shown(records_of(log))
        assert rest(slices) is None
        assert shown(records_of(log)) == expected
        assert not [name for name in disk.list_directory(DIRECTORY) if name.endswith((".cleaned", ".swap"))]


def test_a_damaged_batch_is_not_made_good() -> None:
    disk, log = new_log()
    fill(log, Random(3), 40)
    log.flush()
    disk.flip_bit(log.closed_segments[1].path(".log"), 80, bit=2)
    before = disk.files()
    with pytest.raises(CorruptLogError):
        done(work(disk, log))
    assert disk.files() == before


@pytest.mark.parametrize("which", ["first", "second", "last"])
@pytest.mark.parametrize("byte", range(8))
def test_a_batch_whose_base_offset_has_changed_is_not_made_good(which: str, byte: int) -> None:
    disk, log = new_log()
    fill(log, Random(3), 40)
    log.flush()
    segment = log.closed_segments[0]
    sizes = [header.size for header in segment.headers()]
    position = {"first": 0, "second": sizes[0], "last": segment.size - sizes[-1]}[which]
    disk.flip_bit(segment.path(".log"), position + byte, bit=0)
    before = disk.files()
    with pytest.raises(CorruptLogError):
        done(work(disk, log))
    assert disk.files() == before


def test_the_slices_are_small() -> None:
    disk, log = new_log(LogConfig(segment_bytes=1 << 20))
    for number in range(40):
        put(log, *[(b"key-%d" % n, bytes(100)) for n in range(200)], now_ms=number)
    close_segment(log)
    sizes = list(work(disk, log).run())
    assert len(sizes) >= 80
    assert max(sizes) <= 200 * 120 + (64 << 10)
    assert sum(sizes) > 2 * sum(segment.size for segment in log.closed_segments)


def test_the_dirtiest_log_is_cleaned_first_and_only_if_it_is_dirty_enough() -> None:
    candidates = []
    for number, batches in enumerate((4, 40, 16)):
        disk = SimulatedDisk(Random(number))
        log = opened(disk, LogConfig(segment_bytes=300, cleanup_policy=frozenset({"compact"})))
        fill(log, Random(number), batches)
        candidates.append(cleanable(log, log.closed_segments[0].next_offset, log.log_end_offset, 0))
    chosen = dirtiest(candidates)
    assert chosen is candidates[1]
    assert chosen.cleanable_ratio == max(one.cleanable_ratio for one in candidates) > 0.5
    clean = [cleanable(one.log, one.log.closed_segments[-1].next_offset, 10_000, 0) for one in candidates]
    assert [one.cleanable_ratio for one in clean] == [0, 0, 0]
    assert dirtiest(clean) is None


def test_what_is_uncommitted_too_young_or_active_is_not_cleanable() -> None:
    _, log = new_log(LogConfig(segment_bytes=200, min_compaction_lag_ms=100))
    for number in range(20):
        put(log, (b"k", b"v" * 50), now_ms=1_000 + 10 * number)
    closed = log.closed_segments
    assert cleanable(log, None, 10_000, 10_000).first_uncleanable_offset == closed[-1].next_offset
    uncommitted = closed[3].next_offset - 1
    assert cleanable(log, None, uncommitted, 10_000).first_uncleanable_offset == closed[3].base_offset
    young = cleanable(log, None, 10_000, closed[4].max_timestamp + 99)
    assert young.first_uncleanable_offset == closed[4].base_offset
    assert cleanable(log, log.log_end_offset + 5, 10_000, 10_000).first_dirty_offset == log.log_start_offset


def test_a_log_is_due_when_a_dirty_record_is_older_than_max_compaction_lag_ms() -> None:
    _, log = new_log(LogConfig(segment_bytes=200, max_compaction_lag_ms=500, min_cleanable_dirty_ratio=1.0))
    for number in range(6):
        put(log, (b"k", b"v" * 50), now_ms=1_000 + number)
    assert not cleanable(log, None, 10_000, 1_500).is_due
    assert cleanable(log, None, 10_000, 1_501).is_due
    assert not cleanable(log, log.closed_segments[-1].next_offset, 10_000, 9_999).is_due

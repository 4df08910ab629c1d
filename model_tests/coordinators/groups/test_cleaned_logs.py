"""A coordinator that loads what the log cleaner has left knows what the one has kept that was told of every entry."""

from __future__ import annotations

from random import Random

from tidegauge.impl.coordinators.groups.log_entries import LogEntry, log_entries
from tidegauge.impl.coordinators.groups.offsets import GroupOffsets
from tidegauge.impl.coordinators.groups.record_formats import OffsetKey, OffsetValue, offset_record
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.batches import checked_headers
from tidegauge.impl.records.markers import TransactionMarker, build_marker, marker_record
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.records.payload import NO_PRODUCER, ProducerIdentity, Record, build_batch, decode_records
from tidegauge.impl.storage.cleaner import Round, Slices
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.model_tests.storage.compacted import offset_map

KEYS = tuple(OffsetKey(group, topic, 0) for group in "gh" for topic in "tu")
NO_PRODUCER_WRITES = -1
PRODUCERS = (NO_PRODUCER_WRITES, 7, 8)


def entries(log: Log, start: int) -> list[LogEntry]:
    """What a log says from an offset on."""
    found: list[LogEntry] = []
    while start < log.log_end_offset:
        data = log.read(start, 1 << 20)
        position = 0
        for header in checked_headers(data):
            marker = marker_record(data, position) if header.is_control else None
            found += log_entries(header, () if header.is_control else decode_records(data, position), marker)
            position += header.size
            start = header.next_offset
    return found


def batch(rng: Random, offset: int, opened: set[int]) -> bytes:
    """What a coordinator may append next."""
    if opened and rng.random() < 0.35:
        producer = rng.choice(sorted(opened))
        opened.remove(producer)
        return build_marker(TransactionMarker(producer, 0, rng.random() < 0.6, 0), 1)
    key, producer = rng.choice(KEYS), rng.choice(PRODUCERS)
    if producer == NO_PRODUCER_WRITES:
        value = None if rng.random() < 0.2 else OffsetValue(offset)
        return build_batch([Record(0, 1, *offset_record(key, value))])
    opened.add(producer)
    records = [Record(0, 1, *offset_record(key, OffsetValue(offset)))]
    identity = ProducerIdentity(producer, 0) if producer >= 0 else NO_PRODUCER
    return build_batch(records, producer=identity, transactional=True)


def test_what_is_loaded_from_a_cleaned_log_is_what_was_kept() -> None:
    cleaned = pending = 0
    for seed in range(25):
        rng = Random(seed)
        disk = SimulatedDisk(rng)
        log = Log.open(disk, "logs/__consumer_offsets-0", LogConfig(delete_retention_ms=0), 0)
        kept, opened, clean = GroupOffsets(), set[int](), 0
        for now in range(30):
            end = log.log_end_offset
            log.append_as_leader(batch(rng, end, opened), 0, now, origin=Origin.BROKER)
            kept.replay(entries(log, end))
            if rng.random() < 0.3:
                log.roll(now)
            if rng.random() < 0.2 and log.closed_segments:
                undecided = log.producers.transactions.first_undecided_offset(log.log_end_offset)
                stable = log.log_end_offset if undecided is None else undecided
                before = len(entries(log, 0))
                slices = Round(log, disk, offset_map(), clean, stable, 1_000 + now).run()
                clean = max(clean, run(slices))
                cleaned += len(entries(log, 0)) < before
            loaded = GroupOffsets()
            loaded.replay(entries(log, 0))
            assert said(loaded) == said(kept), f"seed {seed}, after {now} appends"
            pending += bool(kept.pending)
    assert cleaned > 30, "rounds that take something away"
    assert pending > 200, "loads beside an open transaction"


def said(offsets: GroupOffsets) -> tuple[object, ...]:
    """All that a store says: what counts, what waits, and of which groups."""
    return {key: offsets.get(key) for key in offsets.every_key()}, offsets.pending, offsets.groups


def run(slices: Slices) -> int:
    """A whole round of the cleaner: up to where the log is clean."""
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return 0 if done.value is None else int(done.value.end_offset)

"""What compaction must have kept, found without it: every record of a log, and the newest value of each key."""

from __future__ import annotations

from random import Random

from tidegauge.impl.records.batches import Compression, checked_headers
from tidegauge.impl.records.payload import Record, build_batch, decode_records
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.offset_map import OffsetMap

KEYS = tuple(b"key-%d" % n for n in range(7))
SMALL_MAP = 24 * 6
"""Memory of a map with room for five keys."""


def records_of(log: Log, offset: int | None = None) -> list[Record]:
    """Every record from an offset on (None: the log's start), read the way a consumer does, from batch to batch."""
    found: list[Record] = []
    offset = log.log_start_offset if offset is None else offset
    while offset < log.log_end_offset:
        data = log.read(offset, 200)
        assert data, f"nothing from {offset} on, and the log ends at {log.log_end_offset}"
        for header in checked_headers(data):
            assert header.last_offset >= offset, "a batch before the one asked for"
        position = 0
        for header in checked_headers(data):
            found += [record for record in decode_records(data, position) if record.offset >= offset]
            position += header.size
            offset = header.next_offset
    return found


def newest(records: list[Record]) -> dict[bytes, bytes]:
    """The state that the records describe: each key's newest value; a tombstone takes the key away."""
    state: dict[bytes, bytes] = {}
    for record in records:
        if record.key is not None:
            state.pop(record.key, None)
            if record.value is not None:
                state[record.key] = record.value
    return state


def fill(log: Log, rng: Random, batches: int, now_ms: int = 1_000, *, tombstones: float = 0.2) -> None:
    """Batches of random records with few keys, in all compressions, in one leader epoch or another."""
    epoch = max(0, log.latest_epoch)
    for _ in range(batches):
        epoch += rng.random() < 0.1
        records = [
            Record(
                offset,
                now_ms + offset,
                rng.choice(KEYS),
                None if rng.random() < tombstones else b"%d" % rng.randrange(1 << 30),
            )
            for offset in range(rng.choice((1, 1, 2, 5)))
        ]
        log.append_as_leader(build_batch(records, compression=rng.choice(tuple(Compression))), epoch, now_ms)


def offset_map() -> OffsetMap:
    return OffsetMap(SMALL_MAP)

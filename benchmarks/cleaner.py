"""Compaction: bytes a second, what an offset map's entry costs, and for how long the event loop is held.

python -m benchmarks.cleaner [--records N]
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.options import parser
from tidegauge.impl.ports.disk import RealDisk
from tidegauge.impl.records.batches import Compression
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.server.broker.log_cleaner import BYTES_A_TURN, PIECES_A_TURN
from tidegauge.impl.storage.cleaner import CleanedLog, Round
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.offset_map import SLOT_SIZE, OffsetMap

BATCH = 100


def filled(directory: Path, records: int, keys: int, size: int, compression: Compression) -> Log:
    """A log of records with so many different keys, in segments of 4 MiB."""
    log = Log.open(RealDisk(), str(directory), LogConfig(segment_bytes=4 << 20), 0)
    for first in range(0, records, BATCH):
        batch = [Record(n, n, b"key-%09d" % ((first + n) * 7919 % keys), bytes(size)) for n in range(BATCH)]
        log.append_as_leader(build_batch(batch, compression=compression), 0, 0)
    log.roll(0)
    return log


def turns(slices: Iterator[int]) -> tuple[list[float], CleanedLog]:
    """Seconds of each turn that the round takes, as a broker's cleaner cuts it."""
    seconds: list[float] = []
    pieces = size = 0
    began = time.perf_counter()
    while True:
        try:
            size += next(slices)
        except StopIteration as done:
            seconds.append(time.perf_counter() - began)
            return seconds, done.value
        pieces += 1
        if pieces >= PIECES_A_TURN or size >= BYTES_A_TURN:
            seconds.append(time.perf_counter() - began)
            pieces = size = 0
            began = time.perf_counter()


def round_over(records: int, keys: int, size: int, compression: Compression) -> tuple[float, list[float], CleanedLog]:
    """CPU seconds, turns and outcome of one round over a log that is all dirty."""
    with tempfile.TemporaryDirectory(prefix="cleaner-") as root:
        log = filled(Path(root) / "t-0", records, keys, size, compression)
        offsets = OffsetMap(2 * SLOT_SIZE * keys)
        end = log.closed_segments[-1].next_offset
        began = time.process_time()
        seconds, done = turns(Round(log, RealDisk(), offsets, 0, end, 0).run())
        spent = time.process_time() - began
        log.abandon()
        return spent, seconds, done


def offset_map(entries: int) -> float:
    """Seconds for one put and one look-up of each key."""
    offsets = OffsetMap(int(SLOT_SIZE * entries / 0.85))
    keys = [b"key-%d" % n for n in range(entries)]
    began = time.process_time()
    for offset, key in enumerate(keys):
        offsets.put(key, offset)
    for key in keys:
        offsets.get(key)
    return time.process_time() - began


def main(words: Sequence[str] | None = None) -> None:
    options = parser("cleaner", __doc__)
    options.add_argument("--records", type=int, default=100_000, help="of each key, ten times as many in all")
    records = options.parse_args(words).records
    per_entry = offset_map(records) / records
    print(f"offset map, 85 % full: {per_entry * 1e6:.1f} µs for a put and a look-up, {SLOT_SIZE} bytes a key")
    print(f"\n{'log':<32}{'MB/s':>8}{'k records/s':>13}{'kept':>8}{'turn p50':>11}{'p99':>9}{'longest':>10}")
    for size in (100, 1024):
        for compression in (Compression.NONE, Compression.LZ4):
            spent, seconds, done = round_over(records, records // 10, size, compression)
            counts = done.counts
            seconds.sort()
            name = f"{size} B, {compression.name.lower()}, 10 × each key"
            print(
                f"{name:<32}{counts.bytes_read / spent / 1e6:>8.1f}{counts.records_read / spent / 1e3:>13.0f}"
                f"{counts.records_kept / counts.records_read:>8.0%}{seconds[len(seconds) // 2] * 1e3:>8.1f} ms"
                f"{seconds[int(len(seconds) * 0.99)] * 1e3:>6.1f} ms{seconds[-1] * 1e3:>7.1f} ms"
            )


if __name__ == "__main__":
    main()

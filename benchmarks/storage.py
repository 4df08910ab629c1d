"""How fast a log appends and reads on the real disk, beside a bare file with the same bytes in the same run.

`python -m benchmarks.storage [DIRECTORY]` prints a table. Large batches hold a thousand records of 1 KiB, small ones
one of 100 bytes. Nothing is synced, neither by the log nor by the bare file. Each figure is the best of several
rounds.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

from benchmarks.options import parser
from tidegauge.impl.ports.disk import RealDisk
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log

ROUNDS = 3
LARGE_VALUE_BYTES = 1024
LARGE_RECORDS = 1000
LARGE_APPENDS = 200
SMALL_VALUE_BYTES = 100
SMALL_APPENDS = 30_000
READ_BYTES = 1 << 20


def best(round_of: Callable[[], float]) -> float:
    """Seconds of the fastest round."""
    return min(round_of() for _ in range(ROUNDS))


def timed(work: Iterator[object]) -> float:
    """Seconds to exhaust an iterator."""
    start = time.perf_counter()
    for _ in work:
        pass
    return time.perf_counter() - start


def fresh_log(directory: str) -> Log:
    path = os.path.join(directory, "bench-0")
    shutil.rmtree(path, ignore_errors=True)
    return Log.open(RealDisk(), path, LogConfig(max_message_bytes=2 << 20), now_ms=0)


def append_to_log(directory: str, batch: bytes, count: int) -> float:
    log = fresh_log(directory)
    seconds = timed(log.append_as_leader(batch, 0, 1000) for _ in range(count))
    log.abandon()
    return seconds


def append_to_file(directory: str, batch: bytes, count: int) -> float:
    descriptor = os.open(os.path.join(directory, "bare"), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    seconds = timed(os.pwrite(descriptor, batch, n * len(batch)) for n in range(count))
    os.close(descriptor)
    return seconds


def read_log(log: Log) -> Iterator[int]:
    """Offsets at which a consumer fetches that follows the log with fetches of 1 MiB."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, READ_BYTES)
        # A consumer knows where it is from the last batch; here all batches have the same size.
        size = int.from_bytes(data[8:12], "big") + 12
        position = len(data) - size
        offset = int.from_bytes(data[position : position + 8], "big")
        offset += int.from_bytes(data[position + 23 : position + 27], "big") + 1
        yield offset


def read_file(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    position = 0
    while data := os.pread(descriptor, READ_BYTES, position):
        position += len(data)
        yield position
    os.close(descriptor)


def row(name: str, count: int, size: int, seconds: float, bare_seconds: float) -> str:
    return (
        f"{name:<38}{count * size / seconds / 1e6:>9.0f}{seconds / count * 1e6:>11.2f}"
        f"{bare_seconds / count * 1e6:>14.2f}{seconds / bare_seconds:>9.2f}"
    )


def measure(directory: str) -> Iterator[str]:
    """The table's rows, each when it is known."""
    large = build_batch([Record(n, n, None, os.urandom(LARGE_VALUE_BYTES)) for n in range(LARGE_RECORDS)])
    small = build_batch([Record(0, 0, None, bytes(SMALL_VALUE_BYTES))])
    yield from measure_batches(directory, "large", large, LARGE_APPENDS)
    yield from measure_batches(directory, "small", small, SMALL_APPENDS)


def measure_batches(directory: str, kind: str, batch: bytes, count: int) -> Iterator[str]:
    """Appending a batch so many times, then reading all and at random."""
    size = len(batch)
    ours = best(lambda: append_to_log(directory, batch, count))
    bare = best(lambda: append_to_file(directory, batch, count))
    yield row(f"append, {kind} batches", count, size, ours, bare)
    log = fresh_log(directory)
    for _ in range(count):
        log.append_as_leader(batch, 0, 1000)
    path = os.path.join(directory, "bench-0", f"{0:020d}.log")
    fetches = sum(1 for _ in read_log(log))
    ours = best(lambda: timed(read_log(log)))
    bare = best(lambda: timed(read_file(path)))
    yield row(f"read, 1 MiB of {kind} batches", fetches, log.size // fetches, ours, bare)
    records = log.log_end_offset // count
    ours = best(lambda: timed(log.read(n * 7919 % count * records, size) for n in range(count)))
    bare = best(lambda: read_at_random(path, size, count))
    yield row(f"read, one of {kind} batches at random", count, size, ours, bare)
    log.abandon()


def read_at_random(path: str, size: int, count: int) -> float:
    descriptor = os.open(path, os.O_RDONLY)
    seconds = timed(os.pread(descriptor, size, n * 7919 % count * size) for n in range(count))
    os.close(descriptor)
    return seconds


def main(words: Sequence[str] | None = None) -> None:
    options = parser("storage", __doc__)
    options.add_argument("directory", metavar="DIRECTORY", nargs="?", help="on the disk that is measured")
    directory = tempfile.mkdtemp(dir=options.parse_args(words).directory)
    try:
        print(f"{'':<38}{'MB/s':>9}{'µs each':>11}{'bare file µs':>14}{'ratio':>9}")
        for line in measure(directory):
            print(line, flush=True)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()

"""What a leader's look at a producer's batch costs: `python -m benchmarks.validation`.

Each row is one shape of batch. *checksum* is header and CRC-32C alone, *validated* all that the leader does before the
append, *decoded* making an object of every record, which Kafka's iteration over all records amounts to. For compressed
batches *checksum* has the decompression in it. Microseconds a batch, the best of several rounds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from benchmarks.options import parser
from tidegauge.impl.records.batches import HEADER_SIZE, Compression, checked_header
from tidegauge.impl.records.compression import decompress
from tidegauge.impl.records.payload import Record, build_batch, decode_records
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.validation import validated

ROUNDS = 5
SECONDS = 0.05
SHAPES = (
    ("16 KiB of 100 B", 150, 100, 0),
    ("1 MB of 100 B", 9_000, 100, 0),
    ("1 MB of 60 to 140 B", 9_000, 60, 80),
    ("1 MB of 1 KiB", 960, 1024, 0),
)
PLAIN = LogConfig(max_message_bytes=2 << 20)
COMPACTED = LogConfig(max_message_bytes=2 << 20, cleanup_policy=frozenset({"compact"}))


def best(work: Callable[[], object]) -> float:
    """Microseconds of the fastest round."""
    fastest = float("inf")
    for _ in range(ROUNDS):
        count, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < SECONDS:
            work()
            count += 1
        fastest = min(fastest, elapsed / count)
    return fastest * 1e6


def built(count: int, size: int, spread: int, compression: Compression) -> bytes:
    rng = random.Random(1)
    records = [
        Record(n, 1_000 + n // 10, b"key %d" % n, rng.randbytes(20) * ((size + rng.randint(0, spread)) // 20))
        for n in range(count)
    ]
    return build_batch(records, compression=compression)


def row(name: str, batch: bytes, config: LogConfig) -> None:
    header = checked_header(batch)

    def read() -> None:
        checked_header(batch)
        if header.compression is not Compression.NONE:
            decompress(header.compression, memoryview(batch)[HEADER_SIZE:])

    checksum, whole = best(read), best(lambda: validated(batch, config, 10_000))
    decoded = best(lambda: decode_records(batch))
    print(f"{name:44} {checksum:10.1f} {whole:10.1f} {decoded:10.1f} {decoded / whole:16.1f} x")


def main(words: Sequence[str] | None = None) -> None:
    parser("validation", __doc__).parse_args(words)
    print(f"{'':44} {'checksum':>10} {'validated':>10} {'decoded':>10} {'decoded/validated':>18}")
    for name, count, size, spread in SHAPES:
        row(name, built(count, size, spread, Compression.NONE), PLAIN)
    name, count, size, spread = SHAPES[1]
    row(f"{name}, compacted topic", built(count, size, spread, Compression.NONE), COMPACTED)
    for codec in list(Compression)[1:]:
        row(f"{name}, {codec.name.lower()}", built(count, size, spread, codec), PLAIN)


if __name__ == "__main__":
    main()

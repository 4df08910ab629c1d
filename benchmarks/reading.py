"""Memory of a broker while a consumer reads a large partition.

`python -m benchmarks.reading [--quick]` fills one partition with 1 GiB (64 MiB with --quick) and reads it from start to
end with confluent-kafka, from a broker in a process of its own. What counts is the resident memory of that process:
when it begins to be read, and at most while it is. Both should be about the same, however large the partition is.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from rich.console import Console
from rich.table import Table

from benchmarks.broker import MEMORY, TOPIC, cluster, cpu_seconds, produce
from benchmarks.options import parser

RECORD = 16 << 10


def resident_mib(process_id: int, field: str) -> float:
    """VmRSS (now) or VmHWM (at most, since `forget_peak`) of a process."""
    for line in Path(f"/proc/{process_id}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise ValueError(f"{field} is not told of process {process_id}")


def forget_peak(process_id: int) -> None:
    """Begin to measure VmHWM anew."""
    Path(f"/proc/{process_id}/clear_refs").write_text("5", encoding="ascii")


def consume_all(bootstrap: str, records: int) -> float:
    """MB/s of values."""
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    client.assign([TopicPartition(TOPIC, 0, 0)])
    read, begun = 0, time.perf_counter()
    while read < records:
        read += len(client.consume(min(1_000, records - read), 10))
    seconds = time.perf_counter() - begun
    client.close()
    return read * RECORD / seconds / 1e6


def main(words: Sequence[str] | None = None) -> None:
    options = parser("reading", __doc__, quick="64 MiB in place of 1 GiB").parse_args(words)
    size = (64 if options.quick else 1024) << 20
    data = MEMORY if os.path.isdir(MEMORY) else tempfile.gettempdir()
    with cluster("ours", 1, data) as (bootstrap, process_id):
        written = produce(bootstrap, RECORD, size // RECORD)
        forget_peak(process_id)
        before, cpu = resident_mib(process_id, "VmRSS"), cpu_seconds(process_id)
        read = consume_all(bootstrap, size // RECORD)
        peak, cpu = resident_mib(process_id, "VmHWM"), cpu_seconds(process_id) - cpu
    table = Table(title=f"one partition of {size >> 20} MiB, read from start to end")
    for heading in ("written MB/s", "read MB/s", "broker CPU s", "MiB before", "MiB at most", "×"):
        table.add_column(heading, justify="right")
    table.add_row(f"{written:.0f}", f"{read:.0f}", f"{cpu:.2f}", f"{before:.0f}", f"{peak:.0f}", f"{peak / before:.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()

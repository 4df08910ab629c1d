"""What a log keeps in memory: a broker has thousands."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from tidegauge.impl.ports.disk import RealDisk
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log

LOGS = 20
ROUNDS = 3
"""What other threads of the process allocate meanwhile counts too: the least of so many rounds is the logs' own."""
MOST_BYTES = 3_600
"""Of a log with one record; `benchmarks.logs --memory` says what a partition takes with all that is around its log."""


def kept(opened: list[Log]) -> float:
    """Bytes of each of these logs, which were opened since `tracemalloc` was started."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] / len(opened)


def test_a_log_that_is_made_or_opened_again_keeps_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # paths are short, wherever the test runs
    disk, config = RealDisk(), LogConfig()
    sizes: dict[str, list[float]] = {"made": [], "opened again": []}
    batch = build_batch([Record(0, 1_000, None, bytes(100))])

    def opened(count: int, *, begins: int = 0) -> list[Log]:
        directories = [f"log-{number}" for number in range(begins, begins + count)]
        return [
            Log.open(disk, directory, config, 2_000, recovery_point=1, high_watermark=1, clean_shutdown=True)
            if Path(directory).exists()
            else Log.open(disk, directory, config, 2_000)
            for directory in directories
        ]

    for log in opened(2, begins=LOGS):  # what the first ones make for all is there now
        log.append_as_leader(batch, 0, 2_000)
        log.close()
    for log in opened(2, begins=LOGS):
        log.close()
    for round_ in range(ROUNDS):
        for how in ("made", "opened again"):
            tracemalloc.start()
            try:
                logs = opened(LOGS, begins=(1 + round_) * (LOGS + 2))
                for log in logs:
                    if not log.log_end_offset:
                        log.append_as_leader(batch, 0, 2_000)
                sizes[how].append(kept(logs))
            finally:
                tracemalloc.stop()
            for log in logs:
                log.close()
    for how, found in sizes.items():
        assert min(found) <= MOST_BYTES, f"{min(found):.0f} bytes a log that is {how}"

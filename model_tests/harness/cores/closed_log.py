"""What is known of a log before it is opened, beside what the specification says of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.log_directory import CLEAN_SHUTDOWN
from tidegauge.impl.storage.surviving_logs import survivors
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.recovery.state import State

LOG: Final = ("tide", 0)
OTHER: Final = ("ebb", 1)
"""A log in another directory, of which nothing is written down."""


def found_otherwise(
    disk: Disk, root: str, other: str, machine: Recovery, expected: State, start: int, high_watermark: int
) -> Iterator[Change]:
    """What is known otherwise of a closed log: its end, its start, its high watermark, its last stop.

    `start` and `high_watermark` are what is written down of it in its directory, `root`.
    """
    files = {
        checkpoints.LOG_START_OFFSET_CHECKPOINT: start,
        checkpoints.HIGH_WATERMARK_CHECKPOINT: high_watermark,
    }
    for name, offset in files.items():
        checkpoints.write_atomically(disk, root, name, checkpoints.encode_offsets({LOG: offset}))
    for directory, epoch in ((root, 7), (other, 7 + expected.crashes % 2)):
        text = json.dumps({"version": 0, "brokerEpoch": epoch}) if expected.is_clean else ""
        checkpoints.write_atomically(disk, directory, CLEAN_SHUTDOWN, text)
    found = survivors(disk, [root, other])
    first = min((segment.base for segment in expected.segments), default=0)
    noted = 7 if expected.is_clean and not expected.crashes % 2 else -1
    for what, wanted, known in (
        ("start", max(expected.start, first), found.starts.get(LOG, 0)),
        ("high watermark", expected.high_watermark, found.high_watermarks.get(LOG, 0)),
        ("epoch of a clean stop", noted, found.noted),
        ("other logs", {OTHER: 0}, {log: end for log, end in found.ends.items() if log != LOG}),
    ):
        if wanted != known:
            yield Change(f"{what} of a closed log", wanted, known)
    if not expected.damages and not expected.left_out:
        end = machine.opened(expected, reads_all=False).end
        if found.ends.get(LOG, 0) != end:
            yield Change("end of a closed log", end, found.ends.get(LOG, 0))

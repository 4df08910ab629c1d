"""Checkpoints of a log directory that are lost: a directory without logs is given all of them.

What a lost one leaves unknown is told when the directory is opened, and so is a stop that was not clean: a log may end
or start elsewhere then, and of some nothing beside tells it (`docs/durability.md`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.storage import checkpoints

LOGGER: Final = logging.getLogger(__name__)

UNKNOWN: Final[Mapping[str, str]] = {
    checkpoints.HIGH_WATERMARK_CHECKPOINT: "its partitions count as if nothing was committed until their leaders "
    "say so",
    checkpoints.RECOVERY_POINT_CHECKPOINT: "its logs end where they can be read, unless other files know of a lost "
    "end; its broker registers as one that has crashed",
    checkpoints.LOG_START_OFFSET_CHECKPOINT: "its logs start with their first segments; records of these that were "
    "deleted by DeleteRecords are there again",
}
"""What follows when a file is lost."""


def settle_absent(disk: Disk, path: str, *, was_clean: bool, has_logs: bool) -> None:
    """Give a directory without logs its checkpoints; of one with logs tell which are absent, and of an unclean stop.

    Raises OSError.
    """
    absent = [name for name in UNKNOWN if not disk.exists(f"{path}/{name}")]
    for name in absent:
        if has_logs:
            log_event(LOGGER, logging.WARNING, "checkpoint missing", file=f"{path}/{name}", next=UNKNOWN[name])
        else:
            checkpoints.write_atomically(disk, path, name, checkpoints.encode_offsets({}))
    if has_logs and not was_clean:
        log_event(
            LOGGER,
            logging.WARNING,
            "directory was not closed",
            directory=path,
            why="the last process did not stop cleanly, or its note of that is lost",
            next="its logs are recovered; what was not flushed may be gone, and is fetched from the leaders",
        )

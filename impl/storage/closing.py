"""A clean stop of all logs of one directory.

Their flushes are done together. A log that a name keeps from being closed (a directory where an index belongs) is left
to the next start's recovery, and keeps no other log from it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.ports.disk_errors import Extent, extent_of, told
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.storage.flushing import PendingFlush
from tidegauge.impl.storage.log import Log

LOGGER: Final = logging.getLogger(__name__)

Key = TypeVar("Key")


def close_logs(disk: Disk, logs: Mapping[Key, Log]) -> list[Key]:
    """Flush and close all of them; returns those that are in doubt, and still open. Raises OSError."""
    closing: list[tuple[Log, PendingFlush | None]] = []
    in_doubt: list[Key] = []

    def works() -> Iterator[Callable[[], None]]:
        for key, log in logs.items():
            try:
                flush = log.begin_close()
            except OSError as error:
                if extent_of(error) is not Extent.NAME:
                    raise
                _tell(log, error)
                in_doubt.append(key)
                continue
            closing.append((log, flush))
            if flush is not None:
                yield flush.work

    disk.all_at_once(works())
    for log, flush in closing:
        log.finish_close(flush)
    return in_doubt


def _tell(log: Log, error: OSError) -> None:
    log_event(
        LOGGER,
        logging.ERROR,
        "log not closed",
        log=log.directory,
        why=told(error),
        next="mend what the error names: the next start recovers the logs of this log directory",
    )

"""What is believed of a recovery point: whether something else says that it is too low, or far beyond the log.

Theory of operation
-------------------
After a crash a recovery point may be old, and therefore too low: more is read then, and no harm is done. A clean stop
notes the end of each log, so that there is nothing beyond it. A log start or a cleaner's mark beyond it says that it is
too low, and so does a producer snapshot that is named after a later offset, unless the last file is whole and ends at
the point: then the snapshot may be one that an earlier log has left. One that is named after an offset which the last
file does not reach says nothing. To believe a point that is too low would be to take damage at the end of the log for a
torn tail, and cut it. It counts as lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.storage.leader_epoch_cache import EpochEntry
from tidegauge.impl.storage.survey import reaches

LOGGER: Final = logging.getLogger(__name__)


class Checkpointed(NamedTuple):
    """What was remembered of a log beside its segments."""

    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    clean_shutdown: bool = False
    """Whether the log was closed, so that its recovery point is its end."""
    cleaned_offset: int | None = None
    """Up to where a cleaner was at the log (`left_out`); None: none was."""
    reads_all: bool = False
    """Whether all of the log is to be read, whatever is known of it."""

    def start_not_denied(self, entries: Sequence[EpochEntry] | None) -> int:
        """The log start, unless leader epochs deny it: 0 then. Without any nothing is denied."""
        start = self.log_start_offset
        return start if not entries or start <= entries[0].start_offset + 1 else 0


def with_believed_point(
    directory: str,
    known: Checkpointed,
    snapshots: Sequence[int],
    entries: Sequence[EpochEntry] | None,
    mark: int,
    ends_at: Callable[[int], bool],
) -> Checkpointed:
    """The same without the recovery point, if that is too low; it is told then.

    `snapshots` are the offsets that the last file reaches and snapshots of producers are named after. `mark` is up to
    where a cleaner was (`left_out`). `ends_at` says whether the last file is whole and ends at an
    offset, and if it is empty the last one that is not.
    """
    point = known.recovery_point
    if not known.clean_shutdown or not point:
        return known
    beyond = [one for one in (known.start_not_denied(entries), mark) if point < one and reaches(point, one)]
    last = max([point, *snapshots, *beyond])
    if last == point or (not beyond and ends_at(point)):
        return known
    return without_point(directory, known, last, "the log was closed, and other files know of records beyond it")


def without_point(directory: str, known: Checkpointed, log_end: int, why: str) -> Checkpointed:
    """The same without the recovery point, which is told."""
    log_event(
        LOGGER,
        logging.ERROR,
        "recovery point rejected",
        log=directory,
        recovery_point=known.recovery_point,
        log_end=log_end,
        why=why,
        next="the log is read as if it had none",
    )
    return known._replace(recovery_point=0)

"""What a cleaner has left out of a log that is opened: which of its offsets are missing by right.

Theory of operation
-------------------
Kafka's cleaner leaves out whole batches, and so files that end before the next one begins. `cleaner-offset-checkpoint`
names the logs that a cleaner was at, and says up to where it came. A cleaner flushes what it writes and touches no file
that is appended to, so that all below its mark is on stable storage: the mark counts like a recovery point, which may
be older. One beyond the last file is none that a cleaner has written.

A file that is lost looks like what a cleaner has left out. But every segment has a snapshot of the producers with its
name, which a cleaner removes with it: one whose segment is missing has the gap in doubt. Nothing is refused for it, for
a log that was closed in the middle of a segment has one there too, and Kafka's cleaner leaves it where it is. A
follower fetches all from the gap on anew (`impl.server.broker.damaged_replicas`).

No file bears out an end that nothing else knows of: where neither a recovery point nor the mark goes so far, as after
a clean stop whose recovery point is lost, the file behind has to hold a batch, or a file is named after its offset that
tells of the producers there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.storage.survey import reaches

LOGGER: Final = logging.getLogger(__name__)


def mark_of(cleaned_offset: int | None, bases: Sequence[int]) -> int:
    """Up to where a cleaner has flushed a log with these files, ascending; 0 where no cleaner was, or none came so far.

    `cleaned_offset` is as the checkpoint has it, None without an entry.
    """
    return cleaned_offset if cleaned_offset is not None and bases and cleaned_offset <= bases[-1] else 0


@attrs.frozen(eq=False)
class LeftOut:
    """What may be missing of one log by right."""

    was_cleaned: bool
    flushed: int
    """Below it nothing was lost by a crash."""
    known: int
    """The same, as far as a recovery point, a log start or the cleaner's mark says so."""
    bases: Sequence[int]
    snapshots: Sequence[int]
    """The offsets that snapshots of the producers are named after."""
    told: Sequence[int]
    """Where other files say that the log went."""
    holds_batches: Callable[[int], bool]
    """Whether there is an intact batch in the segment with a base offset."""

    def reaches(self, base: int, limit: int) -> bool:
        """Whether a segment may end before the next one begins, which is no farther away than one reaches."""
        if not self.was_cleaned or limit > self.flushed or not reaches(base, limit - 1):
            return False
        told = any(limit <= one and reaches(base, one) for one in (*self.snapshots, *self.told))
        return told or limit <= self.known or self.holds_batches(limit)

    def is_in_doubt(self, directory: str, start: int, limit: int) -> bool:
        """Whether a segment may be missing between two offsets, which is told then."""
        between = range(start, limit)
        lost = next((one for one in sorted(self.snapshots) if one in between and one not in self.bases), None)
        if lost is None:
            return False
        log_event(
            LOGGER,
            logging.ERROR,
            "log gap in doubt",
            log=directory,
            start=start,
            end=limit,
            why=f"there is a snapshot of producers at {lost}, and no segment: it is lost, or a cleaner left out what "
            "followed",
            next="the broker registers as one that has crashed; where another replica leads, the log is cut before the "
            "gap and fetched from it; where this one leads, readers go on behind the gap",
        )
        return True

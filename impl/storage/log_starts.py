"""Where a log starts that is opened: what its files, its checkpoint and its leader epochs say of it.

Theory of operation
-------------------
Three things tell where a log starts: the name of its first segment, the entry in `log-start-offset-checkpoint` where it
starts inside that segment, and the first leader epoch, which is trimmed to the offset before the start. What starts at
0 needs none of them. Before the files of a segment go the leader epochs are written without it. So a first segment
beyond the start that is written down, where leader epochs bear it out, is that of a log whose first segments were
deleted; beyond what the epochs say, segments are missing. Without the epochs nobody can tell the two apart: the start
is in doubt. An empty list of epochs says no more: a log that was cut to its very beginning has one too. So where a log
knows of no epoch, or is damaged, its start is written down at once. Nobody can tell either where the first epoch begins
with the very record before the first segment: that may have been deleted, or lost with a segment of its own. So a clean
stop writes down where every log starts that does not start at 0. The epochs of a log that is known to be damaged may
have been made anew, and then begin behind the damage.
"""

from __future__ import annotations

import logging
from typing import Final

import attrs

from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.storage.recovery import Recovery

LOGGER: Final = logging.getLogger(__name__)


def where_it_starts(
    directory: str, log_start_offset: int, first: int, end: int, recovery: Recovery, *, is_new: bool, is_known: bool
) -> tuple[int, Recovery]:
    """Where a log starts, and what was found, with whether that is in doubt; `is_new`: it has no file."""
    start = believed_log_start(directory, log_start_offset, first, end, recovery)
    written = log_start_offset if log_start_offset <= start else 0
    if not is_new and is_start_in_doubt(directory, written, first, recovery, is_known=is_known):
        recovery = attrs.evolve(recovery, is_start_in_doubt=True)
    return start, recovery


def believed_log_start(directory: str, log_start_offset: int, first: int, end: int, recovery: Recovery) -> int:
    """Where a log starts whose segments hold [first, end), and whose checkpoint says `log_start_offset`.

    Before a log start is written down the leader epochs are, without those that ended before it. So a log start beyond
    the offset after the first epoch's is damaged, and would hide records.
    """
    epochs = recovery.checkpointed_epochs
    latest = min(end, epochs[0].start_offset + 1) if epochs else end
    if log_start_offset > max(first, latest):
        log_event(
            LOGGER,
            logging.ERROR,
            "log start rejected",
            log=directory,
            log_start=log_start_offset,
            why=f"nothing else says that the log starts beyond {max(first, latest)}",
            next=f"the log starts at {first}",
        )
        return min(first, end)
    return min(max(log_start_offset, first), end)


def is_start_in_doubt(directory: str, log_start_offset: int, first: int, recovery: Recovery, *, is_known: bool) -> bool:
    """Whether segments may be missing before the first one that is left, which begins at `first`; it is told then.

    `log_start_offset` is the checkpointed one, if it is believed; `is_known`: it is there unless the log starts at 0.
    """
    epochs = recovery.checkpointed_epochs
    if first <= log_start_offset or any(gap.start < first for gap in recovery.gaps):
        return False
    if epochs is None:
        why = "leader-epoch-checkpoint is lost, and nothing else tells whether records before were deleted or are lost"
    elif not epochs:
        why = "leader-epoch-checkpoint is empty, and nothing else tells whether records before were deleted or are lost"
    elif recovery.was_damaged and epochs[0].start_offset >= first:
        why = "it was damaged before, and nothing tells whether records before were deleted or are lost"
    elif is_known and epochs[0].start_offset + 1 == first:
        why = f"no log start is written down, and nothing else tells whether record {first - 1} was deleted or is lost"
    else:
        return False
    log_event(
        LOGGER,
        logging.ERROR,
        "log start in doubt",
        log=directory,
        log_start=first,
        why=why,
        next="the log starts there, and its broker registers as one that has crashed; if its leader's log starts "
        "earlier, remove the directory while the broker is down, and the replica is fetched anew",
    )
    return True

"""What the recovery of a log says of its end."""

from __future__ import annotations

import logging
from typing import Final

from tidegauge.impl.ports.log_lines import log_event

LOGGER: Final = logging.getLogger(__name__)


def tell_cut(path: str, size: int, log_end: int, aside: str) -> None:
    """So many bytes are cut from the end of a segment's file; `aside`: the file in which they are kept, if they are."""
    log_event(
        LOGGER,
        logging.WARNING,
        "torn tail cut",
        segment=path,
        bytes=size,
        log_end=log_end,
        why="what lies there is not intact, and was not flushed",
        next=f"what was cut is kept as {aside}, for it may hold intact batches" if aside else "the log goes on there",
    )


def tell_end_in_damage(path: str, log_end: int, recovery_point: int) -> None:
    """A segment's file ends in damage."""
    log_event(
        LOGGER,
        logging.ERROR,
        "log ends in damage",
        segment=path,
        log_end=log_end,
        recovery_point=recovery_point,
        why="the file ends in damage, and nothing tells which offsets beyond that it held",
        next="nothing of the file is removed; if there were more records, they are fetched from the leader, and "
        "without another replica they are not served",
    )


def tell_low_end(directory: str, log_end: int, high_watermark: int) -> None:
    """A log ends below the high watermark that is written down."""
    log_event(
        LOGGER,
        logging.WARNING,
        "log ends below its high watermark",
        log=directory,
        log_end=log_end,
        high_watermark=high_watermark,
        why="a crash has taken committed records that were not flushed",
        next="they are fetched from the leader; without another replica they are gone",
    )


def tell_end_in_doubt(directory: str, log_end: int, recovery_point: int, why: str) -> None:
    """A log may have gone on where it ends now."""
    log_event(
        LOGGER,
        logging.ERROR,
        "log end in doubt",
        log=directory,
        log_end=log_end,
        recovery_point=recovery_point,
        why=why,
        next="if there were more records, they are fetched from the leader; without another replica they are gone",
    )

"""The leader epochs of a log that is opened: as its checkpoint says, if the log agrees."""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence
from contextlib import suppress
from typing import Final

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.records.batches import RecordError
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.leader_epoch_cache import UNDEFINED_EPOCH, EpochEntry
from tidegauge.impl.storage.neighbours import last_batch
from tidegauge.impl.storage.segment import Segment

LOGGER: Final = logging.getLogger(__name__)


def read_epochs(disk: Disk, directory: str, names: Container[str], *, was_flushed: bool) -> list[EpochEntry] | None:
    """The checkpoint of a directory with these names; None when it is missing or damaged.

    It is written with a flush: a log that was never flushed need not have one.
    """
    name = checkpoints.LEADER_EPOCH_CHECKPOINT
    if name not in names:
        if was_flushed:
            log_event(
                LOGGER,
                logging.WARNING,
                "checkpoint missing",
                file=f"{directory}/{name}",
                next="it is made anew from the whole log",
            )
        return None
    text = checkpoints.read_text(disk, directory, name)
    entries = checkpoints.decode_leader_epochs(text) if text is not None else None
    if entries is None:
        reject(directory, "it is no list of epochs and offsets")
    return entries


def reject(directory: str, reason: str) -> None:
    """Say that the checkpoint is not believed."""
    log_event(
        LOGGER,
        logging.ERROR,
        "checkpoint rejected",
        file=f"{directory}/{checkpoints.LEADER_EPOCH_CHECKPOINT}",
        why=reason,
        next="it is made anew from the whole log",
    )


def contradiction(segments: Sequence[Segment], entries: Sequence[EpochEntry], *, is_clean: bool) -> str:
    """Why the epochs cannot be those of these segments, by the batches at which they begin; "" when they can.

    An epoch may begin behind the end after a crash, which has taken its records: it is later than any that is left.
    """
    for epoch, start_offset in entries:
        for segment in segments:
            if not segment.base_offset <= start_offset < segment.next_offset:
                continue
            with suppress(RecordError):  # what is damaged contradicts nothing
                header = next(segment.headers_from(start_offset), None)
                if header is None:
                    continue
                found = header.partition_leader_epoch
                if found < epoch or (found != epoch and header.base_offset <= start_offset):
                    return f"epoch {epoch} is to begin at {start_offset}, where the log has one of epoch {found}"
    if segments:
        behind = next((entry for entry in entries if entry.start_offset > segments[-1].next_offset), None)
        if behind is not None and (is_clean or behind.epoch <= _last_epoch(segments)):
            return f"epoch {behind.epoch} is to begin at {behind.start_offset}, behind the end of the log"
    return ""


def _last_epoch(segments: Sequence[Segment]) -> int:
    last = last_batch(segments)
    return UNDEFINED_EPOCH if last is None else last.partition_leader_epoch

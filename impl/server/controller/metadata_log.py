"""The metadata log of a quorum of one: a log on the controller's own disk.

Its one node leads from the start, in an epoch that is one higher than any in the log and any that was noted. A
decision is one batch, so that a crash keeps all of it or nothing, and is committed when it is flushed. The batches'
partition leader epoch is the epoch of their leader.

Beside the log's directory a file notes how far the log is committed (`offset_notes`): a log that ends before that has
lost decisions, and is not opened (`metadata_damage`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, Protocol

import trio

from tidegauge.impl.metadata.codec import MetadataFormatError, check_decisions, decode_decisions, encode_decision
from tidegauge.impl.metadata.log import Leadership, MetadataLog
from tidegauge.impl.metadata.records import MetadataRecord
from tidegauge.impl.metadata.topic_names import METADATA_TOPIC
from tidegauge.impl.partition.messages import EpochEndOffset
from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.ports.disk_errors import Extent, extent_of, told
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.ports.repeated_lines import RepeatedLines
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.server.controller.metadata_damage import DamagedMetadataLogError, examine
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.offset_notes import NOTHING, OffsetNote, OffsetNotes, read_note
from tidegauge.impl.storage.segment_names import LOG_SUFFIX

READ_SIZE = 8 << 20
RETRY_S: Final = 0.2
"""How long the log waits for room before it looks again."""
COMMITTED: Final = "metadata-commit-offset"
"""The file that notes how far the log is committed, beside the log's directory."""
METADATA_DIRECTORY: Final = f"{METADATA_TOPIC}-0"
LOGGER: Final = logging.getLogger(__name__)


def has_metadata_log(disk: Disk, beside: str) -> bool:
    """Whether a controller has committed anything in this directory: there is a log with records, or a note of one."""
    if read_note(disk, beside, COMMITTED) is not None:
        return True
    directory = f"{beside}/{METADATA_DIRECTORY}"
    names = disk.list_directory(directory) if disk.exists(directory) else ()
    return any(name.endswith(LOG_SUFFIX) and disk.size(f"{directory}/{name}") for name in names)


class ServedMetadataLog(MetadataLog, Protocol):
    """A metadata log that brokers fetch from, and that has files or a network connection to let go of."""

    @property
    def start_offset(self) -> int:
        """The first offset that it still has."""

    def read_batches(self, offset: int, max_bytes: int) -> bytes:
        """The committed batches from `offset` on, at least one if there is one; b"" at the end."""

    def end_offset_for(self, epoch: int) -> EpochEndOffset:
        """The largest epoch of the log that is not larger than `epoch`, and where its records end (KIP-595)."""

    async def check(self) -> None:
        """Find out whether the log can still be written. Raises OSError when it cannot."""

    def close(self) -> None:
        """Flush and close, at a clean shutdown."""

    def abandon(self) -> None:
        """Let go of everything as it is, after a crash."""


class StoredMetadataLog:
    """A controller's metadata log over a storage log."""

    def __init__(self, disk: Disk, directory: str, clock: Clock, node_id: int) -> None:
        """Raises DamagedMetadataLogError, and OSError."""
        beside = directory.rpartition("/")[0] or "."
        note = read_note(disk, beside, COMMITTED)
        found = examine(disk, directory, NOTHING if note is None else note)
        self._found = found.records
        if found.torn is not None:
            torn = found.torn
            log_event(
                LOGGER,
                logging.WARNING,
                "metadata log cut",
                file=torn.path,
                offset=torn.offset,
                position=torn.position,
                bytes=torn.size,
                why="a crash has torn the last write, which was not acknowledged",
                next="the controller goes on without it",
            )
        if note is None and found.records:
            log_event(
                LOGGER,
                logging.WARNING,
                "metadata note missing",
                file=f"{beside}/{COMMITTED}",
                records=len(found.records),
                why="the note of how far the log is committed is missing or damaged",
                next="the log counts as it is, and is noted anew",
            )
        self.log = Log.open(disk, directory, LogConfig(), clock.now_ms())
        assert self.log.log_end_offset == len(found.records), "what was looked at is what is opened"
        self._notes = OffsetNotes(disk, beside, COMMITTED, NOTHING if note is None else note)
        self._leadership = Leadership(node_id, max(self.log.latest_epoch, self._notes.last.epoch) + 1)
        self._lines = RepeatedLines()
        self._disk = disk
        self._clock = clock

    def take_found(self) -> Sequence[MetadataRecord]:
        """What the log held when it was opened; handed out once, for the controller's image has it from then on."""
        found, self._found = self._found, ()
        return found

    @property
    def leadership(self) -> Leadership:
        return self._leadership

    @property
    def end_offset(self) -> int:
        """Up to where the log is on stable storage: what is not, is not committed."""
        return self.log.flushed_end_offset

    @property
    def start_offset(self) -> int:
        return self.log.log_start_offset

    async def leadership_after(self, known: Leadership) -> Leadership:
        """A quorum of one keeps its leader as long as it runs."""
        if known == self._leadership:
            await trio.sleep_forever()
        return self._leadership

    async def append(self, records: Sequence[MetadataRecord]) -> int:
        """Append one decision and flush it; wait while there is no room.

        Raises OSError when the disk does not take it; it is not committed then,
        nor is any after it, since the log takes no more.
        """
        now_ms = self._clock.now_ms()
        begin = self.log.log_end_offset
        batch = encode_decision(records, begin, now_ms)
        while True:
            try:
                if self.log.log_end_offset == begin:
                    self.log.append_as_leader(batch, self.leadership.epoch, now_ms, origin=Origin.BROKER)
                self.log.flush()
                break
            except OSError as error:
                self._raise_unless_passing(error)
            await trio.sleep(RETRY_S)
        try:
            self._notes.write(OffsetNote(self.end_offset, self.leadership.epoch))
        except OSError as error:
            self._raise_unless_passing(error)  # a note that is missing is one that is behind
        return self.end_offset

    def _raise_unless_passing(self, error: OSError) -> None:
        """Wait for room, or for descriptors; any other error of the disk ends the controller."""
        if extent_of(error) is not Extent.PASSING or self.log.has_failed:
            raise error
        self._lines.log_event(
            LOGGER,
            logging.WARNING,
            "no room",
            directory=self.log.directory,
            why=told(error),
            next="the metadata log waits: free space, or give the process more descriptors",
        )

    def read(self, offset: int) -> Sequence[MetadataRecord]:
        """The records from `offset` on. Raises DamagedMetadataLogError."""
        records: list[MetadataRecord] = []
        while offset < self.end_offset:
            for at, record in decode_decisions(self.read_batches(offset, READ_SIZE), offset):
                records.append(record)
                offset = at + 1
        return records

    def read_batches(self, offset: int, max_bytes: int) -> bytes:
        """The batches from `offset` on, as brokers fetch them; at least one if there is one.

        Raises DamagedMetadataLogError where they are not what was committed: the disk may change them at any time.
        """
        if offset >= self.end_offset:
            return b""
        try:
            batches = self.log.read(offset, max_bytes, self.end_offset)
            check_decisions(batches, offset)
        except (CorruptLogError, MetadataFormatError) as error:
            examine(self._disk, self.log.directory, OffsetNote(self.end_offset, self.leadership.epoch))
            raise DamagedMetadataLogError(self.log.directory, offset, None, str(error)) from error
        return batches

    def end_offset_for(self, epoch: int) -> EpochEndOffset:
        """The largest epoch of the log that is not larger than `epoch`, and where its records end."""
        return EpochEndOffset(*self.log.end_offset_for(epoch))

    async def check(self) -> None:
        """Write beside the log, in the background. Raises OSError when the disk does not take it."""
        try:
            flush = self.log.begin_check()
            await self._disk.in_background(flush.work)
            self.log.finish_flush(flush)
        except OSError as error:
            self._raise_unless_passing(error)

    def close(self) -> None:
        """Flush and close the files."""
        self.log.close()
        self._notes.sync()
        self._notes.close()

    def abandon(self) -> None:
        """Let go of the files as they are."""
        self.log.abandon()
        self._notes.close()

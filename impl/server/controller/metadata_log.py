"""The metadata log of a quorum of one: a log on the controller's own disk.

Its one node leads from the start, in an epoch that is one higher than any in the log. A decision is one batch, so that
a crash keeps all of it or nothing, and is committed when it is flushed. The batches' partition leader epoch is the
epoch of their leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import trio

from tidegauge.impl.metadata.codec import decode_decisions, encode_decision
from tidegauge.impl.metadata.log import Leadership, MetadataLog
from tidegauge.impl.metadata.records import MetadataRecord
from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log

READ_SIZE = 8 << 20


class ServedMetadataLog(MetadataLog, Protocol):
    """A metadata log that brokers fetch from, and that has files or a network connection to let go of."""

    @property
    def start_offset(self) -> int:
        """The first offset that it still has."""

    def read_batches(self, offset: int, max_bytes: int) -> bytes:
        """The committed batches from `offset` on, at least one if there is one; b"" at the end."""

    async def check(self) -> None:
        """Find out whether the log can still be written. Raises OSError when it cannot."""

    def close(self) -> None:
        """Flush and close, at a clean shutdown."""

    def abandon(self) -> None:
        """Let go of everything as it is, after a crash."""


class StoredMetadataLog:
    """A controller's metadata log over a storage log."""

    def __init__(self, disk: Disk, directory: str, clock: Clock, node_id: int) -> None:
        self.log = Log.open(disk, directory, LogConfig(), clock.now_ms())
        self._leadership = Leadership(node_id, self.log.latest_epoch + 1)
        self._disk = disk
        self._clock = clock

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
        """Append one decision and flush it. Raises OSError when the disk does not take it; it is not committed then,
        nor is any after it, since the log takes no more.
        """
        now_ms = self._clock.now_ms()
        batch = encode_decision(records, self.log.log_end_offset, now_ms)
        self.log.append_as_leader(batch, self.leadership.epoch, now_ms, origin=Origin.BROKER)
        self.log.flush()
        return self.end_offset

    def read(self, offset: int) -> Sequence[MetadataRecord]:
        """The records from `offset` on."""
        records: list[MetadataRecord] = []
        while offset < self.end_offset:
            for at, record in decode_decisions(self.log.read(offset, READ_SIZE, self.end_offset), offset):
                records.append(record)
                offset = at + 1
        return records

    def read_batches(self, offset: int, max_bytes: int) -> bytes:
        """The batches from `offset` on, as brokers fetch them; at least one if there is one."""
        return self.log.read(offset, max_bytes, self.end_offset) if offset < self.end_offset else b""

    async def check(self) -> None:
        """Write beside the log, in the background. Raises OSError when the disk does not take it."""
        flush = self.log.begin_check()
        await self._disk.in_background(flush.work)
        self.log.finish_flush(flush)

    def close(self) -> None:
        """Flush and close the files."""
        self.log.close()

    def abandon(self) -> None:
        """Let go of the files as they are."""
        self.log.abandon()

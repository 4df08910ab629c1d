"""The metadata log on disk: partition 0 of `__cluster_metadata`, record batches whose values are JSON.

One decision is one batch, so that a crash keeps all of it or nothing; it is flushed before anyone learns of it. The
batches' partition leader epoch is the controller epoch.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.impl.metadata.codec import decode_decisions, encode_decision
from tidegauge.impl.metadata.records import ControllerEpochRecord, MetadataRecord
from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.storage.log import Log, Origin

READ_SIZE = 8 << 20


class StoredMetadataLog:
    """A controller's metadata log over a storage log."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self.log = log
        self._clock = clock
        self._controller_epoch = max(0, log.latest_epoch)

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    def append(self, records: Sequence[MetadataRecord]) -> None:
        """Append one decision, durably and as a whole. Raises OSError when the disk does not take it."""
        for record in records:
            if isinstance(record, ControllerEpochRecord):
                self._controller_epoch = record.controller_epoch
        now_ms = self._clock.now_ms()
        batch = encode_decision(records, self.end_offset, now_ms)
        self.log.append_as_leader(batch, self._controller_epoch, now_ms, origin=Origin.BROKER)
        self.log.flush()

    def read(self, offset: int) -> Sequence[MetadataRecord]:
        """Every record from `offset` on."""
        records: list[MetadataRecord] = []
        while offset < self.end_offset:
            for at, record in decode_decisions(self.log.read(offset, READ_SIZE), offset):
                records.append(record)
                offset = at + 1
        return records

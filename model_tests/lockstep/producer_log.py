"""The log in a lockstep of idempotent producers: the storage room's own, with segments that fill up when they are told.

It lies on a simulated disk. A crash cuts it where the action says and opens it again, so that what it remembers of
producers comes from snapshots and batch headers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import attrs

from impl.partition.log import Admit, Buffer
from impl.partition.producer_state import ProducerStates
from impl.ports.simulated_disk import SimulatedDisk
from impl.storage.config import LogConfig
from impl.storage.log import Log
from impl.storage.producer_snapshot import decode_snapshot, snapshot_offset
from impl.wire.records import BatchHeader, headers
from impl.wire.records_payload import ProducerIdentity, Record, build_batch, decode_records
from spec.idempotence_state import Batch, LoggedBatch

_DIRECTORY = "records-0"
_CONFIG = LogConfig()


def produced(batch: Batch, timestamp: int = 0) -> bytes:
    """What a producer sends: the first record's value says which record of the producer it is."""
    records = [Record(n, timestamp, None, (batch.first + n).to_bytes(8, "big")) for n in range(batch.count)]
    if batch.sequence < 0:
        return build_batch([*records[:-1], records[-1]._replace(key=bytes([batch.producer]))])
    return build_batch(records, producer=ProducerIdentity(batch.producer, batch.epoch, batch.sequence))


def logged(data: Buffer) -> Iterator[LoggedBatch]:
    """The batches in a log's bytes, as the specification has them."""
    for position, header in headers(data):
        records = decode_records(data, position)
        first = int.from_bytes(records[0].value or b"", "big")
        producer = header.producer_id if header.producer_id >= 0 else (records[-1].key or b"\0")[0]
        epoch = max(0, header.producer_epoch)
        batch = Batch(producer, epoch, header.base_sequence, first, header.records_count)
        yield LoggedBatch(header.partition_leader_epoch, header.base_offset, batch)


class ProducerLog:
    """Satisfies `impl.partition.log.ReplicaLog`."""

    def __init__(
        self, producers: type[ProducerStates], disk: SimulatedDisk | None = None, log_start_offset: int = 0
    ) -> None:
        self._disk = SimulatedDisk(random.Random(0)) if disk is None else disk
        self._log = Log.open(
            self._disk, _DIRECTORY, _CONFIG, now_ms=0, log_start_offset=log_start_offset, producers=producers()
        )
        self.segment_full = False

    @property
    def log_start_epoch(self) -> int:
        return self._log.log_start_epoch

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def latest_epoch(self) -> int:
        return self._log.latest_epoch

    @property
    def producers(self) -> ProducerStates:
        return self._log.producers

    @property
    def batches(self) -> tuple[LoggedBatch, ...]:
        """All that it holds."""
        found: list[LoggedBatch] = []
        while not found or found[-1].end_offset < self.log_end_offset:
            offset = found[-1].end_offset if found else self.log_start_offset
            if offset == self.log_end_offset:
                break
            found += logged(self._log.read(offset, 1 << 20))
        return tuple(found)

    @property
    def snapshots(self) -> dict[int, bytes]:
        """The snapshot files by their offsets."""
        found = {}
        for name in self._disk.list_directory(_DIRECTORY):
            if (offset := snapshot_offset(name)) is not None:
                file = self._disk.open(f"{_DIRECTORY}/{name}")
                found[offset] = bytes(file.read(0, file.size))
                assert decode_snapshot(found[offset]) is not None, f"{name} is damaged"
                file.close()
        return found

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        return self._log.end_offset_for(epoch)

    def append_as_leader(self, batches: Buffer, leader_epoch: int, now_ms: int, *, admit: Admit | None = None) -> None:
        before = self.log_end_offset
        self._make_segment_full(len(batches))
        try:
            self._log.append_as_leader(batches, leader_epoch, now_ms, admit=admit)
        finally:
            self._segment_filled(before)

    def append_as_follower(self, batches: Buffer) -> None:
        before = self.log_end_offset
        self._make_segment_full(BatchHeader.parse(batches).size)
        self._log.append_as_follower(batches)
        self._segment_filled(before)

    def _make_segment_full(self, size: int) -> None:
        """Leave the active segment one byte too little room for the next batch."""
        if self.segment_full:
            active = self._log.segments[-1]
            self._log.config = attrs.evolve(_CONFIG, segment_bytes=active.size + size - 1)

    def _segment_filled(self, end_offset_before: int) -> None:
        self._log.config = _CONFIG
        if self.log_end_offset > end_offset_before:
            self.segment_full = False

    def fetch(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        return self._log.read(offset, max_bytes, end_offset)

    def truncate_to(self, offset: int) -> None:
        self._log.truncate_to(offset)
        self.segment_full = False

    def truncate_fully_and_start_at(self, offset: int, *, epoch: int = -1) -> None:
        self._log.truncate_fully_and_start_at(offset, epoch=epoch)
        self.segment_full = False

    def delete_records_before(self, offset: int) -> None:
        self._log.delete_records_before(offset)

    def after_crash(self, end_offset: int) -> ProducerLog:
        """What a restarted process finds: the records below `end_offset`."""
        kind, start = type(self.producers), self.log_start_offset
        forgot = self.producers.forgot
        self._log.truncate_to(end_offset)
        self._log.abandon()
        found = ProducerLog(kind, self._disk, start)
        found.producers.forgot = forgot
        return found

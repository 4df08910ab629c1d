"""The log in a lockstep of idempotent producers: one of `impl.storage`, whose segments fill up when told to.

It is on a simulated disk. A crash truncates it where the action says and opens it again, so that its producer state
comes from snapshots and batch headers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import attrs

from tidegauge.impl.partition.log import Admit, Buffer
from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.batches import BatchHeader, headers
from tidegauge.impl.records.checked import Batches, CheckedBatch
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch, decode_records
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.producer_snapshot import decode_snapshot, snapshot_offset
from tidegauge.model_tests.harness.cores.disk_log import DIRECTORY, DiskLog
from tidegauge.spec.idempotence.state import Batch, LoggedBatch

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


def batches_of(log: Log) -> tuple[LoggedBatch, ...]:
    """All that a log holds."""
    found: list[LoggedBatch] = []
    reached = log.log_start_offset
    while reached < log.log_end_offset:
        found += logged(log.read(reached, 1 << 20))
        reached = found[-1].end_offset
    return tuple(found)


def snapshot_files(disk: Disk, directory: str) -> dict[int, bytes]:
    """A log's snapshot files by their offsets."""
    found = {}
    for name in disk.list_directory(directory):
        if (offset := snapshot_offset(name)) is not None:
            file = disk.open(f"{directory}/{name}")
            found[offset] = bytes(file.read(0, file.size))
            assert decode_snapshot(found[offset]) is not None, f"{name} is damaged"
            file.close()
    return found


class ProducerLog(DiskLog):
    """Satisfies `impl.partition.log.ReplicaLog`."""

    def __init__(
        self, producers: type[ProducerStates], disk: SimulatedDisk | None = None, log_start_offset: int = 0
    ) -> None:
        super().__init__(disk, _CONFIG, log_start_offset, producers())
        self.segment_full = False

    @property
    def batches(self) -> tuple[LoggedBatch, ...]:
        """All that it holds."""
        return batches_of(self._log)

    @property
    def snapshots(self) -> dict[int, bytes]:
        """The snapshot files by their offsets."""
        return snapshot_files(self._disk, DIRECTORY)

    def append_as_leader(
        self,
        batches: Batches,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        admit: Admit | None = None,
    ) -> None:
        before = self.log_end_offset
        self._make_segment_full(batches.header.size if isinstance(batches, CheckedBatch) else len(batches))
        try:
            super().append_as_leader(batches, leader_epoch, now_ms, admit=admit)
        finally:
            self._segment_filled(before)

    def append_as_follower(self, batches: Buffer) -> None:
        before = self.log_end_offset
        self._make_segment_full(BatchHeader.parse(batches).size)
        super().append_as_follower(batches)
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

    def truncate_to(self, offset: int, *, epoch: int = -1) -> None:
        super().truncate_to(offset, epoch=epoch)
        self.segment_full = False

    def truncate_fully_and_start_at(self, offset: int, *, epoch: int = -1) -> None:
        super().truncate_fully_and_start_at(offset, epoch=epoch)
        self.segment_full = False

    def after_crash(self, end_offset: int) -> ProducerLog:
        """What a restarted process finds: the records below `end_offset`."""
        kind, start = type(self.producers), self.log_start_offset
        forgot = self.producers.forgot
        self._log.truncate_to(end_offset)
        self._log.abandon()
        found = ProducerLog(kind, self._disk, start)
        found.producers.forgot = forgot
        return found

    def opened_apart(self) -> ProducerLog:
        """What a process has that finds the files as they are, though they go on here: it opens a copy."""
        copy = SimulatedDisk(random.Random(0))
        copy.make_directory(DIRECTORY)
        for name in self._disk.list_directory(DIRECTORY):
            content = self._disk.read_whole(f"{DIRECTORY}/{name}")
            file = copy.open(f"{DIRECTORY}/{name}", create=True)
            file.append(content or b"")
            file.close()
        return ProducerLog(type(self.producers), copy, self.log_start_offset)

    def abandon(self) -> None:
        """Close its files, as a crash does."""
        self._log.abandon()

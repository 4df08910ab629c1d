"""Looking at a metadata log before it is opened: is it whole, and if not, may what is damaged be cut off?

A decision is acknowledged when it is on stable storage. A crash can therefore tear the last batch, of which nobody was
told; that one is cut. Everything else must be there: each batch intact, each at the offset where the one before ends,
each in the epoch of the controller that wrote it, up to the offset that was noted as committed (`offset_notes`). A log
that is not so would make the cluster forget topics that it has: the controller does not start
(`DamagedMetadataLogError`), and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidegauge.impl.metadata.codec import MetadataFormatError, decode_decisions
from tidegauge.impl.metadata.records import ControllerEpochRecord, MetadataRecord
from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.records.batches import HEADER_SIZE, BatchHeader, RecordError, checked_header
from tidegauge.impl.storage.offset_notes import OffsetNote
from tidegauge.impl.storage.segment_names import LOG_SUFFIX, base_offset_of

NO_EPOCH = -1
MAGIC_AT = 16
"""Where in a batch its magic byte is."""


class DamagedMetadataLogError(Exception):
    """The metadata log has lost what was acknowledged."""

    def __init__(self, path: str, offset: int, position: int | None, reason: str) -> None:
        where = f"offset {offset}" if position is None else f"offset {offset}, byte {position}"
        super().__init__(
            f"the metadata log is damaged: {path} at {where}: {reason}. Nothing was changed. The decisions from there "
            "on were acknowledged, and brokers would take their topics as deleted if they were cut off. Put the file "
            "back from a copy, and start the controller again"
        )
        self.path = path
        self.offset = offset
        self.position = position


class TornTail(NamedTuple):
    """The end of a metadata log that was not acknowledged and is to be cut off."""

    path: str
    offset: int
    position: int
    size: int
    """How many bytes."""


class FoundLog(NamedTuple):
    """What a metadata log's directory holds."""

    records: Sequence[MetadataRecord] = ()
    torn: TornTail | None = None


def examine(disk: Disk, directory: str, acknowledged: OffsetNote) -> FoundLog:
    """The records of a metadata log, of which `acknowledged` was noted. Raises DamagedMetadataLogError, OSError."""
    names = disk.list_directory(directory) if disk.exists(directory) else ()
    bases = sorted((base, name) for name in names if (base := base_offset_of(name)) is not None)
    walk = _Walk(acknowledged.end_offset)
    for number, (base, name) in enumerate(bases):
        path = f"{directory}/{name}"
        if base != walk.offset:
            missing = f"the segment that holds it is missing, the next one is {name}"
            raise DamagedMetadataLogError(path if base < walk.offset else directory, walk.offset, None, missing)
        file = disk.open_apart(path)
        try:
            content = file.read(0, file.size)
        finally:
            file.close()
        walk.segment(path, content, is_last=number == len(bases) - 1)
    if walk.offset < acknowledged.end_offset:
        path = f"{directory}/{bases[-1][1] if bases else f'{0:020}{LOG_SUFFIX}'}"
        reason = f"the log ends here, and {acknowledged.end_offset} records were acknowledged"
        raise DamagedMetadataLogError(path, walk.offset, walk.torn.position if walk.torn else walk.position, reason)
    return FoundLog(walk.records, walk.torn)


class _Walk:
    """The way through a metadata log, batch by batch."""

    def __init__(self, acknowledged: int) -> None:
        self.offset = 0
        self.position = 0
        self.records: list[MetadataRecord] = []
        self.torn: TornTail | None = None
        self._epoch = NO_EPOCH
        self._acknowledged = acknowledged

    def segment(self, path: str, content: bytes, *, is_last: bool) -> None:
        """Walk through one segment. Raises DamagedMetadataLogError."""
        self.position = 0
        while self.position < len(content):
            try:
                header = checked_header(content, self.position)
                problem = self._take(header, content)
            except (RecordError, MetadataFormatError) as error:
                problem, is_intact = str(error), isinstance(error, MetadataFormatError)
            else:
                is_intact = bool(problem)
            if not problem:
                self.position += header.size
                continue
            if is_intact or self.offset < self._acknowledged or not is_last:
                raise DamagedMetadataLogError(path, self.offset, self.position, problem)
            if (later := self._later_batch(content)) is not None:
                reason = f"{problem}, and an intact batch follows at byte {later}"
                raise DamagedMetadataLogError(path, self.offset, self.position, reason)
            self.torn = TornTail(path, self.offset, self.position, len(content) - self.position)
            return

    def _take(self, header: BatchHeader, content: bytes) -> str:
        """Take an intact batch; returns what is wrong with it instead, if anything."""
        if header.base_offset != self.offset:
            return f"its batch begins at offset {header.base_offset}"
        batch = memoryview(content)[self.position : self.position + header.size]
        records = [record for _, record in decode_decisions(batch, self.offset)]
        epoch = self._epoch
        for record in records:
            if isinstance(record, ControllerEpochRecord):
                epoch = record.controller_epoch
        if header.partition_leader_epoch != epoch:
            return f"its batch says epoch {header.partition_leader_epoch}, its controller wrote in epoch {epoch}"
        self._epoch = epoch
        self.records += records
        self.offset = header.base_offset + header.last_offset_delta + 1
        return ""

    def _later_batch(self, content: bytes) -> int | None:
        """Where behind the damage another batch of this log is intact; None when nowhere."""
        at = content.find(b"\x02", self.position + 1 + MAGIC_AT)
        while at >= 0:
            start = at - MAGIC_AT
            if start + HEADER_SIZE <= len(content):
                header = BatchHeader.parse(content, start)
                if header.base_offset > self.offset and header.size <= len(content) - start:
                    try:
                        checked_header(content, start)
                    except RecordError:
                        pass
                    else:
                        return start
            at = content.find(b"\x02", at + 1)
        return None

"""What the coordinator of a group is asked, and what it makes of it: a `Ruling`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.log_entries import GroupWritten, LogEntry, OffsetWritten
from tidegauge.impl.coordinators.groups.record_formats import (
    NO_LEADER_EPOCH,
    GroupRecord,
    OffsetKey,
    OffsetValue,
    group_tombstone,
    offset_record,
)
from tidegauge.impl.records.batches import NO_PRODUCER_ID

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""
NO_RETENTION: Final = -1
OFFSETS_AT_ONCE: Final = 500
"""Offsets of a commit in one batch: a commit of more is several, each of which may fail by itself."""
GROUP_NOT_FOUND_FROM: Final = 9
"""The version of OffsetCommit from which a group that is not there is an error of its own."""


@attrs.frozen
class NewOffset:
    """What is to be committed for one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


@attrs.frozen
class Commit:
    """An OffsetCommit, or a TxnOffsetCommit."""

    group: str
    offsets: Sequence[NewOffset]
    generation: int = NO_GENERATION
    """Or the member's epoch; -1 for a client that is no member."""
    member_id: str = NO_MEMBER
    instance_id: str | None = None
    is_transactional: bool = False
    retention_ms: int = NO_RETENTION
    """How long the client wants its offsets to be kept (OffsetCommit up to version 4)."""
    version: int = GROUP_NOT_FOUND_FROM
    topic_ids: Mapping[str, str] = attrs.field(factory=dict)
    """The ids of the topics, as far as a coordinator of consumer groups (KIP-848) may ask for them."""

    @property
    def is_of_group_alone(self) -> bool:
        """Whether it is of a transaction whose producer names the group, and no member (before KIP-447)."""
        is_nobody = self.generation == NO_GENERATION and self.member_id == NO_MEMBER and self.instance_id is None
        return self.is_transactional and is_nobody

    def parts(self) -> Iterator[Commit]:
        """The same as commits of few offsets each."""
        for start in range(0, len(self.offsets), OFFSETS_AT_ONCE):
            yield attrs.evolve(self, offsets=self.offsets[start : start + OFFSETS_AT_ONCE])


@attrs.frozen
class Ruling:
    """The response, and the records that have to be in the log first; what they change follows from them."""

    error: ErrorCode = ErrorCode.none
    offsets: tuple[tuple[OffsetKey, OffsetValue | None], ...] = ()
    """What is to be written; None is a tombstone."""
    ended: tuple[str, ...] = ()
    """The groups that are no more."""
    refused: Mapping[tuple[str, int], ErrorCode] = attrs.field(factory=dict)
    """The partitions with an error of their own; the others are taken."""

    @property
    def keys(self) -> tuple[OffsetKey, ...]:
        """The offsets that are written."""
        return tuple(key for key, _ in self.offsets)

    @property
    def records(self) -> tuple[GroupRecord, ...]:
        """The records to append, in one batch."""
        return (*(offset_record(key, value) for key, value in self.offsets), *map(group_tombstone, self.ended))

    def entries(self, base_offset: int, producer_id: int = NO_PRODUCER_ID) -> Iterator[LogEntry]:
        """What the log says once the batch is at an offset."""
        for offset, (key, value) in enumerate(self.offsets, base_offset):
            yield OffsetWritten(offset, producer_id, key, value)
        for offset, group in enumerate(self.ended, base_offset + len(self.offsets)):
            yield GroupWritten(offset, group, None)

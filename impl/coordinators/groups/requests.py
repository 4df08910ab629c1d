"""What the coordinator of a group is asked, and what it makes of it: a `Ruling`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.record_formats import NO_LEADER_EPOCH, GroupRecord, OffsetKey

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""
NO_RETENTION: Final = -1
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


@attrs.frozen
class Ruling:
    """The response, and the records that have to be in the log first; what they change follows from them."""

    error: ErrorCode = ErrorCode.none
    records: tuple[GroupRecord, ...] = ()
    keys: tuple[OffsetKey, ...] = ()
    """What the records are of, as far as they are offsets."""
    refused: Mapping[tuple[str, int], ErrorCode] = attrs.field(factory=dict)
    """The partitions with an error of their own; the others are taken."""

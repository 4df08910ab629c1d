"""What a broker is asked to append, and what comes of it.

An append of one partition ends in one of five states:

    REFUSED      nothing was appended; `error` says why
    APPENDED     the records are in the leader's log, which is all that acks 0 and 1 ask for
    COMMITTED    acks=all: the high watermark has passed the records
    PENDING      acks=all: the records are in the leader's log, and were not committed when the wait ended
    UNKNOWN      the records were appended, and then `error` came: they may be committed, or be lost

A pending append is no error here. A Produce handler responds REQUEST_TIMED_OUT; a coordinator may wait once more.
"""

from __future__ import annotations

from enum import Enum

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import NO_ERROR
from tidegauge.impl.records.checked import Batches
from tidegauge.impl.records.markers import TransactionMarker


@attrs.define(eq=False, repr=False)
class PartitionAppend:
    """A record batch for one partition."""

    topic: str
    partition: int
    records: Batches | None
    """None is refused, as damaged bytes are."""
    topic_id: str = ""
    """The id that the topic must have; "" for a writer that knows it by its name."""


@attrs.define(eq=False, repr=False)
class PartitionMarker:
    """The end of a transaction, for one partition that it has written to."""

    topic: str
    partition: int
    marker: TransactionMarker
    transaction_version: int
    """The version of the protocol that the producer's transaction had (KIP-1228)."""


class AppendState(Enum):
    """How an append of one partition has ended."""

    REFUSED = "refused"
    APPENDED = "appended"
    COMMITTED = "committed"
    PENDING = "pending"
    UNKNOWN = "unknown"


REFUSED, APPENDED, COMMITTED = AppendState.REFUSED, AppendState.APPENDED, AppendState.COMMITTED
PENDING, UNKNOWN = AppendState.PENDING, AppendState.UNKNOWN


@attrs.define(eq=False, repr=False)
class AppendOutcome:
    """What became of one `PartitionAppend`."""

    state: AppendState = REFUSED
    error: ErrorCode = NO_ERROR
    """Why, if the state is REFUSED or UNKNOWN."""
    base_offset: int = -1
    """Of the first record; -1 when nothing was appended."""
    end_offset: int = -1
    """One more than the offset of the last record; -1 when that is not known."""
    log_append_time_ms: int = -1
    """When the leader appended, for topics with LogAppendTime."""
    log_start_offset: int = -1
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()
    """(place in the batch, what is wrong) of each record that the batch was refused for (KIP-467)."""

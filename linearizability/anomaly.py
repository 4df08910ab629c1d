"""The anomalies by name. The first group are Jepsen's names for its Kafka workload; docs/history.md defines all."""

from __future__ import annotations

from enum import Enum

import attrs


class Name(Enum):
    """What is wrong."""

    DUPLICATE = "duplicate"
    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    LOST_WRITE = "lost-write"
    INT_POLL_SKIP = "int-poll-skip"
    POLL_SKIP = "poll-skip"
    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    INT_SEND_SKIP = "int-send-skip"
    INT_NONMONOTONIC_SEND = "int-nonmonotonic-send"
    NONMONOTONIC_SEND = "nonmonotonic-send"

    ABORTED_READ = "aborted-read"
    UNWRITTEN_READ = "unwritten-read"
    STALE_READ = "stale-read"
    END_OFFSET_REGRESSION = "end-offset-regression"
    APPEND_BELOW_END = "append-below-end"
    READ_BEYOND_HIGH_WATERMARK = "read-beyond-high-watermark"
    OFFSET_HOLE = "offset-hole"

    REUSED_VALUE = "reused-value"
    """No anomaly of the log: the history breaks the rule that a value names one record, so it cannot be checked."""
    UNDECIDED = "undecided"
    """Neither: the search for a filling of the holes met its limit."""

    @property
    def violates(self) -> bool:
        return self not in (Name.REUSED_VALUE, Name.UNDECIDED)


@attrs.frozen
class Anomaly:
    """One kind of anomaly in one partition: the operations of its first occurrence, how many there are, and why."""

    history: int
    name: Name
    topic: str
    partition: int
    operations: tuple[int, ...]
    count: int
    witness: str

    def __str__(self) -> str:
        times = "" if self.count == 1 else f" (and {self.count - 1} more)"
        return f"history {self.history}, {self.topic}-{self.partition}: {self.name.value}{times}: {self.witness}"

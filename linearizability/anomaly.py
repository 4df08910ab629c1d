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

    PRECOMMITTED_READ = "precommitted-read"
    INTERMEDIATE_READ = "intermediate-read"
    FRACTURED_TRANSACTION = "fractured-transaction"
    READ_BEYOND_LSO = "read-beyond-lso"
    OFFSETS_OVERLAP = "offsets-overlap"
    OFFSETS_SKIP = "offsets-skip"
    OFFSETS_BEYOND_READS = "offsets-beyond-reads"
    G0 = "G0"
    G0_PROCESS = "G0-process"
    G0_REALTIME = "G0-realtime"
    G1C = "G1c"
    G1C_PROCESS = "G1c-process"
    G1C_REALTIME = "G1c-realtime"
    G1C_WW = "G1c-ww"
    G1C_WW_PROCESS = "G1c-ww-process"
    G1C_WW_REALTIME = "G1c-ww-realtime"
    G_SINGLE = "G-single"
    G_SINGLE_PROCESS = "G-single-process"
    G_SINGLE_REALTIME = "G-single-realtime"
    G2 = "G2"
    G2_PROCESS = "G2-process"
    G2_REALTIME = "G2-realtime"

    ASSIGNED_TWICE = "assigned-twice"
    UNASSIGNED = "unassigned"
    TWO_COMMITTERS = "two-committers"
    COMMIT_OF_FORMER_GENERATION = "commit-of-former-generation"
    FAILED_COMMIT_READ = "failed-commit-read"
    COMMIT_READ_TOO_SOON = "commit-read-too-soon"
    UNSTABLE_OFFSET_READ = "unstable-offset-read"
    COMMITTED_OFFSET_ORDER = "committed-offset-order"
    NONMONOTONIC_DELIVERY = "nonmonotonic-delivery"
    SKIPPED_DELIVERY = "skipped-delivery"
    DOUBLED_DELIVERY = "doubled-delivery"
    LOST_DELIVERY = "lost-delivery"
    DELIVERED_AFTER_COMMIT = "delivered-after-commit"
    UNDELIVERED = "undelivered"

    REUSED_VALUE = "reused-value"
    """No anomaly of the log: the history breaks the rule that a value names one record, so it cannot be checked."""
    UNDECIDED = "undecided"
    """Neither: the search for a filling of the holes met its limit."""

    @property
    def of_transactions(self) -> bool:
        """Whether only a history with transactions can have it."""
        names = list(Name)
        return names.index(Name.PRECOMMITTED_READ) <= names.index(self) <= names.index(Name.G2_REALTIME)

    @property
    def of_groups(self) -> bool:
        """Whether only a history with members of groups can have it."""
        names = list(Name)
        return names.index(Name.ASSIGNED_TWICE) <= names.index(self) <= names.index(Name.UNDELIVERED)

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

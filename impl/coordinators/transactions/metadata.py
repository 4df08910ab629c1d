"""What the coordinator knows of one transactional id: the last record of its log says all of it (KIP-98, KIP-890)."""

from __future__ import annotations

from collections.abc import Set
from enum import IntEnum
from typing import Final, NamedTuple

import attrs

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
MAX_EPOCH: Final = 32_767
"""No producer is given the largest epoch there is, so that every producer can be fenced."""
NO_TIMEOUT: Final = (1 << 31) - 1
"""The time-out of a transaction that a database decides with its producer: it has none (KIP-939)."""
EPOCH_PER_TRANSACTION: Final = 2
"""The transaction version from which on a producer's epoch rises with each transaction (KIP-890)."""


class TopicPartition(NamedTuple):
    """A partition that takes part in a transaction."""

    topic: str
    partition: int


class TransactionStatus(IntEnum):
    """The state of a transactional id, under the numbers that the log has."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """As DescribeTransactions and ListTransactions say it."""
        return _KAFKA_NAMES[self]


_KAFKA_NAMES: Final = {one: "".join(word.capitalize() for word in one.name.split("_")) for one in TransactionStatus}
PREPARED: Final = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)
"""The outcome is decided, and not every partition has its marker."""
COMMITTING: Final = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)


@attrs.frozen
class TransactionMetadata:
    """One record of the transaction log."""

    producer_id: int
    epoch: int = NO_EPOCH
    status: TransactionStatus = TransactionStatus.EMPTY
    timeout_ms: int = 0
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last change of the epoch, if its producer may not know yet of that change."""
    next_producer_id: int = NO_PRODUCER_ID
    """The id that replaces the present one when the transaction is complete: its epochs are used up."""
    partitions: Set[TopicPartition] = frozenset()
    """Of the transaction; once it is prepared, those in the cache have yet to acknowledge their marker."""
    last_update_ms: int = NO_TIME
    start_ms: int = NO_TIME
    client_version: int = 0
    """The transaction version that the client speaks: below 2 its epoch is the same for many transactions."""
    ongoing_producer_id: int = NO_PRODUCER_ID
    """The producer id under which a transaction was begun that another process has taken over (KIP-939)."""
    ongoing_epoch: int = NO_EPOCH
    """The epoch under which that was begun: with the id, what a database knows it by."""

    @property
    def is_taken_over(self) -> bool:
        """Whether the transaction was begun by a process before the present one, which ends it."""
        return self.ongoing_epoch != NO_EPOCH

    @property
    def ongoing(self) -> tuple[int, int]:
        """The producer id and the epoch that the open transaction was begun under."""
        if self.is_taken_over:
            return self.ongoing_producer_id, self.ongoing_epoch
        return self.producer_id, self.epoch

    @property
    def is_commit(self) -> bool:
        """Whether the transaction that is prepared or complete is a commit."""
        return self.status in COMMITTING

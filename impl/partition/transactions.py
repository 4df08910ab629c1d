"""Transactions of one partition, as one replica's log has them: which are open, which ended a moment ago (KIP-98).

Theory of operation
-------------------
A producer has one transaction at a time. In a partition it begins with the producer's first transactional batch, and
ends with a marker, a control batch that its coordinator writes. Until it ends nobody knows what becomes of its records,
so a reader with read_committed reads only up to the *last stable offset* (LSO): the first record of the earliest
transaction that is *undecided*, at most the high watermark.

Undecided are the open ones, and those whose marker is not committed yet: another leader may not have it, and readers
have to see the same there. So the LSO does not pass a transaction before the high watermark has passed its marker.

All of this is a function of the log. `ProducerStates` tells it of batches and markers in the order of their offsets. A
snapshot says which transactions are open, not which ended a moment ago; so a restart reads the log from before the
first marker that the high watermark has not passed. Kafka does not, and its LSO may step back at the next election.
"""

from __future__ import annotations

from typing import NamedTuple


class AbortedTransaction(NamedTuple):
    """An aborted transaction, as the transaction index has it."""

    producer_id: int
    first_offset: int
    """Of its first record."""
    last_offset: int
    """Of its abort marker."""
    last_stable_offset: int
    """What no open transaction held back when the marker was appended."""


class EndedTransaction(NamedTuple):
    """A transaction whose marker is in the log."""

    first_offset: int
    last_offset: int


class Transactions:
    """The undecided transactions of one partition."""

    __slots__ = ("ended", "open")

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        """Of each producer with an open one the offset of its first record; the earliest comes first."""
        self.ended: list[EndedTransaction] = []
        """Those that ended, in the order of their markers, until the high watermark has passed them."""

    def begin(self, producer_id: int, offset: int) -> None:
        """A producer's transaction begins with the record at this offset, unless it has."""
        self.open.setdefault(producer_id, offset)

    def end(self, producer_id: int, offset: int, *, aborted: bool) -> AbortedTransaction | None:
        """A marker at this offset ends a producer's transaction; returns the entry of the index for one that it aborts.

        A marker without a transaction, such as one that is sent again, ends nothing.
        """
        first_offset = self.open.pop(producer_id, None)
        if first_offset is None:
            return None
        self.ended.append(EndedTransaction(first_offset, offset))
        if not aborted:
            return None
        return AbortedTransaction(producer_id, first_offset, offset, next(iter(self.open.values()), offset + 1))

    def ended_before(self, offset: int) -> Transactions:
        """What stays known when the log is read again from an offset on."""
        kept = Transactions()
        kept.ended = [one for one in self.ended if one.last_offset < offset]
        return kept

    def first_undecided_offset(self, high_watermark: int) -> int | None:
        """Where the earliest undecided transaction begins; None when there is none."""
        ended = self.ended
        passed = 0
        while passed < len(ended) and ended[passed].last_offset < high_watermark:
            passed += 1
        del ended[:passed]
        first = next(iter(self.open.values()), None)
        if not ended:
            return first
        earliest = min(ended).first_offset
        return earliest if first is None else min(first, earliest)

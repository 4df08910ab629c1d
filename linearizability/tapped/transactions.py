"""The history of the topics that have transactions, and of what is committed for groups in them.

A producer's transaction begins with the first thing that it does since the end of the one before, and ends with the
attempts to end it: one commit, or one abort, however often it was tried. Of a transaction of others nobody knows how it
has ended: each of their records that was read counts as one whose end is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from tidegauge.linearizability.history import UNKNOWN, Kind, Operation, Outcome
from tidegauge.linearizability.tapped.lines import TRANSACTIONAL, Committed, Ended, Sent
from tidegauge.linearizability.tapped.logs import OTHERS, Partition
from tidegauge.linearizability.tapped.numbering import Numbering

CERTAINLY_NOT: Final = frozenset(
    {
        47,  # INVALID_PRODUCER_EPOCH
        48,  # INVALID_TXN_STATE
        49,  # INVALID_PRODUCER_ID_MAPPING
        51,  # CONCURRENT_TRANSACTIONS
        53,  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        90,  # PRODUCER_FENCED
    }
)
"""Errors with which a coordinator says that it has not ended the transaction.

Not among them: COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR, with which it also responds when it has appended the end
and does not know what becomes of it, and COORDINATOR_LOAD_IN_PROGRESS, when it loads the log again after that.
"""
ProducerEpoch = tuple[int, int]


@attrs.define(eq=False)
class Transaction:
    """One transaction of a producer."""

    number: int
    process: int
    first_call: int
    ends: list[Ended] = attrs.field(factory=list)


@attrs.define(eq=False)
class Transactions:
    """All transactions, and of which one each thing is."""

    numbering: Numbering
    all: list[Transaction] = attrs.field(factory=list)
    _of: dict[ProducerEpoch, list[Transaction]] = attrs.field(factory=dict)

    @classmethod
    def found(cls, does: Iterable[Sent | Committed | Ended], numbering: Numbering) -> Transactions:
        """The transactions in which producers have done something."""
        transactions = cls(numbering)
        processes: dict[int, int] = {}
        for one in sorted(does, key=lambda one: one.call):
            assert one.producer is not None
            producer = one.producer[:2]
            mine = transactions._of.setdefault(producer, [])
            if isinstance(one, Ended):
                if mine:  # else all that it ends was before the recording, or nothing
                    mine[-1].ends.append(one)
            elif not mine or mine[-1].ends:
                if producer[0] not in processes:
                    processes[producer[0]] = numbering.process()
                new = Transaction(len(transactions.all), processes[producer[0]], one.call)
                transactions.all.append(new)
                mine.append(new)
        return transactions

    def of(self, producer: Sequence[int], call: int) -> Transaction:
        """The transaction in which a producer did something at a time."""
        mine = self._of[producer[0], producer[1]]
        return next(one for one in reversed(mine) if one.first_call <= call)

    def ends(self) -> Iterable[Operation]:
        """A row for each end that somebody has called."""
        return (_end(one) for one in self.all if one.ends)

    def other(self) -> Transaction:
        """A transaction of others."""
        new = Transaction(len(self.all), self.numbering.process(), 0)
        self.all.append(new)
        return new


def _end(transaction: Transaction) -> Operation:
    """The end that counts: one that was carried out, else one that may have been, else that which was refused."""

    def rank(end: Ended) -> int:
        return {Outcome.OK: 0, Outcome.INFO: 1, Outcome.FAIL: 2}[_outcome(end)]

    chosen = min(transaction.ends, key=rank)
    outcome = _outcome(chosen)
    alike = [one for one in transaction.ends if one.commit == chosen.commit]
    returned = None
    if outcome is Outcome.OK:
        returned = min(one.returned for one in alike if _outcome(one) is Outcome.OK and one.returned is not None)
    elif outcome is Outcome.FAIL:
        returned = max(one.returned or 0 for one in alike)
    return Operation(
        index=0,
        process=transaction.process,
        kind=Kind.COMMIT if chosen.commit else Kind.ABORT,
        outcome=outcome,
        topic="",
        partition=0,
        call=min(one.call for one in alike),
        returned=returned,
        transaction=transaction.number,
    )


def _outcome(end: Ended) -> Outcome:
    if end.returned is None or end.error is None:
        return Outcome.INFO
    if not end.error:
        return Outcome.OK
    return Outcome.FAIL if end.error in CERTAINLY_NOT else Outcome.INFO


def within(rows: Iterable[Operation], partition: Partition, transactions: Transactions) -> list[Operation]:
    """The rows of what was sent, each with its transaction if it is of one. They are in the order of the produces."""
    found = []
    produces = iter(partition.produces)
    for row in rows:
        if row.kind is Kind.PRODUCE:
            one = next(produces)
            if one.sent.transactional and one.sent.producer is not None:
                mine = transactions.of(one.sent.producer, one.call)
                row = attrs.evolve(row, process=mine.process, transaction=mine.number)
        found.append(row)
    return found


def sent_by_others(
    partition: Partition, found: Sequence[tuple[int, int, int]], transactions: Transactions
) -> Iterable[Operation]:
    """Rows for records that others have sent: those in transactions may be committed or not."""
    for _, name, value in found:
        sent = Operation(
            index=0,
            process=transactions.numbering.process(),
            kind=Kind.PRODUCE,
            outcome=Outcome.INFO,
            topic=partition.topic,
            partition=partition.number,
            call=0,
            values=(name,),
            meta=OTHERS,
        )
        if value & TRANSACTIONAL:
            mine = transactions.other()
            yield attrs.evolve(sent, process=mine.process, transaction=mine.number)
            yield attrs.evolve(
                sent,
                kind=Kind.COMMIT,
                process=mine.process,
                topic="",
                partition=0,
                offset=UNKNOWN,
                values=(),
                transaction=mine.number,
                meta=None,
            )
        else:
            yield sent

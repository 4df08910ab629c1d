"""One history with transactions, as a person would tell it: who wrote and read what, and what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cached_property

import attrs

from tidegauge.linearizability.evidence import is_strong
from tidegauge.linearizability.history import (
    NEVER,
    UNKNOWN,
    Isolation,
    Kind,
    Operation,
    Outcome,
)

Partition = tuple[str, int]


class Result(Enum):
    """What became of a transaction, as far as its own client was told."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@attrs.frozen(eq=False)
class Transaction:
    """The rows of one transaction; or one send or fetch outside of any, which is a transaction by itself."""

    number: int
    rows: tuple[Operation, ...]
    alone: bool = False

    @cached_property
    def end(self) -> Operation | None:
        """The commit or abort."""
        ends = (row for row in self.rows if row.kind in (Kind.COMMIT, Kind.ABORT))
        return next(ends, None)

    @cached_property
    def result(self) -> Result:
        """What its client was told. Without a commit it cannot have been committed."""
        if self.end is None or self.end.kind is Kind.ABORT:
            return Result.ABORTED
        return {Outcome.OK: Result.COMMITTED, Outcome.FAIL: Result.ABORTED, Outcome.INFO: Result.UNKNOWN}[
            self.end.outcome
        ]

    @property
    def call(self) -> int:
        return min(row.call for row in self.rows)

    @property
    def returned(self) -> int:
        """When it was surely over; NEVER where nobody knows."""
        last = self.rows[0] if self.alone else self.end
        sure = last is not None and last.outcome is Outcome.OK and (last.kind is not Kind.PRODUCE or last.acks == -1)
        return last.returned if sure and last is not None and last.returned is not None else NEVER

    @property
    def closing(self) -> int:
        """From when on its records may be stable: the call of its end."""
        last = self.rows[0] if self.alone else self.end
        return NEVER if last is None else last.call

    def __str__(self) -> str:
        return f"#{self.rows[0].index}" if self.alone else f"transaction {self.number}"


@attrs.frozen(eq=False)
class Record:
    """A record that was sent."""

    value: int
    produce: Operation
    number: int
    """Its place in its batch."""
    transaction: Transaction


@attrs.frozen(eq=False)
class Fetch:
    """A completed fetch. `begin` and `end` are UNKNOWN where nobody knows."""

    row: Operation
    begin: int
    end: int
    transaction: Transaction

    @property
    def careful(self) -> bool:
        """Whether it was read_committed."""
        return self.row.isolation is Isolation.READ_COMMITTED


class Story:
    """A history. What is looked up is worked out once."""

    def __init__(self, rows: Sequence[Operation]) -> None:
        self.rows = tuple(rows)
        held: dict[int, list[Operation]] = {}
        for row in rows:
            if row.transaction is not None:
                held.setdefault(row.transaction, []).append(row)
        self.transactions = {number: Transaction(number, tuple(mine)) for number, mine in held.items()}
        self._alone: dict[int, Transaction] = {}
        self.records: dict[tuple[Partition, int], Record] = {}
        self.reused: list[tuple[Operation, Operation, int]] = []
        for row in self.produces:
            for number, value in enumerate(row.values):
                record = Record(value, row, number, self.whole(row))
                first = self.records.setdefault((where(row), value), record)
                if first is not record:
                    self.reused.append((first.produce, row, value))

    @property
    def produces(self) -> list[Operation]:
        return [row for row in self.rows if row.kind is Kind.PRODUCE]

    def whole(self, row: Operation) -> Transaction:
        """The transaction of a row."""
        if row.transaction is not None:
            return self.transactions[row.transaction]
        return self._alone.setdefault(row.index, Transaction(row.index, (row,), alone=True))

    @cached_property
    def fetches(self) -> list[Fetch]:
        """The completed fetches, by index."""
        found: list[Fetch] = []
        ends: dict[tuple[int, Partition], int] = {}
        for row in self.rows:
            if row.kind is not Kind.FETCH or row.outcome is Outcome.FAIL:
                continue
            key = (row.process, where(row))
            if row.outcome is Outcome.INFO:
                ends.pop(key, None)
                continue
            begin = row.offset if row.offset != UNKNOWN else ends.get(key, UNKNOWN)
            end = row.placed[-1] + 1 if row.values else begin
            whole = self.whole(row)
            if not whole.alone and whole.result is not Result.COMMITTED:
                ends.pop(key, None)
            elif end != UNKNOWN:
                ends[key] = end
            found.append(Fetch(row, row.placed[0] if row.values and begin == UNKNOWN else begin, end, whole))
        return found

    @cached_property
    def sightings(self) -> dict[tuple[Partition, int], list[tuple[int, Fetch]]]:
        """By partition and value, at which offsets which fetches read it."""
        found: dict[tuple[Partition, int], list[tuple[int, Fetch]]] = {}
        for fetch in self.fetches:
            for offset, value in zip(fetch.row.placed, fetch.row.values, strict=True):
                found.setdefault((where(fetch.row), value), []).append((offset, fetch))
        return found

    @cached_property
    def bases(self) -> dict[int, tuple[int, Operation]]:
        """By the index of a produce, the base offset of its batch, and the operation that tells it."""
        found: dict[int, tuple[int, Operation]] = {}
        for row in self.produces:
            if is_strong(row):
                found[row.index] = (row.offset, row)
                continue
            for number, value in enumerate(row.values):
                seen = self.sightings.get((where(row), value))
                if seen:
                    found[row.index] = (seen[0][0] - number, seen[0][1].row)
                    break
        return found

    @cached_property
    def logs(self) -> dict[Partition, dict[int, list[Record]]]:
        """By partition, the records at each offset."""
        found: dict[Partition, dict[int, list[Record]]] = {}
        for record in self.records.values():
            if record.produce.index in self.bases:
                offset = self.bases[record.produce.index][0] + record.number
                found.setdefault(where(record.produce), {}).setdefault(offset, []).append(record)
        return {key: dict(sorted(log.items())) for key, log in found.items()}

    @cached_property
    def readers(self) -> dict[int, tuple[Record, Fetch]]:
        """By its number, the first read_committed read of a record of each transaction."""
        found: dict[int, tuple[Record, Fetch]] = {}
        for fetch in self.fetches:
            for value in fetch.row.values if fetch.careful else ():
                record = self.records.get((where(fetch.row), value))
                if record is not None and not record.transaction.alone:
                    found.setdefault(record.transaction.number, (record, fetch))
        return found

    def committed(self, transaction: Transaction) -> bool:
        """Whether it is committed: its client was told so, or a read_committed fetch returned a record of it."""
        if transaction.alone or transaction.result is Result.COMMITTED:
            return True
        return transaction.result is Result.UNKNOWN and transaction.number in self.readers

    @cached_property
    def visible(self) -> dict[Partition, dict[int, Record]]:
        """By partition, the record at each offset that a read_committed fetch is to return."""
        return {
            key: {offset: held[0] for offset, held in log.items() if self.committed(held[0].transaction)}
            for key, log in self.logs.items()
        }

    @cached_property
    def there(self) -> dict[Partition, dict[int, Record]]:
        """By partition, the record at each offset, whatever became of its transaction."""
        return {key: {offset: held[0] for offset, held in log.items()} for key, log in self.logs.items()}

    @cached_property
    def firsts(self) -> dict[tuple[int, Partition], int]:
        """By transaction and partition, the offset of its first record there."""
        found: dict[tuple[int, Partition], int] = {}
        for key, log in self.there.items():
            for offset, record in log.items():
                if not record.transaction.alone:
                    found.setdefault((record.transaction.number, key), offset)
        return found

    def tears(self, key: Partition, stable: int, first: int, last: int) -> bool:
        """Whether a last stable offset cuts what is between `first` and `last`, and no other transaction begins there.

        Where nobody knows what is there, one may begin.
        """
        record = self.there.get(key, {}).get(stable)
        if record is None or not first < stable <= last:
            return False
        return record.transaction.alone or self.firsts[record.transaction.number, key] != stable

    @cached_property
    def offsets(self) -> dict[bool, dict[Partition, list[int]]]:
        """The offsets of `visible` (True) and of `there`."""
        return {
            careful: {key: list(log) for key, log in logs.items()}
            for careful, logs in ((True, self.visible), (False, self.there))
        }


def where(row: Operation) -> Partition:
    """The partition of a row."""
    return row.topic, row.partition

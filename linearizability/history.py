"""What a history is: everything that the clients of a log saw, one row an operation.

An operation is an invocation paired with its completion. `Operations` holds many of them, of one history or of a
million, as a structure of numpy arrays; every rule of this package reads that. `History` builds one history row by
row and `Operation` is a row by itself: for simulations, tests and witnesses. docs/history.md documents
each column; `files.py` reads and writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import repeat
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from tidegauge.linearizability.membership import Membership
from tidegauge.linearizability.transactional import NONE, Transactional

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int8]
Indices = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

UNKNOWN = -1
"""An offset, position or high watermark that nobody knows."""

NEVER = int(np.iinfo(np.int64).max)
"""The return time of an operation that never returned."""


class Kind(IntEnum):
    """What was asked of the partition. Election and settled are declarations about it; begin to commit_offsets are of
    transactions, and the last eight of groups.
    """

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    ELECTION = 3
    SETTLED = 4
    BEGIN = 5
    COMMIT = 6
    ABORT = 7
    COMMIT_OFFSETS = 8
    MEMBER = 9
    EXPECT = 10
    ASSIGN = 11
    RELEASE = 12
    READ_OFFSETS = 13
    DELIVER = 14
    AT_MOST_ONCE = 15


ENDS_AND_BEGINNINGS = (Kind.BEGIN, Kind.COMMIT, Kind.ABORT)
"""What a transaction does as a whole: these rows name no topic and no partition."""

OF_GROUPS = (Kind.MEMBER, Kind.EXPECT, Kind.ASSIGN, Kind.RELEASE, Kind.READ_OFFSETS, Kind.DELIVER, Kind.AT_MOST_ONCE)
"""What only members of a group are told, or do, or what is known of them."""
OF_MANY = (Kind.EXPECT, Kind.ASSIGN, Kind.RELEASE)
"""Rows about many partitions of a topic at once: their values are the partitions."""
NAMELESS = (*ENDS_AND_BEGINNINGS, Kind.MEMBER, *OF_MANY, Kind.AT_MOST_ONCE)
"""Rows that need no topic."""
DECLARED = (Kind.ELECTION, Kind.SETTLED, Kind.MEMBER, Kind.EXPECT, Kind.RELEASE, Kind.AT_MOST_ONCE)
"""What takes no time: the recorder knows it."""


class Outcome(IntEnum):
    """ok: done; fail: certainly not done; info: nobody knows."""

    OK = 0
    FAIL = 1
    INFO = 2


class Isolation(IntEnum):
    """Kafka's isolation levels, by their codes on the wire."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@attrs.frozen
class Operation:
    """One operation. Times are nanoseconds since the history began; `returned` is None if it never did."""

    index: int
    process: int
    kind: Kind
    outcome: Outcome
    topic: str
    partition: int
    call: int
    returned: int | None = None
    offset: int = UNKNOWN
    values: tuple[int, ...] = ()
    offsets: tuple[int, ...] | None = None
    high_watermark: int | None = None
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    acks: int = -1
    meta: str | None = None
    history: int = 0
    transaction: int | None = None
    group: int | None = None
    last_stable_offset: int | None = None
    generation: int | None = None
    member: int | None = None
    found: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.offsets is not None and len(self.offsets) != len(self.values):
            raise ValueError(
                f"operation {self.index} has {len(self.values)} values and {len(self.offsets)} offsets: "
                "give one offset for each value, or none when they are contiguous from `offset`"
            )
        if self.returned is not None and self.returned < self.call:
            raise ValueError(
                f"operation {self.index} returned at {self.returned} before its call at {self.call}: "
                "take both times from one monotonic clock"
            )

    @property
    def placed(self) -> tuple[int, ...]:
        """The offset of each value; UNKNOWN where nobody knows."""
        if self.offsets is not None:
            return self.offsets
        if self.offset == UNKNOWN:
            return (UNKNOWN,) * len(self.values)
        return tuple(range(self.offset, self.offset + len(self.values)))

    def __str__(self) -> str:
        until = "never returned" if self.returned is None else str(self.returned)
        outcome = "" if self.outcome is Outcome.OK else f" ({self.outcome.name.lower()})"
        return f"#{self.index} p{self.process} [{self.call}, {until}] {self.words}{outcome}"

    @property
    def words(self) -> str:
        """What was asked and told, without who and when."""
        said = _SAYS[self.kind](self, f"{self.topic}-{self.partition}")
        if self.kind is Kind.PRODUCE and self.outcome is Outcome.OK:
            said += f" at {self.offset}, acks={'all' if self.acks == -1 else self.acks}"
        if self.kind is Kind.FETCH and self.high_watermark is not None:
            said += f", HW {self.high_watermark}"
        if self.last_stable_offset is not None:
            said += f", LSO {self.last_stable_offset}"
        if self.transaction is not None:
            said += f" in transaction {self.transaction}"
        if self.generation is not None:
            said += f" in generation {self.generation}"
        return said


def _shared(one: Operation) -> str:
    return f"{list(one.values)} of {one.topic}" if one.values else "nothing"


def _fetched(one: Operation, where: str) -> str:
    position = "where its last one ended" if one.offset == UNKNOWN else one.offset
    return f"fetch from {where} at {position} read {list(one.values)}"


def _found(one: Operation, where: str) -> str:
    committed = "nothing" if one.offset == UNKNOWN else f"offset {one.offset}"
    return f"finds that group {one.group} has committed {committed} of {where}"


def _delivered(one: Operation, where: str) -> str:
    offsets = one.placed or (one.offset,)
    span = f" {offsets[0]}" if len(offsets) == 1 else f"s {offsets[0]} to {offsets[-1]}"
    return f"group {one.group} is delivered offset{span} of {where}"


_SAYS: Final[Mapping[Kind, Callable[[Operation, str], str]]] = {
    Kind.PRODUCE: lambda one, where: f"produce {list(one.values)} to {where}",
    Kind.FETCH: _fetched,
    Kind.LIST_OFFSETS: lambda one, where: f"end offset of {where} is {one.offset}",
    Kind.ELECTION: lambda one, where: f"unclean election of {where} from {one.offset}",
    Kind.SETTLED: lambda one, where: f"{where} settled" + (f" up to {one.offset}" if one.group is not None else ""),
    Kind.BEGIN: lambda _one, _where: "begin",
    Kind.COMMIT: lambda _one, _where: "commit",
    Kind.ABORT: lambda _one, _where: "abort",
    Kind.COMMIT_OFFSETS: lambda one, where: f"group {one.group} commits offset {one.offset} of {where}",
    Kind.MEMBER: lambda one, _where: f"is a member of group {one.group}",
    Kind.EXPECT: lambda one, _where: f"group {one.group} has to share out {_shared(one)}",
    Kind.ASSIGN: lambda one, _where: f"group {one.group} assigns it {_shared(one)}",
    Kind.RELEASE: lambda one, _where: f"gives back to group {one.group} {_shared(one)}",
    Kind.READ_OFFSETS: _found,
    Kind.DELIVER: _delivered,
    Kind.AT_MOST_ONCE: lambda one, _where: f"group {one.group} promises to be delivered each record at most once",
}
"""What a row of each kind says, of a partition where it is about one."""


@attrs.frozen(eq=False)
class Operations:
    """Operations as arrays of n rows, sorted by history and index; a history's rows are neighbours.

    Row i holds values[starts[i] : starts[i + 1]]. `offsets` runs parallel to `values`, or is None when the values of
    every row are contiguous from its `offset`. UNKNOWN stands for an absent offset or high watermark, NEVER for a
    return that did not come. `topic` indexes `topics`.
    """

    history: Ints
    index: Indices
    process: Indices
    kind: Codes
    outcome: Codes
    topic: Indices
    partition: Indices
    offset: Ints
    starts: Ints
    values: Ints
    offsets: Ints | None
    high_watermark: Ints
    isolation: Codes
    acks: Codes
    call: Ints
    returned: Ints
    topics: tuple[str, ...]
    meta: tuple[str | None, ...] | None = None
    transactional: Transactional | None = None
    """None where no row has to do with transactions, or with groups."""
    membership: Membership | None = None
    """None where no row has to do with members of groups."""

    def __len__(self) -> int:
        return len(self.history)

    @property
    def counts(self) -> Ints:
        """How many values each row has."""
        return np.diff(self.starts)

    @property
    def history_starts(self) -> Ints:
        """The row at which each history begins, and n."""
        if not len(self):
            return np.zeros(1, np.int64)
        first = np.flatnonzero(self.history[1:] != self.history[:-1]) + 1
        return np.concatenate(([0], first, [len(self)])).astype(np.int64)

    def record_offsets(self) -> Ints:
        """The offset of each value, UNKNOWN where nobody knows."""
        if self.offsets is not None:
            return self.offsets
        shift = self.offset - self.starts[:-1]
        placed: Ints = np.repeat(shift, self.counts) + np.arange(len(self.values))
        if (self.offset < 0).any():
            placed[np.repeat(self.offset < 0, self.counts)] = UNKNOWN
        return placed

    def slice(self, start: int, stop: int) -> Operations:
        """Rows start to stop, as views."""
        low, high = int(self.starts[start]), int(self.starts[stop])
        rows = {name: getattr(self, name)[start:stop] for name in _ROW_COLUMNS}
        return Operations(
            **rows,
            starts=self.starts[start : stop + 1] - low,
            values=self.values[low:high],
            offsets=None if self.offsets is None else self.offsets[low:high],
            topics=self.topics,
            meta=None if self.meta is None else self.meta[start:stop],
            transactional=None if self.transactional is None else self.transactional.slice(start, stop),
            membership=None if self.membership is None else self.membership.slice(start, stop),
        )

    def take(self, rows: Ints) -> Operations:
        """The given rows, in the given order, as copies."""
        first = self.starts[:-1][rows]
        counts = self.starts[1:][rows] - first  # of these rows alone: a few are taken of millions, again and again
        starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        records = np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])
        return Operations(
            **{name: getattr(self, name)[rows] for name in _ROW_COLUMNS},
            starts=starts,
            values=self.values[records],
            offsets=None if self.offsets is None else self.offsets[records],
            topics=self.topics,
            meta=None if self.meta is None else tuple(self.meta[row] for row in rows),
            transactional=None if self.transactional is None else self.transactional.take(rows),
            membership=None if self.membership is None else self.membership.take(rows),
        )

    def row(self, row: int) -> Operation:
        """Row `row` as a person reads it."""
        return next(iter(self.slice(row, row + 1)))

    def __iter__(self) -> Iterator[Operation]:
        kinds, outcomes, isolations = tuple(Kind), tuple(Outcome), tuple(Isolation)
        columns = (getattr(self, name).tolist() for name in _ROW_COLUMNS)
        starts, values = self.starts.tolist(), self.values.tolist()
        offsets = None if self.offsets is None else self.offsets.tolist()
        extra = self.transactional
        transactions, groups, stable = (
            (repeat(NONE),) * 3
            if extra is None
            else (extra.transaction.tolist(), extra.group.tolist(), extra.stable.tolist())
        )
        members: Iterable[Iterable[int]] = (
            (repeat(NONE),) * 3 if self.membership is None else (one.tolist() for one in self.membership.columns)
        )
        others = zip(transactions, groups, stable, *members, strict=False)
        for number, row in enumerate(zip(*columns, strict=True)):
            (history, index, process, kind, outcome, topic, partition, offset, mark, isolation, acks, call, back) = row
            transaction, group, lso, generation, member, found = (None if one == NONE else one for one in next(others))
            low, high = starts[number], starts[number + 1]
            yield Operation(
                index=index,
                process=process,
                kind=kinds[kind],
                outcome=outcomes[outcome],
                topic=self.topics[topic],
                partition=partition,
                call=call,
                returned=None if back == NEVER else back,
                offset=offset,
                values=tuple(values[low:high]),
                offsets=None if offsets is None else tuple(offsets[low:high]),
                high_watermark=None if mark == UNKNOWN else mark,
                isolation=isolations[isolation],
                acks=acks,
                meta=None if self.meta is None else self.meta[number],
                history=history,
                transaction=transaction,
                group=group,
                last_stable_offset=lso,
                generation=generation,
                member=member,
                found=found,
            )

    @classmethod
    def of(cls, rows: Iterable[Operation]) -> Operations:
        """Arrays of `rows`, sorted by history and index."""
        ordered = sorted(rows, key=lambda row: (row.history, row.index))
        topics = tuple(sorted({row.topic for row in ordered}))
        codes = {topic: code for code, topic in enumerate(topics)}
        explicit = any(row.offsets is not None for row in ordered)
        counts = [len(row.values) for row in ordered]

        def ints(column: Iterable[int | None], absent: int = UNKNOWN) -> Ints:
            return np.array([absent if item is None else item for item in column], np.int64)

        return cls(
            history=ints(row.history for row in ordered),
            index=ints(row.index for row in ordered).astype(np.int32),
            process=ints(row.process for row in ordered).astype(np.int32),
            kind=ints(row.kind for row in ordered).astype(np.int8),
            outcome=ints(row.outcome for row in ordered).astype(np.int8),
            topic=ints(codes[row.topic] for row in ordered).astype(np.int32),
            partition=ints(row.partition for row in ordered).astype(np.int32),
            offset=ints(row.offset for row in ordered),
            starts=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            values=ints(value for row in ordered for value in row.values),
            offsets=ints(offset for row in ordered for offset in row.placed) if explicit else None,
            high_watermark=ints(row.high_watermark for row in ordered),
            isolation=ints(row.isolation for row in ordered).astype(np.int8),
            acks=ints(row.acks for row in ordered).astype(np.int8),
            call=ints(row.call for row in ordered),
            returned=ints((row.returned for row in ordered), NEVER),
            topics=topics,
            meta=tuple(row.meta for row in ordered) if any(row.meta is not None for row in ordered) else None,
            transactional=Transactional.of((row.transaction, row.group, row.last_stable_offset) for row in ordered),
            membership=Membership.of((row.generation, row.member, row.found) for row in ordered),
        )


_ROW_COLUMNS = (
    "history", "index", "process", "kind", "outcome", "topic", "partition", "offset",
    "high_watermark", "isolation", "acks", "call", "returned",
)  # fmt: skip


def concatenate(parts: Sequence[Operations]) -> Operations:
    """All rows of `parts`, in order; topics are matched by name."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Operations.of(())
    topics = tuple(sorted({topic for part in parts for topic in part.topics}))
    codes = {topic: code for code, topic in enumerate(topics)}
    maps = [np.array([codes[topic] for topic in part.topics], np.int32) for part in parts]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ROW_COLUMNS}
    columns["topic"] = np.concatenate([names[part.topic] for names, part in zip(maps, parts, strict=True)])
    explicit = any(part.offsets is not None for part in parts)
    meta = [part.meta or (None,) * len(part) for part in parts]
    return Operations(
        **columns,
        starts=np.concatenate(([0], np.cumsum(np.concatenate([part.counts for part in parts])))).astype(np.int64),
        values=np.concatenate([part.values for part in parts]),
        offsets=np.concatenate([part.record_offsets() for part in parts]) if explicit else None,
        topics=topics,
        meta=tuple(text for part in meta for text in part) if any(part.meta for part in parts) else None,
        transactional=Transactional.concatenate([part.transactional for part in parts], [len(part) for part in parts]),
        membership=Membership.concatenate([part.membership for part in parts], [len(part) for part in parts]),
    )


def blocks(operations: Operations, size: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of runs of whole histories, of about `size` operations each."""
    bounds = operations.history_starts
    start = 0
    while start < len(operations):
        stop = int(bounds[np.searchsorted(bounds, min(start + size, len(operations)), side="left")])
        yield start, stop
        start = stop


class History:
    """A history in the making: `invoke`, then `ok`, `fail` or `info`; what is never completed counts as unknown."""

    def __init__(self, history: int = 0) -> None:
        self.id = history
        self._rows: list[Operation] = []
        self._open: set[int] = set()

    def __len__(self) -> int:
        return len(self._rows)

    def invoke(
        self,
        *,
        process: int,
        kind: Kind,
        partition: int = 0,
        call: int,
        topic: str = "topic",
        values: Sequence[int] = (),
        position: int = UNKNOWN,
        acks: int = -1,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        meta: str | None = None,
        transaction: int | None = None,
        group: int | None = None,
        generation: int | None = None,
        member: int | None = None,
    ) -> int:
        """An operation was called; returns its index, by which it is completed.

        `position`: where a fetch begins, or the offset that a group commits.
        """
        index = len(self._rows)
        row = Operation(
            history=self.id, index=index, process=process, kind=kind, outcome=Outcome.INFO, topic=topic,
            partition=partition, call=call, values=tuple(values), offset=position, acks=acks, isolation=isolation,
            meta=meta, transaction=transaction, group=group, generation=generation, member=member,
        )  # fmt: skip
        self._rows.append(row)
        self._open.add(index)
        return index

    def ok(
        self,
        index: int,
        *,
        returned: int,
        offset: int | None = None,
        values: Sequence[int] | None = None,
        offsets: Sequence[int] | None = None,
        high_watermark: int | None = None,
        last_stable_offset: int | None = None,
        generation: int | None = None,
        found: int | None = None,
        meta: str | None = None,
    ) -> None:
        """It succeeded. `offset`: base offset of a produce, result of a list_offsets or read_offsets. `values`: what a
        fetch read, or which partitions are assigned. `found`: the commit that a read_offsets has found.
        """
        row = self._close(index)
        self._rows[index] = attrs.evolve(
            row,
            outcome=Outcome.OK,
            returned=returned,
            offset=row.offset if offset is None else offset,
            values=row.values if values is None else tuple(values),
            offsets=None if offsets is None else tuple(offsets),
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            generation=row.generation if generation is None else generation,
            found=found,
            meta=row.meta if meta is None else meta,
        )

    def fail(self, index: int, *, returned: int, meta: str | None = None) -> None:
        """It certainly did not happen."""
        row = self._close(index)
        meta = row.meta if meta is None else meta
        self._rows[index] = attrs.evolve(row, outcome=Outcome.FAIL, returned=returned, meta=meta)

    def info(self, index: int, *, returned: int | None = None, meta: str | None = None) -> None:
        """Nobody knows whether it happened, or when it will."""
        row = self._close(index)
        self._rows[index] = attrs.evolve(row, returned=returned, meta=row.meta if meta is None else meta)

    def of_topic(self, index: int, topic: str) -> None:
        """What turns out later: the topic of an operation is called this."""
        self._rows[index] = attrs.evolve(self._rows[index], topic=topic)

    def election(
        self,
        *,
        offset: int,
        call: int,
        returned: int | None = None,
        partition: int = 0,
        topic: str = "topic",
        meta: str | None = None,
    ) -> None:
        """Declare an unclean election: see "Unclean elections" in docs/history.md."""
        self.declare(
            Kind.ELECTION, topic=topic, partition=partition, call=call, returned=returned, offset=offset, meta=meta
        )

    def settled(
        self, *, call: int, partition: int = 0, topic: str = "topic", group: int | None = None, offset: int = UNKNOWN
    ) -> None:
        """Declare that faults are over and reads called from now on see the true end of the log; or, of a group, that
        nobody works on the partition any more, and each offset below `offset` has a record.
        """
        self.declare(Kind.SETTLED, topic=topic, partition=partition, call=call, group=group, offset=offset)

    def declare(self, kind: Kind, *, call: int, process: int = UNKNOWN, topic: str = "topic", **said: Any) -> None:
        """A row that takes no time: what a process, or the recorder, knows. `said`: its other fields."""
        row = Operation(
            history=self.id, index=len(self._rows), process=process, kind=kind, outcome=Outcome.OK, topic=topic,
            call=call, **{"partition": 0, **said},
        )  # fmt: skip
        self._rows.append(row)

    def _close(self, index: int) -> Operation:
        if index not in self._open:
            raise ValueError(f"operation {index} is not open: complete each invocation once, by the index it returned")
        self._open.remove(index)
        return self._rows[index]

    def rows(self) -> tuple[Operation, ...]:
        """The operations so far, by index."""
        return tuple(self._rows)

    def operations(self) -> Operations:
        """The history as arrays."""
        return Operations.of(self._rows)

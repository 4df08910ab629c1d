"""Small random histories with transactions: what a log with markers shows its clients, and that with a lie in it."""

from __future__ import annotations

import random
from collections.abc import Callable

import attrs

from tidegauge.linearizability.history import UNKNOWN, Isolation, Kind, Operation, Operations, Outcome
from tidegauge.linearizability.malformed import split

GROUP = 5


@attrs.define
class _Log:
    """Records as (value, transaction, visible), None for a marker."""

    entries: list[tuple[int, int | None] | None] = attrs.field(factory=list)


@attrs.define
class _Process:
    number: int
    careful: bool
    free: int = 0
    transaction: int | None = None
    positions: dict[int, int] = attrs.field(factory=dict)
    polled: dict[int, int] = attrs.field(factory=dict)
    sought: set[int] = attrs.field(factory=set)
    """Partitions in which it has to say where it goes on."""


FLAWS = ("shared offsets", "open", "aborted", "half", "skipping")
"""What a broken system does: groups take no care of offsets, fetches show what is open, or aborted, or one partition
of a transaction only, or pass over records.
"""


class _System:
    """Two partitions, a few processes, one operation after the other; each has an interval around its instant."""

    def __init__(self, draws: random.Random, flaw: str | None) -> None:
        self.draws = draws
        self.flaw = flaw
        self.logs = (_Log(), _Log())
        self.results: dict[int, bool] = {}
        """Whether a transaction that ended was committed."""
        self.rows: list[Operation] = []
        self.value = 0
        self.group = {0: 0, 1: 0}
        self.processes = [_Process(number, draws.random() < 0.85) for number in range(draws.randint(1, 3))]
        self.now = 0
        self.consuming = draws.random() < 0.35
        """Whether its clients mostly consume, from partition 0."""
        if self.consuming:
            entries = [(value, None) for value in range(draws.randint(2, 5))]
            self.logs[0].entries.extend(entries)
            self.value = len(entries)
            for value, _ in entries:
                row = self._row(self.processes[0], Kind.PRODUCE)
                self.rows.append(attrs.evolve(row, values=(value,), offset=value))

    def run(self, steps: int) -> list[Operation]:
        for _ in range(steps):
            self.now += 2
            process = self.draws.choice(self.processes)
            if process.transaction is None and self.draws.random() < 0.8:
                process.transaction = len(self.results) + sum(one.transaction is not None for one in self.processes)
                process.polled = {}
            doing = self.draws.random()
            if doing < (0.1 if self.consuming else 0.4):
                self._send(process)
            elif doing < (0.6 if self.consuming else 0.7):
                self._poll(process, 0 if self.consuming else self.draws.randrange(2))
            elif process.transaction is not None:
                self._end(process)
        ordered = sorted(self.rows, key=lambda row: (row.call, row.index))
        return [attrs.evolve(row, index=number) for number, row in enumerate(ordered)]

    def _row(self, process: _Process, kind: Kind, partition: int = 0) -> Operation:
        call = max(process.free, self.now - self.draws.randint(0, 5))
        returned = max(call, self.now) + self.draws.randint(0, 5)
        process.free = returned
        row = Operation(
            index=len(self.rows), process=process.number, kind=kind, outcome=Outcome.OK, topic="t",
            partition=partition, call=call, returned=returned, transaction=process.transaction,
        )  # fmt: skip
        self.now = max(call, self.now)
        return row

    def _send(self, process: _Process) -> None:
        partition = self.draws.randrange(2)
        row = self._row(process, Kind.PRODUCE, partition)
        values = tuple(range(self.value, self.value + self.draws.choice((1, 1, 2))))
        self.value += len(values)
        entries = self.logs[partition].entries
        outcome = self.draws.choices(list(Outcome), (8, 1, 1))[0]
        offset = len(entries)
        if outcome is Outcome.OK or (outcome is Outcome.INFO and self.draws.random() < 0.5):
            entries += [(value, process.transaction) for value in values]
        known = offset if outcome is Outcome.OK else UNKNOWN
        self.rows.append(attrs.evolve(row, outcome=outcome, values=values, offset=known))

    def _stable(self, partition: int) -> int:
        entries = self.logs[partition].entries
        ongoing = (
            at
            for at, entry in enumerate(entries)
            if entry is not None and entry[1] is not None and entry[1] not in self.results
        )
        return next(ongoing, len(entries))

    def _shows(self, transaction: int | None, partition: int) -> bool:
        """Whether a read_committed fetch returns a record."""
        if self.flaw == "skipping" and self.draws.random() < 0.2:
            return False
        if transaction is None:
            return True
        if self.flaw == "half" and partition == 1:
            return False
        return self.results.get(transaction, True) or self.flaw == "aborted"

    def _poll(self, process: _Process, partition: int) -> None:
        row = self._row(process, Kind.FETCH, partition)
        entries = self.logs[partition].entries
        position = process.positions.get(partition, 0)
        stable = self._stable(partition)
        end = stable if process.careful and self.flaw != "open" else len(entries)
        until = min(end, position + self.draws.randint(1, 4))
        shown = [
            (at, entry[0])
            for at, entry in enumerate(entries[position:until], position)
            if entry is not None and (not process.careful or self._shows(entry[1], partition))
        ]
        process.positions[partition] = shown[-1][0] + 1 if shown else position
        process.polled.setdefault(partition, position)
        told = self.draws.random() < 0.8 or partition in process.sought
        process.sought.discard(partition)
        self.rows.append(
            attrs.evolve(
                row,
                isolation=Isolation(int(process.careful)),
                offset=position if told else UNKNOWN,
                values=tuple(value for _, value in shown),
                offsets=tuple(at for at, _ in shown),
                last_stable_offset=stable if self.draws.random() < 0.5 else None,
                high_watermark=len(entries) if self.draws.random() < 0.3 else None,
            )
        )

    def _end(self, process: _Process) -> None:
        assert process.transaction is not None
        commit = self.draws.random() < 0.7
        for partition, begin in process.polled.items():
            if commit and (begin == self.group[partition] or self.flaw == "shared offsets"):
                row = self._row(process, Kind.COMMIT_OFFSETS, partition)
                self.rows.append(attrs.evolve(row, group=GROUP, offset=process.positions[partition]))
        outcome = self.draws.choices(list(Outcome), (7, 1, 2))[0]
        happened = commit and (outcome is Outcome.OK or (outcome is Outcome.INFO and self.draws.random() < 0.5))
        row = self._row(process, Kind.COMMIT if commit else Kind.ABORT)
        self.rows.append(attrs.evolve(row, outcome=outcome))
        number = process.transaction
        self.results[number] = happened
        for log in self.logs:
            if any(entry is not None and entry[1] == number for entry in log.entries):
                log.entries.append(None)
        for partition, begin in process.polled.items():
            if happened and begin == self.group[partition]:
                self.group[partition] = process.positions[partition]
        process.transaction = None
        # One that was aborted rewinds; so does one that lost a race for the group's offset.
        if self.flaw != "shared offsets" or self.draws.random() < 0.5:
            process.positions = dict(self.group)
            process.sought = {0, 1}


Lie = Callable[[random.Random, Operation], Operation]


def _drop_a_record(draws: random.Random, row: Operation) -> Operation:
    at = draws.randrange(len(row.values))
    placed = row.placed
    return attrs.evolve(row, values=row.values[:at] + row.values[at + 1 :], offsets=placed[:at] + placed[at + 1 :])


def _shift(draws: random.Random, row: Operation) -> Operation:
    by = draws.choice((-1, 1))
    return attrs.evolve(row, offsets=tuple(max(at + by, 0) for at in row.placed))


def _move_stable(draws: random.Random, row: Operation) -> Operation:
    return attrs.evolve(row, last_stable_offset=draws.randint(0, 6))


def _move_offset(draws: random.Random, row: Operation) -> Operation:
    return attrs.evolve(row, offset=max(row.offset + draws.choice((-1, 1)), 0))


def _end_otherwise(draws: random.Random, row: Operation) -> Operation:
    kind = Kind.COMMIT if row.kind is Kind.ABORT else draws.choice((Kind.ABORT, Kind.COMMIT))
    return attrs.evolve(row, kind=kind, outcome=draws.choice(list(Outcome)))


def _read_more(draws: random.Random, row: Operation) -> Operation:
    value, offset = draws.randint(0, 6), (row.placed[-1] if row.values else max(row.offset, 0)) + draws.randint(0, 1)
    return attrs.evolve(row, values=(*row.values, value), offsets=(*row.placed, offset))


def _other_times(draws: random.Random, row: Operation) -> Operation:
    call = draws.randint(0, 30)
    return attrs.evolve(row, call=call, returned=call + draws.randint(0, 10))


def _other_isolation(draws: random.Random, row: Operation) -> Operation:
    return attrs.evolve(row, isolation=Isolation(1 - row.isolation))


LIES: tuple[tuple[Kind | None, Lie], ...] = (
    (Kind.FETCH, _drop_a_record), (Kind.FETCH, _shift), (Kind.FETCH, _read_more), (Kind.FETCH, _move_stable),
    (Kind.FETCH, _other_isolation), (Kind.PRODUCE, _move_offset), (Kind.COMMIT_OFFSETS, _move_offset),
    (Kind.COMMIT, _end_otherwise), (Kind.ABORT, _end_otherwise), (None, _other_times),
)  # fmt: skip


def draw(seed: int, count: int) -> tuple[Operations, set[int]]:
    """Well-formed histories, at most `count`, and the numbers of those that are as a real log would show them."""
    draws = random.Random(seed)
    rows: list[Operation] = []
    honest: set[int] = set()
    for number in range(count):
        flaw = None
        if draws.random() < 0.4:
            honest.add(number)
        else:
            flaw = draws.choice((None, *FLAWS))
        mine = _System(draws, flaw).run(draws.randint(4, 14))
        if number not in honest and (flaw is None or draws.random() < 0.3):
            mine = _with_lies(draws, mine)
        if number not in honest and draws.random() < 0.2:
            mine = _with_sends_at_once(draws, mine)
        rows += [attrs.evolve(row, history=number) for row in mine]
    # A lie may break the format: such a history is not checked.
    sound, _ = split(Operations.of(rows))
    return sound, honest


def _with_lies(draws: random.Random, rows: list[Operation]) -> list[Operation]:
    told = list(rows)
    for _ in range(draws.randint(1, 2)):
        kind, lie = draws.choice(LIES)
        fitting = [at for at, row in enumerate(told) if kind in (None, row.kind) and _fits(lie, row)]
        if fitting:
            at = draws.choice(fitting)
            told[at] = lie(draws, told[at])
    return told


def _with_sends_at_once(draws: random.Random, rows: list[Operation]) -> list[Operation]:
    """Two sends of a transaction to a partition, of which only the interval of both is known, may change places."""
    told = list(rows)
    sends = [at for at, row in enumerate(rows) if row.kind is Kind.PRODUCE and row.transaction is not None]
    pairs = [(a, b) for a in sends for b in sends if a < b and _whose(rows[a]) == _whose(rows[b])]
    if not pairs:
        return told
    first, second = draws.choice(pairs)
    call = min(told[first].call, told[second].call)
    returned = max(told[first].returned or 0, told[second].returned or 0)
    offsets = [told[first].offset, told[second].offset]
    if draws.random() < 0.5:
        offsets.reverse()
    for at, offset in zip((first, second), offsets, strict=True):
        if told[at].outcome is Outcome.OK and offset != UNKNOWN:
            told[at] = attrs.evolve(told[at], offset=offset)
        told[at] = attrs.evolve(told[at], call=call, returned=returned)
    return told


def _whose(row: Operation) -> tuple[int | None, int]:
    return row.transaction, row.partition


def _fits(lie: Lie, row: Operation) -> bool:
    if lie is _drop_a_record or lie is _shift:
        return bool(row.values)
    return lie is not _move_offset or row.offset != UNKNOWN

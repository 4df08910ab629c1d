"""Small random histories of one partition: some valid by construction, some spoiled."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import attrs

from tidegauge.linearizability.history import UNKNOWN, Kind, Operation, Outcome

START = Operation(
    index=0, process=0, kind=Kind.LIST_OFFSETS, outcome=Outcome.OK, topic="t", partition=0, call=0, returned=0, offset=0
)
"""Says that the log begins at 0, and nothing else."""


def valid(random: Random, most: int = 8, longest_batch: int = 2) -> list[Operation]:
    """Operations on a log, each applied at one instant of its interval."""
    count = random.randint(1, most)
    span = random.choice((4, 8, 20))
    times = []
    for _ in range(count):
        call = random.randint(0, span)
        effect = call + random.randint(0, 5)
        times.append((call, effect, effect + random.randint(0, 5)))
    rows: list[Operation | None] = [None] * count
    log: list[int] = []
    for number in sorted(range(count), key=lambda number: (times[number][1], random.random())):
        call, _, returned = times[number]
        blank = attrs.evolve(START, process=number % 3, call=call, returned=returned)
        kind = random.choice((_produce, _produce, _fetch, _list))
        rows[number] = kind(random, blank, log, 10 * (number + 1), longest_batch)
    called = sorted((row for row in rows if row is not None), key=lambda row: row.call)
    return [START, *(attrs.evolve(row, index=index) for index, row in enumerate(called, 1))]


def _produce(random: Random, row: Operation, log: list[int], value: int, longest: int) -> Operation:
    values = tuple(value + i for i in range(random.randint(1, longest)))
    row = attrs.evolve(row, kind=Kind.PRODUCE, values=values, offset=UNKNOWN)
    chance = random.random()
    if chance < 0.1:
        return attrs.evolve(row, outcome=Outcome.FAIL)
    if chance < 0.3:
        if random.random() < 0.6:
            log.extend(values)
        never = random.random() < 0.5
        return attrs.evolve(row, outcome=Outcome.INFO, returned=None if never else row.returned)
    if chance < 0.5:
        acks = random.choice((0, 1))
        base = len(log)
        if random.random() < 0.7:
            log.extend(values)
        return attrs.evolve(row, acks=acks, offset=UNKNOWN if acks == 0 else base)
    log.extend(values)
    return attrs.evolve(row, offset=len(log) - len(values))


def _fetch(random: Random, row: Operation, log: list[int], value: int, longest: int) -> Operation:
    position = random.randint(0, len(log))
    values = tuple(log[position : position + random.randint(1, 4)])
    mark = random.choice((None, len(log)))
    return attrs.evolve(row, kind=Kind.FETCH, offset=position, values=values, high_watermark=mark)


def _list(random: Random, row: Operation, log: list[int], value: int, longest: int) -> Operation:
    return attrs.evolve(row, offset=len(log))


def spoiled(random: Random, rows: list[Operation]) -> list[Operation]:
    """One to three random changes; the result may still be valid."""
    rows = list(rows)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(1, len(rows))
        rows[at] = random.choice(_CHANGES)(random, rows[at])
    if random.random() < 0.2:
        del rows[random.randrange(1, len(rows))]
    called = sorted(rows[1:], key=lambda row: row.call)
    return [START, *(attrs.evolve(row, index=index) for index, row in enumerate(called, 1))]


def _shift_offset(random: Random, row: Operation) -> Operation:
    return row if row.offset == UNKNOWN else attrs.evolve(row, offset=max(0, row.offset + random.choice((-2, -1, 1))))


def _shift_time(random: Random, row: Operation) -> Operation:
    call = max(0, row.call + random.randint(-6, 6))
    return attrs.evolve(row, call=call, returned=None if row.returned is None else call + random.randint(0, 4))


def _outcome(random: Random, row: Operation) -> Operation:
    if row.kind is not Kind.PRODUCE:
        return row
    outcome = random.choice((Outcome.FAIL, Outcome.INFO))
    return attrs.evolve(row, outcome=outcome, offset=UNKNOWN)


def _values(random: Random, row: Operation) -> Operation:
    if row.kind is not Kind.FETCH or not row.values:
        return row
    kept = list(row.values)
    kept[random.randrange(len(kept))] = random.choice((10, 11, 20, 21, 30, 40))
    return attrs.evolve(row, values=tuple(kept))


def _mark(random: Random, row: Operation) -> Operation:
    if row.kind is not Kind.FETCH:
        return row
    return attrs.evolve(row, high_watermark=random.choice((None, random.randint(0, 8))))


def _skip(random: Random, row: Operation) -> Operation:
    if row.kind is not Kind.FETCH or len(row.values) < 2:
        return row
    at = random.randrange(len(row.values))
    places = row.placed
    return attrs.evolve(row, values=row.values[:at] + row.values[at + 1 :], offsets=places[:at] + places[at + 1 :])


_CHANGES: tuple[Callable[[Random, Operation], Operation], ...] = (
    _shift_offset, _shift_offset, _shift_time, _shift_time, _outcome, _values, _mark, _skip,
)  # fmt: skip

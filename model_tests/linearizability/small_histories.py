"""Small histories by the hundred thousand: a run of a log, drawn for all of them at once, and then a change to some.

Operations take effect one after the other; their intervals are drawn around that. About half of the histories are left
as they are. Nearly all anomalies that five operations on one partition can have come up.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tidegauge.linearizability.history import NEVER, UNKNOWN, Kind, Operations, Outcome
from tidegauge.model_tests.linearizability.brute_force import (
    ABSENT,
    BATCH,
    FAIL,
    FAR,
    FETCH,
    INFO,
    INSTANTS,
    LIST,
    LONGEST,
    OK,
    PRODUCE,
    Small,
    Table,
    Truth,
)

WIDTH = 5
PRODUCES = 3
"""At most."""
CHANGED = 0.6
"""How many histories are changed, in each of two turns."""


def draw(seed: int, count: int) -> Small:
    """`count` histories; the same seed gives the same ones."""
    draws = np.random.default_rng(seed)
    small = _run(draws, count)
    for _ in range(2):
        changed = np.flatnonzero(draws.random(count) < CHANGED)
        which = draws.integers(0, len(_CHANGES), len(changed))
        column = draws.integers(0, WIDTH, len(changed))
        for number, change in enumerate(_CHANGES):
            mine = which == number
            change(draws, small, changed[mine], column[mine])
    return _in_order_of_call(small)


def _run(draws: np.random.Generator, count: int) -> Small:
    shape = (count, WIDTH)
    small = Small(
        kind=draws.choice([PRODUCE, PRODUCE, FETCH, FETCH, LIST], shape),
        outcome=np.full(shape, OK),
        process=draws.integers(0, 2, shape),
        acks=draws.choice([-1, -1, -1, -1, 0, 1], shape),
        offset=np.full(shape, ABSENT),
        count=np.zeros(shape, np.int64),
        values=np.zeros((*shape, BATCH), np.int64),
        offsets=np.full((*shape, BATCH), ABSENT),
        mark=np.full(shape, ABSENT),
        call=np.zeros(shape, np.int64),
        returned=np.zeros(shape, np.int64),
        settled=np.where(draws.random(count) < 0.6, draws.integers(0, INSTANTS, count), FAR),
    )
    small.kind[np.cumsum(small.kind == PRODUCE, axis=1) > PRODUCES] = FETCH
    small.acks[small.kind != PRODUCE] = -1
    effect = np.sort(draws.integers(0, INSTANTS, shape), axis=1)
    small.call[:] = np.maximum(effect - draws.integers(0, 2, shape), 0)
    small.returned[:] = np.minimum(effect + draws.integers(0, 2, shape), INSTANTS - 1)
    log, length = np.full((count, LONGEST + BATCH), ABSENT), np.zeros(count, np.int64)
    ends = np.zeros((count, 2), np.int64)
    for at in range(WIDTH):
        _produce(draws, small, at, log, length)
        _read(draws, small, at, log, length, ends)
    # Some logs begin later.
    first = draws.choice([0, 0, 0, 1, 2], count)
    for table in (small.offset, small.offsets, small.mark):
        table += np.where(table >= 0, first.reshape((-1,) + (1,) * (table.ndim - 1)), 0)
    return small


def _produce(draws: np.random.Generator, small: Small, at: int, log: Table, length: Table) -> None:
    rows = np.flatnonzero(small.kind[:, at] == PRODUCE)
    count = np.where(draws.random(len(rows)) < 0.25, 2, 1)
    outcome = draws.choice([OK, OK, OK, OK, OK, INFO, INFO, FAIL], len(rows))
    acks = small.acks[rows, at]
    happens = (outcome != FAIL) & (((outcome == OK) & (acks == -1)) | (draws.random(len(rows)) < 0.6))
    small.outcome[rows, at], small.count[rows, at] = outcome, count
    small.offset[rows, at] = np.where((outcome == OK) & (acks != 0), length[rows], ABSENT)
    lost = (outcome == INFO) & (draws.random(len(rows)) < 0.5)
    small.returned[rows[lost], at] = FAR
    for place in range(BATCH):
        held = count > place
        small.values[rows, at, place] = BATCH * at + place
        small.offsets[rows[held], at, place] = np.where(
            small.offset[rows, at] >= 0, small.offset[rows, at] + place, ABSENT
        )[held]
        here = rows[happens & held]
        log[here, length[here]] = BATCH * at + place
        length[here] += 1


def _read(draws: np.random.Generator, small: Small, at: int, log: Table, length: Table, ends: Table) -> None:
    lists = np.flatnonzero(small.kind[:, at] == LIST)
    small.offset[lists, at] = length[lists]
    rows = np.flatnonzero(small.kind[:, at] == FETCH)
    process, polls = small.process[rows, at], draws.random(len(rows)) < 0.4
    asked = np.minimum(draws.choice([0, 0, 0, 1, 2, 3, 9], len(rows)), length[rows])
    position = np.where(polls, ends[rows, process], asked)
    count = np.minimum(draws.integers(0, BATCH + 1, len(rows)), length[rows] - position)
    small.offset[rows, at] = np.where(polls, ABSENT, position)
    small.count[rows, at] = count
    small.mark[rows, at] = np.where(draws.random(len(rows)) < 0.4, length[rows], ABSENT)
    for place in range(BATCH):
        held = count > place
        small.offsets[rows[held], at, place] = position[held] + place
        small.values[rows[held], at, place] = log[rows[held], position[held] + place]
    ends[rows, process] = position + count


def _in_order_of_call(small: Small) -> Small:
    """Columns by call; the values say in which column their produce is, so they follow it."""
    order = np.argsort(small.call, axis=1, kind="stable")
    moved = np.argsort(order, axis=1)
    rows = np.arange(len(small))[:, None]
    columns = {
        name: getattr(small, name)[rows, order]
        for name in ("kind", "outcome", "process", "acks", "offset", "count", "offsets", "mark", "call", "returned")
    }
    values = small.values[rows, order]
    known = values < BATCH * WIDTH
    column = np.minimum(values // BATCH, WIDTH - 1)
    values = np.where(known, BATCH * moved[rows[:, :, None], column] + values % BATCH, values)
    return Small(**columns, values=values, settled=small.settled)


# --- changes ---------------------------------------------------------------------------------------------------------

Change = Callable[[np.random.Generator, Small, Table, Table], None]
"""Draws, histories, and the rows and the column of each to change."""


def _where(rows: Table, column: Table, chosen: Truth) -> tuple[Table, Table]:
    return rows[chosen], column[chosen]


def _shift_offset(draws: np.random.Generator, small: Small, rows: Table, column: Table) -> None:
    """An acknowledgement, an end offset or a fetch as a whole elsewhere."""
    at = _where(rows, column, small.offset[rows, column] >= 0)
    step = draws.choice([-1, 1], len(at[0]))
    step = np.where(small.offset[at] + step < 0, 1, step)
    small.offset[at] += step
    for place in range(BATCH):
        held = small.offsets[(*at, place)] >= 0
        small.offsets[(*at, place)] = np.where(held, np.maximum(small.offsets[(*at, place)] + step, 0), ABSENT)


def _shift_one(draws: np.random.Generator, small: Small, rows: Table, column: Table) -> None:
    """The offset of one record only: a skip, a step back, a gap in a batch."""
    place = draws.integers(0, BATCH, len(rows))
    chosen = small.offsets[rows, column, place] >= 0
    at = (rows[chosen], column[chosen], place[chosen])
    small.offsets[at] = np.maximum(small.offsets[at] + draws.choice([-1, 1], len(at[0])), 0)


def _position(draws: np.random.Generator, small: Small, rows: Table, column: Table) -> None:
    at = _where(rows, column, small.kind[rows, column] == FETCH)
    small.offset[at] = draws.choice([ABSENT, ABSENT, 0, 1, 2], len(at[0]))
    lost = (small.offset[at] == ABSENT) & (draws.random(len(at[0])) < 0.2)
    # Without an offset of their own, values need the position.
    assert (small.offsets[at][small.count[at] > 0, 0] >= 0).all()
    small.process[at] = np.where(lost, 1 - small.process[at], small.process[at])


def _value(draws: np.random.Generator, small: Small, rows: Table, column: Table) -> None:
    at = _where(rows, column, (small.kind[rows, column] == FETCH) & (small.count[rows, column] > 0))
    place = draws.integers(0, small.count[at])
    small.values[(*at, place)] = draws.choice([*range(BATCH * WIDTH), BATCH * WIDTH + 5], len(place))


def _outcome(draws: np.random.Generator, small: Small, rows: Table, column: Table) -> None:
    small.outcome[rows, column] = draws.choice([FAIL, INFO], len(rows))
    small.mark[rows, column] = ABSENT
    produce = small.kind[rows, column] == PRODUCE
    for name in ("offset", "offsets"):
        getattr(small, name)[_where(rows, column, produce)] = ABSENT
    reads = _where(rows, column, ~produce)
    small.count[reads] = 0
    small.offsets[reads] = ABSENT


def _mark(draws: np.random.Generator, small: Small, rows: Table, column: Table) -> None:
    at = _where(rows, column, (small.kind[rows, column] == FETCH) & (small.outcome[rows, column] == OK))
    small.mark[at] = draws.integers(ABSENT, 4, len(at[0]))


def _time(draws: np.random.Generator, small: Small, rows: Table, column: Table) -> None:
    small.call[rows, column] = draws.integers(0, INSTANTS, len(rows))
    later = draws.integers(small.call[rows, column], INSTANTS)
    small.returned[rows, column] = np.where(small.returned[rows, column] == FAR, FAR, later)


def _lose(draws: np.random.Generator, small: Small, rows: Table, column: Table) -> None:
    """A fetch that returns less, or nothing."""
    at = _where(rows, column, (small.kind[rows, column] == FETCH) & (small.count[rows, column] > 0))
    small.count[at] -= 1
    small.mark[at] = ABSENT


def _acks(draws: np.random.Generator, small: Small, rows: Table, column: Table) -> None:
    done = (small.kind[rows, column] == PRODUCE) & (small.outcome[rows, column] == OK) & (small.acks[rows, column] != 0)
    at = _where(rows, column, done)
    small.acks[at] = draws.choice([-1, 1], len(at[0]))


_CHANGES: tuple[Change, ...] = (
    _shift_offset, _shift_one, _position, _value, _outcome, _mark, _time, _lose, _acks,
)  # fmt: skip


# --- as the checker takes them ---------------------------------------------------------------------------------------


def operations(small: Small, contiguous: bool = False) -> Operations:
    """The same as arrays of operations, with a declaration last where there is one. History k is row k.

    `contiguous`: none has offsets of its own (`is_contiguous`).
    """
    count, width = small.kind.shape
    full = width + 1
    declared = (small.settled != FAR)[:, None]

    def column(table: Table, last: Table | int, dtype: type[np.generic] = np.int64) -> np.ndarray:
        whole = np.concatenate((table, np.broadcast_to(np.asarray(last).reshape(-1, 1), (count, 1))), axis=1)
        return whole.ravel()[kept].astype(dtype)

    kept = np.flatnonzero(np.concatenate((np.ones((count, width), np.bool_), declared), axis=1).ravel())
    counts = column(small.count, 0)
    used = (np.arange(BATCH) < small.count[:, :, None]).ravel()
    rows = np.repeat(np.arange(count), full)[kept]
    return Operations(
        history=rows,
        index=(np.arange(count * full) % full)[kept].astype(np.int32),
        process=column(small.process, -1, np.int32),
        kind=column(small.kind, Kind.SETTLED, np.int8),
        outcome=column(small.outcome, Outcome.OK, np.int8),
        topic=np.zeros(len(kept), np.int32),
        partition=np.zeros(len(kept), np.int32),
        offset=column(small.offset, UNKNOWN),
        starts=np.concatenate(([0], np.cumsum(counts))),
        values=small.values.ravel()[used],
        offsets=None if contiguous else small.offsets.ravel()[used],
        high_watermark=column(small.mark, UNKNOWN),
        isolation=np.zeros(len(kept), np.int8),
        acks=column(small.acks, -1, np.int8),
        call=column(small.call, small.settled),
        returned=np.where(column(small.returned, FAR) == FAR, NEVER, column(small.returned, FAR)),
        topics=("t",),
    )


def is_contiguous(small: Small) -> Truth:
    """Whether all values of each history are where its rows' `offset` says, so that they need no offsets."""
    place = np.arange(BATCH)
    expected = np.where(small.offset[:, :, None] >= 0, small.offset[:, :, None] + place, ABSENT)
    needless = (small.offsets == expected) | (place >= small.count[:, :, None])
    placed = (small.offset >= 0) | (small.count == 0) | (small.kind == PRODUCE)
    contiguous: Truth = needless.all(axis=(1, 2)) & placed.all(axis=1)
    return contiguous

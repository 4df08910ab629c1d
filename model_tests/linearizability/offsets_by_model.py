"""Histories of committed offsets that a coordinator which makes no mistake may have: its log is played, and then told.

Each commit is written at an instant, and counts from its marker on if it is in a transaction; a read has what was
written last of what counts, and a stable one finds no transaction open. Intervals are drawn around these instants.
"""

from __future__ import annotations

from random import Random

import attrs

from tidegauge.linearizability.history import Outcome
from tidegauge.linearizability.log import Level
from tidegauge.model_tests.linearizability.group_rows import GroupRow, Kind

LONG = 40
"""All happens before."""


@attrs.frozen
class Written:
    """A commit: when it was written, from when on it is known whether it counts, and whether it does."""

    place: int
    offset: int
    at: int
    decided: int
    counts: bool


def explained(rng: Random, level: Level) -> list[GroupRow]:
    """A history of one partition that is valid at this level."""
    rows: list[GroupRow] = []
    written: list[Written] = []
    for number in range(rng.randint(1, 4)):
        at = rng.randint(2, LONG)
        span = at - rng.randint(0, 3), at + rng.randint(0, 3)
        outcome = rng.choice((Outcome.OK, Outcome.OK, Outcome.INFO))
        transaction = number if rng.random() < 0.7 else None
        row = GroupRow(Kind.COMMIT, number, *span, partition=0, offset=number, outcome=outcome, transaction=transaction)
        ends = [] if transaction is None else [_end(rng, transaction, at, span[0])]
        decided, counts = (at, True) if transaction is None else ends[0][1:]
        written.append(Written(len(rows), number, at, decided, counts))
        rows += [row, *(one[0] for one in ends)]
    written.sort(key=lambda one: one.at)
    for _ in range(rng.randint(1, 5)):
        at, is_stable = rng.randint(0, LONG + 10), rng.random() < 0.7
        if is_stable and any(one.at <= at < one.decided for one in written):
            continue
        seen = [one for one in written if one.at <= at and one.decided <= at and one.counts]
        late = rng.randint(0, 12) if level is Level.KAFKA else 0
        place, offset = (seen[-1].place, seen[-1].offset) if seen else (-1, -1)
        call = at + late - rng.randint(0, 3)
        rows.append(
            GroupRow(
                Kind.READ, 9, call, at + late + rng.randint(0, 3), partition=0, offset=offset, commit=place,
                stable=is_stable,
            )
        )  # fmt: skip
    return rows


def _end(rng: Random, transaction: int, written: int, called: int) -> tuple[GroupRow, int, bool]:
    """The end of a transaction, when it was decided, and whether it was committed."""
    call = max(called, written + rng.randint(-2, 6))
    decided = max(call, written) + rng.randint(0, 6)
    counts = rng.random() < 0.7
    if not counts:
        decided = written + rng.randint(0, 8)  # perhaps by a time-out
        kind, outcome = rng.choice(((Kind.ABORT, Outcome.OK), (Kind.END, Outcome.FAIL), (Kind.END, Outcome.INFO)))
    else:
        kind, outcome = Kind.END, rng.choice((Outcome.OK, Outcome.OK, Outcome.INFO))
    row = GroupRow(kind, transaction, call, call + rng.randint(0, 4), outcome=outcome, transaction=transaction)
    return row, decided, counts

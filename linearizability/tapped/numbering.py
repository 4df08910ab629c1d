"""Rows in the making: what histories are made of, before they have their indices."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import attrs

from tidegauge.linearizability.history import Operation

FIRST_PROCESS = 1_000_000_000
"""Processes from here on are of no connection: producers with transactions, others' records, single fetches."""


@attrs.define(eq=False)
class Numbering:
    """Numbers for processes and histories that no connection has."""

    _processes: itertools.count[int] = attrs.field(factory=lambda: itertools.count(FIRST_PROCESS))
    _histories: itertools.count[int] = attrs.field(factory=itertools.count)
    _values: itertools.count[int] = attrs.field(factory=lambda: itertools.count(-1, -1))

    def process(self) -> int:
        """A process that is nobody else's."""
        return next(self._processes)

    def history(self) -> int:
        """The next history."""
        return next(self._histories)

    def values(self, count: int) -> tuple[int, ...]:
        """Values that no record has."""
        return tuple(itertools.islice(self._values, count))


def indexed(rows: Iterable[Operation], history: int) -> list[Operation]:
    """The rows of a history in the order of their calls."""
    ordered = sorted(rows, key=lambda row: row.call)
    return [attrs.evolve(row, index=index, history=history) for index, row in enumerate(ordered)]

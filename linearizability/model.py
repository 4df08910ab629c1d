"""A partition's log as a sequential object, for the general search.

The promises of docs/history.md, written as a machine instead of as bounds: the oracle of the fast checker. It knows
nothing of declared loss, and a fetch names its position. With one record a batch, the usual atomic log is meant; the
records of longer batches become visible one by one, so an acknowledged batch counts as two operations: an append,
and a read of the whole of it, both within its interval.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tidegauge.linearizability.evidence import is_strong
from tidegauge.linearizability.history import NEVER, UNKNOWN, Kind, Operation, Outcome
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.search import Call


@attrs.frozen
class LogState:
    """The values from the log start on, and the length that a reader has surely seen."""

    values: tuple[int, ...]
    shown: int


@attrs.frozen
class LogModel:
    """An append-only log from offset `start`."""

    start: int = 0
    level: Level = Level.STRICT
    settled: int = NEVER
    atomic: bool = False

    def initial(self) -> LogState:
        return LogState((), self.start)

    def step(self, state: LogState, operation: Operation) -> LogState | None:
        if operation.kind is Kind.PRODUCE:
            return self._append(state, operation)
        exact = self.level is Level.STRICT or operation.call >= self.settled
        if operation.kind is Kind.LIST_OFFSETS:
            return self._shows(state, operation.offset, exact)
        return self._fetch(state, operation, exact)

    def end(self, state: LogState) -> int:
        return self.start + len(state.values)

    def _append(self, state: LogState, operation: Operation) -> LogState | None:
        end = self.end(state)
        acknowledged = operation.outcome is Outcome.OK and operation.offset != UNKNOWN
        if acknowledged and operation.placed != tuple(range(end, end + len(operation.values))):
            return None
        values = state.values + operation.values
        return LogState(values, self.start + len(values) if self.atomic else end)

    def _fetch(self, state: LogState, operation: Operation, exact: bool) -> LogState | None:
        at = operation.offset - self.start
        if operation.placed != tuple(range(operation.offset, operation.offset + len(operation.values))):
            return None
        if operation.values and (at < 0 or state.values[at : at + len(operation.values)] != operation.values):
            return None
        read_to = operation.offset + len(operation.values) if operation.values else UNKNOWN
        if operation.high_watermark is not None:
            if operation.high_watermark < read_to:
                return None
            return self._shows(state, operation.high_watermark, exact)
        if not operation.values:
            return state if not exact or state.shown <= operation.offset else None
        return self._shows(state, read_to, exact=False)

    def _shows(self, state: LogState, length: int, exact: bool) -> LogState | None:
        """Somebody saw the log at least, or exactly, this long."""
        if length > self.end(state) or (exact and length < state.shown):
            return None
        return LogState(state.values, max(state.shown, length))


def calls(rows: Sequence[Operation], atomic: bool = False) -> list[Call[Operation]]:
    """The operations of one partition as the search takes them: what failed or may be lost need not have happened."""
    taken = []
    for row in rows:
        if row.outcome is Outcome.FAIL:
            continue
        if row.kind is Kind.PRODUCE:
            taken.append(Call(row, row.call, row.returned if is_strong(row) else None))
            if is_strong(row) and not atomic:
                whole = attrs.evolve(row, kind=Kind.FETCH, high_watermark=None)
                taken.append(Call(whole, row.call, row.returned))
        elif row.kind in (Kind.FETCH, Kind.LIST_OFFSETS) and row.outcome is Outcome.OK:
            taken.append(Call(row, row.call, row.returned))
    return taken

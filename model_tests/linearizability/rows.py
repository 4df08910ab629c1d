"""Rows of fixture histories, in as few words as possible: (call, returned, where, what)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from tidegauge.linearizability.history import UNKNOWN, Kind, Operation, Operations, Outcome

_BLANK = Operation(
    index=0, process=0, kind=Kind.PRODUCE, outcome=Outcome.OK, topic="t", partition=0, call=0, returned=0
)


def produce(
    call: int, returned: int | None, offset: int, *values: int, process: int = 0, acks: int = -1,
    offsets: Sequence[int] | None = None,
) -> Operation:  # fmt: skip
    placed = None if offsets is None else tuple(offsets)
    return attrs.evolve(
        _BLANK, call=call, returned=returned, offset=offset, values=values, process=process, acks=acks, offsets=placed
    )


def unknown(call: int, *values: int, process: int = 0) -> Operation:
    row = produce(call, None, UNKNOWN, *values, process=process)
    return attrs.evolve(row, outcome=Outcome.INFO)


def failed(call: int, returned: int, *values: int) -> Operation:
    return attrs.evolve(produce(call, returned, UNKNOWN, *values), outcome=Outcome.FAIL)


def fetch(
    call: int, returned: int, position: int, *values: int, mark: int | None = None, process: int = 1,
    offsets: Sequence[int] | None = None,
) -> Operation:  # fmt: skip
    return attrs.evolve(
        _BLANK, kind=Kind.FETCH, call=call, returned=returned, offset=position, values=values, high_watermark=mark,
        process=process, offsets=None if offsets is None else tuple(offsets),
    )  # fmt: skip


def end(call: int, returned: int, offset: int, process: int = 2) -> Operation:
    return attrs.evolve(_BLANK, kind=Kind.LIST_OFFSETS, call=call, returned=returned, offset=offset, process=process)


def election(call: int, returned: int | None, offset: int) -> Operation:
    return attrs.evolve(_BLANK, kind=Kind.ELECTION, call=call, returned=returned, offset=offset, process=UNKNOWN)


def settled(call: int) -> Operation:
    return attrs.evolve(_BLANK, kind=Kind.SETTLED, call=call, returned=None, process=UNKNOWN)


def history(rows: Iterable[Operation], number: int = 0) -> Operations:
    """A history of `rows`, in order of call."""
    ordered = sorted(rows, key=lambda row: row.call)
    return Operations.of(attrs.evolve(row, index=index, history=number) for index, row in enumerate(ordered))

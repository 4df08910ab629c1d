"""Rows of fixture histories with transactions, in as few words as possible: (transaction, call, returned, what)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tidegauge.linearizability.history import UNKNOWN, Isolation, Kind, Operation, Outcome

_BLANK = Operation(
    index=0, process=0, kind=Kind.PRODUCE, outcome=Outcome.OK, topic="t", partition=0, call=0, returned=0
)


def _process(transaction: int | None, process: int | None) -> int:
    return process if process is not None else 9 if transaction is None else transaction


def send(
    transaction: int | None, call: int, returned: int, offset: int, *values: int, partition: int = 0,
    process: int | None = None, outcome: Outcome = Outcome.OK,
) -> Operation:  # fmt: skip
    return attrs.evolve(
        _BLANK, call=call, returned=returned, transaction=transaction, values=values, partition=partition,
        offset=offset if outcome is Outcome.OK else UNKNOWN, process=_process(transaction, process), outcome=outcome,
    )  # fmt: skip


def poll(
    transaction: int | None, call: int, returned: int, position: int, read: dict[int, int], *, partition: int = 0,
    process: int | None = None, committed: bool = True, stable: int | None = None, mark: int | None = None,
) -> Operation:  # fmt: skip
    """`read`: values by their offsets."""
    return attrs.evolve(
        _BLANK, kind=Kind.FETCH, call=call, returned=returned, transaction=transaction, offset=position,
        values=tuple(read.values()), offsets=tuple(read), partition=partition, last_stable_offset=stable,
        high_watermark=mark, isolation=Isolation(int(committed)), process=_process(transaction, process),
    )  # fmt: skip


def commit(
    transaction: int, call: int, returned: int, outcome: Outcome = Outcome.OK, process: int | None = None
) -> Operation:
    return attrs.evolve(
        _BLANK, kind=Kind.COMMIT, topic="", call=call, returned=returned, transaction=transaction, outcome=outcome,
        process=_process(transaction, process),
    )  # fmt: skip


def abort(transaction: int, call: int, returned: int, process: int | None = None) -> Operation:
    return attrs.evolve(commit(transaction, call, returned, process=process), kind=Kind.ABORT)


def offsets(
    transaction: int | None, call: int, returned: int, offset: int, *, group: int = 1, process: int | None = None,
    outcome: Outcome = Outcome.OK,
) -> Operation:  # fmt: skip
    return attrs.evolve(
        _BLANK, kind=Kind.COMMIT_OFFSETS, call=call, returned=returned, transaction=transaction, offset=offset,
        group=group, process=_process(transaction, process), outcome=outcome,
    )  # fmt: skip


def consumed(
    transaction: int, call: int, read: Sequence[int], until: int, outcome: Outcome = Outcome.OK
) -> list[Operation]:
    """A transaction that reads the records at the offsets `read`, whose values they are, and commits `until`."""
    first = read[0] if read else until
    return [
        poll(transaction, call, call + 1, first, {at: at for at in read}),
        offsets(transaction, call + 2, call + 3, until),
        commit(transaction, call + 4, call + 5, outcome),
    ]

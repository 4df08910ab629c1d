"""A large valid history with one anomaly at its end: each kind that a log can have, in as few rows as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.history import NEVER, Kind, Operation, Operations, Outcome, concatenate

NEW = 1 << 40
"""A value that the history does not have."""


@attrs.frozen
class End:
    """The last row and time of a history of one partition, how long its log may be, and three neighbouring records."""

    index: int
    time: int
    length: int
    offset: int
    values: tuple[int, int, int]

    @classmethod
    def of(cls, operations: Operations) -> End:
        returned = operations.returned[operations.returned != NEVER]
        produced = (operations.kind == Kind.PRODUCE) & (operations.outcome == Outcome.OK)
        values = operations.values[operations.starts[:-1][produced]]
        known = dict(zip(operations.offset[produced].tolist(), values.tolist(), strict=True))
        first = next(at for at in known if at > 0 and {at + 1, at + 2} <= known.keys())
        length = max(int(operations.offset[produced].max()) + 1, int(operations.high_watermark.max()))
        return cls(
            index=int(operations.index[-1]) + 1,
            time=int(max(operations.call.max(), returned.max())) + 10,
            length=max(length, int(operations.offset[operations.kind == Kind.LIST_OFFSETS].max(initial=0))),
            offset=first,
            values=(known[first], known[first + 1], known[first + 2]),
        )


def _rows(end: End) -> Mapping[Name, Sequence[dict[str, Any]]]:
    """What is appended for each anomaly: the fields of rows, each called after the one before it has returned."""
    at, length, (first, second, third) = end.offset, end.length, end.values
    produce = {"kind": Kind.PRODUCE, "values": (NEW,)}
    fetch = {"kind": Kind.FETCH, "offset": at}
    return {
        Name.DUPLICATE: [{**fetch, "values": (second,)}],
        Name.INCONSISTENT_OFFSETS: [{**produce, "outcome": Outcome.INFO}, {**fetch, "values": (NEW,)}],
        Name.LOST_WRITE: [{**produce, "offset": length - 1}],
        Name.INT_POLL_SKIP: [{**fetch, "values": (first, third), "offsets": (at, at + 2)}],
        Name.POLL_SKIP: [{**fetch, "values": (second,), "offsets": (at + 1,)}],
        Name.INT_NONMONOTONIC_POLL: [{**fetch, "offset": at + 1, "values": (second, first), "offsets": (at + 1, at)}],
        Name.NONMONOTONIC_POLL: [{**fetch, "offset": at + 1, "values": (first,), "offsets": (at,)}],
        Name.INT_SEND_SKIP: [{**produce, "offset": length, "values": (NEW, NEW + 1), "offsets": (length, length + 2)}],
        Name.INT_NONMONOTONIC_SEND: [
            {**produce, "offset": length + 1, "values": (NEW, NEW + 1), "offsets": (length + 1, length)}
        ],
        Name.NONMONOTONIC_SEND: [
            {**produce, "offset": length},
            {**produce, "offset": length - 1, "values": (NEW + 1,)},
        ],
        Name.ABORTED_READ: [{**produce, "outcome": Outcome.FAIL}, {**fetch, "offset": length, "values": (NEW,)}],
        Name.UNWRITTEN_READ: [{**fetch, "offset": length, "values": (NEW,)}],
        Name.STALE_READ: [{**fetch, "high_watermark": at}],
        Name.END_OFFSET_REGRESSION: [
            {**produce, "outcome": Outcome.INFO},
            {"kind": Kind.LIST_OFFSETS, "offset": length + 1},
            {"kind": Kind.LIST_OFFSETS, "offset": at},
        ],
        Name.APPEND_BELOW_END: [
            {**produce, "offset": length},
            {**produce, "offset": length, "values": (NEW + 1,)},
            {**fetch, "offset": length, "values": (NEW,)},
        ],
        Name.READ_BEYOND_HIGH_WATERMARK: [{**fetch, "values": (first,), "high_watermark": at}],
        Name.OFFSET_HOLE: [{"kind": Kind.LIST_OFFSETS, "offset": 2 * length}],
        Name.REUSED_VALUE: [{**produce, "offset": length, "values": (first,)}],
    }


def spoiled(operations: Operations) -> Mapping[Name, Operations]:
    """For each anomaly the history, of one partition, with rows appended that make it."""
    end = End.of(operations)
    found = {}
    for name, rows in _rows(end).items():
        appended = []
        for number, fields in enumerate(rows):
            call = end.time + 2 * number
            returned = None if fields.get("outcome") is Outcome.INFO else call + 1
            row = Operation(
                **{"outcome": Outcome.OK, **fields}, index=end.index + number, process=1_000, call=call,
                topic=operations.topics[0], partition=int(operations.partition[0]), returned=returned,
                history=int(operations.history[0]),
            )  # fmt: skip
            appended.append(row)
        found[name] = concatenate([operations, Operations.of(appended)])
    return found


def with_batches(batches: int, seed: int) -> Operations:
    """A log of batches of 1 to 5 records; each fiftieth has an unknown outcome, and half of those are in it: holes."""
    draws = np.random.default_rng(seed)
    sizes = draws.integers(1, 6, batches)
    unknown = draws.random(batches) < 0.02
    there = ~unknown | (draws.random(batches) < 0.5)
    base = np.cumsum(sizes * there) - sizes * there
    zeros = np.zeros(batches, np.int64)
    call = 10 * np.arange(batches)
    return Operations(
        history=zeros,
        index=np.arange(batches, dtype=np.int32),
        process=zeros.astype(np.int32),
        kind=np.full(batches, Kind.PRODUCE, np.int8),
        outcome=np.where(unknown, Outcome.INFO, Outcome.OK).astype(np.int8),
        topic=zeros.astype(np.int32),
        partition=zeros.astype(np.int32),
        offset=np.where(unknown, -1, base),
        starts=np.concatenate(([0], np.cumsum(sizes))),
        values=np.arange(int(sizes.sum())),
        offsets=None,
        high_watermark=zeros - 1,
        isolation=zeros.astype(np.int8),
        acks=np.full(batches, -1, np.int8),
        call=call,
        returned=np.where(unknown, NEVER, call + 5),
        topics=("topic",),
    )

"""Lines of a recording, for tests: time goes on by one step with each call and each return."""

from __future__ import annotations

import itertools
from typing import Any

import attrs

from tidegauge.linearizability.check import Verdicts, check
from tidegauge.linearizability.history import Operation
from tidegauge.linearizability.tapped.lines import Line, parse
from tidegauge.linearizability.tapped.resolving import Resolved, resolved

IDEMPOTENT = 1
IN_TRANSACTION = 3


@attrs.define(eq=False)
class Recorded:
    """A recording in the making."""

    lines: list[Line] = attrs.field(factory=list)
    _numbers: itertools.count[int] = attrs.field(factory=itertools.count)
    _times: itertools.count[int] = attrs.field(factory=lambda: itertools.count(10, 10))

    def add(self, kind: str, **fields: Any) -> None:
        """A line; without a `return` it has none, but where its kind needs one."""
        fields.setdefault("call", next(self._times))
        line = {"kind": kind, "op": [next(self._numbers), 0], "process": 0, **fields}
        self.lines.append(parse({name: value for name, value in line.items() if value is not None}))

    def _times_of_one(self) -> dict[str, int]:
        call = next(self._times)
        return {"call": call, "return": next(self._times)}

    def sent(self, *values: int, offset: int | None = None, acks: int = -1, error: int = 0, **fields: Any) -> None:
        """A batch with a response."""
        ends = {**self._times_of_one(), "error": error, "offset": offset}
        where = {"topic": "orders", "partition": 0, "acks": acks, "values": values}
        self.add("produce", **{**where, **ends, **fields})

    def lost(self, *values: int, **fields: Any) -> None:
        """A batch without a response."""
        self.add("produce", topic="orders", partition=0, acks=-1, values=values, **fields)

    def read(self, offset: int, *values: int, high_watermark: int | None = None, **fields: Any) -> None:
        """A fetch that returned these from an offset on."""
        last = max(fields.get("offsets", [offset + len(values) - 1]))
        mark = last + 1 if high_watermark is None else high_watermark
        where = {"topic": "orders", "partition": 0, "position": offset, "isolation": 0, "high_watermark": mark}
        ends = {**self._times_of_one(), "values": values, "offsets": offset}
        self.add("fetch", **{**where, **ends, **fields})

    def ended(self, producer: tuple[int, int], *, commit: bool = True, error: int | None = 0) -> None:
        """The end of a transaction; without an error there was no response."""
        ends = {} if error is None else {**self._times_of_one(), "error": error}
        self.add("end", producer=producer, commit=commit, **ends)

    def resolved(self, *, alone: bool = False) -> Resolved:
        return resolved(self.lines, alone=alone)

    def rows(self, *, alone: bool = False) -> list[Operation]:
        return list(self.resolved(alone=alone).operations)

    def verdicts(self, *, alone: bool = False) -> Verdicts:
        return check(self.resolved(alone=alone).operations)

    def names(self, *, alone: bool = False) -> set[str]:
        """The anomalies that are found."""
        return {anomaly.name.value for anomaly in self.verdicts(alone=alone).anomalies}

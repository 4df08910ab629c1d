"""A request that passes through, until its response has."""

from __future__ import annotations

from typing import Any

import attrs

Line = dict[str, Any]
"""One line of a recording, by docs/tap.md."""


@attrs.define(eq=False)
class Exchange:
    """A request and, later, its response. Times are steady nanoseconds."""

    number: int
    connection: int
    api_key: int
    version: int
    call: int
    """Before the first byte of the request is passed on."""
    asked: Any = None
    """What the observer has made of the request; None while it has not."""
    lines: list[Line] | None = None
    """What may have been done from the call on, whatever becomes of the response; None: nothing, or not read yet."""
    told: bool = False
    """Whether the recording has these lines already, as those of an operation without an end."""

    def line(self, kind: str, number: int = 0, **fields: Any) -> Line:
        """The beginning of a line; `number` tells the operations of one request apart."""
        return {
            "kind": kind,
            "op": [self.number, number],
            "process": self.connection,
            "call": self.call,
            **{name: value for name, value in fields.items() if value is not None},
        }

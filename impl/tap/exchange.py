"""A request that passes through, until its response has."""

from __future__ import annotations

from typing import Any, Final

import attrs

TOKEN: Final = -1
"""In place of an API key: a frame of an authentication, which has no header (SaslHandshake 0)."""
Line = dict[str, Any]
"""One line of a recording, by docs/tap.md."""


@attrs.define(eq=False)
class Exchange:
    """A request and, later, its response. Times are steady nanoseconds."""

    number: int
    connection: int
    api_key: int
    version: int
    correlation_id: int
    call: int
    """Before the first byte of the request is passed on."""
    responds: bool = True
    """Whether a response is due: there is none to a produce with acks=0."""
    is_passed: bool = False
    """Whether a broker may have all of the request; only of those that are read."""
    is_read: bool = False
    """Whether the request has been read, or never will be."""
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

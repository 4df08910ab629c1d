"""A request that is refused by the end of its connection."""

from __future__ import annotations


class RefusedError(Exception):
    """The peer's request cannot be served. Its connection is closed, after a last response if there is one."""

    def __init__(self, reason: str, response: bytes = b"") -> None:
        super().__init__(reason)
        self.response = response

"""How much of what passes may be held at once, by all connections together."""

from __future__ import annotations

import threading
from typing import Final

import attrs

SMALL: Final = 64 << 10
"""Frames up to this size are not counted: each connection holds one of each direction at most."""


@attrs.define(eq=False)
class Memory:
    """A number of bytes that connections take from and give back to."""

    left: int
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def take(self, size: int) -> bool:
        """Take so many bytes; False where there are not that many left."""
        if size <= SMALL:
            return True
        with self._lock:
            if size > self.left:
                return False
            self.left -= size
            return True

    def give_back(self, size: int) -> None:
        """Give back what was taken."""
        if size > SMALL:
            with self._lock:
                self.left += size

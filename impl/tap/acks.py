"""Whether a Produce request asks for no response: that alone of it has to be known before it is passed on."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from tidegauge.impl.tap.skipping import after_compact, after_tagged

FLEXIBLE_FROM: Final = 9
"""Versions with compact strings and tagged fields."""
TRANSACTIONAL_FROM: Final = 3
"""Versions that begin with a transactional id."""
NO_ACKS: Final = 0
_HEADER: Final = 8
"""API key, version and correlation id; the client id follows."""
_MOST: Final = 80_000
"""Bytes within which the acks are, unless there are tagged fields that nobody has."""
_FEW: Final = 256
_INT16: Final = struct.Struct(">h")


def asks_for_none(peek: Callable[[int], bytes], version: int) -> bool:
    """Whether acks are 0. `peek` gives the first bytes of a frame; what cannot be read asks for a response."""
    for count in (_FEW, _MOST):
        begin = peek(count)
        try:
            return _acks(begin, version) == NO_ACKS
        except (struct.error, IndexError):
            if len(begin) < count:
                return False
    return False


def _acks(frame: bytes, version: int) -> int:
    """Raises struct.error and IndexError where the frame ends before."""
    position = _after_string(frame, _HEADER)
    if version >= FLEXIBLE_FROM:
        position = after_compact(frame, after_tagged(frame, position))
    elif version >= TRANSACTIONAL_FROM:
        position = _after_string(frame, position)
    return int(_INT16.unpack_from(frame, position)[0])


def _after_string(frame: bytes, position: int) -> int:
    (size,) = _INT16.unpack_from(frame, position)
    return position + _INT16.size + max(int(size), 0)

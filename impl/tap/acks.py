"""Whether a Produce request asks for no response: that alone of it has to be known before it is passed on."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import attrs

from tidegauge.impl.tap.skipping import after_compact, after_tagged
from tidegauge.impl.wire.frames import LENGTH

FLEXIBLE_FROM: Final = 9
"""Versions with compact strings and tagged fields."""
TRANSACTIONAL_FROM: Final = 3
"""Versions that begin with a transactional id."""
NO_ACKS: Final = 0
_HEADER: Final = 8
"""API key, version and correlation id; the client id follows."""
_BEHIND_ID: Final = LENGTH.size + _HEADER
"""In a frame with its length."""
_MOST: Final = 80_000
"""Bytes within which the acks are, unless there are tagged fields that nobody has."""
_FEW: Final = 256
_INT16: Final = struct.Struct(">h")


@attrs.define(eq=False)
class Acks:
    """For one connection: its requests begin alike, but for the correlation id, and so are read once."""

    _version: int = -1
    _alike: bytes = b""
    """From behind the correlation id to behind the acks."""
    _are_none: bool = False

    def are_none(self, frame: bytes, version: int) -> bool:
        """Whether acks are 0 in a frame with its length; what cannot be read asks for a response."""
        if version != self._version or not frame.startswith(self._alike, _BEHIND_ID):
            try:
                acks, position = _acks(frame, LENGTH.size, version)
            except (struct.error, IndexError):
                return False
            self._version, self._alike, self._are_none = version, frame[_BEHIND_ID:position], acks == NO_ACKS
        return self._are_none


def asks_for_none(peek: Callable[[int], bytes], version: int) -> bool:
    """Whether acks are 0. `peek` gives the first bytes of a frame; what cannot be read asks for a response."""
    for count in (_FEW, _MOST):
        begin = peek(count)
        try:
            return _acks(begin, 0, version)[0] == NO_ACKS
        except (struct.error, IndexError):
            if len(begin) < count:
                return False
    return False


def _acks(frame: bytes, begin: int, version: int) -> tuple[int, int]:
    """(acks, the position behind them). Raises struct.error and IndexError where the frame ends before."""
    position = _after_string(frame, begin + _HEADER)
    if version >= FLEXIBLE_FROM:
        position = after_compact(frame, after_tagged(frame, position))
    elif version >= TRANSACTIONAL_FROM:
        position = _after_string(frame, position)
    return int(_INT16.unpack_from(frame, position)[0]), position + _INT16.size


def _after_string(frame: bytes, position: int) -> int:
    (size,) = _INT16.unpack_from(frame, position)
    return position + _INT16.size + max(int(size), 0)

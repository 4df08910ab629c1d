"""Where a field of a flexible message ends (KIP-482), for who looks at one field and not at those before it."""

from __future__ import annotations

LARGEST_SHIFT = 28
"""A number of more bytes is none of 32 bits."""


def uvarint(frame: bytes, position: int) -> tuple[int, int]:
    """(the number, the position behind it). Raises IndexError where the frame ends before."""
    number = shift = 0
    while (byte := frame[position]) & 0x80:
        number |= (byte & 0x7F) << shift
        shift += 7
        position += 1
        if shift > LARGEST_SHIFT:
            raise IndexError
    return number | byte << shift, position + 1


def after_compact(frame: bytes, position: int) -> int:
    """Behind a compact string or compact bytes, null or not."""
    size, position = uvarint(frame, position)  # one more than its bytes; 0: null
    return position + max(size - 1, 0)


def after_tagged(frame: bytes, position: int) -> int:
    """Behind the tagged fields of a struct. Raises IndexError where the frame ends within them."""
    count, position = uvarint(frame, position)
    for _ in range(count):
        _, position = uvarint(frame, position)
        size, position = uvarint(frame, position)
        position += size
        if position > len(frame):
            raise IndexError
    return position

"""The fields of records in coordinators' logs: the primitive types of Kafka's protocol, in its two layouts.

A string has its length before it, and an array the number of its elements: an int16 or int32, or, in the compact layout
(KIP-482), an unsigned varint that is one more. There tagged fields follow each structure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from tidegauge.impl.records.batches import CorruptRecordError, InvalidRecordError

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")
LONGEST_STRING: Final = (1 << 15) - 1
"""Bytes."""
_MAX_VARINT_BITS: Final = 35


class FieldReader:
    """The fields of a key or a value, one after the other. Raises CorruptRecordError where they end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def position(self) -> int:
        """Where the next field begins."""
        return self._position

    def bytes_of(self, size: int) -> bytes:
        """The next bytes."""
        end = self._position + size
        if size < 0 or end > len(self._data):
            left = len(self._data) - self._position
            raise CorruptRecordError(f"a field of {size} bytes where {left} of {len(self._data)} are left")
        self._position, found = end, self._data[self._position : end]
        return found

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        """The next numbers, as they are laid out."""
        return layout.unpack(self.bytes_of(layout.size))

    def int16(self) -> int:
        return self.take(INT16)[0]

    def int32(self) -> int:
        return self.take(INT32)[0]

    def int64(self) -> int:
        return self.take(INT64)[0]

    def varint(self) -> int:
        """An unsigned one."""
        number = 0
        for shift in range(0, _MAX_VARINT_BITS, 7):
            (byte,) = self.bytes_of(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise CorruptRecordError("a varint of more than five bytes")

    def count(self, *, compact: bool = False) -> int:
        """The number of an array's elements, or of the bytes of a bytes field; -1 for null."""
        return self.varint() - 1 if compact else self.int32()

    def string(self, *, compact: bool = False) -> str:
        """Raises InvalidRecordError if it is null or no UTF-8."""
        if (found := self.nullable_string(compact=compact)) is None:
            raise InvalidRecordError("a string is null that may not be")
        return found

    def nullable_string(self, *, compact: bool = False) -> str | None:
        """A string, or None for null."""
        size = self.varint() - 1 if compact else self.int16()
        if size == -1:
            return None
        data = self.bytes_of(size)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise InvalidRecordError(f"a string is no UTF-8: {data!r}") from None

    def tagged_fields(self) -> Iterator[tuple[int, bytes]]:
        """Each with its tag."""
        for _ in range(self.varint()):
            tag = self.varint()
            yield tag, self.bytes_of(self.varint())


def encode_string(text: str | None) -> bytes:
    """A string with an int16 length. Raises ValueError if it is too long for one."""
    if text is None:
        return INT16.pack(-1)
    data = text.encode()
    if len(data) > LONGEST_STRING:
        raise ValueError(f"a string of {len(data)} bytes: a record of a coordinator has room for {LONGEST_STRING}")
    return INT16.pack(len(data)) + data


def encode_varint(number: int) -> bytes:
    """An unsigned varint."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)

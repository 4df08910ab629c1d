"""Kafka's field types by hand: strings, lengths, tagged fields, in both encodings.

For the codecs of Produce and Fetch, which write out field after field what a version looks like. Each reader takes the
bytes and a position and returns the value and the position behind it. Reading over the end, a length that cannot be and
text that is not UTF-8 raise one of `DAMAGE`; the codecs turn it into `MalformedMessageError`.

Flexible versions (KIP-482) write lengths as unsigned varints, of nullable things plus one so that 0 means null, and
end every structure with tagged fields: their number, then tag, size and bytes of each.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from tidegauge.impl.records.lazy import LazyRecords
from tidegauge.impl.wire.budget import MAX_TAGS, Budget, TooManyElementsError

Buffer = bytes | bytearray | memoryview
Part = Buffer | LazyRecords
"""A piece of a message that is sent: bytes, or records that are yet to be read."""

DAMAGE: Final = (struct.error, IndexError, ValueError)
"""What reading bytes that are not the message raises; UnicodeDecodeError is a ValueError."""

ID_SIZE: Final = 16
NO_ID: Final = ""
"""The topic id of a message that names its topics, or names none."""
_ZERO_ID: Final = bytes(ID_SIZE)
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_MAX_VARINT_SHIFT = 28
ERRORS: Final[Mapping[int, ErrorCode]] = {int(error): error for error in ErrorCode}


def error_code(number: int) -> ErrorCode:
    """The error of a number. Raises ValueError for one that no release of Kafka has."""
    found = ERRORS.get(number)
    if found is None:
        raise ValueError(f"error code {number} is unknown")
    return found


@lru_cache(maxsize=4096)
def id_text(raw: bytes) -> str:
    """A topic id as text; `NO_ID` for zeros."""
    return NO_ID if raw == _ZERO_ID else str(UUID(bytes=raw))


@lru_cache(maxsize=4096)
def id_bytes(text: str) -> bytes:
    """A topic id as its 16 bytes."""
    return UUID(text).bytes if text else _ZERO_ID


def read_id(view: memoryview, position: int) -> tuple[str, int]:
    """A topic id."""
    end = position + ID_SIZE
    raw = bytes(view[position:end])
    if len(raw) != ID_SIZE:
        raise ValueError("a topic id runs over the end")
    return id_text(raw), end


def read_varint(view: memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes."""
    byte = view[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value, shift = byte & 0x7F, 7
    while True:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > _MAX_VARINT_SHIFT:
            raise ValueError("a length of more than five bytes")


def varint(value: int) -> bytes:
    """An unsigned varint."""
    if value < 0x80:
        return _ONE_BYTE[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_ONE_BYTE: Final = [bytes((number,)) for number in range(0x80)]


def read_string(view: memoryview, position: int, *, flexible: bool) -> tuple[str, int]:
    """Text that may not be null."""
    text, position = read_nullable_string(view, position, flexible=flexible)
    if text is None:
        raise ValueError("a string is null")
    return text, position


def read_topic(view: memoryview, position: int, *, by_id: bool, flexible: bool) -> tuple[str, str, int]:
    """(name, topic id, position behind) of a topic, which a request has one of: "" or `NO_ID` is the other."""
    if by_id:
        topic_id, position = read_id(view, position)
        return "", topic_id, position
    name, position = read_string(view, position, flexible=flexible)
    return name, NO_ID, position


def topic_bytes(name: str, topic_id: str, *, by_id: bool, flexible: bool) -> bytes:
    """A topic by its id or by its name."""
    return id_bytes(topic_id) if by_id else string(name, flexible=flexible)


def read_nullable_string(view: memoryview, position: int, *, flexible: bool) -> tuple[str | None, int]:
    """Text, or None."""
    if flexible:
        length, start = read_varint(view, position)
        length -= 1
    else:
        length, start = _I16.unpack_from(view, position)[0], position + 2
    if length < 0:
        if length != -1:
            raise ValueError(f"a string of length {length}")
        return None, start
    end = start + length
    if end > len(view):
        raise ValueError(f"a string of {length} bytes runs over the end")
    return str(view[start:end], "utf-8"), end


def string(text: str | None, *, flexible: bool) -> bytes:
    """Text with its length; None is null."""
    if text is None:
        return b"\x00" if flexible else b"\xff\xff"
    encoded = text.encode()
    return (varint(len(encoded) + 1) if flexible else _I16.pack(len(encoded))) + encoded


def read_count(view: memoryview, position: int, *, flexible: bool) -> tuple[int, int]:
    """The length of an array that may not be null."""
    if flexible:
        count, position = read_varint(view, position)
        count -= 1
    else:
        count, position = _I32.unpack_from(view, position)[0], position + 4
    if not 0 <= count <= len(view) - position:
        raise ValueError(f"an array of {count} where {len(view) - position} bytes are left")
    return count, position


def read_nullable_count(view: memoryview, position: int, *, flexible: bool) -> tuple[int, int]:
    """The length of an array; -1 for null."""
    if flexible:
        if view[position] == 0:
            return -1, position + 1
    elif _I32.unpack_from(view, position)[0] == -1:
        return -1, position + 4
    return read_count(view, position, flexible=flexible)


def count(length: int, *, flexible: bool) -> bytes:
    """The length of an array."""
    return varint(length + 1) if flexible else _I32.pack(length)


def read_records(view: memoryview, position: int, *, flexible: bool) -> tuple[memoryview | None, int]:
    """Record batches, as a view and not a copy; None for null."""
    if flexible:
        length, start = read_varint(view, position)
        length -= 1
    else:
        length, start = _I32.unpack_from(view, position)[0], position + 4
    if length == -1:
        return None, start
    end = start + length
    if length < 0 or end > len(view):
        raise ValueError(f"records of {length} bytes where {len(view) - start} are left")
    return view[start:end], end


def records_size(records: Part | None, *, flexible: bool) -> bytes:
    """The length that goes before record batches."""
    length = -1 if records is None else len(records)
    return varint(length + 1) if flexible else _I32.pack(length)


def read_tags(
    view: memoryview, position: int, budget: Budget | None = None
) -> tuple[Mapping[int, tuple[int, int]], int]:
    """Where each tagged field begins and ends, by tag; they count in the message's budget, if it has one."""
    if view[position] == 0:
        return _NO_TAGS, position + 1
    number, position = read_varint(view, position)
    if number > MAX_TAGS:
        raise TooManyElementsError(f"{number} tagged fields in one structure: there are {MAX_TAGS} at most")
    if budget is not None:
        budget.claim(number)
        budget.due += number
    found: dict[int, tuple[int, int]] = {}
    for _ in range(number):
        tag, position = read_varint(view, position)
        size, start = read_varint(view, position)
        position = start + size
        if position > len(view):
            raise ValueError(f"a tagged field of {size} bytes ends beyond the frame")
        found[tag] = start, position
    return found, position


def skip_tags(view: memoryview, position: int, budget: Budget | None = None) -> int:
    """The position behind tagged fields that nobody here looks at."""
    return position + 1 if view[position] == 0 else read_tags(view, position, budget)[1]


_NO_TAGS: Final[Mapping[int, tuple[int, int]]] = {}


def tags(*fields: tuple[int, bytes]) -> bytes:
    """Tagged fields, in the order of their tags."""
    if not fields:
        return b"\x00"
    return varint(len(fields)) + b"".join(varint(tag) + varint(len(data)) + data for tag, data in fields)

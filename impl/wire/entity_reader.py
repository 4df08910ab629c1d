"""Messages of kio's classes from bytes that nobody vouches for.

kio's own reader sets memory aside for as many elements as an array claims to have, and a claim that memory cannot meet
ends the process. Here a claim is held against the bytes that are left before anything else happens (an element takes a
byte at least). The fields are read by kio's readers of primitive types; what a class has for fields, it says itself.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kio.serial import readers
from kio.serial.errors import BufferUnderflow, DecodeError, UnexpectedNull

from tidegauge.impl.wire.frames import Payload as Bytes
from tidegauge.impl.wire.message_classes import default, is_array, is_optional, nested_class

if TYPE_CHECKING:
    from kio.static.protocol import Payload

Read: TypeAlias = Callable[[Bytes, int], tuple[Any, int]]
"""(bytes, position) -> (value, how many bytes it took)."""

_FIXED: Final[Mapping[str, Read]] = MappingProxyType(
    {
        "int8": readers.read_int8,
        "int16": readers.read_int16,
        "int32": readers.read_int32,
        "int64": readers.read_int64,
        "uint16": readers.read_uint16,
        "uint32": readers.read_uint32,
        "float64": readers.read_float64,
        "bool": readers.read_boolean,
        "uuid": readers.read_uuid,
        "error_code": readers.read_error_code,
        "timedelta_i32": readers.read_timedelta_i32,
        "timedelta_i64": readers.read_timedelta_i64,
    }
)
"""Types that are written in one way only."""

_VARYING: Final[Mapping[tuple[str, bool, bool], Read]] = MappingProxyType(
    {
        ("string", False, False): readers.read_legacy_string,
        ("string", False, True): readers.read_nullable_legacy_string,
        ("string", True, False): readers.read_compact_string,
        ("string", True, True): readers.read_compact_string_nullable,
        ("bytes", False, False): readers.read_legacy_bytes,
        ("bytes", False, True): readers.read_nullable_legacy_bytes,
        ("bytes", True, False): readers.read_compact_string_as_bytes,
        ("bytes", True, True): readers.read_compact_string_as_bytes_nullable,
        ("datetime_i64", False, False): readers.read_datetime_i64,
        ("datetime_i64", False, True): readers.read_nullable_datetime_i64,
        ("datetime_i64", True, False): readers.read_datetime_i64,
        ("datetime_i64", True, True): readers.read_nullable_datetime_i64,
    }
)
"""(type, flexible version, nullable)."""


@cache
def entity_reader(message_class: type[Payload]) -> Read:
    """What reads a message of this class. It raises kio's DecodeError, or ValueError for a value that cannot be."""
    hints = typing.get_type_hints(message_class)
    flexible = message_class.__flexible__
    untagged: list[tuple[str, Read]] = []
    tagged: dict[int, tuple[str, Read]] = {}
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(message_class):
        tag = field.metadata.get("tag")
        read = _field_reader(field, hints[field.name], flexible=flexible, tagged=tag is not None)
        if tag is None:
            untagged.append((field.name, read))
        else:
            tagged[tag] = field.name, read
            defaults[field.name] = default(field, hints[field.name])

    def read_message(data: Bytes, start: int) -> tuple[Any, int]:
        values, position = dict(defaults), start
        for name, read in untagged:
            values[name], size = read(data, position)
            position += size
        if flexible:
            position += _read_tagged(data, position, tagged, values)
        return message_class(**values), position - start

    return read_message


def _field_reader(field: dataclasses.Field[Any], hint: Any, *, flexible: bool, tagged: bool) -> Read:
    nested = nested_class(hint)
    array = is_array(hint)
    optional = is_optional(hint) and not tagged
    if nested is not None:
        read = entity_reader(nested)
        if optional and not array:
            read = _nullable_entity_reader(read)
    else:
        read = _primitive_reader(str(field.metadata["kafka_type"]), flexible=flexible, optional=optional and not array)
    return _array_reader(read, flexible=flexible, optional=is_optional(hint)) if array else read


def _primitive_reader(kind: str, *, flexible: bool, optional: bool) -> Read:
    if kind in _FIXED:
        return _FIXED[kind]
    return _VARYING["bytes" if kind == "records" else kind, flexible, optional]


def _nullable_entity_reader(read: Read) -> Read:
    """A structure that may be missing (KIP-893)."""

    def read_nullable(data: Bytes, start: int) -> tuple[Any, int]:
        marker, size = readers.read_int8(data, start)
        if marker < 0:
            return None, size
        value, taken = read(data, start + size)
        return value, size + taken

    return read_nullable


def _array_reader(read: Read, *, flexible: bool, optional: bool) -> Read:
    read_length = readers.read_compact_array_length if flexible else readers.read_legacy_array_length

    def read_array(data: Bytes, start: int) -> tuple[Any, int]:
        count, size = read_length(data, start)
        if count is None or count == -1:
            if not optional:
                raise UnexpectedNull("an array that must not be null is")
            return None, size
        if not 0 <= count <= len(data) - start - size:
            raise BufferUnderflow(f"an array of {count} elements where {len(data) - start - size} bytes are left")
        items, position = [], start + size
        for _ in range(count):
            item, taken = read(data, position)
            items.append(item)
            position += taken
        return tuple(items), position - start

    return read_array


def _read_tagged(data: Bytes, start: int, known: Mapping[int, tuple[str, Read]], values: dict[str, Any]) -> int:
    """Tagged fields (KIP-482); those that are not known are skipped. Returns how many bytes they took."""
    count, size = readers.read_unsigned_varint(data, start)
    position = start + size
    for _ in range(count):
        tag, size = readers.read_unsigned_varint(data, position)
        length, taken = readers.read_unsigned_varint(data, position + size)
        position += size + taken
        if length > len(data) - position:
            raise BufferUnderflow(f"tagged field {tag} of {length} bytes where {len(data) - position} are left")
        if tag in known:
            name, read = known[tag]
            values[name], taken = read(data, position)
            if taken != length:
                raise DecodeError(f"tagged field {tag} says {length} bytes and has {taken}")
        position += length
    return position - start

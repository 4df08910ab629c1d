"""Messages of kio's classes from bytes that nobody vouches for.

kio's own reader sets memory aside for as many elements as an array claims to have, and a claim that memory cannot meet
ends the process. Here a claim is held against the bytes that are left, and against the message's budget of elements,
before anything else happens. Messages are read in slices, for many elements take long. The fields are read by kio's
readers of primitive types; what a class has for fields, it says itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import attrs
from kio.serial import readers
from kio.serial.errors import BufferUnderflow, DecodeError, UnexpectedNull

from tidegauge.impl.records.slices import Sliced, at_once
from tidegauge.impl.wire.budget import MAX_TAGS, STEP, Budget, TooManyElementsError
from tidegauge.impl.wire.frames import Payload as Bytes
from tidegauge.impl.wire.message_classes import (
    NO_MOMENT,
    default,
    field_types,
    is_array,
    is_flat,
    is_optional,
    moment,
    nested_class,
    span,
)

if TYPE_CHECKING:
    from kio.static.protocol import Payload

Read: TypeAlias = Callable[[Bytes, int], tuple[Any, int]]
"""(bytes, position) -> (value, how many bytes it took)."""
ReadFlat: TypeAlias = Callable[[Bytes, int, Budget], tuple[Any, int]]
Reading: TypeAlias = Callable[[Bytes, int, Budget], Sliced[tuple[Any, int]]]
"""The same in slices, with the budget of the message."""


class _Field(NamedTuple):
    """A field's name, and what reads it: in slices, if there may be an array in it."""

    name: str
    read: Read
    read_sliced: Reading | None


def _read_moment(data: Bytes, position: int) -> tuple[Any, int]:
    """kio's own reader refuses -1, which Kafka writes for a transaction that has not begun, and what is far away."""
    ms, size = readers.read_int64(data, position)
    return moment(ms), size


def _read_nullable_moment(data: Bytes, position: int) -> tuple[Any, int]:
    ms, size = readers.read_int64(data, position)
    return None if ms == NO_MOMENT else moment(ms), size


def _read_span(data: Bytes, position: int) -> tuple[Any, int]:
    """kio's own reader refuses what `timedelta` has no value for."""
    ms, size = readers.read_int64(data, position)
    return span(ms), size


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
        "timedelta_i64": _read_span,
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
        ("datetime_i64", False, False): _read_moment,
        ("datetime_i64", False, True): _read_nullable_moment,
        ("datetime_i64", True, False): _read_moment,
        ("datetime_i64", True, True): _read_nullable_moment,
    }
)
"""(type, flexible version, nullable)."""


_SIZES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "int8": 1,
        "int16": 2,
        "int32": 4,
        "int64": 8,
        "uint16": 2,
        "uint32": 4,
        "float64": 8,
        "bool": 1,
        "uuid": 16,
        "error_code": 2,
        "timedelta_i32": 4,
        "timedelta_i64": 8,
        "datetime_i64": 8,
    }
)
"""Bytes that a value takes; strings and bytes are not among them."""


@cache
def entity_reader(message_class: type[Payload]) -> Read:
    """What reads a message of this class. It raises kio's DecodeError, or ValueError for a value that cannot be."""
    reading = entity_reading(message_class)
    return lambda data, start: at_once(reading(data, start, Budget()))


@cache
def entity_reading(message_class: type[Payload], made: type[Payload] | None = None) -> Reading:
    """The same in slices. Messages from peers are read with a budget; it raises TooManyElementsError besides.

    `made` is the class of what is returned, if it is another one that has all the fields of `message_class`.
    """
    made = made or message_class
    fields = _fields(message_class, made)
    flexible = message_class.__flexible__

    def reading(data: Bytes, start: int, budget: Budget) -> Sliced[tuple[Any, int]]:
        values, position = dict(fields.defaults), start
        for name, read, read_sliced in fields.untagged:
            if read_sliced is None:
                values[name], size = read(data, position)
            else:
                values[name], size = yield from read_sliced(data, position, budget)
            position += size
        if flexible:
            if position < len(data) and data[position] == 0:
                position += 1
            else:
                position += yield from _reading_tags(data, position, fields.tagged, values, budget)
        return made(**values), position - start

    return reading


@cache
def _flat_reader(message_class: type[Payload], made: type[Payload]) -> ReadFlat:
    """What reads a message without arrays."""
    fields = _fields(message_class, made)
    flexible = message_class.__flexible__

    def read_message(data: Bytes, start: int, budget: Budget) -> tuple[Any, int]:
        values, position = dict(fields.defaults), start
        for name, read, read_sliced in fields.untagged:
            if read_sliced is None:
                values[name], size = read(data, position)
            else:
                values[name], size = at_once(read_sliced(data, position, budget))
            position += size
        if flexible:
            if position < len(data) and data[position] == 0:
                position += 1
            else:
                position += at_once(_reading_tags(data, position, fields.tagged, values, budget))
        return made(**values), position - start

    return read_message


@attrs.frozen(eq=False, repr=False)
class _Fields:
    """How the fields of a class are read."""

    untagged: list[_Field] = attrs.field(factory=list)
    tagged: dict[int, _Field] = attrs.field(factory=dict)
    defaults: dict[str, Any] = attrs.field(factory=dict)


def _fields(message_class: type[Payload], made: type[Payload]) -> _Fields:
    """What reads the fields of a class; those that `made` has besides have their defaults."""
    hints, made_hints = field_types(message_class), field_types(made)
    flexible = message_class.__flexible__
    found = _Fields()
    names = {field.name for field in dataclasses.fields(message_class)}
    for field in dataclasses.fields(made):
        if field.name not in names:
            found.defaults[field.name] = default(field, made_hints[field.name])
    for field in dataclasses.fields(message_class):
        tag = field.metadata.get("tag")
        made_item = nested_class(made_hints[field.name])
        one = _field_reader(field, hints[field.name], made_item, flexible=flexible, tagged=tag is not None)
        if tag is None:
            found.untagged.append(one)
        else:
            found.tagged[tag] = one
            found.defaults[field.name] = default(field, hints[field.name])
    return found


def _field_reader(
    field: dataclasses.Field[Any], hint: Any, made: type[Payload] | None, *, flexible: bool, tagged: bool
) -> _Field:
    nested = nested_class(hint)
    array = is_array(hint)
    optional = is_optional(hint) and not tagged
    if array:
        reading = _array_reading(field, nested, made, flexible=flexible, optional=is_optional(hint))
        return _Field(field.name, _unread, reading)
    if nested is None:
        kind = str(field.metadata["kafka_type"])
        return _Field(field.name, _primitive_reader(kind, flexible=flexible, optional=optional), None)
    return _Field(field.name, _unread, _entity_reading(nested, made or nested, nullable=optional))


def _unread(data: Bytes, start: int) -> tuple[Any, int]:
    """In the place of the reader of a field that is read in slices."""
    raise NotImplementedError


def _primitive_reader(kind: str, *, flexible: bool, optional: bool) -> Read:
    if kind in _FIXED:
        return _FIXED[kind]
    return _VARYING["bytes" if kind == "records" else kind, flexible, optional]


def _entity_reading(message_class: type[Payload], made: type[Payload], *, nullable: bool) -> Reading:
    """A structure in a field, which may be missing if it is nullable (KIP-893)."""
    inner = entity_reading(message_class, made)
    if not nullable:
        return inner

    def reading(data: Bytes, start: int, budget: Budget) -> Sliced[tuple[Any, int]]:
        marker, size = readers.read_int8(data, start)
        if marker < 0:
            return None, size
        value, taken = yield from inner(data, start + size, budget)
        return value, size + taken

    return reading


def _array_reading(
    field: dataclasses.Field[Any],
    nested: type[Payload] | None,
    made: type[Payload] | None,
    *,
    flexible: bool,
    optional: bool,
) -> Reading:
    read_length = readers.read_compact_array_length if flexible else readers.read_legacy_array_length
    read_flat: ReadFlat | None = None
    read_sliced: Reading | None = None
    if nested is None:
        kind = str(field.metadata["kafka_type"])
        read, smallest = _primitive_reader(kind, flexible=flexible, optional=False), _size(kind, flexible=flexible)
        read_flat = lambda data, start, _: read(data, start)  # noqa: E731
    elif is_flat(nested):
        read_flat, smallest = _flat_reader(nested, made or nested), smallest_size(nested)
    else:
        read_sliced, smallest = entity_reading(nested, made or nested), smallest_size(nested)

    def reading(data: Bytes, start: int, budget: Budget) -> Sliced[tuple[Any, int]]:
        count, size = read_length(data, start)
        if count is None or count == -1:
            if not optional:
                raise UnexpectedNull("an array that must not be null is")
            return None, size
        if not 0 <= count * smallest <= len(data) - start - size:
            raise BufferUnderflow(f"an array of {count} elements where {len(data) - start - size} bytes are left")
        budget.claim(count)
        items, position = [], start + size
        for _ in range(count):
            if read_flat is not None:
                item, taken = read_flat(data, position, budget)
            else:
                assert read_sliced is not None, "an element is read in one way or the other"
                item, taken = yield from read_sliced(data, position, budget)
            items.append(item)
            position += taken
            budget.due += 1
            if budget.due >= STEP:
                yield budget.step()
        return tuple(items), position - start

    return reading


@cache
def smallest_size(message_class: type[Payload]) -> int:
    """Bytes that a message of this class takes at least."""
    hints = field_types(message_class)
    flexible = message_class.__flexible__
    size = int(flexible)  # the number of its tagged fields
    for field in dataclasses.fields(message_class):
        hint = hints[field.name]
        nested = nested_class(hint)
        if field.metadata.get("tag") is not None:
            continue
        if is_array(hint):
            size += 1 if flexible else 4
        elif nested is not None:
            size += 1 if is_optional(hint) else smallest_size(nested)
        else:
            size += _size(str(field.metadata["kafka_type"]), flexible=flexible)
    return size


def _size(kind: str, *, flexible: bool) -> int:
    if kind in _SIZES:
        return _SIZES[kind]
    if flexible:
        return 1
    return 2 if kind == "string" else 4


def _reading_tags(
    data: Bytes, start: int, known: Mapping[int, _Field], values: dict[str, Any], budget: Budget
) -> Sliced[int]:
    """Tagged fields (KIP-482); those that are not known are skipped. Returns how many bytes they took."""
    count, size = readers.read_unsigned_varint(data, start)
    if count > MAX_TAGS:
        raise TooManyElementsError(f"{count} tagged fields in one structure: there are {MAX_TAGS} at most")
    budget.claim(count)
    budget.due += count
    position = start + size
    for _ in range(count):
        tag, size = readers.read_unsigned_varint(data, position)
        length, taken = readers.read_unsigned_varint(data, position + size)
        position += size + taken
        if length > len(data) - position:
            raise BufferUnderflow(f"tagged field {tag} of {length} bytes where {len(data) - position} are left")
        if tag in known:
            name, read, read_sliced = known[tag]
            if read_sliced is None:
                values[name], taken = read(data, position)
            else:
                values[name], taken = yield from read_sliced(data, position, budget)
            if taken != length:
                raise DecodeError(f"tagged field {tag} says {length} bytes and has {taken}")
        position += length
    return position - start

"""Messages of kio's classes as bytes, in slices: a response may have as many elements as the cluster has partitions.

The fields are written by kio's writers of primitive types; what a class has for fields, it says itself. A structure
without arrays is written at once.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import attrs
from kio.serial import writers

from tidegauge.impl.records.slices import Sliced, at_once
from tidegauge.impl.wire.budget import STEP, WRITE_UNITS
from tidegauge.impl.wire.fields import varint
from tidegauge.impl.wire.message_classes import (
    NO_MOMENT,
    FarMoment,
    default,
    field_types,
    is_array,
    is_flat,
    is_optional,
    moment_ms,
    nested_class,
)
from tidegauge.impl.wire.primitives import i64

if TYPE_CHECKING:
    from kio.static.primitive import TZAware
    from kio.static.protocol import Payload

Write: TypeAlias = Callable[[io.BytesIO, Any], None]
Writing: TypeAlias = Callable[[io.BytesIO, Any], Sliced[None]]


def _write_moment(buffer: io.BytesIO, value: TZAware | FarMoment) -> None:
    writers.write_int64(buffer, i64(moment_ms(value)))


def _write_nullable_moment(buffer: io.BytesIO, value: TZAware | FarMoment | None) -> None:
    writers.write_int64(buffer, i64(NO_MOMENT if value is None else moment_ms(value)))


_FIXED: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "int8": writers.write_int8,
        "int16": writers.write_int16,
        "int32": writers.write_int32,
        "int64": writers.write_int64,
        "uint16": writers.write_uint16,
        "uint32": writers.write_uint32,
        "float64": writers.write_float64,
        "bool": writers.write_boolean,
        "uuid": writers.write_uuid,
        "error_code": writers.write_error_code,
        "timedelta_i32": writers.write_timedelta_i32,
        "timedelta_i64": writers.write_timedelta_i64,
    }
)
"""Types that are written in one way only."""

_VARYING: Final[Mapping[tuple[str, bool, bool], Any]] = MappingProxyType(
    {
        ("string", False, False): writers.write_legacy_string,
        ("string", False, True): writers.write_nullable_legacy_string,
        ("string", True, False): writers.write_compact_string,
        ("string", True, True): writers.write_nullable_compact_string,
        ("bytes", False, False): writers.write_legacy_bytes,
        ("bytes", False, True): writers.write_nullable_legacy_bytes,
        ("bytes", True, False): writers.write_compact_string,
        ("bytes", True, True): writers.write_nullable_compact_string,
        ("datetime_i64", False, False): _write_moment,
        ("datetime_i64", False, True): _write_nullable_moment,
        ("datetime_i64", True, False): _write_moment,
        ("datetime_i64", True, True): _write_nullable_moment,
    }
)
"""(type, flexible version, nullable)."""


_NO_TAGS: Final = b"\x00"


class _Field(NamedTuple):
    """A field's name, and what writes it: in slices, if there may be an array in it."""

    name: str
    write: Write
    write_sliced: Writing | None


class _Tagged(NamedTuple):
    tag: int
    field: _Field
    default: object
    """The value that is not written."""


@attrs.frozen(eq=False, repr=False)
class _Fields:
    """How the fields of a class are written."""

    untagged: list[_Field] = attrs.field(factory=list)
    tagged: list[_Tagged] = attrs.field(factory=list)


def _fields(message_class: type[Payload]) -> _Fields:
    hints = field_types(message_class)
    found = _Fields()
    for field in dataclasses.fields(message_class):
        tag = field.metadata.get("tag")
        one = _field_writer(field, hints[field.name], flexible=message_class.__flexible__, tagged=tag is not None)
        if tag is None:
            found.untagged.append(one)
        else:
            found.tagged.append(_Tagged(int(tag), one, default(field, hints[field.name])))
    found.tagged.sort(key=lambda one: one.tag)
    return found


@cache
def entity_writing(message_class: type[Payload]) -> Writing:
    """What writes a message of this class, in slices."""
    fields = _fields(message_class)
    flexible = message_class.__flexible__

    def writing(buffer: io.BytesIO, message: Any) -> Sliced[None]:
        for name, write, write_sliced in fields.untagged:
            if write_sliced is None:
                write(buffer, getattr(message, name))
            else:
                yield from write_sliced(buffer, getattr(message, name))
        if fields.tagged:
            yield from _writing_tags(buffer, message, fields.tagged)
        elif flexible:
            buffer.write(_NO_TAGS)

    return writing


@cache
def _flat_writer(message_class: type[Payload]) -> Write:
    """What writes a message without arrays."""
    fields = _fields(message_class)
    flexible = message_class.__flexible__

    def write_message(buffer: io.BytesIO, message: Any) -> None:
        for name, write, write_sliced in fields.untagged:
            if write_sliced is None:
                write(buffer, getattr(message, name))
            else:
                at_once(write_sliced(buffer, getattr(message, name)))
        if fields.tagged:
            at_once(_writing_tags(buffer, message, fields.tagged))
        elif flexible:
            buffer.write(_NO_TAGS)

    return write_message


def _writing_tags(buffer: io.BytesIO, message: Any, tagged: list[_Tagged]) -> Sliced[None]:
    written: list[tuple[int, bytes]] = []
    for tag, (name, write, write_sliced), unwritten in tagged:
        value = getattr(message, name)
        if value == unwritten:
            continue
        body = io.BytesIO()
        if write_sliced is None:
            write(body, value)
        else:
            yield from write_sliced(body, value)
        written.append((tag, body.getvalue()))
    buffer.write(varint(len(written)))
    for tag, data in written:
        buffer.write(varint(tag) + varint(len(data)))
        buffer.write(data)


def _field_writer(field: dataclasses.Field[Any], hint: Any, *, flexible: bool, tagged: bool) -> _Field:
    nested = nested_class(hint)
    optional = is_optional(hint) and not tagged
    if is_array(hint):
        return _Field(field.name, _unwritten, _array_writing(field, nested, flexible=flexible))
    if nested is None:
        kind = str(field.metadata["kafka_type"])
        return _Field(field.name, _primitive_writer(kind, flexible=flexible, optional=optional), None)
    return _Field(field.name, _unwritten, _entity_writing(nested, nullable=optional))


def _unwritten(buffer: io.BytesIO, value: Any) -> None:
    """In the place of the writer of a field that is written in slices."""
    raise NotImplementedError


def _primitive_writer(kind: str, *, flexible: bool, optional: bool) -> Write:
    write: Write = _FIXED.get(kind) or _VARYING["bytes" if kind == "records" else kind, flexible, optional]
    return write


def _entity_writing(message_class: type[Payload], *, nullable: bool) -> Writing:
    """A structure in a field, which may be missing if it is nullable (KIP-893)."""
    inner = entity_writing(message_class)
    if not nullable:
        return inner

    def writing(buffer: io.BytesIO, message: Any) -> Sliced[None]:
        buffer.write(b"\xff" if message is None else b"\x01")
        if message is not None:
            yield from inner(buffer, message)

    return writing


def _array_writing(field: dataclasses.Field[Any], nested: type[Payload] | None, *, flexible: bool) -> Writing:
    write: Write | None = None
    write_sliced: Writing | None = None
    if nested is None:
        write = _primitive_writer(str(field.metadata["kafka_type"]), flexible=flexible, optional=False)
    elif is_flat(nested):
        write = _flat_writer(nested)
    else:
        write_sliced = entity_writing(nested)

    def writing(buffer: io.BytesIO, items: Any) -> Sliced[None]:
        if flexible:
            buffer.write(varint(0 if items is None else len(items) + 1))
        else:
            buffer.write((-1 if items is None else len(items)).to_bytes(4, "big", signed=True))
        for number, item in enumerate(items or ()):
            if write is not None:
                write(buffer, item)
            else:
                assert write_sliced is not None, "an element is written in one way or the other"
                yield from write_sliced(buffer, item)
                yield WRITE_UNITS
                continue
            if number % STEP == STEP - 1:
                yield STEP * WRITE_UNITS

    return writing

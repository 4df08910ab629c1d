"""Kafka's message classes, as kio generates them: their fields' types, and the values of fields that are not set."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import attrs
from kio.schema.errors import ErrorCode
from kio.serial.readers import read_datetime_i64

if TYPE_CHECKING:
    from kio.static.primitive import TZAware, i64Timedelta

EPOCH: Final = read_datetime_i64(bytes(8), 0)[0]
"""The moment 0, where a message has none to tell."""


NO_MOMENT: Final = -1
"""Where a message may be without a time."""


@attrs.frozen
class FarMoment:
    """A time that `datetime` has no value for: a message may have any int64."""

    ms: int
    """Since 1970."""


def moment(ms: int) -> TZAware:
    """A time in ms since 1970; -1 where there is none, which kio's type has no value for."""
    try:
        return EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return cast("TZAware", FarMoment(ms))


def moment_ms(time: TZAware | FarMoment) -> int:
    """The time in ms since 1970."""
    return time.ms if isinstance(time, FarMoment) else round(time.timestamp() * 1000)


def span(ms: int) -> i64Timedelta:
    """A span of time in ms; one that `timedelta` has no value for is the longest that it has."""
    try:
        found = timedelta(milliseconds=ms)
    except OverflowError:
        found = timedelta.max if ms > 0 else timedelta.min
    return cast("i64Timedelta", found)


_ZEROS: Final[dict[str, Any]] = {
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": None,
    "bool": False,
    "float64": 0.0,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": EPOCH,
}
"""What Kafka's generated classes hold where nothing was said; numbers not named here are 0."""


@cache
def field_types(message_class: type) -> Mapping[str, Any]:
    """The type of each field by its name. kio's classes hold the types themselves, this project's own their source."""
    types_held = {field.name: field.type for field in dataclasses.fields(message_class)}
    if any(isinstance(held, str) for held in types_held.values()):
        hints = typing.get_type_hints(message_class)
        types_held = {name: hints[name] for name in types_held}
    return types_held


def default(field: dataclasses.Field[Any], hint: Any) -> Any:
    """The value of a field of which nothing was said, by Kafka's schema."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if is_array(hint):
        return ()
    nested = nested_class(hint)
    if nested is not None:
        return None if is_optional(hint) else blank(nested)
    kind = str(field.metadata.get("kafka_type", ""))
    return _ZEROS.get(kind, 0)


def blank(message_class: type) -> Any:
    """A message of which nothing was said."""
    hints = field_types(message_class)
    return message_class(
        **{field.name: default(field, hints[field.name]) for field in dataclasses.fields(message_class)}
    )


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def is_optional(hint: Any) -> bool:
    return type(None) in _alternatives(hint)


def is_array(hint: Any) -> bool:
    return any(typing.get_origin(alternative) is tuple for alternative in _alternatives(hint))


@cache
def arrays_of(message_class: type) -> tuple[str, ...]:
    """The fields of a message's class, kio's or this project's, that are arrays; none of any other class."""
    if dataclasses.is_dataclass(message_class):
        kinds = {field.name: str(field.type) for field in dataclasses.fields(message_class)}
    elif attrs.has(message_class):
        kinds = {field.name: str(field.type) for field in attrs.fields(message_class)}
    else:
        return ()
    return tuple(name for name, kind in kinds.items() if kind.startswith(("tuple[", "list[")))


@cache
def is_flat(message_class: type) -> bool:
    """Whether there is no array in a message, nor in what is in it: its size bounds what it costs."""
    hints = field_types(message_class)
    nested = [nested_class(hints[field.name]) for field in dataclasses.fields(message_class)]
    arrays = any(is_array(hints[field.name]) for field in dataclasses.fields(message_class))
    return not arrays and all(one is None or is_flat(one) for one in nested)


def nested_class(hint: Any) -> type | None:
    """The message class in a field's type, if there is one."""
    for alternative in _alternatives(hint):
        element = typing.get_args(alternative)[0] if typing.get_origin(alternative) is tuple else alternative
        if isinstance(element, type) and dataclasses.is_dataclass(element):
            return element
    return None

"""Requests of one kind with many elements in one of their arrays, for every API and version: what may cost most."""

from __future__ import annotations

import dataclasses
import io
import struct
import typing
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final, TypeAlias

from kio import serial

from tidegauge.impl.wire.apis import BROKER_APIS, PRODUCE_SERVED_FROM, ApiKey, request_class
from tidegauge.impl.wire.message_classes import is_array, nested_class
from tidegauge.model_tests.wire.sample_messages import sample

Path: TypeAlias = tuple[str, ...]
"""The names of fields that lead from a request to one of its arrays."""
OWN: Final = (ApiKey.PRODUCE, ApiKey.FETCH)
"""APIs whose messages have one class for all versions in this project; kio's serve here."""
SEARCHED: Final = tuple(key for key in BROKER_APIS if key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))


def versions(key: ApiKey) -> range:
    """The versions of an API that are served."""
    served = BROKER_APIS[key]
    return range(PRODUCE_SERVED_FROM if key is ApiKey.PRODUCE else served.lowest, served.highest + 1)


def message_class(key: ApiKey, version: int) -> type[Any]:
    """kio's class of a request."""
    if key not in OWN:
        return request_class(key, version)
    found: type[Any] = getattr(
        import_module(f"kio.schema.{key.name.lower()}.v{version}.request"), f"{key.name.title()}Request"
    )
    return found


def frame_of(key: ApiKey, version: int, message: Any) -> bytes:
    """A request's frame, its length included."""
    body = io.BytesIO()
    serial.entity_writer(type(message))(body, message)
    tags = b"\0" if type(message).__header_schema__.__version__ >= 2 else b""
    return framed(key, version, tags + body.getvalue())


def framed(key: int, version: int, rest: bytes) -> bytes:
    """The frame with this after the client id."""
    whole = struct.pack(">hhih", key, version, 1, 1) + b"x" + rest
    return struct.pack(">i", len(whole)) + whole


def arrays(message: type[Any]) -> Iterator[Path]:
    """The arrays of a message, outer ones before those in their elements."""
    hints = typing.get_type_hints(message)
    for field in dataclasses.fields(message):
        nested = nested_class(hints[field.name])
        if is_array(hints[field.name]):
            yield (field.name,)
        if nested is not None:
            for inner in arrays(nested):
                yield (field.name, *inner)


def many(message: type[Any], path: Path, count: int, values: Mapping[str, Any], *, distinct: bool) -> Any:
    """A message with so many elements in one of its arrays, and one in each other; `distinct` ones or all the same."""
    hints = typing.get_type_hints(message)
    changed: dict[str, Any] = {}
    made = sample(message, values)
    for field in dataclasses.fields(message):
        value, hint = getattr(made, field.name), hints[field.name]
        nested = nested_class(hint)
        if field.name != path[0]:
            changed[field.name] = value[:1] if is_array(hint) and value else value
        elif len(path) > 1:
            assert nested is not None, "an array within an array is in a structure"
            inner = many(nested, path[1:], count, values, distinct=distinct)
            changed[field.name] = (inner,) if is_array(hint) else inner
        else:
            changed[field.name] = tuple(_numbered(value[0], n) if distinct else value[0] for n in range(count))
    return message(**changed)


def _numbered(item: Any, number: int) -> Any:
    """The item under another name, or of another number."""
    if isinstance(item, str):
        return f"{item}{number}"
    if type(item) is int:
        return number % 127
    if not dataclasses.is_dataclass(item):
        return item
    for field in dataclasses.fields(item):
        value = getattr(item, field.name)
        if isinstance(value, str) or (type(value) is int and field.metadata.get("kafka_type") == "int32"):
            other = f"{value}{number}" if isinstance(value, str) else number
            return dataclasses.replace(item, **{field.name: other})  # type: ignore[type-var]
    return item

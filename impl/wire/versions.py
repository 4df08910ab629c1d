"""Versions of a message: handlers see one, the canonical one, whatever the peer speaks.

A request is lifted: a field that its version does not have yet takes the default that Kafka's schema gives it. A
response is lowered: a field that the peer's version does not have yet, or no longer, is left out. Fields keep their
names through all versions of Kafka's schemas, so that the converter of a pair of classes follows from their fields; it
is made once and kept. Where a version differs in more than its fields, the handler looks at the request's version.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Collection
from functools import cache
from typing import TYPE_CHECKING, Any

from tidegauge.impl.wire.message_classes import default, is_array, nested_class
from tidegauge.impl.wire.reshaping import MADE

if TYPE_CHECKING:
    from kio.static.protocol import Payload

Convert = Callable[[Any], Any]


def convert(message: Payload, target: type[Payload]) -> Any:
    """The same message in the version of `target`."""
    return message if type(message) is target else converter(type(message), target)(message)


@cache
def converter(source: type, target: type) -> Convert:
    """What turns an instance of one version's class into the other version's."""
    if source is target:
        return _same
    hints = typing.get_type_hints(target)
    source_hints = typing.get_type_hints(source)
    given = {field.name for field in dataclasses.fields(source)}
    copied: list[str] = []
    converted: list[tuple[str, Convert]] = []
    constants: dict[str, Any] = {}
    made: list[tuple[str, Callable[[Any], Any]]] = []
    for field in dataclasses.fields(target):
        if (make := reshaped(target, field.name, given)) is not None:
            made.append((field.name, make))
        elif field.name not in given:
            constants[field.name] = default(field, hints[field.name])
        elif (nested := nested_class(hints[field.name])) is not None:
            convert_one = converter(nested_class(source_hints[field.name]) or nested, nested)
            many = is_array(hints[field.name])
            converted.append((field.name, _each(convert_one) if many else _optional(convert_one)))
        else:
            copied.append(field.name)

    def convert_message(message: Any) -> Any:
        values = dict(constants)
        for name in copied:
            values[name] = getattr(message, name)
        for name, convert_field in converted:
            values[name] = convert_field(getattr(message, name))
        for name, make_field in made:
            values[name] = make_field(message)
        return target(**values)

    return convert_message


def reshaped(target: type, field: str, given: Collection[str]) -> Callable[[Any], Any] | None:
    """What makes a field that stands in another place in the source, which has the fields `given`; else None."""
    source_field, make = MADE.get((getattr(target, "__api_key__", -1), field), ("", None))
    hints = typing.get_type_hints(target)
    if make is None or source_field not in given or source_field in hints:
        return None
    item = nested_class(hints[field]) or object
    return lambda message: make(message, item, convert)


def _same(message: Any) -> Any:
    return message


def _each(convert_one: Convert) -> Convert:
    def convert_all(items: Any) -> Any:
        return None if items is None else tuple(map(convert_one, items))

    return convert_all


def _optional(convert_one: Convert) -> Convert:
    def convert_if_there(item: Any) -> Any:
        return None if item is None else convert_one(item)

    return convert_if_there

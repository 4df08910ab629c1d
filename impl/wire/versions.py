"""Versions of a message: handlers see one, the canonical one, whatever the peer speaks.

A request is lifted: a field that its version does not have yet takes the default that Kafka's schema gives it. A
response is lowered: a field that the peer's version does not have yet, or no longer, is left out. Fields keep their
names through all versions of Kafka's schemas, so that the converter of a pair of classes follows from their fields; it
is made once and kept. Where the canonical class has all fields of a version, as most have, nothing is converted:
`impl.wire.codecs` reads the canonical class from the version's bytes, and writes it as such (`holds`). Where a version
differs in more than its fields, the handler looks at the request's version.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from functools import cache
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from tidegauge.impl.records.slices import Sliced, at_once, done, mapped, mapped_in_slices
from tidegauge.impl.wire.budget import READ_UNITS
from tidegauge.impl.wire.message_classes import default, field_types, is_array, is_flat, nested_class
from tidegauge.impl.wire.reshaping import MADE, TAKEN

if TYPE_CHECKING:
    from kio.static.protocol import Payload

Convert = Callable[[Any], Any]
Converting = Callable[[Any], Sliced[Any]]


def convert(message: Payload, target: type[Payload]) -> Any:
    """The same message in the version of `target`."""
    return at_once(converting(message, target))


def converting(message: Payload, target: type[Payload]) -> Sliced[Any]:
    """The same in slices, for a message may have many elements."""
    if type(message) is target:
        return message
    return (yield from converter(type(message), target)(message))


@cache
def holds(whole: type, part: type) -> bool:
    """Whether a class has every field of another version's, in the same place.

    Then the bytes of that version are read as `whole`, and written from it, and nothing is converted.
    """
    if whole is part:
        return True
    given = {field.name for field in dataclasses.fields(whole)}
    hints, part_hints = field_types(whole), field_types(part)
    for field in dataclasses.fields(part):
        if field.name not in given or reshaped(part, field.name, given) is not None:
            return False
        hint, part_hint = hints[field.name], part_hints[field.name]
        item, part_item = nested_class(hint), nested_class(part_hint)
        if is_array(hint) != is_array(part_hint) or (item is None) != (part_item is None):
            return False
        if item is not None and part_item is not None and not holds(item, part_item):
            return False
    return True


@cache
def converter(source: type, target: type) -> Converting:
    """What turns an instance of one version's class into the other version's."""
    if source is target:
        return done
    hints = field_types(target)
    source_hints = field_types(source)
    given = {field.name for field in dataclasses.fields(source)}
    copied: list[str] = []
    converted: list[tuple[str, Convert | Converting]] = []
    constants: dict[str, Any] = {}
    for field in dataclasses.fields(target):
        if (making := reshaped(target, field.name, given)) is not None:
            converted.append((field.name, making))
        elif field.name not in given:
            constants[field.name] = default(field, hints[field.name])
        elif (nested := nested_class(hints[field.name])) is not None:
            of_many_or_one = _each if is_array(hints[field.name]) else _optional
            make = of_many_or_one(nested_class(source_hints[field.name]) or nested, nested)
            converted.append((field.name, _of_field(field.name, make)))
        else:
            copied.append(field.name)

    def converting_message(message: Any) -> Sliced[Any]:
        values = dict(constants)
        for name in copied:
            values[name] = getattr(message, name)
        for name, convert_field in converted:
            made = convert_field(message)
            values[name] = (yield from made) if isinstance(made, GeneratorType) else made
        return target(**values)

    return converting_message


def reshaped(target: type, field: str, given: Collection[str]) -> Convert | Converting | None:
    """What makes a field that stands in another place in the source, which has the fields `given`; else None."""
    place, hints = (getattr(target, "__api_key__", -1), field), field_types(target)

    def is_moved(source_field: str) -> bool:
        return source_field in given and source_field not in hints

    if place in TAKEN and is_moved(TAKEN[place][0]):
        return TAKEN[place][1]
    if place not in MADE or not is_moved(MADE[place][0]):
        return None
    item, make = nested_class(hints[field]) or object, MADE[place][1]
    return lambda message: make(message, item, converting)


def _of_field(name: str, convert_value: Converting) -> Converting:
    return lambda message: convert_value(getattr(message, name))


def _each(source: type, target: type) -> Converting:
    """What converts an array of elements: at once each, where there is no array in them."""
    if source is target:
        return done
    converting_one = converter(source, target)
    if not (is_flat(source) and is_flat(target)):
        return lambda items: done(None) if items is None else mapped_in_slices(items, converting_one, READ_UNITS)

    def convert_one(item: Any) -> Any:
        return at_once(converting_one(item))

    return lambda items: done(None) if items is None else mapped(items, convert_one, READ_UNITS)


def _optional(source: type, target: type) -> Converting:
    """What converts a structure that may be missing."""
    converting_one = converter(source, target)
    return lambda item: done(None) if item is None else converting_one(item)

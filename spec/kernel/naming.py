"""Whom an action names: the numbers in it that are annotated as of a kind, such as brokers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args, get_type_hints

import attrs

from tidegauge.spec.kernel.fields import fields_of


def named(value: object, kind: object, hint: object = None) -> Iterator[int]:
    """Every number in `value` that is annotated as of this kind, in the objects within it as well."""
    if hint == kind and isinstance(value, int):
        yield value
    elif attrs.has(owner := type(value)):
        hints = hints_of(owner)
        for name, inner in fields_of(value):
            yield from named(inner, kind, hints[name])
    elif isinstance(value, tuple):
        arguments = get_args(hint)
        for place, item in enumerate(value):
            yield from named(item, kind, arguments[0 if arguments[-1] is Ellipsis else place])


def hints_of(kind: type[attrs.AttrsInstance]) -> dict[str, object]:
    """The annotations of a class's fields, by name."""
    found = _HINTS.get(kind)
    if found is None:
        found = _HINTS[kind] = _hints(kind)
    return found


_HINTS: dict[type[attrs.AttrsInstance], dict[str, object]] = {}


def _hints(kind: type[attrs.AttrsInstance]) -> dict[str, object]:
    every = get_type_hints(kind, include_extras=True)
    return {field.name: every[field.name] for field in attrs.fields(kind)}

"""Whom an action names: the numbers in it that are annotated as of a kind, such as brokers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import attrs


def named(value: Any, kind: Any, hint: Any = None) -> Iterator[int]:
    """Every number in `value` that is annotated as of this kind, in the objects within it as well."""
    if hint == kind:
        yield value
    elif attrs.has(owner := type(value)):
        for name, inner in hints_of(owner).items():
            yield from named(getattr(value, name), kind, inner)
    elif isinstance(value, tuple):
        arguments = get_args(hint)
        for place, item in enumerate(value):
            yield from named(item, kind, arguments[0 if arguments[-1] is Ellipsis else place])


def hints_of(kind: type[Any]) -> dict[str, Any]:
    """The annotations of a class's fields, by name."""
    found = _HINTS.get(kind)
    if found is None:
        found = _HINTS[kind] = _hints(kind)
    return found


_HINTS: dict[type[Any], dict[str, Any]] = {}


def _hints(kind: type[Any]) -> dict[str, Any]:
    every = get_type_hints(kind, include_extras=True)
    return {field.name: every[field.name] for field in attrs.fields(kind)}

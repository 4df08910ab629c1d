"""The fields of any value: those of an attrs class by name, in their order, and none of whatever else.

What a class has is looked up once: walks, traces and pages ask for the fields of millions of values of some classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import attrs


def fields_of(value: object) -> Iterator[tuple[str, object]]:
    """Each field of an attrs object with what it holds."""
    kind: Any = type(value)
    return iter([(name, getattr(value, name)) for name in names_of(kind)])


def changed_fields_of(value: object) -> Iterator[tuple[str, object]]:
    """Each field of an attrs object that is not at its default, with what it holds."""
    kind: Any = type(value)
    changed = []
    for name, default in _defaults_of(kind):
        inner = getattr(value, name)
        if inner is not default and (type(default) is not type(inner) or default != inner):
            changed.append((name, inner))
    return iter(changed)


@cache
def names_of(kind: type) -> tuple[str, ...]:
    """The names of an attrs class's fields; none of another class."""
    return tuple(field.name for field in attrs.fields(kind)) if attrs.has(kind) else ()


@cache
def _defaults_of(kind: type) -> tuple[tuple[str, object], ...]:
    """The fields of an attrs class with their defaults: `attrs.NOTHING` where one has none."""
    fields: Any = attrs.fields(kind) if attrs.has(kind) else ()
    return tuple((field.name, _default_of(field)) for field in fields)


def _default_of(field: attrs.Attribute[Any]) -> object:
    default: Any = field.default
    return default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]

"""Keys to sort instances of attrs classes by: those that `order=True` compares, field by field, but compared as tuples.

`__lt__` of attrs makes two tuples of fields for each comparison, and again for each instance in them. Who keeps
messages in order compares them in every step.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import attrs

__all__ = ["by_class", "by_fields"]

_MOST: Final = 1 << 16
"""Keys that are kept, at most: of the values that were sorted last."""


@lru_cache(_MOST)
def by_fields(value: object) -> Any:
    """A key for instances of one class: its fields, those of instances in it, and so on."""
    return _key(value)


@lru_cache(_MOST)
def by_class(value: object) -> tuple[str, Any]:
    """A key for instances of several classes: by the name of the class, then by fields."""
    return type(value).__name__, _key(value)


def _key(value: object) -> Any:
    kind = type(value)
    if kind is tuple:
        return tuple([_key(item) for item in value])  # type: ignore[attr-defined]
    if attrs.has(kind):
        return tuple([_key(getattr(value, field.name)) for field in attrs.fields(kind)])
    return value

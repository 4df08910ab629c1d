"""The fields of any value: those of an attrs class by name, in their order, and none of whatever else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs


def fields_of(value: object) -> Iterator[tuple[str, object]]:
    """Each field of an attrs object with what it holds."""
    kind = type(value)
    if attrs.has(kind):
        for field in attrs.fields(kind):
            yield field.name, getattr(value, field.name)


def changed_fields_of(value: object) -> Iterator[tuple[str, object]]:
    """Each field of an attrs object that is not at its default, with what it holds."""
    kind = type(value)
    if attrs.has(kind):
        for field in attrs.fields(kind):
            inner = getattr(value, field.name)
            if not _is_default(field, inner):
                yield field.name, inner


def _is_default(field: attrs.Attribute[Any], value: object) -> bool:
    default: Any = field.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        default = default.factory()
    return type(default) is type(value) and bool(default == value)

"""The fields of any value: those of an attrs class by name, in their order, and none of whatever else."""

from __future__ import annotations

from collections.abc import Iterator

import attrs


def fields_of(value: object) -> Iterator[tuple[str, object]]:
    """Each field of an attrs object with what it holds."""
    kind = type(value)
    if attrs.has(kind):
        for field in attrs.fields(kind):
            yield field.name, getattr(value, field.name)

"""Reading JSON without losing any of it.

Python takes the last of two fields with one name and says nothing. What a person edits may well have a field twice, and
a copy that goes unseen is a change that goes unseen, so every reader of JSON hands its objects to `each_name_once`.
"""

from __future__ import annotations

from collections.abc import Sequence


def each_name_once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """A JSON object, for `object_pairs_hook`. Raises ValueError for a name that is there twice."""
    fields: dict[str, object] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"an object has the field {name!r} twice: give each once")
        fields[name] = value
    return fields

"""Reading JSON without losing any of it: an object that has a field twice is refused.

Python takes the last of two fields with one name and says nothing, so every reader of JSON hands its objects to
`each_name_once`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def each_name_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, for `object_pairs_hook`. Raises ValueError for a name that is there twice."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"more than one field {next(name for name in names if names.count(name) > 1)}; write each once"
        )
    return fields

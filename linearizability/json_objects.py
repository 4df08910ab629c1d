"""Reading JSON without losing any of it: an object that has a field twice is refused.

Python takes the last of two fields with one name and says nothing, so every reader of JSON hands its objects to
`each_name_once`. Lines of JSON are read by `parse_line`, whose errors name the column and leave the line to the caller.
"""

from __future__ import annotations

import json
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


def parse_line(line: str | bytes) -> Any:
    """One line of JSON. Raises ValueError, which says at which column it is none: the line's number is its reader's."""
    try:
        return json.loads(line.rstrip(), object_pairs_hook=each_name_once)
    except json.JSONDecodeError as error:
        raise ValueError(f"column {error.pos + 1} is not JSON: {error.msg}") from None

"""Counts in words: `1 anomaly`, `2 anomalies`."""

from __future__ import annotations


def say(count: int, one: str, many: str = "") -> str:
    """The count with the noun that goes with it; `many` is `one` with an s unless it is given."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"

"""Checkpoints of a fast search: what is saved of it between two states, and how it goes on from there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidegauge.spec.kernel.storage import CheckpointError

__all__ = ["PARENTS", "ROWS", "resume", "save"]

ROWS: Final = "rows"
PARENTS: Final = "parents"
"""Arrays by name: the states as they are packed, and those that they were reached from."""


def save(search: Any, at: int) -> None:
    """Save a checkpoint of a `FastSearch`: the next state to be expanded is `at`."""
    counts = {ROWS: search.count, PARENTS: search.count, **search.table.runs.counts}
    own = {
        "layout": search.layout.saved(),
        "packing": (search.packing.widths, search.packing.lanes),
        "count": search.count,
        "first": search.first,
        "asked": search.asked,
        "tallies": [each.tolist() for each in (search.taken, search.enabled, search.new)],
        "runs": search.table.runs.saved,
        "table from": search.table.first,
        "fair": None,
    }
    if search.fair is not None:
        counts |= search.fair.counts
        own["fair"] = search.fair.count, search.fair.closed
    search.storage.save(counts, {"search": search.saved(at), **own})


def resume(search: Any, content: Mapping[str, Any]) -> int:
    """Go on from what was saved, whose arrays the search has: the next state to be expanded. Raises CheckpointError."""
    most = search.limits.states
    if most is not None and content["count"] > most:
        raise CheckpointError(f"it has {content['count']:,} states, more than the limit of {most:,}")
    for word, values in enumerate([*search.layout.values]):
        for number in range(len(values)):
            search.renaming.learn(word, number)
    search.count = search.checked = content["count"]
    search.first, search.asked = content["first"], content["asked"]
    for tallies, saved in zip((search.taken, search.enabled, search.new), content["tallies"], strict=True):
        tallies[:] = saved
    if search.fair is not None:
        search.fair.count, search.fair.closed = content["fair"]
    search.table.reopen(content["runs"], content["table from"], search.count)
    at: int = search.reopen(content["search"])
    for steps, states in search.out_degrees.items():
        while steps >= len(search.degrees):
            search.widen()
        search.degrees[steps] = states
    for size, orbits in search.orbit_sizes.items():
        search.sizes[size] = orbits
    search.judges = [judge for judge in search.judges if judge[2] or judge[0] not in search.goals]
    search.tally()
    return at

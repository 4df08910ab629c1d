"""How long partitions are known to be, by what clients were told: an empty fetch that says less is stale."""

from __future__ import annotations

from typing import Final

import attrs

MOST: Final = 100_000
"""Partitions; of others an empty fetch is only known to be stale by what is written down anyway."""


@attrs.define(eq=False)
class Ends:
    """For all threads: an end that two tell at once may be forgotten, and is told again."""

    known: dict[tuple[str, int], int] = attrs.field(factory=dict)

    def learn(self, topic: str, partition: int, end: int) -> None:
        """A client was told that the log is so long: by an acknowledgement of acks=all, or as an end."""
        key = topic, partition
        if end > self.known.get(key, 0):
            if len(self.known) >= MOST and key not in self.known:
                self.known.clear()
            self.known[key] = end

    def is_behind(self, topic: str, partition: int, end: int) -> bool:
        """Whether somebody was told that the log is longer."""
        return end < self.known.get((topic, partition), 0)

"""What a leader knows of the times of its followers' fetches, and what a witness knows besides."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import attrs

NONE = -1


class Error(IntEnum):
    """Errors of responses, by Kafka's numbers."""

    NONE = 0


@attrs.frozen
class Request:
    """A follower's fetch."""

    epoch: int
    """The leader epoch that it names."""
    process: int
    """Which of the follower's processes has sent it."""
    offset: int
    start: int = 0
    """Where the follower's log starts."""


@attrs.frozen
class Rest:
    """A fetch that finds nothing new, and is not looked at before something changes."""

    request: Request
    asked_at: int
    """When the follower last asked, and nothing had changed."""


@attrs.frozen
class Follower:
    """What the leader knows of a follower, from its fetches in this leader epoch."""

    in_sync: bool = True
    end: int = NONE
    process: int = NONE
    start: int = NONE
    caught_up_at: int = 0
    """When it last had all that the leader had."""
    fetched_at: int = 0
    leader_end: int = 0
    """The leader's log end offset at that fetch."""


@attrs.frozen
class Fetched:
    """A fetch, be it at rest, for the properties alone."""

    at: int
    process: int
    offset: int
    leader_end: int


@attrs.frozen
class Witness:
    """What has happened in this leader epoch, for the properties alone."""

    began_at: int = 0
    ends: tuple[int, ...] = (0,)
    """The leader's log end offset when each moment of time began."""
    fetches: tuple[tuple[Fetched, ...], ...] = ()
    """Of each follower."""


@attrs.frozen
class State:
    """One leader, or who has been one, and its followers."""

    followers: tuple[Follower, ...]
    rests: tuple[Rest | None, ...]
    processes: tuple[int, ...]
    """How often each follower has restarted."""
    witness: Witness
    now: int = 0
    leads: bool = True
    epoch: int = 0
    start: int = 0
    end: int = 0

    def low_watermark(self, live: Iterable[int]) -> int:
        """The lowest start of the leader's log and of those that these followers told; NONE while one has told none."""
        return min((self.start, *(self.followers[number].start for number in live)))

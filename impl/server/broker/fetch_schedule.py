"""Which partitions a follower fetches from one leader, by which of three fetchers, and when. Pure: no task, no clock.

Theory of operation
-------------------
A broker has up to three fetchers for each leader, each with a connection of its own:

- The QUIET fetcher's request names every partition that follows the leader, and waits there until one has news.
- The BUSY fetcher takes the partitions that had records recently, `MOST_BUSY` at most. A request costs more the more
  partitions it has; so records of a busy partition do not wait until the leader has looked at all the quiet ones. A
  partition leaves the busy fetcher when another one takes its room, when it had no records for `BUSY_FOR_S`, or when
  its leader changes.
- The NEW fetcher takes newcomers: partitions that are due while the request of their own fetcher waits at the leader.
  Its requests wait for a moment only. Their own fetcher takes them over when it is free. So a new topic, or a partition
  that had been quiet, does not wait until others have news.

A partition belongs to the QUIET or the BUSY fetcher. Its `lane` says which fetcher fetches it now; the transitions:

    event                                    lane before     lane after
    it follows the leader                    -               QUIET, or NEW while the quiet fetcher is FETCHING
    it had records, among more than FEW      QUIET           BUSY
    it is the least recent of too many busy  BUSY            QUIET
    it had no records for BUSY_FOR_S         BUSY            QUIET, or NEW while the quiet fetcher is FETCHING
    it was fetched by another than its own   any             its own, or NEW while that one is FETCHING
    its own fetcher takes it over            NEW             its own
    its leader changes                       any             -

A fetcher is ABSENT until it is first needed, then IDLE or FETCHING. At most one of a partition's fetches is outstanding
in each leader epoch (`Fetchable.awaits_response`). After a fetch that failed, a partition backs off until a time.

A partition of the quiet fetcher may be at REST: the fetcher's session asks for it without a word (`follower_sessions`),
and the schedule does not look at it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, Generic, Protocol, TypeVar

import attrs

from tidegauge.impl.server.broker.partition import TopicPartition

FEW: Final = 8
"""Partitions of one request up to which a fetcher is fast enough for all of them."""
MOST_BUSY: Final = 32
"""Partitions of a leader that the busy fetcher takes."""
BUSY_FOR_S: Final = 3.0
"""How long a partition stays busy after its latest records."""


class Lane(Enum):
    """Which of a leader's fetchers."""

    QUIET = ""
    BUSY = "busy"
    NEW = "new"


class FetcherState(Enum):
    """What a fetcher does."""

    ABSENT = "absent"
    """It was never needed."""
    IDLE = "idle"
    """It has no request outstanding."""
    FETCHING = "fetching"
    """Its request is outstanding, or about to be sent."""


class HasLeader(Protocol):
    """A replica, as far as the schedule must know it."""

    @property
    def leader(self) -> int: ...


class Fetchable(Protocol):
    """What the schedule must know of a partition."""

    @property
    def replica(self) -> HasLeader: ...

    @property
    def key(self) -> TopicPartition: ...

    @property
    def is_gone(self) -> bool:
        """Whether the broker hosts it no longer."""
        ...

    def awaits_response(self) -> bool:
        """Whether a fetch of the present leader epoch is outstanding."""
        ...


P = TypeVar("P", bound=Fetchable)


@attrs.define(eq=False, repr=False)
class Followed(Generic[P]):
    """A partition that follows the leader."""

    partition: P
    lane: Lane
    """The fetcher that fetches it now."""
    not_before: float = 0.0
    """It backs off until this time, in s."""
    busy_until: float = 0.0
    """If it is busy: when it is no longer unless it has records before, in s."""


class FetchSchedule(Generic[P]):
    """The schedule of one leader. Methods that return a lane ask the caller to wake that fetcher, or to start it."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._fetchers = dict.fromkeys(Lane, FetcherState.ABSENT)
        self._followed: dict[TopicPartition, Followed[P]] = {}
        """In the order in which they began to follow the leader."""
        self._awake: dict[TopicPartition, Followed[P]] = {}
        """Those that are not at rest."""
        self._busy: dict[TopicPartition, Followed[P]] = {}
        """What belongs to the busy fetcher; the latest to have records comes last."""
        self._newcomers: dict[TopicPartition, Followed[P]] = {}
        """What the new fetcher fetches, in the order in which it came."""

    # --- fetchers ------------------------------------------------------------------------------------------------

    def state(self, lane: Lane) -> FetcherState:
        return self._fetchers[lane]

    def started(self, lane: Lane) -> None:
        """The fetcher runs now."""
        self._fetchers[lane] = FetcherState.IDLE

    def fetching(self, lane: Lane) -> None:
        """The fetcher sends a request."""
        self._fetchers[lane] = FetcherState.FETCHING

    def finished(self, lane: Lane) -> None:
        """The fetcher's request is over, whatever came of it."""
        self._fetchers[lane] = FetcherState.IDLE

    def take_over(self, lane: Lane) -> bool:
        """Give the quiet or the busy fetcher its newcomers; True when it must wait for the new fetcher's request."""
        taken = self.newcomers_of(lane)
        for partition in taken:
            self._newcomers.pop(partition.key).lane = lane
        return bool(taken) and self._fetchers[Lane.NEW] is FetcherState.FETCHING

    def newcomers_of(self, lane: Lane) -> list[P]:
        """The newcomers that the quiet or the busy fetcher is to take over."""
        return [one.partition for one in self._newcomers.values() if self._own_lane(one) is lane]

    # --- partitions ----------------------------------------------------------------------------------------------

    def follow(self, partition: P) -> Lane:
        """A partition follows the leader, in a new leader epoch: it is due."""
        self.unfollow(partition.key)
        followed = self._followed[partition.key] = self._awake[partition.key] = Followed(partition, Lane.QUIET)
        return self._to(followed, Lane.QUIET)

    def unfollow(self, key: TopicPartition) -> None:
        """A partition does not follow the leader any more."""
        for partitions in (self._followed, self._awake, self._busy, self._newcomers):
            partitions.pop(key, None)

    def rest(self, partition: P) -> None:
        """The quiet fetcher's session asks for it until it is roused: it is not due."""
        self._awake.pop(partition.key, None)

    def rouse(self, partition: P) -> None:
        """It is at rest no more."""
        if (followed := self._followed.get(partition.key)) is not None:
            self._awake[partition.key] = followed

    def had_records(self, partition: P, fetched: int, now: float = 0.0) -> None:
        """A partition had records in a response for `fetched` partitions: it is busy, if there are many."""
        followed = self._followed.get(partition.key)
        if followed is None or not (self._busy or fetched > FEW):
            return
        self._busy.pop(partition.key, None)
        self._busy[partition.key] = followed
        followed.busy_until = now + BUSY_FOR_S
        if followed.lane is Lane.QUIET:
            followed.lane = Lane.BUSY
        if len(self._busy) > MOST_BUSY:
            least_recent = self._busy.pop(next(iter(self._busy)))
            if least_recent.lane is Lane.BUSY:
                least_recent.lane = Lane.QUIET

    def back_off(self, partitions: Iterable[P], until: float) -> None:
        """Fetches of these partitions have failed: the next ones are due at `until`, in s."""
        for partition in partitions:
            if (followed := self._followed.get(partition.key)) is not None:
                followed.not_before = until

    def fetched(self, partition: P, lane: Lane, now: float = 0.0) -> Lane | None:
        """A fetcher has the response for a partition. Where its next fetch is another fetcher's, wake that one."""
        followed = self._followed.get(partition.key)
        if followed is None or partition.is_gone:
            return None
        if lane is Lane.BUSY and followed.busy_until < now:
            self._busy.pop(partition.key, None)
        own = self._own_lane(followed)
        if followed.lane is Lane.NEW:  # its own fetcher takes it over
            return None if self._fetchers[own] is FetcherState.FETCHING else own
        return None if own is lane else self._to(followed, own)

    def _to(self, followed: Followed[P], own: Lane) -> Lane:
        """Let its own fetcher fetch it, or the new one while the own one's request waits at the leader."""
        followed.lane = own
        if self._fetchers[own] is FetcherState.FETCHING:
            followed.lane = Lane.NEW
            self._newcomers[followed.partition.key] = followed
        return followed.lane

    def _own_lane(self, followed: Followed[P]) -> Lane:
        return Lane.BUSY if followed.partition.key in self._busy else Lane.QUIET

    # --- what is due -----------------------------------------------------------------------------------------------

    def due(self, lane: Lane, now: float) -> list[P]:
        """The partitions that a fetcher fetches now."""
        return [one.partition for one in self._waiting(lane) if one.not_before <= now]

    def next_due(self, lane: Lane) -> float:
        """When the first of a fetcher's partitions is due, in s; infinity when there is none."""
        return min((one.not_before for one in self._waiting(lane)), default=float("inf"))

    def _waiting(self, lane: Lane) -> list[Followed[P]]:
        """A fetcher's partitions without an outstanding fetch."""
        if lane is Lane.QUIET:
            for key in [key for key, one in self._awake.items() if one.partition.is_gone]:
                del self._awake[key], self._followed[key]
            chosen = [one for one in self._awake.values() if one.lane is lane]
        else:
            own = self._busy if lane is Lane.BUSY else self._newcomers
            chosen = [one for one in own.values() if one.lane is lane and not one.partition.is_gone]
        leader = self._leader
        return [one for one in chosen if one.partition.replica.leader == leader and not one.partition.awaits_response()]

    @property
    def busy(self) -> tuple[TopicPartition, ...]:
        """The partitions of the busy fetcher; the latest to have records comes last."""
        return tuple(self._busy)

"""The fetchers of a broker's followers: for each leader up to three tasks that fetch from it (`fetch_schedule`).

The quiet and the busy fetcher keep a session each with the leader (`follower_sessions`), so that their requests do not
name partitions to which nothing happens. A fetcher sends one request at a time (`follower_fetches`). When the leader of
a partition changes, a fetcher of the new leader takes the partition at once, whatever becomes of the fetch from the old
one: the replica's core recognises a response that comes too late.

Partitions back off for replica.fetch.backoff.ms when their request has no response, or when their part of it is an
error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import trio

from tidegauge.impl.partition.registration import NO_LEADER
from tidegauge.impl.server.broker.fetch_schedule import FetcherState, FetchSchedule, Lane
from tidegauge.impl.server.broker.follower_fetches import Fetched, FetchResult, FollowerFetches
from tidegauge.impl.server.broker.follower_sessions import FollowerSession
from tidegauge.impl.server.broker.partition import Partition, TopicPartition

if TYPE_CHECKING:
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.broker.tasks import BrokerTasks
    from tidegauge.impl.server.settings.server_config import ServerConfig

NEWCOMERS_WAIT_MS: Final = 20
"""How long a leader may hold a request for newcomers; their own fetcher waits at most that long to take them over."""


@attrs.define(eq=False, repr=False)
class Fetcher:
    """One fetcher's task, as others see it."""

    session: FollowerSession | None
    """None for the fetcher of newcomers."""
    woken: trio.Event = attrs.field(factory=trio.Event)
    finished: trio.Event = attrs.field(factory=trio.Event)
    """Set when its latest request is over."""


@attrs.define(eq=False, repr=False)
class Leader:
    """One leader that this broker's replicas follow."""

    id: int
    schedule: FetchSchedule[Partition]
    fetchers: dict[Lane, Fetcher] = attrs.field(factory=dict)


class ReplicaFetchers:
    """All fetchers of one broker."""

    def __init__(
        self, fetches: FollowerFetches, tasks: BrokerTasks, config: ServerConfig, *, broker_id: int, clock: Clock
    ) -> None:
        self._fetches = fetches
        self._tasks = tasks
        self._config = config
        self._broker_id = broker_id
        self._clock = clock
        self._leaders: dict[int, Leader] = {}

    def leader_changed(self, partition: Partition) -> None:
        """A partition has a new leader epoch: fetch it from its leader, if that is another broker."""
        self.fetch_changed(partition)
        for leader in self._leaders.values():
            leader.schedule.unfollow(partition.key)
        leader_id = partition.replica.leader
        if leader_id in (NO_LEADER, self._broker_id):
            return
        if leader_id not in self._leaders:
            self._leaders[leader_id] = Leader(leader_id, FetchSchedule(leader_id))
        leader = self._leaders[leader_id]
        self._wake(leader, leader.schedule.follow(partition))

    def fetch_changed(self, partition: Partition) -> None:
        """The partition's next fetch is another one than its last, or there is none any more: it rests nowhere."""
        for leader in self._leaders.values():
            quiet = leader.fetchers.get(Lane.QUIET)
            if quiet is None or quiet.session is None:
                continue
            if quiet.session.rouse((partition.topic_id, partition.index)) is not None:
                leader.schedule.rouse(partition)

    def busy(self, leader: int) -> tuple[TopicPartition, ...]:
        """The partitions of the busy fetcher of a leader; the latest to have records comes last."""
        return self._leaders[leader].schedule.busy if leader in self._leaders else ()

    def session(self, leader: int, lane: Lane) -> FollowerSession | None:
        """The session of a fetcher; None when it has none."""
        fetcher = self._leaders[leader].fetchers.get(lane) if leader in self._leaders else None
        return None if fetcher is None else fetcher.session

    def _wake(self, leader: Leader, lane: Lane | None) -> None:
        """Have a fetcher look what is due; start it when it is first needed."""
        if lane is None:
            return
        if leader.schedule.state(lane) is FetcherState.ABSENT:
            leader.schedule.started(lane)
            leader.fetchers[lane] = Fetcher(None if lane is Lane.NEW else FollowerSession())
            self._tasks.start_soon(self._run, leader, lane)
        else:
            leader.fetchers[lane].woken.set()

    async def _run(self, leader: Leader, lane: Lane) -> None:
        """Fetch from the leader for as long as the broker runs."""
        schedule, fetcher = leader.schedule, leader.fetchers[lane]
        while True:
            await self._clock.until_running()
            if lane is not Lane.NEW and schedule.take_over(lane):
                await leader.fetchers[Lane.NEW].finished.wait()
            due = schedule.due(lane, trio.current_time())
            if not due and (fetcher.session is None or not fetcher.session.has_resting):
                with trio.CancelScope(deadline=schedule.next_due(lane)):
                    await fetcher.woken.wait()
                fetcher.woken = trio.Event()
                continue
            schedule.fetching(lane)
            fetcher.finished = trio.Event()
            try:
                result = await self._fetches.fetch(
                    leader.id,
                    due,
                    self._max_wait_ms(lane),
                    purpose=lane.value,
                    session=fetcher.session,
                    may_rest=lane is Lane.QUIET,
                )
                self._apply(leader, lane, due, result)
            finally:
                schedule.finished(lane)
                fetcher.finished.set()

    def _max_wait_ms(self, lane: Lane) -> int:
        longest = self._config.replica_fetch_wait_max_ms
        return min(NEWCOMERS_WAIT_MS, longest) if lane is Lane.NEW else self._clock.coalesced_ms(longest)

    def _apply(self, leader: Leader, lane: Lane, due: list[Partition], result: FetchResult) -> None:
        """Tell the schedule what came of a request for the partitions that were due."""
        schedule, fetched = leader.schedule, len(result.partitions)
        session, now = leader.fetchers[lane].session, trio.current_time()
        later = now + self._config.replica_fetch_backoff_ms / 1000
        for partition in roused if session is not None and (roused := session.take_roused()) else ():
            schedule.rouse(partition)
            due.append(partition)
        for partition in result.resting:
            schedule.rest(partition)
        if not result.may_go_on:
            schedule.back_off(due, later)
        for partition, outcome in result.partitions:
            if outcome is Fetched.ERROR:
                schedule.back_off([partition], later)
            elif outcome is Fetched.RECORDS:
                schedule.had_records(partition, fetched, now)
        for partition, _ in result.partitions:
            self._wake(leader, schedule.fetched(partition, lane, now))

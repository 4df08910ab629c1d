"""The fetchers: this broker's replicas as followers, pulling from their leaders.

There are up to three fetchers for each leader, on connections of their own. The quiet one's request carries every
partition that follows the leader, and waits there until one of them has news. What a request costs grows with its
partitions, so that where there are many those that had records of late, `MOST_BUSY` at most, go by the busy one: what
is produced to them does not wait until all the others have been looked at. A partition leaves the busy fetcher when
another one takes its place or its leader changes. A partition that comes to a fetcher whose request waits at the leader
goes by a third one, in requests that wait for a moment only, until that fetcher takes it over: what is produced to a
new topic, or to a partition that had been quiet, does not wait for others to have news.

The quiet and the busy fetcher keep a session each with the leader (`follower_sessions`), so that partitions to which
nothing happens are in no message.

A partition has at most one fetch on its way in each leader epoch. When the leader changes, the new one's fetcher takes
the partition at once, whatever becomes of the fetch to the old one; the replica's core knows an answer that comes too
late.

A request that is not answered in time takes its connection down, and its partitions are fetched again after a backoff,
as are partitions whose answer is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import FollowerFetch, PartitionFetchResponse
from tidegauge.impl.partition.registration import NO_LEADER
from tidegauge.impl.records.batches import RecordError
from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.follower_sessions import FollowerSession
from tidegauge.impl.server.broker.partition import Partition, TopicPartition
from tidegauge.impl.server.reads import partition_responses
from tidegauge.impl.wire.channel import NoAnswerError, UnreachableError
from tidegauge.impl.wire.fetch_messages import INITIAL_EPOCH, SESSIONLESS_EPOCH, FetchResponse

if TYPE_CHECKING:
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.broker.peers import Peers
    from tidegauge.impl.server.broker.registration import Registration
    from tidegauge.impl.server.broker.replica_manager import ReplicaManager
    from tidegauge.impl.server.broker.tasks import BrokerTasks
    from tidegauge.impl.server.config import ServerConfig
    from tidegauge.impl.server.trace.tracer import Tracer


FEW: Final = 8
"""Partitions of one request up to which a fetcher is fast enough for all of them."""
MOST_BUSY: Final = 32
"""Partitions of a leader that the busy fetcher takes."""


NEWCOMERS_WAIT_MS: Final = 20
"""How long the requests of newcomers are held, and so the quiet fetcher at most before it takes them over."""


class Lane(Enum):
    """Which of a leader's fetchers."""

    QUIET = ""
    BUSY = "busy"
    NEW = "new"


class ReplicaFetchers:
    """All fetchers of one broker."""

    def __init__(
        self,
        replicas: ReplicaManager,
        peers: Peers,
        registration: Registration,
        tasks: BrokerTasks,
        config: ServerConfig,
        *,
        clock: Clock,
        tracer: Tracer,
        timers: bool,
    ) -> None:
        """`timers`: whether fetchers run; without them only a driver calls `fetch`."""
        self._replicas = replicas
        self._peers = peers
        self._registration = registration
        self._tasks = tasks
        self._config = config
        self._clock = clock
        self._tracer = tracer
        self._timers = timers
        self._fetchers: dict[tuple[int, Lane], trio.Event] = {}
        """What each fetcher sleeps on."""
        self._busy: dict[int, dict[TopicPartition, None]] = {}
        """Leader -> partitions of the busy fetcher, those that had records last at the end."""
        self._newcomers: dict[int, dict[TopicPartition, None]] = {}
        """Leader -> partitions that the quiet or the busy fetcher is to take over."""
        self._on_their_way: dict[tuple[int, Lane], trio.Event] = {}
        """Set when the request of a fetcher ends that waits for its answer."""
        self._not_before: dict[TopicPartition, float] = {}
        self._following: dict[int, dict[TopicPartition, Partition]] = {}
        """Leader -> the partitions that follow it, or have done so."""
        self._sessions: dict[tuple[int, Lane], FollowerSession] = {}

    def leader_changed(self, partition: Partition) -> None:
        """A partition has a new leader epoch: its fetch is due."""
        self._not_before.pop(partition.key, None)
        for apart in (*self._busy.values(), *self._newcomers.values()):
            apart.pop(partition.key, None)
        leader = partition.replica.leader
        for followed in self._following.values():
            followed.pop(partition.key, None)
        self._following.setdefault(leader, {})[partition.key] = partition
        if not self._timers or leader in (NO_LEADER, self._registration.broker_id):
            return
        if (leader, Lane.QUIET) in self._on_their_way:
            self._newcomers.setdefault(leader, {})[partition.key] = None
            self._wake(leader, Lane.NEW)
        else:
            self._wake(leader, Lane.QUIET)

    def busy(self, leader: int) -> tuple[TopicPartition, ...]:
        """The partitions that are fetched from a leader by the busy fetcher."""
        return tuple(self._busy.get(leader, ()))

    def _wake(self, leader: int, lane: Lane) -> None:
        """Have a fetcher look what is due; it begins when it is first needed."""
        if (leader, lane) in self._fetchers:
            self._fetchers[leader, lane].set()
        else:
            self._fetchers[leader, lane] = trio.Event()
            self._tasks.start_soon(self._run, leader, lane)

    async def _run(self, leader: int, lane: Lane) -> None:
        """Fetch from `leader` for as long as the broker runs."""
        while True:
            await self._clock.until_running()
            if lane is not Lane.NEW:
                await self._take_over(leader, lane)
            due = self._due(leader, lane)
            if not due:
                with trio.CancelScope(deadline=self._next_due(leader, lane)):
                    await self._fetchers[leader, lane].wait()
                self._fetchers[leader, lane] = trio.Event()
                continue
            answered = self._on_their_way[leader, lane] = trio.Event()
            try:
                session = None if lane is Lane.NEW else self._sessions.setdefault((leader, lane), FollowerSession())
                if not await self.fetch(leader, due, self._max_wait_ms(lane), lane=lane, session=session):
                    self._put_off(due)
            finally:
                del self._on_their_way[leader, lane]
                answered.set()

    def _max_wait_ms(self, lane: Lane) -> int:
        longest = self._config.replica_fetch_wait_max_ms
        return min(NEWCOMERS_WAIT_MS, longest) if lane is Lane.NEW else longest

    async def _take_over(self, leader: int, lane: Lane) -> None:
        """The quiet or the busy fetcher gets its newcomers, as soon as their request is answered."""
        busy, new = self._busy.get(leader, {}), self._newcomers.get(leader, {})
        mine = [key for key in new if (key in busy) == (lane is Lane.BUSY)]
        for key in mine:
            del new[key]
        if mine and (answered := self._on_their_way.get((leader, Lane.NEW))) is not None:
            await answered.wait()

    def _pass_on(self, leader: int, partition: Partition, lane: Lane) -> None:
        """A partition was fetched; should its next fetch be another fetcher's, that one does not let it wait."""
        if partition.is_gone or partition.replica.leader != leader or partition.key in self._newcomers.get(leader, {}):
            return
        belongs = Lane.BUSY if partition.key in self._busy.get(leader, {}) else Lane.QUIET
        if belongs is lane:
            return
        if (leader, belongs) in self._on_their_way:
            self._newcomers.setdefault(leader, {})[partition.key] = None
            belongs = Lane.NEW
        self._wake(leader, belongs)

    def _followed(self, leader: int, lane: Lane) -> list[Partition]:
        """The partitions of a fetcher for which no answer is awaited."""
        busy, new = self._busy.get(leader, {}), self._newcomers.get(leader, {})
        if lane is Lane.QUIET:
            self._forget_gone(leader)
            following = self._following.get(leader, {})
            chosen = [p for key, p in following.items() if key not in busy and key not in new]
        else:
            keys = [key for key in busy if key not in new] if lane is Lane.BUSY else list(new)
            chosen = [p for key in keys if (p := self._replicas.get(*key)) is not None]
        return [p for p in chosen if p.replica.leader == leader and not p.awaits_response()]

    def _forget_gone(self, leader: int) -> None:
        following = self._following.get(leader, {})
        for key in [key for key, partition in following.items() if partition.is_gone]:
            del following[key]

    def _due(self, leader: int, lane: Lane) -> list[Partition]:
        now, not_before = trio.current_time(), self._not_before
        followed = self._followed(leader, lane)
        return [p for p in followed if not_before.get(p.key, 0.0) <= now] if not_before else followed

    def _next_due(self, leader: int, lane: Lane) -> float:
        return min((self._not_before.get(p.key, 0.0) for p in self._followed(leader, lane)), default=float("inf"))

    def _had_records(self, leader: int, partition: Partition, fetched: int) -> None:
        """A partition had records in an answer of so many partitions: it is one of the busy ones, if they are many."""
        if partition.replica.leader != leader:
            return
        busy = self._busy.setdefault(leader, {})
        if busy or fetched > FEW:
            busy.pop(partition.key, None)
            busy[partition.key] = None
            if len(busy) > MOST_BUSY:
                del busy[next(iter(busy))]

    def _put_off(self, partitions: Sequence[Partition]) -> None:
        later = trio.current_time() + self._config.replica_fetch_backoff_ms / 1000
        for partition in partitions:
            self._not_before[partition.key] = later

    async def fetch(
        self,
        leader: int,
        partitions: Sequence[Partition],
        max_wait_ms: int,
        *,
        lane: Lane = Lane.QUIET,
        session: FollowerSession | None = None,
    ) -> bool:
        """One request to `leader` for these partitions, up to its answer; False when none came.

        Without a session it is a request of its own.
        """
        channel = self._peers.channel(leader, lane.value)
        if channel is None:
            return False
        try:
            await channel.connect()
        except UnreachableError:
            return False
        await self._clock.until_running()
        fetches = self._begin(leader, partitions)
        if not fetches:
            return True
        request = (session or FollowerSession()).request(
            [((partition.topic_id, partition.index), fetch) for partition, fetch in fetches],
            max_wait_ms=max_wait_ms,
            min_bytes=self._config.replica_fetch_min_bytes,
            max_bytes=self._config.replica_fetch_response_max_bytes,
            partition_max_bytes=self._config.replica_fetch_max_bytes,
        )
        if session is None:
            request.session_epoch = SESSIONLESS_EPOCH
        try:
            response = await channel.request(request)
        except (NoAnswerError, UnreachableError):
            if session is not None:
                session.end(keep_id=True)
            self._disconnected(leader, fetches)
            return False
        await self._clock.until_running()
        await trio.lowlevel.checkpoint_if_cancelled()  # a broker that has stopped has closed its logs
        if not self._receive_all(leader, fetches, response, session):
            self._disconnected(leader, fetches)  # it was not looked at
            return request.session_epoch != INITIAL_EPOCH
        if self._timers:
            for partition, _ in fetches:
                self._pass_on(leader, partition, lane)
        return True

    def _receive_all(
        self,
        leader: int,
        fetches: Sequence[tuple[Partition, FollowerFetch]],
        response: FetchResponse,
        session: FollowerSession | None,
    ) -> bool:
        """Hand each replica its answer; False when the leader has refused the request for its session."""
        if session is None:
            answers: dict[tuple[str, int], PartitionFetchResponse] | None = partition_responses(response)
        else:
            answers = session.answers(response, all_of_them=self._tracer.trace is not None)
        if answers is None:
            return False
        for partition, fetch in fetches:
            key = partition.topic_id, partition.index
            answer = answers.get(key)
            if answer is None and session is not None and session.is_settled(key):
                partition.outstanding.remove(fetch)  # the leader says what the replica knows
                continue
            received = answer or PartitionFetchResponse(ErrorCode.unknown_server_error)
            if not self._receive(leader, partition, fetch, received, session):
                self._put_off([partition])
            elif answer is not None and answer.records:
                self._had_records(leader, partition, len(fetches))
        return True

    def _begin(self, leader: int, partitions: Sequence[Partition]) -> list[tuple[Partition, FollowerFetch]]:
        """Note the fetches as on their way; what changed while the connection was opened is left out."""
        fetches = []
        self._replicas.flushes.write_log_starts(partitions)
        for partition in partitions:
            if partition.is_gone:
                continue
            fetch = partition.replica.fetch_request(self._registration.broker_epoch)
            if fetch is None or partition.replica.leader != leader or partition.awaits_response():
                continue
            partition.outstanding.append(fetch)
            fetches.append((partition, fetch))
            if self._tracer.trace is not None:
                sent = trace.events.SendFetch
                self._tracer.replica(sent, *partition.key, partition.replica, source=leader, fetch=fetch)
        return fetches

    def _disconnected(self, leader: int, fetches: Sequence[tuple[Partition, FollowerFetch]]) -> None:
        for partition, fetch in fetches:
            partition.outstanding.remove(fetch)
            if self._tracer.trace is not None and not partition.is_gone:
                given_up = trace.events.Disconnect
                self._tracer.replica(given_up, *partition.key, partition.replica, source=leader, fetch=fetch)

    def _receive(
        self,
        leader: int,
        partition: Partition,
        fetch: FollowerFetch,
        answer: PartitionFetchResponse,
        session: FollowerSession | None,
    ) -> bool:
        """Hand an answer to the replica; False when it has to wait before it asks again."""
        partition.outstanding.remove(fetch)
        if partition.is_gone:
            return True
        try:
            accepted = partition.replica.receive_fetch_response(fetch, answer, self._clock.now_ms())
            error = answer.error
        except (RecordError, OSError) as failure:
            accepted, error = False, self._replicas.storage_failed(partition, failure)
        if self._tracer.trace is not None and not partition.is_gone:
            self._tracer.replica(
                trace.events.ReceiveFetchResponse,
                *partition.key,
                partition.replica,
                source=leader,
                fetch=fetch,
                outcome=trace.events.FetchOutcome.of(answer, fetch),
                accepted=accepted,
            )
        self._replicas.carry_out(partition)
        if accepted and session is not None:
            session.settled((partition.topic_id, partition.index))
        return accepted or error is ErrorCode.none

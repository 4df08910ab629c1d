"""Fetch sessions (KIP-227): a client that fetches many partitions names only those that changed.

Theory of operation
-------------------
A full fetch with session epoch 0 asks for a session. The broker remembers the partitions and responds with a session
id, or with 0 when it keeps no session. From then on the client sends incremental fetches: epoch 1, 2, … (after 2^31-1
comes 1), the partitions that are new or asked for differently, and those to forget. The broker reads the partitions of
the session, and its response has only those with news: records, an error, a divergence, or another high watermark or
log start than in the last response. A partition with records goes to the end of the session's order, so that each one
gets its turn when a response has room for few.

A follower's partition is AT REST while nothing can have come of reading it: the follower has the whole log, and was
told all (`Leader.is_at_rest`). The session watches it (`Watch`), and does not look at it until it changes. At that
moment the leader learns when the follower last asked, so that it counts as caught up until then. So an idle session
costs the same with one partition and with thousands. A broker with a trace reads all partitions each time: the trace
has each follower's fetch.

The epoch guards against fetches that are repeated or overtaken. Epoch -1 is a full fetch that ends the session and asks
for none.

    full fetch, epoch 0      -> the session that it names ends; a new one begins, if there is room
    full fetch, epoch -1     -> the session that it names ends
    incremental, unknown id  -> FETCH_SESSION_ID_NOT_FOUND
    incremental, wrong epoch -> INVALID_FETCH_SESSION_EPOCH
    incremental, topics by id where the session has names, or the other way round -> FETCH_SESSION_TOPIC_ID_ERROR
    incremental, after which nothing is left in the session -> the session ends

There are at most `max.incremental.fetch.session.cache.slots` sessions. When all are taken, a new one evicts one that
was not used for two minutes; else the least of those that it may evict, if that one is less than itself. A follower's
session is more than a consumer's; of two, the one with more partitions is more. A new session may evict one that is
two minutes old, and a follower's may evict any consumer's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.server.broker.partition import TopicPartition
from tidegauge.impl.server.purgatory import Purgatory, Watch
from tidegauge.impl.server.requests.reads import PartitionRead, ReadOutcome, partition_reads
from tidegauge.impl.wire.fetch_messages import CONSUMER, INITIAL_EPOCH, NO_SESSION, SESSIONLESS_EPOCH, FetchRequest

EVICTION_MS: Final = 120_000
"""Age, or time without use, after which a session may be evicted."""
LARGEST_SESSION_ID: Final = (1 << 31) - 1
_LARGEST_EPOCH: Final = (1 << 31) - 1
_UNKNOWN: Final = -1

Key = tuple[str, int]
"""(The topic's id or, in a session that names topics, its name; partition)."""


@attrs.define(eq=False, repr=False)
class Cached:
    """A partition of a session: what is read of it, and what the last response said."""

    read: PartitionRead
    high_watermark: int = _UNKNOWN
    log_start_offset: int = _UNKNOWN
    watched_as: TopicPartition | None = None
    """What its session watches it by, from its first rest on."""
    at_rest: PartitionReplica | None = None
    """The leader, while the partition is at rest."""

    def has_news(self, outcome: ReadOutcome) -> bool:
        """Whether the outcome must be sent. Notes it as sent."""
        response = outcome.response
        news = bool(response.records) or outcome.preferred_read_replica >= 0
        if response.high_watermark != self.high_watermark:
            self.high_watermark, news = response.high_watermark, True
        if response.log_start_offset != self.log_start_offset:
            self.log_start_offset, news = response.log_start_offset, True
        if response.error is not ErrorCode.none or response.diverging_epoch is not None:
            self.high_watermark, news = _UNKNOWN, True  # the next response without the error is news again
        return news


@attrs.define(eq=False, repr=False)
class Session:
    """One client's session."""

    id: int
    is_follower: bool
    uses_topic_ids: bool
    created_ms: int
    used_ms: int
    partitions: dict[Key, Cached]
    epoch: int = INITIAL_EPOCH + 1
    """Of the next fetch."""
    broker_epoch: int = _UNKNOWN
    """Of the follower."""
    watch: Watch[TopicPartition] | None = None
    """None where no partition comes to rest."""
    awake: dict[Key, Cached] = attrs.field(init=False)
    """The partitions to look at, in order; without `watch` all of them."""
    _keys: dict[TopicPartition, Key] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.awake = self.partitions
        if self.watch is not None:
            self.awake = dict(self.partitions)
            self.watch.on_change = self._changed

    @property
    def has_resting(self) -> bool:
        """Whether a partition is at rest."""
        return len(self.awake) < len(self.partitions)

    def forget(self, key: Key) -> None:
        """The partition is not in the session any more."""
        cached = self.partitions.get(key)
        if cached is None:
            return
        self._rouse(key, cached)
        del self.partitions[key]
        self.awake.pop(key, None)
        if cached.watched_as is not None and self.watch is not None:
            self.watch.discard(cached.watched_as)
            del self._keys[cached.watched_as]

    def ask(self, read: PartitionRead) -> None:
        """The partition is new, or asked for differently."""
        key = _key(read)
        cached = self.partitions.get(key)
        if cached is None:
            self.partitions[key] = self.awake[key] = Cached(read)
        else:
            self._rouse(key, cached)
            cached.read = read

    def rest(self, key: Key, cached: Cached, replica: PartitionReplica) -> None:
        """Do not look at the partition until it changes, if nothing can have come of looking at it."""
        follower, watch = cached.read.follower, self.watch
        if watch is None or follower is None or self.partitions.get(key) is not cached:
            return
        told = cached.high_watermark, cached.log_start_offset
        if told != (replica.high_watermark, replica.log.log_start_offset) or not replica.is_at_rest(follower):
            return
        if cached.watched_as is None:
            cached.watched_as = cached.read.topic, cached.read.partition
            self._keys[cached.watched_as] = key
            watch.add(cached.watched_as)
        cached.at_rest = replica
        self.awake.pop(key, None)

    def rouse_all(self) -> None:
        """Look at every partition again."""
        for key, cached in self.partitions.items():
            self._rouse(key, cached)

    def end(self) -> None:
        """Nobody asks in this session any more. Leaders learn until when its partitions were at rest."""
        self.rouse_all()
        if self.watch is not None:
            self.watch.close()

    def _changed(self, name: TopicPartition) -> None:
        if (key := self._keys.get(name)) is not None:
            self._rouse(key, self.partitions[key])

    def _rouse(self, key: Key, cached: Cached) -> None:
        replica, follower = cached.at_rest, cached.read.follower
        if replica is not None and follower is not None:
            cached.at_rest = None
            replica.was_at_rest(follower, self.used_ms)
            self.awake[key] = cached

    @property
    def weight(self) -> tuple[bool, int, int]:
        """Of two sessions, the one with the lesser weight is evicted."""
        return self.is_follower, len(self.partitions), self.id


@attrs.define(eq=False, repr=False)
class SessionFetch:
    """One fetch within its session: what to read, and which outcomes to send."""

    _reads: list[PartitionRead]
    session: Session | None = None
    is_incremental: bool = False

    @property
    def reads(self) -> list[PartitionRead]:
        """What to look at now; while the fetch is held, what wakes from its rest comes in addition."""
        if self.session is None or self.watch is None:
            return self._reads
        return [cached.read for cached in self.session.awake.values()]

    @property
    def has_resting(self) -> bool:
        """Whether a partition of the session is at rest."""
        return self.session is not None and self.session.has_resting

    def rouse_all(self) -> None:
        """Look at every partition of the session."""
        if self.session is not None:
            self.session.rouse_all()

    @property
    def watch(self) -> Watch[TopicPartition] | None:
        """What wakes this fetch besides its reads, while it is held."""
        return None if self.session is None else self.session.watch

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.id

    def to_send(self, outcomes: list[ReadOutcome]) -> list[ReadOutcome]:
        """The outcomes to send. Call it once, with the outcomes of all `reads`."""
        session = self.session
        if session is None:
            return outcomes
        news = []
        for outcome in outcomes:
            key = _key(outcome.read)
            cached = session.partitions.get(key)
            has_news = cached is None or cached.has_news(outcome)
            if has_news or not self.is_incremental:
                news.append(outcome)
            if self.is_incremental and outcome.response.records and key in session.awake:
                session.awake[key] = session.awake.pop(key)
        return news

    def rest(self, outcomes: list[ReadOutcome], replica_of: Callable[[str, int], PartitionReplica | None]) -> None:
        """Let partitions rest that had nothing but what was told. Call it right after `to_send`."""
        session = self.session
        if session is None or session.watch is None:
            return
        for outcome in outcomes:
            if not outcome.response.has_news:
                key, read = _key(outcome.read), outcome.read
                cached, replica = session.partitions.get(key), replica_of(read.topic, read.partition)
                if cached is not None and cached.read is read and replica is not None:
                    session.rest(key, cached, replica)


class FetchSessions:
    """The sessions of one broker."""

    def __init__(
        self, slots: int, new_id: Callable[[], int], purgatory: Purgatory[TopicPartition] | None = None
    ) -> None:
        """
        new_id: gives random numbers from 1 to 2^31-1.
        purgatory: where changes of partitions are told to followers' sessions; without one no partition rests.
        """
        self._slots = slots
        self._new_id = new_id
        self._purgatory = purgatory
        self._sessions: dict[int, Session] = {}
        self.evictions = 0
        """How many sessions were evicted."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def sessions(self) -> tuple[Session, ...]:
        """Those that are kept."""
        return tuple(self._sessions.values())

    @property
    def partitions(self) -> int:
        """How many partitions are in all sessions together."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def begin(
        self,
        request: FetchRequest,
        *,
        uses_topic_ids: bool,
        now_ms: int,
        asked: list[PartitionRead] | None = None,
    ) -> SessionFetch | ErrorCode:
        """What a fetch is to read, or why it is refused as a whole; `asked` is what the request names, once made."""
        if request.session_epoch in (INITIAL_EPOCH, SESSIONLESS_EPOCH):
            self._end(request.session_id)
            reads = list(partition_reads(request)) if asked is None else asked
            if request.session_epoch == SESSIONLESS_EPOCH:
                return SessionFetch(reads)
            return SessionFetch(reads, self._create(request, reads, uses_topic_ids, now_ms))
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if session.epoch != request.session_epoch:
            return ErrorCode.invalid_fetch_session_epoch
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.fetch_session_topic_id_error
        self._update(session, request)
        if session.is_follower and session.broker_epoch != request.replica_epoch:
            session.rouse_all()
            session.broker_epoch = request.replica_epoch
            _renew(session, request.replica_epoch)
        if not session.partitions:
            self._end(session.id)
            return SessionFetch([])
        session.epoch = 1 if session.epoch == _LARGEST_EPOCH else session.epoch + 1
        session.used_ms = now_ms
        reads = [] if session.watch is not None else [cached.read for cached in session.partitions.values()]
        return SessionFetch(reads, session, is_incremental=True)

    @staticmethod
    def _update(session: Session, request: FetchRequest) -> None:
        for topic in request.forgotten:
            for index in topic.partitions:
                session.forget((topic.topic_id or topic.name, index))
        for read in partition_reads(request):
            session.ask(read)

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()

    def _create(
        self, request: FetchRequest, reads: Iterable[PartitionRead], uses_topic_ids: bool, now_ms: int
    ) -> Session | None:
        """A new session; None when there is no room for it."""
        partitions = {_key(read): Cached(read) for read in reads}
        is_follower = request.replica_id > CONSUMER
        if not self._has_room((is_follower, len(partitions), 0), now_ms):
            return None
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        watch = Watch(self._purgatory) if is_follower and self._purgatory is not None else None
        session = Session(
            session_id,
            is_follower,
            uses_topic_ids,
            now_ms,
            now_ms,
            partitions,
            broker_epoch=request.replica_epoch,
            watch=watch,
        )
        self._sessions[session_id] = session
        return session

    def _has_room(self, weight: tuple[bool, int, int], now_ms: int) -> bool:
        """Whether one more session can be kept; one may have to go for it."""
        if len(self._sessions) < self._slots:
            return True
        stale = min(self._sessions.values(), key=lambda session: session.used_ms, default=None)
        if stale is not None and now_ms - stale.used_ms > EVICTION_MS:
            return self._evict(stale)
        is_follower = weight[0]
        may_go = [
            session
            for session in self._sessions.values()
            if now_ms - session.created_ms > EVICTION_MS or (is_follower and not session.is_follower)
        ]
        least = min(may_go, key=lambda session: session.weight, default=None)
        return least is not None and least.weight < weight and self._evict(least)

    def _evict(self, session: Session) -> bool:
        self._end(session.id)
        self.evictions += 1
        return True


def _renew(session: Session, broker_epoch: int) -> None:
    """A follower's fetches are those of the process that sent the latest request."""
    for cached in session.partitions.values():
        if cached.read.follower is not None and cached.read.follower.broker_epoch != broker_epoch:
            cached.read.follower = cached.read.follower._replace(broker_epoch=broker_epoch)


def _key(read: PartitionRead) -> Key:
    return read.topic_id or read.topic, read.partition

"""Fetch sessions (KIP-227): a client that fetches many partitions names only those that changed.

Theory of operation
-------------------
A full fetch with session epoch 0 asks for a session. The broker remembers the partitions and responds with a session
id, or with 0 when it keeps no session. From then on the client sends incremental fetches: epoch 1, 2, … (after 2^31-1
comes 1), the partitions that are new or asked for differently, and those to forget. The broker reads all partitions of
the session, and its response has only those with news: records, an error, a divergence, or another high watermark or
log start than in the last response. A partition with records goes to the end of the session's order, so that each one
gets its turn when a response has room for few.

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

from tidegauge.impl.server.reads import PartitionRead, ReadOutcome, partition_reads
from tidegauge.impl.wire.fetch_messages import CONSUMER, INITIAL_EPOCH, NO_SESSION, SESSIONLESS_EPOCH, FetchRequest

EVICTION_MS: Final = 120_000
"""Age, or time without use, after which a session may be evicted."""
LARGEST_SESSION_ID: Final = (1 << 31) - 1
_LARGEST_EPOCH: Final = (1 << 31) - 1
_UNKNOWN: Final = -1

Key = tuple[str, int]
"""(The topic's id or, in a session that names topics, its name; partition)."""


@attrs.define(eq=False)
class Cached:
    """A partition of a session: what is read of it, and what the last response said."""

    read: PartitionRead
    high_watermark: int = _UNKNOWN
    log_start_offset: int = _UNKNOWN

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


@attrs.define(eq=False)
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

    @property
    def weight(self) -> tuple[bool, int, int]:
        """Of two sessions, the one with the lesser weight is evicted."""
        return self.is_follower, len(self.partitions), self.id


@attrs.define(eq=False)
class SessionFetch:
    """One fetch within its session: what to read, and which outcomes to send."""

    reads: list[PartitionRead]
    session: Session | None = None
    is_incremental: bool = False

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
            if self.is_incremental and cached is not None and outcome.response.records:
                session.partitions[key] = session.partitions.pop(key)
        return news


class FetchSessions:
    """The sessions of one broker."""

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        """`new_id` gives random numbers from 1 to 2^31-1."""
        self._slots = slots
        self._new_id = new_id
        self._sessions: dict[int, Session] = {}
        self.evictions = 0
        """How many sessions were evicted."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """How many partitions are in all sessions together."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def begin(self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int) -> SessionFetch | ErrorCode:
        """What a fetch is to read, or why it is refused as a whole."""
        if request.session_epoch in (INITIAL_EPOCH, SESSIONLESS_EPOCH):
            self._sessions.pop(request.session_id, None)
            reads = list(partition_reads(request))
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
        if session.is_follower:
            _renew(session, request.replica_epoch)
        if not session.partitions:
            del self._sessions[session.id]
            return SessionFetch([])
        session.epoch = 1 if session.epoch == _LARGEST_EPOCH else session.epoch + 1
        session.used_ms = now_ms
        return SessionFetch([cached.read for cached in session.partitions.values()], session, is_incremental=True)

    @staticmethod
    def _update(session: Session, request: FetchRequest) -> None:
        for topic in request.forgotten:
            for index in topic.partitions:
                session.partitions.pop((topic.topic_id or topic.name, index), None)
        for read in partition_reads(request):
            cached = session.partitions.get(_key(read))
            if cached is None:
                session.partitions[_key(read)] = Cached(read)
            else:
                cached.read = read

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
        session = Session(session_id, is_follower, uses_topic_ids, now_ms, now_ms, partitions)
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
        del self._sessions[session.id]
        self.evictions += 1
        return True


def _renew(session: Session, broker_epoch: int) -> None:
    """A follower's fetches are those of the process that sent the latest request."""
    for cached in session.partitions.values():
        if cached.read.follower is not None and cached.read.follower.broker_epoch != broker_epoch:
            cached.read.follower = attrs.evolve(cached.read.follower, broker_epoch=broker_epoch)


def _key(read: PartitionRead) -> Key:
    return read.topic_id or read.topic, read.partition

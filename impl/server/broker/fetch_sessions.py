"""Fetch sessions (KIP-227): a client that fetches many partitions names only those that changed.

Theory of operation
-------------------
A full fetch with session epoch 0 asks for a session. The broker remembers the partitions and answers with a session id,
or with 0 when it keeps no session for it. From then on the client sends incremental fetches: epoch 1, 2, … (after
2^31-1 comes 1), the partitions that are new or asked for differently, and those to forget; the broker reads all that
are in the session, and answers only those with news: records, an error, a divergence, another high watermark or log
start than it answered last. A partition that was answered records goes to the end of the session's order, so that each
gets its turn when an answer has room for a few only.

The epoch is the guard against fetches that are repeated or overtaken. Epoch -1 is a full fetch that ends the session
and asks for none.

    full fetch, epoch 0      -> the session that it names ends; a new one begins, if there is room
    full fetch, epoch -1     -> the session that it names ends
    incremental, unknown id  -> FETCH_SESSION_ID_NOT_FOUND
    incremental, wrong epoch -> INVALID_FETCH_SESSION_EPOCH
    incremental, topics by id where the session has names, or the other way round -> FETCH_SESSION_TOPIC_ID_ERROR
    incremental, after which nothing is left in the session -> the session ends

There are at most `max.incremental.fetch.session.cache.slots` sessions. When all are taken, a new one drives out one
that has not been used for two minutes, or else the least of those that may go and are less than it: followers' are more
than consumers', and of two the one with more partitions is. A consumer's may go to make room for a follower's at any
time; everything else only when it is two minutes old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.server.apis.fetch_messages import AnsweredPartition, AskedPartition, asked_partitions
from tidegauge.impl.wire.fetch_messages import CONSUMER, INITIAL_EPOCH, NO_SESSION, SESSIONLESS_EPOCH, FetchRequest

EVICTION_MS: Final = 120_000
LARGEST_SESSION_ID: Final = (1 << 31) - 1
_LARGEST_EPOCH: Final = (1 << 31) - 1
_UNKNOWN: Final = -1

Key = tuple[str, str, int]
"""Topic name, topic id, partition; name or id is empty."""


@attrs.define(eq=False)
class Cached:
    """A partition of a session: how it is asked for, and what was answered last."""

    asked: AskedPartition
    high_watermark: int = _UNKNOWN
    log_start_offset: int = _UNKNOWN

    def has_news(self, answered: AnsweredPartition) -> bool:
        """Whether the answer has to be sent; takes note of it as if it were."""
        answer = answered.answer
        news = bool(answer.records) or answered.preferred_read_replica >= 0
        if answer.high_watermark != self.high_watermark:
            self.high_watermark, news = answer.high_watermark, True
        if answer.log_start_offset != self.log_start_offset:
            self.log_start_offset, news = answer.log_start_offset, True
        if answer.error is not ErrorCode.none or answer.diverging_epoch is not None:
            self.high_watermark, news = _UNKNOWN, True  # so that it is answered again once the error is gone
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
        """What decides which of two sessions has to go: the lesser."""
        return self.is_follower, len(self.partitions), self.id


@attrs.define(eq=False)
class SessionFetch:
    """One fetch as its session has it: what is to be read, and what of that is to be answered."""

    asked: list[AskedPartition]
    session: Session | None = None
    is_incremental: bool = False

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.id

    def to_send(self, answers: list[AnsweredPartition]) -> list[AnsweredPartition]:
        """The answers that have to be sent. To be called once, with the answers to all partitions asked."""
        session = self.session
        if session is None:
            return answers
        news = []
        for answered in answers:
            key = answered.topic, answered.topic_id, answered.partition
            cached = session.partitions.get(key)
            has_news = cached is None or cached.has_news(answered)
            if has_news or not self.is_incremental:
                news.append(answered)
            if self.is_incremental and cached is not None and answered.answer.records:
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
        """How many sessions had to make room for others."""

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
            asked = list(asked_partitions(request))
            if request.session_epoch == SESSIONLESS_EPOCH:
                return SessionFetch(asked)
            return SessionFetch(asked, self._create(request, asked, uses_topic_ids, now_ms))
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
        return SessionFetch([cached.asked for cached in session.partitions.values()], session, is_incremental=True)

    @staticmethod
    def _update(session: Session, request: FetchRequest) -> None:
        for topic in request.forgotten:
            for index in topic.partitions:
                session.partitions.pop((topic.name, topic.topic_id, index), None)
        for asked in asked_partitions(request):
            cached = session.partitions.get(_key(asked))
            if cached is None:
                session.partitions[_key(asked)] = Cached(asked)
            else:
                cached.asked = asked

    def _create(
        self, request: FetchRequest, asked: Iterable[AskedPartition], uses_topic_ids: bool, now_ms: int
    ) -> Session | None:
        """A new session; None when there is no room for it."""
        partitions = {_key(one): Cached(one) for one in asked}
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
        if cached.asked.follower is not None and cached.asked.follower.broker_epoch != broker_epoch:
            cached.asked.follower = attrs.evolve(cached.asked.follower, broker_epoch=broker_epoch)


def _key(asked: AskedPartition) -> Key:
    return asked.topic, asked.topic_id, asked.partition

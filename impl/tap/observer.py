"""What passes through, as lines of a recording: requests and responses, in the order in which they were copied.

An operation that may have been done is in the recording's hands before any read of it, so that no read of it is
recorded and it is not.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.tap import assignments, fetches, offset_lookups, produces, transactions
from tidegauge.impl.tap.copies import CHANGES
from tidegauge.impl.tap.ends import Ends
from tidegauge.impl.tap.exchange import Exchange, Line
from tidegauge.impl.tap.loading import loaded
from tidegauge.impl.tap.topic_names import TopicNames
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.codecs import (
    MalformedMessageError,
    api_name,
    decode_canonical,
    decode_quickly,
    decode_response,
)
from tidegauge.impl.wire.fields import NO_ID

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.request import CreateTopicsRequest

LOGGER: Final = logging.getLogger(__name__)


class Recording(Protocol):
    """Where lines go."""

    def begin(self, exchange: Exchange) -> None:
        """An operation may be done from now on."""

    def finish(self, exchange: Exchange, lines: Iterable[Line]) -> None:
        """It has ended, or nobody will know: these are its lines."""

    def emit(self, lines: Iterable[Line]) -> None:
        """Lines of nothing that has begun."""


def _decoded(frame: memoryview, api_key: int, version: int) -> tuple[str | None, Any]:
    """(client id, canonical message) of a request. Raises MalformedMessageError."""
    return decode_quickly(frame, api_key, version) or decode_canonical(frame, api_key, version)


@attrs.define(eq=False)
class Observer:
    """Reads for all connections; each has its `Sessions`."""

    recording: Recording
    topics: TopicNames = attrs.field(factory=TopicNames)
    ends: Ends = attrs.field(factory=Ends)
    _unread: set[tuple[int, int, str]] = attrs.field(factory=set)

    def beginning(self, exchange: Exchange) -> None:
        """A request begins."""
        if exchange.api_key in CHANGES:
            self.recording.begin(exchange)

    def requested(self, exchange: Exchange, frame: memoryview, sessions: fetches.Sessions) -> None:
        """A request, without its length, is whole."""
        try:
            kind = exchange.api_key, exchange.version, "request"
            _, request = loaded(kind, lambda: _decoded(frame, exchange.api_key, exchange.version))
            self._note(exchange, request, sessions)
        except MalformedMessageError as error:
            self.left_out(exchange, str(error))

    def _note(self, exchange: Exchange, request: Any, sessions: fetches.Sessions) -> None:
        match exchange.api_key:
            case ApiKey.PRODUCE:
                produces.note_request(exchange, request, self.topics)
            case ApiKey.FETCH:
                fetches.note_request(exchange, request, sessions)
            case ApiKey.LIST_OFFSETS:
                offset_lookups.note_request(exchange, request)
            case ApiKey.END_TXN:
                transactions.note_end(exchange, request)
            case ApiKey.OFFSET_COMMIT:
                transactions.note_commits(exchange, request, self.topics)
            case ApiKey.TXN_OFFSET_COMMIT:
                transactions.note_commits_of_transaction(exchange, request, self.topics)
            case ApiKey.OFFSET_FETCH:
                transactions.note_reads(exchange, request)
            case ApiKey.SYNC_GROUP:
                assignments.note_sync(exchange, request)
            case ApiKey.CONSUMER_GROUP_HEARTBEAT:
                assignments.note_heartbeat(exchange, request)
            case ApiKey.CREATE_TOPICS:
                self._note_topics(exchange, request)

    def _note_topics(self, exchange: Exchange, request: CreateTopicsRequest) -> None:
        """Note which topics are made compacted."""
        compacted = [
            topic.name
            for topic in request.topics
            for config in topic.configs
            if config.name == "cleanup.policy" and "compact" in (config.value or "")
        ]
        self.recording.emit([exchange.line("compacted", number, topic=name) for number, name in enumerate(compacted)])

    def is_sent(self, exchange: Exchange, at: int) -> None:
        """A request without a response has been passed on."""
        self.recording.finish(exchange, produces.sent(exchange, at))

    def responded(self, exchange: Exchange, frame: memoryview, at: int, sessions: fetches.Sessions) -> None:
        """A response, without its length, has come; `at` is before its first byte was passed on."""
        key, version = exchange.api_key, exchange.version
        try:
            response = loaded((key, version, "response"), lambda: decode_response(frame, key, version)).message
        except MalformedMessageError as error:
            self.left_out(exchange, str(error))
            self.lost(exchange)
        else:
            self.note_response(exchange, response, at, sessions)

    def note_response(self, exchange: Exchange, response: Any, at: int, sessions: fetches.Sessions) -> None:
        """Note what a decoded response says."""
        try:
            lines = self._lines(exchange, response, at, sessions)
        except MalformedMessageError as error:
            self.left_out(exchange, str(error))
            self.lost(exchange)
            return
        if exchange.api_key in CHANGES:
            self.recording.finish(exchange, lines)
        elif lines:
            self.recording.emit(lines)

    def _lines(self, exchange: Exchange, response: Any, at: int, sessions: fetches.Sessions) -> list[Line]:
        if exchange.api_key == ApiKey.METADATA:
            for topic in response.topics:
                self.topics.learn(topic.name, str(getattr(topic, "topic_id", None) or NO_ID))
            return []
        if exchange.asked is None and exchange.lines is None:
            return []  # the request was not understood
        match exchange.api_key:
            case ApiKey.PRODUCE:
                return produces.responded(exchange, response, at, self.ends)
            case ApiKey.FETCH:
                return fetches.responded(exchange, response, at, self.topics, sessions, self.ends)
            case ApiKey.LIST_OFFSETS:
                return offset_lookups.responded(exchange, response, at, self.topics, self.ends)
            case ApiKey.END_TXN:
                return transactions.ended(exchange, response, at)
            case ApiKey.OFFSET_COMMIT | ApiKey.TXN_OFFSET_COMMIT:
                return transactions.committed(exchange, response, at)
            case ApiKey.OFFSET_FETCH:
                return transactions.found(exchange, response, at, self.topics)
            case ApiKey.SYNC_GROUP:
                return assignments.synced(exchange, response, at)
            case ApiKey.CONSUMER_GROUP_HEARTBEAT:
                return assignments.beaten(exchange, response, at, self.topics)
        return []

    def lost(self, exchange: Exchange) -> None:
        """No response will come: nobody knows what has become of the request."""
        if exchange.api_key in CHANGES:
            self.recording.finish(exchange, exchange.lines or ())

    def left_out(self, exchange: Exchange, why: str) -> None:
        """Say once of each API and version that something of it is not recorded, and why."""
        key = exchange.api_key, exchange.version, why[:40]
        if key in self._unread or len(self._unread) > 1000:
            return
        self._unread.add(key)
        name = api_name(exchange.api_key)
        log_event(LOGGER, logging.WARNING, "passed unread", api=name, version=exchange.version, why=why)
        self.recording.emit([exchange.line("unread", api=name, version=exchange.version, why=why)])

"""A follower's side of a fetch session (KIP-227): what it asks a leader for, and what the leader's silence means.

Theory of operation
-------------------
The first request of a session is a full one: it names every partition. If the leader keeps a session for it, the next
ones say only what is asked for differently, what is new, and what to forget, and the leader answers only partitions
with news. A partition of which it says nothing is answered all the same: no records, and the high watermark and log
start that it told last. A replica that took that answer to this very fetch has nothing to do.

Each side counts the requests. Whatever goes wrong, an answer that does not come, a leader that knows nothing of the
session (FETCH_SESSION_ID_NOT_FOUND, it has restarted or needed the room) or counts differently
(INVALID_FETCH_SESSION_EPOCH), ends the session, and the next request is a full one again. It names the old session, so
that a leader that still has it lets it go.

Requests of a session go one after the other, each after the answer to the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import FollowerFetch, PartitionFetchResponse
from tidegauge.impl.server.reads import follower_request, partition_responses
from tidegauge.impl.wire.fetch_messages import INITIAL_EPOCH, NO_SESSION, FetchRequest, FetchResponse, ForgottenTopic

_LARGEST_EPOCH: Final = (1 << 31) - 1

Key = tuple[str, int]
"""Topic id, partition."""


@attrs.define(eq=False)
class FollowedPartition:
    """A partition of a session."""

    fetch: FollowerFetch
    """How it is asked for."""
    told: PartitionFetchResponse | None = None
    """What the leader has said last, without records; None: nothing that still holds."""
    is_settled: bool = False
    """Whether the replica has taken such an answer to this very fetch."""


class FollowerSession:
    """The session of one fetcher with one leader."""

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        """Of the next request."""
        self._partitions: dict[Key, FollowedPartition] = {}

    @property
    def is_incremental(self) -> bool:
        """Whether the next request says only what is new."""
        return self.epoch != INITIAL_EPOCH

    def request(
        self,
        fetches: Sequence[tuple[Key, FollowerFetch]],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        partition_max_bytes: int,
    ) -> FetchRequest:
        """The next request, which asks for these partitions, of one replica, and for no others."""
        gone: list[Key] = []
        if self.is_incremental:
            wanted = {key for key, _ in fetches}
            gone = [key for key in self._partitions if key not in wanted]
            for key in gone:
                del self._partitions[key]
        else:
            self._partitions.clear()
        request = follower_request(
            [(*key, fetch) for key, fetch in fetches if self._asks_anew(key, fetch)],
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            partition_max_bytes=partition_max_bytes,
        )
        request.session_id, request.session_epoch = self.id, self.epoch
        request.forgotten = _forgotten(gone)
        if fetches:
            _, fetch = fetches[0]
            request.replica_id, request.replica_epoch = fetch.replica_id, fetch.broker_epoch
        return request

    def _asks_anew(self, key: Key, fetch: FollowerFetch) -> bool:
        """Whether a partition is asked for otherwise than in the request before; takes note of it."""
        followed = self._partitions.get(key)
        if followed is None:
            self._partitions[key] = FollowedPartition(fetch)
        elif followed.fetch != fetch:
            followed.fetch, followed.is_settled = fetch, False
        else:
            return False
        return True

    def answers(
        self, response: FetchResponse, *, all_of_them: bool = False
    ) -> dict[Key, PartitionFetchResponse] | None:
        """What the leader has answered, in words or by silence; None when it has refused, and the session is over.

        Without `all_of_them` partitions are left out whose replica has nothing to do.
        """
        if response.error_code is not ErrorCode.none:
            self.end(keep_id=response.error_code is not ErrorCode.fetch_session_id_not_found)
            return None
        answers = partition_responses(response)
        for key, answer in answers.items():
            if (followed := self._partitions.get(key)) is not None:
                followed.is_settled, followed.told = False, _without_records(answer)
        if self.is_incremental:
            for key, followed in self._partitions.items():
                if key not in answers and followed.told is not None and (all_of_them or not followed.is_settled):
                    answers[key] = followed.told
        self._go_on(response.session_id)
        return answers

    def _go_on(self, session_id: int) -> None:
        if session_id == NO_SESSION:
            self.end()
        else:
            self.id = session_id
            self.epoch = 1 if self.epoch == _LARGEST_EPOCH else self.epoch + 1

    def is_settled(self, key: Key) -> bool:
        """Whether the leader's silence tells the replica nothing."""
        followed = self._partitions.get(key)
        return followed is not None and followed.is_settled

    def settled(self, key: Key) -> None:
        """The replica has taken what the leader has said last: to hear it again changes nothing."""
        if (followed := self._partitions.get(key)) is not None:
            followed.is_settled = followed.told is not None

    def end(self, *, keep_id: bool = False) -> None:
        """Begin with a full request again; `keep_id`: the leader may still have the session."""
        self.id = self.id if keep_id else NO_SESSION
        self.epoch = INITIAL_EPOCH


def _without_records(answer: PartitionFetchResponse) -> PartitionFetchResponse | None:
    """What goes on to hold of an answer; the leader repeats what is an error or a divergence."""
    if answer.error is not ErrorCode.none or answer.diverging_epoch is not None:
        return None
    return attrs.evolve(answer, records=b"") if answer.records else answer


def _forgotten(gone: Sequence[Key]) -> list[ForgottenTopic]:
    topics: dict[str, ForgottenTopic] = {}
    for topic_id, index in gone:
        topics.setdefault(topic_id, ForgottenTopic("", topic_id, [])).partitions.append(index)
    return list(topics.values())

"""A follower's side of a fetch session (KIP-227): what it asks a leader for, and what the leader's silence means.

Theory of operation
-------------------
The first request of a session is FULL: it names every partition. If the leader keeps a session for it, the next
requests are INCREMENTAL: they name partitions that are asked for differently, new ones, and those to forget; the leader
responds with partitions that have news. For a partition without news, the response is what the leader said last: no
records, the same high watermark and log start. A replica that has taken this response to this very fetch has nothing to
do: its partition is AT REST (`rest`). No request and no response looks at it, until a response names it, its next fetch
would be another one (`rouse`), or the session ends.

What the session knows of a partition, and the transitions:

    event                                              UNKNOWN     TOLD        TAKEN
    it is asked for differently (`ask`)                UNKNOWN     TOLD        TOLD
    a response with a high watermark (`receive`)       TOLD        TOLD        TOLD
    a response with an error or divergence (`receive`) UNKNOWN     UNKNOWN     UNKNOWN
    the replica has taken the response (`take`)        UNKNOWN     TAKEN       TAKEN

Both sides count the requests. The session ends, and the next request is a full one, when no response comes, when the
leader does not know the session (FETCH_SESSION_ID_NOT_FOUND: it has restarted, or needed the room), or when it counts
differently (INVALID_FETCH_SESSION_EPOCH). The full request names the old session, so that a leader that still has it
removes it.

Requests of a session go one after the other, each after the response to the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import FollowerFetch, PartitionFetchResponse
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.requests.reads import follower_request, partition_responses
from tidegauge.impl.wire.fetch_messages import INITIAL_EPOCH, NO_SESSION, FetchRequest, FetchResponse, ForgottenTopic

_LARGEST_EPOCH: Final = (1 << 31) - 1

Key = tuple[str, int]
"""Topic id, partition."""


class Knowledge(Enum):
    """What a session knows of a partition at the leader."""

    UNKNOWN = "unknown"
    """The leader has said nothing that still holds."""
    TOLD = "told"
    """The leader has said something that still holds; the replica has not taken it as the response to its fetch."""
    TAKEN = "taken"
    """The replica has taken it as the response to this very fetch."""


class Resting(NamedTuple):
    """A partition at rest."""

    partition: Partition
    fetch: FollowerFetch
    """The fetch that the leader holds."""


@attrs.define(eq=False, repr=False)
class SessionPartition:
    """A partition of a session."""

    fetch: FollowerFetch
    """How it is asked for."""
    knowledge: Knowledge = Knowledge.UNKNOWN
    last: PartitionFetchResponse | None = None
    """What the leader said last, without records; None while the knowledge is UNKNOWN."""

    def ask(self, fetch: FollowerFetch) -> bool:
        """Ask for the partition; True when this differs from the request before."""
        if self.fetch == fetch:
            return False
        self.fetch = fetch
        if self.knowledge is Knowledge.TAKEN:
            self.knowledge = Knowledge.TOLD
        return True

    def receive(self, response: PartitionFetchResponse) -> None:
        """The leader has responded. It repeats errors and divergences, so these are not kept."""
        if response.error is not ErrorCode.none or response.diverging_epoch is not None:
            self.knowledge, self.last = Knowledge.UNKNOWN, None
        else:
            self.knowledge = Knowledge.TOLD
            self.last = response._replace(records=b"") if response.records else response

    def take(self) -> None:
        """The replica has taken the response to its fetch."""
        if self.knowledge is Knowledge.TOLD:
            self.knowledge = Knowledge.TAKEN


class FollowerSession:
    """The session of one fetcher with one leader."""

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        """Of the next request."""
        self._partitions: dict[Key, SessionPartition] = {}
        self._awake: dict[Key, SessionPartition] = {}
        """Those that are not at rest."""
        self._resting: dict[Key, Resting] = {}
        self._roused: list[Partition] = []

    @property
    def is_incremental(self) -> bool:
        """Whether the next request names only what is new; else it is a full one."""
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
        """The next request. It asks for exactly these partitions and those at rest, all of one replica."""
        gone: list[Key] = []
        if self.is_incremental:
            wanted = {key for key, _ in fetches}
            gone = [key for key in self._awake if key not in wanted]
            for key in gone:
                del self._partitions[key], self._awake[key]
        else:
            self._partitions.clear()
            self._awake.clear()
        request = follower_request(
            [(*key, fetch) for key, fetch in fetches if self._must_name(key, fetch)],
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
        elif self._resting:
            resting = next(iter(self._resting.values())).fetch
            request.replica_id, request.replica_epoch = resting.replica_id, resting.broker_epoch
        return request

    def _must_name(self, key: Key, fetch: FollowerFetch) -> bool:
        """Ask for a partition; True when the request must name it."""
        partition = self._partitions.get(key)
        if partition is None:
            self._partitions[key] = self._awake[key] = SessionPartition(fetch)
            return True
        return partition.ask(fetch)

    def receive(self, message: FetchResponse, *, repeat: bool = False) -> dict[Key, PartitionFetchResponse] | None:
        """The responses in a message and by silence; None when the leader refuses the session, which ends it.

        Partitions whose replica has nothing to do are left out; with `repeat` they are in it.
        """
        if message.error_code is not ErrorCode.none:
            self.end(keep_id=message.error_code is not ErrorCode.fetch_session_id_not_found)
            return None
        responses = partition_responses(message)
        for key, response in responses.items():
            if (partition := self._partitions.get(key)) is not None:
                partition.receive(response)
        if self.is_incremental:
            for key, partition in self._awake.items():
                if partition.last is None or (partition.knowledge is Knowledge.TAKEN and not repeat):
                    continue
                responses.setdefault(key, partition.last)
        if message.session_id == NO_SESSION:
            self.end()
        else:
            self.id = message.session_id
            self.epoch = 1 if self.epoch == _LARGEST_EPOCH else self.epoch + 1
        return responses

    def is_taken(self, key: Key) -> bool:
        """Whether the leader's silence tells the replica nothing."""
        partition = self._partitions.get(key)
        return partition is not None and partition.knowledge is Knowledge.TAKEN

    def take(self, key: Key) -> None:
        """The replica has taken the response: the same response again changes nothing."""
        if (partition := self._partitions.get(key)) is not None:
            partition.take()

    # --- rest --------------------------------------------------------------------------------------------------------

    @property
    def has_resting(self) -> bool:
        """Whether the next request asks for partitions without a word."""
        return bool(self._resting)

    def rest(self, key: Key, partition: Partition, fetch: FollowerFetch) -> bool:
        """Ask for the partition with the same fetch in all requests to come; False when it has something to do."""
        known = self._partitions.get(key)
        if not self.is_incremental or known is None or known.knowledge is not Knowledge.TAKEN or known.fetch != fetch:
            return False
        self._awake.pop(key, None)
        self._resting[key] = Resting(partition, fetch)
        return True

    def rouse(self, key: Key) -> Resting | None:
        """What was at rest is not any more: the next request forgets it unless it asks for it."""
        resting = self._resting.pop(key, None)
        if resting is not None:
            self._awake[key] = self._partitions[key]
            self._roused.append(resting.partition)
        return resting

    def rouse_other_epochs(self, broker_epoch: int) -> list[Partition]:
        """The broker has registered anew: no fetch of the former broker epoch rests. Returns what rested."""
        if not self._resting or next(iter(self._resting.values())).fetch.broker_epoch == broker_epoch:
            return []
        roused = [resting.partition for resting in self._resting.values()]
        self.rouse_all()
        return roused

    def rouse_all(self) -> None:
        for key in list(self._resting):
            self.rouse(key)

    def take_roused(self) -> list[Partition]:
        """The partitions that were roused since the last call."""
        roused, self._roused = self._roused, []
        return roused

    def end(self, *, keep_id: bool = False) -> None:
        """Send a full request next. `keep_id`: it names this session, which the leader may still have."""
        self.rouse_all()
        self.id = self.id if keep_id else NO_SESSION
        self.epoch = INITIAL_EPOCH


def _forgotten(gone: Sequence[Key]) -> list[ForgottenTopic]:
    topics: dict[str, ForgottenTopic] = {}
    for topic_id, index in gone:
        topics.setdefault(topic_id, ForgottenTopic("", topic_id, [])).partitions.append(index)
    return list(topics.values())

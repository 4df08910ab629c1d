"""Followers that get records which they cannot take: what the follower says, and how the leader learns of it.

A follower checks every batch. When it refuses what it was sent, or when the leader refuses to send, it asks again: it
has no other way to go on. It says so with words, once for each offset and reason and then once a minute, so that an
operator knows why the replica is not in sync.

The leader is told nothing of a batch that a follower refuses. But a follower that asks twice for the same records has
not taken them, for whatever reason, so the leader looks at their checksums before it sends them again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.server.broker.partition import Partition, TopicPartition

if TYPE_CHECKING:
    from tidegauge.impl.partition.messages import FollowerFetch

LOGGER: Final = logging.getLogger(__name__)
AGAIN_MS: Final = 60_000
"""How often the same is said again."""
PASSING: Final = frozenset(
    {
        ErrorCode.none,
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_server_error,
    }
)
"""Errors that metadata which are on their way put right."""


def _name(partition: Partition) -> str:
    return f"{partition.topic}-{partition.index}"


class UnfedFollowers:
    """What one broker's followers say of records that they do not get."""

    def __init__(self) -> None:
        self._told: dict[TopicPartition, tuple[int, str, int]] = {}
        """Partition -> offset, reason and time of what was said last, in ms."""

    def fed(self, partition: Partition) -> None:
        """The follower has what it asked for."""
        if self._told and self._told.pop(partition.key, None) is not None:
            log_event(LOGGER, logging.WARNING, "follower fed again", partition=_name(partition))

    def refused(self, partition: Partition, leader: int, reason: str, now_ms: int) -> None:
        """The follower could not take what the leader sent, or the leader refused to send."""
        offset = partition.replica.log_end_offset
        told = self._told.get(partition.key)
        if told is not None and told[:2] == (offset, reason) and now_ms - told[2] < AGAIN_MS:
            return
        self._told[partition.key] = offset, reason, now_ms
        log_event(
            LOGGER,
            logging.ERROR,
            "follower not fed",
            partition=_name(partition),
            leader=leader,
            offset=offset,
            why=reason,
            next="it asks again until the leader can serve the offset; until then this replica is not in sync",
        )


class RepeatedFetches:
    """Which records a broker's leaders have sent to which follower last."""

    def __init__(self) -> None:
        self._sent: dict[tuple[str, int, int], tuple[int, int]] = {}
        """Topic, partition and follower -> leader epoch and offset."""

    def is_repeated(self, partition: Partition, fetch: FollowerFetch) -> bool:
        """Whether the follower was sent these records already."""
        key = partition.topic, partition.index, fetch.replica_id
        return self._sent.get(key) == (fetch.leader_epoch, fetch.fetch_offset)

    def sent(self, partition: Partition, fetch: FollowerFetch) -> None:
        """The follower is sent records."""
        self._sent[partition.topic, partition.index, fetch.replica_id] = fetch.leader_epoch, fetch.fetch_offset

"""One partition that a broker hosts: its log, its replica's core, and the fetches that the replica has outstanding.

A task that has awaited anything must look at `is_gone` before it uses the log or the replica: meanwhile the log's
directory may have failed, or the metadata may have taken the partition away.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from tidegauge.impl.partition.messages import FollowerFetch
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.storage.log import Log

TopicPartition: TypeAlias = tuple[str, int]
"""A topic's name and the index of one of its partitions."""


@attrs.define(eq=False, repr=False)
class Partition:
    """One hosted partition."""

    topic: str
    index: int
    topic_id: str
    log: Log
    replica: PartitionReplica
    outstanding: list[FollowerFetch] = attrs.field(factory=list)
    """Fetches that this replica has sent and that have no response yet."""
    is_offline: bool = False
    """Whether its log directory has failed."""
    is_removed: bool = False
    """Whether the metadata have taken it away from this broker."""

    @property
    def is_gone(self) -> bool:
        """Whether its log and its replica must not be used any more."""
        return self.is_offline or self.is_removed

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.index

    def awaits_response(self) -> bool:
        """Whether a fetch of the present leader epoch is outstanding: there is never a second one."""
        return any(fetch.leader_epoch == self.replica.leader_epoch for fetch in self.outstanding)

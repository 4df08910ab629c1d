"""Replicas that have come back without their log: which they are, and when they are replicas like others again.

Theory of operation
-------------------
A log that was removed while its broker was down is made anew, and is empty. Were its replica elected, the others would
have to cut their records down to none. So the controller is told before this process is unfenced: the replica is in
none of the broker's directories. It is elected after all that have their logs (`impl.controller.elections`).

That has to be told only where nobody leads: a replica that follows is filled from its leader, as one that lags. A log
counts as lost if it holds nothing, and is noted (`impl.storage.lost_logs`), or is in a directory for the controller
that this broker does not have any more, or all of it is damaged. It is found when it has records, or is in sync.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tidegauge.impl.partition.registration import NO_LEADER, PartitionRegistration
from tidegauge.impl.ports.log_lines import log_event

if TYPE_CHECKING:
    from tidegauge.impl.metadata.image import TopicImage
    from tidegauge.impl.server.broker.partition import Partition
    from tidegauge.impl.storage.log import Log
    from tidegauge.impl.storage.log_directories import LogDirectories

LOGGER: Final = logging.getLogger(__name__)

LOST: Final = str(UUID(int=1))
"""What the controller was told of a directory that failed, which has come back (KIP-858)."""
DAMAGED: Final = UUID(int=3)
"""What the controller is told of a replica whose log is damaged and about to be cut."""
UNASSIGNED: Final = UUID(int=0)
"""The directory id of a replica that is in no directory (KIP-858)."""


class LostReplicas:
    """What one broker says of replicas whose logs were removed."""

    def __init__(self, broker_id: int, directories: LogDirectories) -> None:
        self._broker_id = broker_id
        self._directories = directories

    def is_lost(self, partition: Partition, topic: TopicImage) -> bool:
        """Whether the controller has to know that the replica has lost its log."""
        registration = topic.partitions[partition.index]
        if registration.leader != NO_LEADER or self._has_something(partition.log, registration):
            return False
        known = topic.directories.get((partition.index, self._broker_id))
        there = {str(UNASSIGNED), LOST, *(str(directory.id) for directory in self._directories.online)}
        is_elsewhere = known is not None and known not in there
        return is_elsewhere or bool(partition.log.damage) or self._directories.may_have_lost(*partition.key)

    def is_told(self, partition: Partition, topic: TopicImage) -> bool:
        """Whether the controller takes the replica for lost."""
        return self._broker_id in topic.partitions[partition.index].lost_replicas

    def is_found(self, partition: Partition, topic: TopicImage) -> bool:
        """Whether a replica that the controller takes for lost has something again."""
        return self._has_something(partition.log, topic.partitions[partition.index])

    def _has_something(self, log: Log, registration: PartitionRegistration) -> bool:
        return self._broker_id in registration.isr or not is_bare(log)

    def tell(self, partition: Partition) -> None:
        """Log that the replica is reported."""
        log_event(
            LOGGER,
            logging.ERROR,
            "replica lost",
            partition=f"{partition.topic}-{partition.index}",
            directory=partition.log.directory,
            why="it had a log, and nothing of it is left" if not partition.log.damage else "all of its log is damaged",
            next="the controller is told; another replica leads, if one has its log, and this one is fetched from it",
        )

    def settle(self) -> None:
        """This process is unfenced: all that was lost is told, or is being fetched."""
        self._directories.settle_losses()


def is_bare(log: Log) -> bool:
    """Whether no record of a log can be read."""
    offset = log.log_start_offset
    for gap in log.damage.gaps:
        if gap.start > offset:
            return False
        offset = max(offset, gap.end)
    return offset >= log.log_end_offset

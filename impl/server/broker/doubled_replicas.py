"""Replicas that have a log in several directories, and those that were made beside a failed one (KIP-858).

Theory of operation
-------------------
A replica in a failed directory may be taken away and given back. It is made anew elsewhere, and its former log comes
back with its directory. The controller says which one counts (`impl.storage.former_logs`); the other becomes a stray.
Where nobody can tell, the replica is offline, and nothing is touched.

So that the controller can say it, a replica that this process has made does nothing, while a directory is offline,
before the controller knows where it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final
from uuid import UUID

from tidegauge.impl.metadata.image import ClusterImage, TopicImage
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.server.broker.high_watermark_checkpoint import HighWatermarkCheckpoint
from tidegauge.impl.server.broker.partition import TopicPartition
from tidegauge.impl.storage.former_logs import that_counts
from tidegauge.impl.storage.log_directories import LogDirectories
from tidegauge.impl.wire.primitives import topic_uuid

LOGGER: Final = logging.getLogger(__name__)


class DoubledReplicas:
    """What one broker does about them."""

    def __init__(
        self,
        broker_id: int,
        directories: LogDirectories,
        high_watermarks: HighWatermarkCheckpoint,
        give_up: Callable[[TopicPartition], None],
    ) -> None:
        """`give_up` takes a replica offline that has no log that counts."""
        self._broker_id = broker_id
        self._directories = directories
        self._high_watermarks = high_watermarks
        self._give_up = give_up
        self._made: set[TopicPartition] = set()
        self._undecided: set[TopicPartition] = set()

    def settle(self, image: ClusterImage) -> None:
        """Find out which log of each replica counts, and keep the others as strays."""
        for key in list(self._directories.doubles):
            topic, registration = image.topics.get(key[0]), image.partition(*key)
            if topic is None or registration is None or self._broker_id not in registration.replicas:
                self._directories.settle_double(key, None, "the metadata do not put it here")
            else:
                self._settle(key, topic)

    def _settle(self, key: TopicPartition, topic: TopicImage) -> None:
        known = topic.directories.get((key[1], self._broker_id))
        found = self._directories.logs_found(key, topic_uuid(topic.topic_id))
        counts = that_counts(None if known is None else UUID(known), found)
        if counts is None and found:
            if key in self._undecided:
                return
            self._undecided.add(key)
            log_event(
                LOGGER,
                logging.ERROR,
                "log not opened",
                partition=f"{key[0]}-{key[1]}",
                why="several log directories have records of it, and the controller knows none of them as its place",
                next="the replica is offline: stop the broker, move all but one of its directories away, and start it",
            )
            self._give_up(key)
            return
        self._directories.settle_double(key, counts, "the replica's log is in another directory")
        if (directory := self._directories.where(*key)) is not None:
            self._high_watermarks.find(key, directory)

    def made(self, key: TopicPartition) -> None:
        """This process has made the replica's log."""
        self._made.add(key)

    def may_act(self, key: TopicPartition, topic: TopicImage) -> bool:
        """Whether a replica may be what the metadata make of it."""
        if key not in self._made or not self._directories.offline:
            return True
        directory = self._directories.where(*key)
        return directory is not None and topic.directories.get((key[1], self._broker_id)) == str(directory.id)

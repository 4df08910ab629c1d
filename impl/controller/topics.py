"""Topics: their creation, their settings, and where their replicas go."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from kio.schema.errors import ErrorCode

from impl.controller.isr_changes import IsrChanges
from impl.controller.placement import PlacementError, place
from impl.controller.records import ConfigRecord, PartitionRecord, TopicRecord
from impl.controller.topic_config import config_error


@attrs.frozen
class CreatedTopic:
    """What became of a request for a topic; `message` says in words what is wrong with it."""

    error: ErrorCode
    message: str = ""


class Topics(IsrChanges):
    """The controller's part in creating topics."""

    def create_topic(
        self,
        name: str,
        topic_id: str,
        partitions: int,
        replication_factor: int,
        *,
        configs: Mapping[str, str] | None = None,
        start: int = 0,
        shift: int = 0,
    ) -> CreatedTopic:
        """Create a topic on the live brokers; `start` and `shift` are the random numbers that placement uses.

        Errors: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_CONFIG, INVALID_PARTITIONS,
        INVALID_REPLICATION_FACTOR, INVALID_REQUEST (racks on some brokers only).
        """
        configs = configs or {}
        refusal = self._topic_error(name, configs)
        if refusal is not None:
            return refusal
        racks = {broker.broker_id: broker.rack for broker in self.image.unfenced_brokers()}
        placed = place(racks, partitions, replication_factor, start, shift)
        if isinstance(placed, PlacementError):
            return CreatedTopic(placed.error, placed.message)
        self._write_topic(name, topic_id, configs, placed)
        return CreatedTopic(ErrorCode.none)

    def create_topic_on(
        self,
        name: str,
        topic_id: str,
        replicas: tuple[tuple[int, ...], ...],
        configs: Mapping[str, str] | None = None,
    ) -> CreatedTopic:
        """Create a topic with the replicas of each partition given by hand, the preferred leader first.

        Errors: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_CONFIG, INVALID_PARTITIONS,
        INVALID_REPLICA_ASSIGNMENT.
        """
        configs = configs or {}
        refusal = self._topic_error(name, configs)
        if refusal is not None:
            return refusal
        if not replicas:
            return CreatedTopic(ErrorCode.invalid_partitions, f"topic {name!r} has no partitions: give at least 1")
        for partition, brokers in enumerate(replicas):
            if not brokers or len(set(brokers)) < len(brokers) or not set(brokers) <= self.image.brokers.keys():
                return CreatedTopic(
                    ErrorCode.invalid_replica_assignment,
                    f"partition {partition} on brokers {list(brokers)}: name registered brokers, each once",
                )
            if not any(self.image.is_unfenced(broker) for broker in brokers):
                return CreatedTopic(
                    ErrorCode.invalid_replica_assignment,
                    f"partition {partition} on brokers {list(brokers)}: all are fenced, name a live one",
                )
        self._write_topic(name, topic_id, configs, replicas)
        return CreatedTopic(ErrorCode.none)

    def _topic_error(self, name: str, configs: Mapping[str, str]) -> CreatedTopic | None:
        if name in self.image.topics:
            return CreatedTopic(ErrorCode.topic_already_exists, f"topic {name!r} exists")
        if not is_topic_name(name):
            return CreatedTopic(
                ErrorCode.invalid_topic_exception,
                f"topic name {name!r}: use 1 to 249 letters, digits, '.', '_' and '-', and neither '.' nor '..'",
            )
        wrong = config_error(configs)
        return CreatedTopic(ErrorCode.invalid_config, wrong) if wrong else None

    def _write_topic(
        self, name: str, topic_id: str, configs: Mapping[str, str], placed: tuple[tuple[int, ...], ...]
    ) -> None:
        self._write(TopicRecord(name, topic_id))
        for key, value in sorted(configs.items()):
            self._write(ConfigRecord(name, key, value))
        for partition, replicas in enumerate(placed):
            isr = tuple(sorted(replica for replica in replicas if self.image.is_unfenced(replica)))
            leader = next(replica for replica in replicas if replica in isr)
            self._write(PartitionRecord(name, partition, replicas, isr, leader))
        self._commit()


def is_topic_name(name: str) -> bool:
    """Kafka's rule for topic names."""
    legal = all(character.isascii() and (character.isalnum() or character in "._-") for character in name)
    return legal and 0 < len(name) <= 249 and name not in (".", "..")

"""Reassignments by request: AlterPartitionReassignments and ListPartitionReassignments (KIP-455, KIP-860)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.isr_changes import IsrChanges
from tidegauge.impl.partition.registration import PartitionRegistration


@attrs.frozen
class Refusal:
    """Why a request for a partition is refused: Kafka's error code, and the reason in words."""

    error: ErrorCode = ErrorCode.none
    message: str = ""


AGREED = Refusal()


class Reassignments(IsrChanges):
    """The controller's part in moving partitions."""

    def reassign(self, topic: str, partition: int, target: Sequence[int], *, may_change_factor: bool = True) -> Refusal:
        """Let the partition move to these brokers, the preferred leader first; replaces a move that is under way.

        Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR (another number of
        replicas though `may_change_factor` is false).
        """
        old = self.image.partition(topic, partition)
        if old is None:
            return unknown_partition(topic, partition)
        refusal = self.assignment_error(partition, target)
        if refusal is not AGREED:
            return refusal
        factor = len([b for b in old.replicas if b not in old.removing_replicas])
        if not may_change_factor and len(target) != factor:
            return Refusal(
                ErrorCode.invalid_replication_factor,
                f"{topic}-{partition} has {factor} replicas and is to have {len(target)}: allow that, or keep it",
            )
        self._move(topic, partition, old, self.completed(self.reassigned(old, tuple(target))))
        return AGREED

    def cancel_reassignment(self, topic: str, partition: int) -> Refusal:
        """Take back what a reassignment adds.

        Errors: UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT (only added
        replicas are known to hold every committed record, and the topic does not elect uncleanly).
        """
        old = self.image.partition(topic, partition)
        if old is None:
            return unknown_partition(topic, partition)
        if not old.is_reassigned:
            return Refusal(ErrorCode.no_reassignment_in_progress, f"{topic}-{partition} is not being reassigned")
        if not self.may_cancel(topic, old):
            return Refusal(
                ErrorCode.invalid_replica_assignment,
                f"only replicas that {topic}-{partition} is being given hold every committed record: to take them away "
                "would be an unclean election, which the topic does not allow",
            )
        self._move(topic, partition, old, self.cancelled(old))
        return AGREED

    def reassignments(
        self, asked: Collection[tuple[str, int]] | None = None
    ) -> Iterator[tuple[str, int, PartitionRegistration]]:
        """Every partition that is being reassigned, of those asked for (None: of all)."""
        for topic, partition, registration in self.image.partitions():
            if registration.is_reassigned and (asked is None or (topic, partition) in asked):
                yield topic, partition, registration

    def assignment_error(self, partition: int, brokers: Sequence[int]) -> Refusal:
        """What is wrong with replicas that are given by hand."""
        if not brokers:
            return Refusal(ErrorCode.invalid_replica_assignment, f"partition {partition} on no broker: name at least 1")
        if len(set(brokers)) < len(brokers) or not self.image.brokers.keys() >= set(brokers):
            return Refusal(
                ErrorCode.invalid_replica_assignment,
                f"partition {partition} on brokers {list(brokers)}: name registered brokers, each once",
            )
        return AGREED

    def _move(self, topic: str, partition: int, old: PartitionRegistration, new: PartitionRegistration) -> None:
        self._write_partition(topic, partition, old, self.settled(topic, new))
        self._commit()


def unknown_partition(topic: str, partition: int) -> Refusal:
    return Refusal(ErrorCode.unknown_topic_or_partition, f"there is no {topic}-{partition}")

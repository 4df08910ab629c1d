"""Reassignments by request: AlterPartitionReassignments and ListPartitionReassignments (KIP-455, KIP-860)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.decision import Decision, LedPartition, Proposal
from tidegauge.impl.controller.replica_lists import ReplicaListRules
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.registration import PartitionRegistration

AT_ONCE: Final = 64
"""Partitions that are looked at before others have their turn."""


class Refusal(NamedTuple):
    """Why a request for a partition is refused: Kafka's error code and a message; NONE when it is not."""

    error: ErrorCode = ErrorCode.none
    message: str = ""


AGREED = Refusal()


class Reassignments:
    """Decides about moves of partitions to other brokers."""

    def __init__(self, image: ClusterImage, rules: ReplicaListRules) -> None:
        self._image = image
        self._rules = rules

    def reassign(
        self, topic: str, partition: int, target: Sequence[int], *, may_change_factor: bool = True
    ) -> Proposal[Refusal]:
        """Move the partition to these brokers, the preferred leader first; replaces a move that is under way.

        Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR (another number of
        replicas though `may_change_factor` is false).
        """
        decision = Decision(self._image)
        old = self._image.partition(topic, partition)
        if old is None:
            return decision.propose(unknown_partition(topic, partition))
        refusal = assignment_error(self._image, partition, target)
        if refusal is not AGREED:
            return decision.propose(refusal)
        factor = len([b for b in old.replicas if b not in old.removing_replicas])
        if not may_change_factor and len(target) != factor:
            return decision.propose(
                Refusal(
                    ErrorCode.invalid_replication_factor,
                    f"{topic}-{partition} has {factor} replicas and is to have {len(target)}: allow that, or keep it",
                )
            )
        moved = self._rules.completed(self._rules.reassigned(old, tuple(target)))
        decision.change_partition(topic, partition, self._led(topic, moved))
        return decision.propose(AGREED)

    def cancel(self, topic: str, partition: int) -> Proposal[Refusal]:
        """Remove the replicas that a reassignment adds.

        Errors: UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT (only added
        replicas are known to have every committed record, and the topic does not elect uncleanly).
        """
        decision = Decision(self._image)
        old = self._image.partition(topic, partition)
        if old is None:
            return decision.propose(unknown_partition(topic, partition))
        if not old.is_reassigned:
            return decision.propose(
                Refusal(ErrorCode.no_reassignment_in_progress, f"{topic}-{partition} is not being reassigned")
            )
        if not self._rules.may_cancel(self._image, topic, old):
            return decision.propose(
                Refusal(
                    ErrorCode.invalid_replica_assignment,
                    f"only replicas that {topic}-{partition} is being given have every committed record: to remove "
                    "them would be an unclean election, which the topic does not allow",
                )
            )
        decision.change_partition(topic, partition, self._led(topic, self._rules.cancelled(old)))
        return decision.propose(AGREED)

    def _led(self, topic: str, registration: PartitionRegistration) -> LedPartition:
        return self._rules.with_lasting_leader(self._image, topic, registration)


def ongoing_reassignments(
    image: ClusterImage, wanted: Iterable[tuple[str, int]] | None = None
) -> Generator[int, Any, list[tuple[str, int, PartitionRegistration]]]:
    """The partitions that are being reassigned, of the wanted ones (None: of all), each once; in slices.

    What changes between two slices may be seen or not.
    """
    if wanted is None:
        wanted = ((name, index) for name, topic in list(image.topics.items()) for index in list(topic.partitions))
    found: dict[tuple[str, int], PartitionRegistration] = {}
    for number, key in enumerate(wanted, 1):
        registration = image.partition(*key)
        if registration is not None and registration.is_reassigned:
            found[key] = registration
        if number % AT_ONCE == 0:
            yield AT_ONCE
    return [(*key, registration) for key, registration in found.items()]


def assignment_error(image: ClusterImage, partition: int, brokers: Sequence[int]) -> Refusal:
    """What is wrong with replicas that a request names: INVALID_REPLICA_ASSIGNMENT."""
    if not brokers:
        return Refusal(ErrorCode.invalid_replica_assignment, f"partition {partition} on no broker: name at least 1")
    if len(set(brokers)) < len(brokers) or not image.brokers.keys() >= set(brokers):
        return Refusal(
            ErrorCode.invalid_replica_assignment,
            f"partition {partition} on brokers {list(brokers)}: name registered brokers, each once",
        )
    return AGREED


def unknown_partition(topic: str, partition: int) -> Refusal:
    return Refusal(ErrorCode.unknown_topic_or_partition, f"there is no {topic}-{partition}")

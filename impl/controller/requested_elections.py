"""Elections that an operator asks for (KIP-183, KIP-460), and which leaders are out of place."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.decision import Decision, LedPartition, Proposal
from tidegauge.impl.controller.elections import ElectionRules
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.registration import NO_LEADER


class RequestedElections:
    """Decides about elections by request."""

    def __init__(self, image: ClusterImage, rules: ElectionRules) -> None:
        self._image = image
        self._rules = rules

    def elect_preferred(self, topic: str, partition: int) -> Proposal[ErrorCode]:
        """Elect the first of the replica list.

        Errors: UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE.
        """
        decision = Decision(self._image)
        old = self._image.partition(topic, partition)
        if old is None:
            return decision.propose(ErrorCode.unknown_topic_or_partition)
        preferred = old.replicas[0]
        if old.leader == preferred:
            return decision.propose(ErrorCode.election_not_needed)
        if preferred not in old.isr or not self._image.is_active(preferred):
            return decision.propose(ErrorCode.preferred_leader_not_available)
        decision.change_partition(topic, partition, LedPartition(self._rules.led_by(old, preferred)))
        return decision.propose(ErrorCode.none)

    def elect_uncleanly(self, topic: str, partition: int) -> Proposal[ErrorCode]:
        """Elect any live replica of a partition without a leader; committed records may be lost.

        Errors: UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED, ELIGIBLE_LEADERS_NOT_AVAILABLE.
        """
        decision = Decision(self._image)
        old = self._image.partition(topic, partition)
        if old is None:
            return decision.propose(ErrorCode.unknown_topic_or_partition)
        if old.leader != NO_LEADER:
            return decision.propose(ErrorCode.election_not_needed)
        elected = self._rules.with_leader(self._image, topic, old, unclean=True)
        if elected.registration.leader == NO_LEADER:
            return decision.propose(ErrorCode.eligible_leaders_not_available)
        decision.change_partition(topic, partition, elected)
        return decision.propose(ErrorCode.none)


def misplaced_leaders(image: ClusterImage, imbalance_percentage: int) -> list[tuple[str, int]]:
    """The partitions that need a preferred election, broker by broker.

    A broker is out of balance when it does not lead more than leader.imbalance.per.broker.percentage of the partitions
    of which it is the preferred leader; then all of those that it does not lead are listed.
    """
    preferring: dict[int, int] = {}
    misplaced: dict[int, list[tuple[str, int]]] = {}
    for topic, partition, registration in image.partitions():
        preferred = registration.replicas[0]
        preferring[preferred] = preferring.get(preferred, 0) + 1
        if registration.leader != preferred:
            misplaced.setdefault(preferred, []).append((topic, partition))
    return [
        one
        for broker, partitions in misplaced.items()
        if len(partitions) * 100 > imbalance_percentage * preferring[broker]
        for one in partitions
    ]

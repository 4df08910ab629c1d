"""What becomes of a replica that the metadata do not put on this broker: deleted, or kept as a stray.

Data is deleted on a decision only: the metadata log has deleted the very topic, by its id, or has given the very
partition other replicas. A topic or a partition of which the log says nothing is no decision: the broker may have met
the wrong controller, or one that has lost its log.
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum

from tidegauge.impl.metadata.image import ClusterImage


class Departure(Enum):
    """Why a replica does not belong here."""

    DELETED = "its topic was deleted"
    REASSIGNED = "its partition has other replicas"
    UNKNOWN = "the metadata do not know it"

    @property
    def is_decided(self) -> bool:
        """Whether it may be deleted."""
        return self is not Departure.UNKNOWN


def departure(
    image: ClusterImage, removed_topics: Container[str], topic: str, topic_id: str, partition: int, *, broker_id: int
) -> Departure:
    """Why a replica of this topic is not the broker's, which the image does not put there.

    `topic` is the name by which the broker has it: a copy under another name is no replica that was given to others.
    `removed_topics`: the ids of topics that the records of the image have deleted.
    """
    if topic_id in removed_topics:
        return Departure.DELETED
    registration = image.partition(topic, partition) if image.topic_names.get(topic_id) == topic else None
    if registration is None or broker_id in registration.replicas:
        return Departure.UNKNOWN
    return Departure.REASSIGNED

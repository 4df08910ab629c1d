"""Topics that are deleted while a commit of their offsets waits: for the batch before, or for its transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Collection

    from tidegauge.impl.coordinators.groups.requests import Commit
    from tidegauge.impl.metadata.image import ClusterImage


def of_topics_there(commit: Commit, image: ClusterImage) -> tuple[Commit, Collection[tuple[str, int]]]:
    """The commit without the offsets of topics that have gone since it was asked for, and those, by topic and number.

    A topic that has the name again has another id: nobody has read it yet.
    """
    there = {name for name, topic_id in commit.topic_ids.items() if _has(image, name, topic_id)}
    if len(there) == len(commit.topic_ids):
        return commit, ()
    gone = [(one.topic, one.partition) for one in commit.offsets if one.topic not in there]
    return attrs.evolve(commit, offsets=[one for one in commit.offsets if one.topic in there]), gone


def _has(image: ClusterImage, name: str, topic_id: str) -> bool:
    topic = image.topics.get(name)
    return topic is not None and topic.topic_id == topic_id

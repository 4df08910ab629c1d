"""The topics of a test, as a coordinator of consumer groups knows them."""

from __future__ import annotations

import attrs

from tidegauge.impl.coordinators.groups.consumer.metadata_hash import racks_bytes, topic_hash
from tidegauge.impl.coordinators.groups.consumer.state import Topics
from tidegauge.impl.coordinators.name_patterns import NamePattern


@attrs.frozen
class Known:
    """`hidden`: what a member may not describe."""

    topics: Topics
    version: int = 1
    newest: int = 1
    time_ms: int = 0
    hidden: frozenset[str] = frozenset()
    rack: str = ""
    """Of every replica; "" if there is none."""

    def topic_hash(self, name: str) -> int:
        topic = self.topics[name]
        return topic_hash(name, topic.topic_id, [racks_bytes([self.rack] * bool(self.rack))] * topic.partitions)

    def check(self, expression: str) -> None:
        NamePattern(expression)

    def matching(self, expression: str) -> frozenset[str]:
        pattern = NamePattern(expression)
        return frozenset(name for name in self.topics if pattern.matches(name)) - self.hidden

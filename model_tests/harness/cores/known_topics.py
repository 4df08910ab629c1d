"""The topics of a test, as a coordinator of consumer groups knows them."""

from __future__ import annotations

import attrs

from tidegauge.impl.coordinators.groups.consumer.state import Topics
from tidegauge.impl.coordinators.name_patterns import NamePattern


@attrs.frozen
class Known:
    """`hidden`: what a member may not describe."""

    topics: Topics
    version: int = 1
    time_ms: int = 0
    hidden: frozenset[str] = frozenset()

    def matching(self, expression: str) -> frozenset[str]:
        pattern = NamePattern(expression)
        return frozenset(name for name in self.topics if pattern.matches(name)) - self.hidden

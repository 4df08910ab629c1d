"""The zoo's part on consumer groups (KIP-848): each a historical bug, as the one rule that was wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.consumers import kafka_16147, kafka_19233, kafka_19974, kafka_20442
from tidegauge.spec.groups.consumer.machine import ConsumerGroups

CONSUMER_BUGS: Mapping[str, Bug[ConsumerGroups]] = {
    module.BUG.name: module.BUG for module in (kafka_16147, kafka_19233, kafka_19974, kafka_20442)
}
"""By name, oldest first."""

__all__ = ["CONSUMER_BUGS", "Bug"]

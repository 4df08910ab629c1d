"""The zoo's part on consumer groups (KIP-848), in the coordinator: subclasses with the one rule that was wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.bugs.consumers import kafka_16147, kafka_19233, kafka_19974, kafka_20442
from tidegauge.model_tests.harness.cores.consumer_abstraction import ConsumerRoles

CONSUMER_BUGS: Mapping[str, CoreBug[ConsumerRoles]] = {
    module.BUG.name: module.BUG for module in (kafka_16147, kafka_19233, kafka_19974, kafka_20442)
}
"""By name, in the order of `spec.bugs.consumers`."""

__all__ = ["CONSUMER_BUGS", "CoreBug"]

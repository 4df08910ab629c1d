"""The zoo's part on idempotent producing, in the implementation: subclasses, each with the one rule that was wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.bugs.idempotence import (
    kafka_3197,
    kafka_5494,
    kafka_6003,
    kafka_6683,
    kafka_7692,
    kafka_15591,
    librdkafka_4953,
)
from tidegauge.model_tests.harness.cores.replication import Roles

IDEMPOTENCE_BUGS: Mapping[str, CoreBug[Roles]] = {
    module.BUG.name: module.BUG
    for module in (kafka_3197, kafka_5494, kafka_6003, kafka_6683, kafka_7692, kafka_15591, librdkafka_4953)
}
"""By name, in the order of `spec.bugs.idempotence`."""

__all__ = ["IDEMPOTENCE_BUGS", "CoreBug"]

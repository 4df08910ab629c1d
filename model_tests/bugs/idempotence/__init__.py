"""The zoo's part on idempotent producing, in the implementation: subclasses, each with the one rule that was wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.model_tests.bugs.idempotence import (
    kafka_3197,
    kafka_5494,
    kafka_6003,
    kafka_6683,
    kafka_7692,
    kafka_15591,
)
from tidegauge.model_tests.bugs.idempotence_bug import IdempotenceCoreBug

IDEMPOTENCE_BUGS: Mapping[str, IdempotenceCoreBug] = {
    module.BUG.name: module.BUG for module in (kafka_3197, kafka_5494, kafka_6003, kafka_6683, kafka_7692, kafka_15591)
}
"""By name, in the order of `spec.bugs.idempotence`."""

__all__ = ["IDEMPOTENCE_BUGS", "IdempotenceCoreBug"]

"""The zoo's part on idempotent producing: each a historical bug, as the one rule that was wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.idempotence import (
    kafka_3197,
    kafka_5494,
    kafka_6003,
    kafka_6683,
    kafka_7692,
    kafka_15591,
    librdkafka_4953,
)
from tidegauge.spec.idempotence.machine import Idempotence

IDEMPOTENCE_BUGS: Mapping[str, Bug[Idempotence]] = {
    module.BUG.name: module.BUG
    for module in (kafka_3197, kafka_5494, kafka_6003, kafka_6683, kafka_7692, kafka_15591, librdkafka_4953)
}
"""By name, oldest first, a client's last."""

__all__ = ["IDEMPOTENCE_BUGS", "Bug"]

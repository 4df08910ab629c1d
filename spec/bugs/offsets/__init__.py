"""The zoo's part on the offsets of groups: each a historical bug, as the one rule that was wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.offsets import (
    kafka_5247,
    kafka_8069,
    kafka_8587_told,
    kafka_9235,
    kafka_13636,
    kafka_17507,
    kafka_19163,
)
from tidegauge.spec.offsets.machine import Offsets

OFFSET_BUGS: Mapping[str, Bug[Offsets]] = {
    module.BUG.name: module.BUG
    for module in (kafka_5247, kafka_8069, kafka_8587_told, kafka_9235, kafka_13636, kafka_17507, kafka_19163)
}
"""By name, oldest first."""

__all__ = ["OFFSET_BUGS", "Bug"]

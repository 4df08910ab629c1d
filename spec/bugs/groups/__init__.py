"""The zoo's part on classic groups: each a historical bug, as the one rule that was wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.groups import (
    kafka_5600,
    kafka_8715,
    kafka_9752,
    kafka_9801,
    kafka_9823,
    kafka_10284,
    kafka_12890,
    kafka_12984,
    kafka_13419,
    kafka_14422,
)
from tidegauge.spec.groups.classic.machine import ClassicGroups

GROUP_BUGS: Mapping[str, Bug[ClassicGroups]] = {
    module.BUG.name: module.BUG
    for module in (
        kafka_5600,
        kafka_8715,
        kafka_9752,
        kafka_9801,
        kafka_9823,
        kafka_10284,
        kafka_12890,
        kafka_12984,
        kafka_13419,
        kafka_14422,
    )
}
"""By name, oldest first."""

__all__ = ["GROUP_BUGS", "Bug"]

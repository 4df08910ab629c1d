"""The zoo's part on classic groups, in coordinator and members: subclasses, each with the one rule that was wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.bugs.groups import (
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
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles

GROUP_BUGS: Mapping[str, CoreBug[GroupRoles]] = {
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
"""By name, in the order of `spec.bugs.groups`."""

__all__ = ["GROUP_BUGS", "CoreBug"]

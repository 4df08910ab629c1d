"""The zoo's part on classic groups, in the implementation: subclasses, each with the one rule that was wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.bugs.groups import (
    kafka_5600,
    kafka_8715,
    kafka_9752,
    kafka_9801,
    kafka_10284,
    kafka_12890,
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
        kafka_10284,
        kafka_12890,
        kafka_14422,
    )
}
"""By name, in the order of `spec.bugs.groups`."""

WITHOUT_A_CORE: Mapping[str, str] = {
    "kafka_9823": "what a member makes of a late response: a consumer's",
    "kafka_12984": "whom the leader takes for an owner: an assignor's",
    "kafka_13419": "what a member forgets when its generation is over: a consumer's",
}
"""The bugs that no core has, and whose they are."""

__all__ = ["GROUP_BUGS", "WITHOUT_A_CORE", "CoreBug"]

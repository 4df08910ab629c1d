"""The zoo's part on loading groups, in the coordinator: subclasses with the one rule that was wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.bugs.loading import kafka_17306, kafka_19862
from tidegauge.model_tests.harness.cores.group_loading import LoadingRoles

LOADING_BUGS: Mapping[str, CoreBug[LoadingRoles]] = {
    module.BUG.name: module.BUG for module in (kafka_17306, kafka_19862)
}
"""By name, in the order of `spec.bugs.loading`."""

__all__ = ["LOADING_BUGS", "CoreBug"]

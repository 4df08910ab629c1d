"""The zoo's part on workers, in the implementation: subclasses, each with the one rule that is wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.bugs.workers import lock_outlives_partition
from tidegauge.model_tests.harness.cores.workers import WorkerRoles

WORKER_BUGS: Mapping[str, CoreBug[WorkerRoles]] = {module.BUG.name: module.BUG for module in (lock_outlives_partition,)}
"""By name, in the order of `spec.bugs.workers`."""

__all__ = ["WORKER_BUGS", "CoreBug"]

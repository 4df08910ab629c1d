"""The zoo's part on workers: each a bug, as the one rule that is wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.workers import lock_outlives_partition
from tidegauge.spec.workers.machine import Workers

WORKER_BUGS: Mapping[str, Bug[Workers]] = {module.BUG.name: module.BUG for module in (lock_outlives_partition,)}
"""By name."""

__all__ = ["WORKER_BUGS", "Bug"]

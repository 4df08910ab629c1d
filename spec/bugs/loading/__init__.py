"""The zoo's part on loading groups while their log is cleaned: each a bug of Kafka, as the one rule that was wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.loading import kafka_17306, kafka_19862
from tidegauge.spec.groups.loading.machine import GroupLoading

LOADING_BUGS: Mapping[str, Bug[GroupLoading]] = {module.BUG.name: module.BUG for module in (kafka_17306, kafka_19862)}
"""By name, oldest first."""

__all__ = ["LOADING_BUGS", "Bug"]

"""The zoo's part on reads of committed records: each a historical bug, as the one rule that was wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.reading import kafka_5376, kafka_9807
from tidegauge.spec.transactions.reading import CommittedReads

READING_BUGS: Mapping[str, Bug[CommittedReads]] = {module.BUG.name: module.BUG for module in (kafka_5376, kafka_9807)}
"""By name, oldest first."""

__all__ = ["READING_BUGS", "Bug"]

"""The zoo's part on the cleaning of logs with transactions: each a historical bug, as the one rule that was wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.cleaning import kafka_14055
from tidegauge.spec.compaction.transactional import TransactionalCompaction

CLEANING_BUGS: Mapping[str, Bug[TransactionalCompaction]] = {kafka_14055.BUG.name: kafka_14055.BUG}
"""By name."""

__all__ = ["CLEANING_BUGS", "Bug"]

"""The variants of the published model of replication 3.5 as bugs: one rule missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.published import variants_as_bugs
from tidegauge.spec.published.replication35 import variants
from tidegauge.spec.published.replication35.machine import Replication35

REPLICATION35_BUGS: Final[Mapping[str, Bug[Replication35]]] = variants_as_bugs(
    "github.com/Vanlightly/kafka-tlaplus",
    {
        variants.CountsTheRecordFetched: (
            Replication35(brokers=2, replication_factor=2, max_fences=0),
            "LeaderCandidateCompletenessProperty",
        ),
        variants.ElectsOutsideTheIsr: (Replication35(), "LeaderCompletenessProperty"),
        variants.LosesTheLastReplica: (Replication35(brokers=2, replication_factor=2), "LeaderCompletenessProperty"),
    },
)
"""By class name."""

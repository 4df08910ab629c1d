"""The variants of the published models of KIP-853 and KIP-996 as bugs: one rule missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.published import variants_as_bugs
from tidegauge.spec.published.kip853 import variants
from tidegauge.spec.published.kip853.machine import Kip853
from tidegauge.spec.published.kip996.machine import Kip996
from tidegauge.spec.published.kip996.variants import Kip996LeadsWithoutMajority

_SOURCE: Final = "github.com/Vanlightly/kafka-tlaplus"
_THREE: Final = Kip853(servers=3, max_servers=3, max_voters=3)
KIP853_BUGS: Final[Mapping[str, Bug[Kip853]]] = variants_as_bugs(
    _SOURCE,
    {
        variants.Kip853VotesForAll: (_THREE, "NeverTwoLeadersInSameEpoch"),
        variants.Kip853CommitsWithoutMajority: (_THREE, "LeaderHasAllAckedValues"),
    },
)
KIP996_BUGS: Final[Mapping[str, Bug[Kip996]]] = variants_as_bugs(
    _SOURCE,
    {Kip996LeadsWithoutMajority: (Kip996(max_epoch=3, values_per_epoch=0, max_disruptions=2), "ElectionSafety")},
)
"""By class name."""

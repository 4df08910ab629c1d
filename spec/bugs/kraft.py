"""The variants of the published KRaft model as bugs: one rule missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.published import variants_as_bugs
from tidegauge.spec.published.kraft import variants
from tidegauge.spec.published.kraft.machine import Kraft

KRAFT_BUGS: Final[Mapping[str, Bug[Kraft]]] = variants_as_bugs(
    "github.com/Vanlightly/raft-tlaplus",
    {
        variants.VotesForAll: (Kraft(max_elections=2), "NeverTwoLeadersInSameEpoch"),
        variants.LeadsWithoutMajority: (Kraft(servers=2, max_elections=2), "NeverTwoLeadersInSameEpoch"),
        variants.CommitsWithoutMajority: (Kraft(), "CommittedEntriesReachMajority"),
        variants.CommitsOnSending: (Kraft(), "CommittedEntriesReachMajority"),
    },
)
"""By class name."""

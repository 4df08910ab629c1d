"""The variants of the published PullRaft model as bugs: one rule missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.published import variants_as_bugs
from tidegauge.spec.published.pull_raft.machine import PullRaft
from tidegauge.spec.published.pull_raft.variants import PullCommitsWithoutMajority

PULL_RAFT_BUGS: Final[Mapping[str, Bug[PullRaft]]] = variants_as_bugs(
    "github.com/Vanlightly/raft-tlaplus",
    {PullCommitsWithoutMajority: (PullRaft(values=1, max_elections=2), "LeaderHasAllAckedValues")},
)
"""By class name."""

"""The variants of the published PullRaft model as bugs: one rule missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.published.pull_raft.machine import PullRaft
from tidegauge.spec.published.pull_raft.variants import PullCommitsWithoutMajority

_BUG: Final = Bug(
    name=PullCommitsWithoutMajority.__name__,
    title="A leader commits what it has",
    reference="github.com/Vanlightly/raft-tlaplus",
    mechanism=" ".join((PullCommitsWithoutMajority.__doc__ or "").split()),
    violates=("LeaderHasAllAckedValues",),
    buggy=PullCommitsWithoutMajority,
    model=PullRaft(values=1, max_elections=2),
)
PULL_RAFT_BUGS: Final[Mapping[str, Bug[PullRaft]]] = {_BUG.name: _BUG}
"""By class name."""

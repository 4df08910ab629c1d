"""The variants of the published KRaft model as bugs: one rule missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.published.kraft import variants
from tidegauge.spec.published.kraft.machine import Kraft

_MODELS: Final[Mapping[type[Kraft], tuple[Kraft, str]]] = {
    variants.VotesForAll: (Kraft(max_elections=2), "NeverTwoLeadersInSameEpoch"),
    variants.LeadsWithoutMajority: (Kraft(servers=2, max_elections=2), "NeverTwoLeadersInSameEpoch"),
    variants.CommitsWithoutMajority: (Kraft(), "CommittedEntriesReachMajority"),
    variants.CommitsOnSending: (Kraft(), "CommittedEntriesReachMajority"),
}


def _bug(variant: type[Kraft]) -> Bug[Kraft]:
    told = " ".join((variant.__doc__ or "").split())
    model, violates = _MODELS[variant]
    return Bug(
        name=variant.__name__,
        title=told.rpartition(": ")[0] or told.rstrip("."),
        reference="github.com/Vanlightly/raft-tlaplus",
        mechanism=told,
        violates=(violates,),
        buggy=variant,
        model=model,
    )


KRAFT_BUGS: Final[Mapping[str, Bug[Kraft]]] = {variant.__name__: _bug(variant) for variant in _MODELS}
"""By class name."""

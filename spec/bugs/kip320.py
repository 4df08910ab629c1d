"""The variants of the published KIP-320 model as bugs: older versions of the protocol, and each fence missing.

`spec.published.kip320.variants.CountedAsByTlc` is none: it counts steps as TLC does, and breaks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.published.kip320 import variants
from tidegauge.spec.published.kip320.machine import Kip320

_ONE_CHANGE: Final = Kip320()
_TWO_CHANGES: Final = Kip320(max_leader_epoch=2)
"""For what shows only after a second change of leaders."""

_MODELS: Final[Mapping[type[Kip320], Kip320]] = {
    variants.TruncateToHighWatermark: _ONE_CHANGE,
    variants.Kip101: _ONE_CHANGE,
    variants.Kip279: _ONE_CHANGE,
    variants.Kip320FirstTry: _TWO_CHANGES,
    variants.WithoutTruncationFence: _TWO_CHANGES,
    variants.WithoutFetchFence: _TWO_CHANGES,
    variants.WithoutEpochInHighWatermark: _TWO_CHANGES,
    variants.HighWatermarkByMajority: _ONE_CHANGE,
    variants.ExpandWithoutHighWatermark: _ONE_CHANGE,
    variants.ExpandWithoutEpochStart: _ONE_CHANGE,
    variants.ExpandWithoutEpoch: _TWO_CHANGES,
    variants.IsrWriteWithoutEpoch: _ONE_CHANGE,
    variants.WithoutTruncation: _ONE_CHANGE,
    variants.FencedTruncateToHighWatermark: _ONE_CHANGE,
    variants.UncleanElection: _TWO_CHANGES,
    variants.FencedKip101: _TWO_CHANGES,
}


def _bug(variant: type[Kip320]) -> Bug[Kip320]:
    told = " ".join((variant.__doc__ or "").split())
    return Bug(
        name=variant.__name__,
        title=told.partition(":")[0].rstrip("."),
        reference="github.com/hachikuji/kafka-specification",
        mechanism=told,
        violates=("StrongIsr", "WeakIsr"),
        buggy=variant,
        model=_MODELS[variant],
    )


KIP320_BUGS: Final[Mapping[str, Bug[Kip320]]] = {variant.__name__: _bug(variant) for variant in _MODELS}
"""By class name."""

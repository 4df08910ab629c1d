"""The variants of the published KIP-320 model as bugs: older versions of the protocol, and each fence missing.

`spec.published.kip320.variants.CountedAsByTlc` is none: it counts steps as TLC does, and breaks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.published import variants_as_bugs
from tidegauge.spec.published.kip320 import variants
from tidegauge.spec.published.kip320.machine import Kip320

_SECOND_CHANGE: Final = (
    variants.Kip320FirstTry,
    variants.WithoutTruncationFence,
    variants.WithoutFetchFence,
    variants.WithoutEpochInHighWatermark,
    variants.ExpandWithoutEpoch,
    variants.UncleanElection,
    variants.FencedKip101,
)
"""What shows only after a second change of leaders."""
_SHOWN_BY_ONE: Final = {
    **dict.fromkeys((variants.Kip101, variants.Kip279, variants.ExpandWithoutEpochStart), "StrongIsr"),
    variants.WithoutFetchFence: "WeakIsr",
}
"""Variants that violate one of the two invariants in their model."""

KIP320_BUGS: Final[Mapping[str, Bug[Kip320]]] = variants_as_bugs(
    "github.com/hachikuji/kafka-specification",
    {
        variant: (
            Kip320(max_leader_epoch=2 if variant in _SECOND_CHANGE else 1),
            *((_SHOWN_BY_ONE[variant],) if variant in _SHOWN_BY_ONE else ("StrongIsr", "WeakIsr")),
        )
        for variant in (*variants.OLDER, *variants.ONE_RULE_CHANGED)
    },
)
"""By class name."""

"""What TLC 2.20 found on the published KIP-320 model; our explorer must find the same.

Sizes are (log size, max records, max leader epoch), with three replicas. Lengths of counterexamples are in states, None
where the invariant holds in every state.
"""

from __future__ import annotations

import attrs

from tidegauge.spec.published.kip320 import variants
from tidegauge.spec.published.kip320.machine import Kip320

LEVELS_2_2_1 = (
    *(1, 6, 30, 48, 180, 390, 720, 1218, 1893, 2634, 3426),
    *(4248, 4899, 5229, 4872, 4083, 2913, 1725, 762, 252, 78, 12),
)
"""New states on each level of Kip320 at 2, 2, 1."""


@attrs.frozen
class Space:
    """A whole state space."""

    variant: type[Kip320]
    size: tuple[int, int, int]
    distinct: int
    depth: int
    generated: int | None = None
    """As TLC counts: initial states too, and a guard's disjuncts one by one."""
    symmetric: bool = False

    def machine(self) -> Kip320:
        return at(self.variant, self.size)


def at(variant: type[Kip320], size: tuple[int, int, int]) -> Kip320:
    log_size, max_records, max_leader_epoch = size
    return variant(log_size=log_size, max_records=max_records, max_leader_epoch=max_leader_epoch)


SMALL_SPACES = (
    Space(variants.CountedAsByTlc, (2, 2, 1), 39_619, 22, 104_488),
    Space(variants.Kip101, (2, 2, 1), 59_788, 22),
    Space(variants.Kip279, (2, 2, 1), 60_106, 22),
    Space(variants.Kip320FirstTry, (2, 2, 1), 59_092, 22),
)
LARGE_SPACES = (
    Space(variants.CountedAsByTlc, (3, 3, 1), 176_440, 26, 504_736),
    Space(variants.CountedAsByTlc, (2, 2, 2), 737_794, 26, 1_967_560),
    Space(variants.CountedAsByTlc, (2, 3, 2), 1_694_476, 27, 4_617_910),
    Space(variants.CountedAsByTlc, (2, 2, 2), 123_311, 26, 328_998, symmetric=True),
    Space(variants.CountedAsByTlc, (3, 3, 2), 683_278, 31, 1_947_329, symmetric=True),
)


@attrs.frozen
class Shortest:
    """The shortest counterexamples to WeakIsr and StrongIsr."""

    variant: type[Kip320]
    size: tuple[int, int, int]
    weak_isr: int | None
    strong_isr: int | None

    def machine(self) -> Kip320:
        return at(self.variant, self.size)


_LENGTHS = (
    # variant, then WeakIsr and StrongIsr with epochs up to 1, and the same up to 2
    (Kip320, None, None, None, None),
    (variants.TruncateToHighWatermark, 9, 9, 9, 9),
    (variants.Kip101, None, 12, 11, 11),
    (variants.Kip279, None, 12, 11, 11),
    (variants.Kip320FirstTry, None, None, 12, 13),
    (variants.WithoutTruncationFence, None, None, 14, 14),
    (variants.WithoutFetchFence, None, None, 13, None),
    (variants.WithoutEpochInHighWatermark, None, None, 13, 13),
    (variants.HighWatermarkByMajority, 7, 7, 7, 7),
    (variants.ExpandWithoutHighWatermark, 9, 9, 9, 9),
    (variants.ExpandWithoutEpochStart, None, 12, 14, 12),
    (variants.ExpandWithoutEpoch, None, None, 15, 15),
    (variants.IsrWriteWithoutEpoch, 9, 10, 9, 9),
    (variants.WithoutTruncation, 10, 10, 10, 10),
    (variants.FencedTruncateToHighWatermark, 12, 12, 12, 12),
    (variants.UncleanElection, None, None, 12, 9),
    (variants.FencedKip101, None, None, 14, 14),
)

ONE_EPOCH_CHANGE = tuple(Shortest(variant, (2, 2, 1), weak, strong) for variant, weak, strong, _, _ in _LENGTHS)
TWO_EPOCH_CHANGES = (
    *(Shortest(variant, (2, 2, 2), weak, strong) for variant, _, _, weak, strong in _LENGTHS),
    Shortest(variants.FencedKip101, (2, 3, 2), 13, 13),
)

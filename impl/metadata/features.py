"""Features of the cluster: the levels that are supported, and the one in force (KIP-584, KIP-1022)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

TRANSACTION_VERSION: Final = "transaction.version"
"""0: as Kafka 3; 1: records of the transaction log have tags; 2: each transaction has an epoch of its own (KIP-890)."""

GROUP_VERSION: Final = "group.version"
"""1: consumer groups whose coordinator assigns (KIP-848); 0: groups of the classic protocol only."""


class Feature(NamedTuple):
    """A feature's levels; 0 is a feature that is off."""

    lowest: int
    highest: int
    default: int
    """In force in a cluster that never changed it."""
    is_changeable: bool = False


FEATURES: Final[Mapping[str, Feature]] = {
    "metadata.version": Feature(7, 30, 30),
    "kraft.version": Feature(0, 0, 0),
    "eligible.leader.replicas.version": Feature(0, 1, 1),
    TRANSACTION_VERSION: Feature(0, 2, 2, is_changeable=True),
    GROUP_VERSION: Feature(0, 1, 1, is_changeable=True),
}
"""Kafka 4.3's features, as far as they are true here. 30 is 4.3-IV0; kraft.version 0 is a quorum that does not change
its voters; of share groups and streams groups there is nothing yet."""

"""From which followers a consumer reads, as their leaders have told it (KIP-392).

A consumer that names its rack is told by the leader which follower to read from, and reads there until it is told
otherwise: by an error of that follower, by another leader, or by the age of what it was told. Then it asks the leader
again.
"""

from __future__ import annotations

from typing import NamedTuple

from tidegauge.impl.client.positions import Partition


class _Preferred(NamedTuple):
    broker: int
    leader_epoch: int
    """Of the leader that has said so."""
    until: float


class PreferredReplicas:
    """The followers that one consumer reads from; moments are seconds on a clock that does not go back."""

    def __init__(self, max_age_ms: float) -> None:
        """`max_age_ms` is `metadata.max.age.ms`."""
        self._max_age = max_age_ms / 1000
        self._preferred: dict[Partition, _Preferred] = {}

    def prefer(self, partition: Partition, broker: int, leader_epoch: int, now: float) -> None:
        """The leader of this epoch says so."""
        self._preferred[partition] = _Preferred(broker, leader_epoch, now + self._max_age)

    def broker(self, partition: Partition, leader_epoch: int, now: float) -> int | None:
        """Where to read; None for the leader, which has this epoch."""
        known = self._preferred.get(partition)
        if known is None or (known.leader_epoch == leader_epoch and now < known.until):
            return None if known is None else known.broker
        del self._preferred[partition]
        return None

    def forget(self, partition: Partition) -> None:
        """The leader is asked again."""
        self._preferred.pop(partition, None)

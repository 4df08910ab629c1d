"""What the cluster has agreed about a partition: the controller decides it, brokers learn it from the metadata log."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

NO_LEADER: Final = -1


@lru_cache(maxsize=4096)
def broker_ids(ids: tuple[int, ...]) -> frozenset[int]:
    """These brokers as a set, which partitions on the same brokers share."""
    return frozenset(ids)


class PartitionRegistration(NamedTuple):
    """A partition as the controller last committed it.

    `leader_epoch` grows by one at each change of leader (to none, too), `partition_epoch` at each change at all.
    `replicas` is in order of preference. `isr` is the committed ISR; `elr` (KIP-966) holds the replicas that left it
    while it was smaller than min.insync.replicas and that are known to hold every committed record.
    """

    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: frozenset[int]
    elr: frozenset[int] = frozenset()
    last_known_leader: int = NO_LEADER
    adding_replicas: tuple[int, ...] = ()
    """Of `replicas` those that a reassignment brings (KIP-455)."""
    removing_replicas: tuple[int, ...] = ()
    """Of `replicas` those that go once all others are in sync."""
    offline_replicas: frozenset[int] = frozenset()
    """Replicas whose log directory has failed; their brokers may be live all the same."""
    lost_replicas: frozenset[int] = frozenset()
    """Replicas that came back without their log, and have nothing yet."""

    @property
    def is_reassigned(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replica list once the reassignment that is under way is complete."""
        return tuple(replica for replica in self.replicas if replica not in self.removing_replicas)

"""What crashes may take of what was written and not synced, where a run promises that nothing committed is lost.

A log survives a machine that loses its end as long as another broker in sync has it. So a broker may lose something
where that is so of each of its partitions; and until it is in sync again, which it is when it has fetched all of it,
nothing happens to the others. Where crashes take whatever they like, unclean elections say what is gone.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import NodeName
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.model_tests.harness.simulation.options import Losses, Options


class LossBudget:
    """The losses of one run."""

    def __init__(self, cluster: Cluster, options: Options) -> None:
        self._cluster = cluster
        self._losses = options.losses
        self._lost: set[int] = set()
        """The broker that has lost something and is not back in sync."""

    def may_lose(self, broker: int) -> bool:
        """Whether a broker that dies now loses what it has not synced."""
        if self._losses is not Losses.SPARED:
            return self._losses is Losses.ANY
        if self._missing() - {broker} or not all(self._others_in_sync(broker)):
            return False
        self._lost.add(broker)
        return True

    def spares(self, *victims: NodeName) -> bool:
        """Whether nothing may happen to these nodes now: what another one has lost, they have."""
        return bool(missing := self._missing()) and not set(victims) <= missing

    def _missing(self) -> set[int]:
        if any(self._is_back(broker) for broker in self._lost):
            self._lost.clear()
        return self._lost

    def _is_back(self, broker: int) -> bool:
        return self._is_registered(broker) and all(broker in one.isr for one in self._of(broker))

    def _others_in_sync(self, broker: int) -> Iterator[bool]:
        """Of each of a broker's partitions, whether another broker that is up has what is committed."""
        for registration in self._of(broker):
            yield any(self._is_registered(other) for other in registration.isr - {broker})

    def _of(self, broker: int) -> Iterator[PartitionRegistration]:
        for topic in self._cluster.controller.controller.image.topics.values():
            yield from (one for one in topic.partitions.values() if broker in one.replicas)

    def _is_registered(self, broker: int) -> bool:
        """Whether it is up, and the controller knows its process: who was in sync may have been the one before."""
        return self._cluster.is_alive(broker) and self._cluster.broker(broker).registration.is_registered

"""Moments at which a fault does most: something is under way in the cluster that a fault can cut in two.

The injector looks at the cluster from outside, as an enemy who knows everything. Nodes notice nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TypeAlias

import trio

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.coordinators.transactions.metadata import PREPARED
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.harness.simulation.coordination import coordinated
from tidegauge.model_tests.harness.simulation.options import Options
from tidegauge.model_tests.harness.simulation.workload import TOPIC

LOOKS = 8
"""How often a wait looks at the cluster."""

Moment: TypeAlias = Callable[[int, list[PartitionReplica]], bool]
"""Whether it is there for a partition, of which some replicas are up."""


class Moments:
    """What is under way in the cluster of one run."""

    def __init__(self, cluster: Cluster, options: Options) -> None:
        self.cluster = cluster
        self.options = options
        self._moments: tuple[Moment, ...] = (
            self.a_proposal_is_open,
            self.a_follower_is_behind,
            self.two_lead,
            self.a_leader_is_fresh,
            self.the_isr_is_small,
        )
        if options.transactions:
            self._moments += (self.a_transaction_is_prepared, self.a_transaction_is_open)

    async def wait(self, rng: Random, seconds: float) -> None:
        """Until a moment that `rng` draws is there, for some partition; no longer than so many seconds."""
        moment = rng.choice(self._moments)
        for _ in range(LOOKS):
            if any(moment(partition, list(self._up(partition))) for partition in range(self.options.partitions)):
                return
            await trio.sleep(seconds / LOOKS)

    def leaders(self) -> list[int]:
        """The leaders of the partitions, as far as the controller knows them, and who coordinates transactions."""
        found = {self.cluster.leader(TOPIC, partition) for partition in range(self.options.partitions)}
        if self.options.transactions:
            found |= {broker for broker in range(self.options.brokers) if self._coordinates(broker)}
        return sorted(leader for leader in found if leader >= 0)

    def feeding(self) -> list[list[int]]:
        """Leaders, each with one of its followers in the ISR."""
        return [
            [leader, follower]
            for partition in range(self.options.partitions)
            if (leader := self.cluster.leader(TOPIC, partition)) >= 0
            for follower in self.cluster.isr(TOPIC, partition)
            if follower != leader
        ]

    def a_proposal_is_open(self, partition: int, replicas: list[PartitionReplica]) -> bool:
        return any(replica.pending_isr is not None for replica in replicas)

    def a_follower_is_behind(self, partition: int, replicas: list[PartitionReplica]) -> bool:
        return len({replica.log_end_offset for replica in replicas}) > 1

    def two_lead(self, partition: int, replicas: list[PartitionReplica]) -> bool:
        return sum(replica.is_leader for replica in replicas) > 1

    def a_leader_is_fresh(self, partition: int, replicas: list[PartitionReplica]) -> bool:
        """Its followers do not all know it yet, or its high watermark has not reached where its epoch begins."""
        return len({replica.leader_epoch for replica in replicas}) > 1

    def the_isr_is_small(self, partition: int, replicas: list[PartitionReplica]) -> bool:
        return len(self.cluster.isr(TOPIC, partition)) < len(self.cluster.replicas(TOPIC, partition))

    def a_transaction_is_prepared(self, partition: int, replicas: list[PartitionReplica]) -> bool:
        """Some marker is still to be written."""
        return any(
            known.status in PREPARED for broker in self._alive() for _, known in coordinated(self.cluster, broker)
        )

    def a_transaction_is_open(self, partition: int, replicas: list[PartitionReplica]) -> bool:
        return any(replica.log.producers.transactions.open for replica in replicas)

    def _alive(self) -> list[int]:
        return [broker for broker in range(self.options.brokers) if self.cluster.is_alive(broker)]

    def _coordinates(self, broker: int) -> bool:
        return broker in self._alive() and any(coordinated(self.cluster, broker))

    def _up(self, partition: int) -> Iterator[PartitionReplica]:
        for broker in range(self.options.brokers):
            if self.cluster.is_alive(broker):
                hosted = self.cluster.broker(broker).replicas.get(TOPIC, partition)
                if hosted is not None:
                    yield hosted.replica

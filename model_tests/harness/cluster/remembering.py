"""Replicas of a whole cluster whose logs remember producers with other rules than those of production."""

from __future__ import annotations

from tidegauge.impl.partition.messages import PartitionConfig
from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.producer_snapshot import ProducerSnapshots


def remembering(replica: type[PartitionReplica], states: type[ProducerStates]) -> type[PartitionReplica]:
    """The replica, over a log that remembers producers with `states`."""

    class Remembering(replica):  # type: ignore[valid-type, misc]
        def __init__(self, broker_id: int, log: Log, config: PartitionConfig, checkpoint: int = 0) -> None:
            before, log.producers = log.producers, states()
            log.observer = snapshots = ProducerSnapshots(log._disk, log, log.producers)
            snapshots.load()
            log.producers.forgot = before.forgot
            for producer_id in log.producers.entries.keys() - before.entries.keys():  # those had expired
                del log.producers.entries[producer_id]
            super().__init__(broker_id, log, config, checkpoint)

    return Remembering

"""A lock of a partition that is still there when the partition comes back."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.workers.machine import Workers
from tidegauge.spec.workers.state import NONE, Consumer


@attrs.frozen
class LocksOutlivePartitions(Workers):
    """The consumer forgets the partition, and not its lock."""

    def gone(self, consumer: Consumer) -> Consumer:
        return evolve(consumer, generation=NONE, gives_back=False)


BUG = Bug(
    name="lock_outlives_partition",
    title="a lock of a partition is still there when the partition comes back",
    reference="no version of Kafka, whose consumer has no workers; RocketMQ drops a queue with its lock",
    mechanism=(
        "A consumer is expelled while a worker is at a record, others process that one and more, and the partition "
        "comes back. The worker ends, has the lock still, and moves the position over a record that nobody processed."
    ),
    violates=("CommittedIsFinished",),
    buggy=LocksOutlivePartitions,
    model=Workers(workers=1, bounds=Bounds(Expel=2)),
)

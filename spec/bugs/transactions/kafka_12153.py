"""KAFKA-12153: a replica that cuts its log goes on from transactions that began in what is gone."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.state import Log, Memory, Partition


@attrs.frozen
class RemembersWhatWasCut(Transactions):
    """The log ends further down before the producers are looked at again."""

    def memory_after_cut(self, partition: Partition, log: Log) -> Memory:
        memory = super().memory_after_cut(partition, log)
        for entry in partition.memory.producers:
            if entry.open_from >= len(log):
                memory = memory.with_entry(entry)
        return memory


BUG = Bug(
    name="kafka_12153",
    title="a transaction that began in what was cut",
    reference="KAFKA-12153",
    mechanism=(
        "A replica cuts its log, and moves its end and its high watermark before its memory of producers. What it "
        "takes for the first unstable offset lies behind the end: Kafka's fetcher fails, and here the last stable "
        "offset waits for a transaction of which the log has nothing."
    ),
    violates=("ProducerStateMatchesLog",),
    buggy=RemembersWhatWasCut,
    model=Transactions(transactions=1, partitions=1, incarnations=1, bounds=Bounds(Elect=1)),
)

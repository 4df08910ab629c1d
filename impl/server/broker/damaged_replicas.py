"""Replicas whose logs the disk has damaged: repaired from their leader, or given up; and the one that has to lead on.

Theory of operation
-------------------
A log with damage has gaps that are not served (`impl.storage.damage`). What a broker does with such a replica depends
on who else has the records:

* It *leads and nobody else is in sync*: it leads on. What is intact is served and appended to; a read in a gap is
  refused with CORRUPT_MESSAGE.
* It *leads with others in sync*, or meets damage while it *follows*: it is withdrawn (`withdrawn_replicas`), so that
  nobody counts on it, and another leads. One whose repair fails, or which is damaged again and again, is given up. It
  is offline then until the broker starts again, or until the replica is taken away and given back.
* It *follows and is neither in the ISR nor eligible* (ELR): it is repaired. The log is cut before the first gap and
  fetched from the leader. One that led alone until another had caught up may be eligible: then it is withdrawn.

A segment of a compacted log may be missing where it cannot be told from what a cleaner has left out. A replica that
follows is repaired for that too; no other one is withdrawn for it, and readers go on behind what is missing.

A process that finds damage when it starts registers as one that did not stop cleanly (KIP-966), which takes it out of
every ISR and ELR. So a replica that is repaired can be elected only when it has caught up. Until the metadata show that
it is out of the ISR it does nothing. A repair needs an epoch that tells the fetches after it from those before: the
broker epoch of a new process (KIP-903), or the leader epoch that begins when a replica is taken away, or withdrawn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.registration import NO_LEADER, PartitionRegistration
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.partition import Partition, TopicPartition
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.impl.storage.errors import CorruptLogError

LOGGER: Final = logging.getLogger(__name__)


class DamagedReplicas:
    """What one broker does with replicas whose logs are damaged."""

    def __init__(
        self,
        broker_id: int,
        tracer: Tracer,
        withdraw: Callable[[Partition, str], None],
        give_up: Callable[[Partition, str], None],
    ) -> None:
        """`withdraw` ends the hosting of a replica until it may be repaired, `give_up` that of this process."""
        self._broker_id = broker_id
        self._tracer = tracer
        self._withdraw = withdraw
        self._give_up = give_up
        self._told: set[tuple[str, int, int]] = set()
        """Partitions and first offsets of gaps that were told of as refused."""

    def trace_start(self, partitions: Iterable[Partition], missing: Iterable[TopicPartition]) -> None:
        """Record the start of a process with these replicas, and what it has found damaged or missing before."""
        if self._tracer.trace is None:
            return
        hosted, missing = list(partitions), list(missing)
        found = [
            trace.events.DamagedLog(*one.key, max(start, one.log.log_start_offset), end)
            for one in hosted
            for end in (one.log.log_end_offset,)
            for first in (one.log.damage.first,)
            for start in (end if first is None else first.start,)
            if first is not None or one.log.recovery.may_end_early
        ]
        found += [trace.events.DamagedLog(*key, 0, 0, is_gone=True) for key in missing]
        is_suspect = bool(missing) or any(not one.log.recovery.lost_nothing for one in hosted)
        if found or is_suspect:  # what is damaged below a log's start is no part of it any more
            self._tracer.record(trace.events.DamageFound, damaged=tuple(found), is_suspect=is_suspect)
        for one in hosted:
            batches = trace.events.batches_from(one.log, one.log.log_start_offset)
            epoch = one.log.log_start_epoch
            opened = trace.events.Restart
            self._tracer.log(opened, *one.key, one.replica, batches, log_start_epoch=epoch, topic_id=one.topic_id)

    def may_apply(self, partition: Partition, registration: PartitionRegistration) -> bool:
        """Whether a replica may be what the registration makes of it; one that follows is repaired first."""
        log, leader, isr = partition.log, registration.leader, registration.isr
        counted_on = self._broker_id in isr or self._broker_id in registration.elr
        if log.damage.first is None or self._leads_alone(leader, isr):
            return True
        has_fetched = partition.replica.leader_epoch >= registration.leader_epoch
        if not counted_on and leader not in (NO_LEADER, self._broker_id) and not has_fetched:
            return self._repair(partition, leader)
        if partition.replica.leader_epoch < 0:
            return not counted_on  # the registration that takes it out of the ISR and the ELR is yet to be seen
        if leader == NO_LEADER or not log.damage:
            return True
        self._withdraw(partition, f"the log is damaged in {log.damage.gaps[0]}")
        return False

    def _leads_alone(self, leader: int, isr: frozenset[int]) -> bool:
        return leader == self._broker_id and isr <= {self._broker_id}

    def _repair(self, partition: Partition, leader: int) -> bool:
        replica, log = partition.replica, partition.log
        log_event(
            LOGGER,
            logging.WARNING,
            "replica repaired",
            partition=f"{partition.topic}-{partition.index}",
            leader=leader,
            why=str(log.damage.first),
            next="its log is cut before the damage and fetched from the leader; it is in sync when it has caught up",
        )
        try:
            log.damage.believe_doubts()
            log.repair()
        except (OSError, CorruptLogError) as error:
            self._give_up(partition, f"the repair of its log failed: {error}")
            return False
        replica.resign()
        replica.high_watermark = max(log.log_start_offset, min(replica.high_watermark, log.log_end_offset))
        if self._tracer.trace is not None:
            self._tracer.log(trace.events.RepairReplica, *partition.key, replica)
        return True

    def met_damage(self, partition: Partition, error: CorruptLogError) -> ErrorCode:
        """A read has met damage: the error for who reads."""
        if partition.is_gone:
            return ErrorCode.kafka_storage_error
        replica = partition.replica
        if not self._leads_alone(replica.leader, replica.maximal_isr):
            self._withdraw(partition, str(error))
            return ErrorCode.kafka_storage_error
        told = (*partition.key, getattr(error, "start", -1))
        if told not in self._told:
            self._told.add(told)
            log_event(
                LOGGER,
                logging.ERROR,
                "read refused",
                partition=f"{partition.topic}-{partition.index}",
                error="CORRUPT_MESSAGE",
                why=str(error),
                next="no other replica is in sync, so this one leads on; all but the damaged offsets is served",
            )
        return ErrorCode.corrupt_message

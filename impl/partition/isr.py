"""In-sync replicas: who must hold a record before it counts as committed.

A leader proposes, the controller decides. Between the two the leader counts the larger set of both for the high
watermark, so that it is right whatever the controller decides, and it proposes nothing else.

* Expand: a follower that has reached the high watermark *and* the start of this leader epoch. Without the latter a
  follower could join on a high watermark that this leader inherited and that lags behind what was committed
  (KAFKA-7128).
* Shrink: a follower that has not held all of the leader's log for replica.lag.time.max.ms.

Each proposal names the broker epoch under which the leader saw the member fetch, so that the controller can refuse one
that has restarted since, and may have lost its log's tail (KIP-903).
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.high_watermark import HighWatermark
from tidegauge.impl.partition.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrChanged,
    SendAlterPartition,
)
from tidegauge.impl.partition.registration import PartitionRegistration


class InSyncReplicas(HighWatermark):
    """The leader's part in changing the ISR."""

    def expand_isr(self, replica: int) -> None:
        """Propose that `replica` joins, if it may; at most one proposal is open at a time."""
        if replica not in self.isr and self.pending_isr is None and self.may_join_isr(replica):
            self._propose(self.isr | {replica})

    def may_join_isr(self, replica: int) -> bool:
        """Whether the follower holds all that may be committed."""
        end = self.known_log_end_offset(replica)
        return end >= self.high_watermark and end >= self.epoch_start_offset

    def shrink_isr(self, now_ms: int) -> bool:
        """Propose to drop the followers that lag, by `Clock.steady_ms`; True when something was proposed."""
        if not self.is_leader or self.pending_isr is not None:
            return False
        lagging = self.lagging_replicas(now_ms)
        if not lagging:
            return False
        self._propose(self.isr - lagging)
        return True

    def lagging_replicas(self, now_ms: int) -> frozenset[int]:
        """Members that are behind, and have been for longer than replica.lag.time.max.ms."""
        limit = now_ms - self.config.replica_lag_time_max_ms
        return frozenset(
            member
            for member in self.isr
            if member != self.broker_id
            and self.remote_replicas[member].log_end_offset < self.log_end_offset
            and self.remote_replicas[member].last_caught_up_ms < limit
        )

    def alter_partition_request(self, broker_epoch: int) -> AlterPartitionRequest | None:
        """The open proposal, to be sent until there is a response; None when there is none."""
        if self.pending_isr is None:  # as everywhere but where it leads
            return None
        return AlterPartitionRequest(
            broker_id=self.broker_id,
            broker_epoch=broker_epoch,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            isr=self.isr_with_broker_epochs(self.pending_isr, broker_epoch),
        )

    def isr_with_broker_epochs(self, isr: frozenset[int], broker_epoch: int) -> tuple[tuple[int, int], ...]:
        """Each member with the broker epoch of its last fetch; -1 for one that has not fetched in this epoch."""
        return tuple(
            (member, broker_epoch if member == self.broker_id else self.remote_replicas[member].broker_epoch)
            for member in sorted(isr)
        )

    def receive_alter_partition_response(
        self, request: AlterPartitionRequest, response: AlterPartitionResponse
    ) -> None:
        """Take over what the controller committed, or give up what it refused for good.

        A response to any other proposal than the open one, or from an older controller, says nothing. A proposal that
        was refused because it is out of date stays open until the metadata tell what has happened.
        """
        proposed = (request.leader_epoch, request.partition_epoch, request.members)
        if proposed != (self.leader_epoch, self.partition_epoch, self.pending_isr):
            return
        if response.controller_epoch < self.controller_epoch:
            return
        if response.error is ErrorCode.ineligible_replica:
            self.pending_isr = None
        elif response.error is ErrorCode.none and response.registration is not None:
            self._commit_isr(response.registration, response.controller_epoch)
        self.advance_high_watermark()

    def _propose(self, isr: frozenset[int]) -> None:
        self.pending_isr = isr
        self._effects.append(SendAlterPartition())

    def _commit_isr(self, registration: PartitionRegistration, controller_epoch: int) -> None:
        self.controller_epoch = controller_epoch
        self.partition_epoch = registration.partition_epoch
        self.isr = registration.isr
        self.pending_isr = None
        self._effects.append(IsrChanged(registration.isr))

"""AlterPartition: a leader proposes an ISR, the controller writes it or refuses it (KIP-497).

It is a conditional update. The proposal must come from the registered process of the broker that leads, in this very
leader epoch, and must have been made on the partition epoch that still holds; otherwise the leader has been overtaken
by an election or by another change and must learn of it first. A replica that is to be in the ISR must be live
(KIP-841), and be the process that the leader saw fetching (KIP-903): one that has restarted since may lack what it
fetched then.
"""

from __future__ import annotations

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.elections import Governed
from tidegauge.impl.controller.membership import Membership
from tidegauge.impl.partition.messages import UNKNOWN_BROKER_EPOCH, AlterPartitionRequest, AlterPartitionResponse
from tidegauge.impl.partition.registration import PartitionRegistration


class IsrChanges(Membership):
    """The controller's part in changing an ISR."""

    def alter_partition(self, topic: str, partition: int, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Write the proposed ISR or refuse it; the answer shows the partition as it now stands."""
        old = self.image.partition(topic, partition)
        if old is None:
            return AlterPartitionResponse(ErrorCode.unknown_topic_or_partition, self.controller_epoch)
        error = self.alter_partition_error(old, request)
        if error is ErrorCode.none:
            self._write_partition(topic, partition, old, self.with_isr(topic, old, request.members))
            self._commit()
        new = self.image.partition(topic, partition)
        if error is ErrorCode.none and new is not None and new.leader_epoch != request.leader_epoch:
            error = ErrorCode.new_leader_elected
        return AlterPartitionResponse(error, self.controller_epoch, new)

    def alter_partition_error(self, registration: PartitionRegistration, request: AlterPartitionRequest) -> ErrorCode:
        """Why the proposal can't be written; none when it can."""
        error = self.broker_error(request.broker_id, request.broker_epoch)
        if error is not ErrorCode.none:
            return ErrorCode.stale_broker_epoch
        if request.leader_epoch < registration.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if request.leader_epoch > registration.leader_epoch or request.broker_id != registration.leader:
            return ErrorCode.invalid_request
        if request.partition_epoch != registration.partition_epoch:
            return ErrorCode.invalid_update_version
        if not request.isr or not request.members.issubset(registration.replicas):
            return ErrorCode.invalid_request
        if request.members & registration.offline_replicas:
            return ErrorCode.ineligible_replica
        if not all(self.is_eligible_for_isr(broker_id, broker_epoch) for broker_id, broker_epoch in request.isr):
            return ErrorCode.ineligible_replica
        if any(map(self.image.is_shutting_down, request.members - registration.isr)):
            return ErrorCode.ineligible_replica
        return ErrorCode.none

    def is_eligible_for_isr(self, broker_id: int, broker_epoch: int) -> bool:
        """A live broker, and the very process that the leader means; -1 means whichever is registered."""
        if not self.image.is_unfenced(broker_id):
            return False
        return broker_epoch in (UNKNOWN_BROKER_EPOCH, self.image.brokers[broker_id].broker_epoch)

    def with_isr(self, topic: str, registration: PartitionRegistration, isr: frozenset[int]) -> Governed:
        """The partition with this ISR; who leaves it stays eligible to lead while it is too small.

        An ISR that has all of a reassignment's target completes it, and whoever waited to stop is relieved: either may
        take the leader's place from it, and nothing else here does.
        """
        departed = registration.isr - isr
        elr = self.elr_after(topic, registration, isr, registration.elr | departed)
        proposed = attrs.evolve(registration, isr=isr, elr=elr)
        settled = self.relieved(topic, self.completed(proposed))
        return Governed(proposed, unclean=False) if settled == proposed else self.with_leader(topic, settled)

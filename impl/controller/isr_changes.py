"""AlterPartition: a leader proposes an ISR, and the controller writes it or refuses it (KIP-497).

It is a conditional update. The proposal must come from the registered process of the broker that leads, in the current
leader epoch, and must be made on the current partition epoch. Otherwise an election or another change has overtaken the
leader, which must learn of it first. A replica that joins the ISR must be live (KIP-841), and be the process that the
leader saw fetching (KIP-903): a process that has restarted since may lack what the former one fetched.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.decision import Decision, LedPartition, Proposal
from tidegauge.impl.controller.elections import ElectionRules
from tidegauge.impl.controller.membership import broker_error
from tidegauge.impl.controller.replica_lists import ReplicaListRules
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.messages import UNKNOWN_BROKER_EPOCH, AlterPartitionRequest, AlterPartitionResponse
from tidegauge.impl.partition.registration import PartitionRegistration


class IsrRules:
    """Which ISRs the controller accepts, and what follows from one."""

    def __init__(self, elections: ElectionRules, replica_lists: ReplicaListRules) -> None:
        self.elections = elections
        self.replica_lists = replica_lists

    def error(
        self, image: ClusterImage, registration: PartitionRegistration, request: AlterPartitionRequest
    ) -> ErrorCode:
        """Why the proposal cannot be written; NONE when it can."""
        members = request.members
        if broker_error(image, request.broker_id, request.broker_epoch) is not ErrorCode.none:
            return ErrorCode.stale_broker_epoch
        if request.leader_epoch < registration.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if request.leader_epoch > registration.leader_epoch or request.broker_id != registration.leader:
            return ErrorCode.invalid_request
        if request.partition_epoch != registration.partition_epoch:
            return ErrorCode.invalid_update_version
        if not members or not members.issubset(registration.replicas):
            return ErrorCode.invalid_request
        if members & registration.offline_replicas:
            return ErrorCode.ineligible_replica
        for broker_id, broker_epoch in request.isr:
            if not self.is_eligible(image, broker_id, broker_epoch):
                return ErrorCode.ineligible_replica
        if any(map(image.is_shutting_down, members - registration.isr)):
            return ErrorCode.ineligible_replica
        return ErrorCode.none

    def is_eligible(self, image: ClusterImage, broker_id: int, broker_epoch: int) -> bool:
        """A member must be live, and the process that the leader names; -1 names the registered one."""
        broker = image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return False
        return broker_epoch in (UNKNOWN_BROKER_EPOCH, broker.broker_epoch)

    def with_isr(
        self, image: ClusterImage, topic: str, registration: PartitionRegistration, isr: frozenset[int]
    ) -> LedPartition:
        """The partition with this ISR; a replica that leaves it stays eligible while the ISR is too small.

        An ISR with all of a reassignment's target completes the reassignment, and lets brokers in controlled shutdown
        leave. Only these two can take the leader's place from it here.
        """
        departed = registration.isr - isr
        elr = self.elections.elr_after(image, topic, registration, isr, registration.elr | departed)
        proposed = registration._replace(isr=isr, elr=elr)
        settled = self.replica_lists.without_stopping(image, topic, self.replica_lists.completed(proposed))
        return LedPartition(proposed) if settled == proposed else self.elections.with_leader(image, topic, settled)


class IsrChanges:
    """Decides about the ISRs that leaders propose."""

    def __init__(self, image: ClusterImage, rules: IsrRules) -> None:
        self._image = image
        self._rules = rules

    def alter(self, topic: str, partition: int, request: AlterPartitionRequest) -> Proposal[AlterPartitionResponse]:
        """Write the proposed ISR or refuse it; the response shows the partition as it is then.

        Errors: UNKNOWN_TOPIC_OR_PARTITION, STALE_BROKER_EPOCH, FENCED_LEADER_EPOCH, INVALID_REQUEST,
        INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA, and NEW_LEADER_ELECTED when the ISR was written and has cost the
        leader its place.
        """
        decision = Decision(self._image)
        epoch = self._image.controller_epoch
        old = self._image.partition(topic, partition)
        if old is None:
            return decision.propose(AlterPartitionResponse(ErrorCode.unknown_topic_or_partition, epoch))
        new, error = old, self._rules.error(self._image, old, request)
        if error is ErrorCode.none:
            changed = self._rules.with_isr(self._image, topic, old, request.members)
            decision.change_partition(topic, partition, changed)
            new = decision.image.topics[topic].partitions[partition]
            if new.leader_epoch != request.leader_epoch:
                error = ErrorCode.new_leader_elected
        return decision.propose(AlterPartitionResponse(error, epoch, new))

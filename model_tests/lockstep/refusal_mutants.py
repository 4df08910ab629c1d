"""Mutants of the cores, each with one refusal removed: what would happen if nobody checked."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.config import ControllerConfig
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.decision import Decision, LedPartition, Proposal
from tidegauge.impl.controller.isr_changes import IsrRules
from tidegauge.impl.controller.membership import Contact, HeartbeatResponse, Membership, RegistrationRules
from tidegauge.impl.controller.replica_lists import ReplicaListRules
from tidegauge.impl.controller.requested_elections import RequestedElections
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from tidegauge.impl.partition.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    FollowerFetch,
    PartitionFetchResponse,
)
from tidegauge.impl.partition.producer_state import BatchMetadata, ProducerStates
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.partition.state import RemoteReplica
from tidegauge.impl.records.batches import BatchHeader, RecordError
from tidegauge.model_tests.harness.cores.replication import Roles

# --- the leader ------------------------------------------------------------------------------------------------------


def appends_despite(error: ErrorCode) -> Roles:
    class Appends(PartitionReplica):
        def append_error(self, acks: int) -> ErrorCode:
            found = super().append_error(acks)
            return ErrorCode.none if found is error else found

    return Roles(replica=Appends)


def serves_fetches_despite(error: ErrorCode) -> Roles:
    class Serves(PartitionReplica):
        def fetch_error(self, fetch: FollowerFetch) -> ErrorCode:
            found = super().fetch_error(fetch)
            return ErrorCode.none if found is error and self.is_leader else found

    return Roles(replica=Serves)


class ServesFormerProcesses(PartitionReplica):
    def fetch_error(self, fetch: FollowerFetch) -> ErrorCode:
        remote = self.remote_replicas.get(fetch.replica_id)
        newest = fetch.broker_epoch if remote is None else max(fetch.broker_epoch, remote.broker_epoch)
        return super().fetch_error(fetch._replace(broker_epoch=newest))


class ServesEveryone(PartitionReplica):
    def fetch_error(self, fetch: FollowerFetch) -> ErrorCode:
        if self.is_leader:
            self.remote_replicas.setdefault(fetch.replica_id, RemoteReplica())
        return super().fetch_error(fetch)


class DeletesWhatIsNotCommitted(PartitionReplica):
    def deletion_limit(self) -> int:
        return self.log_end_offset


class DeletesAsFollower(PartitionReplica):
    def offset_to_delete(self, offset: int) -> int | ErrorCode:
        if self.is_leader or not 0 <= offset <= self.deletion_limit():
            return super().offset_to_delete(offset)
        return offset


class TakesResponsesOfOlderControllers(PartitionReplica):
    def receive_alter_partition_response(
        self, request: AlterPartitionRequest, response: AlterPartitionResponse
    ) -> None:
        newest = max(self.controller_epoch, response.controller_epoch)
        super().receive_alter_partition_response(request, response._replace(controller_epoch=newest))


class TakesResponsesToOtherProposals(PartitionReplica):
    def receive_alter_partition_response(
        self, request: AlterPartitionRequest, response: AlterPartitionResponse
    ) -> None:
        current = request._replace(leader_epoch=self.leader_epoch, partition_epoch=self.partition_epoch)
        super().receive_alter_partition_response(current, response)


class TakesLateFetchResponses(PartitionReplica):
    def receive_fetch_response(self, fetch: FollowerFetch, response: PartitionFetchResponse, now_ms: int) -> bool:
        current = fetch._replace(leader_epoch=self.leader_epoch, fetch_offset=self.log_end_offset)
        return super().receive_fetch_response(current, response, now_ms)


# --- the controller --------------------------------------------------------------------------------------------------


def writes_isr_despite(error: ErrorCode) -> Roles:
    class Rules(IsrRules):
        def error(
            self, image: ClusterImage, registration: PartitionRegistration, request: AlterPartitionRequest
        ) -> ErrorCode:
            found = super().error(image, registration, request)
            return ErrorCode.none if found is error else found

    return controlled_by(isr_rules=Rules)


class AnyProcessIsEligible(IsrRules):
    def is_eligible(self, image: ClusterImage, broker_id: int, broker_epoch: int) -> bool:
        return image.is_unfenced(broker_id)


class FencedBrokersAreEligible(IsrRules):
    def is_eligible(self, image: ClusterImage, broker_id: int, broker_epoch: int) -> bool:
        return broker_epoch in (-1, image.brokers[broker_id].broker_epoch)


class WritesIsrOfAnySender(IsrRules):
    def error(
        self, image: ClusterImage, registration: PartitionRegistration, request: AlterPartitionRequest
    ) -> ErrorCode:
        registered = image.brokers[registration.leader] if registration.leader >= 0 else None
        if registered is None:
            return super().error(image, registration, request)
        sender = request._replace(broker_id=registration.leader, broker_epoch=registered.broker_epoch)
        return super().error(image, registration, sender)


class ElectsWhoIsNotInSync(RequestedElections):
    def elect_preferred(self, topic: str, partition: int) -> Proposal[ErrorCode]:
        decision, old = Decision(self._image), self._image.partition(topic, partition)
        assert old is not None
        if old.leader == old.replicas[0]:
            return super().elect_preferred(topic, partition)
        decision.change_partition(topic, partition, LedPartition(self._rules.led_by(old, old.replicas[0])))
        return decision.propose(ErrorCode.none)


class ElectsPreferredAgain(RequestedElections):
    def elect_preferred(self, topic: str, partition: int) -> Proposal[ErrorCode]:
        found = super().elect_preferred(topic, partition)
        return found._replace(response=ErrorCode.none) if found.response is ErrorCode.election_not_needed else found


class ElectsUncleanlyBesideLeader(RequestedElections):
    def elect_uncleanly(self, topic: str, partition: int) -> Proposal[ErrorCode]:
        decision, old = Decision(self._image), self._image.partition(topic, partition)
        assert old is not None
        live = [b for b in old.replicas if self._image.is_active(b) and b != old.leader]
        if old.leader < 0 or not live:
            return super().elect_uncleanly(topic, partition)
        led = self._rules.led_by(old, live[0])._replace(isr=frozenset(live[:1]))
        decision.change_partition(topic, partition, LedPartition(led, unclean=True))
        return decision.propose(ErrorCode.none)


class ElectsFencedBrokers(RequestedElections):
    def elect_uncleanly(self, topic: str, partition: int) -> Proposal[ErrorCode]:
        found = super().elect_uncleanly(topic, partition)
        if found.response is not ErrorCode.eligible_leaders_not_available:
            return found
        decision, old = Decision(self._image), self._image.partition(topic, partition)
        assert old is not None
        led = self._rules.led_by(old, old.replicas[0])._replace(isr=frozenset(old.replicas[:1]))
        decision.change_partition(topic, partition, LedPartition(led, unclean=True))
        return decision.propose(ErrorCode.none)


class TakesHeartbeatsOfFormerProcesses(Membership):
    def heartbeat(
        self, broker_id: int, broker_epoch: int, metadata_offset: int, now_ms: int, **wishes: Any
    ) -> Proposal[HeartbeatResponse]:
        known = self._image.brokers.get(broker_id)
        registered = broker_epoch if known is None else known.broker_epoch
        return super().heartbeat(broker_id, registered, metadata_offset, now_ms, **wishes)


class TakesHeartbeatsOfUnknownBrokers(Membership):
    def heartbeat(
        self, broker_id: int, broker_epoch: int, metadata_offset: int, now_ms: int, **wishes: Any
    ) -> Proposal[HeartbeatResponse]:
        if broker_id not in self._image.brokers:
            return Decision(self._image).propose(HeartbeatResponse(ErrorCode.none))
        return super().heartbeat(broker_id, broker_epoch, metadata_offset, now_ms, **wishes)


class UnfencesBeforeCatchUp(Membership):
    def heartbeat(
        self, broker_id: int, broker_epoch: int, metadata_offset: int, now_ms: int, **wishes: Any
    ) -> Proposal[HeartbeatResponse]:
        return super().heartbeat(broker_id, broker_epoch, self._image.offset, now_ms, **wishes)


class UnfencesWhoMayStop(Membership):
    def _unfence(self, decision: Decision, broker_id: int) -> None:
        broker = decision.image.brokers[broker_id]
        decision.write(BrokerRegistrationChangeRecord(broker_id, broker.broker_epoch, fenced=False))
        super()._unfence(decision, broker_id)


class NobodyMustKeepRunning(RegistrationRules):
    def must_keep_running(self, image: ClusterImage, broker_id: int) -> bool:
        return False


class LetsAnyProcessIn(RegistrationRules):
    def is_duplicate(self, image: ClusterImage, process: RegisterBrokerRecord, contact: Contact) -> bool:
        return False


class CancelsAlways(ReplicaListRules):
    def may_cancel(self, image: ClusterImage, topic: str, registration: PartitionRegistration) -> bool:
        return True


def controlled_by(**rules: type[Any]) -> Roles:
    """A controller with other rules."""
    return Roles(controller=type("Mutant", (Controller,), rules))


def members_of(kind: type[Membership]) -> Roles:
    class Mutant(Controller):
        def __init__(self, node_id: int, config: ControllerConfig, image: ClusterImage | None = None) -> None:
            super().__init__(node_id, config, image)
            self.members = kind(self.image, self.members._rules, self.directories, config)

    return Roles(controller=Mutant)


def elections_of(kind: type[RequestedElections]) -> Roles:
    class Mutant(Controller):
        def __init__(self, node_id: int, config: ControllerConfig, image: ClusterImage | None = None) -> None:
            super().__init__(node_id, config, image)
            self.elections = kind(self.image, self.elections._rules)

    return Roles(controller=Mutant)


# --- idempotence -----------------------------------------------------------------------------------------------------


class RemembersNoBatch(ProducerStates):
    def repeated(self, header: BatchHeader) -> BatchMetadata | None:
        return None


def admits_despite(error: ErrorCode) -> Roles:
    class Admits(ProducerStates):
        def sequence_error(self, header: BatchHeader, before: BatchHeader | None = None) -> RecordError | None:
            found = super().sequence_error(header, before)
            return None if found is not None and found.error_code is error else found

    return Roles(producers=Admits)


# --- all of them -----------------------------------------------------------------------------------------------------

MUTANTS: dict[str, tuple[str, Roles]] = {
    "append at a follower": ("replication", appends_despite(ErrorCode.not_leader_or_follower)),
    "append below min ISR": ("replication", appends_despite(ErrorCode.not_enough_replicas)),
    "fetch of an older leader epoch": ("replication", serves_fetches_despite(ErrorCode.fenced_leader_epoch)),
    "fetch of a later leader epoch": ("replication", serves_fetches_despite(ErrorCode.unknown_leader_epoch)),
    "fetch of a former process": ("replication", Roles(replica=ServesFormerProcesses)),
    "fetch of no replica": ("replication", Roles(replica=ServesEveryone)),
    "late fetch response": ("replication", Roles(replica=TakesLateFetchResponses)),
    "response of an older controller": ("replication", Roles(replica=TakesResponsesOfOlderControllers)),
    "response to another proposal": ("replication", Roles(replica=TakesResponsesToOtherProposals)),
    "proposal of a former process": ("replication", writes_isr_despite(ErrorCode.stale_broker_epoch)),
    "proposal of an older leader epoch": ("replication", writes_isr_despite(ErrorCode.fenced_leader_epoch)),
    "proposal of a later leader epoch": ("replication", writes_isr_despite(ErrorCode.invalid_request)),
    "proposal on another partition epoch": (
        "replication",
        writes_isr_despite(ErrorCode.invalid_update_version),
    ),
    "proposal of no leader": ("replication", controlled_by(isr_rules=WritesIsrOfAnySender)),
    "proposal with an ineligible replica": ("replication", writes_isr_despite(ErrorCode.ineligible_replica)),
    "proposal with a fenced broker": (
        "replication",
        controlled_by(isr_rules=FencedBrokersAreEligible),
    ),
    "proposal with another process": ("replication", controlled_by(isr_rules=AnyProcessIsEligible)),
    "preferred election of who is not in sync": ("replication", elections_of(ElectsWhoIsNotInSync)),
    "preferred election of who leads": ("replication", elections_of(ElectsPreferredAgain)),
    "unclean election beside a leader": ("replication", elections_of(ElectsUncleanlyBesideLeader)),
    "unclean election without live brokers": ("replication", elections_of(ElectsFencedBrokers)),
    "heartbeat of a former process": ("replication", members_of(TakesHeartbeatsOfFormerProcesses)),
    "heartbeat of an unknown broker": ("replication", members_of(TakesHeartbeatsOfUnknownBrokers)),
    "heartbeat before catch-up": ("replication", members_of(UnfencesBeforeCatchUp)),
    "heartbeat of who may stop": ("controlled-shutdown", members_of(UnfencesWhoMayStop)),
    "registration beside a process that lives": (
        "replication",
        controlled_by(registration_rules=LetsAnyProcessIn),
    ),
    "deletion above the high watermark": ("retention", Roles(replica=DeletesWhatIsNotCommitted)),
    "deletion at a follower": ("retention", Roles(replica=DeletesAsFollower)),
    "cancellation that leaves nobody": (
        "reassignment",
        controlled_by(replica_list_rules=CancelsAlways),
    ),
    "repeated batch": ("idempotence", Roles(producers=RemembersNoBatch)),
    "batch out of order": ("idempotence", admits_despite(ErrorCode.out_of_order_sequence_number)),
    "batch of a former producer epoch": ("idempotence", admits_despite(ErrorCode.invalid_producer_epoch)),
}
"""Refusal -> the machine that has it, and the cores without it."""

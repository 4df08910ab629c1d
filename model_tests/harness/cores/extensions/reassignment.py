"""The cores beside the machine of reassignments: replica lists that change, replicas that come and go.

A broker that has a replica has a log and a `PartitionReplica`; one that has none has neither, and remembers what it was
told. Hosting and deleting are the broker's shell's part (`impl.server.broker.hosted_partitions`), which is the harness
here.
"""

from __future__ import annotations

from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.records import MetadataRecord, PartitionRecord
from tidegauge.impl.partition.messages import PartitionFetchResponse
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.model_tests.harness.cores import abstraction, steps
from tidegauge.model_tests.harness.cores.message_parts import Additions
from tidegauge.model_tests.harness.cores.refusals import REFUSALS
from tidegauge.model_tests.harness.cores.replication import CORRECT, NOTHING, PARTITION, TOPIC, Broker, Cores, Roles
from tidegauge.model_tests.harness.cores.steps import ReplicationCores
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import parts_of, with_part
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.extensions.reassignment import (
    Assignment,
    CancelReassignment,
    ReplicaList,
    StartReassignment,
    assigned,
)
from tidegauge.spec.replication.machine import Replication


def refuse_to_reassign(cores: Cores, action: StartReassignment) -> ErrorCode:
    return cores.commit(cores.controller.reassignments.reassign(TOPIC, PARTITION, action.target)).error


def refuse_to_cancel(cores: Cores, action: CancelReassignment) -> ErrorCode:
    return cores.commit(cores.controller.reassignments.cancel(TOPIC, PARTITION)).error


def with_lists(controller: spec.Controller, registration: PartitionRegistration) -> spec.Controller:
    """With the replica lists."""
    assignment = Assignment(registration.replicas, registration.adding_replicas, registration.removing_replicas)
    return with_part(controller, assignment)


class ReassignmentCores(ReplicationCores):
    """Brokers, controller and messages, where not every broker has a replica."""

    refusals = Steps[Cores, [], ErrorCode | None](
        on(StartReassignment, refuse_to_reassign), on(CancelReassignment, refuse_to_cancel), over=REFUSALS
    )

    def __init__(self, machine: Replication, roles: Roles = CORRECT, additions: Additions = NOTHING) -> None:
        self.down: set[int] = set()
        (initial,) = machine.initial()
        self._initial = initial.controller
        super().__init__(machine, roles, additions)

    def _founding_records(self) -> list[MetadataRecord]:
        first = self._initial
        return [
            record._replace(replicas=assigned(first), isr=first.isr, leader=first.leader)
            if isinstance(record, PartitionRecord) and record.topic == TOPIC
            else record
            for record in super()._founding_records()
        ]

    def told(self, number: int) -> PartitionRegistration | None:
        """What the broker last read of the partition."""
        return self.brokers[number].image.partition(TOPIC, PARTITION)

    def apply_metadata(self, number: int) -> None:
        broker = self.brokers[number]
        records = broker.pulled.records if broker.pulled else self.metadata_log.read(broker.image.offset)
        image = broker.image
        image.replay(records)
        broker.pulled, broker.seen = None, None
        registration = self.told(number)
        assert registration is not None
        if number not in registration.replicas:
            self.delete_replica(number)
            return
        if broker.replica is None:
            self.start_replica(number)
        self.replica(number).apply_metadata(registration, image.controller_epoch, self.now_ms)
        self.carry_out_effects(number)

    def delete_replica(self, number: int) -> None:
        """The log and its checkpoint are gone, and so are the fetches that waited for a response."""
        broker = self.brokers[number]
        broker.replica, broker.log, broker.checkpoint = None, self.roles.log(), 0
        broker.outstanding = {}
        broker.seen = None
        for value, (leader, _) in list(self.waiting.items()):
            if leader == number:
                del self.waiting[value]

    def send_refusal(self, request: spec.FetchRequest) -> None:
        """The response of a broker without a replica to a fetch: it is no leader."""
        unheard = self.told(request.leader) is None
        error = ErrorCode.unknown_leader_epoch if unheard else ErrorCode.not_leader_or_follower
        refusal = PartitionFetchResponse(error)
        if request in self.brokers[request.follower].outstanding:
            self.fetch_responses[abstraction.fetch_response(request, refusal, (), self.additions)] = refusal

    # --- as the specification sees it ----------------------------------------------------------------------------

    def _abstract_controller(self, expected: spec.Controller) -> spec.Controller:
        seen = super()._abstract_controller(with_part(expected, Assignment()))
        return with_lists(seen, self.registration)

    def _look_at_replica(self, number: int, broker: Broker) -> spec.Replica:
        registration = self.told(number)
        pulled = broker.pulled.word if broker.pulled else None
        if broker.replica is not None:
            seen = super()._look_at_replica(number, broker)
            return attrs.evolve(with_part(seen, ReplicaList(broker.replica.replicas)), pulled=pulled)
        if number in self.down:
            return super()._look_at_replica(number, broker)
        if registration is None:
            return spec.Replica(
                paused=broker.paused,
                broker_epoch=self.epochs.number(number, broker.broker_epoch),
                outstanding=spec.in_order(broker.outstanding),
                pulled=pulled,
            )
        return spec.Replica(
            paused=broker.paused,
            broker_epoch=self.epochs.number(number, broker.broker_epoch),
            controller_epoch=broker.image.controller_epoch,
            leader_epoch=registration.leader_epoch,
            partition_epoch=registration.partition_epoch,
            parts=parts_of(ReplicaList(registration.replicas)),
            pulled=pulled,
        )

    def pull_metadata(self, number: int) -> None:
        super().pull_metadata(number)
        pulled = self.brokers[number].pulled
        assert pulled is not None
        word = with_part(pulled.word, ReplicaList(self.registration.replicas))
        self.brokers[number].pulled = attrs.evolve(pulled, word=word)

    def step(self, action: Action) -> None:
        STEPS.perform(self, action)


def start_reassignment(cores: ReassignmentCores, action: StartReassignment) -> None:
    refusal = cores.commit(cores.controller.reassignments.reassign(TOPIC, PARTITION, action.target))
    assert not refusal.message, refusal.message


def cancel_reassignment(cores: ReassignmentCores, action: CancelReassignment) -> None:
    refusal = cores.commit(cores.controller.reassignments.cancel(TOPIC, PARTITION))
    assert not refusal.message, refusal.message


def receive_fetch(cores: ReassignmentCores, action: protocol.ReceiveFetch) -> None:
    if cores.brokers[action.request.leader].replica is not None:
        steps.receive_fetch(cores, action)
        return
    if not action.duplicate:
        del cores.fetches[action.request]
    cores.send_refusal(action.request)


def receive_fetch_response(cores: ReassignmentCores, action: protocol.ReceiveFetchResponse) -> None:
    if cores.brokers[action.response.request.follower].replica is None:
        del cores.fetch_responses[action.response]
    else:
        steps.receive_fetch_response(cores, action)


def receive_alter_partition_response(cores: ReassignmentCores, action: control.ReceiveAlterPartitionResponse) -> None:
    if cores.brokers[action.response.leader].replica is None:
        del cores.alter_responses[action.response]
    else:
        steps.receive_alter_partition_response(cores, action)


def crash(cores: ReassignmentCores, action: faults.Crash) -> None:
    steps.crash(cores, action)
    cores.down.add(action.broker)


def restart(cores: ReassignmentCores, action: faults.Restart) -> None:
    steps.restart(cores, action)
    cores.down.discard(action.broker)


STEPS: Final = Steps[ReassignmentCores, [], None](
    on(StartReassignment, start_reassignment),
    on(CancelReassignment, cancel_reassignment),
    on(protocol.ReceiveFetch, receive_fetch),
    on(protocol.ReceiveFetchResponse, receive_fetch_response),
    on(control.ReceiveAlterPartitionResponse, receive_alter_partition_response),
    on(faults.Crash, crash),
    on(faults.Restart, restart),
    over=steps.STEPS,
)

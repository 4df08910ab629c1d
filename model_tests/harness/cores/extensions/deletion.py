"""The cores beside the machine of topics that are deleted and created again.

The controller's core knows the topic no more. What the specification says of a deleted partition (its last epochs, and
that nobody has it) is remembered here. Requests name topics by id, which the shell looks up in the metadata; the shell
is the harness here, and so no core can be sent a message for the former topic. That a former log is not the new topic's
is the shell's part as well (`impl.storage.log_directory`).
"""

from __future__ import annotations

from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.messages import AlterPartitionResponse, PartitionFetchResponse
from tidegauge.impl.partition.registration import NO_LEADER, PartitionRegistration
from tidegauge.model_tests.harness.cores import abstraction, refusals, steps
from tidegauge.model_tests.harness.cores.extensions import reassignment
from tidegauge.model_tests.harness.cores.extensions.reassignment import ReassignmentCores
from tidegauge.model_tests.harness.cores.message_parts import Additions
from tidegauge.model_tests.harness.cores.replication import CORRECT, NOTHING, PARTITION, TOPIC, Broker, Cores, Roles
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.extensions.deletion import Deleted, DeleteTopic, Deletion, FormerLog
from tidegauge.spec.replication.extensions.reassignment import StartReassignment
from tidegauge.spec.replication.machine import Replication


def gone(registration: PartitionRegistration) -> PartitionRegistration:
    """A partition whose topic is deleted: it is nobody's, one partition epoch on."""
    return PartitionRegistration(
        (), NO_LEADER, registration.leader_epoch, registration.partition_epoch + 1, frozenset()
    )


def by_id(error: ErrorCode) -> ErrorCode:
    """The error of a request that names a topic's id, where the core was asked by the name."""
    return ErrorCode.unknown_topic_id if error is ErrorCode.unknown_topic_or_partition else error


def refuse_to_delete_topic(cores: Cores, action: DeleteTopic) -> ErrorCode:
    return cores.commit(cores.controller.topics.delete(TOPIC))


def refuse_receive_fetch(cores: Cores, action: protocol.ReceiveFetch) -> ErrorCode | None:
    """No core responds for a topic that its broker does not know."""
    assert isinstance(cores, DeletionCores)
    return None if cores.knows_no_such_id(action.request.leader) else refusals.receive_fetch(cores, action)


def refuse_receive_alter_partition(cores: Cores, action: control.ReceiveAlterPartition) -> ErrorCode:
    return by_id(refusals.receive_alter_partition(cores, action))


class DeletionCores(ReassignmentCores):
    """Brokers, controller and messages, where the topic may be deleted, and may have had a predecessor of its name."""

    refusals = Steps[Cores, [], ErrorCode | None](
        on(DeleteTopic, refuse_to_delete_topic),
        on(protocol.ReceiveFetch, refuse_receive_fetch),
        on(control.ReceiveAlterPartition, refuse_receive_alter_partition),
        over=ReassignmentCores.refusals,
    )

    def __init__(self, machine: Replication, roles: Roles = CORRECT, additions: Additions = NOTHING) -> None:
        self.gone: PartitionRegistration | None = None
        """The partition as the controller left it."""
        self.deleted_at = 0
        """The offset of that decision."""
        self.former: dict[int, spec.Log] = {}
        """What brokers have of the topic before this one, of the same name."""
        super().__init__(machine, roles, additions)
        (initial,) = machine.initial()
        self.next_value = len(initial.history.acks)
        for number in Deletion.of(machine).former:
            broker = self.brokers[number]
            self.former[number] = FormerLog.of(initial.replicas[number]).log
            broker.replica, broker.image, broker.seen = None, ClusterImage(), None
            self.fetches.clear()

    @property
    def registration(self) -> PartitionRegistration:
        return super().registration if self.gone is None else self.gone

    def told(self, number: int) -> PartitionRegistration | None:
        return self.gone if self.knows_of_deletion(number) else super().told(number)

    def knows_of_deletion(self, number: int) -> bool:
        return self.gone is not None and self.brokers[number].image.offset > self.deleted_at

    def knows_no_such_id(self, number: int) -> bool:
        """Whether the broker has another topic of the name, or has read that this one is gone."""
        return number in self.former or self.knows_of_deletion(number)

    def apply_metadata(self, number: int) -> None:
        """What a former topic has left goes before the new one counts."""
        if self.former.pop(number, ()):
            self.delete_replica(number)
        super().apply_metadata(number)

    def pull_metadata(self, number: int) -> None:
        super().pull_metadata(number)
        pulled = self.brokers[number].pulled
        if self.gone is not None and pulled is not None:
            word = with_part(pulled.word, Deleted(is_deleted=True))
            self.brokers[number].pulled = attrs.evolve(pulled, word=word)

    def send_refusal(self, request: spec.FetchRequest) -> None:
        if not self.knows_no_such_id(request.leader):
            super().send_refusal(request)
        elif request in self.brokers[request.follower].outstanding:
            refusal = PartitionFetchResponse(ErrorCode.unknown_topic_id)
            self.fetch_responses[abstraction.fetch_response(request, refusal, (), self.additions)] = refusal

    # --- as the specification sees it ----------------------------------------------------------------------------

    def _abstract_controller(self, expected: spec.Controller) -> spec.Controller:
        seen = super()._abstract_controller(expected)
        return with_part(seen, Deleted(is_deleted=TOPIC not in self.controller.image.topics))

    def _look_at_replica(self, number: int, broker: Broker) -> spec.Replica:
        seen = super()._look_at_replica(number, broker)
        if number in self.former:
            seen = with_part(seen, FormerLog(self.former[number]))
        if broker.replica is None and number not in self.down and self.knows_of_deletion(number):
            seen = with_part(seen, Deleted(is_deleted=True))
        return seen

    def step(self, action: Action) -> None:
        STEPS.perform(self, action)


def delete_topic(cores: DeletionCores, action: DeleteTopic) -> None:
    cores.deleted_at, left = cores.metadata_log.end_offset, gone(cores.registration)
    error = cores.commit(cores.controller.topics.delete(TOPIC))
    assert error is ErrorCode.none, error.name
    cores.gone = left


def start_reassignment(cores: DeletionCores, action: StartReassignment) -> None:
    """Whatever is asked of a deleted partition, it stays as it is."""
    if cores.gone is None:
        reassignment.start_reassignment(cores, action)
        return
    refused = cores.commit(cores.controller.reassignments.reassign(TOPIC, PARTITION, action.target))
    assert refused.error is ErrorCode.unknown_topic_or_partition, refused


def receive_fetch(cores: DeletionCores, action: protocol.ReceiveFetch) -> None:
    if not cores.knows_no_such_id(action.request.leader):
        reassignment.receive_fetch(cores, action)
        return
    if not action.duplicate:
        del cores.fetches[action.request]
    cores.send_refusal(action.request)


def receive_alter_partition(cores: DeletionCores, action: control.ReceiveAlterPartition) -> None:
    """The response of a controller that does not know the topic says nothing of the partition."""
    if cores.gone is None:
        steps.receive_alter_partition(cores, action)
        return
    request = cores.alters.pop(action.request)
    told = cores.commit(cores.controller.isr_changes.alter(TOPIC, PARTITION, request))
    seen = AlterPartitionResponse(by_id(told.error), told.controller_epoch, cores.gone)
    response = AlterPartitionResponse(by_id(told.error), told.controller_epoch, told.registration)
    cores.alter_responses[abstraction.alter_partition_response(request, seen)] = (request, response)


STEPS: Final = Steps[DeletionCores, [], None](
    on(DeleteTopic, delete_topic),
    on(StartReassignment, start_reassignment),
    on(protocol.ReceiveFetch, receive_fetch),
    on(control.ReceiveAlterPartition, receive_alter_partition),
    over=reassignment.STEPS,
)

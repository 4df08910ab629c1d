"""A controller's core beside the machine of administration: each request is asked, and only checked before that.

The id of the k-th topic is `id-k`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.config import DEFAULT_CONTROLLER_ID, ControllerConfig
from tidegauge.impl.controller.configs import ConfigChange
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.decision import Proposal
from tidegauge.impl.controller.features import UPGRADE, FeatureUpdate
from tidegauge.impl.controller.producer_ids import LAST_PRODUCER_ID, ProducerIdsBlock
from tidegauge.impl.metadata.config_resources import AlterOperation, ConfigResourceType
from tidegauge.impl.metadata.features import FEATURES, TRANSACTION_VERSION
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import ProducerIdsRecord, RegisterBrokerRecord
from tidegauge.impl.partition.messages import AlterPartitionRequest
from tidegauge.impl.server.settings.server_config import DYNAMIC_CONFIGS
from tidegauge.model_tests.harness.cores.administration_abstraction import (
    BLOCK,
    MetadataOfController,
    name_of,
    resource_of,
)
from tidegauge.model_tests.harness.cores.metadata_log import MemoryMetadataLog
from tidegauge.model_tests.harness.cores.replication import CORRECT, Roles
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.administration import altering, brokers, replicas, requests, topics
from tidegauge.spec.administration.machine import Administration
from tidegauge.spec.administration.settings import MIN_INSYNC
from tidegauge.spec.administration.state import State
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.machine import Action

SAFE_DOWNGRADE: Final = 2
"""Kafka's number (KIP-584)."""


class AdministrationCores(MetadataOfController):
    """A controller whose log commits at once, and brokers that are registered from the start."""

    def __init__(self, machine: Administration, roles: Roles = CORRECT) -> None:
        self.machine = machine
        self.created = 0
        config = ControllerConfig(
            topic_defaults={MIN_INSYNC: str(machine.min_insync)}, dynamic_settings=DYNAMIC_CONFIGS
        )
        self.controller = roles.controller(DEFAULT_CONTROLLER_ID, config)
        self.log = MemoryMetadataLog(
            [
                *(
                    RegisterBrokerRecord(broker, broker, f"broker-{broker}", 9092, fenced=False)
                    for broker in range(machine.brokers)
                ),
                ProducerIdsRecord(0, 0, LAST_PRODUCER_ID - BLOCK * machine.blocks),
            ]
        )
        self.log.elect(self.controller, 0)

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    def number_of(self, topic_id: str) -> int:
        return int(topic_id.removeprefix("id-"))

    # --- what is asked ---------------------------------------------------------------------------------------------

    def perform(self, action: Action, before: State) -> None:
        """Do what the action says; it is enabled in the specification."""
        error = ASKED.perform(self, action)
        assert error is ErrorCode.none, f"{action} is refused: {error.name}"

    def can_send(self, kind: type[Action]) -> bool:
        return issubclass(kind, requests.Request)

    def refuse(self, action: Action, before: State) -> ErrorCode:
        """What the controller says to a request that changes nothing."""
        return ASKED.perform(self, action)

    def told(self, propose: Callable[..., Proposal[Any]], *, only_checks: bool = False) -> Any:
        """The response to a request, which is the same when it is only checked; that writes nothing."""
        checked = propose(validate_only=True)
        assert not checked.records, f"what is only checked writes {checked.records}"
        if only_checks:
            return checked.response
        told = self.log.commit(self.controller, propose(validate_only=False))
        assert told == checked.response, f"{checked.response} when checked, else {told}"
        return told

    def commit(self, proposal: Proposal[Any]) -> Any:
        return self.log.commit(self.controller, proposal)

    def differences(self, state: State) -> Iterator[Change]:
        """Beside what is told otherwise: how many records another version of transactions would take."""
        yield from super().differences(state)
        current = self.image.feature_level(TRANSACTION_VERSION)
        for level, only_checks in product(range(current + 1), (False, True)):
            kind = UPGRADE if level == current else SAFE_DOWNGRADE
            update = FeatureUpdate(TRANSACTION_VERSION, level, kind)
            found = len(self.controller.features.update((update,), validate_only=only_checks).records)
            wanted = int(level != current and not only_checks)
            if found != wanted:
                yield Change(f"records of transaction.version={level}, only checked={only_checks}", wanted, found)
        yield from self.refused_levels(current)
        yield from self.refused_settings()

    def refused_levels(self, current: int) -> Iterator[Change]:
        """Of several levels all are taken or none: one that is no upgrade refuses the others."""
        same = FeatureUpdate(TRANSACTION_VERSION, current, UPGRADE)
        for wrong in (same._replace(level=FEATURES[TRANSACTION_VERSION].highest + 1), same._replace(upgrade_type=0)):
            for updates in ((wrong,), (same, wrong), (wrong, same)):
                made = self.controller.features.update(updates)
                found = made.response.error, len(made.records)
                if found != (wanted := (ErrorCode.invalid_update_version, 0)):
                    yield Change(f"what comes of {updates}", wanted, found)

    def refused_settings(self) -> Iterator[Change]:
        """What one broker cannot have is refused of it, and a setting that is named twice, whatever else is asked."""
        own, other = (ConfigChange(name, AlterOperation.DELETE, None) for name in (MIN_INSYNC, "another"))
        twice, invalid = ErrorCode.invalid_request, ErrorCode.invalid_config
        for broker in self.image.brokers:
            for changes, wanted in (((own, other), invalid), ((other, own), invalid), ((other, other), twice)):
                made = self.controller.configs.alter(ConfigResourceType.BROKER, str(broker), changes)
                if (found := (made.response.error, len(made.records))) != (wanted, 0):
                    yield Change(f"what comes of {changes} of broker {broker}", (wanted, 0), found)


def registered(broker: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker, broker, f"broker-{broker}", 9092, fenced=False)


# --- one request of the specification = one function -----------------------------------------------------------------


def create_topic(cores: AdministrationCores, action: topics.CreateTopic) -> ErrorCode:
    rules, name, topic_id = cores.controller.topics, name_of(action.topic), f"id-{cores.created + 1}"
    configs = dict(action.settings)
    if action.is_spread:
        start, shift = spread(cores.controller, action)
        numbers = (name, topic_id, len(action.assignments), len(action.assignments[0]))
        told = cores.told(lambda **only: rules.create(*numbers, configs=configs, start=start, shift=shift, **only))
    else:
        told = cores.told(lambda **only: rules.create_on(name, topic_id, action.assignments, configs, **only))
    error: ErrorCode = told.error
    if error is ErrorCode.none:
        assert told.replicas == action.assignments, f"placed on {told.replicas}"
        cores.created += 1
    return error


def spread(controller: Controller, action: topics.CreateTopic) -> tuple[int, int]:
    """The random numbers with which the controller chooses these brokers; any, if it refuses the topic."""
    numbers = (name_of(action.topic), "", 1, len(action.assignments[0]))
    for start, shift in product(range(len(controller.image.brokers)), repeat=2):
        told = controller.topics.create(*numbers, start=start, shift=shift, validate_only=True).response
        if told.error is not ErrorCode.none or told.replicas == action.assignments:
            return start, shift
    raise AssertionError(f"the controller places no topic on {action.assignments}")


def check_topic(cores: AdministrationCores, action: topics.CheckTopic) -> ErrorCode:
    numbers = (name_of(action.topic), "", action.partitions, action.factor)
    error: ErrorCode = cores.told(
        lambda **only: cores.controller.topics.create(*numbers, **only), only_checks=True
    ).error
    return error


def delete_topic(cores: AdministrationCores, action: topics.DeleteTopic) -> ErrorCode:
    error: ErrorCode = cores.commit(cores.controller.topics.delete(name_of(action.topic)))
    return error


def grow(cores: AdministrationCores, action: topics.Grow) -> ErrorCode:
    wanted = (name_of(action.topic), action.count, action.assignments or None)
    only_checks = action.is_checked
    error: ErrorCode = cores.told(
        lambda **only: cores.controller.topics.grow(*wanted, **only), only_checks=only_checks
    ).error
    return error


def reassign(cores: AdministrationCores, action: replicas.Reassign) -> ErrorCode:
    where = name_of(action.topic), action.index, action.target
    reassignments = cores.controller.reassignments
    error: ErrorCode = cores.commit(reassignments.reassign(*where, may_change_factor=not action.keeps_factor)).error
    return error


def cancel_reassignment(cores: AdministrationCores, action: replicas.CancelReassignment) -> ErrorCode:
    proposal = cores.controller.reassignments.cancel(name_of(action.topic), action.index)
    error: ErrorCode = cores.commit(proposal).error
    return error


def join_isr(cores: AdministrationCores, action: replicas.JoinIsr) -> ErrorCode:
    name = name_of(action.topic)
    old = cores.controller.image.topics[name].partitions[action.index]
    members = sorted(old.isr | {action.broker})
    isr = tuple((member, cores.controller.image.brokers[member].broker_epoch) for member in members)
    request = AlterPartitionRequest(
        old.leader, cores.controller.image.brokers[old.leader].broker_epoch, old.leader_epoch, old.partition_epoch, isr
    )
    response = cores.commit(cores.controller.isr_changes.alter(name, action.index, request))
    if response.registration.leader_epoch != old.leader_epoch:
        assert response.error is ErrorCode.new_leader_elected, response.error.name
        return ErrorCode.none
    error: ErrorCode = response.error
    return error


def elect_preferred(cores: AdministrationCores, action: replicas.ElectPreferred) -> ErrorCode:
    elections = cores.controller.elections
    error: ErrorCode = cores.commit(elections.elect_preferred(name_of(action.topic), action.index))
    return error


def elect_uncleanly(cores: AdministrationCores, action: replicas.ElectUncleanly) -> ErrorCode:
    elections = cores.controller.elections
    error: ErrorCode = cores.commit(elections.elect_uncleanly(name_of(action.topic), action.index))
    return error


def alter_settings(cores: AdministrationCores, action: altering.AlterSettings) -> ErrorCode:
    changes = [ConfigChange(one.name, one.operation, one.value) for one in action.changes]
    wanted = (*resource_of(action.resource), changes)
    error: ErrorCode = cores.told(lambda **only: cores.controller.configs.alter(*wanted, **only)).error
    return error


def replace_settings(cores: AdministrationCores, action: altering.ReplaceSettings) -> ErrorCode:
    wanted = (*resource_of(action.resource), dict(action.values))
    error: ErrorCode = cores.told(lambda **only: cores.controller.configs.replace(*wanted, **only)).error
    return error


def check_settings(cores: AdministrationCores, action: altering.CheckSettings) -> ErrorCode:
    configs, resource = cores.controller.configs, resource_of(action.resource)
    changes = [ConfigChange(one.name, one.operation, one.value) for one in action.changes]

    def checked(*, validate_only: bool) -> Proposal[Any]:
        if action.is_whole:
            return configs.replace(*resource, dict(action.values), validate_only=validate_only)
        return configs.alter(*resource, changes, validate_only=validate_only)

    error: ErrorCode = cores.told(checked, only_checks=True).error
    return error


def allocate_block(cores: AdministrationCores, action: brokers.AllocateBlock) -> ErrorCode:
    known, first = cores.controller.image.brokers.get(action.broker), cores.controller.image.next_producer_id
    epoch = (0 if known is None else known.broker_epoch) + (not action.is_last_process)
    told = cores.commit(cores.controller.producer_ids.allocate(action.broker, epoch))
    if isinstance(told, ErrorCode):
        return told
    assert told == ProducerIdsBlock(first, BLOCK), f"{told} is not the next block"
    return ErrorCode.none


def fence(cores: AdministrationCores, action: brokers.Fence) -> ErrorCode:
    assert cores.commit(cores.controller.members.fence(action.broker)), "it is fenced already"
    return ErrorCode.none


def unfence(cores: AdministrationCores, action: brokers.Unfence) -> ErrorCode:
    image = cores.controller.image
    heartbeat = cores.controller.members.heartbeat(
        action.broker, image.brokers[action.broker].broker_epoch, image.offset, 0
    )
    error: ErrorCode = cores.commit(heartbeat).error
    return error


def register(cores: AdministrationCores, action: brokers.Restart | brokers.Register) -> ErrorCode:
    """A new process: its epoch is larger than any before, and its first heartbeat is yet to come."""
    expected = cores.controller.image.offset
    told = cores.commit(cores.controller.members.register(action.broker, host="again", port=9092))
    assert told == expected, f"broker epoch {told} is not {expected}"
    return ErrorCode.none


def unregister(cores: AdministrationCores, action: brokers.Unregister) -> ErrorCode:
    error: ErrorCode = cores.commit(cores.controller.members.unregister(action.broker))
    return error


ASKED: Final = Steps[AdministrationCores, [], ErrorCode](
    on(topics.CreateTopic, create_topic),
    on(topics.CheckTopic, check_topic),
    on(topics.DeleteTopic, delete_topic),
    on(topics.Grow, grow),
    on(replicas.Reassign, reassign),
    on(replicas.CancelReassignment, cancel_reassignment),
    on(replicas.JoinIsr, join_isr),
    on(replicas.ElectPreferred, elect_preferred),
    on(replicas.ElectUncleanly, elect_uncleanly),
    on(altering.AlterSettings, alter_settings),
    on(altering.ReplaceSettings, replace_settings),
    on(altering.CheckSettings, check_settings),
    on(brokers.AllocateBlock, allocate_block),
    on(brokers.Fence, fence),
    on(brokers.Unfence, unfence),
    on(brokers.Restart, register),
    on(brokers.Register, register),
    on(brokers.Unregister, unregister),
)

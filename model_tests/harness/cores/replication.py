"""The deterministic cores beside the specification: no tasks, no disk, no sockets, hence a hundred thousand steps.

Every broker is a `PartitionReplica` over a log in memory; the controller is a `Controller` over a metadata log in
memory. The harness is their shell: it holds each message until the action that delivers it, decides when a session
expires and what a crash leaves on the disk, and notes which appends were acknowledged. `steps` has the actions;
`Cores.abstraction` returns all of it as a state of the specification.

The specification's `spent` and most of its `history` only serve its invariants, and have no counterpart here. What has
one are `history.acknowledged`, which `acknowledged` collects from the cores' responses to producers, and
`history.superseded_epoch`, of the controller's effects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.sequencing import Sequencing
from tidegauge.impl.controller.config import DEFAULT_CONTROLLER_ID, ControllerConfig
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.decision import LeaderElected, Proposal
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from tidegauge.impl.partition import messages
from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.harness.cores import abstraction
from tidegauge.model_tests.harness.cores.effects import Told, check_effects, check_outcome, check_requests, told
from tidegauge.model_tests.harness.cores.memory_log import LockstepLog, MemoryLog
from tidegauge.model_tests.harness.cores.message_parts import Additions
from tidegauge.model_tests.harness.cores.metadata_log import MemoryMetadataLog
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.machine import Replication

TOPIC: Final = "records"
PARTITION: Final = 0
ELSEWHERE: Final = "elsewhere"
"""A topic of brokers that are not registered."""
NOT_REGISTERED: Final = -1

T = TypeVar("T")


@attrs.frozen
class Roles:
    """The classes that play each part (a bug of the zoo brings its own), and what makes a log."""

    replica: type[PartitionReplica] = PartitionReplica
    controller: type[Controller] = Controller
    log: Callable[[], LockstepLog] = MemoryLog
    producers: type[ProducerStates] = ProducerStates
    sequencing: type[Sequencing] = Sequencing


CORRECT: Final = Roles()
"""As they are in production."""
NOTHING: Final = Additions()
"""No extension adds anything to messages."""


@attrs.frozen
class Pulled:
    """Metadata that a broker has fetched and not acted on yet: the records, and what they come to."""

    records: Sequence[MetadataRecord]
    word: spec.PartitionMetadata


@attrs.define
class Broker:
    """One broker's process and disk."""

    log: LockstepLog
    image: ClusterImage = attrs.field(factory=ClusterImage)
    replica: PartitionReplica | None = None
    broker_epoch: int = NOT_REGISTERED
    checkpoint: int = 0
    paused: bool = False
    outstanding: dict[spec.FetchRequest, messages.FollowerFetch] = attrs.field(factory=dict)
    pulled: Pulled | None = None
    told: Told | None = None
    """What its replica's effects have told."""
    appended: messages.Appended | None = None
    """What its process was last asked to append, waited for or not."""
    seen: spec.Replica | None = None
    """The abstraction as last taken; dropped whenever the broker is touched."""


class Cores:
    """Brokers, controller and the messages between them, in the machine's initial state."""

    def __init__(self, machine: Replication, roles: Roles = Roles(), additions: Additions = NOTHING) -> None:
        self.machine = machine
        self.roles = roles
        self.additions = additions
        self.now_ms = 0
        self.config = messages.PartitionConfig(machine.min_insync_replicas)
        self.epochs = abstraction.Epochs()
        self.metadata_log = MemoryMetadataLog(self._founding_records())
        self.controller = self.activate_controller()
        self.brokers = [Broker(roles.log()) for _ in range(machine.brokers)]
        self.fetches: dict[spec.FetchRequest, messages.FollowerFetch] = {}
        self.fetch_responses: dict[spec.FetchResponse, messages.PartitionFetchResponse] = {}
        self.alters: dict[spec.AlterPartitionRequest, messages.AlterPartitionRequest] = {}
        self.alter_responses: dict[
            spec.AlterPartitionResponse, tuple[messages.AlterPartitionRequest, messages.AlterPartitionResponse]
        ] = {}
        self._controller_key: tuple[int, Controller] | None = None
        self._controller_seen: spec.Controller | None = None
        self._superseded_epoch = spec.NONE
        self.next_value = 0
        self.waiting: dict[int, tuple[int, messages.Appended]] = {}
        """Value -> (broker, where it is), for appends with acks=all."""
        self.completed: dict[int, tuple[int, ErrorCode]] = {}
        """Value -> (leader epoch, outcome) of the appends that were completed."""
        self._acknowledged_seen: tuple[int, spec.History | None, tuple[int, ...]] = (0, None, ())
        """How many were completed when `acknowledged` last looked, in which history, and what it saw."""
        for number, broker in enumerate(self.brokers):
            broker.broker_epoch = self.controller.image.brokers[number].broker_epoch
            self.epochs.register(number, broker.broker_epoch)
            self.start_replica(number)
            self.apply_metadata(number)

    def replica(self, broker: int) -> PartitionReplica:
        """A running broker's replica, which is about to change."""
        replica = self.brokers[broker].replica
        assert replica is not None, f"broker {broker} is down"
        self.brokers[broker].seen = None
        return replica

    @property
    def registration(self) -> PartitionRegistration:
        registration = self.controller.image.partition(TOPIC, PARTITION)
        assert registration is not None
        return registration

    # --- the world as the specification sees it --------------------------------------------------------------------

    def abstraction(self, state: spec.State) -> spec.State:
        """All of it as a state of the specification; what only its invariants need is copied from `state`."""
        history = state.history
        superseded = self.superseded_epoch()
        if superseded != history.superseded_epoch:
            history = attrs.evolve(history, superseded_epoch=superseded)
        acknowledged = self.acknowledged(history)
        if acknowledged != history.acknowledged:
            history = attrs.evolve(history, acknowledged=acknowledged)
        return spec.State(
            replicas=tuple(map(self._abstract_replica, range(len(self.brokers)), state.replicas)),
            controller=self._abstract_controller(state.controller),
            network=abstraction.network(self.fetches, self.fetch_responses, self.alters, self.alter_responses),
            history=history,
            spent=state.spent,
        )

    def superseded_epoch(self) -> int:
        """The leader epoch that the last unclean election has begun, as the controller has told."""
        for effect in self.metadata_log.take_effects():
            if isinstance(effect, LeaderElected) and effect.unclean:
                self._superseded_epoch = effect.leader_epoch
        return self._superseded_epoch

    def acknowledged(self, history: spec.History) -> tuple[int, ...]:
        """The values that were acknowledged; looked at again only if an append was completed, or the history is new."""
        completions, known, seen = self._acknowledged_seen
        if completions != len(self.completed) or known is not history:
            seen = self._acknowledged(history)
            self._acknowledged_seen = len(self.completed), history, seen
        return seen

    def _acknowledged(self, history: spec.History) -> tuple[int, ...]:
        completed = ((value, epoch, outcome is ErrorCode.none) for value, (epoch, outcome) in self.completed.items())
        return abstraction.acknowledged(completed, history)

    def _abstract_controller(self, expected: spec.Controller) -> spec.Controller:
        """The controller, looked at again only if its log or its epoch has moved."""
        key = (self.metadata_log.end_offset, self.controller)
        if key != self._controller_key or self._controller_seen is None:
            seen = abstraction.controller(
                self.controller, self.registration, len(self.brokers), self.epochs, self.additions
            )
            self._controller_key, self._controller_seen = key, expected if seen == expected else seen
        return self._controller_seen

    def _abstract_replica(self, number: int, expected: spec.Replica) -> spec.Replica:
        """A replica, looked at again only if it was touched.

        What equals `expected` is replaced by it, so that two states that share it are compared by identity.
        """
        broker = self.brokers[number]
        if broker.seen is None:
            seen = self._look_at_replica(number, broker)
            broker.seen = expected if seen == expected else seen
        return broker.seen

    def _look_at_replica(self, number: int, broker: Broker) -> spec.Replica:
        replica = broker.replica
        if replica is None:
            return spec.Replica(
                running=False,
                log=broker.log.records,
                flushed=broker.log.flushed_end_offset,
                checkpoint=broker.checkpoint,
            )
        return spec.Replica(
            paused=broker.paused,
            broker_epoch=self.epochs.number(number, broker.broker_epoch),
            log=broker.log.records,
            flushed=broker.log.flushed_end_offset,
            high_watermark=replica.high_watermark,
            checkpoint=broker.checkpoint,
            controller_epoch=replica.controller_epoch,
            leader=replica.leader,
            leader_epoch=replica.leader_epoch,
            partition_epoch=replica.partition_epoch,
            isr=abstraction.ids(replica.isr),
            epoch_start_offset=replica.epoch_start_offset,
            remote=abstraction.remote_replicas(replica, len(self.brokers), self.epochs, self.additions),
            pending_isr=abstraction.ids(replica.pending_isr),
            outstanding=spec.in_order(broker.outstanding),
            pulled=broker.pulled.word if broker.pulled else None,
        )

    # --- the shell's part ------------------------------------------------------------------------------------------

    def _founding_records(self) -> list[MetadataRecord]:
        """The machine's partition, and another one behind it that none of its brokers has and nobody leads."""
        machine = self.machine
        everyone = tuple(range(machine.brokers))
        return [
            *(
                RegisterBrokerRecord(broker, broker, f"broker-{broker}", 9092, fenced=False, incarnation_id="the first")
                for broker in everyone
            ),
            TopicRecord(TOPIC, TOPIC),
            ConfigRecord(TOPIC, "min.insync.replicas", str(machine.min_insync_replicas)),
            ConfigRecord(TOPIC, "unclean.leader.election.enable", str(machine.unclean_leader_election).lower()),
            PartitionRecord(TOPIC, PARTITION, everyone, machine.initial_isr or everyone, machine.initial_leader),
            TopicRecord(ELSEWHERE, ELSEWHERE),
            PartitionRecord(ELSEWHERE, PARTITION, (machine.brokers + 1,), (), spec.NONE),
        ]

    def activate_controller(self) -> Controller:
        controller = self.roles.controller(DEFAULT_CONTROLLER_ID, ControllerConfig())
        self.metadata_log.elect(controller, self.now_ms)
        return controller

    def commit(self, proposal: Proposal[T]) -> T:
        """Commit and apply a decision of the controller; returns its response."""
        return self.metadata_log.commit(self.controller, proposal)

    def start_replica(self, number: int) -> None:
        broker = self.brokers[number]
        broker.replica = self.roles.replica(number, broker.log, self.config, broker.checkpoint)
        broker.told = told(broker.replica)

    def pull_metadata(self, number: int) -> None:
        broker = self.brokers[number]
        word = abstraction.metadata(self.registration, self.controller.controller_epoch)
        broker.pulled = Pulled(tuple(self.metadata_log.read(broker.image.offset)), word)
        broker.seen = None

    def apply_metadata(self, number: int) -> None:
        broker, image = self.brokers[number], self.brokers[number].image
        image.replay(broker.pulled.records if broker.pulled else self.metadata_log.read(image.offset))
        broker.pulled = None
        registration = image.partition(TOPIC, PARTITION)
        assert registration is not None
        self.configure(number)
        replica = self.replica(number)
        known, news = (replica.partition_epoch, replica.controller_epoch), image.controller_epoch
        learns = replica.apply_metadata(registration, news, self.now_ms)
        changed = (replica.partition_epoch, replica.controller_epoch) != known
        assert learns == changed, f"broker {number} says {learns} of {registration} of controller epoch {news}"
        self.carry_out_effects(number)

    def configure(self, number: int) -> None:
        """Bring settings into force that the metadata tell; here none changes."""

    def carry_out_effects(self, number: int, *, appended: bool = False) -> None:
        """Send what the replica wants sent, and look again at appends that wait for it.

        `appended` says that it was asked to append.
        """
        replica, broker = self.replica(number), self.brokers[number]
        effects = replica.take_effects()
        assert broker.told is not None, f"broker {number} has no replica"
        broker.told = check_effects(broker.told, replica, effects, appended=appended)
        check_requests(replica)
        if broker.appended is not None:
            check_outcome(replica, broker.appended)
        for effect in effects:
            if isinstance(effect, messages.SendAlterPartition):
                self.send_alter_partition(number)
        for value, (leader, waits) in list(self.waiting.items()):
            outcome = replica.append_outcome(waits) if leader == number else None
            if outcome is not None:
                del self.waiting[value]
                self.completed[value] = (waits.leader_epoch, outcome)

    def send_alter_partition(self, number: int) -> None:
        request = self.replica(number).alter_partition_request(self.brokers[number].broker_epoch)
        assert request is not None
        self.alters[abstraction.alter_partition_request(request, self.epochs)] = request

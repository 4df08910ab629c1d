"""A trio cluster as one side of a lockstep: the whole broker, with its network, disk and wire format.

Theory of operation
-------------------
The cluster runs on the simulated host inside a guest run, without timers and with its replication frames held, so
that between two actions nothing moves. Each action of the specification is made to happen the way it would in life:
a frame is released, a broker's own action is called, a session expires, a disk keeps so many bytes. Then everything
runs until it rests, and the state is read back from the brokers' cores, logs and checkpoints and from the held frames.

It serves `Replication` and, by a `ClusterExtension` each, the extensions of it: which they are says `harness.registry`.

Three things cannot be read from the cluster and are remembered here: what a broker that is down has on its disk (its
next `Log.open` is compared all the same), which responses a paused broker will never get, and what producers were told.

Six things that the specification allows a cluster never does, so it is not asked to (`can_perform`):

* responses of a controller that is gone do not outlive its connections;
* a truncation also syncs what it leaves, so that a crash can't lose that;
* without timers a broker that has pulled metadata acts on it at once;
* a second response to one fetch is not taken for the response to the next, though that may be equal;
* no fetch is sent to a stopped broker's new process while a response of the old one is on its way: it would go by
  the connection that is ending;
* nor is an ISR proposed to a new controller while a response of the old one is on its way to the leader.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Final, TypeVar, TypeVarTuple, Unpack

import attrs
import trio
from kio.schema.errors import ErrorCode
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.requests import batch, produce, produced
from tidegauge.impl.client.route import Route
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import PartitionRecord
from tidegauge.impl.partition.messages import FollowerFetch
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.ports.simulated_network import Frame
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.storage.log import Log
from tidegauge.impl.wire.channel import Channel, NoResponseError, UnreachableError
from tidegauge.model_tests.harness.cluster.guest_cluster import GuestCluster
from tidegauge.model_tests.harness.cluster.in_flight import FramesInFlight, is_held, records_of
from tidegauge.model_tests.harness.cores import abstraction
from tidegauge.model_tests.harness.cores.message_parts import Additions, MessageParts
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.performing import Steps
from tidegauge.spec.kernel.machine import Action, NotEnabled
from tidegauge.spec.registry import NotRegisteredError
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.actions import ReceiveFetchResponse, SendFetch
from tidegauge.spec.replication.control import PullMetadata
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.faults import Crash
from tidegauge.spec.replication.machine import Replication

TOPIC: Final = "records"
PARTITION: Final = 0
SEED: Final = 1
FOR_EVER_MS: Final = 1_000_000_000


@attrs.define
class Remembered:
    """What cannot be read from the cluster of one broker."""

    log: spec.Log = ()
    flushed: int = 0
    checkpoint: int = 0
    running: bool = True
    paused: bool = False
    cut: list[FollowerFetch] = attrs.field(factory=list)
    """Fetches whose connection broke while the broker stood still, so that it doesn't know."""

    @property
    def acts(self) -> bool:
        """Whether its process runs, and does not stand still."""
        return self.running and not self.paused


class ClusterExtension:
    """What an extension of the machine adds to a cluster beside it: steps, and its parts of the state.

    Each binding has one of its own, which may remember what cannot be read from the cluster. A subclass overrides what
    the extension changes.
    """

    extends: ClassVar[type[ReplicationExtension]]
    config: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """The nodes' settings that it needs."""
    steps: ClassVar[Steps[ClusterBinding, [spec.State], Awaitable[None]]] = Steps()
    """How the cluster performs the extension's actions."""
    refusals: ClassVar[Steps[ClusterBinding, [spec.State], Awaitable[ErrorCode | None]]] = Steps()
    """How it is sent those that the specification refuses."""
    messages: ClassVar[MessageParts] = MessageParts()
    """What the extension adds to messages; read beside every machine."""

    def __init__(self, binding: ClusterBinding) -> None:
        self.binding = binding

    @classmethod
    def is_in(cls, machine: Replication) -> bool:
        """Whether the machine has the extension."""
        return any(issubclass(kind, cls.extends) for kind in machine.kinds)

    @classmethod
    def reads(cls, machine: Replication) -> bool:
        """Whether its parts are read beside this machine: also where they are to be seen at rest, if it says so."""
        return cls.is_in(machine)

    async def founded(self, cluster: Cluster) -> frozenset[int]:
        """Make what there was before the topic; returns the brokers that learn of the topic only later."""
        return frozenset()

    async def prepared(self, cluster: Cluster) -> None:
        """Do what is to be done when the topic is there."""

    def assignment(self, initial: spec.Controller) -> tuple[int, ...]:
        """The replicas with which the topic is created; () for all brokers."""
        return ()

    def registration(self) -> PartitionRegistration | None:
        """The partition, where the controller knows it no more."""
        return None

    def error_without_topic(self, number: int) -> spec.Error | None:
        """The error of a broker that does not know the topic; None for that of one without metadata."""
        return None

    def explains(self, number: int, error: ErrorCode) -> bool:
        """Whether a broker without its replica responds so; which error the specification names, it may not know."""
        return False

    def has_log(self, number: int) -> bool:
        """Whether a broker has a log that it does not host."""
        return False

    def can_perform(self, action: Action, before: spec.State) -> bool:
        """Whether the cluster can, in its present state."""
        return True

    def performed(self, action: Action) -> None:
        """The cluster has performed an action, the extension's or another."""

    def controller(self, seen: spec.Controller) -> spec.Controller:
        """The controller, with the extension's parts."""
        return seen

    def absent(self, number: int, seen: spec.Replica) -> spec.Replica | None:
        """A running broker that hosts no replica, if the extension knows of one."""
        return None

    def replica(self, number: int, beside: spec.Replica, seen: spec.Replica) -> spec.Replica:
        """A broker, with the extension's parts; `beside` is the specification's."""
        return seen

    def state(self, seen: spec.State) -> spec.State:
        """The whole, with the extension's parts of what clients were promised."""
        return seen


E = TypeVar("E", bound=ClusterExtension)
Ts = TypeVarTuple("Ts")


class ClusterBinding:
    """A cluster beside the specification; `cluster.steps` makes it perform actions."""

    topic_id: str

    def __init__(self, machine: Replication, roles: Roles, extensions: Iterable[type[ClusterExtension]]) -> None:
        """Raises NotRegisteredError for a machine with an extension that is not among these."""
        extensions = tuple(extensions)
        known = tuple(extension.extends for extension in extensions)
        if unknown := [kind.__name__ for kind in machine.kinds[1:] if not issubclass(kind, known)]:
            raise NotRegisteredError(
                f"no cluster performs {', '.join(unknown)}: give it a ClusterExtension in harness.registry"
            )
        self.machine = machine
        (initial,) = machine.initial()
        self._initial = initial.controller
        self.epochs = abstraction.Epochs()
        self.additions = Additions(*(extension.messages for extension in extensions))
        self.memory = [Remembered() for _ in range(machine.brokers)]
        self.leaders: dict[int, int] = {0: self._initial.leader}
        """Leader epoch -> the broker that followers of that epoch fetch from."""
        self.completed: dict[int, tuple[int, bool]] = {}
        """Value -> (leader epoch in which it was appended, whether it was acknowledged)."""
        self.surprises: list[str] = []
        """Responses to operators that the specification does not allow."""
        self.extensions = tuple(extension(self) for extension in extensions if extension.reads(machine))
        self._hosted = GuestCluster(SEED, partial(self._make, roles), self._prepare)
        self.guest, self.cluster, self._nursery = self._hosted.run, self._hosted.cluster, self._hosted.nursery
        self.told_at_once = self._hosted.told_at_once
        self.frames = FramesInFlight(self.cluster.network, self.epochs, self.additions, self.error_without_topic)

    def _make(self, roles: Roles) -> Cluster:
        return Cluster(
            self.machine.brokers,
            SEED,
            {name: value for extension in self.extensions for name, value in extension.config.items()},
            timers=False,
            trace=False,
            replica_class=roles.replica,
            controller_class=founding(roles.controller, self._initial, self._assignment()),
        )

    async def _prepare(self, cluster: Cluster) -> None:
        unaware = frozenset[int]().union(*[await extension.founded(cluster) for extension in self.extensions])
        configs = {
            "min.insync.replicas": str(self.machine.min_insync_replicas),
            "unclean.leader.election.enable": str(self.machine.unclean_leader_election).lower(),
        }
        async with cluster.client() as admin:
            await admin.create_topic(TOPIC, configs=configs, assignments=[self._assignment()])
        self.topic_id = cluster.controller.controller.image.topics[TOPIC].topic_id
        for broker in cluster.brokers:
            self.epochs.register(broker.id, broker.registration.broker_epoch)
            if broker.id not in unaware:
                await broker.actions.apply_metadata()
        for extension in self.extensions:
            await extension.prepared(cluster)
        cluster.network.hold(is_held)

    def _assignment(self) -> tuple[int, ...]:
        given = filter(None, (extension.assignment(self._initial) for extension in self.extensions))
        return next(given, tuple(range(self.machine.brokers)))

    def extension(self, kind: type[E]) -> E:
        """This binding's extension of a class."""
        return next(extension for extension in self.extensions if isinstance(extension, kind))

    def close(self) -> None:
        """Stop the cluster."""
        self._hosted.close()

    def can_perform(self, action: Action, before: spec.State) -> bool:
        return self._can_perform(action, before) and all(e.can_perform(action, before) for e in self.extensions)

    def _can_perform(self, action: Action, before: spec.State) -> bool:
        if isinstance(action, PullMetadata):
            return False
        if isinstance(action, ReceiveFetchResponse) and action.response in self.frames.fetch_responses:
            return self.frames.is_awaited(action.response)
        if isinstance(action, SendFetch):
            return not self.frames.is_ending(action.broker, before.replicas[action.broker].leader)
        if isinstance(action, Crash):
            hosted = self.hosted(action.broker)
            return hosted is None or action.kept >= hosted.log.flushed_end_offset
        return not self._proposes_in_vain(action, before)

    def _proposes_in_vain(self, action: Action, before: spec.State) -> bool:
        """Whether a leader would propose an ISR by a connection that the controller has closed."""
        if not (leaders := self.frames.without_controller()):
            return False
        try:
            after = self.machine.step(before, action)
        except NotEnabled:
            return False
        return any(one.leader in leaders for one in set(after.network.alters).difference(before.network.alters))

    # --- the cluster as the specification sees it ------------------------------------------------------------------

    def abstraction(self, state: spec.State) -> spec.State:
        self.frames.sort_in(state, self.cluster.controller.controller.controller_epoch)
        controller = abstraction.controller(
            self.cluster.controller.controller, self.registration, self.machine.brokers, self.epochs, self.additions
        )
        for extension in self.extensions:
            controller = extension.controller(controller)
        completed = ((value, epoch, done) for value, (epoch, done) in self.completed.items())
        seen = spec.State(
            replicas=tuple(self._replica(number, state.replicas[number]) for number in range(self.machine.brokers)),
            controller=controller,
            network=abstraction.network(
                self.frames.fetches, self.frames.fetch_responses, self.frames.alters, self.frames.alter_responses
            ),
            history=attrs.evolve(state.history, acknowledged=abstraction.acknowledged(completed, state.history)),
            spent=state.spent,
        )
        for extension in self.extensions:
            seen = extension.state(seen)
        return seen

    @property
    def registration(self) -> PartitionRegistration:
        registration = self.cluster.controller.controller.image.partition(TOPIC, PARTITION)
        remembered = (extension.registration() for extension in self.extensions)
        registration = registration or next(filter(None, remembered), None)
        assert registration is not None, "the partition exists, or somebody knows how it was left"
        return registration

    def error_without_topic(self, number: int) -> spec.Error:
        """The error of a broker that does not know the topic: for the specification it knows no epoch yet."""
        errors = (extension.error_without_topic(number) for extension in self.extensions)
        return next(filter(None, errors), spec.Error.UNKNOWN_LEADER_EPOCH)

    def hosted(self, number: int) -> Partition | None:
        """A running broker's partition; None until it has applied the metadata."""
        found = self.broker(number).replicas.get(TOPIC, PARTITION) if self.memory[number].running else None
        return found if found is not None and found.topic_id == self.topic_id else None

    def has_log(self, number: int) -> bool:
        """Whether a broker that runs has a log of the partition."""
        return self.hosted(number) is not None or any(e.has_log(number) for e in self.extensions)

    def told(self, number: int) -> PartitionRegistration | None:
        """What a broker's process has read of the partition."""
        topic = self.broker(number).metadata.image.topics.get(TOPIC)
        return None if topic is None or topic.topic_id != self.topic_id else topic.partitions[PARTITION]

    def broker(self, number: int) -> Broker:
        return self.cluster.broker(number)

    def _replica(self, number: int, beside: spec.Replica) -> spec.Replica:
        memory, hosted = self.memory[number], self.hosted(number)
        if not memory.running:
            seen = spec.Replica(running=False, log=memory.log, flushed=memory.flushed, checkpoint=memory.checkpoint)
        elif hosted is None:
            seen = self._absent(number)
            seen = next(filter(None, (e.absent(number, seen) for e in self.extensions)), seen)
            memory.flushed, memory.checkpoint = seen.flushed, seen.checkpoint
        else:
            seen = self._present(number, hosted, beside)
        for extension in self.extensions:
            seen = extension.replica(number, beside, seen)
        memory.log = seen.log
        return seen

    def _present(self, number: int, hosted: Partition, beside: spec.Replica) -> spec.Replica:
        """A broker with a replica."""
        memory, broker, replica, log = self.memory[number], self.broker(number), hosted.replica, hosted.log
        flushed = log.flushed_end_offset
        memory.flushed = beside.flushed if beside.flushed <= flushed else flushed
        memory.checkpoint = broker.replicas.high_watermark_checkpoint.offsets.get((TOPIC, PARTITION), 0)
        return spec.Replica(
            paused=memory.paused,
            broker_epoch=self.epochs.number(number, broker.registration.broker_epoch),
            log=stored(log),
            flushed=memory.flushed,
            high_watermark=replica.high_watermark,
            checkpoint=memory.checkpoint,
            controller_epoch=replica.controller_epoch,
            leader=replica.leader,
            leader_epoch=replica.leader_epoch,
            partition_epoch=replica.partition_epoch,
            isr=abstraction.ids(replica.isr),
            epoch_start_offset=replica.epoch_start_offset,
            remote=abstraction.remote_replicas(replica, self.machine.brokers, self.epochs, self.additions),
            pending_isr=abstraction.ids(replica.pending_isr),
            outstanding=tuple(sorted(self._outstanding(hosted, memory))),
        )

    def _absent(self, number: int) -> spec.Replica:
        """A broker without a replica: the metadata that it has applied."""
        broker = self.broker(number)
        absent = spec.Replica(
            paused=self.memory[number].paused,
            broker_epoch=self.epochs.number(number, broker.registration.broker_epoch),
        )
        told = self.told(number)
        if told is None:
            return absent
        return attrs.evolve(
            absent,
            controller_epoch=broker.metadata.image.controller_epoch,
            leader_epoch=told.leader_epoch,
            partition_epoch=told.partition_epoch,
        )

    def _outstanding(self, hosted: Partition, memory: Remembered) -> Iterable[spec.FetchRequest]:
        cut = list(memory.cut)
        for fetch in hosted.outstanding:
            if fetch in cut:
                cut.remove(fetch)
            else:
                yield abstraction.fetch_request(fetch, self.leaders[fetch.leader_epoch], self.epochs, self.additions)

    # --- what actions are made of ----------------------------------------------------------------------------------

    def note_cut(self, follower: int, leader: int, *, but: Collection[spec.FetchRequest] = ()) -> None:
        """The connection on which a broker fetches from `leader` breaks; one that stands still doesn't know.

        `but` are fetches whose responses arrive all the same.
        """
        memory, hosted = self.memory[follower], self.hosted(follower)
        if hosted is not None and memory.paused:
            memory.cut += [
                fetch
                for fetch in hosted.outstanding
                if fetch not in memory.cut
                and self.leaders[fetch.leader_epoch] == leader
                and abstraction.fetch_request(fetch, leader, self.epochs, self.additions) not in but
            ]

    def start_soon(self, task: Callable[[Unpack[Ts]], Awaitable[None]], *args: *Ts) -> None:
        """Run a client's task for as long as it takes."""
        self._nursery.start_soon(task, *args)

    async def release_and_drop_the_response(self, frame: Frame) -> None:
        """Deliver a fetch, and drop the response."""
        network = self.cluster.network
        before = list(network.in_flight)
        network.release(frame)
        await wait_all_tasks_blocked()
        for response in [f for f in network.in_flight if f not in before and not f.is_request]:
            network.drop(response)

    def produce(self, broker: int, value: int, acks: int) -> None:
        """A producer sends one record to this broker, leader or not, and notes what it is told."""
        self.start_soon(self._produce, self.broker(broker), value, acks)

    def route_to(self, broker: Broker) -> Route:
        """A way to the partition by this broker, leader or not."""
        hosted = self.hosted(broker.id)
        leader_epoch = spec.NONE if hosted is None else hosted.replica.leader_epoch
        return Route(TOPIC, self.topic_id, PARTITION, broker.id, leader_epoch, broker.address)

    async def _produce(self, broker: Broker, value: int, acks: int) -> None:
        route = self.route_to(broker)
        leader_epoch = route.leader_epoch
        request = produce(route, record_batch(value), acks, FOR_EVER_MS)
        async with trio.open_nursery() as nursery:
            network = self.cluster.host.network("producer")
            channel = Channel(network, broker.address, "producer", nursery)
            try:
                if acks == 0:
                    await channel.send(request)
                else:
                    produced(await channel.request(request))
                    self.completed[value] = leader_epoch, acks == spec.Acks.ALL
            except (KafkaError, NoResponseError, UnreachableError):
                self.completed[value] = leader_epoch, False
            await channel.aclose()
            nursery.cancel_scope.cancel()


def stored(log: Log) -> tuple[spec.Record, ...]:
    """The records that a log has."""
    return records_of(log.read(log.log_start_offset, log.size + 1)) if log.log_end_offset > log.log_start_offset else ()


def founding(controller: type[Controller], initial: spec.Controller, assignment: tuple[int, ...]) -> type[Controller]:
    """The controller, but that the partition begins as the machine says and not as placement has it."""

    class FoundingElections(controller.election_rules):  # type: ignore[name-defined, misc]
        def new_partition(
            self, image: ClusterImage, topic: str, partition: int, replicas: tuple[int, ...]
        ) -> PartitionRecord:
            record: PartitionRecord = super().new_partition(image, topic, partition, replicas)
            return record._replace(leader=initial.leader, isr=initial.isr) if replicas == assignment else record

    class Founding(controller):  # type: ignore[valid-type, misc]
        election_rules = FoundingElections

    return Founding


def record_batch(value: int) -> bytes:
    """One record; all are of one size, so that a fetch can be limited to a number of records."""
    return batch([b"%06d" % value], 0)


RECORD_SIZE: Final = len(record_batch(0))

"""A trio cluster as one side of a lockstep: the whole broker, with its network, disk and wire format.

Theory of operation
-------------------
The cluster runs on the simulated host inside a guest run, without timers and with its replication frames held, so
that between two actions nothing moves. Each action of the specification is made to happen the way it would in life:
a frame is released, a broker's own action is called, a session expires, a disk keeps so many bytes. Then everything
runs until it rests, and the state is read back from the brokers' cores, logs and checkpoints and from the held frames.

It serves every machine that extends `Replication`: replica lists that change, log starts and clean stops are read like
everything else, and are at rest where a machine knows none of them.

Four things cannot be read from the cluster and are remembered here: what a broker that is down has on its disk (its
next `Log.open` is compared all the same), which responses a paused broker will never get, what producers were told, and
what the records below a log start were: those the specification lends, but for the epoch of the last one.

Five things that the specification allows a cluster never does, so it is not asked to (`can_perform`):

* responses of a controller that is gone do not outlive its connections;
* a truncation also syncs what it leaves, and a flush writes log starts, so that a crash can't lose those;
* without timers a broker that has pulled metadata acts on it at once;
* a second response to one fetch is not taken for the response to the next, though that may be equal;
* no fetch is sent to a stopped broker's new process while a response of the old one is on its way: it would go by
  the connection that is ending.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import Any, Final

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.requests import batch, produce, produced
from tidegauge.impl.client.route import Route
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import PartitionRecord
from tidegauge.impl.partition.messages import UNKNOWN_BROKER_EPOCH, FollowerFetch
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.ports.simulated_network import Frame
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.storage.checkpoints import LOG_START_OFFSET_CHECKPOINT, read_offsets
from tidegauge.impl.storage.log import Log
from tidegauge.impl.wire.channel import Channel, NoResponseError, UnreachableError
from tidegauge.model_tests.harness.cluster.guest_cluster import GuestCluster
from tidegauge.model_tests.harness.cluster.in_flight import FramesInFlight, is_held, records_of
from tidegauge.model_tests.harness.cores import abstraction
from tidegauge.model_tests.harness.cores.replication import CORRECT, Roles
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.parts import parts_of, with_part
from tidegauge.spec.replication import state as spec
from tidegauge.spec.replication.actions import ReceiveFetchResponse, SendFetch
from tidegauge.spec.replication.control import PullMetadata
from tidegauge.spec.replication.extensions.reassignment import Reassignment, ReplicaList, assigned
from tidegauge.spec.replication.extensions.retention import LogStart
from tidegauge.spec.replication.extensions.settings import Settings
from tidegauge.spec.replication.extensions.shutdown import CleanStop
from tidegauge.spec.replication.faults import ControllerFailover, Crash
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
    log_start: int = 0
    """As written down."""
    note: int = UNKNOWN_BROKER_EPOCH
    """The broker epoch in which its last process stopped cleanly, while none runs."""
    running: bool = True
    paused: bool = False
    cut: list[FollowerFetch] = attrs.field(factory=list)
    """Fetches whose connection broke while the broker stood still, so that it doesn't know."""


class ClusterBinding:
    """A cluster beside the specification; `cluster.steps` makes it perform actions."""

    def __init__(self, machine: Replication, roles: Roles = CORRECT) -> None:
        self.machine = machine
        self.lists = Reassignment in machine.kinds
        """Whether the machine has replica lists; in the others every broker is a replica."""
        self.settings = Settings in machine.kinds
        """Whether the topic's settings change."""
        (initial,) = machine.initial()
        self._initial = initial.controller
        self.epochs = abstraction.Epochs()
        self.memory = [Remembered() for _ in range(machine.brokers)]
        self.leaders: dict[int, int] = {0: self._initial.leader}
        """Leader epoch -> the broker that followers of that epoch fetch from."""
        self.completed: dict[int, tuple[int, bool]] = {}
        """Value -> (leader epoch in which it was appended, whether it was acknowledged)."""
        self.surprises: list[str] = []
        """Responses to operators that the specification does not allow."""
        self._hosted = GuestCluster(SEED, partial(self._make, roles), self._prepare)
        self.guest, self.cluster, self._nursery = self._hosted.run, self._hosted.cluster, self._hosted.nursery
        self.frames = FramesInFlight(self.cluster.network, self.epochs)

    def _make(self, roles: Roles) -> Cluster:
        return Cluster(
            self.machine.brokers,
            SEED,
            timers=False,
            trace=False,
            replica_class=roles.replica,
            controller_class=founding(roles.controller, self._initial),
        )

    async def _prepare(self, cluster: Cluster) -> None:
        machine = self.machine
        await cluster.create_topic(
            TOPIC,
            config={
                "min.insync.replicas": machine.min_insync_replicas,
                "unclean.leader.election.enable": machine.unclean_leader_election,
            },
            assignments=[list(assigned(self._initial) or range(machine.brokers))],
        )
        for broker in cluster.brokers:
            self.epochs.register(broker.id, broker.registration.broker_epoch)
        cluster.network.hold(is_held)

    def close(self) -> None:
        """Stop the cluster."""
        self._hosted.close()

    def can_perform(self, action: Action, before: spec.State) -> bool:
        if isinstance(action, PullMetadata):
            return False
        if isinstance(action, ReceiveFetchResponse) and action.response in self.frames.fetch_responses:
            return self.frames.is_awaited(action.response)
        if isinstance(action, SendFetch):
            return not self.frames.is_ending(action.broker, before.replicas[action.broker].leader)
        if isinstance(action, ControllerFailover):
            return not before.network.alter_responses
        if isinstance(action, Crash):
            hosted = self.hosted(action.broker)
            if hosted is None:
                return True
            written = LogStart.of(before.replicas[action.broker]).checkpoint
            return action.kept >= hosted.log.flushed_end_offset and self._written_log_start(action.broker) <= written
        return True

    # --- the cluster as the specification sees it ------------------------------------------------------------------

    def abstraction(self, state: spec.State) -> spec.State:
        self.frames.sort_in(state, self.cluster.controller.controller.controller_epoch)
        controller = abstraction.controller(
            self.cluster.controller.controller, self.registration, self.machine.brokers, self.epochs
        )
        completed = ((value, epoch, done) for value, (epoch, done) in self.completed.items())
        return spec.State(
            replicas=tuple(self._replica(number, state.replicas[number]) for number in range(self.machine.brokers)),
            controller=self._with_what_changes(controller),
            network=abstraction.network(
                self.frames.fetches, self.frames.fetch_responses, self.frames.alters, self.frames.alter_responses
            ),
            history=attrs.evolve(state.history, acknowledged=abstraction.acknowledged(completed, state.history)),
            spent=state.spent,
        )

    def _with_what_changes(self, controller: spec.Controller) -> spec.Controller:
        """With what only some machines know."""
        if self.lists:
            controller = abstraction.with_lists(controller, self.registration)
        if self.settings:
            controller = abstraction.with_settings(controller, self.cluster.controller.controller, TOPIC)
        return controller

    @property
    def registration(self) -> PartitionRegistration:
        registration = self.cluster.controller.controller.image.partition(TOPIC, PARTITION)
        assert registration is not None, "the partition always exists"
        return registration

    def hosted(self, number: int) -> Partition | None:
        """A running broker's partition; None until it has applied the metadata."""
        return self.broker(number).replicas.get(TOPIC, PARTITION) if self.memory[number].running else None

    def broker(self, number: int) -> Broker:
        return self.cluster.broker(number)

    def _written_log_start(self, number: int) -> int:
        """What the checkpoint on the disk says."""
        broker = self.broker(number)
        directory = broker.replicas.directories.where(TOPIC, PARTITION)
        assert directory is not None, "no disk fails here"
        offsets = read_offsets(broker.disk, directory.path, LOG_START_OFFSET_CHECKPOINT)
        return offsets.get((TOPIC, PARTITION), 0)

    def _replica(self, number: int, beside: spec.Replica) -> spec.Replica:
        memory, hosted = self.memory[number], self.hosted(number)
        if not memory.running:
            return spec.Replica(
                running=False,
                log=memory.log,
                flushed=memory.flushed,
                checkpoint=memory.checkpoint,
                parts=parts_of(
                    CleanStop(self.epochs.number(number, memory.note)), LogStart(memory.log_start, memory.log_start)
                ),
            )
        broker = self.broker(number)
        if hosted is None:
            memory.log, memory.flushed, memory.checkpoint, memory.log_start = (), 0, 0, 0
            return self._absent(number, beside)
        replica, log = hosted.replica, hosted.log
        memory.log = (*ghosts(log, beside), *stored(log))
        flushed = log.flushed_end_offset
        memory.flushed = beside.flushed if beside.flushed <= flushed else flushed
        memory.checkpoint = broker.replicas.high_watermark_checkpoint.offsets.get((TOPIC, PARTITION), 0)
        if log.log_start_is_durable:
            memory.log_start = log.log_start_offset
        seen = spec.Replica(
            paused=memory.paused,
            broker_epoch=self.epochs.number(number, broker.registration.broker_epoch),
            log=memory.log,
            flushed=memory.flushed,
            high_watermark=replica.high_watermark,
            checkpoint=memory.checkpoint,
            controller_epoch=replica.controller_epoch,
            leader=replica.leader,
            leader_epoch=replica.leader_epoch,
            partition_epoch=replica.partition_epoch,
            isr=abstraction.ids(replica.isr),
            epoch_start_offset=replica.epoch_start_offset,
            remote=abstraction.remote_replicas(replica, self.machine.brokers, self.epochs),
            pending_isr=abstraction.ids(replica.pending_isr),
            outstanding=tuple(sorted(self._outstanding(hosted, memory))),
            parts=parts_of(
                ReplicaList(replica.replicas if self.lists else ()),
                CleanStop(self.epochs.number(number, broker.controller.previous_broker_epoch)),
                LogStart(log.log_start_offset, memory.log_start),
            ),
        )
        return abstraction.with_known_setting(seen, replica) if self.settings else seen

    def _absent(self, number: int, beside: spec.Replica) -> spec.Replica:
        """A broker without a replica: the metadata that it has applied."""
        broker = self.broker(number)
        image = broker.metadata.image
        told = image.partition(TOPIC, PARTITION)
        absent = spec.Replica(
            paused=self.memory[number].paused,
            broker_epoch=self.epochs.number(number, broker.registration.broker_epoch),
            parts=parts_of(CleanStop(self.epochs.number(number, broker.controller.previous_broker_epoch))),
        )
        if told is None:
            return absent
        return attrs.evolve(
            with_part(absent, ReplicaList(told.replicas)),
            controller_epoch=image.controller_epoch,
            leader_epoch=told.leader_epoch,
            partition_epoch=told.partition_epoch,
        )

    def _outstanding(self, hosted: Partition, memory: Remembered) -> Iterable[spec.FetchRequest]:
        cut = list(memory.cut)
        for fetch in hosted.outstanding:
            if fetch in cut:
                cut.remove(fetch)
            else:
                yield abstraction.fetch_request(fetch, self.leaders[fetch.leader_epoch], self.epochs)

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
                and abstraction.fetch_request(fetch, leader, self.epochs) not in but
            ]

    def start_soon(self, task: Callable[..., Awaitable[None]], *args: Any) -> None:
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

    async def _produce(self, broker: Broker, value: int, acks: int) -> None:
        leader_epoch = self.cluster.replica(broker.id, TOPIC, PARTITION).leader_epoch
        topic_id = self.cluster.controller.controller.image.topics[TOPIC].topic_id
        route = Route(TOPIC, topic_id, PARTITION, broker.id, leader_epoch, broker.address)
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


def ghosts(log: Log, beside: spec.Replica) -> tuple[spec.Record, ...]:
    """The records that a log starts after: the epoch of the last one is known, the rest is lent."""
    start = log.log_start_offset
    lent = beside.log[:start]
    if len(lent) < start or not start:
        return lent
    return (*lent[:-1], attrs.evolve(lent[-1], epoch=log.log_start_epoch))


def founding(controller: type[Controller], initial: spec.Controller) -> type[Controller]:
    """The controller, but that the partition begins as the machine says and not as placement has it."""

    class FoundingElections(controller.election_rules):  # type: ignore[name-defined, misc]
        def new_partition(
            self, image: ClusterImage, topic: str, partition: int, replicas: tuple[int, ...]
        ) -> PartitionRecord:
            record: PartitionRecord = super().new_partition(image, topic, partition, replicas)
            return attrs.evolve(record, leader=initial.leader, isr=initial.isr)

    class Founding(controller):  # type: ignore[valid-type, misc]
        election_rules = FoundingElections

    return Founding


def record_batch(value: int) -> bytes:
    """One record; all are of one size, so that a fetch can be limited to a number of records."""
    return batch([b"%06d" % value], 0)


RECORD_SIZE: Final = len(record_batch(0))

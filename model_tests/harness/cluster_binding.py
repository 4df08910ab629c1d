"""A trio cluster as one side of a lockstep: the whole broker, with its network, disk and wire format.

Theory of operation
-------------------
The cluster runs on the simulated host inside a guest run, without timers and with its replication frames held, so
that between two actions nothing moves. Each action of the specification is made to happen the way it would in life:
a frame is released, a broker's own action is triggered, a session lapses, a disk keeps so many bytes. Then everything
runs until it rests, and the state is read back from the brokers' cores, logs and checkpoints and from the held frames.

Three things cannot be read from the cluster and are remembered here: the log of a broker that is down or has not heard
of the partition yet (its next `Log.open` is compared all the same), which answers a paused broker will never get, and
what producers were told.

Two things that the specification allows a cluster never does, so it is not asked to (`can_perform`): answers of a
controller that is gone don't outlive its connections, and a truncation also syncs what it leaves, so that a crash can't
lose that.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Final

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from impl.client.errors import KafkaError
from impl.client.requests import batch, produce, produced
from impl.client.routes import Route
from impl.cluster import Cluster
from impl.controller.controller import Controller
from impl.controller.records import MetadataRecord, PartitionRecord
from impl.partition.messages import FollowerFetch
from impl.partition.registration import PartitionRegistration
from impl.ports.simulated_network import Frame
from impl.server.broker import Broker
from impl.server.partitions import Partition
from impl.wire.channel import Channel, NoAnswerError, UnreachableError
from model_tests.harness.deterministic import GuestRun
from model_tests.harness.held_frames import HeldFrames, is_held, records_of
from model_tests.lockstep import abstraction
from model_tests.lockstep.cores import CORRECT, Roles
from spec import replication_state as spec
from spec.machine import Action
from spec.replication import Replication
from spec.replication_faults import ControllerFailover, Crash

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


class ClusterBinding:
    """A cluster beside the specification; `cluster_steps` makes it move."""

    def __init__(self, machine: Replication, roles: Roles = CORRECT) -> None:
        self.machine = machine
        self.epochs = abstraction.Epochs()
        self.memory = [Remembered() for _ in range(machine.brokers)]
        self.leaders: dict[int, int] = {0: machine.initial_leader}
        """Leader epoch -> the broker that followers of that epoch fetch from."""
        self.answered: dict[int, tuple[int, bool]] = {}
        """Value -> (leader epoch in which it was appended, whether it was acknowledged)."""
        self.next_value = 0
        self._stack = AsyncExitStack()
        self.guest = GuestRun(SEED)
        self.guest.__enter__()
        try:
            self.cluster = self.guest.call(self._start, roles)
        except BaseException:
            self.close()
            raise
        self.frames = HeldFrames(self.cluster.network, self.epochs)

    async def _start(self, roles: Roles) -> Cluster:
        machine = self.machine
        cluster = Cluster(
            machine.brokers,
            SEED,
            timers=False,
            trace=False,
            replica_class=roles.replica,
            controller_class=founding(roles.controller, machine),
        )
        await self._stack.enter_async_context(cluster)
        self._nursery = await self._stack.enter_async_context(trio.open_nursery())
        await cluster.create_topic(
            TOPIC,
            config={
                "min.insync.replicas": machine.min_insync_replicas,
                "unclean.leader.election.enable": machine.unclean_leader_election,
            },
            assignments=[list(range(machine.brokers))],
        )
        for broker in cluster.brokers:
            self.epochs.register(broker.id, broker.broker_epoch)
        cluster.network.hold(is_held)
        return cluster

    def close(self) -> None:
        """Stop the cluster."""

        async def stop() -> None:
            if hasattr(self, "_nursery"):
                self._nursery.cancel_scope.cancel()
            await self._stack.aclose()

        try:
            self.guest.call(stop)
        finally:
            self.guest.__exit__(None, None, None)

    def can_perform(self, action: Action, before: spec.State) -> bool:
        if isinstance(action, ControllerFailover):
            return not before.network.alter_responses
        if isinstance(action, Crash):
            hosted = self.hosted(action.broker)
            return hosted is None or action.kept >= hosted.log.flushed_end_offset
        return True

    # --- the cluster as the specification sees it ------------------------------------------------------------------

    def abstraction(self, state: spec.State) -> spec.State:
        self.frames.sort_in(state, self.cluster.controller.controller.controller_epoch)
        return spec.State(
            replicas=tuple(self._replica(number, state.replicas[number]) for number in range(self.machine.brokers)),
            controller=abstraction.controller(
                self.cluster.controller.controller, self.registration, self.machine.brokers, self.epochs
            ),
            network=spec.Network(
                tuple(sorted(self.frames.fetches)),
                tuple(sorted(self.frames.fetch_responses)),
                tuple(sorted(self.frames.alters)),
                tuple(sorted(self.frames.alter_responses)),
            ),
            history=attrs.evolve(state.history, acknowledged=self._acknowledged(state.history)),
            spent=state.spent,
        )

    @property
    def registration(self) -> PartitionRegistration:
        registration = self.cluster.controller.controller.image.partition(TOPIC, PARTITION)
        assert registration is not None, "the partition always exists"
        return registration

    def hosted(self, number: int) -> Partition | None:
        """A running broker's partition; None while it has not heard of it."""
        return self.broker(number).partitions.get(TOPIC, PARTITION) if self.memory[number].running else None

    def broker(self, number: int) -> Broker:
        return self.cluster.broker(number)

    def _replica(self, number: int, beside: spec.Replica) -> spec.Replica:
        memory, broker, hosted = self.memory[number], self.broker(number), self.hosted(number)
        if hosted is None:
            return spec.Replica(
                running=memory.running,
                paused=memory.paused,
                broker_epoch=self.epochs.number(number, broker.broker_epoch) if memory.running else spec.NONE,
                log=memory.log,
                flushed=memory.flushed,
                high_watermark=min(memory.checkpoint, len(memory.log)) if memory.running else 0,
                checkpoint=memory.checkpoint,
            )
        replica, log = hosted.replica, hosted.log
        memory.log = records_of(log.read(0, log.size + 1)) if log.log_end_offset else ()
        flushed = log.flushed_end_offset
        memory.flushed = beside.flushed if beside.flushed <= flushed else flushed
        memory.checkpoint = broker.partitions.checkpointed_high_watermarks.get((TOPIC, PARTITION), 0)
        return spec.Replica(
            paused=memory.paused,
            broker_epoch=self.epochs.number(number, broker.broker_epoch),
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
        )

    def _outstanding(self, hosted: Partition, memory: Remembered) -> Iterable[spec.FetchRequest]:
        cut = list(memory.cut)
        for fetch in hosted.outstanding:
            if fetch in cut:
                cut.remove(fetch)
            else:
                yield abstraction.fetch_request(fetch, self.leaders[fetch.leader_epoch], self.epochs)

    def _acknowledged(self, history: spec.History) -> tuple[int, ...]:
        """As on the cores: no account is taken of leaders that an unclean election has overtaken."""
        return tuple(
            sorted(
                value
                for value, (leader_epoch, acknowledged) in self.answered.items()
                if acknowledged and (leader_epoch >= history.superseded_epoch or value in history.acknowledged)
            )
        )

    # --- what actions are made of ----------------------------------------------------------------------------------

    def note_cut(self, follower: int, leader: int) -> None:
        """The connection on which a broker fetches from `leader` breaks; one that stands still doesn't know."""
        memory, hosted = self.memory[follower], self.hosted(follower)
        if hosted is not None and memory.paused:
            memory.cut += [
                f for f in hosted.outstanding if f not in memory.cut and self.leaders[f.leader_epoch] == leader
            ]

    async def release_and_lose_the_answer(self, frame: Frame) -> None:
        """Deliver a fetch, and drop what comes back."""
        network = self.cluster.network
        before = list(network.in_flight)
        network.release(frame)
        await wait_all_tasks_blocked()
        for answer in [f for f in network.in_flight if f not in before and not f.is_request]:
            network.drop(answer)

    def produce(self, broker: int, value: int, acks: int) -> None:
        """A producer sends one record to this broker, leader or not, and notes what it is told."""
        self._nursery.start_soon(self._produce, self.broker(broker), value, acks)

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
                    self.answered[value] = leader_epoch, acks == spec.Acks.ALL
            except (KafkaError, NoAnswerError, UnreachableError):
                self.answered[value] = leader_epoch, False
            await channel.aclose()
            nursery.cancel_scope.cancel()


def founding(controller: type[Controller], machine: Replication) -> type[Controller]:
    """The controller, but that the partition begins as the machine says and not as placement has it."""
    isr = machine.initial_isr or tuple(range(machine.brokers))

    class Founding(controller):  # type: ignore[valid-type, misc]
        def _write(self, record: MetadataRecord) -> None:
            if isinstance(record, PartitionRecord):
                record = attrs.evolve(record, leader=machine.initial_leader, isr=isr)
            super()._write(record)

    return Founding


def record_batch(value: int) -> bytes:
    """One record; all are of one size, so that a fetch can be limited to a number of records."""
    return batch([b"%06d" % value], 0)


RECORD_SIZE: Final = len(record_batch(0))

"""A trio cluster in lockstep with idempotent producers: real Produce requests to whole brokers, in any order.

Theory of operation
-------------------
The producers are the same cores as in `harness.cores.producer_clients`. What they send waits here until the action
that delivers it, which opens a connection and sends the request. So requests overtake each other, arrive twice, late,
or at a former leader, as the specification says. Responses are held likewise.

In the specification a fetch is one step, of one batch, and all brokers apply the controller's decisions at once. So
each step here ends when proposals are decided and metadata applied everywhere. Leaders are elected through requests
(the replica list is put into another order, and the preferred leader elected); crashed brokers restart, register and
are unfenced in the same step. Segments fill up, producers are idle and records are deleted when the action says so.

No response says that a batch was there before: it was, if the leader's log has not grown. Two things are copied from
the specification: what the deleted batches were, and which producers were unknown when their batch was accepted.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any, Final

import attrs
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.client import requests, topic_requests
from tidegauge.impl.client.route import Route
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.ports.simulated_network import Frame
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.storage.producer_snapshot import snapshot_name
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.primitives import NO_WAIT
from tidegauge.impl.wire.produce_messages import ProduceRequest
from tidegauge.model_tests.harness.cluster.guest_cluster import GuestCluster
from tidegauge.model_tests.harness.cluster.in_flight import is_held, limited
from tidegauge.model_tests.harness.cluster.operator_requests import ask_at
from tidegauge.model_tests.harness.cluster.remembering import remembering
from tidegauge.model_tests.harness.cores.idempotence import ACKS_ALL, with_deleted
from tidegauge.model_tests.harness.cores.producer_clients import (
    PRODUCING,
    ProducerClients,
    known_ends,
    remembered,
    snapshots_of,
)
from tidegauge.model_tests.harness.cores.producer_log import batches_of, produced, snapshot_files
from tidegauge.model_tests.harness.cores.replication import CORRECT, PARTITION, TOPIC, Roles
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.idempotence import partition
from tidegauge.spec.idempotence import state as spec
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.kernel.machine import Action

SEED: Final = 1
FOR_EVER_MS: Final = 1_000_000_000
INIT_PRODUCER_ID: Final = InitProducerIdRequest(transactional_id=None, transaction_timeout=NO_WAIT)
EXPECTED_ERRORS: Final = frozenset(ErrorCode(error.value) for error in spec.Error)
ONE_BATCH: Final = 1
"""Bytes that a fetch asks for: the first batch comes however large it is."""


@attrs.define(eq=False)
class Delivery:
    """A request that a broker has received, and where its batch is in the log."""

    request: spec.ProduceRequest
    log_end_before: int
    base_offset: int = spec.NONE

    @property
    def repeated(self) -> bool:
        """Whether the batch was there before."""
        return self.base_offset < self.log_end_before


class IdempotentCluster(ProducerClients):
    """Producers and a cluster, in the machine's initial state."""

    def __init__(self, machine: Idempotence, roles: Roles = CORRECT) -> None:
        super().__init__(machine, roles)
        self.delivered: list[Delivery] = []
        """Requests that brokers have received and not responded to."""
        self.segment_full: set[int] = set()
        self._surprises: list[str] = []
        """Responses that the specification does not allow."""
        self._hosted = GuestCluster(SEED, partial(self._make, roles), self._prepare)
        self.guest, self.cluster, self.nursery = self._hosted.run, self._hosted.cluster, self._hosted.nursery

    def _make(self, roles: Roles) -> Cluster:
        replica = with_own_log_start(remembering(roles.replica, self.states))
        return Cluster(self.machine.brokers, SEED, timers=False, trace=False, replica_class=replica)

    async def _prepare(self, cluster: Cluster) -> None:
        await cluster.create_topic(TOPIC, assignments=[list(range(self.machine.brokers))])
        if self.machine.idempotent:
            for number in range(self.machine.producers):
                identity = await ask_at(cluster, cluster.broker(0).address, INIT_PRODUCER_ID)
                assert (identity.producer_id, identity.producer_epoch) == (number, 0), "ids count from 0"
        cluster.network.hold(is_held)

    def close(self) -> None:
        """Stop the cluster."""
        self._hosted.close()

    def perform(self, action: Action, before: spec.State) -> None:
        """Perform the action, and wait until every task waits. Raises what a broker raises."""
        if type(action) in PRODUCING:
            PRODUCING.perform(self, action, before)
        else:
            self.guest.call(STEPS.perform, self, action, before)
        if self._surprises:
            raise AssertionError("; ".join(self._surprises))

    def can_send(self, kind: type[Action]) -> bool:
        return kind is partition.ReceiveProduce

    def refuse(self, action: Action, before: spec.State) -> ErrorCode | None:
        """Send a batch that is refused, or known; returns the error."""
        return self.guest.call(self._refuse, action.request) if isinstance(action, partition.ReceiveProduce) else None

    async def _refuse(self, request: spec.ProduceRequest) -> ErrorCode:
        response = await self._hosted.told_at_once(self.broker(request.broker).address, self._produce(request))
        error: ErrorCode = response.topics[0].partitions[0].error_code if response else ErrorCode.none
        return error

    def can_perform(self, action: Action, before: spec.State) -> bool:
        """A crash can't lose what is synced: a segment is when the next one begins, and all that a truncation left."""
        if isinstance(action, partition.Crash) and action.kept <= len(before.replicas[action.broker].log):
            return kept_end(action, before) >= self.hosted(action.broker).log.flushed_end_offset
        return True

    @property
    def leader(self) -> int:
        return self.cluster.leader(TOPIC, PARTITION)

    def broker(self, number: int) -> Broker:
        return self.cluster.broker(number)

    def hosted(self, number: int) -> Partition:
        hosted = self.broker(number).replicas.get(TOPIC, PARTITION)
        assert hosted is not None, "every broker has a replica"
        return hosted

    # --- the cluster as the specification sees it ------------------------------------------------------------------

    def abstraction(self, expected: spec.State) -> spec.State:
        registration = self.cluster.controller.controller.image.partition(TOPIC, PARTITION)
        assert registration is not None
        return spec.State(
            producers=self.abstract_producers(),
            replicas=tuple(map(self._replica, range(self.machine.brokers), expected.replicas)),
            leader=registration.leader,
            leader_epoch=registration.leader_epoch,
            in_sync=tuple(sorted(registration.isr)),
            requests=tuple(self.requests),
            responses=tuple(sorted(self.responses)),
            acknowledged=tuple(sorted(self.acknowledged)),
            spent=expected.spent,
        )

    def _replica(self, number: int, expected: spec.Replica) -> spec.Replica:
        broker, hosted = self.broker(number), self.hosted(number)
        replica, log = hosted.replica, hosted.log
        waiting = (
            spec.Waiting(one.request, one.base_offset, one.repeated)
            for one in self.delivered
            if one.request.broker == number
        )
        return spec.Replica(
            log=with_deleted(batches_of(log), log.log_start_offset, expected.log),
            log_start=log.log_start_offset,
            high_watermark=replica.high_watermark,
            producers=remembered(log.producers),
            snapshots=snapshots_of(snapshot_files(broker.disk, log.directory)),
            segment_full=number in self.segment_full,
            forgot=log.producers.forgot,
            stuck=expected.stuck,
            epoch_start=replica.epoch_start_offset,
            known_ends=known_ends(replica, self.machine.brokers),
            waiting=tuple(dict.fromkeys(waiting)),
        )

    # --- what actions are made of ----------------------------------------------------------------------------------

    async def deliver(self, delivery: Delivery) -> None:
        """Send a batch on a connection of its own, and note the response."""
        request = delivery.request
        response = await ask_at(self.cluster, self.broker(request.broker).address, self._produce(request))
        self.delivered.remove(delivery)
        if response is None:
            return
        (part,) = response.topics[0].partitions
        if part.error_code is ErrorCode.none:
            delivery.base_offset = part.base_offset
            self.respond(request, part.error_code, part.base_offset, delivery.repeated)
        elif part.error_code in EXPECTED_ERRORS:
            self.respond(request, part.error_code)
        else:
            self._surprises.append(f"the response to {request} is {part.error_code.name}: {part.error_message}")

    def _produce(self, request: spec.ProduceRequest) -> ProduceRequest:
        """The request for the broker that it names."""
        broker = self.broker(request.broker)
        data = produced(request.batch, broker.clock.now_ms())
        topic_id = self.cluster.controller.controller.image.topics[TOPIC].topic_id
        epoch = self.hosted(broker.id).replica.leader_epoch
        route = Route(TOPIC, topic_id, PARTITION, broker.id, epoch, broker.address)
        return requests.produce(route, data, ACKS_ALL, FOR_EVER_MS)

    def locate(self, delivery: Delivery) -> None:
        """Find where the batch of a request is that waits for its response."""
        log = batches_of(self.hosted(delivery.request.broker).log)
        found = (one.base_offset for one in reversed(log) if one.batch == delivery.request.batch)
        delivery.base_offset = next(found, spec.NONE)

    def sync_snapshots(self, number: int) -> None:
        """A crash may tear a snapshot that is not synced yet; the specification's keeps all of them."""
        disk, directory = self.broker(number).disk, self.hosted(number).log.directory
        for offset in snapshot_files(disk, directory):
            file = disk.open(f"{directory}/{snapshot_name(offset)}")
            file.sync()
            file.close()

    def fill(self, number: int, size: int) -> None:
        """Leave a full segment one byte less than the next batch needs, which therefore begins a new segment."""
        if number in self.segment_full:
            log = self.hosted(number).log
            log.config = attrs.evolve(log.config, segment_bytes=log.segments[-1].size + size - 1)

    def filled(self, number: int, end_offset_before: int) -> None:
        """What was appended is in a new segment, and what was truncated is gone."""
        hosted = self.hosted(number)
        if hosted.log.log_end_offset != end_offset_before:
            self.segment_full.discard(number)
        hosted.log.config = attrs.evolve(hosted.log.config, segment_bytes=LARGE)

    async def next_frame(self, source: int, api_key: ApiKey, *, is_request: bool) -> Frame | None:
        """What a broker has sent of this kind and is held."""
        await wait_all_tasks_blocked()
        name = f"broker-{source}"
        wanted = (f for f in self.cluster.network.in_flight if f.api_key == api_key and f.is_request == is_request)
        return next((f for f in wanted if f.source == name), None)

    async def settle(self, but: int | None = None) -> None:
        """Have all proposals decided, and the metadata applied by all brokers."""
        metadata, network = self.cluster.controller.log, self.cluster.network
        for _ in range(MOST_ROUNDS):
            await wait_all_tasks_blocked()
            proposals = [frame for frame in network.in_flight if frame.api_key == ApiKey.ALTER_PARTITION]
            behind = [
                broker
                for broker in self.cluster.brokers
                if broker.id != but and broker.metadata.image.offset < metadata.end_offset
            ]
            if not proposals and not behind:
                return
            for frame in proposals:
                network.release(frame)
            for broker in behind:
                await broker.actions.apply_metadata()
        raise AssertionError("the cluster does not come to rest")

    async def operate(self, request: Any) -> Any:
        """An operator asks the controller."""
        return await ask_at(self.cluster, self.cluster.controller.address, request)


MOST_ROUNDS: Final = 20
LARGE: Final = 1 << 30


def with_own_log_start(replica: type[PartitionReplica]) -> type[PartitionReplica]:
    """The replica, whose log start follows no other's."""

    class WithOwnLogStart(replica):  # type: ignore[valid-type, misc]
        def follow_log_start(self, leader_log_start_offset: int) -> None:
            pass

    return WithOwnLogStart


def kept_end(action: partition.Crash, before: spec.State) -> int:
    """The log end offset that a crash leaves."""
    log = before.replicas[action.broker].log
    return log[action.kept - 1].end_offset if action.kept else 0


# --- one action of the partition = one function ----------------------------------------------------------------------


async def receive_produce(binding: IdempotentCluster, action: partition.ReceiveProduce, before: spec.State) -> None:
    request = action.request
    if not action.duplicate:
        binding.requests.remove(request)
    end_offset = binding.hosted(request.broker).log.log_end_offset
    delivery = Delivery(request, end_offset)
    binding.delivered.append(delivery)
    binding.fill(request.broker, len(produced(request.batch)))
    binding.nursery.start_soon(binding.deliver, delivery)
    await binding.settle()
    binding.filled(request.broker, end_offset)
    if delivery in binding.delivered:
        binding.locate(delivery)


async def fetch(binding: IdempotentCluster, action: partition.Fetch, before: spec.State) -> None:
    """The follower fetches once, or until it has truncated what its leader lacks."""
    network, follower = binding.cluster.network, binding.hosted(action.broker)
    common = binding.machine.truncation_offset(before.replicas[action.broker], before.replicas[before.leader])
    end_offset = follower.log.log_end_offset
    diverged = end_offset > common
    leader = binding.hosted(before.leader).log
    following = leader.read(end_offset, ONE_BATCH) if end_offset < leader.log_end_offset else b""
    binding.fill(action.broker, len(following))
    for _ in range(len(before.replicas[action.broker].log) + 1):
        binding.broker(action.broker).actions.send_fetch(TOPIC, PARTITION)
        asked = await binding.next_frame(action.broker, ApiKey.FETCH, is_request=True)
        assert asked is not None, "a follower fetches"
        network.release(limited(asked, ONE_BATCH))
        response = await binding.next_frame(before.leader, ApiKey.FETCH, is_request=False)
        assert response is not None, "a leader responds"
        network.release(response)
        await wait_all_tasks_blocked()
        if not diverged or follower.log.log_end_offset <= common:
            break
    await binding.settle()
    binding.filled(action.broker, end_offset)


async def elect(binding: IdempotentCluster, action: partition.Elect, before: spec.State) -> None:
    """The broker becomes the preferred leader and is elected; then the list gets its old order."""
    everybody = list(range(binding.machine.brokers))
    first = [action.broker, *(broker for broker in everybody if broker != action.broker)]
    topic_requests.check_reassigned(await binding.operate(topic_requests.reassign(TOPIC, PARTITION, first)))
    requests.check_elected(await binding.operate(requests.elect_leaders(TOPIC, PARTITION, unclean=False)))
    topic_requests.check_reassigned(await binding.operate(topic_requests.reassign(TOPIC, PARTITION, everybody)))
    await binding.settle()


async def fill_segment(binding: IdempotentCluster, action: partition.FillSegment, before: spec.State) -> None:
    binding.segment_full.add(action.broker)


async def crash(binding: IdempotentCluster, action: partition.Crash, before: spec.State) -> None:
    dead, cluster = action.broker, binding.cluster
    binding.disconnect(dead)
    forgot = binding.hosted(dead).log.producers.forgot
    binding.sync_snapshots(dead)
    await cluster.crash(dead, keep={(TOPIC, PARTITION): kept_end(action, before)})
    await cluster.expire_session(dead)
    await binding.settle(but=dead)
    await cluster.restart(dead)
    binding.hosted(dead).log.producers.forgot = forgot
    binding.segment_full.discard(dead)
    again = binding.broker(dead).actions
    await again.register()
    await again.apply_metadata()
    await again.heartbeat()
    await binding.settle()


async def delete_records(binding: IdempotentCluster, action: partition.DeleteRecords, before: spec.State) -> None:
    hosted = binding.hosted(action.broker)
    hosted.log.delete_records_before(action.offset)
    binding.broker(action.broker).replicas.flushes.write_log_starts([hosted])


async def expire(binding: IdempotentCluster, action: partition.Expire, before: spec.State) -> None:
    """The harness decides which producer has been idle for too long: this one, and no other."""
    broker = binding.broker(action.broker)
    now_ms, expiration_ms = broker.clock.now_ms(), broker.config.current.producer_id_expiration_ms
    for producer_id, entry in binding.hosted(action.broker).log.producers.entries.items():
        entry.last_timestamp = now_ms - (expiration_ms if producer_id == action.producer else 0)
    broker.actions.expire_producers()


STEPS: Final = Steps[IdempotentCluster, [spec.State], Awaitable[None]](
    on(partition.ReceiveProduce, receive_produce),
    on(partition.Fetch, fetch),
    on(partition.Elect, elect),
    on(partition.FillSegment, fill_segment),
    on(partition.Crash, crash),
    on(partition.DeleteRecords, delete_records),
    on(partition.Expire, expire),
)

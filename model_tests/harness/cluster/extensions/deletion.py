"""Deletion on a cluster: an operator deletes the topic, and brokers have logs of a former one of its name.

The former topic is made, written to and deleted before the cluster is bound, and its brokers are told nothing of that.
What they host is none of this machine's replicas: it is read as their former log. Of a deleted topic the controller
knows nothing any more; the partition as it left it is remembered here.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

import attrs
from kio.schema.errors import ErrorCode
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.client import requests, topic_requests
from tidegauge.impl.client.route import Route
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.server.broker.alter_partition import wire_request_of
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.requests.reads import follower_request, partition_responses
from tidegauge.model_tests.harness.cluster.binding import (
    FOR_EVER_MS,
    PARTITION,
    TOPIC,
    ClusterBinding,
    ClusterExtension,
    record_batch,
    stored,
)
from tidegauge.model_tests.harness.cluster.extensions import reassignment
from tidegauge.model_tests.harness.cluster.operator_requests import ask_at
from tidegauge.model_tests.harness.cluster.refusals import to_controller
from tidegauge.model_tests.harness.cores import refusals as cores
from tidegauge.model_tests.harness.cores.extensions.deletion import gone
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.extensions.deletion import (
    Deleted,
    DeleteTopic,
    Deletion,
    FetchOfFormer,
    FormerLog,
    ProposalOfFormer,
)
from tidegauge.spec.replication.extensions.reassignment import StartReassignment
from tidegauge.spec.replication.state import Controller, Error, Log, Replica, State


async def deletion(cluster: Cluster) -> ErrorCode:
    """What an operator is told who deletes the topic."""
    response = await ask_at(cluster, cluster.controller.address, topic_requests.delete_topic(TOPIC))
    error: ErrorCode = response.responses[0].error_code
    return error


async def come_back(cluster: Cluster, number: int) -> None:
    """A new process, which is unfenced and has read no metadata yet: as at the beginning of the specification's."""
    await cluster.crash(number, lose_unsynced=False)
    await cluster.restart(number)
    broker = cluster.broker(number)
    await broker.actions.register()
    await broker.controller.heartbeat(cluster.controller.log.end_offset)


async def delete_topic(binding: ClusterBinding, action: DeleteTopic, before: State) -> None:
    mine = binding.extension(DeletionOnCluster)
    mine.deleted_at, left = binding.cluster.controller.log.end_offset, gone(binding.registration)
    error = await deletion(binding.cluster)
    assert error is ErrorCode.none, error.name
    mine.gone = left


async def refuse_to_delete_topic(binding: ClusterBinding, action: DeleteTopic, before: State) -> ErrorCode:
    return await deletion(binding.cluster)


async def start_reassignment(binding: ClusterBinding, action: StartReassignment, before: State) -> None:
    """Whatever is asked of a deleted partition, it stays as it is."""
    if binding.extension(DeletionOnCluster).gone is None:
        await reassignment.start_reassignment(binding, action, before)
        return
    error = reassignment.error_of(await reassignment.response_to(binding, action.target))
    assert error is ErrorCode.unknown_topic_or_partition, error.name


async def fetch_of_former(binding: ClusterBinding, action: FetchOfFormer, before: State) -> ErrorCode:
    """The fetch of a follower, with the former topic's id."""
    former = binding.extension(DeletionOnCluster).former_id
    fetch = cores.follower_fetch(binding.epochs, binding.additions, action.request)
    message = follower_request(
        [(former, PARTITION, fetch)], max_wait_ms=0, min_bytes=0, max_bytes=1, partition_max_bytes=1
    )
    response = await binding.told_at_once(binding.broker(action.request.leader).address, message)
    if response is None:
        return ErrorCode.none
    (found,) = partition_responses(response).values()
    error: ErrorCode = found.error
    return error


async def proposal_of_former(binding: ClusterBinding, action: ProposalOfFormer, before: State) -> ErrorCode:
    former = binding.extension(DeletionOnCluster).former_id
    proposal = cores.proposal_of(binding.epochs, action.request)
    response = await to_controller(binding, wire_request_of(former, PARTITION, proposal))
    error: ErrorCode = response.topics[0].partitions[0].error_code
    return error


STEPS: Final = Steps[ClusterBinding, [State], Awaitable[None]](
    on(DeleteTopic, delete_topic),
    on(StartReassignment, start_reassignment),
)


class DeletionOnCluster(ClusterExtension):
    """A topic that may be deleted, and may have had a predecessor of its name."""

    extends = Deletion
    steps = STEPS
    refusals = Steps(
        on(DeleteTopic, refuse_to_delete_topic),
        on(FetchOfFormer, fetch_of_former),
        on(ProposalOfFormer, proposal_of_former),
    )

    def __init__(self, binding: ClusterBinding) -> None:
        super().__init__(binding)
        self.gone: PartitionRegistration | None = None
        """The partition as the controller left it."""
        self.deleted_at = 0
        """The offset of that decision."""
        self.former_id = ""
        self.former: dict[int, Log] = {}
        """What each broker has of the former topic, as last seen."""

    async def founded(self, cluster: Cluster) -> frozenset[int]:
        """The former topic is written to, and deleted; its brokers are to be told nothing of what comes."""
        machine = self.binding.machine
        former, count = Deletion.of(machine).former, Deletion.of(machine).former_records
        if not former:
            return frozenset()
        await cluster.create_topic(TOPIC, assignments=[list(former)])
        image: ClusterImage = cluster.controller.controller.image
        self.former_id = image.topics[TOPIC].topic_id
        leader = cluster.broker(former[0]).address
        route = Route(TOPIC, self.former_id, PARTITION, former[0], 0, leader)
        for value in range(count):
            requests.produced(
                await ask_at(cluster, leader, requests.produce(route, record_batch(value), 1, FOR_EVER_MS))
            )
        for follower in former[1:]:
            cluster.broker(follower).actions.send_fetch(TOPIC, PARTITION)
            await wait_all_tasks_blocked()
        for broker in former:
            cluster.broker(broker).actions.flush()
        error = await deletion(cluster)
        assert error is ErrorCode.none, error.name
        for broker in former:
            await come_back(cluster, broker)
        return frozenset(former)

    def registration(self) -> PartitionRegistration | None:
        return self.gone

    def error_without_topic(self, number: int) -> Error | None:
        """A broker that has another topic of the name, or has read that this one is gone, knows no such id."""
        return Error.UNKNOWN_TOPIC_ID if self._former(number) is not None or self._knows(number) else None

    # --- as the specification sees it ----------------------------------------------------------------------------

    def controller(self, seen: Controller) -> Controller:
        return with_part(seen, Deleted(TOPIC not in self.binding.cluster.controller.controller.image.topics))

    def replica(self, number: int, beside: Replica, seen: Replica) -> Replica:
        """A broker that is down has on its disk what it had."""
        if seen.running:
            hosted = self._former(number)
            self.former[number] = () if hosted is None else stored(hosted.log)
        seen = with_part(seen, FormerLog(self.former.get(number, ())))
        if self.gone is None or not seen.running or not self._knows(number):
            return seen
        known = attrs.evolve(
            seen,
            controller_epoch=self.binding.broker(number).metadata.image.controller_epoch,
            leader_epoch=self.gone.leader_epoch,
            partition_epoch=self.gone.partition_epoch,
        )
        return with_part(known, Deleted(is_deleted=True))

    def _knows(self, number: int) -> bool:
        """Whether the broker has read of the deletion."""
        return self.gone is not None and self.binding.broker(number).metadata.image.offset > self.deleted_at

    def _former(self, number: int) -> Partition | None:
        """What a broker that runs has of the former topic."""
        hosted = self.binding.broker(number).replicas.get(TOPIC, PARTITION)
        return hosted if hosted is not None and hosted.topic_id == self.former_id else None

"""Reads on a cluster: consumers send Fetch, ListOffsets and Metadata to brokers, leaders or not."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.client import requests
from tidegauge.impl.client.route import Route
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.server.apis.offsets import LATEST
from tidegauge.model_tests.harness.cluster.binding import TOPIC, ClusterBinding, ClusterExtension
from tidegauge.model_tests.harness.cluster.in_flight import records_of
from tidegauge.model_tests.harness.cluster.refusals import error_at
from tidegauge.model_tests.harness.cores.extensions.reads import EVERYTHING, asked
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.replication.extensions.reads import (
    Consume,
    Consumer,
    LearnLeader,
    ListLatest,
    ReadAt,
    Reads,
    with_consumer,
)
from tidegauge.spec.replication.state import Log, State


def route_in(binding: ClusterBinding, broker: int, leader_epoch: int) -> Route:
    """A way to a broker for a consumer that knows this leader epoch."""
    return attrs.evolve(binding.route_to(binding.broker(broker)), leader_epoch=leader_epoch)


async def at_once(binding: ClusterBinding, route: Route, request: Any) -> Any:
    response = await binding.told_at_once(route.address, request)
    assert response is not None, f"broker {route.leader} holds {type(request).__name__}, which may not wait"
    return response


async def read(binding: ClusterBinding, broker: int, offset: int, leader_epoch: int) -> Log | ErrorCode:
    """What a broker shows to a consumer."""
    route = route_in(binding, broker, leader_epoch)
    response = await at_once(binding, route, requests.fetch(route, offset, 0, 0, EVERYTHING))
    (data,) = response.topics[0].partitions
    error: ErrorCode = data.error_code
    return records_of(in_memory(data.records or b"")) if error is ErrorCode.none else error


async def latest(binding: ClusterBinding, broker: int, leader_epoch: int) -> int | ErrorCode:
    """The latest offset as a broker tells it."""
    route = route_in(binding, broker, leader_epoch)
    response = await at_once(binding, route, requests.list_offsets(route, LATEST))
    (data,) = response.topics[0].partitions
    found: int | ErrorCode = data.offset if data.error_code is ErrorCode.none else data.error_code
    return found


async def learn_leader(binding: ClusterBinding, action: LearnLeader, before: State) -> None:
    broker = binding.broker(action.broker)
    route = binding.route_to(broker)
    if broker.metadata.has_known_of_a_broker():
        response = await at_once(binding, route, requests.metadata((TOPIC,)))
        leader_epoch = response.topics[0].partitions[0].leader_epoch
    else:
        # It responds only once it knows of a broker that is not fenced, with no less than it knows now.
        assert await binding.told_at_once(route.address, requests.metadata((TOPIC,))) is None
        leader_epoch = known(broker.metadata.image.partition(TOPIC, 0)).leader_epoch
    consumers = binding.extension(ReadsOnCluster).consumers
    consumers[action.consumer] = attrs.evolve(consumers[action.consumer], leader_epoch=int(leader_epoch))


def known(partition: PartitionRegistration | None) -> PartitionRegistration:
    assert partition is not None, "the specification knows a leader epoch, so there is a partition"
    return partition


async def consume(binding: ClusterBinding, action: Consume, before: State) -> None:
    consumers = binding.extension(ReadsOnCluster).consumers
    consumer = consumers[action.consumer]
    records = await read(binding, action.broker, len(consumer.shown), consumer.leader_epoch)
    assert not isinstance(records, ErrorCode), f"the read is refused: {records.name}"
    consumers[action.consumer] = attrs.evolve(consumer, shown=consumer.shown + records)


async def list_latest(binding: ClusterBinding, action: ListLatest, before: State) -> None:
    consumers = binding.extension(ReadsOnCluster).consumers
    told = await latest(binding, action.broker, consumers[action.consumer].leader_epoch)
    assert not isinstance(told, ErrorCode), f"the latest offset is refused: {told.name}"
    consumers[action.consumer] = attrs.evolve(consumers[action.consumer], told=int(told))


async def refuse_to_show(binding: ClusterBinding, action: Consume | ReadAt, before: State) -> ErrorCode:
    """An empty response has no error, and tells the consumer nothing."""
    offset, leader_epoch = asked(action, binding.extension(ReadsOnCluster).consumers)
    found = await read(binding, action.broker, offset, leader_epoch)
    assert isinstance(found, ErrorCode) or not found, f"broker {action.broker} shows {found}"
    return error_at(binding, action.broker, found if isinstance(found, ErrorCode) else ErrorCode.none, action, before)


async def refuse_to_list(binding: ClusterBinding, action: ListLatest, before: State) -> ErrorCode:
    told = await latest(
        binding, action.broker, binding.extension(ReadsOnCluster).consumers[action.consumer].leader_epoch
    )
    return error_at(binding, action.broker, told if isinstance(told, ErrorCode) else ErrorCode.none, action, before)


STEPS: Final = Steps[ClusterBinding, [State], Awaitable[None]](
    on(LearnLeader, learn_leader),
    on(Consume, consume),
    on(ListLatest, list_latest),
)


class ReadsOnCluster(ClusterExtension):
    """What each consumer was shown and told."""

    extends = Reads
    steps = STEPS
    refusals = Steps(on(Consume, refuse_to_show), on(ReadAt, refuse_to_show), on(ListLatest, refuse_to_list))

    def __init__(self, binding: ClusterBinding) -> None:
        super().__init__(binding)
        self.consumers = [Consumer()] * Reads.of(binding.machine).consumers

    def state(self, seen: State) -> State:
        for number, consumer in enumerate(self.consumers):
            seen = with_consumer(seen, number, consumer)
        return seen

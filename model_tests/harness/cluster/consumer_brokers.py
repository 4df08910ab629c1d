"""The brokers of a lockstep of consumer groups (KIP-848): those of classic groups, with topics that come and go.

A batch of the group's log has many records here, so that offsets say where batches end. Each topic has a broker of its
own, which is no coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType

from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.coordinators.groups.classic.messages import Moment
from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerDeadline, ConsumerTimer
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS
from tidegauge.impl.server.broker.topic_expressions import TopicsOfImage
from tidegauge.impl.server.broker_server import Broker
from tidegauge.model_tests.harness.cluster.group_brokers import LONG_AGO, GroupBrokers, Met, OneDeadline
from tidegauge.model_tests.harness.cores.consumer_abstraction import (
    GROUP,
    REFRESH_MS,
    ConsumerRoles,
    Numbers,
    partitions_in,
    topic_name,
    with_target_of,
)
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.state import State


class ConsumerBrokers(GroupBrokers):
    """A cluster with the log of groups, and the topics of the machine."""

    def __init__(
        self,
        machine: ConsumerGroups,
        roles: ConsumerRoles,
        numbers: Numbers,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.machine = machine
        self.consumer_roles = roles
        self.numbers = numbers
        self.later_ms = 0
        """How much later it is for coordinators than on the clusters' clock."""
        settings = {
            **settings,
            "group.consumer.regex.refresh.interval.ms": str(REFRESH_MS),
            "group.consumer.assignment.interval.ms": str(numbers.interval_ms(GROUP)),
        }
        super().__init__(machine, roles, settings)  # type: ignore[arg-type]

    async def _prepare(self, cluster: Cluster) -> None:
        for number in self.coordinators:
            self._drive(cluster.broker(number))
        self.loads[0].set()
        await cluster.create_topic(CONSUMER_OFFSETS, assignments=[self.coordinators])
        for topic in range(self.machine.first_topics):
            await self._create(cluster, topic, self.machine.partitions)
        await wait_all_tasks_blocked()

    def _drive(self, broker: Broker) -> None:
        """From now on this coordinator loads when it is told to; its rules are the roles', and its time is later."""
        groups, made, known = broker.groups, broker.groups.new_state, broker.groups.consumers.known

        def new_state(index: int, leader_epoch: int) -> GroupCoordinator:
            state = made(index, leader_epoch)
            state.consumers.rules = with_target_of(self.machine, self.consumer_roles.rules, self.numbers)
            return state

        def known_later(may_describe: Callable[[str], bool], now: Moment) -> TopicsOfImage:
            return known(may_describe, now._replace(wall_ms=now.wall_ms + self.later_ms))

        self._load_when_told(groups.log)
        groups.new_state = new_state  # type: ignore[method-assign]
        groups.consumers.known = known_later  # type: ignore[method-assign]

    # --- topics ------------------------------------------------------------------------------------------------------

    async def _create(self, cluster: Cluster, topic: int, partitions: int) -> None:
        name, count = topic_name(topic), partitions_in(self.machine, topic, partitions)
        await cluster.create_topic(name, assignments=[[len(self.coordinators)]] * count)
        image = cluster.controller.controller.image
        self.numbers.ids[topic] = image.topics[name].topic_id
        self.numbers.created_at.append(image.offset)

    async def create_topic(self, before: State) -> None:
        await self._create(self.cluster, before.created, before.partitions)
        await self.settle(*range(self.cluster.size))

    async def delete_topic(self, topic: int) -> None:
        await self.cluster.delete_topic(topic_name(topic))
        await self.settle(*range(self.cluster.size))

    async def add_partition(self, before: State) -> None:
        """A topic that is yet to come has more when it comes."""
        topic = before.partitions % self.machine.topics
        if self.machine.has_topic(before, topic):
            count = partitions_in(self.machine, topic, before.partitions + 1)
            await self.cluster.create_partitions(topic_name(topic), count, assignments=[[len(self.coordinators)]])
            await self.settle(*range(self.cluster.size))

    async def change_racks(self, rack: str) -> None:
        """The broker with the topics is in another rack."""
        broker = self.cluster.broker(len(self.coordinators))
        broker.registration.rack = rack
        await broker.actions.register()
        await broker.actions.apply_metadata()
        await broker.actions.heartbeat()
        await self.settle(*range(self.cluster.size))

    # --- time and the log --------------------------------------------------------------------------------------------

    async def meet_member(self, timer: ConsumerTimer, member_id: str) -> None:
        """A deadline of a member is reached, and no other one."""
        core, groups = self.core, self.coordinator.groups
        assert core is not None, "it is loading"
        key = ConsumerDeadline(GROUP, timer, member_id)
        assert core.consumers.deadlines.get(key) is not None, f"there is no such deadline: {key}"
        core.consumers.deadlines.set(key, LONG_AGO)
        with suppress(Met):
            await groups.consumers.meet_deadlines(OneDeadline())
        await wait_all_tasks_blocked()

    async def end_resolution(self) -> None:
        """The expressions that a heartbeat has begun are resolved."""
        await self.coordinator.groups.consumers.resolve_begun()
        await wait_all_tasks_blocked()

    def let_pass(self, milliseconds: int) -> None:
        """It is so much later."""
        self.later_ms += milliseconds

    @property
    def now_ms(self) -> int:
        """The time, as coordinators have it."""
        return self.coordinator.groups.now_ms + self.later_ms

    @property
    def end(self) -> int:
        """Where the log ends at its leader."""
        return self.logged.log.log_end_offset

    @property
    def committed(self) -> int:
        return self.logged.replica.high_watermark

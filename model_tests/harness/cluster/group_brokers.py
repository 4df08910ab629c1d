"""The brokers of a lockstep of groups: the coordinators of one group, and what they do by themselves.

Theory of operation
-------------------
The group's log has one partition: one replica where all is committed at once, two where coordinators fail over. Each
record is a batch, and offsets count records; so the specification's entries have the offsets that follow the high
watermark. The topic whose offsets are committed has a broker of its own. A coordinator fails over in one of two ways,
in turns: its machine dies and returns, or it gives way to the other one, and tells who waits.

The end of a member id is random in production. Here it is the number that the specification gives. No deadline is met
by time: `meet` has one met, by the shell's own task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Final

from kio.schema.errors import ErrorCode
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup
from tidegauge.impl.coordinators.groups.classic.turn import DeadlineKey, Timer
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.log_entries import LogEntry, log_entries
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS
from tidegauge.impl.records.batches import headers
from tidegauge.impl.records.payload import decode_records
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.server.pace import Pace
from tidegauge.model_tests.harness.cluster.coordinator_brokers import MUCH, SEED, CoordinatorBrokers
from tidegauge.model_tests.harness.cores.classic_beside import TOPIC
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles
from tidegauge.model_tests.harness.cores.classic_times import GROUP
from tidegauge.spec.groups.classic.machine import ClassicGroups

CONFIG: Final = {"group.initial.rebalance.delay.ms": 600_000}
"""Much longer than a walk takes, on the clusters' clock."""


LONG_AGO: Final = -1
"""Before any deadline that a core sets."""


class Met(Exception):  # noqa: N818 - no error
    """A deadline was met."""


class OneDeadline(Pace):
    """The pace of a task that meets the first deadline that is due, and none that comes of it."""

    async def did(self, units: int) -> None:
        raise Met


class GroupBrokers(CoordinatorBrokers):
    """A cluster with the log of groups, and a topic of which one group commits offsets."""

    def __init__(
        self, machine: ClassicGroups, roles: GroupRoles, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`settings`: of the brokers, besides those that every such lockstep has."""
        self.partitions = machine.most_partitions
        self.roles = roles
        self.member_ids = 0
        """The number of the next member id."""
        self.fail_overs = 0
        of_log = 1 + machine.writes_in_two_steps
        make = partial(Cluster, 1 + of_log, SEED, {**CONFIG, **settings}, timers=False, trace=False)
        super().__init__(CONSUMER_OFFSETS, 1, of_log, make)

    async def _prepare(self, cluster: Cluster) -> None:
        for number in self.coordinators:
            self._drive(cluster.broker(number))
        self.loads[0].set()
        await cluster.create_topic(TOPIC, assignments=[[len(self.coordinators)]] * self.partitions)
        await cluster.create_topic(CONSUMER_OFFSETS, assignments=[self.coordinators])
        await wait_all_tasks_blocked()

    def _drive(self, broker: Broker) -> None:
        """From now on this coordinator loads when it is told to; its classes are the roles'."""
        groups, roles, made = broker.groups, self.roles, broker.groups.new_state

        def new_state(index: int, leader_epoch: int) -> GroupCoordinator:
            state = roles.coordinator(made(index, leader_epoch).limits)
            state.classic.rules = roles.rules()
            return state

        self._load_when_told(groups.log)
        groups.new_state = new_state  # type: ignore[method-assign]
        groups.members.unique_id = lambda: str(self.member_ids)  # type: ignore[method-assign]

    # --- the coordinator -----------------------------------------------------------------------------------------

    @property
    def core(self) -> GroupCoordinator | None:
        """What coordinates; None while it is loading."""
        led = self.coordinator.groups.led(GROUP)
        assert led is not ErrorCode.not_coordinator, "it leads the log"
        return None if isinstance(led, ErrorCode) else led.state

    @property
    def group(self) -> ClassicGroup:
        """What a loaded coordinator knows of the group; an empty one where that is nothing."""
        core = self.core
        assert core is not None, "it is loading"
        return core.classic.get(GROUP) or ClassicGroup(GROUP)

    async def meet(self, timer: Timer, member_id: str = "") -> None:
        """A deadline is reached, and no other one."""
        core, groups = self.core, self.coordinator.groups
        assert core is not None, "it is loading"
        key = DeadlineKey(GROUP, timer, member_id)
        assert core.classic.deadlines.get(key) is not None, f"there is no such deadline: {key}"
        core.classic.deadlines.set(key, LONG_AGO)
        with suppress(Met):
            await groups.members.meet_deadlines(OneDeadline())
        await wait_all_tasks_blocked()

    # --- the log -------------------------------------------------------------------------------------------------

    @property
    def logged(self) -> Partition:
        """The log at its leader."""
        return self.hosted(self.coordinator.id, CONSUMER_OFFSETS, 0)

    def entries(self) -> tuple[list[LogEntry], list[LogEntry]]:
        """What of the log is committed, and what is not."""
        committed = self.logged.replica.high_watermark
        found = list(self._entries())
        return [one for one in found if one.log_offset < committed], [
            one for one in found if one.log_offset >= committed
        ]

    def _entries(self) -> Iterator[LogEntry]:
        batches = self.logged.log.read(0, MUCH)
        for position, header in headers(batches):
            yield from log_entries(header, decode_records(batches, position), None)

    async def commit_first(self) -> None:
        """The first record that is not committed is now."""
        await self.commit_up_to(CONSUMER_OFFSETS, 0, self.logged.replica.high_watermark + 1)

    async def replace(self, kept: int) -> None:
        """Another broker coordinates, with so much of what was not committed."""
        end = self.logged.replica.high_watermark + kept
        self.fail_overs += 1
        if self.fail_overs % 2:
            await self.fail_over({0: end})
        else:
            self.loads[0] = type(self.loads[0])()
            await self.give_way(CONSUMER_OFFSETS, 0, end)
            await self.commit(CONSUMER_OFFSETS, 0)
            await self.settle(*range(self.cluster.size))

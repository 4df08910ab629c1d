"""A trio cluster in lockstep with `spec.groups.loading`: a group's records in a real log, cleaned while it is loaded.

Theory of operation
-------------------
The log of groups has two replicas at two brokers; each change of the group is a batch, in a segment of its own, and is
committed at once. The coordinator fails over at any time, during a load too: its machine dies and returns, or it gives
way to the other one, in turns. Who takes over reads a batch when it is told to, after all that the cleaner has done by
then, and serves the group when it is told to; until then it tells who asks that it is loading: who wants to join,
to leave, to go on, or to delete the group.

The records are those that the coordinator writes where its group becomes the specification's; the requests that make it
so are in the lockstep of `spec.groups.consumer`. What stays of the log when it is cleaned is the specification's
(`specified_cleaning`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Iterator, Mapping
from functools import partial
from typing import Any, Final, cast

import trio
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.coordinators.groups.consumer.records import changes
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.record_formats import GroupRecord
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS
from tidegauge.impl.records.batches import headers
from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.records.payload import decode_records
from tidegauge.impl.server.broker.coordinator_log import Led
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker.replica_manager import ReplicaManager
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.server.pace import Pace
from tidegauge.impl.server.requests.reads import PartitionRead
from tidegauge.impl.wire.primitives import TopicName, i32
from tidegauge.model_tests.harness.cluster import offset_requests as wire
from tidegauge.model_tests.harness.cluster.consumer_requests import REBALANCE
from tidegauge.model_tests.harness.cluster.coordinator_brokers import MUCH, SEED, CoordinatorBrokers
from tidegauge.model_tests.harness.cluster.specified_cleaning import clean
from tidegauge.model_tests.harness.cores.group_loading import (
    CORRECT_LOADING,
    GROUP,
    LoadingRoles,
    abstract_group,
    abstract_record,
    grouped,
)
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.groups.loading import actions
from tidegauge.spec.groups.loading.machine import GroupLoading
from tidegauge.spec.groups.loading.state import Load, State
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action

COORDINATORS: Final = 2
CONFIG: Final = {
    "log.cleaner.enable": False,
    "offsets.topic.segment.bytes": 64,
    "offsets.load.buffer.size": 1,
    "offsets.commit.timeout.ms": 1_000_000_000,
}
"""A batch has a segment of its own, and is read alone."""


class ReadWhenTold:
    """The replicas of a broker, from which a load reads the next batch with records when it is told to."""

    def __init__(self, replicas: ReplicaManager, brokers: LoadingBrokers) -> None:
        self._replicas = replicas
        self._brokers = brokers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._replicas, name)

    async def read(self, reads: list[PartitionRead], max_bytes: int) -> Any:
        """What is there once it may be read; what the cleaner has left without records counts for nothing."""
        told = self._brokers.reads
        await told.acquire()
        outcomes = await self._replicas.read(reads, max_bytes=max_bytes)
        batches = in_memory(outcomes[0].response.records)
        if not any(header.records_count for _, header in headers(batches)):
            told.release()
        return outcomes


class LoadingBrokers(CoordinatorBrokers):
    """A cluster of two brokers with the log of groups."""

    def __init__(self, roles: LoadingRoles) -> None:
        self.roles = roles
        self.reads = trio.Semaphore(0)
        """One for each batch that the load under way may read."""
        self.ends = trio.Event()
        """Set when the coordinator may serve what it has loaded."""
        self.fail_overs = 0
        make = partial(Cluster, COORDINATORS, SEED, CONFIG, timers=False, trace=False)
        super().__init__(CONSUMER_OFFSETS, 1, COORDINATORS, make)

    async def _prepare(self, cluster: Cluster) -> None:
        for number in self.coordinators:
            self._drive(cluster.broker(number))
        self.loads[0].set()
        self.ends.set()
        await cluster.create_topic(CONSUMER_OFFSETS, assignments=[self.coordinators])
        await wait_all_tasks_blocked()

    def _drive(self, broker: Broker) -> None:
        """From now on this coordinator loads batch by batch, as it is told to; its classes are the roles'."""
        groups, made, load = broker.groups, broker.groups.new_state, broker.groups.load

        def new_state(index: int, leader_epoch: int) -> GroupCoordinator:
            state = made(index, leader_epoch)
            state.consumers = state.migration.consumers = self.roles.groups(state.limits.consumer)
            return state

        async def load_when_told(led: Led[GroupCoordinator], pace: Pace) -> int:
            await self.ends.wait()
            return await load(led, pace)

        self._load_when_told(groups.log)
        groups.log._replicas = cast("ReplicaManager", ReadWhenTold(groups.log._replicas, self))
        groups.new_state = new_state  # type: ignore[method-assign]
        groups.load = load_when_told  # type: ignore[method-assign]

    # --- the log -------------------------------------------------------------------------------------------------

    @property
    def logged(self) -> Partition:
        """The log at its leader."""
        return self.hosted(self.coordinator.id, CONSUMER_OFFSETS, 0)

    @property
    def led(self) -> Led[GroupCoordinator] | None:
        """What the coordinator knows, loaded or not; None if it has given up."""
        return self.coordinator.groups.log._led.get(0)

    def records(self) -> Iterator[tuple[int, GroupRecord]]:
        """What the log has, by offset; a read ends with its segment."""
        log, offset = self.logged.log, 0
        while offset < log.log_end_offset and (batches := log.read(offset, MUCH)):
            for position, header in headers(batches):
                for record in decode_records(batches, position) if header.records_count else ():
                    yield record.offset, GroupRecord(record.key or b"", record.value)
                offset = header.next_offset

    async def write(self, records: list[GroupRecord]) -> None:
        """A batch is in the log, and committed."""
        led, log = self.led, self.coordinator.groups.log
        assert led is not None, "it coordinates"
        self.nursery.start_soon(
            partial(log.append, led, [(one.key, one.value) for one in records], lambda _: None, timeout_ms=MUCH)
        )
        await wait_all_tasks_blocked()
        await self.commit(CONSUMER_OFFSETS, 0)

    def clean(self, kept: set[int]) -> None:
        """Both replicas are cleaned."""
        for number in self.coordinators:
            clean(self.cluster.broker(number), self.hosted(number, CONSUMER_OFFSETS, 0), kept.__contains__)

    async def replace(self) -> None:
        """Another broker coordinates, and has read nothing yet."""
        self.reads, self.ends = trio.Semaphore(0), trio.Event()
        self.fail_overs += 1
        end = self.logged.log.log_end_offset
        if self.fail_overs % 2:
            await self.fail_over({0: end})
        else:
            self.loads[0] = trio.Event()
            await self.give_way(CONSUMER_OFFSETS, 0, end)
            await self.commit(CONSUMER_OFFSETS, 0)
            await self.settle(*range(self.cluster.size))
        self.loads[0].set()
        await wait_all_tasks_blocked()


class LoadingCluster:
    """A group's log at its coordinators, in the machine's initial state."""

    def __init__(self, machine: GroupLoading, roles: LoadingRoles = CORRECT_LOADING) -> None:
        self.machine = machine
        self.known: ConsumerGroup | None = None
        self.begins: list[int] = []
        """Where each batch begins in the log."""
        self.position: int | None = None
        """The batch that is read next; None if nothing is loaded."""
        self.brokers = LoadingBrokers(roles)

    def close(self) -> None:
        """Stop the cluster."""
        self.brokers.close()

    def perform(self, action: Action, before: State) -> None:
        """Perform the action, and wait until every task waits."""
        self.brokers.run.call(self._perform, action, before)

    async def _perform(self, action: Action, before: State) -> None:
        await STEPS.perform(self, action, before)
        await wait_all_tasks_blocked()

    def can_send(self, kind: type[Action]) -> bool:
        """What is refused while the coordinator loads: each request of a member, and an operator's deletion."""
        return kind in EPOCHS or kind is actions.Delete

    def refuse(self, action: Action, before: State) -> ErrorCode:
        """Send it to the coordinator; returns the error."""
        address = self.brokers.coordinator.address
        (response,) = self.brokers.run.call(self.brokers.asked, address, request_of(action))
        error: ErrorCode = getattr(response, "results", (response,))[0].error_code
        return error

    def batch_of(self, offset: int) -> int:
        """The number of the batch that a record is in."""
        return bisect_right(self.begins, offset) - 1

    # --- what is compared ----------------------------------------------------------------------------------------

    def abstraction(self, state: State) -> State:
        """The log, what is loaded of it, and the group that was loaded last or written since."""
        load, led = None, self.brokers.led
        if self.position is not None:
            found = None if led is None else led.state.consumers.committed.get(GROUP)
            load = Load(self.position, self._group(found), led is None)
        log = (abstract_record(self.batch_of(offset), record) for offset, record in self.brokers.records())
        return evolve(state, group=self._group(self.known), log=tuple(log), end=len(self.begins), load=load)

    def _group(self, group: ConsumerGroup | None) -> Any:
        return abstract_group(group, self.machine.members)

    def differences(self, state: State) -> Iterator[Change]:
        """Who asks a coordinator that is loading is told so, over the network."""
        request = wire.fetch(is_all=True, require_stable=False)
        responses = self.brokers.run.call(self.brokers.asked, self.brokers.coordinator.address, request)
        told = wire.error_of(responses[0]) if responses else None
        expected = ErrorCode.none if state.load is None else ErrorCode.coordinator_load_in_progress
        if told is not expected:
            yield Change("told", expected.name, told)


# --- what is sent though it is refused -------------------------------------------------------------------------------

EPOCHS: Final[Mapping[type[Action], int]] = {actions.Join: 0, actions.Leave: -1, actions.Advance: 1}
"""The epoch by which a heartbeat of a member says what it is."""


def request_of(action: Action) -> ConsumerGroupHeartbeatRequest | DeleteGroupsRequest:
    """The request that an action stands for."""
    if isinstance(action, actions.Delete):
        return DeleteGroupsRequest(groups_names=(GroupId(GROUP),))
    assert isinstance(action, actions.Join | actions.Leave | actions.Advance)
    return ConsumerGroupHeartbeatRequest(
        group_id=GroupId(GROUP),
        member_id=str(action.member),
        member_epoch=i32(EPOCHS[type(action)]),
        instance_id=None,
        rebalance_timeout=REBALANCE,
        subscribed_topic_names=(TopicName("topic"),),
        subscribed_topic_regex=None,
        topic_partitions=(),
    )


# --- one action of the specification = one function ------------------------------------------------------------------


async def change(cluster: LoadingCluster, action: Action, before: State) -> None:
    """The records by which the coordinator's group becomes the specification's."""
    after = grouped(cluster.machine.step(before, action).group)
    cluster.begins.append(cluster.brokers.logged.log.log_end_offset)
    await cluster.brokers.write(list(changes(cluster.known, after, GROUP)))
    cluster.known = after


async def clean_log(cluster: LoadingCluster, action: actions.Clean | actions.DropTombstones, before: State) -> None:
    kept = set(cluster.machine.step(before, action).log)
    known = list(cluster.brokers.records())
    cluster.brokers.clean(
        {offset for offset, record in known if abstract_record(cluster.batch_of(offset), record) in kept}
    )


async def begin_load(cluster: LoadingCluster, action: actions.BeginLoad, before: State) -> None:
    cluster.position = 0
    await cluster.brokers.replace()


async def read(cluster: LoadingCluster, action: actions.Read, before: State) -> None:
    """What is left of the next batch."""
    position = cluster.position
    assert position is not None, "the guard says so"
    batches = (cluster.batch_of(offset) for offset, _ in cluster.brokers.records())
    cluster.position = 1 + next(batch for batch in batches if batch >= position)
    cluster.brokers.reads.release()


async def end_load(cluster: LoadingCluster, action: actions.EndLoad, before: State) -> None:
    """All is read; perhaps the cleaner has left something without records at the log's end."""
    cluster.brokers.reads.release()
    cluster.brokers.ends.set()
    await wait_all_tasks_blocked()
    led = cluster.brokers.led
    assert led is not None, "it has given up"
    assert led.is_loaded, "it is loading"
    cluster.position, cluster.known = None, led.state.consumers.get(GROUP)


STEPS: Final = Steps[LoadingCluster, [State], Awaitable[None]](
    on(actions.Join, change),
    on(actions.Leave, change),
    on(actions.Delete, change),
    on(actions.Advance, change),
    on(actions.Clean, clean_log),
    on(actions.DropTombstones, clean_log),
    on(actions.BeginLoad, begin_load),
    on(actions.Read, read),
    on(actions.EndLoad, end_load),
)

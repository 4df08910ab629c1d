"""The brokers of a lockstep of offsets: the coordinators of one group, its input, and the coordinator of transactions.

Theory of operation
-------------------
The group's log has one partition with two replicas, at two of three brokers; each entry is a batch of one record, so
that places are offsets of the log. A coordinator fails over in one of three ways, in turns: its replica is taken away,
its machine dies and returns, or it gives way to the other one. Who takes over loads at once. The fourth broker has the
input, and coordinates transactions.

A tick is a minute on the clocks of the coordinators: a retention of offsets has no smaller unit. The coordinator lets
offsets expire when it is told to look for them, and, where the machine replays in a step of its own, it goes on behind
a commit when it is told to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, Final

import trio
from kio.schema.errors import ErrorCode
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.client import topic_requests
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.log_entries import LogEntry
from tidegauge.impl.coordinators.groups.offsets import GroupOffsets
from tidegauge.impl.coordinators.groups.requests import Ruling
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.impl.records.batches import headers
from tidegauge.impl.records.markers import marker_record
from tidegauge.impl.records.payload import ProducerIdentity, decode_records
from tidegauge.impl.server.broker.appends import COMMITTED, AppendOutcome
from tidegauge.impl.server.broker.coordinator_log import LoggedBatch
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.broker_server import Broker
from tidegauge.model_tests.harness.cluster import offset_requests as wire
from tidegauge.model_tests.harness.cluster.coordinator_brokers import MUCH, SEED, CoordinatorBrokers
from tidegauge.model_tests.harness.cluster.specified_cleaning import clean
from tidegauge.model_tests.harness.cores.offset_abstraction import KEY
from tidegauge.model_tests.harness.cores.offsets import OffsetRoles, Read, stored
from tidegauge.spec.offsets.machine import Offsets

TICK_MS: Final = 60_000
OF_LOG: Final = 3
"""Brokers that may have the group's log."""
CONFIG: Final = {
    "log.cleaner.enable": False,
    "offsets.topic.segment.bytes": 64,
    "offsets.commit.timeout.ms": 1_000_000_000,
}
"""A batch has a segment of its own."""


class OffsetBrokers(CoordinatorBrokers):
    """A cluster with the log of groups, and the topic of which one group commits offsets."""

    def __init__(self, machine: Offsets, roles: OffsetRoles) -> None:
        self.machine = machine
        self.roles = roles
        self.is_looking = False
        """Whether the coordinator may look for what expires."""
        self.applies = trio.Event()
        """Set when the coordinator may go on behind what is committed."""
        self.fail_overs = 0
        self.replicas = [0, 1]
        """The brokers that have the group's log."""
        self.former: int | None = None
        """The broker that coordinated before."""
        config = {**CONFIG, "offsets.retention.minutes": machine.retention}
        make = partial(Cluster, OF_LOG + 1, SEED, config, timers=False, trace=False)
        super().__init__(CONSUMER_OFFSETS, 1, OF_LOG, make)
        self.began_ms = self.coordinator.clock.now_ms()

    async def _prepare(self, cluster: Cluster) -> None:
        for number in self.coordinators:
            self._drive(cluster.broker(number))
        self.loads[0].set()
        await cluster.create_topic(KEY.topic, assignments=[[OF_LOG]] * (KEY.partition + 1))
        await cluster.create_topic(TRANSACTION_STATE, assignments=[[OF_LOG]])
        await cluster.create_topic(CONSUMER_OFFSETS, assignments=[self.replicas])
        await wait_all_tasks_blocked()

    def _drive(self, broker: Broker) -> None:
        """From now on this coordinator does by itself what it is told to, and no more; its classes are the roles'."""
        groups, roles, made, log = broker.groups, self.roles, broker.groups.new_state, broker.groups.log
        log.__class__ = roles.log
        append, appended = log.append, log._appended

        def new_state(index: int, leader_epoch: int) -> GroupCoordinator:
            state = roles.coordinator(made(index, leader_epoch).limits)
            state.offsets = roles.offsets()
            state.expire = partial(self._expire_when_told, state.expire)  # type: ignore[method-assign]
            return state

        def replay(state: GroupCoordinator, batch: LoggedBatch) -> int:
            state.replay(list(roles.read(batch.header, batch.records, batch.marker)))
            return 0

        async def append_as_stored(led: Any, records: Any, *args: Any, **kwargs: Any) -> ErrorCode:
            as_stored = [(key, stored(value, is_old_format=self.machine.is_old_format)) for key, value in records]
            return await append(led, as_stored, *args, **kwargs)

        async def appended_when_told(
            partition: Partition, led: Any, waiting: Any, submit: Callable[[], Awaitable[Sequence[AppendOutcome]]]
        ) -> AppendOutcome:
            async def submitted() -> Sequence[AppendOutcome]:
                outcomes = await submit()
                if self.machine.applies_later and outcomes[0].state is COMMITTED:
                    await self.applies.wait()
                return outcomes

            return await appended(partition, led, waiting, submitted)

        self._load_when_told(log)
        groups.new_state = new_state  # type: ignore[method-assign]
        groups.replay = replay  # type: ignore[method-assign]
        log.append = append_as_stored  # type: ignore[method-assign]
        log._appended = appended_when_told  # type: ignore[method-assign]

    def _expire_when_told(self, expire: Callable[[int, int], Ruling], now_ms: int, most: int) -> Ruling:
        return expire(now_ms, most) if self.is_looking else Ruling()

    # --- the coordinator -----------------------------------------------------------------------------------------

    @property
    def core(self) -> GroupCoordinator:
        """What coordinates."""
        led = self.coordinator.groups.led(KEY.group)
        assert not isinstance(led, ErrorCode), led
        return led.state

    @property
    def applied(self) -> int:
        """Up to where the coordinator has replayed what is committed."""
        led = self.coordinator.groups.led(KEY.group)
        assert not isinstance(led, ErrorCode), led
        return led.appends[0].base_offset if led.appends else self.logged.replica.high_watermark

    async def apply(self) -> None:
        """The coordinator goes on behind all that is committed."""
        self.applies.set()
        await wait_all_tasks_blocked()
        self.applies = trio.Event()

    async def expire(self) -> None:
        """The coordinator looks for what expires, once."""
        self.is_looking = True
        self.coordinator.groups.expire_offsets()
        await wait_all_tasks_blocked()
        self.is_looking = False

    def would_expire(self) -> bool:
        """Whether it would let something go now."""
        self.is_looking = True
        ruling = self.core.expire(self.coordinator.groups.now_ms, 1)
        self.is_looking = False
        return bool(ruling.offsets)

    async def producer_of(self, transactional_id: str) -> ProducerIdentity:
        """The producer that the coordinator of transactions gives to an id."""
        (response,) = await self.asked(self.cluster.broker(OF_LOG).address, wire.init(transactional_id))
        assert response.error_code is ErrorCode.none, response
        return ProducerIdentity(int(response.producer_id), int(response.producer_epoch))

    def tick(self) -> None:
        for number in self.coordinators:
            self.cluster.jump_clock(number, TICK_MS)

    def ticks(self, time_ms: int) -> int:
        """A time of the coordinators' clocks in ticks from the beginning."""
        return (time_ms - self.began_ms) // TICK_MS

    # --- the log -------------------------------------------------------------------------------------------------

    @property
    def logged(self) -> Partition:
        """The log at its leader."""
        return self.hosted(self.coordinator.id, CONSUMER_OFFSETS, 0)

    def entries(self, read: Read) -> Iterator[tuple[bytes, LogEntry]]:
        """What the log has, with the batch that it is in."""
        batches = b"".join(self._segments())
        for position, header in headers(batches):
            records = () if header.is_control else decode_records(batches, position)
            marker = marker_record(batches, position) if header.is_control else None
            for entry in read(header, records, marker):
                yield batches[position : position + header.size], entry

    def _segments(self) -> Iterator[bytes]:
        """The batches of the log; a read ends with its segment."""
        log, offset = self.logged.log, 0
        while offset < log.log_end_offset and (batches := bytes(log.read(offset, MUCH))):
            yield batches
            offset = max(header.next_offset for _, header in headers(batches))

    def clean(self, stays: Callable[[int], bool]) -> None:
        """Both replicas are cleaned."""
        for number in self.replicas:
            clean(self.cluster.broker(number), self.hosted(number, CONSUMER_OFFSETS, 0), stays)

    # --- coordinators that change --------------------------------------------------------------------------------

    def _brokers_of(self, topic: str, index: int) -> Collection[int]:
        return self.replicas

    def told_by_former(self) -> GroupOffsets | None:
        """What the last coordinator would tell still; None if it knows that it is none any more."""
        if self.former is None or self.former == self.coordinator.id:
            return None
        led = self.cluster.broker(self.former).groups.log.led(0)
        return None if isinstance(led, ErrorCode) else led.state.offsets

    async def replace(self, end: int) -> None:
        """Another broker coordinates, with the log up to this place."""
        self.former = self.coordinator.id
        ways = (self._die, self._give_way, self._lose_replica)
        self.fail_overs += 1
        await ways[(self.fail_overs + 1) % len(ways)](end)
        await self.commit(CONSUMER_OFFSETS, 0)
        await self.settle(*range(self.cluster.size))
        await self.apply()
        self.loads[0].set()
        await wait_all_tasks_blocked()

    async def _die(self, end: int) -> None:
        await self.fail_over({0: end})

    async def _give_way(self, end: int) -> None:
        self.loads[0] = trio.Event()
        await self.give_way(CONSUMER_OFFSETS, 0, end)

    async def _lose_replica(self, end: int) -> None:
        """The coordinator's replica goes to the broker that has none."""
        self.loads[0] = trio.Event()
        other = self._other(CONSUMER_OFFSETS, 0)
        (spare,) = set(self.coordinators) - set(self.replicas)
        await self.copy(CONSUMER_OFFSETS, 0, end)
        request = topic_requests.reassign(CONSUMER_OFFSETS, 0, [other, spare])
        topic_requests.check_reassigned(await self._operate(request))
        await self.settle(*self.coordinators)
        await self.copy(CONSUMER_OFFSETS, 0, end, spare)
        await self.tell_leader(CONSUMER_OFFSETS, 0, spare)
        self.replicas = [other, spare]
        await self.settle(*self.coordinators)
        assert self.coordinator.id == other, f"{self.coordinator.id} leads, and not {other}"

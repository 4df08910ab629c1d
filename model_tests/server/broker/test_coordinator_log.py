"""A coordinator's log: what is applied, in which order, and what a new leader knows."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.metadata.topic_names import TRANSACTION_STATE
from tidegauge.impl.ports.failing_disk import SYNCS, Operation
from tidegauge.impl.server.broker.coordinator_log import CoordinatorLog, Led, LoggedBatch
from tidegauge.impl.server.pace import Pace
from tidegauge.model_tests.simulated import simulated

Values = dict[bytes, bytes]
NONE = ErrorCode.none
KEY = b"key"
NO_CONFIG: Mapping[str, object] = {}


@attrs.define(eq=False)
class Remembering:
    """A coordinator that knows the latest value of each key."""

    events: list[str] = attrs.field(factory=list)

    def new_state(self, index: int, leader_epoch: int) -> Values:
        return {}

    def replay(self, state: Values, batch: LoggedBatch) -> int:
        for record in batch.records:
            assert record.key is not None
            if record.value is None:
                state.pop(record.key, None)
            else:
                state[record.key] = record.value
        return 0

    async def load(self, led: Led[Values], pace: Pace) -> int:
        return 0

    def loaded(self, led: Led[Values]) -> None:
        self.events.append(f"loaded {led.leader_epoch}")

    def resigned(self, led: Led[Values]) -> None:
        self.events.append(f"resigned {led.leader_epoch}")


@attrs.define(eq=False)
class Remembered:
    """A cluster whose brokers coordinate one partition."""

    cluster: Cluster
    logs: list[CoordinatorLog[Values]]
    coordinators: list[Remembering]

    def led(self, broker: int) -> Led[Values]:
        led = self.logs[broker].led(0)
        assert not isinstance(led, ErrorCode), led
        return led

    async def write(self, broker: int, value: bytes | None, *, timeout_ms: float = 5_000) -> ErrorCode:
        led = self.led(broker)

        def apply(_: int) -> None:
            if value is None:
                led.state.pop(KEY, None)
            else:
                led.state[KEY] = value

        return await self.logs[broker].append(led, [(KEY, value)], apply, timeout_ms=timeout_ms)

    async def until_led_by(self, broker: int) -> Led[Values]:
        await until(lambda: not isinstance(self.logs[broker].led(0), ErrorCode))
        return self.led(broker)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - virtual time, and bounded by the test
        await trio.sleep(0.1)


@asynccontextmanager
async def remembering(brokers: int = 3, topic_config: Mapping[str, object] = NO_CONFIG) -> AsyncIterator[Remembered]:
    async with Cluster(brokers=brokers, seed=1, config={"min.insync.replicas": 1}) as cluster:
        made = Remembered(cluster, [], [])
        for broker_id in range(brokers):
            watch(cluster, broker_id, made)
        await cluster.create_topic(TRANSACTION_STATE, assignments=[list(range(brokers))], config=topic_config)
        await made.until_led_by(0)
        yield made


def watch(cluster: Cluster, broker_id: int, made: Remembered) -> None:
    broker, coordinator = cluster.broker(broker_id), Remembering()
    log = CoordinatorLog(TRANSACTION_STATE, coordinator, broker.replicas, broker.tasks, broker.clock, lambda: 100)
    broker.replicas.effects.coordinators[TRANSACTION_STATE] = log.leadership_changed
    made.logs[broker_id:] = [log]
    made.coordinators[broker_id:] = [coordinator]


@simulated
async def test_a_new_leader_knows_what_was_committed_and_the_old_one_knows_nothing() -> None:
    async with remembering() as known:
        for value in (b"1", b"2" * 200, None, b"3"):
            assert await known.write(0, value) is NONE
        assert known.led(0).state == {KEY: b"3"}
        assert known.logs[1].led(0) is ErrorCode.not_coordinator
        old = known.led(0)
        known.cluster.isolate(0)
        assert (await known.until_led_by(1)).state == {KEY: b"3"}, "read in pieces, one batch larger than a piece"
        known.cluster.heal()
        await until(lambda: not old.is_led)
        assert known.logs[0].led(0) is ErrorCode.not_coordinator
        assert (
            await known.logs[0].append(old, [(KEY, b"4")], lambda _: None, timeout_ms=10) is ErrorCode.not_coordinator
        )
        assert await known.write(1, None) is NONE
        assert known.led(1).state == {}
        assert known.coordinators[0].events == ["loaded 0", "resigned 0"]


@simulated
async def test_nothing_is_applied_before_it_is_committed_and_then_it_is_though_nobody_waits() -> None:
    async with remembering() as known:
        assert await known.write(0, b"1") is NONE
        for follower in (1, 2):
            known.cluster.block(follower, 0)
        assert await known.write(0, b"2", timeout_ms=100) is ErrorCode.coordinator_not_available
        assert known.led(0).state == {KEY: b"1"}
        known.cluster.heal()
        await until(lambda: known.led(0).state == {KEY: b"2"})


@simulated
async def test_appends_are_applied_in_the_order_of_the_log() -> None:
    async with remembering() as known:
        applied: list[int] = []
        led = known.led(0)

        async def append(nth: int) -> None:
            value = str(nth).encode()
            assert await known.logs[0].append(led, [(KEY, value)], applied.append, timeout_ms=5_000) is NONE

        async with trio.open_nursery() as nursery:
            for nth in range(8):
                nursery.start_soon(append, nth)
        assert applied == list(range(8)), "offsets, whichever task woke first"


@simulated
async def test_a_leader_that_does_not_know_what_is_committed_loads_nothing_yet() -> None:
    async with remembering() as known:
        assert await known.write(0, b"1") is NONE
        known.cluster.isolate(0)
        known.cluster.block(2, 1)
        replica = known.cluster.broker(1).replicas.get(TRANSACTION_STATE, 0)
        assert replica is not None
        await until(lambda: replica.replica.is_leader)
        assert known.logs[1].led(0) is ErrorCode.coordinator_load_in_progress
        known.cluster.heal()
        assert (await known.until_led_by(1)).state == {KEY: b"1"}


@simulated
async def test_a_restarted_broker_loads_its_log() -> None:
    async with remembering(brokers=1) as known:
        for value in (b"1", b"2"):
            assert await known.write(0, value) is NONE
        await known.cluster.crash(0, lose_unsynced=False)
        await known.cluster.restart(0)
        watch(known.cluster, 0, known)
        assert (await known.until_led_by(0)).state == {KEY: b"2"}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE])
@simulated
async def test_what_is_written_and_cannot_be_flushed_is_applied_though_nothing_is_appended_after_it(
    number: int,
) -> None:
    """The coordinator waits for it, and who asks is told to try again: it must not be waited for in vain."""
    async with remembering(1, {"flush.messages": 1}) as known:
        assert await known.write(0, b"1") is NONE
        disk = known.cluster.host.disk(broker_name(0))
        disk.fail(f"data/{TRANSACTION_STATE}-0", operations=SYNCS, error=number)
        assert await known.write(0, b"2") is ErrorCode.not_coordinator
        disk.heal()
        with trio.fail_after(30):
            await known.until_led_by(0)
            await until(lambda: known.led(0).state == {KEY: b"2"})
        assert not known.led(0).appends
        assert await known.write(0, b"3") is NONE


@pytest.mark.parametrize("operation", [Operation.OPEN, Operation.READ])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.ENOMEM])
@simulated
async def test_a_log_that_cannot_be_read_for_now_is_loaded_when_it_can(
    number: int, operation: Operation, caplog: pytest.LogCaptureFixture
) -> None:
    async with remembering(1) as known:
        for value in (b"1", b"2" * 200, b"3"):
            assert await known.write(0, value) is NONE
        disk = known.cluster.host.disk(broker_name(0))
        disk.fail(f"data/{TRANSACTION_STATE}-0", operations={operation}, error=number)
        partition = known.cluster.broker(0).replicas.get(TRANSACTION_STATE, 0)
        assert partition is not None
        known.logs[0].leadership_changed(partition)
        await trio.sleep(60)
        disk.heal()
        with trio.fail_after(30):
            assert (await known.until_led_by(0)).state == {KEY: b"3"}
        assert await known.write(0, b"4") is NONE
        assert known.coordinators[0].events == ["loaded 0", "resigned 0", "loaded 0"]
        told = [record for record in caplog.records if record.getMessage().startswith("coordinator not loaded")]
        assert len(told) == (operation is Operation.READ)


@simulated
async def test_what_was_refused_is_never_applied_when_others_take_its_offsets() -> None:
    async with remembering(1) as known:
        led, log, applied = known.led(0), known.logs[0], list[str]()
        known.cluster.fill_disk(0)
        refused = await log.append(led, [(KEY, b"1")], lambda _: applied.append("refused"), timeout_ms=1_000)
        assert refused is ErrorCode.not_coordinator
        known.cluster.heal_disk(0)
        assert await log.append(led, [(KEY, b"2")], lambda _: applied.append("written"), timeout_ms=1_000) is NONE
        assert applied == ["written"]
        assert not led.appends

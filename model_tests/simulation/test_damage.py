"""Simulated clusters of three with one disk that damages logs: nothing acknowledged is lost, and every trace is one."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import attrs
import pytest
import trio
import trio.lowlevel

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.server.trace.events import ControllerDecision, ReceiveFetchResponse, Register, RepairReplica
from tidegauge.impl.server.trace.tracer import Trace
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_directory import LogDirectory
from tidegauge.linearizability.check import check
from tidegauge.model_tests.harness.simulation.disks import SPARED, BadDisk, medium
from tidegauge.model_tests.harness.simulation.faults import Injector
from tidegauge.model_tests.harness.simulation.options import DAMAGED, Fault, Options, draw
from tidegauge.model_tests.harness.simulation.simulation import Simulated, simulate, traced
from tidegauge.model_tests.harness.simulation.workload import TOPIC
from tidegauge.model_tests.harness.validation.followed import Settings
from tidegauge.model_tests.harness.validation.validation import validate
from tidegauge.model_tests.simulated import simulated

FAULTS = {
    Fault.DAMAGE: 3,
    Fault.ROT: 3,
    Fault.MET_ROT: 5,
    Fault.LYING_SYNC: 3,
    Fault.SLOW_SYNC: 2,
    Fault.CRASH: 2,
    Fault.PAUSE: 1,
    Fault.ISOLATE: 1,
    Fault.EXPIRY: 1,
    Fault.PREFERRED: 1,
}
SEEDS = (29, 61)
PRODUCER_ID = 43
"""Where it stands in a batch."""
TWO_COPIES = Options(seed=1, brokers=3, replication_factor=2, partitions=1)


def options_of(seed: int) -> Options:
    return Options(
        seed=seed,
        retention_bytes=None if seed % 2 else 100_000,  # with it segments are short
        flush_interval_ms=50,
        faults=FAULTS,
        idempotent=1,
        fault_interval=0.4,
        duration=4.0,
    )


def run(seed: int) -> Simulated:
    return simulate(options_of(seed))


def hold(seed: int) -> Counter[str]:
    """Check one run; returns the actions that its traces were taken for."""
    simulated = run(seed)
    assert simulated.holds, simulated.failures
    assert check(simulated.operations).valid
    assert simulated.declared_lost == 0 or all_have_died(traced(options_of(seed)))
    return sum((validated.actions for validated in simulated.validated), Counter())


def all_have_died(trace: Trace) -> bool:
    """Whether every broker has registered anew since some partition's replicas were all in sync: no copy was kept."""
    anew: dict[tuple[str, int], set[int]] = {}
    for event in trace:
        match event.decision:
            case Register(broker=broker):
                for brokers in anew.values():
                    brokers.add(broker)
        for one in event.decision.changed if isinstance(event.decision, ControllerDecision) else ():
            if one.registration.isr == set(one.registration.replicas):
                anew[one.topic, one.partition] = set()
        if any(len(brokers) == 3 for brokers in anew.values()):
            return True
    return False


def test_one_damaging_disk_of_three_costs_no_acknowledged_record() -> None:
    seen = sum(map(hold, SEEDS), Counter())
    assert seen["DamageLog"] and seen["RepairLog"] and seen["LoseEnd"], seen  # noqa: PT018
    assert seen["MeetDamage"] and seen["ReportDamaged"] and seen["RepairWhileRunning"], seen  # noqa: PT018


@asynccontextmanager
async def two_copies() -> AsyncIterator[tuple[Cluster, int, int]]:
    """A cluster whose one partition is on the broker that damages and on another, and those two others."""
    async with Cluster(3, 1, TWO_COPIES.config()) as cluster:
        await cluster.create_topic(TOPIC, 1, 2, config=TWO_COPIES.topic_config())
        await cluster.wait_for_isr(TOPIC, cluster.replicas(TOPIC, 0))
        (other,) = set(cluster.replicas(TOPIC, 0)) - {DAMAGED}
        (third,) = {1, 2} - {other}
        yield cluster, other, third


@simulated
async def test_a_disk_damages_only_while_another_copy_is_good_and_that_one_is_spared_until_all_is_in_sync() -> None:
    async with two_copies() as (cluster, other, third):
        busy: set[int] = {other}
        disk = BadDisk(cluster, TWO_COPIES, Random(1), busy)
        assert not disk.allows(), "a fault has the other copy in its hands"
        busy.clear()
        await cluster.crash(other)
        assert not disk.allows(), "the other copy is down"
        await cluster.restart(other)
        assert not disk.allows(), "its process has yet to register"
        assert (disk.counted[SPARED], disk.is_suspect()) == (3, False)
        await cluster.broker(other).unfenced.wait()
        await cluster.wait_for_isr(TOPIC, cluster.replicas(TOPIC, 0))
        assert not disk.spares(other), "nothing is damaged"
        assert disk.allows()
        disk.lies = True
        assert [disk.spares(broker) for broker in (DAMAGED, other, third)] == [False, True, False]
        disk.lies = False
        assert not disk.spares(other), "broker 0 is in sync, and nothing rots or lies"


@simulated
async def test_the_session_of_the_last_good_copy_is_not_expired() -> None:
    async with two_copies() as (cluster, other, _):
        injector = Injector(cluster, TWO_COPIES)
        assert injector.disk.allows()
        injector.disk.lies = True
        for _ in range(20):
            await injector.expire_session()
            assert other in cluster.isr(TOPIC, 0)
        assert 0 < injector.injected[Fault.EXPIRY.value] < 20
        injector.disk.lies = False
        await cluster.wait_for_isr(TOPIC, cluster.replicas(TOPIC, 0))
        while other in cluster.isr(TOPIC, 0):
            await injector.expire_session()


@simulated
async def test_no_link_of_the_last_good_copy_or_of_the_controller_is_cut() -> None:
    async with two_copies() as (cluster, other, third):
        injector = Injector(cluster, TWO_COPIES)
        disk = injector.disk
        assert disk.allows()
        disk.lies = True
        touching = (other, third), (third, other), ("controller", third), (DAMAGED, other), (DAMAGED, third), (third,)
        assert [disk.spares(*nodes) for nodes in touching] == [True, True, True, True, False, False]
        for _ in range(20):
            for cut in (injector.isolate, injector.one_way, injector.split):
                await cut()
            assert other in cluster.isr(TOPIC, 0)
        assert disk.counted[SPARED] > 20
        disk.lies = False
        await cluster.wait_for_isr(TOPIC, cluster.replicas(TOPIC, 0))
        async with trio.open_nursery() as nursery:
            for _ in range(9):
                nursery.start_soon(injector.isolate)
            await trio.lowlevel.checkpoint()
            assert not disk.allows(), "its links are cut"


@simulated
async def test_a_follower_that_refuses_what_has_rotten_at_its_leader_behaves_as_specified() -> None:
    options = Options(seed=1, brokers=3, replication_factor=3, partitions=3, flush_interval_ms=None)
    async with Cluster(3, 1, options.config(), trace=True) as cluster:
        await cluster.create_topic(TOPIC, 3, 3, config=options.topic_config())
        (index,) = (one for one in range(3) if cluster.leader(TOPIC, one) == DAMAGED)
        await cluster.crash(1)
        async with cluster.client("producer") as client:
            await client.produce(TOPIC, b"0", partition=index, acks=1)
        await cluster.wait_for_isr(TOPIC, (DAMAGED, 2), partition=index)
        disk = medium(cluster, DAMAGED)
        (path,) = (path for path in disk.files() if f"/{TOPIC}-{index}/" in path and path.endswith(".log"))
        disk.flip_bit(path, disk.size(path) - 1, 0)
        await cluster.restart(1)
        while cluster.leader(TOPIC, index) == DAMAGED:  # noqa: ASYNC110 - it is given up when asked twice
            await trio.sleep(0.01)
        responses = [one.decision for one in cluster.trace if isinstance(one.decision, ReceiveFetchResponse)]
        assert any(one.outcome.records and not one.accepted for one in responses)
        found = validate(cluster.trace, TOPIC, index, Settings(2, damaging=frozenset({DAMAGED})))
        assert found.holds, str(found)
        refused = validate(cluster.trace, TOPIC, index, Settings(2, damaging=frozenset({1, 2}))).mismatch
        assert refused is not None
        assert "log_end_offset is 0 at broker 1, 1 in the specification" in refused.reason


@simulated
async def test_a_repair_that_meets_more_damage_goes_on_to_that_and_behaves_as_specified() -> None:
    options = Options(seed=1, brokers=3, replication_factor=3, partitions=1, flush_interval_ms=50)
    async with Cluster(3, 1, options.config(), trace=True) as cluster:
        await cluster.create_topic(TOPIC, 1, 3, config=options.topic_config())
        async with cluster.client("producer") as client:
            for value in (b"0", b"1"):
                await client.produce(TOPIC, value, partition=0, acks=-1)
        await trio.sleep(1)
        await cluster.crash(DAMAGED)
        disk = medium(cluster, DAMAGED)
        (path,) = (path for path in disk.files() if f"/{TOPIC}-0/" in path and path.endswith(".log"))
        disk.flip_bit(path, disk.size(path) - 1)
        repair = Log.repair

        def rotten_meanwhile(log: Log) -> int:
            if log.damage.start:
                disk.flip_bit(path, PRODUCER_ID)
            return repair(log)

        with patch.object(Log, "repair", rotten_meanwhile):
            await cluster.restart(DAMAGED)
            await cluster.broker(DAMAGED).unfenced.wait()
            await cluster.wait_for_isr(TOPIC, (0, 1, 2))
        repaired = [one.decision.state for one in cluster.trace if isinstance(one.decision, RepairReplica)]
        assert [state.log_end_offset for state in repaired] == [0]
        found = validate(cluster.trace, TOPIC, 0, Settings(2, damaging=frozenset({DAMAGED})))
        assert found.holds, str(found)
        assert found.actions["RepairLog"] == found.actions["MeetDamage"] == found.actions["RepairWhileRunning"] == 1


@pytest.mark.parametrize(
    ("fault", "cost"),
    [
        (Fault.POWER_CUT, "a sync that had lied cost records"),
        (Fault.LOST_LOG, "a log was gone when its broker started"),
    ],
)
def test_damage_that_waits_for_its_moment_costs_the_disk_something_and_the_cluster_nothing(
    fault: Fault, cost: str
) -> None:
    options = attrs.evolve(options_of(1), faults={fault: 1}, duration=2.0)
    ran = simulate(options)
    assert ran.holds, ran.failures
    assert check(ran.operations).valid
    assert ran.declared_lost == 0
    assert ran.faults.keys() == {fault.value}
    assert ran.sometimes[cost] >= 2, f"in {ran.faults}"
    assert not simulate(attrs.evolve(options, faults={Fault.SLOW_SYNC: 1})).sometimes[cost]


def test_damage_that_is_ignored_is_found_by_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that cuts its log before the damage without a word, and registers as one that stopped cleanly."""

    def cut(log: Log) -> None:
        if log.damage:
            log.repair()

    opened = LogDirectory.open_log

    def silently(self: LogDirectory, *args: Any, **kwargs: Any) -> Log:
        log = opened(self, *args, **kwargs)
        cut(log)
        return log

    monkeypatch.setattr(LogDirectory, "open_log", silently)
    assert any(not run(seed).holds for seed in SEEDS)


def test_a_disk_that_is_not_to_damage_anything_may_lose_nothing() -> None:
    """What only a damaging disk explains is refused by the validator for every other one."""
    options = attrs.evolve(options_of(SEEDS[0]), partitions=1)
    trace = traced(options)
    found = validate(trace, TOPIC, 0, Settings(2, damaging=options.damaging))
    assert found.holds
    assert found.actions["DamageLog"]
    refused = validate(trace, TOPIC, 0, Settings(2, damaging=frozenset({1, 2})))
    assert refused.mismatch is not None
    assert "the disk of broker 0 keeps what it has" in refused.mismatch.reason


def test_a_leader_epoch_that_has_changed_beside_a_damaged_batch_is_told_by_the_checkpoint() -> None:
    drawn = draw(842)
    assert Fault.ROT in drawn.faults
    assert simulate(drawn).holds


@pytest.mark.deep
def test_damage_below_a_log_start_is_the_reason_for_no_repair() -> None:
    """Records were deleted, and what rots lies below: a repair for that would be no behaviour."""
    drawn = draw(5220)
    assert Fault.DELETION in drawn.faults
    assert simulate(drawn).holds


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(11, 150))
def test_one_damaging_disk_of_three_costs_no_acknowledged_record_with_any_seed(seed: int) -> None:
    hold(seed)

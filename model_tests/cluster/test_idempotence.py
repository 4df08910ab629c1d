"""Idempotent native producers on simulated clusters: under every fault nothing is doubled, reordered or skipped."""

from __future__ import annotations

from collections import Counter
from itertools import count, pairwise
from random import Random

import attrs
import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import ClientConfig
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.idempotent import IdempotentProducer
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.faults.injections import Disconnection, Failure, RequestFilter
from tidegauge.impl.partition.messages import Appended
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.records.checked import Batches
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.linearizability.check import Verdict, check
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.deterministic import run_deterministically
from tidegauge.model_tests.harness.simulation.faults import Injector
from tidegauge.model_tests.harness.simulation.options import Fault, Options
from tidegauge.model_tests.harness.simulation.recorder import Recorder
from tidegauge.model_tests.harness.simulation.settling import unsettled
from tidegauge.model_tests.harness.simulation.simulation import CONVERGES_WITHIN
from tidegauge.model_tests.harness.simulation.workload import TOPIC
from tidegauge.model_tests.simulated import simulated

CLIENT = ClientConfig(request_timeout_ms=600, default_api_timeout_ms=8_000, retry_backoff_ms=50)
FAULTS = {Fault.CRASH: 2, Fault.RESET: 3, Fault.PREFERRED: 2, Fault.ISOLATE: 1, Fault.PAUSE: 1, Fault.CONTROLLER: 1}
PRODUCERS = 2
TASKS = 4
"""Of each producer, so that several of its batches are in flight."""


@attrs.define
class Run:
    """What producers were told, and what the log holds in the end."""

    recorder: Recorder
    acknowledged: dict[int, int] = attrs.field(factory=dict)
    """Value -> offset."""
    unknown: set[int] = attrs.field(factory=set)
    log: list[int] = attrs.field(factory=list)
    repeats: int = 0
    """Batches that came to a leader that had them."""

    def replica_class(self) -> type[PartitionReplica]:
        """A replica that counts its repeats."""
        run = self

        class Counting(PartitionReplica):
            def append(
                self, batches: Batches, acks: int, now_ms: int, origin: Origin = Origin.CLIENT
            ) -> Appended | ErrorCode:
                result = super().append(batches, acks, now_ms, origin)
                run.repeats += isinstance(result, Appended) and result.repeated
                return result

        return Counting


def producer_of(value: int) -> int:
    return value % PRODUCERS


async def keep_producing(cluster: Cluster, run: Run, number: int, seed: int) -> None:
    values = count(number, PRODUCERS)
    name = f"producer-{number}"
    async with cluster.client(name, config=CLIENT, observer=run.recorder) as client:
        for broker in range(cluster.size):
            cluster.duplicate(0.1, name, broker)
        producer = IdempotentProducer(client, TOPIC)

        async def one_after_the_other(rng: Random) -> None:
            while True:
                mine = [next(values) for _ in range(rng.choice((1, 1, 2)))]
                try:
                    offset = await producer.produce(*(b"%d" % value for value in mine))
                    run.acknowledged.update(zip(mine, range(offset, offset + len(mine)), strict=True))
                except KafkaError as error:
                    run.unknown.update(mine if error.maybe_done else ())
                except trio.Cancelled:
                    run.unknown.update(mine)
                    raise
                await trio.sleep(rng.uniform(0, 0.1))

        async with trio.open_nursery() as nursery:
            for task in range(TASKS):
                nursery.start_soon(one_after_the_other, Random(f"{number}/{task}/{seed}"))


def harmed(seed: int) -> Run:
    """A cluster in which things go wrong for a while, and that then heals."""
    options = Options(
        seed, partitions=1, loss=0.02, delay_ms=8.0, duplicate=0.03, reorder=0.02, duration=6.0, faults=FAULTS,
        flush_interval_ms=200,
    )  # fmt: skip
    run = Run(Recorder(seed))

    async def play() -> None:
        cluster = Cluster(options.brokers, seed, options.config(), replica_class=run.replica_class())
        injector = Injector(cluster, options)
        async with cluster:
            await cluster.create_topic(TOPIC, config={"min.insync.replicas": options.min_insync_replicas})
            injector.disturb_links()
            with trio.move_on_after(options.duration):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(injector.run)
                    for number in range(PRODUCERS):
                        nursery.start_soon(keep_producing, cluster, run, number, seed)
            await injector.heal()
            with trio.fail_after(CONVERGES_WITHIN):
                while unsettled(cluster, options):  # noqa: ASYNC110 - there is no one event to wait for
                    await trio.sleep(0.05)
            async with cluster.client("reader", observer=run.recorder) as client:
                while records := (await client.fetch(TOPIC, len(run.log))).records:
                    run.log += [int(record.value or b"") for record in records]

    run_deterministically(play, seed=seed)
    return run


@pytest.mark.parametrize("seed", range(1, 1 + amount(2, deep=5)))
def test_under_faults_nothing_is_doubled_reordered_or_skipped(seed: int) -> None:
    run = harmed(seed)
    assert len(run.acknowledged) > 25, "else the run shows little"
    assert run.repeats, "else the run shows little"
    assert [value for value, times in Counter(run.log).items() if times > 1] == []
    for value, offset in run.acknowledged.items():
        assert run.log[offset] == value
    for number in range(PRODUCERS):
        own = [value for value in run.log if producer_of(value) == number]
        assert all(one < other for one, other in pairwise(own)), "a batch was overtaken"
    assert set(run.log) <= run.acknowledged.keys() | run.unknown
    assert check(run.recorder.history.operations()).of(seed) is Verdict.VALID


@simulated
async def test_a_lost_response_does_not_double_a_batch() -> None:
    async with Cluster(brokers=1, seed=3) as cluster:
        await cluster.create_topic(TOPIC)
        async with cluster.client("producer", config=CLIENT) as client:
            producer = IdempotentProducer(client, TOPIC)
            assert await producer.produce(b"0") == 0
            cluster.drop(1.0, 0, "producer")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(producer.produce, b"1", b"2")
                await trio.sleep(1)
                cluster.clear_faults()
            assert await producer.produce(b"3") == 3
            assert (await client.fetch(TOPIC, 0)).values == (b"0", b"1", b"2", b"3")


@simulated
async def test_batches_in_flight_land_in_the_order_of_the_calls() -> None:
    async with Cluster(brokers=3, seed=3) as cluster:
        await cluster.create_topic(TOPIC)
        cluster.delay(0, 20)
        async with cluster.client("producer", config=CLIENT) as client:
            producer = IdempotentProducer(client, TOPIC)
            async with trio.open_nursery() as nursery:
                for number in range(40):
                    nursery.start_soon(producer.produce, b"%d" % number)
                    await trio.lowlevel.checkpoint()
            assert [int(value or b"") for value in (await client.fetch(TOPIC, 0)).values] == list(range(40))


@simulated
async def test_a_line_that_is_given_up_takes_all_along_and_begins_a_new_epoch() -> None:
    async with Cluster(brokers=1, seed=3) as cluster:
        await cluster.create_topic(TOPIC)
        async with cluster.client("producer", config=CLIENT) as client:
            producer = IdempotentProducer(client, TOPIC)
            await producer.produce(b"0")
            cluster.isolate("producer")
            failures: list[KafkaError] = []

            async def fails(value: bytes, timeout_ms: float) -> None:
                with pytest.raises(KafkaError) as caught:
                    await producer.produce(value, timeout_ms=timeout_ms)
                failures.append(caught.value)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(fails, b"1", 2_000)
                nursery.start_soon(fails, b"2", 60_000)
            assert [(f.code, f.maybe_done) for f in failures] == [(ErrorCode.request_timed_out, True)] * 2
            cluster.heal()
            await producer.produce(b"3")
            values = (await client.fetch(TOPIC, 0)).values
            assert (values[0], values[-1]) == (b"0", b"3")
            partition = cluster.broker(0).replicas.get(TOPIC, 0)
            assert partition is not None
            assert partition.replica.producers.entries[producer.producer_id].epoch == 1


@simulated
async def test_a_caller_that_is_cancelled_holds_nobody_up() -> None:
    async with Cluster(brokers=1, seed=3) as cluster:
        await cluster.create_topic(TOPIC)
        async with cluster.client("producer", config=CLIENT) as client:
            producer = IdempotentProducer(client, TOPIC)
            cluster.isolate(0)
            with trio.move_on_after(0.1):
                await producer.produce(b"0")
            cluster.heal()
            with trio.fail_after(20):
                await producer.produce(b"1")


@simulated
async def test_what_the_leader_will_never_take_is_told_at_once() -> None:
    async with Cluster(brokers=1, seed=3) as cluster:
        await cluster.create_topic(TOPIC, config={"max.message.bytes": 200})
        async with cluster.client("producer", config=CLIENT) as client:
            producer = IdempotentProducer(client, TOPIC)
            await producer.produce(b"0")
            with pytest.raises(KafkaError) as caught:
                await producer.produce(b"x" * 300)
            assert (caught.value.code, caught.value.maybe_done) == (ErrorCode.message_too_large, False)
            assert await producer.produce(b"1") == 1


@simulated
async def test_a_repeat_that_is_refused_says_nothing_of_the_attempt_before_it() -> None:
    failures: list[KafkaError] = []

    async def produce(producer: IdempotentProducer) -> None:
        try:
            await producer.produce(b"0")
        except KafkaError as error:
            failures.append(error)

    async with Cluster(brokers=1, seed=3) as cluster:
        await cluster.create_topic(TOPIC)
        async with cluster.client("producer", config=CLIENT) as client, trio.open_nursery() as nursery:
            where = RequestFilter(apis={ApiKey.PRODUCE})
            lost = Disconnection(where=where, count=1, after=True)
            cluster.request_faults.inject(lost)
            nursery.start_soon(produce, IdempotentProducer(client, TOPIC))
            while lost.remaining:  # noqa: ASYNC110 - an injection tells nobody
                await trio.sleep(0.01)
            cluster.request_faults.inject(Failure(where=where, count=1, error=ErrorCode.invalid_timestamp))
        async with cluster.client("consumer", config=CLIENT) as client:
            assert (await client.fetch(TOPIC, 0)).values == (b"0",)
    (failed,) = failures
    assert (failed.code, failed.maybe_done) == (ErrorCode.invalid_timestamp, True)
    assert "an earlier attempt may have been appended" in str(failed)


def test_more_in_flight_than_a_leader_remembers_is_refused() -> None:
    with pytest.raises(ValueError, match="max_in_flight is 6"):
        IdempotentProducer(None, TOPIC, max_in_flight=6)  # type: ignore[arg-type]

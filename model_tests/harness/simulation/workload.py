"""Clients at work: producers, consumers and readers of end offsets, each a sequential process of its own.

Values are numbers, unique in the run. A plain producer never sends a record again: an attempt whose outcome is unknown
stays one operation, and what follows is new. An idempotent one sends batches again until they are acknowledged or their
time is over, several at once; it dies now and then and comes back with another id, and what was in flight is unknown.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from random import Random

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import EARLIEST, Client, ClientConfig
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.idempotent import IdempotentProducer
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.model_tests.harness.simulation.lines import Lines
from tidegauge.model_tests.harness.simulation.options import Options
from tidegauge.model_tests.harness.simulation.recorder import Recorder
from tidegauge.model_tests.harness.simulation.transacting import Transacting

TOPIC = "orders"
CLIENT = ClientConfig(request_timeout_ms=600, default_api_timeout_ms=1_500, retry_backoff_ms=50)
DENSE_CLIENT = ClientConfig(request_timeout_ms=250, default_api_timeout_ms=600, retry_backoff_ms=20)

LIVES = (0.2, 0.5, 2.0)
"""How long an idempotent producer lives, in durations of the run."""
MOST_AT_ONCE = 12
"""Batches of one, to all partitions, that are in flight or wait for their turn."""
IDLE_SHARE = 0.03
"""How often one is idle after a batch, where idle producers are forgotten."""


class Workload:
    """The clients of one run."""

    def __init__(self, cluster: Cluster, options: Options, recorder: Recorder, lines: Lines) -> None:
        self.cluster = cluster
        self.lines = lines
        self.options = options
        self.recorder = recorder
        self.values = count()
        self.transacting = Transacting(TOPIC, options, recorder, self.unobserved, self.values.__next__)

    def client(self, name: str) -> Client:
        return self.cluster.client(name, config=self._config, observer=self.recorder)

    def unobserved(self, name: str) -> Client:
        """For who tells the recorder himself."""
        return self.cluster.client(name, config=self._config)

    @property
    def _config(self) -> ClientConfig:
        return DENSE_CLIENT if self.options.dense else CLIENT

    async def run(self) -> None:
        """All clients, until cancelled."""
        async with trio.open_nursery() as nursery:
            for number in range(self.options.producers):
                produce = self.produce_idempotently if number < self.options.idempotent else self.produce
                nursery.start_soon(produce, f"producer-{number}")
            for number in range(self.options.consumers):
                nursery.start_soon(self.consume, f"consumer-{number}")
            for number in range(self.options.readers):
                nursery.start_soon(self.read_end_offsets, f"reader-{number}")
            if self.options.transactions:
                self.transacting.start(nursery)

    async def produce(self, name: str) -> None:
        rng = Random(f"{name}/{self.options.seed}")
        async with self.client(name) as client:
            while True:
                values = [b"%d" % next(self.values) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
                partition, acks = rng.randrange(self.options.partitions), rng.choice(self.options.acks)
                with suppress(KafkaError):
                    await client.produce(TOPIC, *values, partition=partition, acks=acks)
                await self._rest(rng)

    async def produce_idempotently(self, name: str) -> None:
        """One life after the other, each with a client and producer ids of its own."""
        rng = Random(f"{name}/{self.options.seed}")
        for life in count():
            with trio.move_on_after(rng.choice(LIVES) * self.options.duration):
                await self._live(f"{name}/{life}", rng)

    async def _live(self, name: str, rng: Random) -> None:
        places = trio.Semaphore(MOST_AT_ONCE)
        async with self.client(name) as client, trio.open_nursery() as nursery:
            producers = {
                line: IdempotentProducer(
                    client,
                    TOPIC,
                    partition,
                    max_in_flight=self.options.in_flight,
                    sequencing=self.lines.maker(line),
                )
                for partition in range(self.options.partitions)
                for line in (f"{name} to {TOPIC}-{partition}",)
            }
            while True:
                await places.acquire()
                line = rng.choice(list(producers))
                nursery.start_soon(self._deliver, line, producers[line], rng.choice((1, 1, 1, 2, 3)), places)
                await self._rest(rng, 0.5)
                if (expiration_ms := self.options.producer_expiration_ms) is not None and rng.random() < IDLE_SHARE:
                    await trio.sleep(1.1 * expiration_ms / 1000)

    async def _deliver(self, line: str, producer: IdempotentProducer, records: int, places: trio.Semaphore) -> None:
        values = [next(self.values) for _ in range(records)]
        self.lines.sent.setdefault(line, []).extend(values)
        with suppress(KafkaError):
            await producer.produce(*(b"%d" % value for value in values))
        places.release()

    async def consume(self, name: str) -> None:
        """Read on from where the last fetch ended; now and then from the beginning."""
        rng = Random(f"{name}/{self.options.seed}")
        positions = dict.fromkeys(range(self.options.partitions), 0)
        async with self.client(name) as client:
            while True:
                partition = rng.randrange(self.options.partitions)
                if rng.random() < 0.05:
                    positions[partition] = 0
                try:
                    fetched = await client.fetch(TOPIC, positions[partition], partition=partition, max_wait_ms=50)
                except KafkaError as error:
                    if error.code is ErrorCode.offset_out_of_range:
                        positions[partition] = await self._reset(client, partition)
                else:
                    positions[partition] = fetched.next_offset
                await self._rest(rng)

    async def _reset(self, client: Client, partition: int) -> int:
        """As auto.offset.reset=earliest: where the log begins, once somebody says."""
        with suppress(KafkaError):
            return (await client.list_offsets(TOPIC, EARLIEST, partition=partition)).offset
        return 0

    async def read_end_offsets(self, name: str) -> None:
        rng = Random(f"{name}/{self.options.seed}")
        async with self.client(name) as client:
            while True:
                partition = rng.randrange(self.options.partitions)
                with suppress(KafkaError):
                    await client.list_offsets(TOPIC, partition=partition)
                await self._rest(rng)

    async def _rest(self, rng: Random, share: float = 1.0) -> None:
        await trio.sleep(rng.uniform(0, 2 * share * self.options.pause_between_operations))

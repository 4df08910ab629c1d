"""Clients at work: producers, consumers and readers of end offsets, each a sequential process of its own.

Values are numbers, unique in the run. A producer never sends a record again: an attempt whose outcome is unknown stays
one operation, and what follows is new.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from random import Random

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import EARLIEST, Client, ClientConfig
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.model_tests.harness.simulation.options import Options
from tidegauge.model_tests.harness.simulation.recorder import Recorder

TOPIC = "orders"
CLIENT = ClientConfig(request_timeout_ms=600, default_api_timeout_ms=1_500, retry_backoff_ms=50)
DENSE_CLIENT = ClientConfig(request_timeout_ms=250, default_api_timeout_ms=600, retry_backoff_ms=20)


class Workload:
    """The clients of one run."""

    def __init__(self, cluster: Cluster, options: Options, recorder: Recorder) -> None:
        self.cluster = cluster
        self.options = options
        self.recorder = recorder
        self.values = count()

    def client(self, name: str) -> Client:
        config = DENSE_CLIENT if self.options.dense else CLIENT
        return self.cluster.client(name, config=config, observer=self.recorder)

    async def run(self) -> None:
        """All clients, until cancelled."""
        async with trio.open_nursery() as nursery:
            for number in range(self.options.producers):
                nursery.start_soon(self.produce, f"producer-{number}")
            for number in range(self.options.consumers):
                nursery.start_soon(self.consume, f"consumer-{number}")
            for number in range(self.options.readers):
                nursery.start_soon(self.read_end_offsets, f"reader-{number}")

    async def produce(self, name: str) -> None:
        rng = Random(f"{name}/{self.options.seed}")
        async with self.client(name) as client:
            while True:
                values = [b"%d" % next(self.values) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
                partition, acks = rng.randrange(self.options.partitions), rng.choice(self.options.acks)
                with suppress(KafkaError):
                    await client.produce(TOPIC, *values, partition=partition, acks=acks)
                await self._rest(rng)

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
                    positions[partition] += len(fetched.records)
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

    async def _rest(self, rng: Random) -> None:
        await trio.sleep(rng.uniform(0, 2 * self.options.pause_between_operations))

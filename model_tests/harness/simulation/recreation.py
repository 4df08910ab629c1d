"""A topic that an operator deletes and creates again under its name, while clients are at work and faults come.

Each topic of that name is validated alone. Its partition must be a behaviour of the specification from its creation to
when the last broker has forgotten it, and its history must be one of a topic that never had a predecessor: what was
acknowledged is in it, and nothing of a former topic is (`validation.incarnations`). A client's operation is of the
topic whose id its last request had.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from random import Random
from typing import Final

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.topic_requests import delete_topic
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.model_tests.harness.simulation.options import Fault, Options
from tidegauge.model_tests.harness.simulation.recorder import Recorder
from tidegauge.model_tests.harness.simulation.workload import CLIENT, DENSE_CLIENT, TOPIC

LEDGER: Final = "ledger"
"""The topic's name; it has one partition."""
FIRST_VALUE: Final = 500_000_000
"""Values of its records begin here."""
GONE: Final = (0.0, 0.0, 0.02, 0.1, 0.4)
"""Seconds for which there is no such topic."""

ANY_TIME: Final = str((1 << 63) - 1)


def recreates(options: Options) -> bool:
    """Whether the run has that topic."""
    return Fault.RECREATION in options.faults


def partitions_of(options: Options) -> list[tuple[str, int]]:
    """The partitions that are there in the end: (topic's name, index)."""
    orders = [(TOPIC, partition) for partition in range(options.partitions)]
    return [*orders, (LEDGER, 0)] if recreates(options) else orders


async def create_ledger(options: Options, client: Client) -> None:
    """Ask for the topic. Raises KafkaError."""
    configs = {key: _text(value) for key, value in options.topic_config().items()}
    configs["message.timestamp.after.max.ms"] = ANY_TIME  # a clock that was set back by an hour refuses nothing
    await client.create_topic(LEDGER, 1, options.replication_factor, configs=configs)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Recreation:
    """The operator of that topic."""

    def __init__(self, cluster: Cluster, options: Options, rng: Random) -> None:
        self._cluster = cluster
        self._options = options
        self._rng = rng
        self._asked = count()
        self._turn = trio.Lock()

    async def recreate(self) -> None:
        """Delete the topic, if it is there, and create it a little later, if nobody has."""
        gone = self._rng.choice(GONE)
        async with self._turn, self._client() as client:
            with suppress(KafkaError):
                await client.ask_once(delete_topic(LEDGER))
            await trio.sleep(gone)
            with suppress(KafkaError):
                await create_ledger(self._options, client)

    async def settle(self) -> None:
        """The topic is there, however long that takes."""
        if not recreates(self._options):
            return
        async with self._client() as client:
            while LEDGER not in self._cluster.controller.controller.image.topics:
                with suppress(KafkaError):
                    await create_ledger(self._options, client)
                await trio.sleep(0.05)

    def _client(self) -> Client:
        return self._cluster.client(f"keeper-{next(self._asked)}", config=CLIENT)


class LedgerClients:
    """Who writes to that topic and reads it."""

    def __init__(self, cluster: Cluster, options: Options, recorder: Recorder) -> None:
        self._cluster = cluster
        self._options = options
        self._recorder = recorder
        self._values = count(FIRST_VALUE)

    async def run(self) -> None:
        """All of them, until cancelled."""
        async with trio.open_nursery() as nursery:
            for number in range(2):
                nursery.start_soon(self._produce, f"bookkeeper-{number}")
            nursery.start_soon(self._consume, "auditor")

    async def _produce(self, name: str) -> None:
        rng = Random(f"{name}/{self._options.seed}")
        async with self._client(name) as client:
            while True:
                values = [b"%d" % next(self._values) for _ in range(rng.choice((1, 1, 2)))]
                with suppress(KafkaError):
                    await client.produce(LEDGER, *values, acks=rng.choice(self._options.acks))
                await self._rest(rng)

    async def _consume(self, name: str) -> None:
        """Read on by offset, whatever topic has the name now; now and then from the beginning."""
        rng = Random(f"{name}/{self._options.seed}")
        position = 0
        async with self._client(name) as client:
            while True:
                position = 0 if rng.random() < 0.1 else position
                try:
                    fetched = await client.fetch(LEDGER, position, max_wait_ms=50)
                except KafkaError as error:
                    position = 0 if error.code is ErrorCode.offset_out_of_range else position
                else:
                    position += len(fetched.records)
                await self._rest(rng)

    def _client(self, name: str) -> Client:
        config = DENSE_CLIENT if self._options.dense else CLIENT
        return self._cluster.client(name, config=config, observer=self._recorder)

    async def _rest(self, rng: Random) -> None:
        await trio.sleep(rng.uniform(0, 2 * self._options.pause_between_operations))

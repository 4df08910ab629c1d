"""Partitions that move at random while brokers crash, leave and are cut off: nothing acknowledged is lost.

Each run is a function of its seed. Producers and a consumer are at work all the time, and their history is checked; at
the end everything is healed, the move that is under way completes, and the replicas are one.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from random import Random

import pytest
import trio

from tidegauge.impl.client.client import ClientConfig
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.linearizability.check import check
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.cluster.test_moving import QUICK
from tidegauge.model_tests.harness.simulation.recorder import Recorder
from tidegauge.model_tests.simulated import simulated

BROKERS = 4
ACTIONS = 14
CLIENT = ClientConfig(request_timeout_ms=600, default_api_timeout_ms=1_500, retry_backoff_ms=50)


class Run:
    """One cluster, its clients, its operators and its faults."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(f"moves/{seed}")
        self.seed = seed
        self.cluster = Cluster(BROKERS, seed, {**QUICK, "retry.backoff.ms": 100, "replica.socket.timeout.ms": 800})
        self.recorder = Recorder(seed)
        self.acknowledged: set[int] = set()
        self.done: list[str] = []
        self._values = count()

    async def produce(self, name: str) -> None:
        async with self.cluster.client(name, config=CLIENT, observer=self.recorder) as client:
            while True:
                value = next(self._values)
                with suppress(KafkaError):
                    await client.produce("t", b"%d" % value)
                    self.acknowledged.add(value)
                await trio.sleep(0.02)

    async def consume(self) -> None:
        async with self.cluster.client("consumer", config=CLIENT, observer=self.recorder) as client:
            offset = 0
            while True:
                with suppress(KafkaError):
                    offset += len((await client.fetch("t", offset)).records)
                await trio.sleep(0.03)

    async def act(self) -> None:
        """One action of an operator, or one fault."""
        cluster, broker = self.cluster, self.rng.randrange(BROKERS)
        action = self.rng.choice(("move", "move", "move", "cancel", "crash", "shutdown", "isolate", "expire", "elect"))
        self.done.append(action)
        with suppress(KafkaError):
            match action:
                case "move":
                    target = self.rng.sample(range(BROKERS), self.rng.choice((2, 3)))
                    await cluster.reassign("t", target, wait=False)
                case "cancel":
                    await cluster.reassign("t", None)
                case "crash" if cluster.is_alive(broker):
                    await cluster.crash(broker)
                    await trio.sleep(self.rng.choice((0.1, 2.0)))
                    await cluster.restart(broker)
                case "shutdown" if cluster.is_alive(broker):
                    await cluster.shutdown(broker)
                    await trio.sleep(self.rng.choice((0.0, 0.5)))
                    await cluster.restart(broker)
                case "isolate":
                    cluster.isolate(broker)
                    await trio.sleep(self.rng.choice((0.3, 2.5)))
                    cluster.heal()
                case "expire":
                    await cluster.expire_session(broker)
                case "elect":
                    await cluster.elect("t")

    async def settled(self) -> None:
        """Everything is healed, and the cluster comes together."""
        self.cluster.heal()
        with trio.fail_after(60):
            while self.cluster.is_reassigned("t"):  # noqa: ASYNC110 - there is no one event to wait for
                await trio.sleep(0.05)
            await self.cluster.wait_for_isr("t", self.cluster.replicas("t"))

    async def read_back(self) -> list[int]:
        found: list[int] = []
        async with self.cluster.client("closing", observer=self.recorder) as client:
            await client.list_offsets("t")
            while (fetched := await client.fetch("t", len(found))).records:
                found += [int(record.value or b"") for record in fetched.records]
        return found


@pytest.mark.parametrize("seed", range(amount(2, deep=8)))
def test_nothing_acknowledged_is_lost_while_partitions_move_among_faults(seed: int) -> None:
    @simulated
    async def main() -> None:
        run = Run(seed)
        async with run.cluster as cluster:
            await cluster.create_topic("t", config={"min.insync.replicas": 2}, assignments=[[0, 1, 2]])
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run.produce, "producer-1")
                nursery.start_soon(run.produce, "producer-2")
                nursery.start_soon(run.consume)
                for _ in range(ACTIONS):
                    await trio.sleep(run.rng.uniform(0.05, 0.8))
                    await run.act()
                await run.settled()
                await trio.sleep(0.3)
                nursery.cancel_scope.cancel()
            found = await run.read_back()
            assert len(run.acknowledged) > 20, "too little was tried"
            assert run.acknowledged <= set(found), run.done
            assert check(run.recorder.history.operations()).valid, run.done
            await trio.sleep(2)
            here = [broker.id for broker in cluster.brokers if broker.replicas.get("t", 0) is not None]
            assert here == sorted(cluster.replicas("t")), "a replica was left behind"
            ends = {cluster.replica(broker, "t").log_end_offset for broker in here}
            assert ends == {len(found)}

    main()

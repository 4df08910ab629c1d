"""Same seed, same bytes: in two processes, whatever PYTHONHASHSEED says."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import trio

from tidegauge.impl.client.client import ClientConfig
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.hosts import SimulatedHost
from tidegauge.model_tests.harness.deterministic import run_deterministically

ROOT = Path(__file__).resolve().parents[2]


async def eventful_run(seed: int) -> str:
    """A run with every kind of fault, and what it comes to: a hash of the trace, and of every byte on every disk."""
    config = {"replica.lag.time.max.ms": 2_000, "replica.socket.timeout.ms": 500, "min.insync.replicas": 2}
    async with Cluster(brokers=3, seed=seed, config=config) as cluster:
        await cluster.create_topic("t", partitions=3)
        for source in range(3):
            for destination in range(3):
                cluster.delay(0, 3, source, destination)
                cluster.drop(0.02, source, destination)
                cluster.duplicate(0.05, source, destination)

        async def produce(partition: int) -> None:
            impatient = ClientConfig(request_timeout_ms=300, default_api_timeout_ms=900)
            async with cluster.client(config=impatient) as client:
                for nth in range(30):
                    try:
                        await client.produce("t", f"{partition}/{nth}".encode(), partition=partition)
                    except KafkaError:
                        await trio.sleep(0.05)

        async with trio.open_nursery() as nursery:
            for partition in range(3):
                nursery.start_soon(produce, partition)
            await trio.sleep(0.2)
            await cluster.crash(seed % 3)
            await trio.sleep(1)
            await cluster.restart(seed % 3)
            cluster.pause((seed + 1) % 3)
            await trio.sleep(3)
            cluster.resume((seed + 1) % 3)
            await cluster.expire_session((seed + 2) % 3)
        await trio.sleep(5)
        assert isinstance(cluster.host, SimulatedHost)
        disks = {name: sorted(disk.files().items()) for name, disk in sorted(cluster.host.disks.items())}
        return f"{len(cluster.trace)} {cluster.trace.digest()} {hash_of(disks)}"


def hash_of(value: object) -> str:
    from hashlib import sha256

    return sha256(repr(value).encode()).hexdigest()


@cache
def ran_here(seed: int) -> str:
    return run_deterministically(eventful_run, seed, seed=seed)


def in_another_process(seed: int, hash_seed: int) -> str:
    program = (
        "from tidegauge.model_tests.cluster.test_determinism import *\n"
        f"print(run_deterministically(eventful_run, {seed}, seed={seed}))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_two_processes_with_different_hash_seeds_do_the_same() -> None:
    another = 2 if os.environ.get("PYTHONHASHSEED") == "1" else 1
    first = ran_here(7)
    assert first == in_another_process(7, hash_seed=another)
    assert int(first.split()[0]) > 200


def test_another_seed_is_another_run() -> None:
    assert ran_here(7) != ran_here(8)

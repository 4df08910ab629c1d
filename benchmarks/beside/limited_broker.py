"""The broker whose limits are measured: a process that imports nothing but what it runs, since its memory is a figure.

`python -m benchmarks.beside.limited_broker` prints the broker's address, and runs until its standard input ends.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import trio

from tidegauge.impl.cluster.cluster import Cluster

MEMORY = "/dev/shm"
"""Where files lie in memory, so that the broker is measured and not the disk."""


async def serve() -> None:
    """Serve until standard input ends."""
    place = MEMORY if Path(MEMORY).is_dir() else None  # noqa: ASYNC240 - before anything runs
    with tempfile.TemporaryDirectory(dir=place) as directory:
        async with Cluster(1, 1, host="tcp", directory=directory, trace=False) as cluster:
            await cluster.create_topic("meanwhile")
            await cluster.create_topic("large")
            async with cluster.client() as client:
                for _ in range(64):
                    await client.produce("large", bytes(900_000))
            print(cluster.brokers[0].address, flush=True)
            await trio.to_thread.run_sync(sys.stdin.read)


if __name__ == "__main__":
    trio.run(serve)

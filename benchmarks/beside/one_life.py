"""One life of many logs, and of a broker with many partitions, in a checkout of this project: CPU times or memory, as
JSON.

`benchmarks.logs` runs this file in a process of its own, with the checkout's folder on the path; it imports nothing but
that checkout, which may be one from before everything was under `tidegauge`.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

import trio

CLUSTER_ID = "beside"
CHECKS = "log.check.on.start.max.bytes"
CHECKOUT = Path.cwd()
IS_NAMED = (CHECKOUT / "tidegauge" / "impl").exists()
"""Whether the checkout has everything under `tidegauge`."""


class Life:
    """Microseconds of CPU for each log by what was done, of all threads of this process: the least of several times."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.figures: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        begun = time.process_time()
        yield
        taken = (time.process_time() - begun) / self.count * 1e6
        self.figures[name] = min(taken, self.figures.get(name, taken))


def module(name: str, former: str | None = None) -> Any:
    """A module of the checkout's `impl`, by its name here, or the one that it had formerly."""
    return import_module(f"tidegauge.impl.{name}" if IS_NAMED else f"impl.{former or name}")


def logs(path: str, count: int, life: Life) -> None:
    """Logs of one record each in one directory: made, closed, opened, closed again, and opened after a crash."""
    disk = module("ports.failing_disk").FailingDisk(module("ports.disk").RealDisk())
    config = module("storage.config").LogConfig()
    payload = module("records.payload", "wire.records_payload")
    batch = payload.build_batch([payload.Record(0, 1_000, None, bytes(100))])
    topic_id = UUID(int=7)

    def directory() -> Any:
        opened = module("storage.log_directory").LogDirectory
        return opened.open(disk, path, cluster_id=CLUSTER_ID, node_id=0, directory_id=UUID(int=1))

    def opened(directory: Any, claimed: UUID | None = None) -> list[Any]:
        found = []
        for number in range(count):
            assert claimed is not None or directory.topic_id("many", number) == topic_id, "a broker asks for it"
            found.append(directory.open_log("many", number, config, 2_000, claimed))
        return found

    new = directory()
    for number in range(count):
        sync = new.claim("many", number, topic_id)
        sync.drop()
    with life.timed("logs made"):
        found = opened(new, topic_id)
    with life.timed("a record in each"):
        for log in found:
            log.append_as_leader(batch, 0, 2_000)
    new.begin_checkpoint_high_watermarks({("many", number): 1 for number in range(count)})()
    with life.timed("logs closed"):
        new.close()
    found.clear()
    again = directory()
    with life.timed("logs opened after a clean stop"):
        opened(again)
    with life.timed("logs closed, nothing to flush"):
        again.close()
    checked = directory()
    checked.check_bytes = 1 << 30  # a checkout that never looks takes no notice
    with life.timed("the same with all checksums"):
        opened(checked)
    with life.timed("logs closed, nothing to flush, all checksums"):
        checked.close()
    crashed = directory()
    opened(crashed)
    crashed.abandon()
    after = directory()
    with life.timed("logs opened after a crash"):
        opened(after)
    after.abandon()


async def broker(path: str, partitions: int, life: Life) -> None:
    """One broker with its controller and a client in one process."""
    cluster_class = module("cluster.cluster", "cluster").Cluster

    def cluster(config: dict[str, int]) -> Any:
        return cluster_class(1, 1, config, host="tcp", directory=path, trace=False)

    one = cluster({})
    await one.__aenter__()
    with life.timed("partitions made"):
        await one.create_topic("many", partitions)
        async with one.client() as client:
            await client.metadata("many")
            await client.produce("many", b"x" * 100, partition=partitions - 1)
    async with one.client() as client:
        await client.metadata("many")
        for which in ("first", "second"):
            with life.timed(f"a {which} record in each"):
                for partition in range(partitions):
                    await client.produce("many", b"x" * 100, partition=partition)
    with life.timed("a clean shutdown"):
        await one.__aexit__(None, None, None)
    unchecked = {CHECKS: 0} if IS_NAMED else {}
    for words, config in (("", {}), (", no checksums", unchecked)):
        one = cluster(config)
        with life.timed(f"started again, to the first record{words}"):
            await one.__aenter__()
            async with one.client() as client:
                await client.produce("many", b"x" * 100, partition=partitions - 1)
        with life.timed(f"a shutdown, one log to flush{words}"):
            await one.__aexit__(None, None, None)


async def kept_by_broker(path: str, partitions: int) -> dict[str, int]:
    """Bytes of a broker and its controller in one process: with new partitions of one record each, and started again.

    The client is gone when they are counted.
    """
    cluster_class = module("cluster.cluster", "cluster").Cluster
    kept: dict[str, int] = {}
    for when in ("made", "started again"):
        tracemalloc.start()
        async with cluster_class(1, 1, host="tcp", directory=path, trace=False) as one:
            if when == "made":
                await one.create_topic("many", partitions)
            async with one.client() as client:
                for partition in range(partitions) if when == "made" else (0,):
                    await client.produce("many", b"x" * 100, partition=partition)
            gc.collect()
            kept[when], _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return kept


def memory(directory: str, partitions: int) -> dict[str, float]:
    """Bytes for each partition, by the difference between a broker with so many and one with a tenth of them."""
    kept = []
    for turn, number in enumerate((partitions // 10, partitions // 10, partitions)):
        place = Path(directory) / f"kept-{turn}"
        place.mkdir()
        kept.append(trio.run(kept_by_broker, str(place), number))
    _, few, many = kept  # the first one imports and makes what is made once
    more = partitions - partitions // 10
    return {f"bytes of a partition, {when}": (many[when] - few[when]) / more for when in many}


def main(data: str, count: int, partitions: int, times: int) -> None:
    """Prints the memory with `times` 0, else the CPU times."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    by_itself, hosted = Life(count), Life(partitions)
    with tempfile.TemporaryDirectory(dir=data) as directory:
        if not times:
            print(json.dumps(memory(directory, partitions)))
            return
        for number in range(times if count else 0):
            logs(os.path.join(directory, f"logs-{number}"), count, by_itself)
        for number in range(times if partitions else 0):
            place = Path(directory) / f"cluster-{number}"
            place.mkdir()
            trio.run(broker, str(place), partitions, hosted)
    print(json.dumps({**by_itself.figures, **hosted.figures}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))

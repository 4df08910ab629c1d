"""A start with a file that cannot be used: what lies elsewhere is served, or the broker refuses with words.

Each file that a broker keeps is one that the disk refuses (EIO) or a directory where a file belongs (EISDIR).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tidegauge.impl.client.client import Client
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.ports.disk import Disk, RealDisk
from tidegauge.impl.storage.log_directories import NoLogDirectoryError
from tidegauge.model_tests.amounts import crossed
from tidegauge.model_tests.simulated import simulated

CONFIG = {"log.index.interval.bytes": 1, "log.segment.bytes": 200}
BAD = "data/bad-0"


def files_in(disk: Disk, path: str) -> Iterator[str]:
    """The paths of all files below."""
    for name in disk.list_directory(path):
        try:
            disk.list_directory(f"{path}/{name}")
        except NotADirectoryError:
            yield f"{path}/{name}"
        else:
            yield from files_in(disk, f"{path}/{name}")


async def produced_and_read(client: Client, topic: str, value: bytes) -> tuple[bytes | None, ...]:
    await client.produce(topic, value, timeout_ms=10_000)
    return (await client.fetch(topic, 0)).values


async def write(cluster: Cluster) -> None:
    """A log of several segments, and another one."""
    await cluster.create_topic("bad")
    await cluster.create_topic("good")
    async with cluster.client() as client:
        for number in range(3):
            await client.produce("bad", b"%d" % number * 90)
        await client.produce("good", b"good")


def names_kept(*, stops: bool) -> list[str]:
    """What a broker has when it is down."""
    found: list[str] = []

    @simulated
    async def run() -> None:
        async with Cluster(1, seed=2, config=CONFIG) as cluster:
            await write(cluster)
            await (cluster.shutdown(0) if stops else cluster.crash(0, lose_unsynced=False))
            found.extend(files_in(cluster.host.disk(broker_name(0)), "data"))

    run()
    return [name for name in found if "good" not in name and not name.endswith(".lock")]


@pytest.mark.parametrize(("number", "stops"), crossed([errno.EISDIR, errno.EIO], [False, True]))
def test_a_file_that_cannot_be_used_is_named_and_a_broker_that_is_ready_serves(
    number: int, caplog: pytest.LogCaptureFixture, *, stops: bool
) -> None:
    names = names_kept(stops=stops)
    assert len(names) > 12
    for name in names:
        caplog.clear()

        @simulated
        async def run(name: str = name) -> None:
            async with Cluster(1, seed=2, config=CONFIG) as cluster:
                await write(cluster)
                await (cluster.shutdown(0) if stops else cluster.crash(0, lose_unsynced=False))
                cluster.host.disk(broker_name(0)).fail(name, error=number)
                try:
                    await cluster.restart(0)
                except NoLogDirectoryError as refused:
                    assert number == errno.EIO or not name.startswith(BAD), "one partition takes no directory"
                    assert os.strerror(number) in f"{refused}{caplog.text}"  # noqa: PT017
                    return
                with trio.move_on_after(30):
                    await cluster.broker(0).unfenced.wait()
                if (halted := cluster.broker(0).halted) is not None:
                    assert number == errno.EIO, f"{name}: {halted}"
                    return
                async with cluster.client() as client:
                    try:
                        assert await produced_and_read(client, "good", b"more") == (b"good", b"more"), name
                    except Exception as error:
                        if not cluster.is_alive(0) and number == errno.EIO:
                            return
                        raise AssertionError(name) from error
                if name.startswith(BAD):
                    await cluster.shutdown(0)
                    assert not cluster.broker(0).replicas.directories.offline or number == errno.EIO, name

        run()


def test_a_pipe_under_the_name_of_a_file_is_refused_and_named(tmp_path: Path) -> None:
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    disk = RealDisk()
    for opened in (disk.open, disk.open_apart, disk.read_whole):
        with pytest.raises(PermissionError, match=f"no regular file: '{path}'"):
            opened(path)
    assert disk.open_files == 0

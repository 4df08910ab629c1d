"""Names that are legal work to the end: a topic's name may have 249 characters, a directory's no more than 255 bytes.

On the simulated disk, which refuses longer names as file systems do, and on the real one.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from tidegauge.impl.ports.disk import Disk, RealDisk
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch, decode_batches
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_directories import LogDirectories
from tidegauge.impl.storage.partition_directory import LONGEST_NAME, name_with_suffix
from tidegauge.impl.storage.strays import delete_stray, strays

CONFIG = LogConfig(segment_bytes=300)
LENGTHS = [1, 207, 213, 214, 215, 216, 217, 240, 248, 249]
SUFFIXES = ("-delete", "-future", "-left", "-stray")


@pytest.fixture(params=["simulated", "real"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else SimulatedDisk(Random(0))


@pytest.fixture
def root(disk: Disk, tmp_path: Path) -> str:
    return str(tmp_path) if isinstance(disk, RealDisk) else "data"


def opened(disk: Disk, root: str) -> LogDirectories:
    ids = map(UUID, (f"{n:032x}" for n in count(100)))
    paths = [f"{root}/one", f"{root}/two"]
    return LogDirectories.open(disk, paths, cluster_id="c", node_id=1, new_id=lambda: next(ids))


def filled(log: Log) -> Log:
    for number in range(8):
        log.append_as_leader(build_batch([Record(0, number, None, b"%d" % number)]), 0, 0)
    log.flush()
    return log


def values(log: Log) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < log.log_end_offset:
        found += [record.value for record in decode_batches(log.read(len(found), 1 << 20))]
    return found


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("partition", [0, 99_999])
def test_a_name_with_a_suffix_fits_and_is_no_replicas(length: int, suffix: str, partition: int) -> None:
    name = name_with_suffix("t" * length, partition, (1 << 128) - 1, suffix)
    assert len(name) <= LONGEST_NAME
    assert name.endswith(f"-{partition}.{'f' * 32}{suffix}")
    assert name.startswith("t" * min(length, 200))


def test_topics_whose_names_differ_only_at_the_end_are_kept_apart(disk: Disk, root: str) -> None:
    directories = opened(disk, root)
    topics = ["t" * 248 + letter for letter in "abc"]
    for number, topic in enumerate(topics):
        filled(directories.open_log(topic, 0, CONFIG, 0, UUID(int=number + 1), into=f"{root}/one"))
    directories.delete_logs([(topic, 0) for topic in topics], 0, 1_000)
    one = directories.online[0].path
    assert len([name for name in disk.list_directory(one) if name.endswith("-delete")]) == 3
    directories.free_deleted(1_000)
    assert not [name for name in disk.list_directory(one) if name.startswith("t")]


@pytest.mark.parametrize("length", LENGTHS)
def test_it_is_deleted_moved_kept_as_a_stray_and_opened_again(length: int, disk: Disk, root: str) -> None:
    topic, topic_id = "t" * length, UUID(int=7)
    everything = [b"%d" % number for number in range(8)]
    directories = opened(disk, root)
    source = filled(directories.open_log(topic, 99_999, CONFIG, 0, topic_id, into=f"{root}/one"))
    one, two = directories.online
    key, move = (topic, 99_999), UUID(int=5)
    future = two.moving.open_future(source, key, topic_id, move, 0)
    future.append_as_follower(source.read(0, 1 << 20))
    while future.log_end_offset < source.log_end_offset:
        future.append_as_follower(source.read(future.log_end_offset, 1 << 20))
    two.prepare_future(key, {key: 8})
    one.moving.leave(source, key, topic_id, move)
    one.settle_left(key)
    directories.abandon()

    directories = opened(disk, root)
    directories.free_left(key, topic_id, 0, 0)
    assert [name for name in disk.list_directory(f"{root}/one") if name.startswith("t")] == []
    assert values(directories.open_log(*key, CONFIG, 0, topic_id)) == everything
    directories.close()

    directories = opened(disk, root)
    assert values(directories.open_log(topic, 99_999, CONFIG, 0, topic_id)) == everything
    directories.keep_as_strays([(topic, 99_999)])
    (stray,) = strays(disk, f"{root}/two")
    directories.close()

    directories = opened(disk, root)
    assert directories.partitions() == []
    directories.open_log(topic, 99_999, CONFIG, 0, topic_id, into=f"{root}/two")
    directories.delete_log(topic, 99_999, 0, 1_000)
    directories.abandon()  # before what is deleted is removed: the next start does that
    if isinstance(disk, SimulatedDisk):
        disk.crash()
        disk.power_on()

    directories = opened(disk, root)
    assert [directory.path for directory in directories.online] == [f"{root}/one", f"{root}/two"]
    assert strays(disk, f"{root}/two") == [stray]
    delete_stray(disk, f"{root}/two", stray)
    assert not [name for name in disk.list_directory(f"{root}/two") if name.startswith("t")]


@pytest.mark.parametrize("length", [213, 249])
def test_a_log_of_its_own_is_deleted(length: int, disk: Disk, root: str) -> None:
    disk.make_directory(root)
    path = f"{root}/{'t' * length}-99999"
    filled(Log.open(disk, path, CONFIG, 0)).delete()
    assert disk.list_directory(root) == []


@pytest.mark.parametrize("name", ["x" * 256, "é" * 128])
def test_the_simulated_disk_refuses_names_as_file_systems_do(name: str) -> None:
    disk = SimulatedDisk(Random(0))
    disk.make_directory("data")
    disk.open(f"data/{'x' * 255}", create=True)
    for attempt in (
        lambda: disk.open(f"data/{name}", create=True),
        lambda: disk.create_directory(f"data/{name}"),
        lambda: disk.rename(f"data/{'x' * 255}", f"data/{name}"),
    ):
        with pytest.raises(OSError, match="File name too long"):
            attempt()

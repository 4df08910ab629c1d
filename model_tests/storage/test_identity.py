"""`meta.properties`: whose a directory is, and what each kind of damage to the file leads to.

Every byte is damaged in turn. Damage is refused with words or changes nothing, and no file of the directory is touched.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from tidegauge.impl.ports.disk import Disk, RealDisk
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.identity import (
    CHECKSUM,
    DamagedIdentityError,
    ForeignLogDirectoryError,
    Identity,
    new_cluster_id,
    read_identity,
    write_identity,
)
from tidegauge.impl.storage.log_directories import LogDirectories, NoLogDirectoryError

CLUSTER = "9PmrBc4uSQmyxYBcyTt5UA"
OURS = Identity(CLUSTER, 1, UUID(int=0x5EED << 64))
FILE = checkpoints.META_PROPERTIES


def replaced(disk: Disk, path: str, content: bytes) -> None:
    """Put other bytes in the place of a file's."""
    file = disk.open(path, create=True)
    file.truncate(0)
    file.append(content)
    file.close()


def damaged_texts(text: bytes) -> list[tuple[str, bytes]]:
    """Each byte with a bit flipped and as zero, each length, zeroes from each position on, nothing, and garbage."""
    rng = Random(8)
    found = [("nothing", b""), ("garbage", rng.randbytes(200)), ("text", b"dear diary\n")]
    for at in range(len(text)):
        for bit in rng.sample(range(8), 2):
            flipped = text[at] ^ 1 << bit
            found.append((f"bit {bit} of byte {at}", text[:at] + bytes((flipped,)) + text[at + 1 :]))
        found.append((f"cut at {at}", text[:at]))
        found.append((f"zeroes from {at}", text[:at] + bytes(len(text) - at)))
    return found


def outcome(disk: Disk) -> Identity | Exception | None:
    """What the file says, or why it is refused."""
    try:
        return read_identity(disk, "data", node_id=1, cluster_id=CLUSTER)
    except (DamagedIdentityError, ForeignLogDirectoryError) as error:
        return error


def test_a_damaged_byte_is_refused_with_words_or_changes_nothing() -> None:
    disk = SimulatedDisk(Random(0))
    disk.make_directory("data")
    write_identity(disk, "data", OURS)
    text = disk.files()[f"data/{FILE}"]
    accepted = []
    for what, content in damaged_texts(text):
        replaced(disk, f"data/{FILE}", content)
        found = outcome(disk)
        if isinstance(found, DamagedIdentityError):
            assert f"data/{FILE} " in str(found), what
            assert "cluster.id=9PmrBc4uSQmyxYBcyTt5UA, node.id=1, directory.id=" in str(found), what
        elif isinstance(found, ForeignLogDirectoryError):
            assert "data belongs to " in str(found), what
        else:
            assert found == OURS, what
            accepted.append(what)
    last_value = text.index(CHECKSUM.encode()) - 1
    assert all(int(what.rpartition(" ")[2]) >= last_value for what in accepted), "only the comment that ends it is free"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("node.id=1\nversion=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ", "has no cluster.id"),
        ("cluster.id=c\nversion=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ", "has node.id=, which is no id"),
        ("cluster.id=c\nnode.id=1\nversion=1\ndirectory.id=here", "has directory.id=here, which is no id"),
        ("cluster.id=c\nnode.id=1\nversion=0\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ", "has version=0, not 1"),
    ],
)
def test_a_file_that_lacks_something_is_refused(lines: str, reason: str) -> None:
    disk = SimulatedDisk(Random(0))
    disk.make_directory("data")
    replaced(disk, f"data/{FILE}", lines.encode())
    with pytest.raises(DamagedIdentityError, match=reason):
        read_identity(disk, "data", node_id=1, cluster_id="c")


@pytest.mark.parametrize("written", ["AAAAAAAAAAAAAAAAAAAAAQ", "here"])
def test_who_writes_a_damaged_file_again_keeps_its_directory_id_if_it_is_one(written: str) -> None:
    disk = SimulatedDisk(Random(0))
    disk.make_directory("data")
    lines = f"cluster.id=c\nnode.id=1\nversion=1\ndirectory.id={written}\n{CHECKSUM}00000000\n"
    replaced(disk, f"data/{FILE}", lines.encode())
    kept = written if written != "here" else "a random uuid in base64"
    with pytest.raises(DamagedIdentityError, match=rf"does not match its checksum.*directory\.id={kept}, version=1"):
        read_identity(disk, "data", node_id=1, cluster_id="c")


def test_a_file_that_was_written_by_hand_needs_no_checksum() -> None:
    disk = SimulatedDisk(Random(0))
    disk.make_directory("data")
    replaced(disk, f"data/{FILE}", OURS.lines.partition(CHECKSUM)[0].encode())
    assert read_identity(disk, "data", node_id=1, cluster_id=None) == OURS


def test_cluster_ids_are_kafkas_and_never_look_like_an_option() -> None:
    drawn = iter([bytes([0xF8] + [0] * 15), bytes(range(16))])
    assert new_cluster_id(lambda size: next(drawn)) == "AAECAwQFRgeICQoLDA0ODw"


# --- the directories of a broker -------------------------------------------------------------------------------------


def filled(disk: Disk, root: str, cluster_id: str = CLUSTER, node_id: int = 1) -> list[str]:
    """Two directories of one broker, with a partition in each."""
    paths = [f"{root}/one", f"{root}/two"]
    ids = map(UUID, (f"{n:032x}" for n in count(100)))
    opened = LogDirectories.open(disk, paths, cluster_id=cluster_id, node_id=node_id, new_id=lambda: next(ids))
    for partition in range(2):
        opened.open_log("t", partition, LogConfig(), 0, UUID(int=7))
    opened.close()
    return paths


def start(disk: Disk, paths: list[str]) -> LogDirectories:
    return LogDirectories.open(disk, paths, cluster_id=CLUSTER, node_id=1, new_id=lambda: UUID(int=9))


def files(disk: SimulatedDisk) -> dict[str, bytes]:
    return {path: content for path, content in disk.files().items() if not path.endswith("/.lock")}


MIXTURES: dict[str, tuple[Callable[[Disk, list[str]], object], str]] = {
    "another node's": (
        lambda disk, paths: write_identity(disk, paths[1], Identity(CLUSTER, 2, UUID(int=3))),
        r"two belongs to node\.id=2, this node has node\.id=1",
    ),
    "another cluster's": (
        lambda disk, paths: write_identity(disk, paths[1], Identity("other", 1, UUID(int=3))),
        r"two belongs to cluster\.id=other, this node has cluster\.id=9Pmr",
    ),
    "a copy": (
        lambda disk, paths: write_identity(disk, paths[1], Identity(CLUSTER, 1, UUID(int=100))),
        r"have the same directory\.id=.*: take one of them out of log\.dirs",
    ),
}


@pytest.mark.parametrize("mixture", MIXTURES)
def test_a_mistake_of_the_operator_keeps_the_broker_from_starting_and_changes_nothing(mixture: str) -> None:
    change, message = MIXTURES[mixture]
    disk = SimulatedDisk(Random(0))
    paths = filled(disk, "data")
    change(disk, paths)
    before = files(disk)
    with pytest.raises(ForeignLogDirectoryError, match=message):
        start(disk, paths)
    assert files(disk) == before, "the note of the clean stop is there, too"
    with pytest.raises(ForeignLogDirectoryError):
        start(disk, paths)  # the locks were let go of


@pytest.mark.parametrize("content", [None, b"", bytes(120), b"#"])
@pytest.mark.parametrize("real", [False, True])
def test_a_directory_of_which_nobody_can_tell_whose_it_is_is_offline_and_the_rest_serves(
    content: bytes | None, real: bool, tmp_path: Path
) -> None:
    disk: Disk = RealDisk() if real else SimulatedDisk(Random(0))
    one, two = paths = filled(disk, str(tmp_path) if real else "data")
    if content is None:
        disk.remove(f"{two}/{FILE}")
    else:
        replaced(disk, f"{two}/{FILE}", content)
    names = disk.list_directory(two)
    directories = start(disk, paths)
    assert [directory.path for directory in directories.online] == [one]
    assert isinstance(directories.offline[two], DamagedIdentityError)
    assert directories.partitions() == [("t", 0)]
    assert disk.list_directory(two) == names, "it was not taken for a new one"
    directories.close()
    with pytest.raises(NoLogDirectoryError, match=rf"{two}/{FILE} .*: nothing in {two} was changed"):
        start(disk, [two])


def test_a_copied_directory_is_refused_on_a_real_disk(tmp_path: Path) -> None:
    paths = filled(RealDisk(), str(tmp_path))
    shutil.rmtree(paths[1])
    shutil.copytree(paths[0], paths[1])
    with pytest.raises(ForeignLogDirectoryError, match="so one is a copy of the other"):
        start(RealDisk(), paths)


def test_a_new_directory_beside_an_old_one_gets_an_identity_of_its_own(tmp_path: Path) -> None:
    paths = filled(RealDisk(), str(tmp_path))
    directories = start(RealDisk(), [*paths, str(tmp_path / "three")])
    assert len({directory.id for directory in directories.online}) == 3
    directories.abandon()
    found = read_identity(RealDisk(), str(tmp_path / "three"), node_id=1, cluster_id=None)
    assert found is not None
    assert found.cluster_id == CLUSTER

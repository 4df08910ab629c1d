"""What lies on disk, byte for byte, and that another implementation reads it."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest
from kafka.record.memory_records import MemoryRecords

from tidegauge.impl.ports.disk import Disk, PendingSync, RealDisk
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.batches import Compression
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.storage import checkpoints, index_files
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.leader_epoch_cache import EpochEntry
from tidegauge.impl.storage.log import Log

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def write_log(directory: Path) -> Log:
    """Thirty batches of two records in several segments, in epochs 0, 1 and 2."""
    log = Log.open(RealDisk(), str(directory), CONFIG, 0)
    for number in range(30):
        records = [Record(n, 1000 + 10 * number + n, b"key", b"value %d" % (2 * number + n)) for n in range(2)]
        compression = Compression.GZIP if number % 3 == 0 else Compression.NONE
        log.append_as_leader(build_batch(records, compression=compression), number // 10, now_ms=0)
    log.close()
    return log


def test_another_implementation_reads_the_segments(tmp_path: Path) -> None:
    write_log(tmp_path / "tide-0")
    found = []
    for segment in sorted((tmp_path / "tide-0").glob("*.log")):
        batches = MemoryRecords(segment.read_bytes())
        while batches.has_next():
            batch = batches.next_batch()
            assert batch.validate_crc()
            assert batch.leader_epoch == batch.base_offset // 20
            found += [(record.offset, record.timestamp, record.key, record.value) for record in batch]
        assert batches.valid_bytes() == segment.stat().st_size
    assert found == [(n, 1000 + 10 * (n // 2) + n % 2, b"key", b"value %d" % n) for n in range(60)]


def test_segments_are_named_by_their_first_offset(tmp_path: Path) -> None:
    log = write_log(tmp_path / "tide-0")
    expected = {
        f"{base:020d}{suffix}" for base in log.segment_base_offsets for suffix in (".log", ".index", ".timeindex")
    }
    expected |= {f"{offset:020d}.snapshot" for offset in (*log.segment_base_offsets[1:], log.log_end_offset)}
    assert {path.name for path in (tmp_path / "tide-0").iterdir()} == expected | {"leader-epoch-checkpoint"}
    assert len(log.segment_base_offsets) > 2


def test_index_entries_point_at_the_batches_that_end_at_their_offsets(tmp_path: Path) -> None:
    for base in write_log(tmp_path / "tide-0").segment_base_offsets:
        stem = tmp_path / "tide-0" / f"{base:020d}"
        log = stem.with_suffix(".log").read_bytes()
        entries = list(struct.iter_unpack(">ii", stem.with_suffix(".index").read_bytes()))
        positions = [0, *(position for _, position in entries)]
        assert entries
        assert all(200 < b - a <= 200 + 200 for a, b in pairwise(positions))
        for relative_offset, position in entries:
            base_offset, _, last_offset_delta = struct.unpack_from(">qi11xi", log, position)
            assert base_offset + last_offset_delta == base + relative_offset


def test_time_index_entries_name_the_batch_with_the_largest_timestamp_so_far(tmp_path: Path) -> None:
    log = write_log(tmp_path / "tide-0")
    bases = log.segment_base_offsets
    for base, end in zip(bases, [*bases[1:], log.log_end_offset], strict=True):
        stem = tmp_path / "tide-0" / f"{base:020d}"
        entries = list(struct.iter_unpack(">qi", stem.with_suffix(".timeindex").read_bytes()))
        assert [timestamp for timestamp, _ in entries] == [1000 + 5 * (base + n - 1) + 1 for _, n in entries]
        assert entries[-1][1] == end - 1 - base


def test_an_index_that_is_lost_or_broken_is_rebuilt_as_it_was(tmp_path: Path) -> None:
    write_log(tmp_path / "tide-0")
    files = sorted((tmp_path / "tide-0").glob("*index"))
    original = {path: path.read_bytes() for path in files}
    for number, path in enumerate(files):
        if number % 3 == 0:
            path.unlink()
        else:
            path.write_bytes(b"\xff" * 7 if number % 3 == 1 else b"\xff" * 24)
    log = Log.open(RealDisk(), str(tmp_path / "tide-0"), CONFIG, 0)
    assert log.log_end_offset == 60
    log.close()
    assert {path: path.read_bytes() for path in files} == original


@pytest.mark.parametrize("clean", [True, False])
def test_indexes_that_a_clean_stop_has_flushed_are_not_written_again_though_all_is_read(
    clean: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(tmp_path / "tide-0")
    count = len(log.segment_base_offsets)
    paths: list[str] = []
    inner = index_files.write

    def writing(disk: Disk, files: Iterable[tuple[str, bytes]]) -> list[PendingSync]:
        found = list(files)
        paths.extend(path for path, _ in found)
        return inner(disk, found)

    monkeypatch.setattr(index_files, "write", writing)
    directory, end = str(tmp_path / "tide-0"), log.log_end_offset
    log = Log.open(RealDisk(), directory, CONFIG, 0, recovery_point=end, clean_shutdown=clean, reads_all=True)
    assert log.recovery.scanned_segments == count
    log.close()
    assert len(paths) == (0 if clean else 2 * count)


def test_the_leader_epoch_checkpoint_is_kafkas(tmp_path: Path) -> None:
    write_log(tmp_path / "tide-0")
    assert (tmp_path / "tide-0" / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n1 20\n2 40\n"


def test_a_lost_or_damaged_epoch_checkpoint_is_read_from_the_batches(tmp_path: Path) -> None:
    write_log(tmp_path / "tide-0")
    checkpoint = tmp_path / "tide-0" / "leader-epoch-checkpoint"
    for damage in ("0\n3\n0 0\n1 20\n", "0\n2\n1 0\n0 20\n", "nonsense", None):
        if damage is None:
            checkpoint.unlink()
        else:
            checkpoint.write_text(damage)
        log = Log.open(RealDisk(), str(tmp_path / "tide-0"), CONFIG, 0, recovery_point=60, clean_shutdown=True)
        assert log.epochs.entries == (EpochEntry(0, 0), EpochEntry(1, 20), EpochEntry(2, 40))
        assert checkpoint.read_text() == "0\n3\n0 0\n1 20\n2 40\n"
        log.close()


OFFSETS = {("tide", 1): 7, ("gauge-x", 0): 1 << 40}


def test_offset_checkpoints_are_kafkas() -> None:
    text = checkpoints.encode_offsets(OFFSETS)
    assert text == "0\n2\ngauge-x 0 1099511627776\ntide 1 7\n"
    assert checkpoints.decode_offsets(text) == OFFSETS


@pytest.mark.parametrize(
    "text",
    ["", "0", "1\n0\n", "0\n2\ntide 1 7\n", "0\n1\ntide 1\n", "0\n1\ntide one 7\n", "0\nx\n", "0\n1\ntide 1 7 8\n"],
)
def test_a_damaged_checkpoint_is_not_believed(text: str) -> None:
    assert checkpoints.decode_offsets(text) is None


def test_partition_metadata_and_meta_properties_are_kafkas() -> None:
    topic_id = UUID("b1a2c3d4-0102-4304-8506-f708090a0bff")
    text = checkpoints.encode_partition_metadata(topic_id)
    assert text == "version: 0\ntopic_id: saLD1AECQwSFBvcICQoL_w", "no line end after the last line"
    assert checkpoints.decode_partition_metadata(text) == topic_id
    assert checkpoints.decode_partition_metadata("version: 0\ntopic_id: x\n") is None
    text = checkpoints.encode_meta_properties("c", 3, topic_id)
    assert text == "cluster.id=c\ndirectory.id=saLD1AECQwSFBvcICQoL_w\nnode.id=3\nversion=1\n"
    assert checkpoints.decode_meta_properties("# made by hand\n" + text)["node.id"] == "3"


def test_a_checkpoint_is_replaced_as_a_whole() -> None:
    for seed in range(60):
        disk = SimulatedDisk(random.Random(seed))
        disk.make_directory("logs")
        checkpoints.write_atomically(disk, "logs", "checkpoint", "old\n")
        disk.fail_next_sync()
        if seed % 2:
            with pytest.raises(OSError, match="checkpoint"):
                checkpoints.write_atomically(disk, "logs", "checkpoint", "new\n")
        disk.crash()
        disk.power_on()
        assert checkpoints.read_text(disk, "logs", "checkpoint") == "old\n"
        checkpoints.write_atomically(disk, "logs", "checkpoint", "new\n")
        disk.crash()
        disk.power_on()
        assert checkpoints.read_text(disk, "logs", "checkpoint") == "new\n"

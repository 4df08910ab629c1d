"""A damaged metadata log stops the controller with words; only a tail that nobody was told of is cut.

Every byte of the log is damaged in turn, the log is cut at every length, and torn tails of every length are left.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import trio

from tidegauge.impl.metadata.codec import encode_decision
from tidegauge.impl.metadata.records import ControllerEpochRecord, MetadataRecord, TopicRecord
from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.ports.disk import Disk, RealDisk
from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.batches import assign
from tidegauge.impl.server.controller.metadata_damage import DamagedMetadataLogError
from tidegauge.impl.server.controller.metadata_log import COMMITTED, StoredMetadataLog, has_metadata_log
from tidegauge.model_tests.storage.test_identity import replaced

DIRECTORY = "c/__cluster_metadata-0"
SEGMENT = f"{DIRECTORY}/00000000000000000000.log"
NOTE = f"c/{COMMITTED}"
CLOCK = cast("Clock", SimpleNamespace(now_ms=lambda: 0))


def opened(disk: Disk, root: str = "c") -> StoredMetadataLog:
    return StoredMetadataLog(disk, f"{root}/__cluster_metadata-0", CLOCK, 3000)


def append(log: StoredMetadataLog, *records: MetadataRecord) -> None:
    trio.run(log.append, records)


def decided(disk: Disk, root: str = "c", controllers: int = 2) -> list[MetadataRecord]:
    """A log in which so many controllers have decided something, one after the other; returns its records."""
    disk.make_directory(root)
    for number in range(controllers):
        log = opened(disk, root)
        append(log, ControllerEpochRecord(3000, log.leadership.epoch))
        append(log, TopicRecord(f"t{number}", f"id-{number}"), TopicRecord(f"u{number}", f"id-u{number}"))
        log.close()
    log = opened(disk, root)
    records = list(log.take_found())
    log.abandon()
    return records


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(random.Random(0))
    decided(disk)
    return disk


@contextmanager
def changed(disk: SimulatedDisk, path: str, content: bytes | None) -> Iterator[None]:
    """Let a file have other bytes, or none, for a while."""
    before = disk.files()[path]
    if content is None:
        disk.remove(path)
    else:
        replaced(disk, path, content)
    yield
    replaced(disk, path, before)


def refusal(disk: SimulatedDisk) -> DamagedMetadataLogError:
    """Why the log is not opened; nothing is changed by trying."""
    before = disk.files()
    with pytest.raises(DamagedMetadataLogError) as refused:
        opened(disk)
    assert disk.files() == before
    assert "Nothing was changed" in str(refused.value)
    assert "Put the file back from a copy" in str(refused.value)
    return refused.value


BESIDE_CHECKSUM = {*range(8), *range(12, 16)}
"""Where in a batch its base offset and its leader epoch are."""


def starts_of(content: bytes) -> list[int]:
    """Where the batches of a log begin, and where it ends."""
    starts = [0]
    while starts[-1] < len(content):
        starts.append(starts[-1] + 12 + int.from_bytes(content[starts[-1] + 8 : starts[-1] + 12], "big"))
    return starts


def test_any_damaged_byte_stops_the_controller_and_is_named(disk: SimulatedDisk) -> None:
    content = disk.files()[SEGMENT]
    rng = random.Random(4)
    starts = starts_of(content)
    for at in range(len(content)):
        bit = rng.randrange(8)
        with changed(disk, SEGMENT, content[:at] + bytes((content[at] ^ 1 << bit,)) + content[at + 1 :]):
            error = refusal(disk)
        batch = max(start for start in starts if start <= at)
        assert (error.path, error.position) == (SEGMENT, batch), f"bit {bit} of byte {at}: {error}"
        assert f"byte {batch}" in str(error)


def test_without_the_note_damage_before_an_intact_batch_stops_the_controller_and_in_the_last_one_is_cut(
    disk: SimulatedDisk,
) -> None:
    """A crash tears the last batch alone, so what stands behind damage was acknowledged, though no note tells.

    Base offset and leader epoch are not under a batch's checksum: where only they are wrong, it is no torn batch.
    """
    content = disk.files()[SEGMENT]
    rng = random.Random(5)
    last = max(start for start in starts_of(content) if start < len(content))
    told: set[str] = set()
    for at in range(0, len(content), 3):
        damaged = content[:at] + bytes((content[at] ^ 1 << rng.randrange(8),)) + content[at + 1 :]
        with changed(disk, NOTE, None), changed(disk, SEGMENT, damaged):
            if at < last or at - last in BESIDE_CHECKSUM:
                error = refusal(disk)
                told.add("an intact batch follows" if "and an intact batch follows" in str(error) else "other")
            else:
                log = opened(disk)
                assert len(log.take_found()) == 4, f"byte {at}"
                log.abandon()
    assert "an intact batch follows" in told


def test_a_log_that_is_cut_short_or_zero_from_somewhere_on_stops_the_controller(disk: SimulatedDisk) -> None:
    content = disk.files()[SEGMENT]
    for size in range(len(content)):
        for left in {content[:size], content[:size] + bytes(len(content) - size)} - {content}:
            with changed(disk, SEGMENT, left):
                error = refusal(disk)
                assert error.path == SEGMENT, f"{len(left)} bytes, {size} of them intact: {error}"


def test_a_log_that_is_missing_or_somebody_elses_stops_the_controller(disk: SimulatedDisk) -> None:
    with changed(disk, SEGMENT, None):
        assert "6 records were acknowledged" in str(refusal(disk))
    for foreign in (b"dear diary", random.Random(1).randbytes(500), bytes(500)):
        with changed(disk, SEGMENT, foreign):
            assert refusal(disk).position == 0
    foreign_batch = bytearray(encode_decision([TopicRecord("a", "b")], 0, 0).replace(b"TopicRecord", b"TopicRecorx"))
    with changed(disk, SEGMENT, bytes(foreign_batch)):
        refusal(disk)
    for name in disk.list_directory(DIRECTORY):
        disk.remove(f"{DIRECTORY}/{name}")
    disk.remove_directory(DIRECTORY)
    assert "the log ends here" in str(refusal(disk))
    assert has_metadata_log(disk, "c"), "the note tells that there was one"


def test_a_segment_that_does_not_continue_the_log_stops_the_controller(disk: SimulatedDisk) -> None:
    content = disk.files()[SEGMENT]
    for base in (3, 9):
        stray = f"{DIRECTORY}/{base:020}.log"
        replaced(disk, stray, content)
        assert f"{base:020}.log" in str(refusal(disk))
        disk.remove(stray)
    opened(disk).abandon()


def test_a_batch_of_another_epoch_stops_the_controller(disk: SimulatedDisk) -> None:
    batch = bytearray(encode_decision([TopicRecord("late", "id-late")], 6, 0))
    assign(batch, 0, 6, 0)
    with changed(disk, SEGMENT, disk.files()[SEGMENT] + bytes(batch)):
        assert "its batch says epoch 0, its controller wrote in epoch 1" in str(refusal(disk))


@pytest.mark.parametrize("real", [False, True])
def test_a_tail_that_nobody_was_told_of_is_cut_with_a_line(
    real: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk: Disk = RealDisk() if real else SimulatedDisk(random.Random(0))
    root = str(tmp_path / "c") if real else "c"
    records = decided(disk, root)
    segment = f"{root}/__cluster_metadata-0/00000000000000000000.log"
    whole = disk.size(segment)
    batch = bytearray(encode_decision([TopicRecord("torn", "id-torn")], 6, 0))
    assign(batch, 0, 6, 1)
    tails = [bytes(batch[:size]) for size in range(1, len(batch), 9 if real else 1)]
    tails += [bytes(size) for size in (1, 61, 4096)]
    tails += [bytes(batch[:80]) + bytes(len(batch) - 80)]
    for tail in tails:
        file = disk.open(segment)
        file.append(tail)
        file.close()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            log = opened(disk, root)
        assert list(log.take_found()) == records == log.read(0)
        log.abandon()
        assert disk.size(segment) == whole
        (line,) = [text for record in caplog.records if not (text := record.getMessage()).startswith("torn tail cut")]
        assert line.startswith(f"metadata log cut: file={segment} offset=6 position={whole} bytes={len(tail)}")


def test_a_whole_batch_that_was_not_acknowledged_is_a_decision(disk: SimulatedDisk) -> None:
    batch = bytearray(encode_decision([TopicRecord("new", "id-new")], 6, 0))
    assign(batch, 0, 6, 1)
    with changed(disk, SEGMENT, disk.files()[SEGMENT] + bytes(batch)):
        log = opened(disk)
        assert log.take_found()[-1] == TopicRecord("new", "id-new")
        log.abandon()


def test_a_damaged_note_loses_nothing_of_the_log(disk: SimulatedDisk, caplog: pytest.LogCaptureFixture) -> None:
    text = disk.files()[NOTE]
    rng = random.Random(2)
    changes = [None, b"", b"x\n", bytes(len(text)), rng.randbytes(40)]
    changes += [text[:at] + bytes((text[at] ^ 1 << rng.randrange(8),)) + text[at + 1 :] for at in range(len(text))]
    changes += [text[:size] for size in range(len(text))]
    for content in changes:
        with changed(disk, NOTE, content):
            log = opened(disk)
            assert (len(log.take_found()), log.leadership.epoch) == (6, 2)
            log.abandon()
    assert {record.getMessage().partition(":")[0] for record in caplog.records} == {"metadata note missing"}


def test_the_records_of_a_log_that_is_opened_are_handed_out_once(disk: SimulatedDisk) -> None:
    log = opened(disk)
    assert (len(log.take_found()), log.take_found(), len(log.read(0))) == (6, (), 6)


def test_no_epoch_is_used_twice_though_the_note_is_lost() -> None:
    disk = SimulatedDisk(random.Random(0))
    disk.make_directory("c")
    log = opened(disk)
    append(log, ControllerEpochRecord(3000, 0))
    log.close()
    replaced(disk, NOTE, b"")
    log = opened(disk)
    assert log.leadership.epoch == 1


@pytest.mark.parametrize("tails", CrashOutcome)
def test_what_was_acknowledged_is_there_after_every_crash(tails: CrashOutcome) -> None:
    for seed in range(8):
        disk = SimulatedDisk(random.Random(seed))
        records = decided(disk, controllers=1)
        for number in range(6):
            log = opened(disk)
            assert list(log.take_found()) == records
            news = [ControllerEpochRecord(3000, log.leadership.epoch)]
            append(log, *news)
            records += news
            disk.crash(tails=tails, names=tails)
            disk.power_on()
            assert number < log.leadership.epoch

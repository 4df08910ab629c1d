"""Whatever of a log's files are gone: its start and end move with a line that says so, and all that is left is served.

Every set of files is searched: each checkpoint of the directory and of the partition, the producers' snapshots, the
note of a clean stop, and each segment; after a clean stop, and after two kinds of crash. What is opened then is stopped
once more, and gets a stray file.
"""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from uuid import UUID

import attrs
import pytest

from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.payload import Record, build_batch, decode_batches
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.errors import DamagedLogError
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_directory import CLEAN_SHUTDOWN, LogDirectory
from tidegauge.impl.storage.segment_names import LOG_SUFFIX, SNAPSHOT_SUFFIX, file_name

KEY = ("tide", 0)
TOPIC_ID = UUID(int=7)
PATH = "data/tide-0"
OF_THE_LOG = (
    "damage found",
    "log ends in damage",
    "log end in doubt",
    "log ends below its high watermark",
    "log start in doubt",
    "recovery point rejected",
    "stray segment set aside",
)
"""Lines that name a log."""


def value(offset: int) -> bytes:
    return b"%03d" % offset * 20


def batch(offset: int) -> bytes:
    return build_batch([Record(0, 100 + offset, None, value(offset))])


CONFIG = LogConfig(segment_bytes=2 * len(batch(0)), index_interval_bytes=150, retention_ms=-1, file_delete_delay_ms=0)
"""Two records a segment."""


@attrs.frozen
class Shape:
    """A log, as it was written."""

    records: int
    epochs: Sequence[int]
    anew_at: int = 0
    start: int = 0
    is_rolled: bool = False
    is_first_alone: bool = False
    """Whether the first segment has one record only."""

    def write(self, directory: LogDirectory) -> Log:
        log = directory.open_log(*KEY, CONFIG, 0, TOPIC_ID)
        if self.anew_at:
            log.truncate_fully_and_start_at(self.anew_at)
        for number in range(self.records):
            epoch = self.epochs[number * len(self.epochs) // self.records]
            log.append_as_leader(batch(log.log_end_offset), epoch, 0)
            if number == 0 and self.is_first_alone:
                log.roll(0)
        if self.start:
            log.flush()
            log.delete_records_before(self.start)
            directory.checkpoint_log_starts()
            log.retention(0)
            log.free_deleted(0)
        if self.is_rolled:
            log.roll(0)
        return log


SHAPES: Mapping[str, Shape] = {
    "three segments": Shape(6, (1, 2, 3)),
    "one epoch": Shape(6, (1,)),
    "a first segment of one record": Shape(4, (1,), is_first_alone=True),
    "a first segment of one record that is deleted": Shape(4, (1,), is_first_alone=True, start=1),
    "one segment": Shape(1, (1,)),
    "the first segment is deleted": Shape(6, (1, 2, 3), start=2),
    "it starts in the second segment": Shape(6, (1, 2, 3), start=3),
    "it starts in the first segment": Shape(6, (1, 2, 3), start=1),
    "it began anew": Shape(4, (1, 2), anew_at=10),
    "the last segment is empty": Shape(4, (1, 2), is_rolled=True),
    "all is deleted": Shape(4, (1, 2), start=4),
    "one segment that is deleted": Shape(2, (1,), start=2),
}
STOPS = ("clean", "crash behind a checkpoint", "crash before any checkpoint")


@attrs.frozen
class Written:
    """A disk with a log on which nothing is lost yet."""

    disk: SimulatedDisk
    start: int
    end: int
    files: Mapping[str, Sequence[str]]


def written(shape: Shape, stop: str, *, knows_high_watermark: bool) -> Written:
    disk = SimulatedDisk(random.Random(1))
    directory = opened(disk)
    log = shape.write(directory)
    start, end = log.log_start_offset, log.log_end_offset
    if knows_high_watermark:
        directory.begin_checkpoint_high_watermarks({KEY: end})()
    if stop == "clean":
        directory.close(broker_epoch=5)
    else:
        log.flush()
        if stop == "crash behind a checkpoint":
            directory.checkpoint()
        disk.crash(tails=CrashOutcome.KEPT, names=CrashOutcome.KEPT)
        disk.power_on()
    return Written(disk, start, end, dict(_files(disk)))


def opened(disk: SimulatedDisk) -> LogDirectory:
    return LogDirectory.open(disk, "data", cluster_id="tide", node_id=1, directory_id=UUID(int=1))


def _files(disk: SimulatedDisk) -> Iterator[tuple[str, list[str]]]:
    """What may be lost, each with its paths."""
    for name in (
        checkpoints.RECOVERY_POINT_CHECKPOINT,
        checkpoints.LOG_START_OFFSET_CHECKPOINT,
        checkpoints.HIGH_WATERMARK_CHECKPOINT,
        CLEAN_SHUTDOWN,
        f"tide-0/{checkpoints.LEADER_EPOCH_CHECKPOINT}",
        f"tide-0/{checkpoints.PARTITION_METADATA}",
    ):
        if disk.exists(f"data/{name}"):
            yield name, [f"data/{name}"]
    names = disk.list_directory(PATH)
    snapshots = sorted(name for name in names if name.endswith(SNAPSHOT_SUFFIX))
    if snapshots:
        yield "snapshots", [f"{PATH}/{name}" for name in snapshots]
    if len(snapshots) > 1:
        yield "newest snapshot", [f"{PATH}/{snapshots[-1]}"]
    for name in names:
        if name.endswith(LOG_SUFFIX):
            base = name.removesuffix(LOG_SUFFIX)
            yield name, [f"{PATH}/{one}" for one in names if one.startswith(base) and one not in snapshots]


def lose(before: Written, gone: Collection[str]) -> SimulatedDisk:
    """A disk with all other files."""
    lost = {path for name in gone for path in before.files[name]}
    disk = SimulatedDisk(random.Random(2))
    disk.make_directory(PATH)
    for path, content in before.disk.files().items():
        if path not in lost:
            disk.open(path, create=True).append(content)
    return disk


def check(before: Written, gone: Collection[str], caplog: pytest.LogCaptureFixture) -> None:
    """Open the log of which these files are gone, and hold it to what is promised."""
    caplog.clear()
    disk = lose(before, gone)
    directory = opened(disk)
    log = directory.open_log(*KEY, CONFIG, 0, TOPIC_ID)
    start, end = log.log_start_offset, log.log_end_offset
    left = readable(log)
    lines = caplog.messages
    is_told = any(line.startswith(OF_THE_LOG) and "tide-0" in line for line in lines)
    was_not_closed = any(line.startswith("directory was not closed") for line in lines)
    counts_as_crashed = directory.stopped_cleanly_in == -1 or KEY in directory.suspects
    start_is_lost = is_missing(lines, checkpoints.LOG_START_OFFSET_CHECKPOINT)
    if start > before.start:  # of a record that had a segment of its own nobody else may know
        is_unsure = (was_not_closed or start_is_lost) and start == before.start + 1
        assert is_told or is_unsure, "it starts later, and no line says so"
    if end < before.end:
        point_is_lost = is_missing(lines, checkpoints.RECOVERY_POINT_CHECKPOINT)
        assert is_told or was_not_closed or point_is_lost, "it ends earlier, and no line says so"
    if start > before.start or end < before.end:
        assert counts_as_crashed, "it has lost something, and its broker counts as one that has not"
    if left and left[0] < before.start:
        assert is_told or start_is_lost, "what was deleted is there again, and no line says so"
    if not any(name.endswith(LOG_SUFFIX) for name in gone):
        assert set(left) >= set(range(before.start, before.end)), "no record is lost, and not all are served"
    directory.abandon()


def check_stray(
    before: Written,
    gone: Collection[str],
    stray: int,
    content: bytes,
    caplog: pytest.LogCaptureFixture,
    *,
    closes: bool,
) -> None:
    """Open the log of which these files are gone, stop it, and open it beside a file that nobody has written."""
    disk = lose(before, gone)
    directory = opened(disk)
    log = directory.open_log(*KEY, CONFIG, 0, TOPIC_ID)
    start, end, bases = log.log_start_offset, log.log_end_offset, log.segment_base_offsets
    if stray in bases:
        directory.abandon()
        return
    if closes:
        directory.close(broker_epoch=5)
    else:
        disk.crash(tails=CrashOutcome.KEPT, names=CrashOutcome.KEPT)
        disk.power_on()
    disk.open(f"{PATH}/{file_name(stray, LOG_SUFFIX)}", create=True).append(content)
    caplog.clear()
    directory = opened(disk)
    log = directory.open_log(*KEY, CONFIG, 0, TOPIC_ID)
    told = [line for line in caplog.messages if line.startswith(OF_THE_LOG) and "tide-0" in line]
    if log.log_start_offset > start:
        assert any(not line.startswith("stray") for line in told), "it starts later, and no line says so"
    if log.log_start_offset > start or log.log_end_offset < end:
        assert told, "it ends earlier, and no line says so"
        is_known = directory.stopped_cleanly_in == -1 or KEY in directory.suspects
        assert is_known, "it has lost something, and its broker counts as one that has not"
    readable(log)
    directory.abandon()


def check_strays(
    name: str, stop: str, counts: Sequence[int], contents: Sequence[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """Lose every set of so many files with a segment among them, and try every stray file after each."""
    caplog.set_level(logging.WARNING, "tidegauge.impl.storage")
    before = written(SHAPES[name], stop, knows_high_watermark=False)
    sets = [gone for count in counts for gone in itertools.combinations(before.files, count)]
    sets = [gone for gone in sets if any(one.endswith(LOG_SUFFIX) for one in gone)]
    for gone, stray, content, closes in itertools.product(sets, range(before.end + 2), contents, (False, True)):
        try:
            check_stray(before, gone, stray, content, caplog, closes=closes)
        except AssertionError as error:
            pytest.fail(f"{error}: {name}, {stop}, {gone=}, {stray=}, {content[:1]=}, {closes=}")


def is_missing(lines: Sequence[str], name: str) -> bool:
    return any(line.startswith(f"checkpoint missing: file=data/{name}") for line in lines)


def readable(log: Log) -> list[int]:
    """The offsets that are served, each with its own record; those that are not are gaps."""
    found = []
    for offset in range(log.log_start_offset, log.log_end_offset):
        is_gap = any(gap.start <= offset < gap.end for gap in log.damage.gaps)
        try:
            (record,) = decode_batches(log.read(offset, 1))
        except DamagedLogError:
            assert is_gap
            continue
        assert (record.offset, record.value, is_gap) == (offset, value(offset), False)
        found.append(offset)
    return found


def check_all(
    names: Sequence[str], stop: str, most: int, caplog: pytest.LogCaptureFixture, *, with_high_watermarks: bool
) -> None:
    """Lose every set of up to so many files."""
    caplog.set_level(logging.WARNING, "tidegauge.impl.storage")
    for name in names:
        for knows_high_watermark in (False, True)[: 1 + with_high_watermarks]:
            before = written(SHAPES[name], stop, knows_high_watermark=knows_high_watermark)
            for count in range(min(most, len(before.files)) + 1):
                for gone in itertools.combinations(before.files, count):
                    try:
                        check(before, gone, caplog)
                    except AssertionError as error:
                        pytest.fail(f"{error}: {name}, {stop}, {knows_high_watermark=}, {gone=}")


@pytest.mark.parametrize("stop", STOPS)
def test_two_lost_files_are_told_when_they_move_where_a_log_starts_or_ends(
    stop: str, caplog: pytest.LogCaptureFixture
) -> None:
    check_all(["it starts in the second segment"], stop, 2, caplog, with_high_watermarks=False)


def test_each_lost_file_of_any_log_is_told_when_it_moves_where_the_log_starts_or_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    check_all([*SHAPES], "clean", 1, caplog, with_high_watermarks=False)


@pytest.mark.deep
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("name", SHAPES)
def test_all_lost_files_are_told_when_they_move_where_a_log_starts_or_ends(
    name: str, stop: str, caplog: pytest.LogCaptureFixture
) -> None:
    check_all([name], stop, 99, caplog, with_high_watermarks=True)


def test_a_stray_file_beside_a_log_that_was_lost_moves_no_start_and_no_end_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    check_strays("one segment that is deleted", "clean", [2], [b""], caplog)


@pytest.mark.deep
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("name", SHAPES)
def test_a_stray_file_after_any_losses_moves_no_start_and_no_end_in_silence(
    name: str, stop: str, caplog: pytest.LogCaptureFixture
) -> None:
    check_strays(name, stop, [1, 2, 3], [b"", b"x" * 200], caplog)


@pytest.mark.parametrize("tails", [CrashOutcome.KEPT, CrashOutcome.LOST])
def test_a_log_that_began_anew_without_leader_epochs_is_not_in_doubt(
    tails: CrashOutcome, caplog: pytest.LogCaptureFixture
) -> None:
    """Its start is written down, as often as it is opened, checkpointed and cut."""
    disk = SimulatedDisk(random.Random(1))
    directory = opened(disk)
    directory.open_log(*KEY, CONFIG, 0, TOPIC_ID).truncate_fully_and_start_at(10)
    for _ in range(3):
        log = directory.logs[KEY]
        log.append_as_leader(batch(log.log_end_offset), 3, 0)
        disk.crash(tails=tails, names=CrashOutcome.KEPT)
        disk.power_on()
        directory = opened(disk)
        log = directory.open_log(*KEY, CONFIG, 0, TOPIC_ID)
        assert log.log_start_offset == 10
        directory.checkpoint()
        log.truncate_to(10)
        directory.checkpoint()
    assert "log start in doubt" not in caplog.text
    assert not directory.suspects


def test_an_empty_leader_epoch_checkpoint_does_not_tell_where_a_log_starts(caplog: pytest.LogCaptureFixture) -> None:
    """One that was cut to its beginning has it, until it is flushed."""
    disk = SimulatedDisk(random.Random(1))
    log = opened(disk).open_log(*KEY, CONFIG, 0, TOPIC_ID)
    log.append_as_leader(batch(0), 3, 0)
    log.truncate_to(0)
    for offset in range(3):
        log.append_as_leader(batch(offset), 3, 0)
    disk.crash(tails=CrashOutcome.KEPT, names=CrashOutcome.KEPT)
    disk.power_on()
    disk.remove(f"{PATH}/{0:020d}{LOG_SUFFIX}")
    directory = opened(disk)
    assert directory.open_log(*KEY, CONFIG, 0, TOPIC_ID).log_start_offset == 2
    assert caplog.text.count("log start in doubt") == 1
    assert directory.suspects == {KEY: "nothing tells where it starts"}
    disk.crash(tails=CrashOutcome.KEPT, names=CrashOutcome.KEPT)
    disk.power_on()
    opened(disk).open_log(*KEY, CONFIG, 0, TOPIC_ID)
    assert caplog.text.count("log start in doubt") == 1


def test_damage_does_not_put_a_log_start_in_doubt_that_was_none(caplog: pytest.LogCaptureFixture) -> None:
    """The leader epochs of a damaged log may be made anew: from then on they tell nothing, so its start is noted."""
    disk = SimulatedDisk(random.Random(1))
    directory = opened(disk)
    log = directory.open_log(*KEY, CONFIG, 0, TOPIC_ID)
    log.truncate_fully_and_start_at(10)
    for offset in range(10, 16):
        log.append_as_leader(batch(offset), 3, 0)
    log.flush()
    directory.checkpoint()
    disk.flip_bit(f"{PATH}/{12:020d}{LOG_SUFFIX}", 100, 1)
    for _ in range(3):
        disk.crash(tails=CrashOutcome.KEPT, names=CrashOutcome.KEPT)
        disk.power_on()
        directory = opened(disk)
        directory.check_bytes = 1 << 20
        assert directory.open_log(*KEY, CONFIG, 0, TOPIC_ID).damage
        directory.checkpoint()
    assert "log start in doubt" not in caplog.text


def test_a_start_in_doubt_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    before = written(SHAPES["three segments"], "clean", knows_high_watermark=True)
    gone = [f"{0:020d}{LOG_SUFFIX}", f"tide-0/{checkpoints.LEADER_EPOCH_CHECKPOINT}"]
    disk = lose(before, gone)
    directory = opened(disk)
    directory.open_log(*KEY, CONFIG, 0, TOPIC_ID)
    assert directory.suspects == {KEY: "nothing tells where it starts"}
    directory.close()
    directory = opened(disk)
    directory.open_log(*KEY, CONFIG, 0, TOPIC_ID)
    assert not directory.suspects
    assert caplog.text.count("log start in doubt") == 1

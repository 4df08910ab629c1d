"""Logs that are drawn, written, damaged and opened: what becomes of each record is one of the promises, or a failure.

A seed draws the log (batches, leader epochs, segments, a later start, a clean stop or a crash) and up to four kinds of
damage to any files of the log directory but its identity. Kafka's cleaner may have been at it before. The log is opened
by a new process, read, appended to, closed, opened again and repaired. `check` raises `BrokenPromiseError` where a
promise of `docs/durability.md` does not hold:

- what is served is what was written at that offset;
- what was flushed, and is not served, is refused with words, or a line tells of it; after a clean stop the broker then
  counts as one that has crashed;
- a batch whose bytes are as they were is served or refused, or a line names the file in which it is kept;
- no opening and no repair removes one;
- what the first opening serves the next one serves too, with what was appended meanwhile;
- no error but those that say what is damaged.

`check` returns why a log is not judged: the few of which nothing can tell what they held (docs/durability.md).
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Final
from uuid import UUID

import attrs

from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.batches import CHECKSUM_START, MAGIC, BatchHeader, RecordError, checked_header
from tidegauge.impl.records.payload import Record, build_batch, decode_batches
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.errors import DamagedLogError
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.log_directory import CLEAN_SHUTDOWN, LogDirectory
from tidegauge.impl.storage.segment_names import (
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    base_offset_of,
    file_name,
)

KEY: Final = ("tide", 0)
PATH: Final = "data/tide-0"
_TOPIC_ID: Final = UUID(int=0x5EA, version=4)
FIRST: Final = "the first batch begins before its file"
LAST: Final = "the base offset of the last batch has changed, and nothing tells where the log ended"
GONE: Final = "a file of a cleaned log is gone, and so is the snapshot with its name"
MOVED: Final = "a base offset has changed in a cleaned log, by what was left out beside it"
_LINES_OF_ALL: Final = ("directory was not closed", "checkpoint missing", "checkpoint rejected")


_MAGIC_BYTE: Final = bytes([MAGIC])


class BrokenPromiseError(AssertionError):
    """A promise does not hold."""


class _Lines(logging.Handler):
    """The lines from warning up."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@attrs.define
class Fuzzed:
    """One log that is drawn from a seed."""

    seed: int
    is_cleaned: bool = False
    """Whether Kafka's cleaner was at the log before it was damaged."""
    did: list[str] = attrs.field(factory=list)
    """What was done to it, in words."""
    values: dict[int, bytes] = attrs.field(factory=dict)
    """What was written at each offset from the log start on."""
    is_clean: bool = False
    reads_all: bool = False
    config: LogConfig = attrs.field(factory=LogConfig)
    disk: SimulatedDisk = attrs.field(init=False)
    before: dict[str, bytes] = attrs.field(factory=dict)
    """All files before the damage."""
    damaged: dict[str, bytes] = attrs.field(factory=dict)
    """And behind it."""
    written: set[tuple[int, bytes]] = attrs.field(factory=set)
    """The batches in them, by their base offsets and what a checksum covers."""

    def run(self) -> str:
        """Returns why the log is not judged, "" where it is.

        Raises BrokenPromiseError, or whatever an opening raises that it should not.
        """
        rng = Random(self.seed)
        self._write(rng)
        if self.is_cleaned:
            self._clean(Random(f"cleaned {self.seed}"))
        self.before = dict(self.disk.files())
        self.written = {
            _identity(content, start) for content in self.before.values() for start in _batch_starts(content)
        }
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
            self._damage(rng)
        self.damaged = dict(self.disk.files())
        reason = self._untold()
        if not reason:
            self._check()
        return reason

    def _write(self, rng: Random) -> None:
        self.disk = disk = SimulatedDisk(rng)
        self.config = LogConfig(
            segment_bytes=rng.choice((300, 450, 900, 5_000)),
            index_interval_bytes=rng.choice((100, 250, 4_096)),
            retention_ms=-1,
            file_delete_delay_ms=0,
        )
        self.is_clean, self.reads_all = rng.random() < 0.5, rng.random() < 0.5
        directory = self._directory()
        log = directory.open_log(*KEY, self.config, 0, _TOPIC_ID)
        if rng.random() < 0.2:
            log.truncate_fully_and_start_at(rng.choice((1, 7, 300)))
        epoch = 0
        for _ in range(rng.randrange(1, 16)):
            epoch += rng.choice((0, 0, 1, 2))
            self._append(log, rng, epoch)
            if rng.random() < 0.1:
                log.roll(0)
            if rng.random() < 0.1:
                log.flush()
                directory.checkpoint()
        if rng.random() < 0.4:
            directory.begin_checkpoint_high_watermarks({KEY: log.log_end_offset})()
        if rng.random() < 0.3:
            log.flush()
            log.delete_records_before(rng.randrange(log.log_start_offset, log.log_end_offset + 1))
            directory.checkpoint_log_starts()
            log.retention(0)
            log.free_deleted(0)
        log.flush()
        self.values = {offset: one for offset, one in self.values.items() if offset >= log.log_start_offset}
        if self.is_clean:
            directory.close(broker_epoch=3)
        else:
            if rng.random() < 0.7:
                directory.checkpoint()
            disk.crash(tails=CrashOutcome.KEPT, names=CrashOutcome.KEPT)
            disk.power_on()

    def _clean(self, rng: Random) -> None:
        """What Kafka's cleaner leaves: files without some of their batches, and how far it came."""
        logs = sorted(path for path in self.disk.files() if path.startswith(PATH) and path.endswith(LOG_SUFFIX))
        share = rng.choice((0.2, 0.5, 0.9))
        for path in logs[:-1]:
            content, kept = self.disk.files()[path], b""
            for start in _batch_starts(content):
                header = checked_header(content, start)
                if rng.random() < share:
                    for offset in range(header.base_offset, header.next_offset):
                        self.values.pop(offset, None)
                else:
                    kept += content[start : start + header.size]
            if kept == content:
                continue
            for suffix in SEGMENT_SUFFIXES:
                beside = path.removesuffix(LOG_SUFFIX) + suffix
                if self.disk.exists(beside):
                    self.disk.remove(beside)
            self._replace(path, kept)
        reached = base_offset_of(logs[-1].rpartition("/")[2]) or 0
        offsets = checkpoints.encode_offsets({KEY: reached})
        self._replace(f"data/{checkpoints.CLEANER_OFFSET_CHECKPOINT}", offsets.encode())
        self.disk.sync_directory(PATH)

    def _append(self, log: Log, rng: Random, epoch: int) -> None:
        base, records = log.log_end_offset, rng.choice((1, 1, 2, 5))
        written = [b"%06d %d" % (base + number, self.seed) * rng.choice((1, 3)) for number in range(records)]
        log.append_as_leader(build_batch([Record(n, 100, None, one) for n, one in enumerate(written)]), epoch, 0)
        self.values.update({base + number: one for number, one in enumerate(written)})

    def _directory(self) -> LogDirectory:
        directory = LogDirectory.open(self.disk, "data", cluster_id="c", node_id=1, directory_id=UUID(int=1))
        directory.check_bytes = 1 << 30 if self.reads_all else 0
        return directory

    # --- damage -------------------------------------------------------------------------------------------------------

    def _damage(self, rng: Random) -> None:
        disk = self.disk
        paths = sorted(path for path in disk.files() if not path.endswith((checkpoints.META_PROPERTIES, ".lock")))
        logs = [path for path in paths if path.endswith(LOG_SUFFIX)]
        path = rng.choice(logs if logs and rng.random() < 0.6 else paths)
        content = disk.files()[path]
        at = rng.randrange(len(content)) if content else 0
        kind = rng.choice(("flip", "flip", "header", "zeroes", "garbage", "cut", "grow", "remove", "stray", "copy"))
        if path.endswith(CLEAN_SHUTDOWN) and kind != "remove":
            return  # it counts by being there
        if kind in ("flip", "header") and content:
            if kind == "header" and path.endswith(LOG_SUFFIX):
                at = rng.choice([start + rng.randrange(61) for start in _batch_starts(content)] or [at])
            at = min(at, len(content) - 1)
            disk.flip_bit(path, at, rng.randrange(8))
        elif kind in ("zeroes", "garbage") and content:
            size = min(rng.choice((1, 8, 100, 512)), len(content) - at)
            self._replace(
                path, content[:at] + (bytes(size) if kind == "zeroes" else rng.randbytes(size)) + content[at + size :]
            )
        elif kind == "cut":
            self._replace(path, content[:at])
        elif kind == "grow":
            self._replace(path, content + rng.choice((bytes(100), rng.randbytes(70), content)))
        elif kind == "remove":
            disk.remove(path)
        elif kind == "stray":
            path = f"{PATH}/{file_name(rng.randrange(60), LOG_SUFFIX)}"
            if disk.exists(path):
                return
            self._replace(path, rng.choice((b"", rng.randbytes(150), bytes(200))))
        elif kind == "copy" and logs:
            source, path = rng.choice(logs), f"{PATH}/{file_name(rng.randrange(60), LOG_SUFFIX)}"
            if disk.exists(path):
                return
            self._replace(path, disk.files()[source])
        self.did.append(f"{kind} {path} at {at} of {len(content)}")

    def _replace(self, path: str, content: bytes) -> None:
        if self.disk.exists(path):
            self.disk.remove(path)
        file = self.disk.open(path, create=True)
        file.append(content)
        file.sync()
        file.close()

    # --- what is promised ---------------------------------------------------------------------------------------------

    def _check(self) -> None:
        lines = _Lines()
        logger = logging.getLogger("tidegauge.impl.storage")
        level, propagates = logger.level, logger.propagate
        logger.setLevel(logging.WARNING)
        logger.propagate = False
        logger.addHandler(lines)
        try:
            self._check_lives(lines)
        finally:
            logger.removeHandler(lines)
            logger.propagate = propagates
            logger.setLevel(level)

    def _check_lives(self, lines: _Lines) -> None:
        directory = self._directory()
        if KEY not in directory.partitions():
            return
        log = directory.open_log(*KEY, self.config, 0, _TOPIC_ID)
        found = dict(self._served(log))
        self._check_served(found)
        self._check_kept(found, lines.lines, log)
        missing = sorted(self.values.keys() - found.keys())
        counts_as_crashed = directory.stopped_cleanly_in == -1 or KEY in directory.suspects or bool(log.damage)
        if missing:
            self._check_told(missing, lines.lines, log)
            if self.is_clean and not counts_as_crashed:
                raise BrokenPromiseError(f"{missing} are lost, and the broker counts as one that has all")
        was_read, self.reads_all = self.reads_all, not self.reads_all
        end = log.log_end_offset
        log.append_as_leader(build_batch([Record(0, 100, None, b"new")]), max(log.latest_epoch, 0) + 1, 0)
        found[end] = b"new"
        directory.close(broker_epoch=4)
        directory = self._directory()
        log = directory.open_log(*KEY, self.config, 0, _TOPIC_ID)
        again = dict(self._served(log))
        lost = sorted(found.keys() - again.keys())
        is_news = not was_read or self._epochs_are_damaged  # damage that the first process had not met
        if lost and not (is_news and all(_is_refused(log, offset) for offset in lost)):
            raise BrokenPromiseError(f"{lost} were served, and are not by the next process")
        if any(again[offset] != value for offset, value in found.items() if offset in again):
            raise BrokenPromiseError("the next process serves something else")
        if log.damage:
            first = log.damage.start
            intact = self._intact()
            log.repair()
            if gone := intact - self._intact():
                raise BrokenPromiseError(
                    f"a repair has left no copy of the batches at {sorted(one for one, _ in gone)}"
                )
            left = dict(self._served(log))
            if kept := sorted(offset for offset in found if offset < first and offset not in left):
                raise BrokenPromiseError(f"a repair has cut {kept}, before the damage at {first}")
            if log.damage:
                raise BrokenPromiseError("a repaired log is damaged")

    def _check_served(self, found: dict[int, bytes]) -> None:
        for offset, value in found.items():
            written = self.values.get(offset)
            if written is None and offset < min(self.values, default=1 << 62):
                continue  # what was deleted may be there again
            if written != value:
                raise BrokenPromiseError(f"{value!r} is served at {offset}, where {written!r} was written")

    def _intact(self, files: Mapping[str, bytes] | None = None) -> set[tuple[int, bytes]]:
        """The batches in the log's directory that are as they were written, in files of any name."""
        files = self.disk.files() if files is None else files
        held = [content for path, content in files.items() if path.startswith(PATH)]
        return {
            (header.base_offset, content[start + CHECKSUM_START : start + header.size])
            for content in held
            for start, header in intact_batches(content)
            if header.base_offset in self.values
        } & self.written

    def _check_kept(self, found: Mapping[int, bytes], lines: Sequence[str], log: Log) -> None:
        """What is intact is served, or refused, or a line tells of the file in which it is kept."""
        before, after = self._intact(self.damaged), self._intact()
        if gone := before - after:
            raise BrokenPromiseError(f"nothing is left of the intact batches at {sorted(one for one, _ in gone)}")
        names = {
            path.rpartition("/")[2]: content for path, content in self.disk.files().items() if path.startswith(PATH)
        }
        told = {name for name in names if any(name in line for line in lines)}
        kept = {header.base_offset for name in told for _, header in intact_batches(names[name])}
        for offset, _ in before:
            if offset not in found and offset not in kept and not _is_refused(log, offset):
                raise BrokenPromiseError(f"the batch at {offset} is intact, and neither served nor told of")

    def _untold(self) -> str:
        """Which base offset has changed that nothing tells (docs): that of the log's first batch or of its last one."""
        point = f"data/{checkpoints.RECOVERY_POINT_CHECKPOINT}"
        is_noted = self.before.get(point) == self.damaged.get(point)
        snapshot = max((path for path in self.before if path.endswith(SNAPSHOT_SUFFIX)), default=point)
        knows_end = self.is_clean and (is_noted or snapshot in self.damaged)
        written = {_identity(content, start) for content in self.before.values() for start in _batch_starts(content)}
        found: list[tuple[int, list[tuple[int, bytes]]]] = []
        for path, content in sorted(self.damaged.items()):
            base = base_offset_of(path.rpartition("/")[2])
            if base is not None and (starts := _batch_starts(content)):
                found.append((base, [_identity(content, start) for start in starts]))
        if self.is_cleaned and (reason := self._untold_of_cleaned(found, written)):
            return reason
        if found and found[0][1][0] not in written and found[0][1][0][0] < found[0][0]:
            return FIRST
        return LAST if found and not knows_end and found[-1][1][-1] not in written else ""

    def _untold_of_cleaned(
        self, found: Sequence[tuple[int, list[tuple[int, bytes]]]], written: Container[tuple[int, bytes]]
    ) -> str:
        """What looks like something that a cleaner has left out (docs): of these files, and the batches in them."""
        for path, content in self.before.items():
            snapshot = path.removesuffix(LOG_SUFFIX) + SNAPSHOT_SUFFIX
            is_gone = snapshot in self.before and not {path, snapshot} & self.damaged.keys()
            if path.endswith(LOG_SUFFIX) and content and is_gone:
                return GONE
        contents = {content for _, content in self.written}
        last = max((base_offset_of(path.rpartition("/")[2]) or 0 for path in self.damaged), default=0)
        closed = [one for base, batches in found if base != last for one in batches]
        moved = [one for one in closed if one not in written and one[1] in contents]
        return MOVED if moved else ""

    @property
    def _epochs_are_damaged(self) -> bool:
        """Whether a leader epoch has changed, a batch's or one that is noted: only reading all of the log tells."""
        for path, before in self.before.items():
            now = self.damaged.get(path, b"")
            if path.endswith(checkpoints.LEADER_EPOCH_CHECKPOINT) and now != before:
                return True
            if path.endswith(LOG_SUFFIX):
                pieces = (slice(start + 12, start + 16) for start in _batch_starts(before))
                if any(now[piece] != before[piece] for piece in pieces):
                    return True
        return False

    def _check_told(self, missing: Sequence[int], lines: Sequence[str], log: Log) -> None:
        told = [line for line in lines if "tide-0" in line or line.startswith(_LINES_OF_ALL)]
        refused = [offset for offset in missing if _is_refused(log, offset)]
        if len(refused) < len(missing) and not told:
            raise BrokenPromiseError(f"{sorted(set(missing) - set(refused))} are not served, and no line says so")

    def _served(self, log: Log) -> Iterator[tuple[int, bytes]]:
        """What a consumer gets from the log start on; what it is refused it is refused with words."""
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            try:
                records = list(decode_batches(log.read(offset, 400)))
            except DamagedLogError as error:
                if offset >= error.end or not (error.start <= offset or self.is_cleaned):
                    raise BrokenPromiseError(f"[{error.start}, {error.end}) is refused at {offset}") from error
                offset = error.end
                continue
            is_passed_over = (
                not self.is_cleaned
                and bool(records)
                and any(one in self.values for one in range(offset, records[0].offset))
            )
            if not records and self.is_cleaned:
                return  # the cleaner has left out what was there
            if not records or is_passed_over or records[-1].offset < offset:
                raise BrokenPromiseError(f"{[record.offset for record in records]} is served from {offset} on")
            for record in records:
                if record.offset >= offset:
                    yield record.offset, record.value or b""
            offset = records[-1].offset + 1


def _is_refused(log: Log, offset: int) -> bool:
    return any(gap.start <= offset < gap.end for gap in log.damage.gaps)


def intact_batches(content: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Every intact batch of a file, wherever it begins."""
    position = content.find(_MAGIC_BYTE, 16)
    while position >= 0:
        with suppress(RecordError):
            yield position - 16, checked_header(content, position - 16)
        position = content.find(_MAGIC_BYTE, position + 1)


def _identity(content: bytes, start: int) -> tuple[int, bytes]:
    """Of a batch: its base offset, and what a checksum covers."""
    header = checked_header(content, start)
    return header.base_offset, content[start + CHECKSUM_START : start + header.size]


def _batch_starts(content: bytes) -> list[int]:
    """Where batches lie, up to the first place that is none."""
    starts, position = [], 0
    while position < len(content):
        try:
            header = checked_header(content, position)
        except RecordError:
            break
        starts.append(position)
        position += header.size
    return starts


def check(seed: int, *, is_cleaned: bool = False) -> str:
    """Why the log of a seed is not judged, "" where it is; raises BrokenPromiseError with what was done to it."""
    log = Fuzzed(seed, is_cleaned)
    try:
        return log.run()
    except Exception as error:
        end = "a clean stop" if log.is_clean else "a crash"
        raise BrokenPromiseError(f"seed {seed} after {end}: {error!r}; {'; '.join(log.did)}") from error


def judged(seeds: Iterable[int], *, is_cleaned: bool = False) -> Counter[str]:
    """How many logs are judged ("") and how many are not, by the reason; raises BrokenPromiseError at the first fault.

    `python -m tidegauge.model_tests.harness.damage.fuzzed FIRST LAST` prints them.
    """
    return Counter(check(seed, is_cleaned=is_cleaned) for seed in seeds)


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    found = judged(range(first, last))
    for reason, number in found.most_common():
        print(f"{number / found.total():6.2%} {number:6} {reason or 'judged'}")

"""A log of `impl.storage` on a simulated disk beside the machine of its recovery.

A batch is damaged where it lies on the disk, in one of many ways that come to the same; `recovered_batches` says what
is in it. Of a log that nothing has damaged all is known that its batches say of producers and their transactions.

What nobody is served is not read back: the batches that are refused are the specification's. All else is the log's, the
disk's, or that of the files beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Final

import attrs

from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.batches import checked_header
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage import segment as stored
from tidegauge.impl.storage.appends import AppendedBatch
from tidegauge.impl.storage.checkpoints import PARTITION_METADATA
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.damage import DAMAGE_NOTE, DAMAGED_SUFFIX, STRAY_SUFFIX
from tidegauge.impl.storage.errors import CorruptLogError, DamagedLogError
from tidegauge.impl.storage.leader_epoch_cache import UNDEFINED_EPOCH, EpochEntry
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.producer_snapshot import snapshot_offset
from tidegauge.impl.storage.segment_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    file_name,
)
from tidegauge.model_tests.harness.cores.closed_log import LOG, OTHER, found_otherwise
from tidegauge.model_tests.harness.cores.crashed_files import check_kept
from tidegauge.model_tests.harness.cores.recovered_batches import (
    Memory,
    as_kept,
    bytes_from,
    bytes_of,
    intact,
    of_another_log,
    spot,
)
from tidegauge.model_tests.harness.cores.recovered_lines import (
    FOUND,
    MET,
    NOT_A_SEGMENT,
    REJECTED,
    Line,
    Listening,
    Opening,
    damage_found,
    damage_met,
    gaps_in,
    opening,
    said_in,
)
from tidegauge.model_tests.harness.cores.set_aside import SetAside
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.recovery import actions as spec
from tidegauge.spec.recovery.elsewhere import BeginEpoch, LeaveOut
from tidegauge.spec.recovery.epoch_lies import SpoilEpochs
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.recovery.replacing import Interrupt
from tidegauge.spec.recovery.state import NO_EPOCHS, NO_FILE, UNREADABLE, Batch, Rot, Segment, Stage, State

ROOT: Final = "logs"
DIRECTORY: Final = f"{ROOT}/tide-0"
_CHECKED: Final = 21
"""From here on a batch is as its producer has made it."""
OTHER_ROOT: Final = "other-logs"
ODD: Final = f"notes{LOG_SUFFIX}"
"""A file that is named like a segment, and is none."""
CONFIG: Final = LogConfig(index_interval_bytes=150, file_delete_delay_ms=0, retention_ms=-1)


class RecoveryCores:
    """Satisfies `harness.lockstep.lockstep.Binding`: one log, and what its broker writes down beside it."""

    def __init__(self, machine: Recovery, roles: object = None) -> None:
        self._disk = SimulatedDisk(Random(0))
        self._disk.make_directory(f"{OTHER_ROOT}/{OTHER[0]}-{OTHER[1]}")
        if machine.max_appends % 4 == 0:  # the directory of a replica that has no log yet
            self._disk.make_directory(DIRECTORY)
            self._write(f"{DIRECTORY}/{PARTITION_METADATA}", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
        self._log: Log | None = None
        self._places: dict[int, tuple[int, int, int]] = {}
        """Where a batch begins -> the base offset of its segment, its position there, and its size."""
        self._point = self._start = self._high_watermark = 0
        self._is_clean, self._knows_start = False, True
        self._machine = machine
        self._open_files = 0
        """How many the last opening has left open."""
        self._opening: Opening | None = None
        """What the last opening had to do; None once something else has happened."""
        self._aside = SetAside()
        self._doubted: list[tuple[int, int]] = []
        """Where a file may be missing, of what is left of the log since it was opened."""
        self._met = ""
        """The file in which the last action has met damage."""
        self._before: State | None = None
        self._files: dict[str, bytes] = {}
        """What the directory held before the last action."""
        self._lines: list[Line] = []
        """What was said since."""

    @property
    def log(self) -> Log:
        """The log, which is open."""
        assert self._log is not None
        return self._log

    def perform(self, action: Action, before: State) -> None:
        self._opening, self._before, self._files, self._met = None, before, self._directory(), ""
        with Listening(lambda: self._disk.unsynced_names(DIRECTORY)) as self._lines:
            STEPS.perform(self, action, before)

    def close(self) -> None:
        if self._log is not None:
            self._log.abandon()

    # --- an open log ----------------------------------------------------------------------------------------------

    def append(self, action: spec.Append, before: State) -> None:
        epoch = before.epoch + action.by_new_leader
        batch = bytes_of(before.end, action.records, epoch)
        active = self.log.segments[-1]
        self._places[before.end] = active.base_offset, active.size, len(batch)
        self.log.append_as_leader(batch, epoch, 0, origin=Origin.BROKER)

    def append_across(self, action: spec.AppendAcross, before: State) -> None:
        batch = bytes_from(before.end - 1, 2, before.epoch + action.by_new_leader)
        self._places[before.end - 1] = before.end, 0, len(batch)
        self.log.append_as_follower(batch)

    def roll(self, action: spec.Roll, before: State) -> None:
        self.log.roll(0)

    def flush(self, action: spec.Flush, before: State) -> None:
        self.log.flush()
        if action.noted:
            self._point = self.log.flushed_end_offset
            self._start = 0 if self.log.log_start_is_implied else self.log.log_start_offset

    def note_high_watermark(self, action: spec.NoteHighWatermark, before: State) -> None:
        self._high_watermark = self.log.log_end_offset

    def start_at(self, action: spec.StartAt, before: State) -> None:
        log = self.log
        log.delete_records_before(action.offset)
        log.prepare_log_start(action.offset)
        self._start = action.offset
        log.record_log_start_written(action.offset)
        log.retention(0, high_watermark=action.offset)
        log.free_deleted(0)

    def truncate(self, action: spec.Truncate, before: State) -> None:
        self.log.truncate_to(action.offset)

    def start_anew(self, action: spec.StartAnew, before: State) -> None:
        epoch = before.epoch if action.knows_epoch else UNDEFINED_EPOCH
        self.log.truncate_fully_and_start_at(action.offset, epoch=epoch)

    def meet(self, action: spec.Meet, before: State) -> None:
        segment = next(one for one in before.segments if one.base == action.base)
        self._spoil(action.base, segment.batches[action.number :], action.rot, before)
        with suppress(CorruptLogError):
            self.log.look_again(max(segment.batches[action.number].start, before.start))
        self._met = _path(action.base)

    def repair(self, action: spec.Repair, before: State) -> None:
        self.log.repair()

    def shut_down(self, action: spec.Close, before: State) -> None:
        self.log.close()
        self._point, self._start, self._is_clean = self.log.log_end_offset, self.log.log_start_offset, True
        self._high_watermark = min(self._high_watermark, self._point)
        self._log = None

    def crash(self, action: spec.Crash, before: State) -> None:
        keep = {}
        for number, segment in enumerate(before.segments):
            path = _path(segment.base)
            unsynced = self._disk.unsynced(path)
            kept = 0
            if number < action.file or (number > action.file and action.first):
                kept = unsynced
            elif number == action.file:
                sizes = [self._places[batch.start][2] for batch in segment.batches[segment.synced :]]
                kept = sum(sizes[: action.kept]) + (sizes[action.kept] * 2 // 3 if action.torn else 0)
            keep[path] = kept
        if not (before.damages or action.torn or action.first):
            known = before.segments[action.file]
            end = ([known.base] + [batch.end for batch in known.batches])[known.synced + action.kept]
            flushed = [one.base for one in before.segments if one.synced]
            check_kept(self._disk, [OTHER_ROOT, ROOT], LOG, keep, end=end, refused=[before.end + 1, *flushed])
        self.log.abandon()
        self._log = None
        self._disk.crash(keep=keep, tails=CrashOutcome.KEPT, names=CrashOutcome.KEPT)
        self._disk.power_on()

    def interrupt(self, action: Interrupt, before: State) -> None:
        """What the cleaner does in one go, up to here."""
        log = self.log
        if before.flushed < before.end:
            log.flush()
        old = [segment for segment in log.segments if action.first <= segment.base_offset <= action.last]
        new = stored.Segment(self._disk, DIRECTORY, action.first, CONFIG.index_interval_bytes, 0, suffix=CLEANED_SUFFIX)
        for segment in old:
            for header in segment.headers():
                if action.stage is not Stage.WRITTEN:
                    self._places[header.base_offset] = action.first, new.size, header.size
                batch = AppendedBatch(header.last_offset, header.size, header.max_timestamp)
                new.append([segment.read_batch(header)], [batch])
            for aborted in segment.transaction_index.entries:
                new.transaction_index.append(aborted)
        new.sync(closed=True)
        if action.stage >= Stage.DECIDED:
            new.rename(SWAP_SUFFIX)
        for segment in old[: {Stage.WRITTEN: 0, Stage.DECIDED: 0, Stage.BEGUN: 1}.get(action.stage)]:
            segment.rename(DELETED_SUFFIX)
        if action.stage is Stage.PLACED:
            new.rename("")
        new.close()
        for suffix in ("", SWAP_SUFFIX):
            self._write(f"{DIRECTORY}/{file_name(before.end + 5, INDEX_SUFFIX)}{suffix}", b"of no segment")
        if not self._disk.exists(f"{DIRECTORY}/{ODD}"):
            self._write(f"{DIRECTORY}/{ODD}", b"named like a segment")
        log.abandon()
        self._log = None

    # --- a closed one ---------------------------------------------------------------------------------------------

    def spoil(self, action: spec.Spoil, before: State) -> None:
        segment = next(one for one in before.segments if one.base == action.base)
        self._spoil(action.base, segment.batches[action.number :], action.rot, before)

    def _spoil(self, base: int, batches: Sequence[Batch], rot: Rot, before: State) -> None:
        """Damage the first of these batches of a file."""
        _, position, size = self._places[batches[0].start]
        rng = Random(f"{batches[0].start} {before.end} {before.damages} {before.appended}")
        all_batches = [batch for segment in before.segments for batch in segment.batches]
        beside = all_batches[max(0, all_batches.index(batches[0]) - 2)] if rot is Rot.LOW else None
        beside = batches[1] if beside is None and len(batches) > 1 else beside
        at, bit = spot(rot, batches[0], size, beside, rng)
        self._disk.flip_bit(_path(base), position + at, bit)

    def leave_out(self, action: LeaveOut, before: State) -> None:
        segment = next(one for one in before.segments if one.base == action.base)
        file, content = self._disk.open(_path(action.base)), self._disk.files()[_path(action.base)]
        _, position, size = self._places[segment.batches[action.number].start]
        file.truncate(position)
        file.append(content[position + size :])
        file.sync()
        file.close()
        for batch in segment.batches[action.number + 1 :]:
            base, at, taken = self._places[batch.start]
            self._places[batch.start] = base, at - size, taken
        for suffix in SEGMENT_SUFFIXES:
            path = f"{DIRECTORY}/{file_name(action.base, suffix)}"
            if suffix != LOG_SUFFIX and self._disk.exists(path):
                self._disk.remove(path)
        self._disk.sync_directory(DIRECTORY)

    def begin_epoch(self, action: BeginEpoch, before: State) -> None:
        self._write_epochs([*(self._written_epochs() or ()), EpochEntry(before.epoch + 1, before.end)])

    def lose_segment(self, action: spec.LoseSegment, before: State) -> None:
        for suffix in SEGMENT_SUFFIXES:
            path = f"{DIRECTORY}/{file_name(action.base, suffix)}"
            if self._disk.exists(path):
                self._disk.remove(path)
        self._disk.sync_directory(DIRECTORY)

    def make_up(self, action: spec.MakeUp, before: State) -> None:
        content = b"" if action.is_empty else Random(action.base).randbytes(200)
        self._write(_path(action.base), content)

    def make_up_snapshot(self, action: spec.MakeUpSnapshot, before: State) -> None:
        offset = before.end + 1 if action.is_near else spec.FAR
        self._write(f"{DIRECTORY}/{file_name(offset, SNAPSHOT_SUFFIX)}", b"of no producers")

    def lose_epochs(self, action: spec.LoseEpochs, before: State) -> None:
        path = f"{DIRECTORY}/{checkpoints.LEADER_EPOCH_CHECKPOINT}"
        self._disk.remove(path)
        if action.is_there:
            self._write(path, b"0\n2\n0 0\n")
        self._disk.sync_directory(DIRECTORY)

    def spoil_epochs(self, action: SpoilEpochs, before: State) -> None:
        starts = [batch.start for segment in before.segments for batch in segment.batches]
        self._write_epochs(of_another_log(self._written_epochs() or (), action.lie, starts, before.end))

    def _write_epochs(self, entries: Sequence[EpochEntry]) -> None:
        path = f"{DIRECTORY}/{checkpoints.LEADER_EPOCH_CHECKPOINT}"
        self._disk.remove(path)
        self._write(path, checkpoints.encode_leader_epochs(entries).encode())

    def lose_point(self, action: spec.LosePoint, before: State) -> None:
        self._point = 0

    def lower_point(self, action: spec.LowerPoint, before: State) -> None:
        self._point = action.offset

    def spoil_point(self, action: spec.SpoilPoint, before: State) -> None:
        self._point = spec.FAR

    def spoil_high_watermark(self, action: spec.SpoilHighWatermark, before: State) -> None:
        self._high_watermark = spec.FAR

    def lose_start(self, action: spec.LoseStart, before: State) -> None:
        self._start, self._knows_start = 0, False

    def spoil_start(self, action: spec.SpoilStart, before: State) -> None:
        self._start = spec.FAR

    def open(self, action: spec.Open, before: State) -> None:
        open_files = self._segments_open()
        self._log = Log.open(
            self._disk,
            DIRECTORY,
            CONFIG,
            0,
            recovery_point=self._point,
            log_start_offset=self._start,
            high_watermark=self._high_watermark,
            cleaned_offset=before.mark if before.left_out else None,
            clean_shutdown=self._is_clean,
            knows_log_start=self._knows_start,
            reads_all=action.reads_all,
            before_lowering=self._lower,
            note_start=self._note_start,
        )
        self._is_clean, self._knows_start = False, True
        self._open_files = self._segments_open() - open_files
        self._opening = opening(self._machine, before, action)
        self._doubted = sorted(self._opening.taken.doubted)

    def _segments_open(self) -> int:
        """How often the files of segments are open."""
        return sum(count for path, count in self._disk.open_files.items() if LOG_SUFFIX in path)

    def _lower(self, offset: int) -> None:
        self._point, self._start = min(self._point, offset), min(self._start, offset)

    def _note_start(self, offset: int) -> None:
        self._start = offset

    def _write(self, path: str, content: bytes) -> None:
        file = self._disk.open(path, create=True)
        file.append(content)
        file.sync()
        file.close()
        self._disk.sync_directory(DIRECTORY)

    # --- what there is --------------------------------------------------------------------------------------------

    def abstraction(self, state: State) -> State:
        if self._log is None:
            return attrs.evolve(state, point=self._point, start=self._start, is_open=False)
        log = self._log
        with Listening() as lines:
            segments = tuple(self._segments(state))  # which meets damage, and writes a note of it
        self._lines += lines
        names = self._disk.list_directory(DIRECTORY)
        epochs = log.epochs.entries
        return attrs.evolve(
            state,
            segments=segments,
            is_open=True,
            start=log.log_start_offset,
            written=self._start,
            end=log.log_end_offset,
            gaps=tuple((gap.start, gap.end) for gap in log.damage.gaps),
            flushed=log.flushed_end_offset,
            point=self._point,
            high_watermark=self._high_watermark,
            first_epoch=epochs[0].start_offset if epochs else NO_EPOCHS,
            noted=self._noted(names),
            snapshots=frozenset(offset for name in names if (offset := snapshot_offset(name)) is not None),
            has_note=DAMAGE_NOTE in names,
            was_rejected=log.recovery.is_point_rejected,
            ends_in_damage=log.recovery.ends_in_damage,
            start_in_doubt=log.recovery.is_start_in_doubt,
            gap_in_doubt=bool(log.recovery.doubted),
            aside=state.aside & self._kept_apart(),
        )

    def differences(self, expected: State) -> Iterator[Change]:
        """What was said and set aside, what the disk may lose of an open log, and what it has of a closed one."""
        yield from self._aside.differences(self._files, self._directory())
        if self._aside.files and (unsynced := self._aside.files.keys() & self._disk.unsynced_names(DIRECTORY)):
            yield Change("set aside", "durably", sorted(unsynced))
        if early := {name for line in self._lines for name in line.unsynced}:
            yield Change("what is told of names", "once it is durable", sorted(early))
        if self._log is None:
            if expected.replacing is None and self._disk.exists(DIRECTORY):
                written = self._start, self._high_watermark
                yield from found_otherwise(self._disk, ROOT, OTHER_ROOT, self._machine, expected, *written)
            return
        for segment in expected.segments:
            is_lost = self._disk.unsynced(_path(segment.base)) > 0
            if is_lost and segment.synced == len(segment.batches) and not segment.torn:
                yield Change(f"segments[{segment.base}].synced", segment.synced, "less")
        if not expected.damages and not expected.left_out:
            yield from self._forgotten(expected)
        if self._opening is not None:
            yield from self._opened_otherwise(expected, self._opening)
        start, end = expected.start, expected.end
        self._doubted = [(first, min(last, end)) for first, last in self._doubted if last > start and first < end]
        if self._doubted != (doubted := [(gap.start, gap.end) for gap in self.log.damage.doubted]):
            yield Change("gaps in doubt", self._doubted, doubted)
        assert self._before is not None, "a log is closed at first"
        known = (
            {*self._before.gaps} if self._opening is None else {(gap.start, gap.end) for gap in self.log.recovery.gaps}
        )
        wanted, met = damage_met(known, expected), {gap for gap in gaps_in(self._lines, MET) if gap[2]}
        if wanted != met:
            yield Change("damage that is met", wanted, met)
        if self._met and self.log.examine(CorruptLogError(self._met, 0)):
            yield Change("what is met again", "no news", "news")

    def _opened_otherwise(self, expected: State, wanted: Opening) -> Iterator[Change]:
        """What the last opening has done, left and said otherwise."""
        names = set(self._disk.list_directory(DIRECTORY))
        over = [name for name in names if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX, DELETED_SUFFIX))]
        over += [name for name in names if name.endswith(INDEX_SUFFIX) and name[:20] + LOG_SUFFIX not in names]
        if over:
            yield Change("left over", [], over)
        found, taken, before = self.log.recovery, wanted.taken, self._before
        assert before is not None, "it was closed before"
        is_doubtful = expected.was_rejected or expected.ends_in_damage or expected.start_in_doubt
        is_doubtful |= expected.gap_in_doubt
        may_end_early = wanted.is_cut or expected.was_rejected or expected.ends_in_damage
        gaps = damage_found(taken, expected)
        has_changed = wanted.is_cut or bool(taken.strays or found.gaps) or expected.was_rejected
        noted = None if before.noted in (NO_FILE, UNREADABLE) or wanted.rejects_epochs else before.noted
        epochs = found.checkpointed_epochs
        for what, known, told in (
            ("open files", len(expected.segments), self._open_files),
            ("segments that are read", wanted.read, found.scanned_segments),
            ("all that was flushed is there", not found.gaps and not is_doubtful, found.lost_nothing),
            ("the log may have gone on", may_end_early, found.may_end_early),
            ("gaps", sorted(gap[:2] for gap in gaps if gap[2]), [(gap.start, gap.end) for gap in found.gaps]),
            ("files that are set aside", taken.strays, [int(name[:20]) for name in found.strays]),
            ("what stays behind damaged ends", taken.hidden, taken.hidden & self._held(LOG_SUFFIX)),
            ("whether files have changed", has_changed, found.has_changed_files),
            ("the end of a log without files", 0 if taken.segments else taken.end, found.end_without_files),
            ("whether it was damaged", before.has_note, found.was_damaged),
            (
                "first leader epoch of the file",
                noted,
                None if epochs is None else epochs[0][1] if epochs else NO_EPOCHS,
            ),
            ("damage that is told", gaps, gaps_in(self._lines, FOUND)),
        ):
            if known != told:
                yield Change(what, known, told)
        said = said_in(self._lines)
        wanted.said |= {(NOT_A_SEGMENT, -1)} if self._disk.exists(f"{DIRECTORY}/{ODD}") else set()
        if before.is_contradicted:  # the log is read once to find that out, which says other things as well
            wanted.said, said = wanted.said & {(REJECTED, -1)}, said & {(REJECTED, -1)}
        if wanted.said != said:
            yield Change("what is said", sorted(wanted.said - said), sorted(said - wanted.said))

    def _forgotten(self, expected: State) -> Iterator[Change]:
        """What is known otherwise of producers and transactions than the batches say that are there."""
        batches = [batch for segment in expected.segments for batch in segment.batches]
        memory = Memory.of(batches)
        yield from memory.differences(expected.start, self.log.producers)
        kept = Memory.of(batch for batch in batches if batch.start >= expected.start)
        found = self.log.aborted_transactions(expected.start, expected.end)
        found = list(as_kept(found, kept.aborted, expected.start))
        if kept.aborted != found:
            yield Change("aborted transactions", kept.aborted, found)

    def _noted(self, names: Sequence[str]) -> int:
        if checkpoints.LEADER_EPOCH_CHECKPOINT not in names:
            return NO_FILE
        entries = self._written_epochs()
        if entries is None:
            return UNREADABLE
        return entries[0].start_offset if entries else NO_EPOCHS

    def _written_epochs(self) -> Sequence[EpochEntry] | None:
        """The leader epochs as they are written down; None where no list is."""
        if not self._disk.exists(f"{DIRECTORY}/{checkpoints.LEADER_EPOCH_CHECKPOINT}"):
            return None
        text = checkpoints.read_text(self._disk, DIRECTORY, checkpoints.LEADER_EPOCH_CHECKPOINT)
        return checkpoints.decode_leader_epochs(text or "")

    def _segments(self, state: State) -> Iterator[Segment]:
        """The log's, with what is served of it, and with the batches of the specification that are not."""
        bases = self.log.segment_base_offsets
        known_gaps, served = list(self.log.damage.gaps), list(self._served())
        if self.log.damage.gaps != known_gaps:  # what was read before damage was met may lie between two damaged places
            served = list(self._served())
        known = {segment.base: segment for segment in state.segments}
        for base, following in zip(bases, [*bases[1:], spec.FAR], strict=True):
            like = known.get(base, Segment(base))
            batches = [one for one in like.batches if state.is_refused(one) or one.end <= self.log.log_start_offset]
            begun = 0 if base == bases[0] else base  # the first file may begin inside a batch
            batches += [one for one in served if begun <= one.start < following]
            yield attrs.evolve(like, batches=tuple(sorted(batches, key=lambda one: one.start)))

    def _served(self) -> Iterator[Batch]:
        """What a reader finds who begins at each offset; it is as it was written."""
        log, offset = self.log, self.log.log_start_offset
        while offset < log.log_end_offset:
            try:
                data = log.read(offset, 1)
            except DamagedLogError as damaged:
                offset = max(offset + 1, damaged.end)
                continue
            if not data:  # a cleaner has left out all that follows
                return
            header = checked_header(data)
            first, last, epoch = header.base_offset, header.last_offset, header.partition_leader_epoch
            known = log.epochs.epoch_for_offset(max(first, log.segment_base_offsets[0]))
            starts = [entry.start_offset for entry in log.epochs.entries]
            is_known = known == epoch or (known is None and first < min(starts, default=log.log_end_offset))
            is_same = data[_CHECKED:] == bytes_of(first, last + 1 - first, epoch)[_CHECKED:]
            yield Batch(first, last + 1, epoch if is_known and is_same else -1)
            offset = last + 1

    def _directory(self) -> dict[str, bytes]:
        """The files beside the log, and its own, by their names."""
        files = self._disk.files().items()
        return {path.rpartition("/")[2]: content for path, content in files if path.startswith(f"{DIRECTORY}/")}

    def _kept_apart(self) -> set[int]:
        """Where batches begin that lie in files of other names."""
        return self._held(DAMAGED_SUFFIX, STRAY_SUFFIX)

    def _held(self, *parts: str) -> set[int]:
        """Where intact batches begin that lie in files with one of these in their names."""
        files = (held for name, held in self._directory().items() if any(part in name for part in parts))
        return {header.base_offset for content in files for header in intact(content)}


def _path(base: int) -> str:
    return f"{DIRECTORY}/{file_name(base, LOG_SUFFIX)}"


STEPS: Final = Steps[RecoveryCores, [State], None](
    on(spec.Append, RecoveryCores.append),
    on(spec.AppendAcross, RecoveryCores.append_across),
    on(spec.Roll, RecoveryCores.roll),
    on(spec.Flush, RecoveryCores.flush),
    on(spec.NoteHighWatermark, RecoveryCores.note_high_watermark),
    on(spec.StartAt, RecoveryCores.start_at),
    on(spec.Truncate, RecoveryCores.truncate),
    on(spec.StartAnew, RecoveryCores.start_anew),
    on(spec.Meet, RecoveryCores.meet),
    on(LeaveOut, RecoveryCores.leave_out),
    on(BeginEpoch, RecoveryCores.begin_epoch),
    on(spec.MakeUpSnapshot, RecoveryCores.make_up_snapshot),
    on(spec.SpoilHighWatermark, RecoveryCores.spoil_high_watermark),
    on(spec.Repair, RecoveryCores.repair),
    on(spec.Close, RecoveryCores.shut_down),
    on(spec.Crash, RecoveryCores.crash),
    on(spec.Spoil, RecoveryCores.spoil),
    on(spec.LoseSegment, RecoveryCores.lose_segment),
    on(spec.MakeUp, RecoveryCores.make_up),
    on(spec.LoseEpochs, RecoveryCores.lose_epochs),
    on(spec.LosePoint, RecoveryCores.lose_point),
    on(spec.LowerPoint, RecoveryCores.lower_point),
    on(spec.SpoilPoint, RecoveryCores.spoil_point),
    on(spec.SpoilStart, RecoveryCores.spoil_start),
    on(spec.LoseStart, RecoveryCores.lose_start),
    on(SpoilEpochs, RecoveryCores.spoil_epochs),
    on(Interrupt, RecoveryCores.interrupt),
    on(spec.Open, RecoveryCores.open),
)

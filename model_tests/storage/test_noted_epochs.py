"""A leader epoch that has changed in a batch is damage; a checkpoint of leader epochs that is wrong costs no batch."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from itertools import product
from typing import Final

import pytest

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.batches import BatchHeader, assign
from tidegauge.impl.records.payload import Record, build_batch, decode_batches
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.damage import DAMAGE_NOTE
from tidegauge.impl.storage.errors import CorruptLogError, DamagedLogError
from tidegauge.impl.storage.leader_epoch_cache import EpochEntry
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.noted_epochs import Beside, NotedEpochs
from tidegauge.model_tests.amounts import crossed

DIRECTORY: Final = "logs/tide-0"
CHECKPOINT: Final = f"{DIRECTORY}/leader-epoch-checkpoint"
SIZE: Final = len(build_batch([Record(0, 100, None, b"x" * 60)]))
BATCHES_A_SEGMENT: Final = 4
CONFIG: Final = LogConfig(segment_bytes=BATCHES_A_SEGMENT * SIZE, index_interval_bytes=150)
EPOCHS: Final = (1,) * 3 + (2,) * 4 + (5,) * 5
"""Of each batch: one epoch begins inside a segment, and one ends with none."""
END: Final = len(EPOCHS)
EPOCH_POSITION: Final = 12
VALUE_POSITION: Final = 80


def written(epochs: Sequence[int] = EPOCHS, *, clean: bool = True) -> SimulatedDisk:
    """A flushed log with one record in each batch, which has the epoch of its offset."""
    disk = SimulatedDisk(random.Random(1))
    log = Log.open(disk, DIRECTORY, CONFIG, 0)
    for offset, epoch in enumerate(epochs):
        log.append_as_leader(build_batch([Record(0, 100, None, b"%03d" % offset * 20)]), leader_epoch=epoch, now_ms=0)
    log.flush()
    if clean:
        log.close()
    else:
        disk.crash()
        disk.power_on()
    return disk


def opened(disk: SimulatedDisk, *, clean: bool = True, end: int = END, reads_all: bool = True, point: int = -1) -> Log:
    return Log.open(
        disk,
        DIRECTORY,
        CONFIG,
        0,
        recovery_point=end if point < 0 else point,
        high_watermark=end,
        clean_shutdown=clean,
        reads_all=reads_all,
    )


def place(offset: int) -> tuple[str, int]:
    """The file of a batch, and its position there."""
    number, batch = divmod(offset, BATCHES_A_SEGMENT)
    return f"{DIRECTORY}/{number * BATCHES_A_SEGMENT:020d}.log", batch * SIZE


def change_epoch(disk: SimulatedDisk, offset: int, epoch: int) -> None:
    path, position = place(offset)
    overwrite(disk, path, position + EPOCH_POSITION, struct.pack(">i", epoch))


def spoil(disk: SimulatedDisk, offset: int) -> None:
    path, position = place(offset)
    disk.flip_bit(path, position + VALUE_POSITION, 3)


def overwrite(disk: SimulatedDisk, path: str, position: int, content: bytes) -> None:
    """Flip the bits that differ, as they lie on the disk."""
    before = disk.files()[path][position : position + len(content)]
    for at, (old, new) in enumerate(zip(before, content, strict=True)):
        for bit in range(8):
            if (old ^ new) >> bit & 1:
                disk.flip_bit(path, position + at, bit)


def note(disk: SimulatedDisk, entries: Sequence[tuple[int, int]] | str) -> None:
    """Write another checkpoint."""
    lines = "".join(f"{epoch} {start}\n" for epoch, start in entries) if not isinstance(entries, str) else ""
    text = entries if isinstance(entries, str) else f"0\n{len(entries)}\n{lines}"
    disk.remove(CHECKPOINT)
    file = disk.open(CHECKPOINT, create=True)
    file.append(text.encode())
    file.sync()


def begun(epochs: Sequence[int]) -> list[tuple[int, int]]:
    """Where each epoch begins."""
    return [(epoch, epochs.index(epoch)) for epoch in sorted(set(epochs))]


def readable(log: Log) -> list[int]:
    """The offsets that are served, each with its record."""
    found = []
    for offset in range(log.log_start_offset, log.log_end_offset):
        try:
            data = log.read(offset, 1)
        except DamagedLogError:
            continue
        (record,) = decode_batches(data)
        assert (record.offset, record.value) == (offset, b"%03d" % offset * 20)
        found.append(offset)
    return found


def served(disk: SimulatedDisk, *, clean: bool = True, end: int = END, reads_all: bool = True) -> list[int]:
    """The offsets that two processes serve, the second after a clean stop; the epochs are those of the log."""
    log = opened(disk, clean=clean, end=end, reads_all=reads_all)
    first, epochs = readable(log), log.epochs.entries
    log.close()
    log = opened(disk, end=end, reads_all=reads_all)
    assert (readable(log), log.epochs.entries, log.log_end_offset) == (first, epochs, end)
    return first


def without(*gone: int) -> list[int]:
    return [offset for offset in range(END) if offset not in gone]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("offset", range(END))
def test_another_leader_epoch_in_any_batch_is_damage_and_changes_no_other_epoch(offset: int, clean: bool) -> None:
    """A larger one, a smaller one, one that no leader had, and those of the batches beside it."""
    for epoch in {0, 1, 2, 3, 5, 6, EPOCHS[offset] + 4096, 1 << 30} - {EPOCHS[offset]}:
        disk = written(clean=clean)
        change_epoch(disk, offset, epoch)
        assert served(disk, clean=clean) == without(offset), epoch
        log = opened(disk)
        assert [tuple(entry) for entry in log.epochs.entries] == begun(EPOCHS), epoch


@pytest.mark.parametrize(("offset", "beside"), crossed(range(END), [(1,), (-1,), (-1, 1), (1, 2), (-2, -1)]))
def test_another_leader_epoch_beside_damage_is_damage(offset: int, beside: tuple[int, ...]) -> None:
    near = [offset + at for at in beside if 0 <= offset + at < END]
    for epoch in {0, 1, 2, 3, 5, 6, EPOCHS[offset] + 4096} - {EPOCHS[offset]}:
        disk = written()
        change_epoch(disk, offset, epoch)
        for one in near:
            spoil(disk, one)
        assert served(disk) == without(offset, *near), epoch
        assert [tuple(entry) for entry in opened(disk).epochs.entries] == begun(EPOCHS), epoch


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("at_end", [True, False])
def test_where_all_others_are_damaged_the_checkpoint_tells_of_another_epoch(
    count: int, at_end: bool, clean: bool
) -> None:
    disk = written((2,) * count, clean=clean)
    odd = count - 1 if at_end else 0
    change_epoch(disk, odd, 4098)
    for offset in range(count):
        if offset != odd:
            spoil(disk, offset)
    log = opened(disk, clean=clean, end=count)
    assert (readable(log), [tuple(entry) for entry in log.epochs.entries]) == ([], [(2, 0)])
    assert "has leader epoch 4098, and 2 is noted" in str(log.damage.gaps)


@pytest.mark.parametrize("epochs", [EPOCHS, (1,) * 5 + (2,) * 2 + (5,) * 5])
@pytest.mark.parametrize("offset", range(END))
def test_damage_that_is_met_later_keeps_what_was_found_of_a_leader_epoch(offset: int, epochs: tuple[int, ...]) -> None:
    """The segment is read once more, beside the epochs that the log has in memory."""
    disk = written(epochs)
    change_epoch(disk, offset, 3)
    log = opened(disk)
    other = next(one for one in range(offset // 4 * 4, END) if one != offset)
    spoil(disk, other)
    log.distrust(other)
    with pytest.raises(CorruptLogError):
        log.read(other, 1)
    assert readable(log) == without(offset, other)
    assert disk.exists(f"{DIRECTORY}/{DAMAGE_NOTE}")


def test_damage_that_is_met_later_has_no_batch_refused_for_leader_epochs_that_two_of_them_contradict() -> None:
    """The first one was accused before the second one showed that the noted epochs are another log's."""
    disk = written((1, 3, 3, 3) + (5,) * 8)
    log = opened(disk)
    for offset, epoch in ((1, 2), (3, 4)):
        change_epoch(disk, offset, epoch)
    spoil(disk, 0)
    log.distrust(0)
    with pytest.raises(CorruptLogError):
        log.read(0, 1)
    assert readable(log) == without(0)


@pytest.mark.parametrize("offset", range(1, END - 1))
def test_without_a_checkpoint_an_epoch_that_the_batches_behind_it_contradict_is_damage(offset: int) -> None:
    """Also where the next batch is damaged, or lies in another file."""
    for is_beside_damage in (False, True):
        if is_beside_damage and offset + 2 >= END:
            continue
        disk = written()
        change_epoch(disk, offset, 4098)
        if is_beside_damage:
            spoil(disk, offset + 1)
        disk.remove(CHECKPOINT)
        gone = (offset, offset + 1) if is_beside_damage else (offset,)
        assert readable(opened(disk)) == without(*gone)


def test_without_a_checkpoint_an_epoch_below_that_of_the_file_before_is_damage() -> None:
    disk = written((1,) * 2 + (2,) * 10)
    change_epoch(disk, BATCHES_A_SEGMENT, 1)
    disk.remove(CHECKPOINT)
    assert readable(opened(disk)) == without(BATCHES_A_SEGMENT)


def test_what_a_crash_leaves_behind_the_last_batch_bears_out_no_checkpoint() -> None:
    disk = written(clean=False)
    note(disk, [*begun(EPOCHS), (6, END - 1)])
    path, _ = place(END - 1)
    disk.open(path).append(b"torn")
    log = opened(disk, clean=False)
    assert (readable(log), log.damage.gaps) == (without(), [])
    assert log.recovery.cut_bytes == len(b"torn"), "it is told though the log is read again"


@pytest.mark.parametrize("point", [END, 0, 10**12])
def test_an_active_segment_without_a_batch_bears_out_no_checkpoint(point: int) -> None:
    disk = written()
    log = opened(disk)
    log.roll(0)
    log.close()
    note(disk, [*begun(EPOCHS), (6, END - 1)])
    log = opened(disk, point=point)
    assert (readable(log), log.damage.gaps) == (without(), [])


def wrong_checkpoints(epochs: Sequence[int]) -> dict[str, Sequence[tuple[int, int]] | str]:
    """Those of other logs, older ones, parts."""
    right = begun(epochs)
    text = f"0\n{len(right)}\n" + "".join(f"{epoch} {start}\n" for epoch, start in right)
    found: dict[str, Sequence[tuple[int, int]] | str] = {
        "none": [],
        "empty": "",
        "a number": "0\n1\n7\n",
        "one epoch, later": [(9, 0)],
        "one epoch, from far away": [(3, 10**9)],
        "all later": [(epoch + 1, start) for epoch, start in right],
        "all much later": [(epoch + 4096, start) for epoch, start in right],
        "all earlier": [(epoch - 1, start) for epoch, start in right],
        "every batch a new one": [(offset, offset) for offset in range(len(epochs))],
        "begun later": [(epoch, start + 1 if start else 0) for epoch, start in right if len(right) > 2],
        "begun two later": [(epoch, start + 2 if start else 0) for epoch, start in right],
        "begun earlier": [(epoch, max(0, start - 1)) for epoch, start in right if len(right) > 2],
        "begun two earlier": [(epoch, max(0, start - 2)) for epoch, start in right],
        "another one at the end": [*right, (right[-1][0] + 1, len(epochs))],
        "another one beyond the end": [*right, (right[-1][0] + 1, len(epochs) + 5)],
        "another one from the last batch on": [*right, (right[-1][0] + 1, len(epochs) - 1)],
    }
    for number in range(len(right)):
        found[f"the first {number}"] = right[:number]
        found[f"without number {number}"] = [*right[:number], *right[number + 1 :]]
        epoch, start = right[number]
        found[f"number {number} later"] = [*right[:number], (epoch + 1, start), *right[number + 1 :]]
        found[f"number {number} earlier"] = [*right[:number], (epoch - 1, start), *right[number + 1 :]]
    for end in range(1, len(text), 3):
        found[f"the first {end} bytes"] = text[:end]
    return found


LOGS: Final = {
    "some": EPOCHS,
    "one": (3,) * 6,
    "two": (1,) * 4 + (4,) * 4,
    "pairs": (0, 0, 2, 2, 4, 4, 6, 6),
    "a batch": (2,),
}


WRONG: Final = [(log, kind) for log, epochs in LOGS.items() for kind in wrong_checkpoints(epochs)]


@pytest.mark.parametrize(
    ("log", "kind", "clean", "reads_all"),
    [(*wrong, *how) for wrong, how in crossed(WRONG, list(product((True, False), repeat=2)))],
)
def test_a_checkpoint_that_is_not_the_logs_costs_no_batch(log: str, kind: str, clean: bool, reads_all: bool) -> None:
    epochs = LOGS[log]
    end = len(epochs)
    disk = written(epochs, clean=clean)
    note(disk, wrong_checkpoints(epochs)[kind])
    found = opened(disk, clean=clean, end=end, reads_all=reads_all)
    assert (readable(found), found.damage.gaps, found.log_end_offset) == (list(range(end)), [], end)
    if reads_all:
        assert [tuple(entry) for entry in found.epochs.entries] == begun(epochs)


@pytest.mark.parametrize("start", [3, 5])
def test_of_a_checkpoint_that_is_wrong_about_one_batch_an_operator_can_rid_the_log(start: int) -> None:
    """Nothing tells it from a leader epoch that has changed in that batch; without it the batch is served again."""
    epochs = LOGS["two"]
    disk = written(epochs)
    note(disk, [(1, 0), (4, start)])
    log = opened(disk, end=len(epochs))
    odd = min(start, 4)
    assert readable(log) == [offset for offset in range(len(epochs)) if offset != odd]
    assert f"the batch at {odd} has leader epoch {epochs[odd]}" in str(log.damage.gaps)
    log.close()
    disk.remove(CHECKPOINT)
    log = opened(disk, end=len(epochs))
    assert (len(readable(log)), [tuple(entry) for entry in log.epochs.entries]) == (len(epochs), begun(epochs))


def header(offset: int, epoch: int) -> BatchHeader:
    one = BatchHeader.parse(build_batch([Record(0, 100, None, b"x")]))
    return one._replace(base_offset=offset, partition_leader_epoch=epoch)


@pytest.mark.parametrize(("epoch", "both"), [(0, True), (1, False), (2, False), (4, False), (5, False), (6, True)])
def test_one_epoch_that_fits_between_those_beside_it_is_accused_and_any_number_of_others(
    epoch: int, both: bool
) -> None:
    """Two batches have it where 3 is noted, between one of epoch 1 and one of epoch 5."""
    noted = NotedEpochs([EpochEntry(1, 0), EpochEntry(3, 3), EpochEntry(5, 6)], 9)
    before, behind = Beside(header(2, 1), is_damaged=False), Beside(header(6, 5), is_damaged=False)
    assert noted.accuses(header(4, epoch), before, behind)
    assert not noted.contradiction
    assert noted.accuses(header(5, epoch), before, behind) == both
    assert bool(noted.contradiction) == (not both)
    assert noted.bears_out(header(7, 5)) == both, "what is contradicted says nothing any more"


NOBODY: Final = Beside(None, is_damaged=False)


@pytest.mark.parametrize("behind", [NOBODY, Beside(header(5, 7), is_damaged=False)], ids=["the end", "not flushed"])
@pytest.mark.parametrize(("before", "epoch", "is_damage"), [(3, 2, True), (2, 1, False)])
def test_at_the_end_of_what_was_flushed_an_epoch_is_refused_if_the_batch_before_has_the_same_entry(
    before: int, epoch: int, is_damage: bool, behind: Beside
) -> None:
    """Of what lies behind that nothing is noted, and so it says nothing."""
    noted = NotedEpochs([EpochEntry(1, 0), EpochEntry(2, 3)], 5)
    assert noted.accuses(header(4, 9), Beside(header(before, epoch), is_damaged=False), behind) == is_damage


def test_a_leader_epoch_that_has_changed_is_refused_where_all_behind_it_is_lost() -> None:
    """The batch alone that is left of its epoch has another one; the one before it is of the epoch before."""
    disk = written((1,) * 3 + (2,) * 9)
    change_epoch(disk, BATCHES_A_SEGMENT - 1, 9)
    for number in (1, 2):
        disk.remove(place(BATCHES_A_SEGMENT * number)[0])
    log = opened(disk)
    assert (readable(log), log.epochs.entries) == ([0, 1, 2], ((1, 0), (2, 3)))


@pytest.mark.parametrize("offset", [0, 3, 7])
def test_a_batch_that_was_not_read_and_contradicts_the_checkpoint_is_read_beside_it_first(
    offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It is the one that begins an epoch, so that a closed log is opened with a look at its header alone."""
    disk = written()
    change_epoch(disk, offset, 4098)
    log = opened(disk, reads_all=False)
    assert readable(log) == without(offset)
    assert log.recovery.checkpointed_epochs == log.epochs.entries == tuple(begun(EPOCHS))
    assert "checkpoint rejected" not in caplog.text


@pytest.mark.parametrize("point", [0, 1, END])
def test_a_checkpoint_is_missing_only_from_a_log_that_was_flushed(point: int, caplog: pytest.LogCaptureFixture) -> None:
    disk = written(clean=False)
    disk.remove(CHECKPOINT)
    log = opened(disk, clean=False, point=point)
    assert (readable(log), [tuple(entry) for entry in log.epochs.entries]) == (without(), begun(EPOCHS))
    assert ("checkpoint missing" in caplog.text) == (point > 0)


@pytest.mark.parametrize(("entry", "is_rejected"), [((6, END), False), ((6, END + 1), True), ((6, END + 5), True)])
def test_a_checkpoint_that_goes_on_behind_the_end_of_a_closed_log_is_told_and_believed_in_nothing(
    entry: tuple[int, int], is_rejected: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """No batch contradicts it."""
    disk = written()
    entries = [*begun(EPOCHS), entry]
    note(disk, entries)
    log = opened(disk)
    assert (readable(log), log.damage.gaps) == (without(), [])
    assert log.recovery.checkpointed_epochs == (None if is_rejected else tuple(entries))
    assert ("checkpoint rejected" in caplog.text) == is_rejected


@pytest.mark.parametrize("clean", [False, True])
def test_a_log_that_starts_inside_the_first_batch_of_an_epoch_contradicts_none(clean: bool) -> None:
    """The batch begins before the log, where the epoch before is noted; the log has no record of that."""
    disk = SimulatedDisk(random.Random(1))
    log = Log.open(disk, DIRECTORY, CONFIG, 0)
    log.truncate_fully_and_start_at(3, epoch=1)
    batch = bytearray(build_batch([Record(number, 100, None, b"x") for number in range(3)]))
    assign(batch, 0, 2, 2)
    log.append_as_follower(bytes(batch))
    log.flush()
    if clean:
        log.close()
    else:
        disk.crash()
        disk.power_on()
    log = opened(disk, clean=clean, end=5)
    assert log.epochs.entries == log.recovery.checkpointed_epochs == ((1, 2), (2, 3))
    assert (log.log_start_offset, log.log_end_offset, log.recovery.lost_nothing) == (3, 5, True)


@pytest.mark.parametrize("damaged", [(1, 2, 3), (4, 5, 6, 7)], ids=["the end of its file", "the next file"])
def test_a_first_batch_is_refused_by_its_noted_epoch_alone_where_all_others_of_that_may_be_damaged(
    damaged: tuple[int, ...],
) -> None:
    """The next one that is intact has the epoch that is noted of it, which is another one."""
    disk = written((1,) * 4 + (2,) * 8)
    change_epoch(disk, 0, 0)
    if 1 not in damaged:
        disk.open(place(0)[0]).truncate(SIZE)
    for offset in damaged:
        spoil(disk, offset)
    log = opened(disk)
    assert readable(log) == list(range(damaged[-1] + 1, END))
    assert log.recovery.checkpointed_epochs == ((1, 0), (2, 4))


def test_by_a_recovery_point_that_no_file_reaches_not_all_leader_epochs_are_noted() -> None:
    """A log start that is as far away bears it out, so that the log is not read again without it."""
    disk = written((1,) * 4 + (2,) * 7 + (3,), clean=False)
    note(disk, [(1, 0), (2, 4)])
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=10**12, log_start_offset=10**12)
    assert (readable(log), log.epochs.entries) == (without(), ((1, 0), (2, 4), (3, 11)))


def test_a_checkpoint_of_leader_epochs_that_is_none_is_told(caplog: pytest.LogCaptureFixture) -> None:
    disk = written()
    note(disk, "0\n1\nnothing\n")
    assert readable(opened(disk)) == without()
    assert len([line for line in caplog.messages if "it is no list of epochs and offsets" in line]) == 1


def test_the_last_batch_is_refused_for_the_epoch_of_the_one_before_it_in_its_file() -> None:
    disk = written((1,) * 8 + (2,) * 4)
    change_epoch(disk, END - 1, 9)
    assert readable(opened(disk)) == without(END - 1)


def test_the_last_batch_is_refused_where_all_of_its_epoch_before_it_is_damaged() -> None:
    """The last one that is intact is of another file, and of another epoch."""
    disk = written((1,) * 8 + (2,) * 4)
    change_epoch(disk, END - 1, 9)
    for offset in (8, 9, 10):
        spoil(disk, offset)
    log = opened(disk)
    assert (readable(log), log.recovery.checkpointed_epochs) == (list(range(8)), ((1, 0), (2, 8)))


def test_a_batch_is_refused_by_its_noted_epoch_where_all_files_before_it_are_damaged() -> None:
    disk = written((1,) * 5 + (2,) * 7)
    change_epoch(disk, 4, 0)
    for offset in range(4):
        spoil(disk, offset)
    log = opened(disk)
    assert (readable(log), log.recovery.checkpointed_epochs) == (list(range(5, END)), ((1, 0), (2, 5)))


def test_after_a_clean_stop_all_leader_epochs_are_noted_though_the_recovery_point_is_lost() -> None:
    disk = written()
    change_epoch(disk, END - 1, 9)
    assert readable(opened(disk, point=0)) == without(END - 1)


def test_an_entry_that_is_not_believed_begins_no_epoch_behind_damage() -> None:
    disk = written((1,) * 4 + (2,) * 8)
    spoil(disk, 5)
    note(disk, [(1, 0), (9, 6)])
    log = opened(disk)
    assert (readable(log), log.epochs.entries) == (without(5), ((1, 0), (2, 4)))


def test_what_was_looked_up_of_a_later_batch_is_not_said_of_an_earlier_one() -> None:
    noted = NotedEpochs([EpochEntry(1, 0), EpochEntry(3, 3), EpochEntry(5, 6)], 9)
    assert noted.bears_out(header(6, 5))
    assert not noted.is_odd(header(4, 3))


@pytest.mark.parametrize(
    ("first", "odd", "before", "behind", "is_damage"),
    [(0, 2, NOBODY, Beside(header(3, 2), is_damaged=False), False), (3, 4, Beside(header(2, 2), False), NOBODY, True)],
    ids=["of the next epoch", "that begins before the log"],
)
def test_the_one_batch_beside_it_tells_of_an_epoch_if_the_same_entry_goes_for_it(
    first: int, odd: int, before: Beside, behind: Beside, is_damage: bool
) -> None:
    noted = NotedEpochs([EpochEntry(1, 0), EpochEntry(2, 3)], 9, first)
    assert noted.accuses(header(odd, 9), before, behind) == is_damage


def test_of_two_batches_whose_epoch_may_be_the_first_of_the_log_both_are_believed() -> None:
    noted = NotedEpochs([EpochEntry(3, 3), EpochEntry(5, 6)], 9)
    before, behind = Beside(None, is_damaged=True), Beside(header(6, 5), is_damaged=False)
    assert noted.accuses(header(4, 0), before, behind)
    assert not noted.accuses(header(5, 0), before, behind)


def test_a_checkpoint_is_rejected_for_the_first_batch_that_contradicts_it_beside_another_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = written((1,) * END)
    note(disk, [(1, 0), (2, 4)])
    assert readable(opened(disk)) == without()
    assert "the batch at 4 has leader epoch 1, and 2 is noted" in caplog.text

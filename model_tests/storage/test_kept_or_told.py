"""What is intact is served, or kept under another name and told of: damage that had it cut, refused or hidden.

`docs/durability.md` has a row for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs
import pytest

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.batches import RecordError, checked_header
from tidegauge.impl.records.payload import decode_batches
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.errors import DamagedLogError
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.segment_names import LOG_SUFFIX, SNAPSHOT_SUFFIX, file_name
from tidegauge.model_tests.storage.test_damage import (
    ACTIVE,
    CLOSED,
    CONFIG,
    DIRECTORY,
    END,
    FIELDS,
    batch,
    flip,
    value,
    written,
)

ROOT: Final = Path(__file__).resolve().parents[2]
SIZE: Final = len(batch(0))


def name(base: int) -> str:
    return f"{DIRECTORY}/{file_name(base, LOG_SUFFIX)}"


def replaced(disk: SimulatedDisk, path: str, content: bytes) -> None:
    """The file has this content now."""
    if disk.exists(path):
        disk.remove(path)
    file = disk.open(path, create=True)
    file.append(content)
    file.sync()
    file.close()
    disk.sync_directory(DIRECTORY)


def kept_in(disk: SimulatedDisk, path: str, numbers: Sequence[int]) -> None:
    """The cleaner has left these of a file's batches, by their numbers."""
    content = disk.files()[path]
    replaced(disk, path, b"".join(content[SIZE * one : SIZE * (one + 1)] for one in numbers))


@attrs.frozen
class Shape:
    """What is on the disk, and what becomes of it."""

    what: str
    becomes: str
    line: str
    """The event of the line that tells it; "" where nothing is to be told."""
    disk: Callable[[], SimulatedDisk]
    served: Sequence[int]
    gaps: Sequence[tuple[int, int]] = ()
    kept: Mapping[str, Sequence[int]] = attrs.field(factory=dict)
    """Files that are set aside, by their names, and where the batches in them begin."""
    point: int = END
    mark: int | None = 8
    """Up to where the cleaner was; None: there was none."""
    is_clean: bool = True
    end: int = END

    @property
    def row(self) -> str:
        return f"| {self.what} | {self.becomes} | {f'`{self.line}`' if self.line else 'none'} |"


def between_damaged(*intact: int) -> Callable[[], SimulatedDisk]:
    """After a crash the last file has these of its batches left, by their numbers, and the others are damaged."""

    def disk() -> SimulatedDisk:
        damaged = written(clean=False)
        for number in {0, 1, 2, 3} - {*intact}:
            flip(damaged, ACTIVE, number, FIELDS["value"])
        return damaged

    return disk


def cleaned(*numbers: int, made_up: Mapping[int, bytes] | None = None) -> Callable[[], SimulatedDisk]:
    """The cleaner has left these batches of the middle file, and there are files that nobody has written."""

    def disk() -> SimulatedDisk:
        found = written()
        kept_in(found, CLOSED, numbers)
        for base, content in (made_up or {}).items():
            replaced(found, name(base), content)
        return found

    return disk


def cleaned_at_its_front_without_what_follows() -> SimulatedDisk:
    """The last file is lost, and there is an empty one where the last batch begins."""
    disk = cleaned(2, 3, made_up={7: b""})()
    disk.remove(ACTIVE)
    return disk


def with_a_batch_of_its_own() -> SimulatedDisk:
    """The cleaner has left out a batch, and a file has it that ends before the next one."""
    content = written().files()[CLOSED]
    return cleaned(0, 2, 3, made_up={5: content[SIZE : 2 * SIZE]})()


def with_foreign_epochs() -> SimulatedDisk:
    """The last file is empty, the cleaner has taken the last batches, and an epoch is to begin with the last one."""
    disk = cleaned(0, 1)()
    replaced(disk, ACTIVE, b"")
    disk.remove(f"{DIRECTORY}/{file_name(END, SNAPSHOT_SUFFIX)}")
    replaced(disk, f"{DIRECTORY}/{checkpoints.LEADER_EPOCH_CHECKPOINT}", b"0\n3\n1 0\n2 4\n3 5\n")
    return disk


def without_snapshots() -> SimulatedDisk:
    """The cleaner has left half of the middle file, and nothing but its mark tells where the log ended."""
    disk = cleaned(0, 1)()
    for one in disk.list_directory(DIRECTORY):
        if one.endswith(SNAPSHOT_SUFFIX):
            disk.remove(f"{DIRECTORY}/{one}")
    return disk


def without_a_file() -> SimulatedDisk:
    disk = written()
    disk.remove(CLOSED)
    return disk


GARBAGE: Final = b"nothing" * 30
FOREIGN: Final = b"".join(batch(offset) for offset in (0, 0))
"""Two batches that begin where no batch of the file may."""
OF_FILE: Final = file_name(8, LOG_SUFFIX)
KEPT_5: Final = f"{file_name(5, LOG_SUFFIX)}.stray"
BEYOND: Final = f"{file_name(END + 1, LOG_SUFFIX)}.stray"
AMONG: Final = (
    "after a crash, no recovery point that is believed: intact batches among damaged ones, or before their file"
)
OLD: Final = "cleaned: a recovery point that is lost, rejected or older than what the cleaner was at"
MADE_UP: Final = (
    "cleaned: a file that begins where the one before it has left something out, and has two batches behind that, or "
    "one that begins where another one ends"
)
EPOCHS: Final = "cleaned: another log's leader epochs, and the log's last batches are left out"
BEHIND: Final = "cleaned: a file behind the log's end, after a clean stop whose recovery point is lost"
SHAPES: Final = (
    *(
        Shape(
            AMONG,
            "what is cut is kept in a file that ends in `.damaged`",
            "torn tail cut",
            disk,
            range(end),
            kept={f"{OF_FILE}.from-0.damaged": kept},
            point=10**15,
            mark=None,
            is_clean=False,
            end=end,
        )
        for disk, kept, end in ((between_damaged(2), [10], 8), (between_damaged(1), [9], 8))
    ),
    *(
        Shape(OLD, "all is served", "", cleaned(0, 1), [*range(6), *range(8, 12)], point=point, is_clean=clean)
        for point in (0, 4, 10**15)
        for clean in (False, True)
    ),
    Shape(OLD, "all is served", "", without_snapshots, [*range(6), *range(8, 12)], point=4),
    Shape(
        "the same, and what the cleaner says is older, too",
        "what lies behind is kept in files that end in `.stray`: a crash may have taken what is missing",
        "stray segment set aside",
        cleaned(0, 1),
        range(6),
        kept={f"{OF_FILE}.stray": [8, 9, 10, 11]},
        point=4,
        mark=4,
        is_clean=False,
        end=6,
    ),
    *(
        Shape(
            MADE_UP,
            "the file is kept, its name ends in `.stray`, and all others are served",
            "stray segment set aside",
            cleaned(0, 2, 3, made_up={5: content}),
            [*range(5), *range(6, 12)],
            kept={KEPT_5: [0, 0] if content is FOREIGN else []},
        )
        for content in (b"", GARBAGE, FOREIGN)
    ),
    Shape(
        MADE_UP,
        "the file is kept, its name ends in `.stray`, and all others are served",
        "stray segment set aside",
        cleaned(2, 3, made_up={5: GARBAGE}),
        [*range(4), *range(6, 12)],
        kept={KEPT_5: []},
    ),
    Shape(
        MADE_UP,
        "the file is kept, its name ends in `.stray`, and all others are served",
        "stray segment set aside",
        cleaned(0, 3, made_up={7: b""}),
        [*range(5), *range(7, 12)],
        kept={f"{file_name(7, LOG_SUFFIX)}.stray": []},
    ),
    Shape(
        MADE_UP,
        "the file is kept, its name ends in `.stray`, and all others are served",
        "stray segment set aside",
        cleaned_at_its_front_without_what_follows,
        [*range(4), 6, 7],
        gaps=[(8, END)],
        kept={f"{file_name(7, LOG_SUFFIX)}.stray": []},
        mark=6,
    ),
    Shape(
        MADE_UP,
        "the file is kept, its name ends in `.stray`, and all others are served",
        "stray segment set aside",
        with_a_batch_of_its_own,
        [*range(5), *range(6, 12)],
        kept={KEPT_5: [5]},
    ),
    Shape(
        "the same, and one batch is behind that, which neither begins where another one ends nor ends where the next "
        "file begins",
        "the batch is refused and stays in its file: its base offset may have changed, and nothing tells",
        "damage found",
        cleaned(0, 2, made_up={5: GARBAGE}),
        [*range(5), *range(8, 12)],
        gaps=[(5, 8)],
    ),
    Shape(
        "the same, and the file is empty",
        "the batch stays in its file, and readers go on behind it",
        "log ends in damage",
        cleaned(0, 2, made_up={5: b""}),
        [*range(5), *range(8, 12)],
    ),
    Shape(EPOCHS, "all is served", "checkpoint rejected", with_foreign_epochs, range(6), point=8, end=8),
    *(
        Shape(
            BEHIND,
            "the file is kept, its name ends in `.stray`, and the end stays",
            "stray segment set aside",
            cleaned(0, 1, made_up={END + 1: content}),
            [*range(6), *range(8, 12)],
            kept={BEYOND: []},
            point=0,
        )
        for content in (b"", GARBAGE)
    ),
    Shape(
        "cleaned: a file is missing, and the snapshot of producers with its name is there",
        "all that is there is served",
        "log gap in doubt",
        without_a_file,
        [*range(4), *range(8, 12)],
    ),
)


def readable(log: Log) -> Iterator[int]:
    """The offsets of the records that a reader gets, each with its right value."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            data = log.read(offset, 1)
        except DamagedLogError as error:
            offset = error.end
            continue
        if not data:
            return
        (record,) = decode_batches(data)
        assert record.value == value(record.offset)
        yield record.offset
        offset = record.offset + 1


def starts_in(content: bytes) -> list[int]:
    """Where the intact batches of a file begin, which are all of one size."""
    found = []
    for position in range(0, len(content), SIZE):
        with suppress(RecordError):
            found.append(checked_header(content, position).base_offset)
    return found


@pytest.mark.parametrize("reads_all", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.what)
def test_what_is_intact_is_served_or_kept_and_told(
    shape: Shape, reads_all: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = shape.disk()
    log = Log.open(
        disk,
        DIRECTORY,
        CONFIG,
        0,
        recovery_point=shape.point,
        clean_shutdown=shape.is_clean,
        cleaned_offset=shape.mark,
        reads_all=reads_all,
    )
    assert list(readable(log)) == [*shape.served]
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [*shape.gaps]
    assert log.log_end_offset == shape.end
    names = {path.rpartition("/")[2] for path in disk.files()}
    assert {one for one in names if one.endswith((".log.stray", ".damaged"))} == shape.kept.keys()
    told = [message for message in caplog.messages if shape.line and message.startswith(f"{shape.line}: ")]
    assert bool(told) == bool(shape.line)
    for kept, starts in shape.kept.items():
        assert starts_in(disk.files()[f"{DIRECTORY}/{kept}"]) == [*starts]
        assert any(kept in message for message in told)
    log.append_as_leader(batch(shape.end), 4, 0)
    assert list(readable(log)) == [*shape.served, shape.end]


def test_the_page_has_a_row_for_each_shape() -> None:
    page = (ROOT / "docs" / "durability.md").read_text("utf-8")
    missing = [row for row in dict.fromkeys(shape.row for shape in SHAPES) if row not in page.splitlines()]
    assert not missing, "\n".join(missing)


def test_a_mark_beyond_the_last_file_is_no_cleaners() -> None:
    """What was not flushed is cut as ever, though the mark is a huge number."""
    disk = written(clean=False)
    flip(disk, ACTIVE, 3, FIELDS["value"])
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=8, cleaned_offset=10**15)
    assert (log.log_end_offset, log.damage.gaps) == (END - 1, [])
    assert log.recovery.cut_bytes == SIZE


def test_below_a_cleaners_mark_nothing_is_torn() -> None:
    disk = written(clean=False)
    flip(disk, CLOSED, 2, FIELDS["value"])
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=4, cleaned_offset=8)
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(6, 7)]
    assert list(readable(log)) == [*range(6), *range(7, 12)]


@pytest.mark.parametrize("made_up", [5, 6])
def test_a_batch_whose_base_offset_has_changed_makes_no_file_of_the_log_a_stray(made_up: int) -> None:
    """The last batch of a file seems to lie behind where the next one begins, which is empty or was damaged."""
    disk = written()
    flip(disk, CLOSED, 3, FIELDS["base offset"], 5)
    replaced(disk, ACTIVE, GARBAGE if made_up == 5 else b"")
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=END, clean_shutdown=True, cleaned_offset=4)
    assert log.recovery.strays == ()
    assert 8 in log.segment_base_offsets
    assert list(readable(log)) == [*range(7)]


def test_a_copy_of_a_file_under_an_earlier_name_makes_no_stray_of_it() -> None:
    """None of its batches lies where its name says, so that it is the one that is refused."""
    disk = cleaned(0)()
    replaced(disk, name(6), disk.files()[ACTIVE])
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=END, clean_shutdown=True, cleaned_offset=8)
    assert log.recovery.strays == ()
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(6, 8)]
    assert list(readable(log)) == [*range(5), *range(8, 12)]


def leave_behind_a_damaged_end(disk: SimulatedDisk) -> None:
    """The file before the last one with batches ends in damage, and has copies of what that one has behind it."""
    closed, active = disk.files()[CLOSED], disk.files()[ACTIVE]
    replaced(disk, CLOSED, closed + active[SIZE : 3 * SIZE])
    flip(disk, CLOSED, 3, FIELDS["value"])
    replaced(disk, name(END), b"")


def test_batches_left_behind_the_damaged_end_of_a_file_make_no_stray_of_the_next_one() -> None:
    """That one leads from its own name to the next: it has what they are copies of."""
    disk = written()
    leave_behind_a_damaged_end(disk)
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=END, clean_shutdown=True, reads_all=True)
    assert log.recovery.strays == ()
    assert [(gap.start, gap.end) for gap in log.damage.gaps] == [(7, 8)]
    assert list(readable(log)) == [*range(7), *range(8, END)]


def test_a_repair_that_empties_a_log_keeps_what_lies_behind_the_damaged_end_of_a_file() -> None:
    """The log starts at 7. Empty files at 6 and 7 have the batch at 7 refused, which alone lies behind that."""
    disk = written()
    for number in (1, 2):
        flip(disk, CLOSED, number, FIELDS["value"])
    for base in (6, 7):
        replaced(disk, name(base), b"")
    replaced(disk, f"{DIRECTORY}/{checkpoints.LEADER_EPOCH_CHECKPOINT}", b"0\n2\n2 6\n3 8\n")
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=END, log_start_offset=7, clean_shutdown=True)
    assert log.damage.start < 7 == log.log_start_offset
    log.repair()
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)
    kept = [content for path, content in disk.files().items() if path.endswith(".damaged")]
    assert sorted(start for content in kept for start in starts_in(content) if start >= 7) == [7, 8, 9, 10, 11]

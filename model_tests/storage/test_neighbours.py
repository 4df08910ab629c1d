"""What lies beside a segment of a log that is opened, and whether anything of a log is left."""

from __future__ import annotations

import pytest

from tidegauge.impl.storage.damage import Gap
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.neighbours import first_batch, hold_nothing, last_batch
from tidegauge.impl.storage.segment import Segment
from tidegauge.model_tests.storage.test_damage import CLOSED, CONFIG, DIRECTORY, END, FIELDS, flip, opened, written


@pytest.mark.parametrize(
    ("gaps", "is_nothing_left"),
    [
        ([], False),
        ([(0, END)], True),
        ([(0, END + 3)], True),
        ([(0, END), (END + 3, END + 5)], True),
        ([(0, 4), (4, 6), (6, 8), (8, END)], True),
        ([(1, END)], False),
        ([(0, END - 1)], False),
        ([(5, 9)], False),
        ([(0, 4), (4, 8)], False),
        ([(0, 5), (6, END)], False),
        ([(0, END - 1), (END + 3, END + 5)], False),
    ],
)
def test_segments_hold_nothing_if_all_their_offsets_lie_in_gaps(
    gaps: list[tuple[int, int]], is_nothing_left: bool
) -> None:
    log = opened(written())
    assert hold_nothing(log.segments, [Gap(*gap, "gone") for gap in gaps]) == is_nothing_left


@pytest.mark.parametrize(("start", "is_nothing_left"), [(3, True), (4, True), (5, False)])
def test_segments_that_begin_later_lack_nothing_before(start: int, is_nothing_left: bool) -> None:
    log = opened(written())
    assert hold_nothing(log.segments[1:], [Gap(start, END, "gone")]) == is_nothing_left


@pytest.mark.parametrize(("content", "is_damaged"), [(b"", False), (b"!", True), (b"!" * 200, True)])
def test_the_first_batch_behind_a_file_without_any_has_damage_before_it_unless_that_one_is_empty(
    content: bytes, is_damaged: bool
) -> None:
    disk = written()
    file = disk.open(CLOSED)
    file.truncate(0)
    file.append(content)
    file.close()
    closed, active = (Segment(disk, DIRECTORY, base, CONFIG.index_interval_bytes, 0) for base in (4, 8))
    found = first_batch([closed, active])
    assert found.batch is not None
    assert (found.batch.base_offset, found.is_damaged) == (8, is_damaged)
    assert first_batch([closed]) == (None, is_damaged)


def test_the_last_batch_that_is_left_is_found_though_what_was_behind_it_is_damaged() -> None:
    disk = written()
    flip(disk, CLOSED, 3, FIELDS["value"])
    log = Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=END, clean_shutdown=True, reads_all=True)
    last = last_batch(log.segments[:2])
    assert last is not None
    assert last.base_offset == 6

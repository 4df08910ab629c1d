"""Files of which one begins among the offsets of the one before it: which of the two is the log's."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.storage.errors import DamagedLogError
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.segment_names import LOG_SUFFIX, file_name
from tidegauge.model_tests.storage.compacted_batches import compacted_batch
from tidegauge.model_tests.storage.test_damage import CONFIG, DIRECTORY
from tidegauge.model_tests.storage.test_survey import batch

GARBAGE = b"!" * 80


def opened(files: Mapping[int, Sequence[bytes]], end: int, *, clean: bool = True, others: Sequence[str] = ()) -> Log:
    """A closed log of these files, each with its content, or one of which so much was flushed; and some other files.

    Of the others a name goes before a blank and the content.
    """
    disk = SimulatedDisk(random.Random(1))
    disk.make_directory("logs")
    disk.make_directory(DIRECTORY)
    for base, content in files.items():
        disk.open(f"{DIRECTORY}/{file_name(base, LOG_SUFFIX)}", create=True).append(b"".join(content))
    for other in others:
        name, _, text = other.partition(" ")
        disk.open(f"{DIRECTORY}/{name}", create=True).append(text.encode())
    return Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=end, clean_shutdown=clean, reads_all=True)


def strays(log: Log) -> list[int]:
    """The offsets that the files are named after that were set aside."""
    return [int(name.partition(".")[0]) for name in log.recovery.strays]


def readable(log: Log) -> list[int]:
    found = []
    for offset in range(log.log_start_offset, log.log_end_offset):
        try:
            found += [offset] if log.read(offset, 1) else []
        except DamagedLogError:
            continue
    return found


@pytest.mark.parametrize(
    ("first", "second", "served"),
    [
        ([*map(batch, range(7))], [GARBAGE], [*range(7)]),
        ([*map(batch, range(7))], [batch(4), batch(5)], [*range(7)]),
        ([batch(0), GARBAGE, batch(5), batch(6)], [*map(batch, range(4, 7))], [0, 5, 6]),
        ([compacted_batch(1, 4, 1, {3: b"x"}), *map(batch, range(4, 7))], [*map(batch, range(4, 7))], [*range(7)]),
        ([GARBAGE, batch(5), batch(6)], [GARBAGE], [5, 6]),
    ],
)
def test_a_file_is_a_stray_if_two_batches_of_the_one_before_it_lie_behind_where_it_begins(
    first: Sequence[bytes], second: Sequence[bytes], served: Sequence[int]
) -> None:
    """If it has batches of its own, one of the file before it lies before."""
    log = opened({0: first, 4: second}, 7)
    assert (strays(log), readable(log)) == ([4], served)


def test_a_file_is_a_stray_if_the_one_before_it_has_all_offsets_to_one_behind_where_it_begins() -> None:
    """Though it leads to the next file."""
    log = opened({0: [*map(batch, range(5))], 4: [*map(batch, range(4, 8))], 8: [batch(8)]}, 9)
    assert (strays(log), readable(log)) == ([4], [*range(5), 8])


def test_a_file_with_batches_is_the_logs_if_the_one_before_it_has_none_that_lies_before() -> None:
    """What that one has may have been left from a log that was cut there."""
    log = opened({0: [GARBAGE, batch(5), batch(6)], 4: [*map(batch, range(4, 7))]}, 7)
    assert (strays(log), readable(log)) == ([], [4, 5, 6])


def test_a_file_that_leads_to_the_next_one_is_the_logs_and_what_the_one_before_it_hides_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The file before was damaged at its end, and the log went on in another one with the same offsets."""
    left = compacted_batch(5, 8, 1, {7: b"x"})
    log = opened({0: [*map(batch, range(4)), GARBAGE, left], 4: [*map(batch, range(4, 8))], 8: [batch(8)]}, 9)
    assert (strays(log), readable(log)) == ([], list(range(9)))
    assert [line for line in caplog.messages if line.startswith("log ends in damage")]
    assert log.recovery.ends_in_damage


@pytest.mark.parametrize(
    ("first", "second", "third", "is_stray"),
    [
        ([batch(0), GARBAGE, batch(6)], [*map(batch, range(4, 7))], 0, False),
        ([GARBAGE, batch(2), compacted_batch(3, 7, 1, {6: b"x"})], [*map(batch, range(4, 7))], 0, True),
        ([batch(0), GARBAGE, compacted_batch(5, 8, 1, {7: b"x"})], [batch(4), GARBAGE], 8, True),
    ],
    ids=["nothing", "the batch before it", "the file behind"],
)
def test_one_batch_behind_where_a_file_begins_has_it_a_stray_if_something_bears_out_its_offset(
    first: Sequence[bytes], second: Sequence[bytes], third: int, is_stray: bool
) -> None:
    """Else its base offset may have changed."""
    log = opened({0: first, 4: second, **({third: [batch(third)]} if third else {})}, third + 1 if third else 7)
    assert strays(log) == ([4] if is_stray else [])


def test_after_a_crash_the_last_batch_that_was_flushed_need_not_lead_to_a_file_that_follows_nothing() -> None:
    log = opened({0: [batch(0), GARBAGE, batch(2)], 4: [batch(4)]}, 3, clean=False)
    assert (strays(log), readable(log), log.log_end_offset) == ([4], [0, 2], 3)


def test_a_file_that_begins_where_the_log_was_flushed_to_is_the_logs_though_what_is_before_is_missing() -> None:
    log = opened({0: [batch(0), batch(1)], 4: [batch(4), batch(5)]}, 4, clean=False)
    assert (strays(log), readable(log)) == ([], [0, 1, 4, 5])


def test_a_batch_that_leaps_over_where_the_log_was_flushed_to_has_to_lead_to_another_one() -> None:
    """What is behind it does not bear out its offset, though the file ends where the next one begins."""
    log = opened({0: [batch(0), batch(3), GARBAGE, batch(5)], 6: [batch(6)]}, 2, clean=False)
    assert readable(log) == [0, 5, 6]


@pytest.mark.parametrize(("end", "epochs"), [(0, "0\n1\n1 0\n"), (3, "0\n2\n1 0\n5 9\n")])
def test_the_only_batch_that_is_left_is_served_where_nothing_tells_of_an_end_before_it(end: int, epochs: str) -> None:
    """The recovery point is lost, or leader epochs that are another log's have the log read again."""
    log = opened({0: [GARBAGE, batch(2)]}, end, others=[f"leader-epoch-checkpoint {epochs}"])
    assert readable(log) == [2]


def test_a_recovery_point_behind_a_first_record_that_is_damaged_is_not_believed() -> None:
    """Nothing else knows of that record."""
    assert opened({0: [GARBAGE]}, 1).recovery.is_point_rejected


def test_an_empty_file_bears_out_the_recovery_point_that_it_is_named_after_though_there_is_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = opened({4: []}, 4, others=[f"{7:020d}.snapshot ?"])
    assert (log.log_end_offset, "recovery point rejected" in caplog.text) == (4, False)


def test_a_file_that_is_named_like_a_segment_and_is_none_is_told(caplog: pytest.LogCaptureFixture) -> None:
    opened({0: [batch(0)]}, 1, others=["notes.log ?"])
    assert caplog.text.count("not a segment") == 1

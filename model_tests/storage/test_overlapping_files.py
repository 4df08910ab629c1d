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


def opened(files: Mapping[int, Sequence[bytes]], end: int) -> Log:
    """A closed log of these files, each with its content."""
    disk = SimulatedDisk(random.Random(1))
    disk.make_directory("logs")
    disk.make_directory(DIRECTORY)
    for base, content in files.items():
        disk.open(f"{DIRECTORY}/{file_name(base, LOG_SUFFIX)}", create=True).append(b"".join(content))
    return Log.open(disk, DIRECTORY, CONFIG, 0, recovery_point=end, clean_shutdown=True, reads_all=True)


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

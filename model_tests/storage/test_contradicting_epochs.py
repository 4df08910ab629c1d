"""Leader epochs that are noted of a log are believed unless a batch at which one begins says otherwise."""

from __future__ import annotations

import pytest

from tidegauge.impl.storage.epoch_recovery import contradiction
from tidegauge.impl.storage.leader_epoch_cache import EpochEntry
from tidegauge.model_tests.storage.test_damage import CLOSED, END, batch, opened, written

RIGHT = ((1, 0), (2, 4), (3, 8), (4, 11))


def contradicted(*entries: tuple[int, int], clean: bool = True, without: int = 0) -> bool:
    """Three segments of four batches, of epochs 1, 2 and 3; the last batch has epoch 4.

    The second one is `without` so many of its first batches.
    """
    disk = written(last_epoch=4)
    log = opened(disk)
    content = disk.files()[CLOSED]
    if without:
        disk.open(CLOSED).truncate(0)
        disk.open(CLOSED).append(content[without * len(batch(0)) :])
    return bool(contradiction(log.segments, [EpochEntry(*entry) for entry in entries], is_clean=clean))


@pytest.mark.parametrize("clean", [False, True])
def test_what_every_batch_bears_out_is_believed(clean: bool) -> None:
    assert not contradicted(*RIGHT, clean=clean)
    assert not contradicted(clean=clean)
    assert not contradiction([], [EpochEntry(*entry) for entry in RIGHT], is_clean=clean)


@pytest.mark.parametrize("entry", [(2, 0), (0, 0), (9, 4), (1, 4), (2, 8), (5, 11), (3, 11), (4, 10)])
@pytest.mark.parametrize("clean", [False, True])
def test_a_batch_of_another_epoch_contradicts_the_one_that_is_to_begin_with_it(
    entry: tuple[int, int], clean: bool
) -> None:
    assert contradicted(entry, clean=clean)


@pytest.mark.parametrize(("epoch", "is_contradicted"), [(1, False), (2, False), (3, True)])
def test_where_the_cleaner_has_taken_the_first_records_of_an_epoch_a_later_one_is_no_contradiction(
    epoch: int, is_contradicted: bool
) -> None:
    """All records of the epoch may be gone; one before it may not come behind where it begins."""
    assert contradicted((epoch, 4), without=2) == is_contradicted


@pytest.mark.parametrize(
    ("entry", "after_a_stop", "after_a_crash"),
    [
        ((5, END), False, False),
        ((5, END + 1), True, False),
        ((4, END + 1), True, True),
        ((3, END + 1), True, True),
    ],
)
def test_an_epoch_behind_the_end_is_later_than_all_that_a_crash_has_left(
    entry: tuple[int, int], after_a_stop: bool, after_a_crash: bool
) -> None:
    """Its leader had begun it, and its records were not flushed; a clean stop flushes all."""
    assert contradicted(*RIGHT, entry) == after_a_stop
    assert contradicted(*RIGHT, entry, clean=False) == after_a_crash

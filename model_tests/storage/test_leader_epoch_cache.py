"""The leader epoch cache: what KIP-101 and KIP-279 ask of it, by example and as laws against a list of records."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.impl.storage.leader_epoch_cache import UNDEFINED, EpochEndOffset, EpochEntry, LeaderEpochCache

CACHE = ((2, 0), (3, 10), (6, 15))
END = 20

EPOCHS = st.lists(st.integers(0, 6), max_size=12).map(sorted)
"""The leader epoch of each record of a log, by offset."""


def cache_of(epochs: list[int]) -> LeaderEpochCache:
    cache = LeaderEpochCache()
    for offset, epoch in enumerate(epochs):
        cache.assign(epoch, offset)
    return cache


@pytest.mark.parametrize(
    ("asked", "response"),
    [
        (-1, UNDEFINED),
        (0, (0, 0)),
        (1, (1, 0)),
        (2, (2, 10)),
        (3, (3, 15)),
        (4, (3, 15)),
        (5, (3, 15)),
        (6, (6, END)),
        (7, UNDEFINED),
    ],
)
def test_end_offset_of_an_epoch_kip_279(asked: int, response: tuple[int, int]) -> None:
    cache = LeaderEpochCache(EpochEntry(*entry) for entry in CACHE)
    assert cache.end_offset_for(asked, END) == EpochEndOffset(*response)


def test_an_empty_cache_knows_no_epoch() -> None:
    cache = LeaderEpochCache()
    assert (cache.end_offset_for(0, 5), cache.latest_epoch, cache.epoch_for_offset(0)) == (UNDEFINED, None, None)


@pytest.mark.parametrize(
    ("epoch", "start", "left"),
    [
        (6, 17, CACHE),
        (6, 12, ((2, 0), (3, 10), (6, 12))),
        (7, 20, (*CACHE, (7, 20))),
        (7, 15, ((2, 0), (3, 10), (7, 15))),
        (4, 16, ((2, 0), (3, 10), (4, 16))),
        (9, 0, ((9, 0),)),
    ],
)
def test_an_assignment_removes_what_contradicts_it(epoch: int, start: int, left: tuple[tuple[int, int], ...]) -> None:
    cache = LeaderEpochCache(EpochEntry(*entry) for entry in CACHE)
    assert cache.assign(epoch, start) is (left != CACHE)
    assert cache.entries == left


@given(EPOCHS)
def test_every_record_is_of_the_epoch_that_the_cache_says(epochs: list[int]) -> None:
    cache = cache_of(epochs)
    assert [cache.epoch_for_offset(offset) for offset in range(len(epochs))] == epochs
    assert cache.latest_epoch == (epochs[-1] if epochs else None)
    assert all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(cache.entries))


@given(EPOCHS, st.integers(0, 7))
def test_the_response_ends_the_largest_epoch_not_above_the_one_asked_for(epochs: list[int], asked: int) -> None:
    epoch, end_offset = cache_of(epochs).end_offset_for(asked, len(epochs))
    if not epochs or asked > epochs[-1]:
        assert (epoch, end_offset) == UNDEFINED
    else:
        assert end_offset == sum(e <= asked for e in epochs)
        assert epoch == max((e for e in epochs if e <= asked), default=asked)


@given(EPOCHS, st.integers(0, 12))
def test_cutting_the_end_leaves_the_epochs_of_what_is_left(epochs: list[int], end: int) -> None:
    cache = cache_of(epochs)
    changed = cache.truncate_from_end(end)
    assert cache.entries == cache_of(epochs[:end]).entries
    assert changed is (cache.entries != cache_of(epochs).entries)


@given(EPOCHS, st.integers(0, 12))
def test_cutting_the_start_leaves_the_epochs_of_what_is_left(epochs: list[int], start: int) -> None:
    cache = cache_of(epochs)
    changed = cache.truncate_from_start(start)
    assert changed is (cache.entries != cache_of(epochs).entries)
    assert [cache.epoch_for_offset(offset) for offset in range(start, len(epochs))] == epochs[start:]
    assert not epochs or cache.entries[0].start_offset == start or start == 0


@given(EPOCHS, EPOCHS)
def test_logs_agree_below_the_end_of_an_epoch_that_both_know(mine: list[int], theirs: list[int]) -> None:
    """Why truncating by epoch works: one leader writes an epoch, so two replicas' records of it agree."""
    common = 0
    while common < min(len(mine), len(theirs)) and mine[common] == theirs[common]:
        common += 1
    mine, theirs = mine[:common] + [m + 10 for m in mine[common:]], theirs[:common] + [t + 20 for t in theirs[common:]]
    ours, leaders = cache_of(mine), cache_of(theirs)
    end = len(mine)
    while end and mine[:end] != theirs[:end]:
        epoch, leader_end = leaders.end_offset_for(mine[end - 1], len(theirs))
        if leader_end < 0:
            epoch, leader_end = theirs[-1] if theirs else -1, len(theirs)
        floor = ours.floor_epoch(epoch)
        own_end = 0 if floor is None else ours.end_offset_for(floor, end).end_offset
        cut = min(leader_end, own_end, end)
        assert common <= cut < end
        end = cut
        ours.truncate_from_end(end)

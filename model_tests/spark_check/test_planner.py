"""Every history is owned by exactly one unit, however its rows lie in row groups and files."""

from __future__ import annotations

from collections import Counter

import attrs
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.spark_check.planner import Piece, Plan, Unit, bucket_of, plan

Layout = list[list[list[int]]]
"""Files of row groups of history ids, one a row."""

groups = st.lists(st.integers(-3, 12), min_size=1, max_size=6)
layouts = st.lists(st.lists(groups, max_size=4), max_size=4)
sizes = st.tuples(st.integers(1, 12), st.integers(1, 20))


def pieces(layout: Layout) -> list[Piece]:
    return [
        Piece(f"file{number}", group, len(ids), min(ids), max(ids))
        for number, file in enumerate(layout)
        for group, ids in enumerate(file)
    ]


def checked_rows(layout: Layout, planned: Plan) -> Counter[tuple[str, int, int]]:
    """How often each (file, row group, row) is checked when each unit reads as `Unit` says."""
    seen: Counter[tuple[str, int, int]] = Counter()
    for unit, piece, row, _ in _readings(layout, planned):
        del unit
        seen[piece.file, piece.row_group, row] += 1
    return seen


def _readings(layout: Layout, planned: Plan) -> list[tuple[Unit, Piece, int, int]]:
    found = []
    for unit in planned.units:
        for piece in unit.pieces + unit.borrowed:
            ids = np.array(layout[int(piece.file[4:])][piece.row_group], np.int64)
            mine = unit.owns(ids) & ((ids == unit.last) if piece in unit.borrowed else True)
            found += [(unit, piece, int(row), int(ids[row])) for row in np.flatnonzero(mine)]
    return found


@given(layouts, sizes)
def test_every_row_is_checked_once(layout: Layout, size: tuple[int, int]) -> None:
    every = {
        (f"file{number}", group, row)
        for number, file in enumerate(layout)
        for group, ids in enumerate(file)
        for row in range(len(ids))
    }
    assert checked_rows(layout, plan(pieces(layout), *size)) == Counter(every)


@given(layouts, sizes)
def test_a_history_has_one_owner(layout: Layout, size: tuple[int, int]) -> None:
    owners: dict[int, set[str]] = {}
    for unit, _, _, history in _readings(layout, plan(pieces(layout), *size)):
        owners.setdefault(history, set()).add(unit.name)
    assert all(len(units) == 1 for units in owners.values())


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 7), st.integers(20, 60))
def test_clustered_input_is_never_shuffled(lengths: list[int], group: int, largest: int) -> None:
    """Histories one after another, row groups cut anywhere: no overlap but at an endpoint."""
    ids = np.repeat(np.arange(len(lengths)), lengths).tolist()
    layout = [[ids[at : at + group] for at in range(0, len(ids), group)]]
    planned = plan(pieces(layout), 20, largest)
    assert {unit.buckets for unit in planned.units} == {1}
    assert planned.notes == ()


def test_small_row_groups_are_put_together() -> None:
    small = [Piece("a", group, 10, group * 2, group * 2 + 1) for group in range(10)]
    planned = plan(small, target=30, largest=100)
    assert [len(unit.pieces) for unit in planned.units] == [3, 3, 3, 1]


def test_overlapping_row_groups_are_split_by_hash_and_a_note_says_so() -> None:
    mixed = [Piece("a", group, 50, 0, 99) for group in range(4)]
    planned = plan(mixed, target=50, largest=100)
    assert [unit.bucket for unit in planned.units] == [0, 1, 2, 3]
    assert len(planned.notes) == 1
    assert "unclustered" in planned.notes[0]


def test_a_single_huge_history_is_one_unit_and_a_note_says_so() -> None:
    huge = [Piece("a", 0, 50, 3, 7), *(Piece("a", group, 50, 7, 7) for group in range(1, 5)), Piece("a", 5, 50, 7, 9)]
    planned = plan(huge, target=50, largest=1000)
    first, second = planned.units
    assert first.pieces == tuple(huge[:5])
    assert first.borrowed == (huge[5],)
    assert (second.first, second.last) == (8, 9)
    alone = plan(huge[1:5], target=50, largest=100)
    assert [unit.buckets for unit in alone.units] == [1]
    assert "history 7 alone" in alone.notes[0]


def test_row_groups_without_any_history_id_are_still_somebodys() -> None:
    blank = Piece("a", 0, 5, None, None)
    planned = plan([blank, Piece("a", 1, 5, 1, 2)])
    assert [unit.pieces for unit in planned.units if unit.first is None] == [(blank,)]
    assert planned.rows == 10


def test_buckets_are_even_for_ids_in_a_pattern() -> None:
    for stride in (1, 2, 64, 1000, 1 << 32):
        counts = np.bincount(bucket_of(np.arange(20_000) * stride, 16), minlength=16)
        assert counts.min() > 1000, f"ids {stride} apart: {counts}"


@given(layouts, sizes)
def test_units_are_numbered_one_by_one(layout: Layout, size: tuple[int, int]) -> None:
    """Two units with one name would put their tables in the same place."""
    planned = plan(pieces(layout), *size)
    assert [unit.number for unit in planned.units] == list(range(len(planned.units)))


def test_units_have_names_in_order() -> None:
    planned = plan([Piece("a", group, 10, group, group) for group in range(12)], target=10, largest=10)
    names = [unit.name for unit in planned.units]
    assert names == sorted(names)
    assert len(set(names)) == 12
    assert attrs.evolve(planned.units[0], number=7).name == "unit-000007"

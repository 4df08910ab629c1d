"""The verdicts are held against an independent count of the input: whatever differs is named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.linearizability.history import Ints
from tidegauge.spark_check import row_counts as module
from tidegauge.spark_check.errors import NotReconciled
from tidegauge.spark_check.origins import origins_of
from tidegauge.spark_check.places import Place
from tidegauge.spark_check.planner import Unit
from tidegauge.spark_check.reconciling import VerdictFile, check_owners, read_verdicts, tally_verdicts
from tidegauge.spark_check.row_counts import (
    RowCounts,
    Tally,
    add,
    count_column,
    count_part,
    count_rows,
    count_verdicts,
    reconcile,
    share_of,
)

ids_or_null = st.lists(st.one_of(st.none(), st.integers(-5, 5)), max_size=30)


def ints(*items: int) -> Ints:
    return np.array(items, np.int64)


@given(st.lists(ids_or_null, max_size=6), st.integers(1, 10))
def test_the_rows_of_each_history_are_counted(columns: list[list[int | None]], merge_at: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MERGE_AT", merge_at)
        found = add(count_column(pa.chunked_array([pa.array(column, pa.int64())])) for column in columns)
    every = Counter(one for column in columns for one in column)
    assert dict(zip(found.ids.tolist(), found.counts.tolist(), strict=True)) == {
        one: many for one, many in every.items() if one is not None
    }
    assert found.ids.tolist() == sorted(found.ids.tolist())
    assert found.nameless == every[None]


def test_the_rows_of_files_are_counted(tmp_path: Path) -> None:
    pq.write_table(pa.table({"history": [3, 1, None, 3], "other": [0, 0, 0, 0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"history": [1, 2]}), tmp_path / "b.parquet", row_group_size=1)
    found = count_rows([str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")])
    assert (found.ids.tolist(), found.counts.tolist(), found.nameless, found.rows) == ([1, 2, 3], [2, 1, 2], 1, 6)


INPUT = RowCounts(ints(4, 5, 6), ints(10, 20, 30), nameless=2)


def test_verdicts_that_account_for_the_input_pass_in_any_order() -> None:
    reconcile(INPUT, ints(6, 4, 5), ints(30, 10, 20), 2)


@pytest.mark.parametrize(
    ("ids", "counts", "nameless", "said"),
    [
        (ints(4, 5, 6, 6), ints(10, 20, 10, 20), 2, "1 history has more than one verdict, history 6 for one"),
        (ints(4, 6), ints(10, 30), 2, "1 history of the input has no verdict, history 5 for one"),
        (
            ints(4, 5, 6, 7),
            ints(10, 20, 30, 1),
            2,
            "1 verdict is about a history that the input does not have, history 7",
        ),
        (ints(4, 5, 6), ints(10, 19, 31), 2, "history 5 has 20 rows in the input and 19 in its verdict (2 histories"),
        (ints(4, 5, 6), ints(10, 20, 30), 1, "2 rows of the input have no history id, 1 were kept aside"),
    ],
)
def test_a_difference_is_named(ids: Ints, counts: Ints, nameless: int, said: str) -> None:
    with pytest.raises(NotReconciled) as raised:
        reconcile(INPUT, ids, counts, nameless)
    assert said in str(raised.value)


counted = st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.integers(1, 5), max_size=20)


def counts_of(rows: dict[int, int]) -> RowCounts:
    return RowCounts(ints(*sorted(rows)), ints(*(rows[one] for one in sorted(rows))))


@given(counted, counted)
def test_tallies_are_equal_if_and_only_if_the_counts_are(one: dict[int, int], other: dict[int, int]) -> None:
    assert not Tally.of(counts_of(one)).differs(Tally.of(counts_of(dict(reversed(one.items())))))
    assert bool(Tally.of(counts_of(one)).differs(Tally.of(counts_of(other)))) == (one != other)


@given(counted, st.data())
def test_a_row_that_goes_over_to_another_history_is_seen_in_its_share(
    rows: dict[int, int], data: st.DataObject
) -> None:
    if len(rows) < 2:
        return
    loser, winner = data.draw(st.lists(st.sampled_from(sorted(rows)), min_size=2, max_size=2, unique=True))
    wrong = {**rows, loser: rows[loser] - 1, winner: rows[winner] + 1}
    shares = set(share_of(ints(loser, winner)).tolist())
    assert set(Tally.of(counts_of(rows)).differs(Tally.of(counts_of(wrong)))) == shares


def test_a_row_that_goes_to_another_history_of_its_share_is_seen() -> None:
    ids = np.arange(20_000)
    mine = ids[share_of(ids) == share_of(ids)[0]]
    assert len(mine) > 1
    one, other = (RowCounts(mine[:2], ints(*rows)) for rows in ((2, 1), (1, 2)))
    assert Tally.of(one).differs(Tally.of(other)) == [int(share_of(ids)[0])]


@given(st.lists(ids_or_null, max_size=6))
def test_tallies_of_parts_add_up_to_the_tally_of_the_whole(columns: list[list[int | None]]) -> None:
    parts = [count_column(pa.chunked_array([pa.array(column, pa.int64())])) for column in columns]
    total = sum((Tally.of(part) for part in parts), Tally.none())
    whole = Tally.of(add(parts))
    assert not total.differs(whole)
    assert (total.rows, total.nameless) == (whole.rows, whole.nameless) == (sum(map(len, columns)), add(parts).nameless)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_each_row_group_is_in_one_part(parts: int, tmp_path: Path) -> None:
    place = Place.of(tmp_path / "a.parquet")
    pq.write_table(pa.table({"history": list(range(10))}), place.uri, row_group_size=2)
    found = [counts.ids.tolist() for part in range(parts) for counts in count_part(place, part, parts)]
    assert sorted(found) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


@pytest.mark.parametrize("ids", [[1, 1], [1, 3, 2]])
def test_a_history_that_is_twice_in_a_table_is_named(ids: list[int]) -> None:
    with pytest.raises(NotReconciled, match=f"history {ids[-1]} has more than one verdict"):
        count_verdicts(np.array(ids), pa.table({"operations": ids}))


def test_a_verdict_of_a_unit_that_does_not_own_the_history_is_named(tmp_path: Path) -> None:
    """As when a row group that cuts a history were judged by both its neighbours."""
    place = Place.of(tmp_path / "verdicts.parquet")
    pq.write_table(
        pa.table({"history": [4, 5, 6], "operations": [1, 1, 1], "file": pa.nulls(3, pa.string())}), place.uri
    )
    assert read_verdicts(VerdictFile(place, Unit(0, 4, 6, ()))).rows == 3
    with pytest.raises(NotReconciled, match="a verdict about history 6, which is another unit's"):
        read_verdicts(VerdictFile(place, Unit(0, 4, 5, ())))
    assert "about history 4" in str(tally_verdicts([VerdictFile(place, Unit(0, 5, 6, ()))]))


def test_a_verdict_about_a_history_of_another_file_is_named(tmp_path: Path) -> None:
    place = Place.of(tmp_path / "verdicts.parquet")
    table = {"history": [0, 0], "operations": [1, 1], "file": ["a.parquet", "b.parquet"]}
    pq.write_table(pa.table(table), place.uri)
    both, _ = origins_of({"a.parquet": (0, 0), "b.parquet": (0, 0)}, across_files=False)
    assert read_verdicts(VerdictFile(place, Unit(0, 0, 1, (), origins=both))).ids.tolist() == [0, 1]
    with pytest.raises(NotReconciled, match=r"about history 0 of b\.parquet, which is another unit's"):
        read_verdicts(VerdictFile(place, Unit(0, 0, 0, (), origins=both)))
    with pytest.raises(NotReconciled, match=r"about a history of 'b\.parquet', which is another unit's"):
        read_verdicts(VerdictFile(place, Unit(0, 0, 0, (), origins=both.between(0, 0))))


def test_units_that_own_the_same_history_are_named() -> None:
    check_owners([Unit(0, 1, 5, (), (), 0, 2), Unit(1, 1, 5, (), (), 1, 2), Unit(2, 6, 9, ()), Unit(3, None, None, ())])
    for other in (Unit(1, 5, 9, ()), Unit(1, 1, 5, (), (), 0, 2), Unit(1, 1, 5, (), (), 1, 3)):
        with pytest.raises(NotReconciled, match="two units own history"):
            check_owners([Unit(0, 1, 5, (), (), 0, 2), other])

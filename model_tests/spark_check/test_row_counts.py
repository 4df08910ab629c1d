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
from tidegauge.spark_check.row_counts import RowCounts, add, count_column, count_rows, reconcile

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
        (ints(4, 5, 6, 6), ints(10, 20, 10, 20), 2, "1 histories have more than one verdict, history 6 for one"),
        (ints(4, 6), ints(10, 30), 2, "1 histories of the input have no verdict, history 5 for one"),
        (ints(4, 5, 6, 7), ints(10, 20, 30, 1), 2, "1 verdicts are about histories that the input does not have, 7"),
        (ints(4, 5, 6), ints(10, 19, 31), 2, "history 5 has 20 rows in the input and 19 in its verdict (2 histories"),
        (ints(4, 5, 6), ints(10, 20, 30), 1, "2 rows of the input have no history id, 1 were kept aside"),
    ],
)
def test_a_difference_is_named(ids: Ints, counts: Ints, nameless: int, said: str) -> None:
    with pytest.raises(NotReconciled) as raised:
        reconcile(INPUT, ids, counts, nameless)
    assert said in str(raised.value)

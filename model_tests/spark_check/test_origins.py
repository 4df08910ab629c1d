"""A history is named by its file and its id there; numbers of a job keep the files apart."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegauge.spark_check.errors import BadInput
from tidegauge.spark_check.origins import HIGHEST, LOWEST, NO_FILES, extents_of, numbered, origins_of, told_apart

ids = st.integers(LOWEST, HIGHEST) | st.integers(-5, 5) | st.sampled_from([LOWEST, HIGHEST])
extents = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.tuples(ids, ids).map(sorted), min_size=1)


@given(extents)
@example({"a": [0, 99], "b": [0, 99]})
@example({"a": [0, 99], "b": [50, HIGHEST]})
@example({"a": [LOWEST, HIGHEST]})
@example({"a": [LOWEST, -1], "b": [LOWEST, -1]})
@example({"a": [LOWEST, 0], "b": [0, HIGHEST]})
def test_numbers_keep_files_apart_and_lead_back(drawn: dict[str, list[int]]) -> None:
    by_file = {file: (low, high) for file, (low, high) in drawn.items()}
    try:
        origins, _ = origins_of(by_file, across_files=False)
    except BadInput:
        assert sum(high - low + 1 for low, high in by_file.values()) > 1 << 64
        return
    taken: list[tuple[int, int]] = []
    for file, move in zip(origins.files, origins.moves, strict=True):
        low, high = by_file[file]
        edges = np.array([low, high, (low + high) // 2], np.int64)
        moved = numbered(pa.chunked_array([[*edges.tolist(), None]], pa.int64()), move)
        assert moved.null_count == 1
        numbers = moved.drop_null().to_numpy()
        assert numbers.tolist() == [one + move for one in edges.tolist()]
        assert origins.ids(numbers).tolist() == edges.tolist()
        assert origins.files_of(numbers).to_pylist() == [file] * 3
        assert origins.numbers(edges, pa.array([file] * 3)).tolist() == numbers.tolist()
        assert [(origins.id(one), origins.file(one)) for one in numbers.tolist()] == [
            (one, file) for one in edges.tolist()
        ]
        taken.append((low + move, high + move))
        part = origins.between(low + move, high + move)
        assert part.files == (file,)
        assert part.ids(numbers).tolist() == edges.tolist()
    assert taken == sorted(taken)
    assert all(high < low for (_, high), (low, _) in pairwise(taken))


@given(
    st.lists(st.tuples(st.integers(-2, 2) | ids, st.sampled_from(["a", "b", None])), max_size=12), st.integers(0, 12)
)
def test_rows_have_one_number_if_they_have_one_id_and_one_source(rows: list[tuple[int, str | None]], cut: int) -> None:
    columns = [
        pa.chunked_array([[row[at] for row in part] for part in (rows[:cut], rows[cut:])], kind)
        for at, kind in ((0, pa.int64()), (1, pa.string()))
    ]
    numbers, listed = told_apart(*columns)
    assert listed.ids(numbers).tolist() == [history for history, _ in rows]
    assert listed.files_of(numbers).to_pylist() == [source for _, source in rows]
    assert sorted(set(numbers.tolist())) == list(range(len(set(rows))))
    assert {listed.words(number) for number in numbers.tolist()} == {f"history {one} of {of}" for one, of in rows}


def test_files_whose_ids_do_not_overlap_keep_them_and_nothing_is_said() -> None:
    origins, notes = origins_of({"b": (10, 19), "a": (20, 29), "c": (0, 9)}, across_files=False)
    assert (origins.files, origins.moves, notes) == (("c", "b", "a"), (0, 0, 0), ())


def test_a_note_names_files_whose_ids_overlap() -> None:
    _, (note,) = origins_of({"b": (5, 5), "a": (0, 5), "c": (6, 7)}, across_files=False)
    assert note.startswith("the ids of 2 files overlap, such as those of a and b: each file's histories are its own.")
    assert note.endswith("check them with --across-files")
    _, (note,) = origins_of({"a": (0, 99), "b": (5, 6), "c": (80, 90)}, across_files=False)
    assert note.startswith("the ids of 3 files overlap")


def test_words_name_the_file_where_there_are_several() -> None:
    two, _ = origins_of({"a": (0, 9), "b": (0, 9)}, across_files=False)
    one, _ = origins_of({"a": (0, 9)}, across_files=False)
    assert [two.words(13), two.between(13, 14).words(13), one.words(3)] == ["history 3 of b"] * 2 + ["history 3"]


def test_across_files_an_id_is_a_number_and_no_file_is_named() -> None:
    origins, notes = origins_of({"a": (0, 9), "b": (0, 9)}, across_files=True)
    assert (origins, notes) == (NO_FILES, ())
    numbers = np.array([3, 12], np.int64)
    assert origins.ids(numbers).tolist() == [3, 12]
    assert origins.files_of(numbers).to_pylist() == [None, None]
    assert origins.words(3) == "history 3"


def test_ids_for_which_no_numbers_are_left_are_refused_with_the_way_out() -> None:
    wide = {"a": (LOWEST, HIGHEST), "b": (LOWEST, HIGHEST)}
    with pytest.raises(BadInput, match=r"the ids of 2 files overlap, and lie so far apart .*--across-files"):
        origins_of(wide, across_files=False)
    assert origins_of(wide, across_files=True) == (NO_FILES, ())


def test_the_extent_of_a_file_is_that_of_its_parts() -> None:
    parts = [("a", 3, 5), ("b", None, None), ("a", -1, 4), ("c", 7, 7)]
    assert extents_of(parts) == {"a": (-1, 5), "c": (7, 7)}

"""The names in a log's directory are looked at once, and say what the log consists of."""

from __future__ import annotations

import pytest

from tidegauge.impl.storage.log_names import LogNames

SEGMENT = "00000000000000000042"
WHOLE = (f"{SEGMENT}.log", f"{SEGMENT}.index", f"{SEGMENT}.timeindex", f"{SEGMENT}.txnindex")


def test_segments_and_snapshots_are_known_by_their_offsets_in_order() -> None:
    names = LogNames([f"{9:020d}.log", *WHOLE, f"{99:020d}.snapshot", f"{7:020d}.snapshot", "leader-epoch-checkpoint"])
    assert (names.bases, names.snapshots) == ([9, 42], [7, 99])
    assert (names.is_left_over, names.deleted, names.odd) == (False, [], [])
    assert "leader-epoch-checkpoint" in names
    assert "partition.metadata" not in names


@pytest.mark.parametrize(
    ("name", "is_odd"),
    [
        ("42.log", True), (f"0{SEGMENT}.log", True), ("0000000000000000004².log", True), (".log", True),
        ("log", False), ("index", False), ("42.snapshot", False), (f"{SEGMENT}.log.stray", False),
        (f"{SEGMENT}.log.from-0.damaged", False),
    ],
)  # fmt: skip
def test_a_name_of_no_offset_is_neither_a_segment_nor_left_over(name: str, is_odd: bool) -> None:
    names = LogNames([*WHOLE, name])
    assert (names.bases, names.snapshots, names.is_left_over, names.odd) == ([42], [], False, [name] * is_odd)


@pytest.mark.parametrize(
    ("name", "is_deleted"),
    [
        (f"{SEGMENT}.log.deleted", True), (f"{SEGMENT}.index.deleted", False), (f"{SEGMENT}.log.cleaned", False),
        (f"{SEGMENT}.log.swap", False), ("leader-epoch-checkpoint.tmp", False), (f"{9:020d}.index", False),
        (f"{9:020d}.timeindex", False), (f"{9:020d}.txnindex", False),
    ],
)  # fmt: skip
def test_what_an_interrupted_replacement_or_deletion_leaves_is_noticed(name: str, is_deleted: bool) -> None:
    names = LogNames([*WHOLE, name])
    assert (names.is_left_over, names.deleted) == (True, [name] * is_deleted)

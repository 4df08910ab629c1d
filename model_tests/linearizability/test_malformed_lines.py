"""Lines that are no operation: told apart from those that are, with number, history and reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegauge.linearizability.arrow import HistoryError
from tidegauge.linearizability.history import History, Kind
from tidegauge.linearizability.jsonl import SHOWN, read, sift, write


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """An operation of history 1, then a line that names history 2, one that names none, and an operation again."""
    history = History(1)
    for value in (7, 8):
        history.ok(history.invoke(kind=Kind.PRODUCE, process=0, call=value, values=[value]), returned=9, offset=value)
    write(tmp_path / "mixed.jsonl", history.rows())
    first, last = (tmp_path / "mixed.jsonl").read_text().splitlines()
    bad = ['{"history": 2, "process": 0, "kind": "dance"}', "x" * (SHOWN + 1)]
    (tmp_path / "mixed.jsonl").write_text("\n".join([first, *bad, last]) + "\n")
    return tmp_path / "mixed.jsonl"


def test_sound_lines_are_kept_and_the_others_told_with_number_and_history(mixed: Path) -> None:
    operations, malformed = sift(mixed)
    assert [row.values for row in operations] == [(7,), (8,)]
    assert [(line.number, line.history) for line in malformed] == [(2, 2), (3, None)]
    assert "kind is 'dance'" in malformed[0].reason
    assert len(malformed[1].text) == SHOWN


def test_reading_only_sound_files_raises_for_the_first_such_line(mixed: Path) -> None:
    with pytest.raises(HistoryError, match=r"mixed\.jsonl, line 2: kind is 'dance'"):
        read(mixed)

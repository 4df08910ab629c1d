"""Histories with transactions go through files unchanged, and those without need none of their columns."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import attrs
import pyarrow.parquet as pq
import pytest

from tidegauge.linearizability import files, jsonl
from tidegauge.linearizability.arrow import ONLY_TRANSACTIONS
from tidegauge.linearizability.check import check
from tidegauge.linearizability.history import Kind, Operation, Outcome, concatenate
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.malformed import find
from tidegauge.model_tests.linearizability.rows import fetch, history, produce
from tidegauge.model_tests.linearizability.small_transactions import draw
from tidegauge.model_tests.linearizability.transaction_rows import abort, commit, offsets, poll, send


def test_parquet_and_json_lines_keep_every_field(tmp_path: Path) -> None:
    drawn, _ = draw(1, 100)
    files.write(tmp_path / "all.parquet", drawn)
    jsonl.write(tmp_path / "all.jsonl", drawn)
    rows = list(drawn)
    assert any(row.group is not None for row in rows)
    assert any(row.last_stable_offset is not None for row in rows)
    assert [said(row) for row in files.read(tmp_path / "all.parquet")] == [said(row) for row in rows]
    assert [said(row) for row in jsonl.read(tmp_path / "all.jsonl")] == [said(row) for row in rows]


def said(row: Operation) -> Operation:
    """A row as it is meant: explicit offsets or not."""
    return attrs.evolve(row, offsets=row.placed)


def test_a_file_without_the_columns_of_transactions_reads_as_before(tmp_path: Path) -> None:
    plain = history([produce(0, 1, 0, 7), fetch(2, 3, 0, 7)])
    files.write(tmp_path / "new.parquet", plain)
    table = pq.read_table(tmp_path / "new.parquet").drop_columns(list(ONLY_TRANSACTIONS))
    pq.write_table(table, tmp_path / "old.parquet")
    read = files.read(tmp_path / "old.parquet")
    assert read.transactional is None
    assert [attrs.evolve(row, topic="t") for row in read] == list(plain)


def test_histories_with_and_without_transactions_are_checked_side_by_side() -> None:
    aborted = [send(1, 0, 1, 0, 7), abort(1, 2, 3), poll(None, 4, 5, 0, {0: 7})]
    lost = [produce(0, 1, 0, 7), produce(2, 3, 1, 8), fetch(4, 5, 0, 9)]
    fine = [produce(0, 1, 0, 7), fetch(2, 3, 0, 7)]
    together = concatenate([history(rows, number) for number, rows in enumerate((lost, aborted, fine))])
    verdicts = check(together)
    assert verdicts.verdicts.tolist() == [1, 1, 0]
    alone = [check(history(rows, number)) for number, rows in enumerate((lost, aborted, fine))]
    assert {str(one) for one in verdicts.anomalies} == {str(one) for each in alone for one in each.anomalies}
    assert verdicts.table().to_pylist() == [row for each in alone for row in each.table().to_pylist()]
    assert verdicts.coverage.totals.transactions == 1


def test_the_verdicts_on_many_histories_at_once_are_those_on_each() -> None:
    drawn, _ = draw(2, 150)
    starts = drawn.history_starts
    for level in Level:
        whole = check(drawn, level).table().to_pylist()
        alone = [check(drawn.slice(int(a), int(b)), level) for a, b in pairwise(starts)]
        assert whole == [row for each in alone for row in each.table().to_pylist()]


def test_events_of_transactions_are_read() -> None:
    lines = [
        '{"type": "invoke", "f": "produce", "process": 1, "time": 0, "topic": "t", "values": [7], "transaction": 4}',
        '{"type": "ok", "process": 1, "time": 1, "offset": 0}',
        '{"type": "invoke", "f": "commit_offsets", "process": 1, "time": 2, "topic": "t", "offset": 1, "group": 3, '
        '"transaction": 4}',
        '{"type": "ok", "process": 1, "time": 3}',
        '{"type": "invoke", "f": "commit", "process": 1, "time": 4, "transaction": 4}',
        '{"type": "info", "process": 1, "time": 5}',
    ]
    rows = list(jsonl.parse(lines))
    assert [row.kind for row in rows] == [Kind.PRODUCE, Kind.COMMIT_OFFSETS, Kind.COMMIT]
    assert {row.transaction for row in rows} == {4}
    assert (rows[1].group, rows[1].offset, rows[2].outcome) == (3, 1, Outcome.INFO)


MALFORMED: dict[str, list[Operation]] = {
    "no transaction": [attrs.evolve(commit(1, 0, 1), transaction=None)],
    "number the transactions": [attrs.evolve(commit(1, 0, 1), transaction=-4)],
    "no group": [attrs.evolve(offsets(1, 0, 1, 2), group=None)],
    "only a row about a group has one": [attrs.evolve(send(1, 0, 1, 0, 7), group=2)],
    "say which offset": [offsets(1, 0, 1, -1)],
    "needs -1 (all)": [attrs.evolve(send(1, 0, 1, 0, 7), acks=1)],
    "only sends, fetches": [attrs.evolve(poll(1, 0, 1, 0, {}), kind=Kind.LIST_OFFSETS, offsets=None)],
    "only a fetch that is ok has one": [attrs.evolve(send(1, 0, 1, 0, 7), last_stable_offset=2)],
    "use null where nobody knows it": [poll(1, 0, 1, 0, {}, stable=-3)],
    "no log is that long": [poll(1, 0, 1, 0, {}, stable=1 << 62)],
    "another process": [send(1, 0, 1, 0, 7), commit(1, 2, 3, process=8)],
    "ends twice": [commit(1, 0, 1), abort(1, 2, 3)],
    "after the end of transaction 1": [commit(1, 0, 5), send(1, 4, 6, 0, 7)],
    "after transaction 1 was over": [poll(1, 0, 7, 0, {}), commit(1, 4, 6)],
    "it is ok but has no return": [attrs.evolve(commit(1, 0, 1), returned=None)],
}


@pytest.mark.parametrize("reason", MALFORMED)
def test_what_is_no_transaction_is_refused_with_the_reason(reason: str) -> None:
    found = find(history(MALFORMED[reason]))
    assert any(reason in row.reason for row in found), found

"""Histories of groups in files: every way there and back, what costs nothing, and what no recorder can have written."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tidegauge.commands.checking import check as check_command
from tidegauge.exits import Status
from tidegauge.linearizability import files, jsonl
from tidegauge.linearizability.arrow import ONLY_MEMBERS
from tidegauge.linearizability.check import Verdict, check
from tidegauge.linearizability.history import OF_GROUPS, OF_MANY, History, Kind, Operation, Operations, Outcome
from tidegauge.linearizability.malformed import find, split
from tidegauge.linearizability.measures import measure
from tidegauge.model_tests.linearizability.group_cases import IN_TURN, PAIRS, all_pairs, assign, deliver
from tidegauge.model_tests.linearizability.group_rows import history_of


def test_every_pair_is_told_apart_in_one_pass_and_through_each_kind_of_file(tmp_path: Path) -> None:
    operations = all_pairs()
    files.write(tmp_path / "groups.parquet", operations)
    jsonl.write(tmp_path / "groups.jsonl", operations)
    here = check(operations)
    assert [(one.history, one.name) for one in here.anomalies] == [
        (2 * number, name) for number, (name, _, _) in enumerate(PAIRS.values())
    ]
    for read in (files.read(tmp_path / "groups.parquet"), jsonl.read(tmp_path / "groups.jsonl")):
        assert list(read) == list(operations)
        assert check(read).anomalies == here.anomalies


def test_events_say_what_rows_say() -> None:
    asked = {"f": "assign", "process": 3, "topic": "t", "group": 0, "member": 7}
    lines = [
        {"type": "invoke", "time": 1, **asked},
        {"type": "ok", "time": 2, **asked, "generation": 4, "values": [0, 2]},
    ]
    (row,) = jsonl.parse(map(json.dumps, lines))
    assert (row.kind, row.values, row.generation, row.member, row.group) == (Kind.ASSIGN, (0, 2), 4, 7, 0)


def test_a_file_without_the_columns_of_members_is_read_and_has_none(tmp_path: Path) -> None:
    history = History()
    sent = history.invoke(process=0, kind=Kind.PRODUCE, values=[1], call=0)
    history.ok(sent, offset=0, returned=1)
    files.write(tmp_path / "new.parquet", history.operations())
    pq.write_table(pq.read_table(tmp_path / "new.parquet").drop_columns(list(ONLY_MEMBERS)), tmp_path / "old.parquet")
    for name in ("new", "old"):
        assert files.read(tmp_path / f"{name}.parquet").membership is None


def test_what_is_delivered_is_also_checked_against_what_was_produced() -> None:
    def delivered(value: int) -> Operations:
        history = History()
        sent = history.invoke(process=0, kind=Kind.PRODUCE, values=[1], call=0)
        history.ok(sent, offset=0, returned=1)
        given = history.invoke(process=1, kind=Kind.DELIVER, call=2, group=0, generation=1)
        history.ok(given, offset=0, values=[value], returned=3)
        return history.operations()

    assert check(delivered(1)).valid
    assert "unwritten-read" in {one.name.value for one in check(delivered(2)).anomalies}
    alone = delivered(2).take(np.array([1]))
    assert check(alone).valid, "where nobody produces, nobody knows what was produced"


def test_what_is_delivered_has_been_seen() -> None:
    history = History()
    for value in (7, 8):
        history.ok(history.invoke(process=0, kind=Kind.PRODUCE, values=[value], call=0), offset=value - 7, returned=1)
    history.ok(history.invoke(process=1, kind=Kind.DELIVER, call=2, group=0), offset=0, values=[7], returned=3)
    (measures,) = measure(history.operations())
    assert (measures.acknowledged, measures.unseen) == (2, 1)


def test_a_verdict_says_what_it_covers_of_groups() -> None:
    verdicts = check(Operations.of(history_of([deliver(0, -1, 0, 1, 0)])))
    (row,) = verdicts.table().to_pylist()
    assert row["note"] == (
        "not checked: who owned what in a generation, of 1 of 1 groups, of which no row says one; "
        "whether all was delivered, of 1 of 1 groups, which nobody declared settled"
    )
    assert verdicts.coverage.totals.words(()) == "checked: 1 group"
    both = check(Operations.of([*history_of(IN_TURN), *history_of([assign(0, 1, 0, 1, 0)], history=1)]))
    assert both.coverage.totals.groups == 2


def test_the_command_says_of_how_many_histories_it_has_checked_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files.write(tmp_path / "groups.parquet", all_pairs())
    assert check_command(tmp_path / "groups.parquet", json=True) is Status.VIOLATED
    said = json.loads(capsys.readouterr().out)
    both = [rows for _, *pair in PAIRS.values() for rows in pair]
    in_transactions = sum(any(row.transaction is not None for row in rows) for rows in both)
    assert said["checked"] == {"logs": 0, "transactions": in_transactions, "groups": len(both)}
    assert said["anomalies_by_name"].keys() == {name.value for name, _, _ in PAIRS.values()}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"kind": "commit_offsets", "topic": "t", "group": 0}, "no offset: say which offset"),
        ({"kind": "member", "generation": 1}, "no group: a row of this kind"),
        ({"kind": "member", "group": 0}, "no generation: a member or expect says"),
        ({"kind": "expect", "group": 0, "generation": 1, "topic": "t"}, "no partition in values"),
        ({"kind": "assign", "group": 0, "generation": -4}, "generation is -4: number generations from 0"),
        ({"kind": "assign", "group": 0, "member": -2}, "member is -2: number members from 0"),
        ({"kind": "assign", "group": -7}, "group is -7: number groups from 0"),
        ({"kind": "assign", "group": 0, "topic": "t", "values": [0, -1]}, "a partition in values is negative"),
        ({"kind": "release", "group": 0}, "no partition in values"),
        ({"kind": "read_offsets", "group": 0, "topic": "t", "found": 9}, "it has found commit 9, and the history"),
        ({"kind": "read_offsets", "group": 0, "topic": "t", "offset": 5}, "offset is 5, and no commit"),
        ({"kind": "deliver", "group": 0, "topic": "t"}, "no offset: say where the record is"),
        (
            {"kind": "deliver", "group": 0, "topic": "t", "offset": 5, "offsets": [7], "values": [0]},
            "offset is 5, and the first of its offsets is another",
        ),
        ({"kind": "deliver", "group": 0, "topic": "t", "offset": 0, "outcome": "info"}, "a delivery has happened"),
        ({"kind": "assign", "group": 0, "topic": "t", "transaction": 3}, "it is in transaction 3"),
        ({"kind": "fetch", "topic": "t", "generation": 2, "offset": 0}, "generation 2 and member -1, and no group"),
        ({"kind": "settled", "group": 0, "topic": "t"}, "no offset: say up to where"),
        ({"kind": "commits", "group": 0}, "kind is 'commits': use"),
        ({"kind": "assign", "group": "billing"}, "group is 'billing': give an integer"),
        ({"kind": "deliver", "group": 0, "offset": 0}, "topic is None: give a string"),
        ({"kind": "member", "group": 0, "generaton": 1}, "did you mean 'generation'?"),
    ],
)
def test_what_no_recorder_can_have_written_is_refused_with_the_line_and_the_value(
    tmp_path: Path, fields: dict[str, object], why: str
) -> None:
    path = tmp_path / "wrong.jsonl"
    row = {"history": 3, "process": 0, "outcome": "ok", "call": 0, "return": 1, **fields}
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    operations, (malformed,) = jsonl.read_sound(path)
    assert not len(operations)
    assert malformed.number == 1
    assert why in malformed.reason


def test_a_read_that_has_found_a_commit_of_another_offset_is_refused() -> None:
    history = History()
    asked: dict[str, Any] = {"process": 0, "call": 0, "group": 0}
    history.ok(history.invoke(kind=Kind.COMMIT_OFFSETS, position=5, **asked), returned=1)
    history.ok(history.invoke(kind=Kind.READ_OFFSETS, **asked), returned=1, offset=6, found=0)
    (row,) = find(history.operations())
    assert row.reason == "it has found commit 0, which is of another group, partition or offset"


def test_a_commit_is_of_no_former_generation_though_its_transaction_is_aborted() -> None:
    def history(transaction: int | None, outcome: Outcome = Outcome.OK) -> Operations:
        made = History()
        asked: dict[str, Any] = {"process": 0, "group": 0, "generation": 1}
        made.ok(made.invoke(kind=Kind.ASSIGN, call=0, **asked), returned=1, generation=2)
        token = made.invoke(kind=Kind.COMMIT_OFFSETS, call=2, position=5, transaction=transaction, **asked)
        if outcome is Outcome.OK:
            made.ok(token, returned=3)
        else:
            made.fail(token, returned=3)
        if transaction is not None:
            made.fail(made.invoke(kind=Kind.ABORT, process=0, call=4, topic="", transaction=transaction), returned=5)
        return made.operations()

    assert check(history(None)).of(0) is Verdict.VIOLATED
    assert check(history(3)).of(0) is Verdict.VIOLATED, "the response says that it was taken"
    assert check(history(3, Outcome.FAIL)).of(0) is Verdict.VALID


def nonsense(rng: Random, index: int, history: int) -> Operation:
    """A row that a broken recorder might write: a field in eight is odd."""

    def some(usual: int | None, *odd: int | None) -> Any:
        return rng.choice(odd) if rng.random() < 1 / 8 else usual

    kind = rng.choice((*OF_GROUPS, Kind.COMMIT_OFFSETS, Kind.SETTLED, Kind.FETCH))
    is_listing = kind in (*OF_MANY, Kind.DELIVER)
    values = tuple(some(one, -1, 1 << 31, 1 << 62) for one in range(some(2 if is_listing else 0, 0, 1, 3)))
    call = some(5, 0, 1, (1 << 63) - 3)
    return Operation(
        history=history,
        index=index,
        process=some(0, -1, 1, (1 << 31) - 1),
        kind=kind,
        outcome=Outcome(some(0, 1, 2)),
        topic=rng.choice(("t", "t", "t", "", "u")),
        partition=some(0, -1, 1, (1 << 31) - 1),
        call=call,
        returned=some(call + 1, None, call),
        offset=-1 if kind is Kind.READ_OFFSETS else some(0, -1, 1, (1 << 62) - 1),
        values=values,
        offsets=tuple(some(one, 0, 7, (1 << 62) - 1) for one in range(len(values))) if rng.random() < 0.1 else None,
        group=some(None if kind is Kind.FETCH else 0, None, -3, 1, (1 << 31) - 1),
        generation=some(1 if kind in (Kind.MEMBER, Kind.EXPECT) else None, None, -(1 << 31), -3, 0, (1 << 31) - 1),
        member=some(None, -(1 << 31), -3, 0, 1, (1 << 31) - 1),
        found=some(None, -3, 0, 1, (1 << 31) - 1),
    )


def test_whatever_a_broken_recorder_writes_is_refused_by_the_row_or_checked() -> None:
    """A row of nonsense in each history, or a few: it is checked, or named with its reason, and stops no other."""
    rows: list[Operation] = []
    for history in range(1_500):
        rng = Random(f"nonsense/{history}")
        rows += [nonsense(rng, index, history) for index in range(rng.choice((1, 1, 2, 4)))]
    sound, malformed = split(Operations.of(rows))
    verdicts = check(sound)
    named = {row.history for row in malformed}
    assert all(row.reason for row in malformed)
    assert set(verdicts.histories.tolist()) == set(range(1_500)) - named
    assert 300 < len(verdicts.histories) < 1_000, "some of it makes sense"
    assert verdicts.table().num_rows == len(verdicts.histories)

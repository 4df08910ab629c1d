"""A recorded history as a figure: what its clients were told, step by step, and what each reader was given."""

from __future__ import annotations

from tidegauge.linearizability.history import History, Isolation, Kind
from tidegauge.model_tests.harness.report import Report, render
from tidegauge.model_tests.harness.report.model import Step
from tidegauge.model_tests.harness.report.recorded import COORDINATOR, MOST, PROCESSES, drawn

COMMITTED = Isolation.READ_COMMITTED


def a_life() -> History:
    """Transaction 1 commits in two partitions; 2 aborts beside it; two readers of each level follow."""
    history = History()

    def sent(transaction: int, partition: int, values: list[int], offset: int, at: int) -> None:
        process = 10 + transaction
        row = history.invoke(
            process=process,
            kind=Kind.PRODUCE,
            topic="orders",
            partition=partition,
            values=values,
            call=at,
            transaction=transaction,
        )
        history.ok(row, offset=offset, returned=at + 5)

    def fetched(process: int, partition: int, values: list[int], at: int, isolation: Isolation, stable: int) -> None:
        row = history.invoke(
            process=process, kind=Kind.FETCH, topic="orders", partition=partition, position=0, call=at,
            isolation=isolation,
        )  # fmt: skip
        history.ok(row, values=values, returned=at + 5, last_stable_offset=stable)

    sent(1, 0, [1, 2], 0, at=0)
    sent(2, 0, [3], 2, at=10)
    sent(1, 1, [4], 0, at=20)
    fetched(20, 0, [1, 2, 3], 30, Isolation.READ_UNCOMMITTED, 0)
    for transaction, kind, at in ((1, Kind.COMMIT, 40), (2, Kind.ABORT, 50)):
        row = history.invoke(process=10 + transaction, kind=kind, call=at, transaction=transaction)
        history.ok(row, returned=at + 5)
    fetched(21, 0, [1, 2], 60, COMMITTED, 5)
    fetched(21, 1, [4], 70, COMMITTED, 2)
    return history


def shown(step: Step, lane: str) -> dict[str, str]:
    return next(dict(party.values) for party in step.parties if party.lane == lane)


def test_a_transactions_life_is_drawn_until_a_reader_of_committed_records_has_it() -> None:
    found = drawn(a_life().rows(), "tidegauge check history.jsonl")
    assert found is not None
    assert [step.action for step in found.steps] == [
        "the stretch begins",
        "produce of T1 at orders-0",
        "produce of T2 at orders-0",
        "produce of T1 at orders-1",
        "fetch of #3 at orders-0",
        "commit of T1",
        "abort of T2",
        "fetch of #6 at orders-0",
    ]
    last = found.steps[-1]
    assert shown(last, COORDINATOR) == {"T1": "commit: ok", "T2": "abort: ok"}
    assert shown(last, "orders-0") == {
        "log, as told": "0: T1, 1: T1, 2: T2",
        "LSO, as told": "5",
        "read_committed was given": "0, 1",
        "read_uncommitted was given": "0, 1, 2",
    }
    assert shown(found.steps[4], "orders-0")["read_committed was given"] == "nothing yet"
    assert [(one.source, one.target, one.label) for one in found.steps[5].arrows] == [
        ("process 11", COORDINATOR, "commit T1")
    ]


def test_a_report_has_the_figure() -> None:
    found = drawn(a_life().rows(), "tidegauge simulate --transactions --seed 7")
    report = Report("run", "1", None, 7, {}, (), "tidegauge verify", recorded=found)
    page = render(report)
    assert "A transaction, as recorded" in page
    assert page.count('id="step-') == 8
    assert "tidegauge simulate --transactions --seed 7" in page
    assert "A transaction, as recorded" not in render(Report("run", "1", None, 7, {}, (), "tidegauge verify"))


def test_a_long_stretch_is_cut_and_a_history_without_transactions_has_none() -> None:
    history = a_life()
    for number in range(50):
        row = history.invoke(
            process=number, kind=Kind.PRODUCE, topic="orders", values=[100 + number], call=1 + number, transaction=None
        )
        history.ok(row, offset=100 + number, returned=2 + number)
    found = drawn(history.rows(), "")
    assert found is not None
    assert len(found.steps) <= MOST + 1
    assert len({party.lane for party in found.steps[0].parties if party.lane.startswith("process")}) == PROCESSES
    alone = History()
    alone.ok(alone.invoke(process=0, kind=Kind.PRODUCE, topic="t", values=[1], call=0), offset=0, returned=1)
    assert drawn(alone.rows(), "") is None

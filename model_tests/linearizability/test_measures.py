"""What nobody read and how late readers were; and the tables of verdicts."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.linearizability.check import ANOMALY_SCHEMA, VERDICT_SCHEMA, Verdict, check
from tidegauge.linearizability.history import Operations, concatenate
from tidegauge.linearizability.measures import measure
from tidegauge.model_tests.linearizability.rows import fetch, history, produce, unknown


def test_unseen_values_are_those_acknowledged_and_never_read() -> None:
    rows = [
        produce(0, 1, 0, 7, 8),
        produce(2, 3, 2, 9),
        produce(4, 5, 3, 10, acks=1),
        unknown(6, 11),
        fetch(8, 9, 0, 7),
    ]
    (measured,) = measure(history(rows))
    assert (measured.acknowledged, measured.unseen) == (3, 2)


def test_the_lag_is_how_long_the_next_record_had_been_acknowledged() -> None:
    rows = [produce(0, 10, 0, 7), produce(11, 20, 1, 8), fetch(50, 55, 0, 7), fetch(60, 65, 2, mark=2)]
    (measured,) = measure(history(rows))
    assert (measured.worst_realtime_lag, measured.laggard) == (30, 2)
    (fresh,) = measure(history([produce(0, 10, 0, 7), fetch(5, 55, 0), fetch(60, 65, 0, 7)]))
    assert (fresh.worst_realtime_lag, fresh.laggard) == (0, None)


def test_a_later_batch_acknowledged_earlier_counts_for_the_lag() -> None:
    rows = [produce(0, 40, 0, 7), produce(0, 20, 1, 8), fetch(50, 55, 0)]
    (measured,) = measure(history(rows))
    assert measured.worst_realtime_lag == 30


def test_each_partition_is_measured_by_itself() -> None:
    other = attrs.evolve(produce(2, 3, 0, 9), partition=1)
    measured = measure(history([produce(0, 1, 0, 7), other, fetch(4, 5, 0, 7)], 6))
    assert [(one.history, one.partition, one.unseen) for one in measured] == [(6, 0, 0), (6, 1, 1)]


def test_the_tables_have_a_row_for_each_history_and_for_each_anomaly() -> None:
    good = [produce(0, 1, 0, 7)]
    bad = [produce(0, 1, 0, 7), produce(2, 3, 0, 8, process=3)]
    reused = [produce(0, 1, 0, 7), produce(2, 3, 1, 7), produce(4, 5, 2, 8)]
    parts = [history(rows, number) for rows, number in ((bad, 4), (good, 9), (reused, 2))]
    verdicts = check(concatenate(parts))
    table = verdicts.table()
    assert table.schema == VERDICT_SCHEMA
    assert table.to_pydict() == {
        "history": [4, 9, 2],
        "operations": [2, 1, 3],
        "verdict": [Verdict.VIOLATED, Verdict.VALID, Verdict.UNKNOWN],
        "anomalies": [2, 0, 1],
        "records": [2, 1, 2],
        "unconfirmed": [2, 1, 2],
        "open_ends": [1, 1, 1],
        "judged": ["records, holes", "records, holes", "records, holes"],
        "note": [
            f"not checked: {count} of {count} records that must not be lost, which nobody read after their partition "
            "had settled; the end of 1 partition(s), which nobody read after it had settled"
            for count in (2, 1, 2)
        ],
    }
    anomalies = verdicts.anomaly_table()
    assert anomalies.schema == ANOMALY_SCHEMA
    assert anomalies.column("anomaly").to_pylist() == ["inconsistent-offsets", "lost-write", "reused-value"]
    assert anomalies.column("operations").to_pylist() == [[0, 1], [0, 1], [0, 1]]
    with pytest.raises(KeyError, match="history 5 is not among the 3 checked"):
        verdicts.of(5)


def test_nothing_to_check_is_valid() -> None:
    verdicts = check(Operations.of(()))
    assert verdicts.valid
    assert verdicts.table().num_rows == verdicts.anomaly_table().num_rows == 0
    assert measure(Operations.of(())) == ()

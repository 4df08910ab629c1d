"""Histories as Jepsen's Kafka workload writes them."""

from __future__ import annotations

import pytest

from tidegauge.linearizability import edn
from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.arrow import HistoryError
from tidegauge.linearizability.check import check
from tidegauge.linearizability.history import Kind, Outcome

SENT = """
{:type :invoke, :f :assign, :value [0], :process 1, :time 1, :index 0}
{:type :ok, :f :assign, :value [0], :process 1, :time 2, :index 1}
{:type :invoke, :f :send, :value [[:send 0 7] [:send 1 8]], :process 0, :time 3, :index 2}
{:type :ok, :f :send, :value [[:send 0 [0 7]] [:send 1 [0 8]]], :process 0, :time 4, :index 3} ; a comment
{:type :invoke, :f :send, :value [[:send 0 9]], :process 0, :time 5, :index 4}
{:type :info, :f :send, :value [[:send 0 9]], :process 0, :time 6, :index 5, :error :timeout}
{:type :info, :f :kill, :value nil, :process :nemesis, :time 6, :index 6}
{:type :invoke, :f :poll, :value [[:poll]], :process 1, :time 7, :index 7}
{:type :ok, :f :poll, :value [[:poll {0 [[0 7] [1 9]], 1 []}]], :process 1, :time 8, :index 8}
"""
POLLED_AGAIN = """
{:type :invoke, :f :poll, :value [[:poll]], :process 1, :time 9, :index 9}
{:type :ok, :f :poll, :value [[:poll {0 [[0 7]]}]], :process 1, :time 10, :index 10}
"""
ASSIGNED_AGAIN = """
{:type :invoke, :f :assign, :value [0], :process 1, :time 9, :index 9}
{:type :ok, :f :assign, :value [0], :process 1, :time 9, :index 10}
"""


def test_each_send_and_each_polled_key_is_an_operation() -> None:
    rows = list(edn.parse(SENT))
    assert [(row.kind, row.outcome, row.partition, row.values) for row in rows] == [
        (Kind.PRODUCE, Outcome.OK, 0, (7,)),
        (Kind.PRODUCE, Outcome.OK, 1, (8,)),
        (Kind.PRODUCE, Outcome.INFO, 0, (9,)),
        (Kind.FETCH, Outcome.OK, 0, (7, 9)),
    ]
    assert rows[3].placed == (0, 1)
    assert (rows[3].call, rows[3].returned) == (7, 8)
    assert check(edn.parse(SENT)).valid


def test_a_vector_of_tagged_maps_is_the_same_history() -> None:
    lines = [line.split(";")[0] for line in SENT.strip().splitlines()]
    vector = "[" + "\n".join("#jepsen.history.Op" + line for line in lines) + "]"
    assert list(edn.parse(vector)) == list(edn.parse(SENT))


def test_polls_go_on_until_the_process_is_assigned_again() -> None:
    assert Name.NONMONOTONIC_POLL in {one.name for one in check(edn.parse(SENT + POLLED_AGAIN)).anomalies}
    again = POLLED_AGAIN.replace(":time 9", ":time 11").replace(":time 10", ":time 12")
    assert check(edn.parse(SENT + ASSIGNED_AGAIN + again)).valid


def test_what_never_completed_is_unknown() -> None:
    (row,) = edn.parse("{:type :invoke, :f :send, :value [[:send 0 7]], :process 0, :time 3}")
    assert row.outcome is Outcome.INFO
    assert row.returned is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{:type :ok, :process 0, :f :send, :time 1, :index 4}", "process 0 completes nothing at index 4"),
        ("{:type :invoke", "a { that is never closed"),
        ("{:type}", "a map of 1 forms"),
        ("{:type :ok, :process 0, :type :info}", "a map with more than one key :type: write each once"),
        ("{:value [[:poll {0 [[1 2]], 0 [[2 3]]}]]}", "a map with more than one key 0"),
        ("[" * 100_000, "maximum recursion depth"),
        ("]", "a ] that closes nothing"),
        ("#_", "it ends within a form"),
        ("hello", "not a history of Jepsen's Kafka workload"),
    ],
)
def test_what_is_no_history_is_refused(text: str, message: str) -> None:
    with pytest.raises(HistoryError) as refused:
        edn.parse(text, "f")
    assert str(refused.value).startswith("f: not a history of Jepsen's Kafka workload")
    assert message in str(refused.value)

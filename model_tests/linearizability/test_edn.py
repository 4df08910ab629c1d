"""Histories as Jepsen's Kafka workload writes them."""

from __future__ import annotations

import pytest

from tidegauge.linearizability import edn
from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.arrow import HistoryError
from tidegauge.linearizability.check import check
from tidegauge.linearizability.history import Isolation, Kind, Outcome
from tidegauge.linearizability.malformed import find

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
{:type :invoke, :f :%s, :value %s, :process 1, :time 9, :index 9}
{:type :%s, :f :%s, :value %s, :process 1, :time 9, :index 10}
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


def test_polls_go_on_until_the_process_is_assigned_other_keys() -> None:
    assert Name.NONMONOTONIC_POLL in {one.name for one in check(edn.parse(SENT + POLLED_AGAIN)).anomalies}


@pytest.mark.parametrize(
    ("f", "keys", "completion", "keeps"),
    [
        ("assign", "[0]", "ok", True),
        ("assign", "[1 0]", "info", True),
        ("assign", "[1]", "fail", True),
        ("assign", "[1]", "ok", False),
        ("assign", "[0], :seek-to-beginning? true", "ok", False),
        ("subscribe", "[0]", "ok", False),
        ("crash", "nil", "info", False),
    ],
)
def test_who_is_assigned_a_key_again_keeps_its_position(f: str, keys: str, completion: str, keeps: bool) -> None:
    again = POLLED_AGAIN.replace(":time 9", ":time 11").replace(":time 10", ":time 12")
    checked = check(edn.parse(SENT + ASSIGNED_AGAIN % (f, keys, completion, f, keys) + again))
    assert {one.name for one in checked.anomalies} == ({Name.NONMONOTONIC_POLL} if keeps else set())


def test_who_had_subscribed_and_assigns_itself_keys_keeps_no_position() -> None:
    subscribed = SUBSCRIBED + SENT_TWO + poll(7, "[0 7] [1 8]", ANOTHER_MOVED) + ASSIGNED_AGAIN
    subscribed %= ("assign", "[0]", "ok", "assign", "[0]")
    assert check(edn.parse(subscribed + poll(11, "[0 7]"))).valid


def test_a_key_may_be_a_keyword_or_a_string() -> None:
    named = SENT.replace("[:send 0 ", "[:send :x ").replace("{0 [[", "{:x [[").replace(":send 1 ", ':send "y" ')
    assert [(row.topic, row.partition) for row in edn.parse(named)] == [(":x", 0), ("y", 0), (":x", 0), (":x", 0)]
    assert check(edn.parse(named)).valid


SUBSCRIBED = """
{:type :invoke, :f :subscribe, :value [0], :process 1, :time 1, :index 0}
{:type :ok, :f :subscribe, :value [0], :process 1, :time 2, :index 1}
"""
SENT_TWO = """
{:type :invoke, :f :send, :value [[:send 0 7]], :process 0, :time 3, :index 2}
{:type :ok, :f :send, :value [[:send 0 [0 7]]], :process 0, :time 4, :index 3}
{:type :invoke, :f :send, :value [[:send 0 8]], :process 0, :time 4, :index 4}
{:type :ok, :f :send, :value [[:send 0 [1 8]]], :process 0, :time 5, :index 5}
{:type :invoke, :f :send, :value [[:send 0 9]], :process 0, :time 5, :index 6}
{:type :ok, :f :send, :value [[:send 0 [2 9]]], :process 0, :time 6, :index 7}
"""


def poll(time: int, read: str, log: str = "") -> str:
    return f"""
{{:type :invoke, :f :poll, :value [[:poll]], :process 1, :time {time}, :index {10 + time}}}
{{:type :ok, :f :poll, :value [[:poll {{0 [{read}]}}]], :process 1, :time {time + 1}, :index {11 + time}{log}}}
"""


MOVED = ", :rebalance-log [{:type :revoked, :keys [0]}, {:type :assigned, :keys [0]}]"
MOVED_BEFORE = ", :rebalance-log {:before [{:keys [0]}], :during nil}"
ANOTHER_MOVED = ", :rebalance-log [{:type :revoked, :keys [3]}]"


@pytest.mark.parametrize(
    ("polls", "names"),
    [
        ((poll(7, "[0 7] [1 8]"), poll(9, "[0 7]", ANOTHER_MOVED)), {Name.NONMONOTONIC_POLL}),
        ((poll(7, "[0 7] [1 8]"), poll(9, "[0 7]", MOVED)), set()),
        ((poll(7, "[0 7] [1 8]"), poll(9, "[0 7]", MOVED_BEFORE)), set()),
        ((poll(7, "[0 7] [1 8]"), poll(9, "[0 7]")), set()),
        ((poll(7, "[0 7]"), poll(9, "[2 9]", ANOTHER_MOVED)), {Name.POLL_SKIP}),
        ((poll(7, "[0 7]"), poll(9, "[2 9]", MOVED)), set()),
        ((poll(7, "[0 7]", MOVED), poll(9, "[1 8] [2 9]"), poll(11, "[1 8]")), {Name.NONMONOTONIC_POLL}),
        ((poll(7, "[0 7] [2 9]", ANOTHER_MOVED),), {Name.INT_POLL_SKIP}),
        ((poll(7, "[0 7] [2 9]", MOVED),), set()),
        ((poll(7, "[1 8] [0 7]", ANOTHER_MOVED),), {Name.INT_NONMONOTONIC_POLL}),
        ((poll(7, "[1 8] [0 7]", MOVED),), set()),
    ],
)
def test_polls_of_a_member_go_on_until_a_rebalance_and_are_in_order_without_one(
    polls: tuple[str, ...], names: set[Name]
) -> None:
    """The one without any log: nobody tells of rebalances there, so one may be between the two."""
    operations = edn.parse(SUBSCRIBED + SENT_TWO + "".join(polls))
    assert not find(operations)
    assert {one.name for one in check(operations).anomalies} == names


TRANSACTIONS = """
{:type :invoke, :f :txn, :value [[:send 0 7] [:poll]], :process 0, :time 3, :index 2}
{:type :invoke, :f :send, :value [[:send 1 8]], :process 1, :time 3, :index 3}
{:type :ok, :f :txn, :value [[:send 0 [0 7]] [:poll {1 [[0 8]]}]], :process 0, :time 9, :index 4}
{:type :%s, :f :send, :value [[:send 1 [0 8]]], :process 1, :time 9, :index 5}
{:type :invoke, :f :poll, :value [[:poll]], :process 1, :time 10, :index 6}
{:type :ok, :f :poll, :value [[:poll {0 [[0 7]], 1 []}]], :process 1, :time 12, :index 7}
"""


def test_each_operation_of_a_run_with_transactions_is_one_whatever_its_tag() -> None:
    rows = list(edn.parse(TRANSACTIONS % "ok"))
    assert [(row.transaction, row.kind, row.isolation.name, row.values) for row in rows] == [
        (0, Kind.PRODUCE, "READ_UNCOMMITTED", (7,)),
        (0, Kind.FETCH, "READ_COMMITTED", (8,)),
        (0, Kind.COMMIT, "READ_UNCOMMITTED", ()),
        (1, Kind.PRODUCE, "READ_UNCOMMITTED", (8,)),
        (1, Kind.COMMIT, "READ_UNCOMMITTED", ()),
        (2, Kind.FETCH, "READ_COMMITTED", (7,)),
        (2, Kind.COMMIT, "READ_UNCOMMITTED", ()),
    ]
    assert not find(edn.parse(TRANSACTIONS % "ok"))


@pytest.mark.parametrize(("completion", "valid"), [("ok", True), ("info", True), ("fail", False)])
def test_a_transaction_that_failed_is_not_to_be_read(completion: str, valid: bool) -> None:
    checked = check(edn.parse(TRANSACTIONS % completion))
    assert checked.valid is valid
    assert {one.name for one in checked.anomalies} == (set() if valid else {Name.ABORTED_READ})
    careless = edn.parse(TRANSACTIONS % completion, isolation=Isolation.READ_UNCOMMITTED)
    assert check(careless).valid


def test_what_was_done_in_a_transaction_of_unknown_outcome_is_known() -> None:
    """Its sends and polls have their results; only the commit has none."""
    send, commit = (row for row in edn.parse(TRANSACTIONS % "info") if row.transaction == 1)
    assert (send.outcome, send.offset, commit.outcome) == (Outcome.OK, 0, Outcome.INFO)
    told = ":value [[:send 1 [0 8]]], :process 1"
    elsewhere = (TRANSACTIONS % "info").replace(told, told.replace("0 8", "3 8"))
    assert {one.name for one in check(edn.parse(elsewhere)).anomalies} == {Name.DUPLICATE}
    untold = (TRANSACTIONS % "info").replace(told, ":value [[:send 1 8]], :process 1")
    assert check(edn.parse(untold)).valid


SENT_AND_POLLED = """
{:type :invoke, :f :txn, :value [[:send 0 7] [:send 0 8] [:send 0 9]], :process 0, :time 1, :index 0}
{:type :ok, :f :txn, :value [[:send 0 [0 7]] [:send 0 [1 8]] [:send 0 [2 9]]], :process 0, :time 2, :index 1}
{:type :invoke, :f :poll, :value [[:poll]], :process 1, :time 3, :index 2}
{:type :ok, :f :poll, :value [[:poll {0 [[0 7]]}]], :process 1, :time 4, :index 3}
{:type :invoke, :f :txn, :value [[:poll] [:send 1 6]], :process 1, :time 5, :index 4}
{:type :%s, :f :txn, :value [[:poll%s] [:send 1 6]], :process 1, :time 6, :index 5}
{:type :invoke, :f :poll, :value [[:poll]], :process 1, :time 7, :index 6}
{:type :ok, :f :poll, :value [[:poll {0 [%s]}]], :process 1, :time 8, :index 7}
"""


@pytest.mark.parametrize("polled", ["[0 7] [1 8] [2 9]", "[1 8] [2 9]", "[2 9]"])
@pytest.mark.parametrize("told", ["", " {0 [[1 8]]}"])
@pytest.mark.parametrize("completion", ["fail", "info"])
def test_where_a_process_goes_on_after_a_transaction_that_has_not_committed_is_not_checked(
    completion: str, told: str, polled: str
) -> None:
    """Rewound, rewound further, or unchanged (KAFKA-17582): the poll before it says nothing any more."""
    assert check(edn.parse(SENT_AND_POLLED % (completion, told, polled))).valid


def test_where_a_process_goes_on_after_a_commit_is_checked() -> None:
    committed = SENT_AND_POLLED % ("ok", " {0 [[1 8]]}", "[1 8] [2 9]")
    assert {one.name for one in check(edn.parse(committed)).anomalies} == {Name.NONMONOTONIC_POLL}


def test_what_a_failed_transaction_has_polled_was_there() -> None:
    elsewhere = SENT_AND_POLLED % ("fail", " {0 [[1 9]]}", "[1 8] [2 9]")
    assert Name.DUPLICATE in {one.name for one in check(edn.parse(elsewhere)).anomalies}


def test_sends_of_a_transaction_are_in_their_order() -> None:
    swapped = SENT_AND_POLLED.replace("[:send 0 [1 8]] [:send 0 [2 9]]", "[:send 0 [2 8]] [:send 0 [1 9]]")
    swapped %= ("ok", "", "[1 9] [2 8]")
    assert {one.name for one in check(edn.parse(swapped)).anomalies} == {Name.INT_NONMONOTONIC_SEND}


def test_transactions_that_read_of_each_other_are_a_cycle() -> None:
    both = TRANSACTIONS.replace("[[:send 1 8]]", "[[:poll] [:send 1 8]]")
    both = both.replace("[[:send 1 [0 8]]]", "[[:poll {0 [[0 7]]}] [:send 1 [0 8]]]")
    assert Name.G1C in {one.name for one in check(edn.parse(both % "ok")).anomalies}


@pytest.mark.parametrize(
    "before",
    [
        "#my-app/op ",
        "#_ #_ {:a 1} {:b 2} ",
        '#_#inst "2026-01-01" ',
        '{:process :nemesis, :type :info, :error [\\( \\newline "; {\\"" 1.5 2/3 #{:a}]} ',
    ],
)
def test_all_forms_of_edn_may_be_around_it(before: str) -> None:
    (row,) = edn.parse(before + "{:type :invoke, :f :send, :value [[:send 0 7]], :process 0, :time 3}")
    assert row.values == (7,)


def test_a_completion_without_a_value_is_of_what_was_invoked() -> None:
    lost = SENT.replace(":info, :f :send, :value [[:send 0 9]]", ":info, :f :send, :value nil")
    assert list(edn.parse(lost)) == list(edn.parse(SENT))


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
        ("{:type :invoke, :f :send, :value [[:send 0 7]], :process 0, :index 4}", "without :time, at index 4"),
        (
            "{:type :invoke, :f :poll, :process 0, :time 1} {:type :done, :f :poll, :process 0, :time 2}",
            "the :type :done",
        ),
        (
            "{:type :invoke, :f :txn, :value [[:append 1 2]], :process 0, :time 1}",
            ":append in the value of an operation: there are :send and :poll",
        ),
        ("{:type :invoke, :f :send, :value [[:send nil 7]], :process 0, :time 1}", "the key None: use an integer"),
        ("{:type :invoke, :process 0, :time 1} {:type :invoke, :process 0, :time 2}", "invoked twice at once"),
        ("{:type :invoke, :f :send, :value [[:send 0 10000000000000000000]], :process 0, :time 1}", "int too large"),
        ('{:type :invoke, :error "a }', "a string that is never closed, at character 22"),
        ("hello", "not a history of Jepsen's Kafka workload"),
    ],
)
def test_what_is_no_history_is_refused(text: str, message: str) -> None:
    with pytest.raises(HistoryError) as refused:
        edn.parse(text, "f")
    assert str(refused.value).startswith("f: not a history of Jepsen's Kafka workload")
    assert message in str(refused.value)

"""An anomaly as a person sees it: who did what when, the log at that moment; bounded, and nothing becomes markup."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

import attrs

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import check
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.history import History, Kind, Operation, Operations
from tidegauge.linearizability.report.anomalies import Page, Shown, most_telling, render, time_in_words
from tidegauge.linearizability.report.timeline import AROUND, OFFSETS, VALUES, Timeline, Timelines
from tidegauge.model_tests.linearizability.rows import failed, fetch, history, produce
from tidegauge.model_tests.linearizability.transaction_rows import commit, send

HOSTILE = "<script>alert(1)</script>\"'><img src=http://example.com/x>"


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the words in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def timeline_of(operations: Operations, name: Name) -> Timeline:
    (found,) = (one for one in check(operations).anomalies if one.name is name)
    return Timelines(operations).of(found)


def page(*timelines: Timeline, anomalies: Counter[str] | None = None, file: str = "runs.parquet") -> str:
    names = Counter(one.anomaly.name.value for one in timelines)
    shown = [Shown(one, file, f"look at {file}") for one in timelines]
    return render(Page("What was found", {"files": "1"}, "violated", False, anomalies or names, shown, "ask for more"))


def overwritten() -> list[Operation]:
    return [produce(0, 1, 0, 7), produce(2, 3, 1, 8), produce(4, 5, 1, 9), fetch(6, 7, 0, 7, 9)]


def test_the_log_is_what_was_known_when_the_last_operation_was_called() -> None:
    shown = timeline_of(history(overwritten()), Name.LOST_WRITE)
    assert shown.log is not None
    first, last = shown.log.columns[0], shown.log.before
    assert (first, last) == (1, max(shown.anomaly.operations))
    (contested,) = (one for one in shown.log.offsets if one.offset == 1)
    assert (8, 1) in contested.known
    assert contested.said[0] == "record 8"
    assert "record 9" in contested.said[1]
    assert shown.log.length == (2, 1)


def test_what_returned_later_was_not_known() -> None:
    late = [produce(0, 9, 0, 7), produce(2, 3, 1, 8), fetch(4, 5, 1, 8, 7)]
    shown = timeline_of(history([*late, produce(1, 8, 2, 9)]), Name.DUPLICATE)
    assert shown.log is not None
    known = {one.offset: one.known for one in shown.log.offsets}
    assert known[0] == ()
    assert known[1] == ((8, 2),)
    assert shown.log.length == (2, 2)


def test_operations_around_are_shown_and_those_between_are_counted() -> None:
    sent = [produce(10 * at, 10 * at + 1, at, at) for at in range(40)]
    shown = timeline_of(history([*sent, fetch(1000, 1001, 3, 33)]), Name.DUPLICATE)
    around = {line.operation.index: line for line in shown.lines}
    assert {33 - AROUND, 33, 33 + AROUND, 40} <= set(around)
    assert [index for index, line in around.items() if line.is_witness] == sorted(shown.anomaly.operations)
    assert sum(line.passed_over for line in shown.lines) + len(shown.lines) == 41


def test_however_large_a_history_as_little_is_shown() -> None:
    records = 3_000
    sent = [produce(2 * at, 2 * at + 1, at, at) for at in range(records)]
    read = fetch(10_000, 10_001, 0, *range(records - 1), 10**9)
    shown = timeline_of(history([*sent, read]), Name.UNWRITTEN_READ)
    assert shown.log is not None
    assert len(shown.lines) < 20
    assert len(shown.log.offsets) <= 3 * OFFSETS
    assert records - 1 in {one.offset for one in shown.log.offsets}  # where it is wrong, of all that it read
    last = shown.lines[-1]
    assert last.records == records
    assert len(last.operation.values) == VALUES
    assert len(page(shown)) < 40_000


def test_a_wrong_record_within_a_read_is_looked_at() -> None:
    sent = [produce(2 * at, 2 * at + 1, at, at) for at in range(30)] + [failed(70, 71, 99)]
    read = fetch(100, 101, 0, *range(10), 99, *range(11, 30))
    shown = timeline_of(history([*sent, read]), Name.ABORTED_READ)
    assert shown.log is not None
    (wrong,) = (one for one in shown.log.offsets if one.offset == 10)
    assert any("record 99" in said for said in wrong.said)


def test_ends_of_transactions_are_shown_with_what_they_did() -> None:
    rows = [send(1, 0, 1, 5, 7), send(1, 2, 3, 4, 8), *(send(2, 4 + at, 5 + at, 10 + at, 20 + at) for at in range(9))]
    shown = timeline_of(history([*rows, commit(1, 20, 21), commit(2, 22, 23)]), Name.INT_NONMONOTONIC_SEND)
    ends = [line.operation.transaction for line in shown.lines if line.operation.kind is Kind.COMMIT]
    assert ends == [1]


def test_assignments_of_the_partition_are_shown() -> None:
    found = History()
    for process, generation, partitions in ((0, 4, [0, 1]), (1, 4, [1]), (2, 4, [2]), (3, 5, [0, 1])):
        row = found.invoke(process=process, kind=Kind.ASSIGN, topic="t", call=process, group=0, member=process)
        found.ok(row, values=partitions, generation=generation, returned=process + 10)
    shown = timeline_of(found.operations(), Name.ASSIGNED_TWICE)
    assert [line.operation.index for line in shown.lines] == [0, 1, 3]
    assert shown.log is None
    assert "group 0 assigns it" in page(shown)


def test_every_anomaly_of_many_histories_can_be_drawn() -> None:
    for operations, _ in generate(histories=20, operations=40, seed=3, anomaly_rate=1.0):
        timelines = Timelines(operations)
        for one in check(operations).anomalies:
            shown = timelines.of(one)
            assert {line.operation.index for line in shown.lines if line.is_witness} == set(one.operations)
            assert shown.log is not None
            assert {line.operation.history for line in shown.lines} == {one.history}


def test_nothing_that_a_history_or_its_file_is_called_becomes_markup() -> None:
    rows = [attrs.evolve(row, topic=HOSTILE) for row in overwritten()]
    text = page(timeline_of(history(rows), Name.LOST_WRITE), file=HOSTILE)
    elements = Elements(text)
    assert not {tag for tag, _ in elements.found} & {"script", "img", "link", "a", "iframe"}
    assert not [name for _, attributes in elements.found for name in attributes if name in ("src", "href", "onerror")]
    assert f"{HOSTILE}-0" in "".join(elements.words)
    policies = [attributes["content"] for _, attributes in elements.found if "http-equiv" in attributes]
    assert [str(one).startswith("default-src 'none'") for one in policies] == [True]


def test_what_is_not_shown_is_counted() -> None:
    shown = timeline_of(history(overwritten()), Name.LOST_WRITE)
    text = page(shown, anomalies=Counter({"lost-write": 9_001, "duplicate": 4}))
    assert "9,004 of 9,005 anomalies are not shown here: ask for more" in text
    assert "not shown" not in page(shown)


def test_bars_lie_where_the_times_are() -> None:
    """#0 lies before #1 as a whole, on an axis with a step for each moment; what never returned goes on to the end."""
    rows = [produce(0, 1, 0, 7), attrs.evolve(fetch(2, 3, 0, 8), returned=3)]
    bars = re.findall(r"left: ([\d.]+)%; width: ([\d.]+)%", page(timeline_of(history(rows), Name.UNWRITTEN_READ)))
    (first, width), (second, _) = ((float(left), float(wide)) for left, wide in bars)
    assert first + width < second


def test_the_first_of_each_name_come_first() -> None:
    assert most_telling(["a", "a", "b", "a", "c", "b"]) == [0, 2, 4, 1, 5, 3]


def test_times_are_in_a_unit_that_fits() -> None:
    assert time_in_words(7) == "7 ns"
    assert time_in_words(25_179) == "25.179 µs"
    assert time_in_words(61_000_000) == "61 ms"
    assert time_in_words(1_234_567_891_234) == "1,234.567891 s"

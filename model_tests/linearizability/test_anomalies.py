"""Each anomaly has a history that has it, and one that nearly has it and is valid."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import Verdict, check
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.history import Operation, Outcome, concatenate
from tidegauge.linearizability.log import Level, screen
from tidegauge.model_tests.linearizability.rows import end, failed, fetch, history, produce, settled, unknown

KAFKA, STRICT = Level.KAFKA, Level.STRICT
Rows = list[Operation]


def ended(row: Operation, outcome: Outcome) -> Operation:
    return attrs.evolve(row, outcome=outcome)


CASES: list[tuple[str, Name, Level, Rows, Rows]] = [
    (
        "a value at two offsets",
        Name.DUPLICATE,
        KAFKA,
        [produce(0, 1, 0, 7), produce(2, 3, 1, 8), fetch(4, 5, 0, 7, 8, 7)],
        [produce(0, 1, 0, 7), produce(2, 3, 1, 8), fetch(4, 5, 0, 7, 8), fetch(6, 7, 0, 7, 8)],
    ),
    (
        "a value acknowledged at one offset with acks=1 and read at another",
        Name.DUPLICATE,
        KAFKA,
        [produce(0, 1, 1, 7, acks=1), produce(2, 3, 0, 8), fetch(4, 5, 0, 8), fetch(6, 7, 2, 7), unknown(0, 6)],
        [produce(0, 1, 1, 7, acks=1), produce(0, 3, 0, 8), fetch(4, 5, 0, 8, 7)],
    ),
    (
        "two values at one offset",
        Name.INCONSISTENT_OFFSETS,
        KAFKA,
        [produce(0, 9, 0, 7), produce(0, 9, 0, 8)],
        [produce(0, 9, 0, 7), produce(0, 9, 0, 8, acks=1)],
    ),
    (
        "two readers disagree",
        Name.INCONSISTENT_OFFSETS,
        KAFKA,
        [unknown(0, 7), unknown(0, 8), fetch(1, 2, 0, 7), fetch(1, 2, 0, 8)],
        [unknown(0, 7), unknown(0, 8), fetch(1, 2, 0, 7), fetch(1, 2, 0, 7, 8)],
    ),
    (
        "an acknowledged record is overwritten",
        Name.LOST_WRITE,
        KAFKA,
        [produce(0, 1, 0, 7), produce(2, 3, 0, 8), fetch(4, 5, 0, 8)],
        [produce(0, 1, 0, 7, acks=1), produce(2, 3, 0, 8), fetch(4, 5, 0, 8)],
    ),
    (
        "the tail is gone when all has settled",
        Name.LOST_WRITE,
        KAFKA,
        [produce(0, 1, 0, 7), produce(2, 3, 1, 8), settled(10), fetch(11, 12, 0, 7, mark=1)],
        [produce(0, 1, 0, 7), produce(2, 3, 1, 8), settled(10), fetch(9, 12, 0, 7, mark=1)],
    ),
    (
        "a fetch skips a known record",
        Name.INT_POLL_SKIP,
        KAFKA,
        [produce(0, 1, 0, 7, 8, 9), fetch(2, 3, 0, 7, 9, offsets=[0, 2])],
        [produce(0, 1, 0, 7, 8, 9), fetch(2, 3, 0, 7, 8, offsets=[0, 1])],
    ),
    (
        "a poll goes on beyond a known record",
        Name.POLL_SKIP,
        KAFKA,
        [produce(0, 1, 0, 7, 8, 9), fetch(2, 3, -1, 7, offsets=[0]), fetch(4, 5, -1, 9, offsets=[2])],
        [
            produce(0, 1, 0, 7, 8, 9),
            fetch(2, 3, -1, 7, offsets=[0]),
            fetch(4, 5, -1, 9, offsets=[2], process=3),
            fetch(6, 7, -1, 8, offsets=[1]),
        ],
    ),
    (
        "an empty poll goes on from the last fetch, and finds the log shorter than acknowledged",
        Name.LOST_WRITE,
        KAFKA,
        [produce(0, 1, 0, 7), produce(2, 3, 1, 8), settled(4), fetch(5, 6, 0, 7), fetch(7, 8, -1)],
        [produce(0, 1, 0, 7), produce(2, 3, 1, 8), settled(4), fetch(5, 6, 0, 7), fetch(7, 8, -1, process=3)],
    ),
    (
        "a poll after empty ones goes on from the position of the first",
        Name.POLL_SKIP,
        KAFKA,
        [produce(0, 1, 0, 7, 8), fetch(0, 1, 0), fetch(2, 3, -1), fetch(4, 5, -1, 8, offsets=[1])],
        [produce(0, 1, 0, 7, 8), fetch(0, 1, 1), fetch(2, 3, -1), fetch(4, 5, -1, 8, offsets=[1])],
    ),
    (
        "a failed fetch moves no position; after one that may have ended anywhere it is unknown",
        Name.NONMONOTONIC_POLL,
        KAFKA,
        [
            produce(0, 1, 0, 7, 8),
            fetch(2, 3, 0, 7, 8),
            ended(fetch(4, 5, 0), Outcome.FAIL),
            fetch(6, 7, -1, 7, offsets=[0]),
        ],
        [
            produce(0, 1, 0, 7, 8),
            fetch(2, 3, 0, 7, 8),
            ended(fetch(4, 5, -1), Outcome.INFO),
            fetch(6, 7, -1, 7, offsets=[0]),
        ],
    ),
    (
        "a fetch begins after its position",
        Name.POLL_SKIP,
        KAFKA,
        [produce(0, 1, 0, 7, 8), fetch(2, 3, 0, 8, offsets=[1])],
        [produce(0, 1, 0, 7, 8), fetch(2, 3, 1, 8, offsets=[1])],
    ),
    (
        "a fetch goes backwards",
        Name.INT_NONMONOTONIC_POLL,
        KAFKA,
        [produce(0, 1, 0, 7, 8), fetch(2, 3, 0, 8, 7, offsets=[1, 0])],
        [produce(0, 1, 0, 7, 8), fetch(2, 3, 0, 7, 8, offsets=[0, 1])],
    ),
    (
        "a poll goes back",
        Name.NONMONOTONIC_POLL,
        KAFKA,
        [produce(0, 1, 0, 7, 8), fetch(2, 3, -1, 7, 8, offsets=[0, 1]), fetch(4, 5, -1, 7, offsets=[0])],
        [produce(0, 1, 0, 7, 8), fetch(2, 3, -1, 7, 8, offsets=[0, 1]), fetch(4, 5, 0, 7, offsets=[0])],
    ),
    (
        "a batch leaves a record of another between its own",
        Name.INT_SEND_SKIP,
        KAFKA,
        [produce(0, 1, 0, 7, 9, offsets=[0, 2]), produce(0, 1, 1, 8)],
        [produce(0, 1, 0, 7, 9, offsets=[0, 1]), produce(0, 1, 2, 8)],
    ),
    (
        "an unknown batch is read in pieces",
        Name.INT_SEND_SKIP,
        KAFKA,
        [unknown(0, 7, 9), produce(0, 1, 1, 8), fetch(2, 3, 0, 7, 8, 9)],
        [unknown(0, 7, 9), produce(0, 1, 2, 8), fetch(2, 3, 0, 7, 9, 8)],
    ),
    (
        "an unknown batch is read from its second record at offset 0",
        Name.INT_SEND_SKIP,
        KAFKA,
        [unknown(0, 7, 9), fetch(2, 3, 0, 9)],
        [unknown(0, 7, 9), fetch(2, 3, 1, 9)],
    ),
    (
        "a batch is in reverse",
        Name.INT_NONMONOTONIC_SEND,
        KAFKA,
        [produce(0, 1, 0, 7, 8, offsets=[1, 0])],
        [produce(0, 1, 0, 7, 8, offsets=[0, 1])],
    ),
    (
        "a process sends to a lower offset than before",
        Name.NONMONOTONIC_SEND,
        KAFKA,
        [produce(0, 1, 1, 7), produce(2, 3, 0, 8)],
        [produce(0, 2, 1, 7), produce(2, 3, 0, 8, process=3)],
    ),
    (
        "a failed produce is read",
        Name.ABORTED_READ,
        KAFKA,
        [failed(0, 1, 7), fetch(2, 3, 0, 7)],
        [unknown(0, 7), failed(0, 1, 8), fetch(2, 3, 0, 7)],
    ),
    (
        "a value that nobody wrote is read",
        Name.UNWRITTEN_READ,
        KAFKA,
        [produce(0, 1, 0, 7), fetch(2, 3, 0, 8), unknown(0, 9)],
        [produce(0, 1, 0, 7), fetch(2, 3, 0, 7), unknown(0, 8)],
    ),
    (
        "an end offset misses what was acknowledged",
        Name.STALE_READ,
        STRICT,
        [produce(0, 1, 0, 7), end(2, 3, 0), fetch(4, 5, 0, 7)],
        [produce(0, 1, 0, 7), end(1, 3, 0), fetch(4, 5, 0, 7)],
    ),
    (
        "an empty fetch misses what was acknowledged",
        Name.STALE_READ,
        STRICT,
        [produce(0, 1, 0, 7), fetch(2, 3, 0), fetch(4, 5, 0, 7)],
        [produce(0, 1, 0, 7), fetch(2, 3, 1), fetch(4, 5, 0, 7)],
    ),
    (
        "the end offset goes back",
        Name.END_OFFSET_REGRESSION,
        STRICT,
        [unknown(0, 7), end(1, 2, 1), end(3, 4, 0)],
        [unknown(0, 7), end(1, 3, 1), end(3, 4, 0)],
    ),
    (
        "the end offset goes back after all has settled",
        Name.END_OFFSET_REGRESSION,
        KAFKA,
        [unknown(0, 7), end(1, 2, 1), settled(3), end(3, 4, 0)],
        [unknown(0, 7), end(1, 2, 1), settled(4), end(3, 4, 0)],
    ),
    (
        "an append lands below what was acknowledged, which survives",
        Name.APPEND_BELOW_END,
        KAFKA,
        [produce(0, 1, 1, 7), produce(2, 3, 0, 8, process=3), fetch(4, 5, 0, 8, 7)],
        [produce(0, 2, 1, 7), produce(2, 3, 0, 8, process=3), fetch(4, 5, 0, 8, 7)],
    ),
    (
        "a fetch reads above its high watermark",
        Name.READ_BEYOND_HIGH_WATERMARK,
        KAFKA,
        [produce(0, 1, 0, 7, 8), fetch(0, 1, 0, 7, 8, mark=1)],
        [produce(0, 1, 0, 7, 8), fetch(0, 1, 0, 7, mark=1)],
    ),
    (
        "an offset that no produce accounts for",
        Name.OFFSET_HOLE,
        KAFKA,
        [produce(0, 1, 0, 7), produce(2, 3, 2, 9)],
        [produce(0, 1, 0, 7), produce(2, 3, 2, 9), unknown(3, 8)],
    ),
    (
        "the unknown produce was called too late for the hole",
        Name.OFFSET_HOLE,
        KAFKA,
        [produce(0, 1, 0, 7), produce(2, 3, 2, 9), unknown(4, 8)],
        [produce(0, 1, 0, 7), produce(2, 3, 2, 9), unknown(2, 8)],
    ),
    (
        "two holes and one unknown produce in time for the first",
        Name.OFFSET_HOLE,
        KAFKA,
        [end(0, 0, 0), produce(0, 3, 1, 7), produce(2, 8, 3, 9), unknown(4, 5), unknown(5, 6)],
        [end(0, 0, 0), produce(0, 3, 1, 7), produce(2, 8, 3, 9), unknown(3, 5), unknown(8, 6)],
    ),
    (
        "unknown batches that do not tile the hole",
        Name.OFFSET_HOLE,
        KAFKA,
        [end(0, 0, 0), produce(0, 9, 3, 7), unknown(1, 1, 2), unknown(1, 3, 4)],
        [end(0, 0, 0), produce(0, 9, 3, 7), unknown(1, 1, 2), unknown(1, 3, 4), unknown(2, 5)],
    ),
]


@pytest.mark.parametrize(("what", "name", "level", "bad", "near"), CASES, ids=[case[0] for case in CASES])
def test_the_anomaly_is_found_and_named(what: str, name: Name, level: Level, bad: Rows, near: Rows) -> None:
    verdicts = check(history(bad), level)
    assert verdicts.of(0) is Verdict.VIOLATED, what
    found = {one.name: one for one in verdicts.anomalies}
    assert name in found, [str(one) for one in verdicts.anomalies]
    assert found[name].witness
    assert all(f"#{index} " in found[name].witness for index in found[name].operations)


@pytest.mark.parametrize(("what", "name", "level", "bad", "near"), CASES, ids=[case[0] for case in CASES])
def test_what_nearly_has_the_anomaly_is_valid(what: str, name: Name, level: Level, bad: Rows, near: Rows) -> None:
    verdicts = check(history(near), level)
    assert verdicts.valid, [str(one) for one in verdicts.anomalies]


def test_every_anomaly_has_a_case() -> None:
    others = {name for name in Name if name.of_transactions or name.of_groups or not name.violates}
    assert {case[1] for case in CASES} == set(Name) - others


def test_late_reads_are_valid_at_the_kafka_level_only() -> None:
    rows = [produce(0, 1, 0, 7), end(2, 3, 0), fetch(2, 3, 0, mark=0), fetch(4, 5, 0, 7)]
    assert check(history(rows), KAFKA).valid
    assert not check(history(rows), STRICT).valid


def test_a_reused_value_cannot_be_checked() -> None:
    verdicts = check(history([produce(0, 1, 0, 7), produce(2, 3, 1, 7)]))
    assert verdicts.of(0) is Verdict.UNKNOWN
    assert [one.name for one in verdicts.anomalies] == [Name.REUSED_VALUE]


def test_the_witness_names_operations_times_and_reason() -> None:
    (anomaly,) = check(history([unknown(0, 7), end(1, 2, 1), end(3, 4, 0)]), STRICT).anomalies
    assert anomaly.operations == (1, 2)
    assert anomaly.witness == (
        "the log was at least 1 long when #1 returned at 2, but #2, called at 3, found it at most 0 long. "
        "#1 p2 [1, 2] end offset of t-0 is 1; #2 p2 [3, 4] end offset of t-0 is 0"
    )


def test_each_partition_is_checked_by_itself() -> None:
    elsewhere = attrs.evolve(produce(0, 1, 0, 7), partition=1)
    other_topic = attrs.evolve(produce(0, 1, 0, 7), topic="u")
    assert check(history([produce(0, 1, 0, 7), elsewhere, other_topic])).valid
    lost = attrs.evolve(produce(2, 3, 0, 8), partition=1)
    verdicts = check(history([produce(0, 1, 0, 7), elsewhere, lost]))
    assert {(one.topic, one.partition) for one in verdicts.anomalies} == {("t", 1)}


@pytest.mark.parametrize("factor", [1, 1 << 40], ids=["values side by side", "values far apart"])
def test_a_partition_is_judged_alone_as_it_is_beside_another(factor: int) -> None:
    """One partition alone takes shorter ways through the arrays."""
    other = attrs.evolve(produce(10**6, 10**6, 0, 7), partition=1)
    for what, _, level, *both in CASES:
        for rows in both:
            spaced = [attrs.evolve(row, values=tuple(value * factor for value in row.values)) for row in rows]
            alone, beside = (check(history(all_rows), level) for all_rows in (spaced, [*spaced, other]))
            assert alone.anomalies == beside.anomalies, what


def test_a_hole_of_a_trillion_offsets_is_acknowledged_at_once() -> None:
    verdicts = check(history([produce(0, 1, 0, 7), unknown(0, 9), produce(2, 3, 10**12, 8)]))
    assert [one.name for one in verdicts.anomalies] == [Name.OFFSET_HOLE]


def test_a_filling_that_is_not_found_in_time_is_unknown() -> None:
    rows = [end(0, 0, 0), produce(0, 9, 6, 7), unknown(1, 1, 2), unknown(1, 3, 4, 5), unknown(1, 11, 12, 13)]
    assert check(history(rows)).valid
    verdicts = check(history(rows), hole_steps=1)
    assert verdicts.of(0) is Verdict.UNKNOWN
    assert [one.name for one in verdicts.anomalies] == [Name.UNDECIDED]


def test_times_and_values_may_be_anything_that_fits() -> None:
    late, far = 2**61, 2**62
    good = [produce(late, late + 1, 0, -far), produce(late + 2, late + 3, 1, far), fetch(late, late + 9, 0, -far, far)]
    bad = [produce(late, late + 1, 1, -far), produce(late + 2, late + 3, 0, far, process=3)]
    operations = concatenate([history(rows, number) for number, rows in enumerate([good, bad, good, bad])])
    assert check(operations).verdicts.tolist() == [0, 1, 0, 1]
    assert len(screen(operations)) == 2


@pytest.mark.parametrize("level", list(Level))
def test_nothing_that_is_valid_needs_a_closer_look(level: Level) -> None:
    for rows, _ in generate(2_000, 50, seed=5, partitions=3, clients=20, unknown_rate=0.05):
        assert not len(screen(rows, level))

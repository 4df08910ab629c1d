"""An unclean election excuses what it may have lost: no more, and no less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import attrs
import pytest

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import check
from tidegauge.linearizability.evidence import until
from tidegauge.linearizability.history import NEVER, Kind, Operation
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.witness import Finding
from tidegauge.model_tests.linearizability.random_histories import spoiled, valid
from tidegauge.model_tests.linearizability.row_by_row.evidence import Evidence
from tidegauge.model_tests.linearizability.row_by_row.finders import (
    contradictions,
    find_disagreements,
    find_duplicates,
)
from tidegauge.model_tests.linearizability.rows import (
    election,
    end,
    failed,
    fetch,
    history,
    produce,
    settled,
    unknown,
)

Rows = list[Operation]

ALLOWED: dict[str, Rows] = {
    "acknowledged beyond the new end, then overwritten": [
        produce(0, 1, 0, 7),
        produce(2, 3, 1, 8),
        election(10, 11, 1),
        produce(12, 13, 1, 9),
        fetch(14, 15, 0, 7, 9),
    ],
    "read before the election, gone after it": [
        unknown(0, 7),
        fetch(1, 2, 0, 7),
        election(10, 11, 0),
        produce(12, 13, 0, 9),
        fetch(14, 15, 0, 9),
    ],
    "the tail is gone when all has settled": [
        produce(0, 1, 0, 7),
        produce(2, 3, 1, 8),
        election(10, 11, 1),
        settled(20),
        end(21, 22, 1),
        fetch(21, 22, 1, mark=1),
    ],
    "a zombie acknowledges until it stops": [
        produce(0, 1, 0, 7),
        election(10, 20, 1),
        produce(12, 13, 1, 9),
        produce(15, 16, 1, 8, process=3),
        fetch(30, 31, 0, 7, 9),
    ],
    "nobody knows when the zombie stopped": [
        produce(0, 1, 0, 7),
        election(10, None, 0),
        produce(50, 51, 0, 8, process=3),
        produce(60, 61, 0, 9),
    ],
    "an end offset that was lost need not be accounted for": [
        produce(0, 1, 0, 7),
        end(2, 3, 5),
        election(10, 11, 1),
        produce(12, 13, 1, 9),
    ],
    "a consumer goes back to where the log now ends": [
        produce(0, 1, 0, 7, 8),
        fetch(2, 3, -1, 7, 8, offsets=[0, 1]),
        election(10, 11, 1),
        produce(12, 13, 1, 9),
        fetch(14, 15, -1, 9, offsets=[1]),
    ],
    "what was sent without a response may arrive late": [
        produce(0, 1, 0, 7),
        produce(5, 6, -1, 8, acks=0),
        election(10, 11, 0),
        fetch(14, 15, 0, 8),
    ],
    "a batch that may be lost takes the place of a lost record, and fills the hole after it": [
        produce(0, 1, 0, 7, 8),
        election(10, 11, 1),
        produce(12, 13, 1, 9, 10, acks=1),
        produce(14, 15, 3, 11),
    ],
    "so does one of unknown outcome, around a lost record": [
        produce(0, 1, 0, 7),
        produce(2, 3, 2, 8),
        unknown(4, 9, 10, 11),
        election(10, 11, 1),
        produce(14, 15, 4, 12),
    ],
    "a leader is back with its copy of what was sent again to the next one, and with what it had acknowledged": [
        produce(0, 1, 0, 8, acks=1),
        produce(0, 5, 0, 7),
        election(10, 11, 0),
        fetch(14, 15, 0, 8, 7),
    ],
    "a lost batch that is known elsewhere fills the hole": [
        produce(0, 1, 0, 7, 8),
        produce(2, 3, 2, 9),
        election(10, 11, 0),
        fetch(14, 15, 0, 9),
        end(16, 17, 3),
    ],
    "of a batch, one record is read before the election and one after it": [
        unknown(0, 7, 8),
        unknown(0, 9),
        fetch(1, 2, 0, 7),
        election(10, 11, 0),
        fetch(14, 15, 2, 8, offsets=[2]),
    ],
    "two elections, each with its own loss": [
        produce(0, 1, 0, 7),
        produce(2, 3, 1, 8),
        election(10, 11, 1),
        produce(12, 13, 1, 9),
        election(20, 21, 0),
        produce(22, 23, 0, 10),
        fetch(24, 25, 0, 10),
    ],
}

FORBIDDEN: dict[str, tuple[Name, Rows]] = {
    "a consumer goes back below what was lost": (
        Name.NONMONOTONIC_POLL,
        [
            produce(0, 1, 0, 7, 8),
            fetch(2, 3, -1, 7, 8, offsets=[0, 1]),
            election(10, 11, 1),
            fetch(14, 15, -1, 7, offsets=[0]),
        ],
    ),
    "loss below the new end": (
        Name.LOST_WRITE,
        [produce(0, 1, 0, 7), produce(2, 3, 1, 8), election(10, 11, 1), produce(12, 13, 0, 9), fetch(14, 15, 0, 9)],
    ),
    "loss of what was acknowledged after the old leaders stopped": (
        Name.LOST_WRITE,
        [produce(0, 1, 0, 7), election(10, 11, 1), produce(11, 13, 1, 8), produce(14, 15, 1, 9), fetch(16, 17, 1, 9)],
    ),
    "loss of what was read after the old leaders stopped": (
        Name.INCONSISTENT_OFFSETS,
        [unknown(0, 7), election(10, 11, 0), fetch(11, 12, 0, 7), produce(0, 15, 0, 9), fetch(16, 17, 0, 9)],
    ),
    "loss that was seen before the election": (
        Name.LOST_WRITE,
        [produce(0, 1, 0, 7), produce(2, 3, 0, 8), fetch(4, 5, 0, 8), election(10, 11, 0)],
    ),
    "readers who disagreed before the election": (
        Name.INCONSISTENT_OFFSETS,
        [unknown(0, 7), unknown(0, 8), fetch(1, 2, 0, 7), fetch(3, 4, 0, 8), election(10, 11, 0)],
    ),
    "loss without a declaration": (
        Name.LOST_WRITE,
        [produce(0, 1, 0, 7), produce(2, 3, 1, 8), settled(20), end(21, 22, 1)],
    ),
    "a declaration for another loss: the first election does not cover the second": (
        Name.LOST_WRITE,
        [
            election(5, 6, 0),
            produce(7, 8, 0, 7),
            produce(9, 10, 1, 8),
            election(20, 21, 1),
            produce(22, 23, 0, 9),
            fetch(24, 25, 0, 9),
        ],
    ),
    "what was lost comes back": (
        Name.INCONSISTENT_OFFSETS,
        [
            unknown(0, 7),
            fetch(1, 2, 0, 7),
            election(10, 11, 0),
            produce(12, 13, 0, 9),
            fetch(14, 15, 0, 9),
            fetch(16, 17, 0, 7),
        ],
    ),
    "a value at two offsets before the election": (
        Name.DUPLICATE,
        [unknown(0, 7), unknown(0, 8), fetch(1, 2, 0, 8, 7), fetch(3, 4, 0, 7), election(10, 11, 0)],
    ),
    "a value at two offsets after the election": (
        Name.DUPLICATE,
        [unknown(0, 7), unknown(0, 8), election(10, 11, 0), fetch(12, 13, 0, 8, 7), fetch(14, 15, 0, 7)],
    ),
    "a value that was lost, and is below what the election lost as well": (
        Name.DUPLICATE,
        [unknown(0, 7), unknown(0, 8), fetch(1, 2, 0, 8, 7), election(10, 11, 1), fetch(14, 15, 0, 7)],
    ),
    "a batch that is torn after the election": (
        Name.INT_SEND_SKIP,
        [unknown(0, 7, 8), unknown(0, 9), election(10, 11, 0), fetch(12, 13, 0, 7, 9, 8)],
    ),
    "a failed produce is read": (Name.ABORTED_READ, [failed(0, 1, 7), election(2, 3, 0), fetch(4, 5, 0, 7)]),
    "a hole that an unexposed operation knows": (
        Name.OFFSET_HOLE,
        [produce(0, 1, 0, 7), election(10, 11, 1), produce(12, 13, 2, 9)],
    ),
    "a batch that was lost, in a hole below what was lost": (
        Name.OFFSET_HOLE,
        [produce(0, 1, 1, 7), produce(2, 3, 2, 8), fetch(4, 5, 0), election(10, 11, 2)],
    ),
    "loss in another partition": (
        Name.LOST_WRITE,
        [produce(0, 1, 0, 7), attrs.evolve(election(2, 3, 0), partition=1), produce(4, 5, 0, 9), fetch(6, 7, 0, 9)],
    ),
}


@pytest.mark.parametrize("what", ALLOWED)
def test_declared_loss_is_excused(what: str) -> None:
    verdicts = check(history(ALLOWED[what]))
    assert verdicts.valid, [str(one) for one in verdicts.anomalies]


@pytest.mark.parametrize("what", ALLOWED)
def test_the_same_without_the_declaration_is_a_violation(what: str) -> None:
    assert not check(history(row for row in ALLOWED[what] if row.kind is not Kind.ELECTION)).valid


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_no_election_covers_is_a_violation(what: str) -> None:
    name, rows = FORBIDDEN[what]
    found = {one.name for one in check(history(rows)).anomalies}
    assert name in found


def exposed(operation: Operation, offset: int, declared: Operation) -> bool:
    return offset >= declared.offset and operation.call < until(declared)


def contradicted_pairs(evidence: Evidence) -> set[int]:
    """The rule of docs/history.md as it is written, over all pairs: the operations found too short."""
    return {
        most.operation.index
        for most in evidence.at_most
        for least in evidence.at_least
        if until(least.operation) < most.operation.call
        and least.length > most.length
        and not any(
            declared.offset <= most.length
            and exposed(least.operation, most.length, declared)
            and until(most.operation) >= declared.call
            for declared in evidence.elections
        )
    }


def with_elections(random: Random) -> Rows:
    rows = spoiled(random, valid(random, most=8, longest_batch=2))
    for _ in range(random.randint(1, 3)):
        call = random.randint(0, 15)
        returned = random.choice((None, call + random.randint(0, 8)))
        rows.append(election(call, returned, random.randint(0, 5)))
    return list(history(rows))


def test_contradictions_with_elections_are_those_of_the_rule_as_written() -> None:
    found = excused = 0
    for seed in range(3_000):
        evidence = Evidence(with_elections(Random(seed)), Level.STRICT)
        fast = {bound.operation.index for bound, _ in contradictions(evidence)}
        assert fast == contradicted_pairs(evidence), seed
        found += bool(fast)
        bare = Evidence([row for row in evidence.rows if row.kind is not Kind.ELECTION], Level.STRICT)
        excused += len(contradicted_pairs(bare)) > len(fast)
    assert found > 100
    assert excused > 50


@pytest.mark.parametrize(("find", "least"), [(find_disagreements, 50), (find_duplicates, 30)])
def test_an_election_that_covers_everything_excuses_every_contradiction_and_one_that_covers_nothing_none(
    find: Callable[[Evidence], Iterator[Finding]], least: int
) -> None:
    checked = 0
    for seed in range(1_000):
        rows = [row for row in with_elections(Random(seed)) if row.kind is not Kind.ELECTION]
        before = {one.operations for one in find(Evidence(rows, Level.KAFKA))}
        everything = Evidence([*rows, election(0, NEVER, 0)], Level.KAFKA)
        assert not list(find(everything)), seed
        nothing = Evidence([*rows, election(0, NEVER, 1_000)], Level.KAFKA)
        assert {one.operations for one in find(nothing)} == before, seed
        checked += bool(before)
    assert checked > least

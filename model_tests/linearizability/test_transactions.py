"""Each anomaly of transactions has a history that has it, and one that nearly has it and is valid."""

from __future__ import annotations

import pytest

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import Verdict, check
from tidegauge.linearizability.history import Operation, Outcome, concatenate
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.malformed import find
from tidegauge.linearizability.transactions.screen import screen
from tidegauge.linearizability.transactions.told import Positions, tell
from tidegauge.model_tests.linearizability.rows import election, fetch, history, produce, settled
from tidegauge.model_tests.linearizability.transaction_rows import abort, commit, consumed, offsets, poll, send

Rows = list[Operation]
INFO = Outcome.INFO
WRITTEN = [send(None, 0, 1, 0, 0, 1, 2, 3, 4, 5)]
"""Six records, each with its offset as its value."""

KAFKA: dict[str, tuple[Name, Rows, Rows]] = {
    "a read of what was aborted": (
        Name.ABORTED_READ,
        [send(1, 0, 1, 0, 7), abort(1, 2, 3), poll(None, 4, 5, 0, {0: 7})],
        [send(1, 0, 1, 0, 7), abort(1, 2, 3), poll(None, 4, 5, 0, {0: 7}, committed=False)],
    ),
    "a read of what was never to be committed": (
        Name.ABORTED_READ,
        [send(1, 0, 1, 0, 7), poll(None, 4, 5, 0, {0: 7})],
        [send(1, 0, 1, 0, 7), commit(1, 2, 3, INFO), poll(None, 4, 5, 0, {0: 7})],
    ),
    "a read of what was aborted, in place of what was committed": (
        Name.ABORTED_READ,
        [*WRITTEN, send(1, 2, 3, 6, 7), send(2, 2, 3, 7, 8), abort(1, 4, 5), commit(2, 4, 5),
         send(None, 6, 7, 10, 9), poll(None, 8, 9, 6, {6: 7, 10: 9})],
        [*WRITTEN, send(1, 2, 3, 6, 7), send(2, 2, 3, 7, 8), abort(1, 4, 5), commit(2, 4, 5),
         send(None, 6, 7, 10, 9), poll(None, 8, 9, 6, {7: 8, 10: 9})],
    ),
    "a read before the commit was called": (
        Name.PRECOMMITTED_READ,
        [send(1, 0, 1, 0, 7), poll(None, 2, 3, 0, {0: 7}), commit(1, 4, 5)],
        [send(1, 0, 1, 0, 7), poll(None, 2, 4, 0, {0: 7}), commit(1, 4, 5)],
    ),
    "a read of its own writes": (
        Name.PRECOMMITTED_READ,
        [send(1, 0, 1, 0, 7), poll(1, 2, 3, 0, {0: 7}), commit(1, 3, 5)],
        [send(1, 0, 1, 0, 7), poll(1, 2, 3, 0, {0: 7}, committed=False), commit(1, 3, 5)],
    ),
    "a read of its own writes, of which only the interval of the whole is known": (
        Name.PRECOMMITTED_READ,
        [send(1, 0, 9, 0, 7), poll(1, 0, 9, 0, {0: 7}), commit(1, 0, 9)],
        [send(1, 0, 9, 0, 7), poll(2, 0, 9, 0, {0: 7}), commit(1, 0, 9), commit(2, 0, 9)],
    ),
    "a fetch begins below its position, and passes over one record": (
        Name.NONMONOTONIC_POLL,
        [*WRITTEN, commit(1, 0, 1), poll(None, 2, 3, 2, {0: 0, 3: 3})],
        [*WRITTEN, commit(1, 0, 1), poll(None, 2, 3, 2, {2: 2, 3: 3})],
    ),
    "a read beyond an open transaction": (
        Name.READ_BEYOND_LSO,
        [send(1, 0, 1, 0, 7), send(None, 1, 2, 1, 8), poll(None, 3, 4, 1, {1: 8}), commit(1, 5, 6)],
        [send(1, 0, 1, 0, 7), send(None, 1, 2, 1, 8), poll(None, 3, 4, 1, {1: 8}), abort(1, 5, 6)],
    ),
    "a last stable offset beyond an open transaction": (
        Name.READ_BEYOND_LSO,
        [send(1, 0, 1, 0, 7), poll(None, 3, 4, 0, {}, stable=1), commit(1, 5, 6)],
        [send(1, 0, 1, 0, 7), poll(None, 3, 4, 0, {}, stable=0), commit(1, 5, 6)],
    ),
    "a read beyond the last stable offset with it": (
        Name.READ_BEYOND_LSO,
        [send(None, 0, 1, 0, 7), commit(1, 0, 1), poll(None, 3, 4, 0, {0: 7}, stable=0)],
        [send(None, 0, 1, 0, 7), commit(1, 0, 1), poll(None, 3, 4, 0, {0: 7}, stable=1)],
    ),
    "a part of a transaction is stable": (
        Name.INTERMEDIATE_READ,
        [send(1, 0, 1, 0, 7), send(1, 2, 3, 1, 8), commit(1, 4, 5), poll(None, 6, 7, 0, {0: 7}, stable=1)],
        [
            send(1, 0, 1, 0, 7), send(2, 1, 2, 1, 9), send(1, 2, 3, 2, 8), commit(1, 4, 5),
            poll(None, 6, 7, 0, {0: 7}, stable=1),
        ],
    ),
    "one partition shows a transaction, the other does not": (
        Name.FRACTURED_TRANSACTION,
        [
            send(1, 0, 1, 0, 7), send(1, 2, 3, 0, 8, partition=1), commit(1, 4, 5, INFO),
            send(None, 4, 5, 2, 9, partition=1), poll(None, 6, 7, 0, {0: 7}), poll(None, 8, 9, 0, {2: 9}, partition=1),
        ],
        [
            send(1, 0, 1, 0, 7), send(1, 2, 3, 0, 8, partition=1), commit(1, 4, 5, INFO),
            send(None, 4, 5, 2, 9, partition=1), poll(None, 6, 7, 0, {}), poll(None, 8, 9, 0, {2: 9}, partition=1),
        ],
    ),
    "a committed record is passed over": (
        Name.LOST_WRITE,
        [send(1, 0, 1, 0, 7), commit(1, 2, 3), send(None, 4, 5, 2, 9), poll(None, 6, 7, 0, {2: 9})],
        [send(1, 0, 1, 0, 7), commit(1, 2, 3, INFO), send(None, 4, 5, 2, 9), poll(None, 6, 7, 0, {2: 9})],
    ),
    "one reader gets a record, another one passes over it": (
        Name.POLL_SKIP,
        [
            send(1, 0, 1, 0, 7), commit(1, 2, 3), send(None, 4, 5, 2, 9), poll(None, 6, 7, 0, {0: 7}),
            poll(None, 8, 9, 0, {2: 9}),
        ],
        [
            send(1, 0, 1, 0, 7), commit(1, 2, 3), send(None, 4, 5, 2, 9), poll(None, 6, 7, 0, {0: 7}),
            poll(None, 8, 9, 1, {2: 9}),
        ],
    ),
    "one reader gets a part of a transaction": (
        Name.FRACTURED_TRANSACTION,
        [send(1, 0, 1, 0, 7, 8), commit(1, 2, 3), send(None, 4, 5, 3, 9), poll(None, 6, 7, 0, {0: 7, 3: 9})],
        [send(1, 0, 1, 0, 7, 8), commit(1, 2, 3), send(None, 4, 5, 3, 9), poll(None, 6, 7, 0, {0: 7, 1: 8, 3: 9})],
    ),
    "two transactions read of each other": (
        Name.G1C,
        [
            send(1, 0, 9, 0, 7), send(2, 0, 9, 0, 8, partition=1), poll(1, 9, 9, 0, {0: 8}, partition=1),
            poll(2, 9, 9, 0, {0: 7}), commit(1, 9, 10), commit(2, 9, 10),
        ],
        [
            send(1, 0, 9, 0, 7), send(2, 0, 9, 0, 8, partition=1), poll(1, 9, 9, 0, {}, partition=1),
            poll(2, 9, 9, 0, {0: 7}), commit(1, 9, 10), commit(2, 9, 10),
        ],
    ),
    "a transaction reads of a later one of its process": (
        Name.G1C_PROCESS,
        [
            poll(1, 0, 1, 0, {0: 7}), commit(1, 1, 2), send(2, 3, 4, 0, 7, process=1), commit(2, 5, 6, process=1),
        ],
        [
            poll(1, 6, 7, 0, {0: 7}), commit(1, 7, 8), send(2, 3, 4, 0, 7, process=1), commit(2, 5, 6, process=1),
        ],
    ),
    "a transaction reads of one that was called after it was over": (
        Name.G1C_REALTIME,
        [poll(1, 0, 1, 0, {0: 7}), commit(1, 1, 2), send(2, 3, 4, 0, 7), commit(2, 5, 6)],
        [poll(1, 4, 5, 0, {0: 7}), commit(1, 5, 6), send(2, 3, 4, 0, 7), commit(2, 5, 6)],
    ),
    "a record is worked on twice": (
        Name.OFFSETS_OVERLAP,
        [*WRITTEN, *consumed(1, 2, (0, 1), 2), *consumed(2, 10, (1, 2), 3)],
        [*WRITTEN, *consumed(1, 2, (0, 1), 2), *consumed(2, 10, (2,), 3)],
    ),
    "a record is worked on by nobody": (
        Name.OFFSETS_SKIP,
        [*WRITTEN, *consumed(1, 2, (0, 1), 2), *consumed(2, 10, (3,), 4)],
        [*WRITTEN, *consumed(1, 2, (0, 1), 2), *consumed(3, 6, (2,), 3, INFO), *consumed(2, 10, (3,), 4)],
    ),
    "an offset is committed beyond what was read": (
        Name.OFFSETS_BEYOND_READS,
        [*WRITTEN, *consumed(1, 2, (0, 1), 3)],
        [*WRITTEN, *consumed(1, 2, (0, 1), 2)],
    ),
    "a transaction's sends are not in their order": (
        Name.INT_NONMONOTONIC_SEND,
        [send(1, 0, 9, 1, 7), send(1, 0, 9, 0, 8), commit(1, 0, 9)],
        [send(1, 0, 9, 1, 7), send(2, 0, 9, 0, 8), commit(1, 0, 9), commit(2, 0, 9)],
    ),
    "an append below a last stable offset": (
        Name.APPEND_BELOW_END,
        [poll(None, 0, 1, 0, {}, stable=3), send(None, 2, 3, 2, 7), commit(1, 4, 5)],
        [poll(None, 0, 2, 0, {}, stable=3), send(None, 2, 3, 2, 7), commit(1, 4, 5)],
    ),
}  # fmt: skip
TWO = [send(1, 0, 9, 0, 7), send(2, 0, 9, 1, 8), send(2, 0, 9, 0, 9, partition=1)]
STRICT: dict[str, tuple[Name, Rows, Rows]] = {
    "two transactions overwrite each other": (
        Name.G0,
        [*TWO, send(1, 0, 9, 1, 6, partition=1), commit(1, 10, 20), commit(2, 10, 20)],
        [
            *TWO[:2],
            send(2, 0, 9, 1, 9, partition=1),
            send(1, 0, 9, 0, 6, partition=1),
            commit(1, 10, 20),
            commit(2, 10, 20),
        ],
    ),
    "a transaction overwrites what it was read by": (
        Name.G1C_WW,
        [
            send(1, 0, 9, 0, 7),
            send(2, 0, 9, 1, 8),
            send(2, 0, 9, 0, 9, partition=1),
            commit(2, 10, 20),
            poll(1, 10, 10, 0, {0: 9}, partition=1),
            commit(1, 10, 20),
        ],
        [
            send(1, 0, 9, 1, 7),
            send(2, 0, 9, 0, 8),
            send(2, 0, 9, 0, 9, partition=1),
            commit(2, 10, 20),
            poll(1, 10, 10, 0, {0: 9}, partition=1),
            commit(1, 10, 20),
        ],
    ),
    "a transaction reads of another one, and misses a part": (
        Name.G_SINGLE,
        [
            send(1, 0, 1, 0, 7),
            send(1, 0, 1, 0, 8, partition=1),
            commit(1, 1, 20),
            poll(2, 2, 3, 0, {0: 7}),
            poll(2, 4, 5, 0, {}, partition=1),
            commit(2, 6, 20),
        ],
        [
            send(1, 0, 1, 0, 7),
            send(1, 0, 1, 0, 8, partition=1),
            commit(1, 1, 20),
            poll(2, 2, 3, 0, {0: 7}),
            poll(2, 4, 5, 0, {0: 8}, partition=1),
            commit(2, 6, 20),
        ],
    ),
    "two transactions miss each other": (
        Name.G2,
        [
            poll(1, 0, 1, 0, {}, partition=1),
            poll(2, 0, 1, 0, {}),
            send(1, 2, 3, 0, 7),
            send(2, 2, 3, 0, 8, partition=1),
            commit(1, 4, 20),
            commit(2, 4, 20),
        ],
        [
            poll(1, 0, 1, 0, {}, partition=1),
            send(1, 2, 3, 0, 7),
            send(2, 2, 3, 0, 8, partition=1),
            commit(1, 4, 20),
            commit(2, 4, 20),
        ],
    ),
    "a process goes against what was overwritten": (
        Name.G0_PROCESS,
        [
            send(3, 0, 1, 0, 9, partition=1),
            send(1, 2, 3, 1, 7, partition=1),
            commit(1, 4, 5),
            send(2, 6, 7, 0, 8, process=1),
            commit(2, 7, 20, process=1),
            send(3, 8, 9, 1, 6),
            commit(3, 10, 20),
        ],
        [
            send(3, 0, 1, 0, 9, partition=1),
            send(1, 2, 3, 1, 7, partition=1),
            commit(1, 4, 5),
            send(3, 4, 5, 0, 6),
            send(2, 6, 7, 1, 8, process=1),
            commit(2, 7, 20, process=1),
            commit(3, 10, 20),
        ],
    ),
    "a process goes against what was overwritten and read": (
        Name.G1C_WW_PROCESS,
        [
            send(3, 0, 1, 0, 9, partition=1),
            send(1, 2, 3, 1, 7, partition=1),
            commit(1, 4, 5),
            send(2, 6, 7, 0, 8, process=1),
            commit(2, 8, 9, process=1),
            poll(3, 10, 11, 0, {0: 8}),
            commit(3, 12, 20),
        ],
        [
            send(3, 0, 1, 0, 9, partition=1),
            send(1, 2, 3, 1, 7, partition=1),
            commit(1, 4, 5),
            send(2, 6, 7, 0, 8, process=1),
            commit(2, 8, 9, process=1),
            poll(3, 10, 11, 0, {}),
            commit(3, 12, 20),
        ],
    ),
    "real time goes against what was overwritten": (
        Name.G0_REALTIME,
        [
            send(3, 0, 1, 0, 9, partition=1),
            send(1, 2, 3, 1, 7, partition=1),
            commit(1, 4, 5),
            send(2, 6, 7, 0, 8),
            commit(2, 7, 20),
            send(3, 8, 9, 1, 6),
            commit(3, 10, 20),
        ],
        [
            send(3, 0, 1, 0, 9, partition=1),
            send(1, 2, 3, 1, 7, partition=1),
            commit(1, 4, 5),
            send(3, 4, 5, 0, 6),
            send(2, 6, 7, 1, 8),
            commit(2, 7, 20),
            commit(3, 10, 20),
        ],
    ),
    "real time goes against what was overwritten and read": (
        Name.G1C_WW_REALTIME,
        [
            send(3, 0, 1, 0, 9, partition=1),
            send(1, 2, 3, 1, 7, partition=1),
            commit(1, 4, 5),
            send(2, 6, 7, 0, 8),
            commit(2, 8, 9),
            poll(3, 10, 11, 0, {0: 8}),
            commit(3, 12, 20),
        ],
        [
            send(3, 0, 1, 0, 9, partition=1),
            send(1, 2, 3, 1, 7, partition=1),
            commit(1, 4, 5),
            send(2, 6, 7, 0, 8),
            commit(2, 8, 9),
            poll(3, 10, 11, 0, {}),
            commit(3, 12, 20),
        ],
    ),
    "two processes miss each other": (
        Name.G2_PROCESS,
        [
            send(1, 0, 1, 0, 7),
            commit(1, 1, 2),
            poll(3, 2, 3, 0, {}, partition=1, process=1),
            commit(3, 3, 4, process=1),
            send(2, 0, 1, 0, 8, partition=1),
            commit(2, 1, 2),
            poll(4, 2, 3, 0, {}, process=2),
            commit(4, 3, 4, process=2),
        ],
        [
            send(1, 0, 1, 0, 7),
            commit(1, 1, 2),
            poll(3, 2, 3, 0, {0: 8}, partition=1, process=1),
            commit(3, 3, 4, process=1),
            send(2, 0, 1, 0, 8, partition=1),
            commit(2, 1, 2),
            poll(4, 2, 3, 0, {0: 7}, process=2),
            commit(4, 3, 4, process=2),
        ],
    ),
    "two miss each other in real time": (
        Name.G2_REALTIME,
        [
            send(1, 0, 1, 0, 7),
            commit(1, 1, 5),
            poll(2, 2, 3, 0, {}),
            send(3, 0, 1, 0, 8, partition=1),
            commit(3, 6, 30),
            poll(4, 7, 8, 0, {}, partition=1),
            commit(4, 9, 10),
            poll(2, 8, 9, 0, {0: 8}, partition=1),
            commit(2, 10, 20),
        ],
        [
            send(1, 0, 1, 0, 7),
            commit(1, 1, 5),
            poll(2, 2, 3, 0, {}),
            send(3, 0, 1, 0, 8, partition=1),
            commit(3, 6, 30),
            poll(4, 7, 8, 0, {0: 8}, partition=1),
            commit(4, 9, 10),
            poll(2, 8, 9, 0, {0: 8}, partition=1),
            commit(2, 10, 20),
        ],
    ),
    "a process misses what it wrote before": (
        Name.G_SINGLE_PROCESS,
        [send(1, 0, 1, 0, 7), commit(1, 2, 3), poll(2, 3, 4, 0, {}, process=1), commit(2, 4, 5, process=1)],
        [send(1, 0, 1, 0, 7), commit(1, 2, 3), poll(2, 3, 4, 0, {0: 7}, process=1), commit(2, 4, 5, process=1)],
    ),
    "a reader misses what was committed before it": (
        Name.G_SINGLE_REALTIME,
        [send(1, 0, 1, 0, 7), commit(1, 2, 3), poll(2, 4, 5, 0, {}), commit(2, 6, 7)],
        [send(1, 0, 1, 0, 7), commit(1, 2, 4), poll(2, 4, 5, 0, {}), commit(2, 6, 7)],
    ),
}


@pytest.mark.parametrize("case", KAFKA)
def test_an_anomaly_is_found_and_what_nearly_is_one_is_valid(case: str) -> None:
    name, with_it, without = KAFKA[case]
    for rows in (with_it, without):
        assert not find(history(rows))
    assert name in {one.name for one in check(history(with_it)).anomalies}
    assert check(history(without)).anomalies == ()


@pytest.mark.parametrize("case", KAFKA)
def test_the_closer_look_finds_no_more_than_what_is_wrong(case: str) -> None:
    elsewhere = [send(99, 0, 1, 0, 9, partition=7), abort(99, 2, 3), poll(98, 4, 5, 0, {0: 9}, partition=7)]
    found = check(history([*KAFKA[case][2], *elsewhere])).anomalies
    assert [(one.name, one.partition) for one in found] == [(Name.ABORTED_READ, 7)]


@pytest.mark.parametrize("case", STRICT)
def test_level_strict_checks_the_cycles_that_kafka_allows(case: str) -> None:
    name, with_it, without = STRICT[case]
    assert check(history(with_it)).valid
    assert name in {one.name for one in check(history(with_it), Level.STRICT).anomalies}
    assert check(history(without), Level.STRICT).anomalies == ()


def test_every_anomaly_of_transactions_has_a_case() -> None:
    assert {case[0] for case in (*KAFKA.values(), *STRICT.values())} >= {name for name in Name if name.of_transactions}


def test_the_witness_names_each_step_of_a_cycle_and_shows_the_operations() -> None:
    (found,) = check(history(KAFKA["two transactions read of each other"][1])).anomalies
    read = [f"transaction {one} read what transaction {other} wrote" for one, other in ((1, 2), (2, 1))]
    assert found.witness.startswith("; ".join(read))
    assert found.witness.count("produce") == found.witness.count("fetch") == 2


def test_a_witness_shows_each_operation_once() -> None:
    rows = history(KAFKA["one reader gets a part of a transaction"][1])
    (anomaly,) = check(rows).anomalies
    assert anomaly.operations == (0, 3)
    assert "while it returned its value 7" in anomaly.witness


def test_a_cycle_is_found_where_each_operation_has_the_interval_of_its_transaction() -> None:
    sends = [send(1, 0, 9, 0, 7), send(2, 0, 9, 0, 8, partition=1)]
    first, second = poll(1, 0, 9, 0, {0: 8}, partition=1), poll(2, 0, 9, 0, {0: 7})
    ends = [commit(1, 0, 9), commit(2, 0, 9)]
    (found,) = check(history([*sends, first, second, *ends])).anomalies
    assert found.name is Name.G1C
    assert check(history([*sends, first, *ends])).valid


def test_what_kafka_allows_is_told() -> None:
    rows = STRICT["two transactions overwrite each other"][1]
    told = tell(concatenate([history(rows, 3), history([produce(0, 1, 0, 7), fetch(2, 3, 0)], 4)]))
    assert [(one.history, one.name) for one in told.cycles] == [(3, Name.G0)]
    assert tell(history(rows), 0).cycles == ()


@pytest.mark.parametrize(
    ("position", "told"),
    [(2, Positions(rewound=1)), (0, Positions(further=1)), (3, Positions(between=1)), (4, Positions(unchanged=1))],
)
def test_where_a_process_goes_on_after_an_abort_is_told(position: int, told: Positions) -> None:
    rows = [
        *WRITTEN,
        poll(1, 2, 3, 2, {2: 2, 3: 3}),
        abort(1, 4, 5),
        poll(2, 6, 7, position, {position: position}, process=1),
        commit(2, 8, 9, process=1),
    ]
    assert check(history(rows)).valid
    assert tell(history(rows)).positions == told


def test_one_group_does_not_take_part_in_what_another_one_consumes() -> None:
    rows = [*WRITTEN, *consumed(1, 2, (0, 1), 2), *consumed(2, 10, (0, 1), 2)]
    assert not check(history(rows)).valid
    own = [*rows[:5], offsets(2, 12, 13, 2, group=2), *rows[6:]]
    assert check(history(own)).valid


@pytest.mark.parametrize(
    "spoils", [offsets(None, 8, 9, 1, process=5), offsets(3, 8, 9, 1, outcome=INFO), offsets(3, 8, 9, 1)]
)
def test_offsets_that_also_come_from_elsewhere_are_not_checked(spoils: Operation) -> None:
    rows = [*WRITTEN, *consumed(1, 2, (0, 1), 2), *consumed(2, 12, (0, 1), 2), commit(3, 10, 11), spoils]
    assert check(history(rows)).valid


def test_which_transactions_of_unknown_outcome_fill_a_gap_is_searched_for() -> None:
    ends = [*WRITTEN, *consumed(1, 2, (0,), 1), *consumed(2, 50, (4,), 5)]
    either = [*consumed(3, 10, (1, 2), 3, INFO), *consumed(4, 20, (1,), 2, INFO), *consumed(5, 30, (2, 3), 4, INFO)]
    assert check(history([*ends, *either])).valid
    assert not check(history([*ends, *either[:6]])).valid


@pytest.mark.parametrize(
    "denies",
    [poll(None, 12, 13, 0, {1: 8}, partition=1), poll(None, 8, 9, 0, {}, partition=1, stable=2)],
)
def test_what_a_read_shows_to_be_aborted_fills_no_gap(denies: Operation) -> None:
    rows = [*WRITTEN, *consumed(1, 2, (0, 1), 2), *consumed(3, 6, (2,), 3, INFO), *consumed(2, 12, (3,), 4)]
    rows += [send(3, 6, 7, 0, 9, partition=1), send(None, 7, 8, 1, 8, partition=1)]
    assert check(history(rows)).valid
    assert [one.name for one in check(history([*rows, denies])).anomalies] == [Name.OFFSETS_SKIP]


def test_only_the_end_of_all_its_fetches_says_what_a_transaction_missed() -> None:
    rows = [send(1, 0, 1, 0, 7), send(1, 0, 1, 1, 8), commit(1, 1, 2), poll(2, 3, 4, 0, {0: 7})]
    rows += [poll(2, 4, 5, 1, {1: 8}), commit(2, 6, 7)]
    elsewhere = [send(99, 0, 1, 0, 9, partition=7), abort(99, 2, 3), poll(98, 4, 5, 0, {0: 9}, partition=7)]
    found = check(history([*rows, *elsewhere]), Level.STRICT).anomalies
    assert [one.name for one in found] == [Name.ABORTED_READ]


def test_a_declared_unclean_election_leaves_transactions_undecided() -> None:
    rows = [send(1, 0, 1, 0, 7), abort(1, 2, 3), poll(None, 4, 5, 0, {0: 7}), election(1, 2, 0)]
    verdicts = check(history(rows))
    assert verdicts.of(0) is Verdict.UNKNOWN
    assert [one.name for one in verdicts.anomalies] == [Name.UNDECIDED]


def test_a_reused_value_leaves_transactions_undecided() -> None:
    verdicts = check(history([send(1, 0, 1, 0, 7), send(1, 2, 3, 1, 7), commit(1, 4, 5)]))
    assert verdicts.of(0) is Verdict.UNKNOWN


def test_unknown_outcomes_that_a_read_tells_and_gaps_of_aborted_ones_need_no_closer_look() -> None:
    rows = [
        *WRITTEN, *consumed(1, 2, (0, 1), 2), send(2, 2, 3, 6, 7), abort(2, 4, 5), send(3, 6, 7, 8, 8, process=2),
        *consumed(4, 8, (2,), 3), commit(3, 8, 9, INFO, process=2), poll(None, 14, 15, 0, {0: 0, 1: 1}, stable=6),
        poll(None, 16, 17, 5, {5: 5, 8: 8}, stable=9),
    ]  # fmt: skip
    assert not screen(history(rows), Level.KAFKA)[0].any()
    assert screen(history([*rows, poll(None, 18, 19, 5, {8: 8})]), Level.KAFKA)[0].all()


def test_rewinding_after_an_abort_and_offsets_without_a_fetch_need_no_closer_look() -> None:
    again = poll(2, 6, 7, -1, {2: 2, 3: 3}, process=1)
    rewound = [*WRITTEN, poll(1, 2, 3, 2, {2: 2, 3: 3}), abort(1, 4, 5), again, commit(2, 8, 9, process=1)]
    blind = [*WRITTEN, *consumed(1, 2, (0, 1), 2), offsets(2, 8, 9, 4), commit(2, 10, 11), *consumed(3, 12, (1,), 2)]
    for rows in (rewound, blind):
        assert not screen(history(rows), Level.KAFKA)[0].any()


def test_the_note_says_what_is_not_checked_and_what_nobody_knows() -> None:
    rows = [send(1, 0, 1, 0, 7), commit(1, 2, 3, INFO), send(2, 0, 1, 1, 8), commit(2, 2, 3)]
    (row,) = check(history(rows)).table().to_pylist()
    assert row["verdict"] == Verdict.VALID
    assert row["records"] == row["unconfirmed"] == 1
    assert "offset holes" in row["note"]
    assert "what became of 1 of 2 transactions" in row["note"]


def test_a_record_read_after_the_partition_settled_is_confirmed() -> None:
    rows = [send(1, 0, 1, 0, 7, 8), commit(1, 2, 3), settled(4), poll(None, 5, 6, 0, {0: 7})]
    coverage = check(history(rows)).coverage
    assert (coverage.records.tolist(), coverage.unconfirmed.tolist()) == ([2], [1])
    assert [gap.first for gap in coverage.gaps] == [1]

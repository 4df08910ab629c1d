"""What is injected is found: those histories, and no others, under their names."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tidegauge.linearizability import malformed
from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import check
from tidegauge.linearizability.generator import INJECTED, generate
from tidegauge.linearizability.history import Kind, Outcome
from tidegauge.linearizability.log import Level


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize(("partitions", "clients", "operations"), [(1, 1, 50), (3, 30, 60), (2, 5, 200)])
def test_exactly_the_injected_anomalies_are_found(level: Level, partitions: int, clients: int, operations: int) -> None:
    seen: set[Name] = set()
    for rows, truth in generate(
        1_500, operations, 7, 0.1, partitions=partitions, clients=clients, unknown_rate=0.03, first_history=10
    ):
        found: dict[int, set[Name]] = {}
        for one in check(rows, level).anomalies:
            found.setdefault(one.history, set()).add(one.name)
        names = truth.names()
        assert set(found) == set(names)
        assert all(names[number] in found[number] for number in names)
        seen |= set(names.values())
    assert seen == set(INJECTED)


def test_generated_histories_are_well_formed_and_have_every_outcome() -> None:
    for rows, _ in generate(300, 50, seed=3, anomaly_rate=0.2):
        assert malformed.find(rows) == []
        assert set(rows.outcome.tolist()) == set(Outcome)
        assert set(rows.kind.tolist()) == {Kind.PRODUCE, Kind.FETCH, Kind.LIST_OFFSETS}


def test_clients_call_one_operation_at_a_time_and_overlap_with_each_other() -> None:
    ((rows, _),) = generate(1, 2_000, seed=3, clients=30, unknown_rate=0.0)
    for process in range(30):
        mine = np.flatnonzero(rows.process == process)
        assert all(rows.returned[a] <= rows.call[b] for a, b in pairwise(mine.tolist()))
    overlapping = [((rows.call <= at) & (rows.returned >= at)).sum() for at in rows.call[500:600].tolist()]
    assert max(overlapping) > 10


def test_the_same_arguments_give_the_same_rows() -> None:
    one, two = (list(generate(100, 50, seed=3, anomaly_rate=0.2)) for _ in range(2))
    for (rows, truth), (again, truth_again) in zip(one, two, strict=True):
        assert list(rows) == list(again)
        assert truth.names() == truth_again.names()


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="operations=0"):
        next(generate(1, 0, seed=1))

"""Verdicts, anomalies and witnesses are the same with and without numba; compiled code leaves little to arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random

import attrs
import numpy as np
import pytest

from tidegauge.linearizability import log
from tidegauge.linearizability.check import check
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.history import Operations, concatenate
from tidegauge.linearizability.log import Level, screen
from tidegauge.linearizability.rows import partitions
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.linearizability.rows import end, history, produce, unknown
from tidegauge.model_tests.linearizability.small_histories import draw, is_contiguous, operations
from tidegauge.model_tests.linearizability.test_findings import MAKERS

compiled = pytest.importorskip("tidegauge.linearizability.compiled", reason="numba is not installed")


def contiguous(seed: int) -> Operations:
    small = draw(seed, 8_000)
    return operations(small.take(np.flatnonzero(is_contiguous(small))), True)


def made(what: str) -> Operations:
    rows = [list(history(MAKERS[what](Random(seed)), seed)) for seed in range(100)]
    return Operations.of(row for each in rows for row in each if row.offsets is None)


def all_kinds() -> Iterator[tuple[str, Operations]]:
    for seed in range(amount(1, deep=2)):
        yield f"drawn {seed}", contiguous(seed)
    for what in MAKERS:
        yield what, made(what)
    for partitions_of_each in (1, 3):
        parts = [part for part, _ in generate(1_500, 60, 3, 0.1, partitions=partitions_of_each, unknown_rate=0.1)]
        yield f"generated, {partitions_of_each}", concatenate(parts)
    ((large, _),) = generate(1, 30_000, 9, partitions=2, clients=30, unknown_rate=0.05)
    yield "large", large
    yield "with values far apart", attrs.evolve(large, values=large.values * (1 << 40))
    late = [end(0, 0, 0), produce(0, 1, 0, 1), produce(4, 5, 2, 3), unknown(4, 2), produce(6, 7, 4, 5), unknown(5, 6)]
    yield "holes", history(late)


@pytest.mark.parametrize("level", list(Level))
def test_verdicts_and_anomalies_are_the_same_with_and_without_numba(
    level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    for what, rows in all_kinds():
        monkeypatch.setattr(log, "_compiled", lambda count: None)
        without, suspects = check(rows, level), screen(rows, level)
        monkeypatch.setattr(log, "_compiled", lambda count: compiled)
        found = check(rows, level)
        assert found.verdicts.tolist() == without.verdicts.tolist(), what
        assert found.anomalies == without.anomalies, what
        # Arrays flag batches beside a hole of another partition, which compiled code does not.
        flagged = {tuple(each.tolist()) for each in suspects.rows}
        assert {tuple(each.tolist()) for each in screen(rows, level).rows} <= flagged, what


def test_what_is_valid_is_mostly_left_to_compiled_code() -> None:
    for rows, _ in generate(2_000, 50, 5, unknown_rate=0.05):
        group, _ = partitions(rows)
        suspicious = log._suspicious(compiled, rows, Level.KAFKA)
        assert suspicious is not None
        assert len(np.unique(group[suspicious])) < 20


def test_small_inputs_load_no_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, compiled.__name__)
    assert log._compiled(log.WORTH_COMPILED_CODE - 1) is None
    assert log._compiled(log.WORTH_COMPILED_CODE) is not None

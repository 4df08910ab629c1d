"""Verdicts, anomalies and coverage are the same with and without numba; compiled code leaves little to arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random

import attrs
import numpy as np
import pytest

from tidegauge.linearizability import compiled_code, log, malformed
from tidegauge.linearizability.check import Verdicts, check
from tidegauge.linearizability.coverage import Covering
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.history import NEVER, Flags, Operation, Operations, concatenate
from tidegauge.linearizability.log import Level, screen
from tidegauge.linearizability.malformed import find
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.linearizability import test_brute_force as brute_force
from tidegauge.model_tests.linearizability.rows import election, end, fetch, history, produce, settled, unknown
from tidegauge.model_tests.linearizability.small_histories import draw, is_contiguous, operations
from tidegauge.model_tests.linearizability.spoiled import spoiled, with_batches
from tidegauge.model_tests.linearizability.test_findings import MAKERS

compiled = pytest.importorskip("tidegauge.linearizability.compiled", reason="numba is not installed")


def use(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    for module in (log, malformed):
        monkeypatch.setattr(module, "compiled", lambda count=0: compiled if is_there else None)


def drawn(seed: int, count: int) -> Iterator[Operations]:
    small = draw(seed, count)
    plain = is_contiguous(small)
    yield operations(small.take(np.flatnonzero(plain)), True)
    yield operations(small.take(np.flatnonzero(~plain)), False)


def made(what: str, *, explicit: bool) -> Operations:
    rows = [list(history(MAKERS[what](Random(seed)), seed)) for seed in range(100)]
    return Operations.of(row for each in rows for row in each if explicit or row.offsets is None)


def crowded(seed: int) -> Operations:
    """Histories of many partitions, of which most have few rows each."""
    parts = [part for part, _ in generate(40, 300, seed, 0.3, partitions=40, unknown_rate=0.1)]
    return concatenate(parts)


def all_kinds() -> Iterator[tuple[str, Operations]]:
    for seed in range(amount(1, deep=20)):
        for rows in drawn(seed, 60_000):
            yield f"drawn {seed}", rows
    for what in MAKERS:
        yield what, made(what, explicit=False)
        yield f"{what}, some with offsets", made(what, explicit=True)
    for partitions in (1, 3, 20):
        parts = [part for part, _ in generate(1_500, 60, 3, 0.1, partitions=partitions, unknown_rate=0.1)]
        yield f"generated, {partitions}", concatenate(parts)
    yield "crowded", crowded(1)
    ((large, _),) = generate(1, 30_000, 9, partitions=2, clients=30, unknown_rate=0.05)
    yield "large", large
    few = [part for part, _ in generate(200, 20, 9)]
    yield (
        "small ones around a large one",
        concatenate(
            [
                few[0],
                attrs.evolve(large, history=large.history + 1_000),
                attrs.evolve(few[0], history=few[0].history + 2_000),
            ]
        ),
    )
    yield "with values far apart", attrs.evolve(large, values=large.values * (1 << 40))
    yield (
        "with many topics",
        attrs.evolve(large, topic=large.partition, partition=large.partition * 5_000, topics=("a", "b")),
    )
    ((one, _),) = generate(1, 3_000, 5, partitions=1, clients=20)
    for name, rows in spoiled(one).items():
        yield f"with {name.value}", rows
    yield "with batches", with_batches(3_000, 5)
    for what, rows_of_it in CASES.items():
        yield what, history(rows_of_it)


ONE, TWO = produce(0, 1, 0, 1), produce(2, 3, 1, 2)
CASES: dict[str, list[Operation]] = {
    "a fetch beyond its high watermark": [ONE, fetch(2, 3, 0, 1, mark=0)],
    "an end far beyond what was written": [end(0, 1, 10**7), fetch(2, 3, 0)],
    "a batch around a record": [produce(0, 9, 1, 9), produce(1, 8, 0, 1, 2, 3)],
    "a record of another partition is read, whose outcome is unknown": [
        ONE, unknown(0, 8), attrs.evolve(unknown(0, 6), partition=1), fetch(2, 3, 0, 1, 6)
    ],
    "a record without acks=all is read elsewhere": [produce(0, 1, 5, 7, acks=1), fetch(2, 3, 0, 7)],
    "settled and read twice": [ONE, TWO, settled(4), fetch(5, 6, 0, 1, 2), fetch(7, 8, 0, 1, 2)],
    "an election may have taken it": [ONE, election(2, None, 0)],
    "holes": [end(0, 0, 0), ONE, produce(4, 5, 2, 3), unknown(4, 2), produce(6, 7, 4, 5), unknown(5, 6)],
    "holes, their records out of order": [end(0, 0, 0), unknown(5, 2), unknown(0, 6), end(6, 7, 2)],
    "nothing but ends": [end(0, 1, 4), end(2, 3, 4)],
    "nothing but empty fetches": [fetch(0, 1, 4, mark=7), fetch(2, 3, 7)],
    "a batch of unknown outcome, read from its middle on": [unknown(0, 5, 6, 7), fetch(2, 3, 1, 6, 7), ONE],
    "a batch of unknown outcome before all that is mentioned": [unknown(0, 5, 6), fetch(2, 3, 4, 6), end(4, 5, 5)],
    "settled and read to the end": [ONE, TWO, settled(4), fetch(5, 6, 0, 1, 2)],
    "settled and half read": [ONE, TWO, settled(4), fetch(5, 6, 0, 1)],
    "settled, and nobody read it": [ONE, TWO, settled(4)],
    "settled, with a record of unknown outcome that was read before": [
        ONE,
        unknown(2, 9),
        fetch(3, 4, 1, 9),
        settled(5),
    ],
    "settled, and a poll of nothing from where nobody knows": [ONE, settled(4), fetch(5, 6, -1)],
    "one value in two partitions": [ONE, attrs.evolve(ONE, partition=1), fetch(2, 3, 0, 1)],
    "a value of another partition is read": [ONE, attrs.evolve(TWO, partition=1, offset=0), fetch(4, 5, 0, 1, 2)],
}  # fmt: skip


def covered(found: Verdicts) -> tuple[object, ...]:
    coverage = found.coverage
    counts = [one.tolist() for one in (coverage.records, coverage.unconfirmed, coverage.open_ends, coverage.parts)]
    return *counts, coverage.partitions, coverage.gaps, coverage.notes().to_pylist()


@pytest.mark.parametrize("level", list(Level))
def test_verdicts_anomalies_and_coverage_are_the_same_with_and_without_numba(
    level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    for what, rows in all_kinds():
        use(monkeypatch, False)
        without, suspects = check(rows, level, named=3), screen(rows, level)
        use(monkeypatch, True)
        for found in (check(rows, level), check(rows, level, named=3)):
            different = np.flatnonzero(found.verdicts != without.verdicts)
            assert not len(different), f"{what}, history {found.histories[different[0]]}"
            assert found.anomalies == without.anomalies, what
        assert covered(found) == covered(without), what
        # Arrays flag batches beside a hole of another partition, which compiled code does not.
        flagged = {tuple(each.tolist()) for each in suspects.rows}
        assert {tuple(each.tolist()) for each in screen(rows, level).rows} <= flagged, what


@pytest.mark.parametrize("seed", range(amount(1, deep=10)))
def test_with_compiled_code_the_verdicts_are_those_of_the_documented_semantics(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, True)
    brute_force.compare(1_000 + seed, brute_force.HISTORIES)


def raw(rows: Operations, level: Level = Level.KAFKA) -> tuple[Flags, Flags]:
    """The histories that compiled code flags by itself, and those whose coverage it has counted."""
    found: list[tuple[Flags, ...]] = []

    class Code:
        @staticmethod
        def screen(*arguments: object) -> tuple[Flags, ...]:
            result: tuple[Flags, ...] = compiled.screen(*arguments)
            found.append(result)
            return result

    log._screened(Code, rows, level, Covering(rows, rows.history_starts))  # type: ignore[arg-type]
    ((suspicious, _, _, counted, _, _, _),) = found
    return suspicious, counted


def test_what_is_valid_is_mostly_left_to_compiled_code() -> None:
    for partitions in (1, 2, 30):
        for rows, _ in generate(2_000, 50, 5, partitions=partitions, unknown_rate=0.05):
            suspicious, counted = raw(rows)
            assert suspicious.sum() < 20
            assert (counted == ~suspicious).all()


LEFT = (
    "a batch of unknown outcome before all that is mentioned",
    "settled, and a poll of nothing from where nobody knows",
)
"""Valid, and for arrays."""


def test_what_is_fine_and_not_rare_is_left_to_compiled_code() -> None:
    for what, rows in CASES.items():
        valid = check(history(rows)).valid
        assert raw(history(rows))[0].tolist() == [not valid or what in LEFT], what


def test_only_what_compiled_code_suspects_is_left_to_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def look(operations: Operations, *others: object) -> Iterator[object]:
        looked_at.append(len(operations))
        return iter(())

    monkeypatch.setattr(log, "_screen", look)
    use(monkeypatch, True)
    wrong = [ONE, produce(2, 3, 0, 2), attrs.evolve(ONE, partition=1)]
    both = concatenate([history(CASES["holes"], 1), history(wrong, 2), history(CASES["holes"], 3)])
    screen(both)
    # Of the history that is wrong, the partition without a fault is not looked at.
    assert looked_at == [2]


def test_columns_that_are_read_only_are_not_compiled_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, True)
    rows = history(CASES["holes"])
    screen(rows)
    compiled_for = len(getattr(compiled.screen, "signatures", ()))
    for column in (rows.values, rows.call, rows.kind, rows.topic):
        column.flags.writeable = False
    assert not len(screen(rows))
    assert len(getattr(compiled.screen, "signatures", ())) == compiled_for


def test_code_is_loaded_where_there_is_enough_to_check_and_earlier_where_it_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, compiled.__name__)
    monkeypatch.setattr(compiled_code, "import_module", lambda name: compiled)
    for kept, worth in ((False, compiled_code.WORTH_COMPILED_CODE), (True, compiled_code.WORTH_KEPT_CODE)):
        monkeypatch.setattr(compiled_code, "SCREENED", compiled_code.Screened())
        monkeypatch.setattr(compiled_code, "is_kept", lambda name, kept=kept: kept)
        assert compiled_code.compiled(worth - 2) is None
        assert compiled_code.compiled() is None
        assert compiled_code.compiled(1) is None
        assert compiled_code.compiled(1) is compiled


def test_who_is_to_screen_much_loads_code_at_the_first_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, compiled.__name__)
    monkeypatch.setattr(compiled_code, "import_module", lambda name: compiled)
    monkeypatch.setattr(compiled_code, "SCREENED", compiled_code.Screened())
    monkeypatch.setattr(compiled_code, "is_kept", lambda name: True)
    compiled_code.expect(compiled_code.WORTH_KEPT_CODE - 2)
    assert compiled_code.compiled(1) is None
    assert not compiled_code.is_loaded()
    compiled_code.expect(5)
    assert compiled_code.compiled(1) is compiled
    compiled_code.expect(compiled_code.WORTH_KEPT_CODE + 1)
    assert compiled_code.SCREENED.operations == compiled_code.WORTH_KEPT_CODE + 1


ODD = {
    "kind": (-1, 0, 1, 2, 3, 4, 5, 15, 16),
    "outcome": (-1, 0, 1, 2, 3),
    "isolation": (-1, 1, 2),
    "acks": (-2, -1, 0, 1, 2),
    "partition": (-1, 7),
    "offset": (-2, -1, 0, 1 << 62, (1 << 62) - 1),
    "high_watermark": (-2, -1, 0, 1 << 62, (1 << 62) - 1),
    "call": (-1, 0, 10**9),
    "returned": (-1, 0, NEVER),
    "index": (0, 5),
    "history": (-1, 3, 10**6),
}
"""What a column has in one row, in place of what it had: some of it is sound, most is not."""


def test_compiled_code_says_that_rows_are_sound_where_no_rule_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    ((sound, _),) = generate(20, 20, 5, unknown_rate=0.2)
    sound = concatenate([sound, history([*CASES["settled and half read"], election(9, None, 1)], 10**5)])
    use(monkeypatch, False)
    assert not find(sound)
    draws, right = np.random.default_rng(3), 0
    for turn in range(amount(1_500, deep=20_000)):
        name = list(ODD)[turn % len(ODD)]
        column = getattr(sound, name).copy()
        column[draws.integers(0, len(sound))] = draws.choice(np.array(ODD[name], np.int64))
        rows = attrs.evolve(sound, **{name: column})
        if turn % 4 == 0:
            starts = rows.starts.copy()
            at = draws.integers(1, len(starts) - 1)
            starts[at] = starts[at + draws.choice([-1, 1])]
            rows = attrs.evolve(rows, starts=starts)
        use(monkeypatch, False)
        faults = find(rows)
        use(monkeypatch, True)
        assert find(rows) == faults, f"{name}: {faults[:1]}"
        is_sound = malformed._are_sound(rows)
        right += is_sound
        # Ids that do not rise may be in order of nothing, and other kinds are of transactions and groups.
        assert is_sound == (not faults) or name in ("history", "kind"), f"{name}: {faults[:1]}"
    assert right > 100

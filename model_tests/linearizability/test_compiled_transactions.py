"""Histories with transactions get the same verdicts and anomalies with and without numba."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np
import pytest

from tidegauge.linearizability import compiled_code
from tidegauge.linearizability.check import Verdict, check
from tidegauge.linearizability.history import NEVER, Flags, Ints, Kind, Operation, Operations, Outcome, concatenate
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.malformed import find
from tidegauge.linearizability.rows import partitions
from tidegauge.linearizability.transactions import checking
from tidegauge.linearizability.transactions import screen as screening
from tidegauge.linearizability.transactions.screen import screen, screen_with
from tidegauge.linearizability.transactions.table import with_transactions
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.linearizability import test_transactions_brute_force as brute_force
from tidegauge.model_tests.linearizability.rows import election, end, history
from tidegauge.model_tests.linearizability.small_transactions import draw
from tidegauge.model_tests.linearizability.test_transactions import KAFKA, STRICT, WRITTEN
from tidegauge.model_tests.linearizability.transaction_rows import abort, commit, consumed, offsets, poll, send

compiled = pytest.importorskip("tidegauge.linearizability.transactions.compiled", reason="numba is not installed")


def by_groups(count: int, again: int) -> list[Operation]:
    """Groups of which each consumes records 0 and 1, and two more: from 2 on, but the last group from `again` on."""
    rows = []
    for transaction in range(2 * count):
        begin = 0 if transaction % 2 == 0 else again if transaction == 2 * count - 1 else 2
        for row in consumed(transaction, 10 * transaction + 2, (begin, begin + 1), begin + 2):
            group = transaction // 2 if row.kind is Kind.COMMIT_OFFSETS else None
            rows.append(attrs.evolve(row, group=group))
    return rows


INFO = Outcome.INFO
LAGGING = send(None, 0, 9, 0, 8, outcome=INFO), poll(None, 7, 8, 1, {1: 8})
"""A record whose place, 1, only a late read tells."""
LATE = send(None, 4, 5, 0, 7)
"""It is appended below what was there before, if anybody knew."""
FINE: dict[str, list[Operation]] = {
    "transactions in a row": [*WRITTEN, *consumed(1, 2, (0, 1), 2), *consumed(2, 8, (2, 3), 4)],
    "the first one by number comes later": [*WRITTEN, *consumed(2, 2, (0, 1), 2), *consumed(1, 10, (2, 3), 4)],
    "the first one by number begins within another": [
        send(2, 0, 1, 0, 7), send(1, 1, 2, 1, 9), send(2, 2, 3, 2, 8), commit(2, 4, 5),
        poll(None, 6, 7, 0, {0: 7}, stable=1),
    ],
    "a read tells that it was committed": [send(1, 0, 1, 0, 7), commit(1, 2, 3, INFO), poll(None, 4, 5, 0, {0: 7})],
    "three groups": [*WRITTEN, *by_groups(3, 2)],
    "nobody knew of a later record": [*LAGGING, LATE],
    "a send without acks=all is elsewhere": [
        attrs.evolve(send(None, 0, 1, 5, 7), acks=1), poll(None, 2, 3, 0, {0: 7}), commit(1, 2, 3)
    ],
    "a send without acks=all is lost": [
        attrs.evolve(send(None, 0, 1, 5, 7), acks=1), send(None, 2, 3, 1, 8), send(None, 4, 5, 2, 9), commit(1, 2, 3)
    ],
    "offsets from outside": [*WRITTEN, *consumed(1, 2, (0, 1), 2), *consumed(2, 12, (0, 1), 2), offsets(None, 8, 9, 1)],
    "offsets of a commit that nobody knows": [
        *WRITTEN, *consumed(1, 2, (0, 1), 2), *consumed(2, 12, (0, 1), 2), offsets(3, 8, 9, 1, outcome=INFO),
        commit(3, 10, 11),
    ],
    "offsets without a fetch": [
        *WRITTEN, *consumed(1, 2, (0, 1), 2), offsets(2, 8, 9, 4), commit(2, 10, 11), *consumed(3, 12, (1,), 2)
    ],
    "an empty fetch beyond the log": [*WRITTEN, commit(1, 0, 1), poll(None, 2, 3, 9, {}, mark=6)],
    "stable at once where nothing is visible": [send(1, 0, 1, 5, 7), abort(1, 2, 3), poll(None, 0, 0, 0, {}, stable=6)],
}  # fmt: skip
RARE: dict[str, list[Operation]] = {
    "many groups": [*WRITTEN, *by_groups(20, 2)],
    "a fetch returns after the end was called": [*WRITTEN, poll(1, 0, 9, 0, {0: 0}), commit(1, 5, 9)],
    "a fetch is within the end": [commit(1, 0, 9), poll(1, 0, 9, 0, {})],
    "it goes on where it was": [
        *WRITTEN, commit(1, 0, 1), poll(None, 2, 3, 0, {0: 0, 1: 1}), poll(None, 4, 5, -1, {2: 2, 3: 3})
    ],
}  # fmt: skip
WRONG: dict[str, list[Operation]] = {
    "an election": [*WRITTEN, *consumed(1, 2, (0, 1), 2), election(1, 2, 0)],
    "an end that was told": [send(1, 0, 9, 0, 7), commit(1, 9, 10), end(2, 3, 4), send(2, 5, 6, 3, 8), abort(2, 7, 8)],
    "one value at two offsets": [send(1, 0, 1, 0, 7), commit(1, 2, 3), poll(None, 4, 5, 0, {1: 7})],
    "two values at one offset": [send(1, 0, 1, 0, 7), send(2, 0, 1, 0, 8), commit(1, 2, 3), commit(2, 2, 3)],
    "a value that nobody sent": [send(1, 0, 1, 0, 7), commit(1, 2, 3), poll(None, 4, 5, 0, {0: 7, 1: 9})],
    "a value that is far away": [send(1, 0, 1, 0, 7), commit(1, 2, 3), poll(None, 4, 5, 0, {0: 7, 1: 1 << 62})],
    "a value sent twice": [send(1, 0, 1, 0, 7), send(1, 2, 3, 1, 7), commit(1, 4, 5)],
    "a failed send is read": [
        send(1, 0, 1, -1, 7, outcome=Outcome.FAIL), commit(1, 2, 3), poll(None, 4, 5, 3, {3: 7}, committed=False)
    ],
    "a record far below the others": [
        send(1, 0, 1, 10**12, 7), send(1, 2, 3, 3, 8), commit(1, 4, 5), poll(None, 6, 7, 3, {3: 8, 10**12: 7})
    ],
    "beyond the high watermark": [send(1, 0, 1, 0, 7), commit(1, 2, 3), poll(None, 4, 5, 0, {0: 7}, mark=0)],
    "a gap, and as much twice": [
        *WRITTEN, *consumed(1, 2, (0, 1, 2), 3), *consumed(2, 10, (1, 2), 3), *consumed(3, 20, (5,), 6)
    ],
    "below the end of a response": [send(None, 0, 1, 1, 8), LATE, commit(1, 2, 3)],
    "below the end of a fetch": [send(None, 0, 9, 0, 8, outcome=INFO), poll(None, 2, 3, 1, {1: 8}), LATE],
    "below a high watermark": [*LAGGING, poll(None, 2, 3, 0, {}, mark=2), LATE],
    "below a high watermark beyond what was read": [
        send(None, 0, 1, 0, 6), send(None, 0, 9, 0, 8, outcome=INFO), poll(None, 2, 3, 0, {0: 6}, mark=3),
        send(None, 4, 5, 1, 7), poll(None, 7, 8, 2, {2: 8}),
    ],
    "below a last stable offset": [*LAGGING, poll(None, 2, 3, 0, {}, stable=2), LATE],
    "below an end that was listed": [*LAGGING, end(2, 3, 2), LATE, commit(1, 2, 3)],
    "a batch is half stable": [send(1, 0, 1, 0, 7, 8), commit(1, 2, 3), poll(None, 4, 5, 1, {}, stable=1)],
    "a batch is half stable, records far apart": [
        send(1, 0, 1, 3, 7), send(1, 1, 2, 10**12, 8), commit(1, 2, 3), poll(None, 4, 5, 5, {}, stable=10**12)
    ],
    "it goes on beyond a record": [
        *WRITTEN, commit(1, 0, 1), poll(None, 2, 3, 0, {0: 0, 1: 1}), poll(None, 4, 5, -1, {3: 3})
    ],
    "each reads of the other at once": [
        send(1, 0, 9, 0, 7), send(2, 0, 9, 0, 8, partition=1), poll(1, 0, 9, 0, {0: 8}, partition=1),
        poll(2, 0, 9, 0, {0: 7}), commit(1, 0, 9), commit(2, 0, 9),
    ],
    "offsets of an aborted transaction excuse nothing": [
        *WRITTEN, *consumed(1, 2, (0, 1), 2), *consumed(2, 12, (0, 1), 2), offsets(0, 8, 9, 1, outcome=INFO),
        abort(0, 10, 11),
    ],
    "a read before the commit was called": [send(1, 0, 1, 0, 7), poll(None, 2, 3, 0, {0: 7}), commit(1, 4, 5)],
    "one of three groups overlaps": [*WRITTEN, *by_groups(3, 1)],
    "one of many groups overlaps": [*WRITTEN, *by_groups(20, 1)],
}  # fmt: skip


def together(*cases: list[Operation]) -> Operations:
    """A history of each case, each with a transaction; they are numbered from 0."""
    return concatenate([history(numbered(rows), number) for number, rows in enumerate(cases)])


def numbered(rows: list[Operation]) -> list[Operation]:
    numbers = sorted({row.transaction for row in rows if row.transaction is not None})
    renumbered = [
        row if row.transaction is None else attrs.evolve(row, transaction=numbers.index(row.transaction))
        for row in rows
    ]
    return [*renumbered, commit(len(numbers), 0, 1, process=77)]


def drawn(seed: int, count: int) -> Operations:
    rows, _ = draw(seed, count)
    whose = with_transactions(rows)
    return rows.take(np.flatnonzero(np.repeat(whose, np.diff(rows.history_starts))))


def all_kinds() -> Iterator[tuple[str, Operations]]:
    yield "cases", together(*(rows for case in (*KAFKA.values(), *STRICT.values()) for rows in case[1:]))
    for case, rows in (FINE | RARE | WRONG).items():
        yield case, together(rows)
    for seed in range(amount(1, deep=20)):
        yield f"drawn {seed}", drawn(seed, amount(200, deep=2_000))
    some = drawn(100, 30)
    said = some.transactional
    assert said is not None
    yield "values far apart", attrs.evolve(some, values=some.values * (1 << 40))
    yield "a long clock", attrs.evolve(some, call=some.call << 50, returned=some.returned << 50)
    numbered = np.where(said.transaction >= 0, said.transaction * 10**12 + 7, -1)
    yield "sparse numbers", attrs.evolve(some, transactional=attrs.evolve(said, transaction=numbered))


def raw(rows: Operations) -> Flags:
    """What compiled code flags by itself; all where it leaves the block to arrays."""
    found: list[Flags] = []

    class Code:
        @staticmethod
        def suspicious(*arguments: object) -> Flags:
            flags: Flags = compiled.suspicious(*arguments)
            found.append(flags.copy())
            return flags

    screen_with(Code, rows)  # type: ignore[arg-type]
    (flags,) = found
    return flags if len(flags) else np.ones(len(rows.history_starts) - 1, np.bool_)


def with_code(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    monkeypatch.setattr(screening, "load", lambda *amounts: compiled if is_there else None)


def test_verdicts_and_anomalies_are_the_same_with_and_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "BLOCK", 2_000)
    for what, rows in all_kinds():
        with_code(monkeypatch, False)
        without = check(rows)
        with_code(monkeypatch, True)
        found = check(rows)
        different = np.flatnonzero(found.verdicts != without.verdicts)
        assert not len(different), f"{what}, history {found.histories[different[0]]}"
        assert found.anomalies == without.anomalies, what
        assert raw(rows)[without.verdicts != Verdict.VALID].all(), what


def test_compiled_code_flags_what_arrays_flag() -> None:
    for what, rows in all_kinds():
        usual = ~rare(rows)
        if not usual.any():
            continue
        rows = rows.take(np.flatnonzero(np.repeat(usual, np.diff(rows.history_starts))))
        by_arrays = screen(rows, Level.KAFKA)[0]
        different = np.flatnonzero(raw(rows) != by_arrays)
        if what.startswith("drawn"):
            assert 0.05 < by_arrays.mean() < 0.5
        for number in different.tolist():
            start, stop = rows.history_starts[number : number + 2].tolist()
            alone = rows.slice(start, stop)
            # Arrays flag what is told of a partition without records, compiled code what is far apart.
            assert check(alone).valid, f"{what}, history {alone.history[0]}"
            assert by_arrays[number] or not what.startswith("drawn"), f"{what}, history {alone.history[0]}"


def test_what_is_fine_and_not_rare_is_left_to_compiled_code() -> None:
    for what, rows in (FINE | RARE).items():
        assert raw(together(rows)).tolist() == [what in RARE], what


def rare(rows: Operations) -> Flags:
    """The histories of which a fetch does not say where it began, or may have returned after its transaction's end."""
    said, starts = rows.transactional, rows.history_starts
    assert said is not None
    fetches = (rows.kind == Kind.FETCH) & (rows.outcome == Outcome.OK)
    found = fetches & (rows.offset < 0)
    ends = np.flatnonzero((rows.kind == Kind.COMMIT) | (rows.kind == Kind.ABORT))
    whose = list(zip(rows.history.tolist(), said.transaction.tolist(), strict=True))
    called = {whose[row]: rows.call[row] for row in ends.tolist()}
    for row in np.flatnonzero(fetches & (said.transaction >= 0)).tolist():
        found[row] |= rows.returned[row] > called.get(whose[row], NEVER)
    return np.logical_or.reduceat(found, starts[:-1])


def test_each_case_is_found() -> None:
    for what, rows in (FINE | RARE | WRONG).items():
        assert not find(together(rows)), what
        assert check(together(rows)).valid == (what not in WRONG), what


def test_only_what_compiled_code_suspects_is_left_to_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Ints] = []

    def look(ops: Operations, level: Level) -> object:
        looked_at.append(ops.history_starts)
        return screen(ops, level)

    monkeypatch.setattr(screening, "screen", look)
    fine, wrong = FINE["transactions in a row"], WRONG["two values at one offset"]
    assert screen_with(compiled, together(fine, wrong, fine, fine)).tolist() == [False, True, False, False]
    assert [len(starts) - 1 for starts in looked_at] == [1]


def test_a_block_that_is_mostly_rare_is_left_to_arrays() -> None:
    rows = drawn(100, 30)
    far = attrs.evolve(rows, values=rows.values * (1 << 40))
    assert not len(suspicious(far))
    assert len(suspicious(rows))


def suspicious(rows: Operations) -> Flags:
    assert rows.transactional is not None
    assert rows.offsets is not None
    columns = (
        rows.kind, rows.outcome, rows.acks, rows.isolation, rows.offset, rows.starts, rows.values, rows.offsets,
        rows.high_watermark, rows.call, rows.returned, *rows.transactional.columns,
    )  # fmt: skip
    flags: Flags = compiled.suspicious(rows.history_starts, *partitions(rows), columns)
    return flags


def test_columns_that_are_read_only_are_not_compiled_for_again() -> None:
    rows = together(FINE["transactions in a row"])
    screen_with(compiled, rows)
    compiled_for = len(getattr(compiled.suspicious, "signatures", ()))
    for column in (rows.values, rows.call, rows.kind):
        column.flags.writeable = False
    assert not screen_with(compiled, rows).any()
    assert len(getattr(compiled.suspicious, "signatures", ())) == compiled_for


def test_code_is_loaded_where_there_is_enough_to_check_and_earlier_where_it_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, compiled.__name__)
    monkeypatch.setattr(compiled_code, "import_module", lambda name: compiled)
    for kept, worth in ((False, screening.WORTH_COMPILED_CODE), (True, screening.WORTH_KEPT_CODE)):
        monkeypatch.setattr(compiled_code, "is_kept", lambda name, kept=kept: kept)
        assert screening.compiled(worth - 1, Level.KAFKA) is None
        assert screening.compiled(worth, Level.KAFKA) is compiled
        assert screening.compiled(worth, Level.STRICT) is None


def test_compiled_code_is_kept_that_is_not_older_than_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, index = tmp_path / "judge_of_a_test.py", tmp_path / "__pycache__" / "judge_of_a_test.run-3.py311.nbi"
    monkeypatch.syspath_prepend(tmp_path)
    source.touch()
    assert not compiled_code.is_kept("judge_of_a_test")
    index.parent.mkdir(exist_ok=True)
    index.touch()
    assert compiled_code.is_kept("judge_of_a_test")
    modified = index.stat().st_mtime + 60
    os.utime(source, (modified, modified))
    assert not compiled_code.is_kept("judge_of_a_test")
    assert not compiled_code.is_kept("no_such_module_of_a_test")


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(200, 240))
def test_with_compiled_code_the_verdicts_are_those_of_the_documented_semantics(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_code(monkeypatch, True)
    brute_force.compare(seed, brute_force.HISTORIES)

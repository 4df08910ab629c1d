"""Each rule of the compiled screening, changed, is noticed: the changed source runs as Python, beside the arrays."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest

from tidegauge.linearizability import compiled_code, log
from tidegauge.linearizability.coverage import cover
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.history import Flags, Operations, concatenate
from tidegauge.linearizability.log import Level
from tidegauge.model_tests.linearizability.rows import history
from tidegauge.model_tests.linearizability.small_histories import draw, is_contiguous, operations
from tidegauge.model_tests.linearizability.test_compiled import CASES

FOLDER = Path(log.__file__).parent
MUTANTS: dict[str, tuple[str, str]] = {
    "a batch without acks=all counts as told": ("((acks[row] == -1) & (at >= 0)))", "(at >= 0))"),
    "fetches beyond their high watermark": ("odd |= _LEFT if (least >= 0) & (until > least) else 0", "odd |= 0"),
    "polls from unknown positions": ("_UNPLACED | _LEFT if (count > 0) | (what == _LIST) else _UNPLACED", "0"),
    "gaps in the offsets of a row": ("offsets[k] != offset[row] + k - starts[row]", "False"),
    "logs that nothing explains": ("known[1, g] - known[0, g] > known[2, g]", "False"),
    "partitions with the same values": ("if written > span else 1", "if False else 1"),
    "two batches at one offset": ("clash = produce & (called[base] != _HOLE)", "clash = False"),
    "two batches at one offset, one of them within": ("clash |= called[uint64(slot + j)] != _HOLE", "pass"),
    "records where no row says": ("place[uint64(slot)] != expected[uint64(k - first)]", "False"),
    "a failed batch is read": ("found < 0 or outcome[row] == _FAIL", "found < 0"),
    "a batch of another partition is read": (" or part[found] != g:", ":"),
    "a batch is read elsewhere than its response says": ("known[4, g] + offset[row] != slot", "False"),
    "a batch that only reads place clashes": ("clash |= called[slot + j] != _HOLE", "pass"),
    "an append below a known length": ("late |= called[slot] > soonest", "pass"),
    "an append when the length was known": ("late |= called[slot] > soonest", "late |= called[slot] >= soonest"),
    "reads later than the length": ("(reached[slot] < call[row])", "False"),
    "reads before it settled": ("(call[row] >= since[g]))", "True)"),
    "holes": ("holes += (called[slot] == _HOLE) & (x >= 2)", "pass"),
    "holes in what is spare": ("(called[slot] == _HOLE) & (x >= 2)", "(called[slot] == _HOLE)"),
    "longer batches beside a hole": ("or starts[row + 1] - starts[row] != 1", ""),
    "more holes than records": ("holes > counts[g] or ", ""),
    "the deadlines of holes": ("late |= waiting[x] > deadlines[before + holes - 1 - x]", "pass"),
    "the order of deadlines": ("deadlines[before + holes - 1 - x]", "deadlines[before + x]"),
    "records that only reads show": ("extra[g] += 1", "pass"),
    "reads before it settled confirm": ("or call[row] < since[g]", ""),
    "each record is confirmed once": ("marks[expected[k]] < 2", "1"),
    "ends that a read shows": ("shown[g] = max(shown[g], max(told, mark[row]))", "pass"),
    "elections are counted by arrays": ("elif named >= 0 and not kinds[h] >> _ELECTION & 1:", "elif named >= 0:"),
}


def source() -> str:
    """The screening and the counting as one module of plain Python."""
    text = ""
    for name in ("compiled_coverage.py", "compiled.py"):
        lines = (FOLDER / name).read_text(encoding="utf-8").splitlines(keepends=True)
        skipped = ("from numba", "from tidegauge", "from __future__", "@compiled_and_kept")
        text += "".join(line for line in lines if not line.startswith(skipped))
    return text


def code(text: str) -> Any:
    names: dict[str, Any] = {"uint64": int, "np": np}
    exec(compile(text, "compiled", "exec"), names)
    return SimpleNamespace(screen=names["screen"])


@cache
def drawn() -> tuple[Operations, ...]:
    """Histories without offsets of their own, and some with them."""
    small = draw(11, 700)
    plain = is_contiguous(small)
    cases = [history(rows, 10**6 + number) for number, rows in enumerate(CASES.values())]
    parts = [part for part, _ in generate(25, 24, 7, 0.3, partitions=3, unknown_rate=0.3)]
    some = [attrs.evolve(part, history=part.history + 2 * 10**6) for part in parts]
    first = operations(small.take(np.flatnonzero(plain)), True)
    return concatenate([first, *cases, *some]), operations(small.take(np.flatnonzero(~plain)), False)


@cache
def expected(number: int, level: Level) -> tuple[Flags, Any]:
    """The histories that arrays flag, and what their verdicts cover."""
    rows = drawn()[number]
    flagged = np.zeros(len(rows.history_starts) - 1, np.bool_)
    for found in log._screen(rows, level, None):
        flagged[np.searchsorted(rows.history_starts, found, side="right") - 1] = True
    return flagged, cover(rows)


def found(screening: Any, number: int, level: Level) -> tuple[Flags, Any, Flags]:
    """The histories that it flags, what it counts, and of which histories it does."""
    rows = drawn()[number]
    width = int(rows.partition.max()) + 1
    codes, is_strict = width * (int(rows.topic.max()) + 1), level is Level.STRICT
    columns = compiled_code.columns(rows)
    told = screening.screen(rows.history_starts, rows.topic, rows.partition, width, codes, columns, is_strict, 3)
    return told[0], told[2], told[3]


ALL = [(number, level) for number in range(2) for level in Level]


@cache
def left(number: int, level: Level) -> int:
    """How many histories that arrays do not flag are left to them all the same, as the code is."""
    return int((found(code(source()), number, level)[0] & ~expected(number, level)[0]).sum())


def differs(screening: Any) -> bool:
    """Whether it misses what arrays flag, leaves more to them than the code as it is, or counts otherwise."""
    for number, level in ALL:
        flagged, covered = expected(number, level)
        suspicious, counts, counted = found(screening, number, level)
        if (flagged & ~suspicious).any() or (suspicious & ~flagged).sum() != left(number, level):
            return True
        there = (covered.records, covered.unconfirmed, covered.open_ends)
        if any((mine != theirs)[counted].any() for mine, theirs in zip(counts, there, strict=True)):
            return True
    return False


def test_as_it_is_it_flags_what_arrays_flag_and_counts_what_they_count() -> None:
    assert not differs(code(source()))


@pytest.mark.parametrize("what", MUTANTS)
def test_a_changed_rule_is_noticed(what: str) -> None:
    rule, other = MUTANTS[what]
    text = source()
    assert rule in text, "the rule is written otherwise now"
    with suppress(IndexError):  # it looked beyond a table
        assert differs(code(text.replace(rule, other)))

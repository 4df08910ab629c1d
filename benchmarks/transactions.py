"""How fast histories with transactions are checked, beside the log checker and the row-by-row look in the same run.

`python -m benchmarks.transactions [--transactions N]`; times are CPU time of one core. Each of five clients
consumes two records, sends to two partitions and commits its offset in a transaction, while two others are open; a
reader follows. The histories are valid; 5 % of the transactions are aborted, 2 % have no known outcome. Where numba is
installed, compiled code screens them as well.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, TypeVar

import attrs
from rich.console import Console
from rich.table import Table

from benchmarks.options import parser
from tidegauge.linearizability.check import check
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.history import UNKNOWN, Isolation, Kind, Operation, Operations, Outcome, concatenate
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.transactions.checking import check_history

SEED = 20_261_122
DISTINCT = 64
"""Histories that are drawn; the rest repeat them under other numbers."""
EACH = 100
"""Transactions in a history."""
CLIENTS = 5
READ = 8
"""Transactions after which the reader fetches what is stable."""
T = TypeVar("T")


def drawn(number: int) -> Operations:
    """A valid history: transactions begin every 10 ticks, and each takes 30."""
    draws = random.Random(SEED + number)
    blank = Operation(0, 0, Kind.PRODUCE, Outcome.OK, "input", 0, 0, 1, offset=0)
    rows = [attrs.evolve(blank, process=CLIENTS, values=tuple(range(2 * EACH)))]
    shown: list[tuple[int, int]] = []
    position = consumed = 0
    for one in range(EACH):
        result = draws.random()
        aborted, unknown = result < 0.05, result > 0.98 and one < EACH - 2 * READ
        begin = 10 * one
        base = attrs.evolve(blank, process=one % CLIENTS, transaction=one, index=len(rows))
        first = 2 * one - 1 if one else 0
        if not aborted:
            shown.append((first, one))

        def at(call: int, kind: Kind, base: Operation = base, begin: int = begin, **fields: Any) -> Operation:
            return attrs.evolve(base, call=begin + call, returned=begin + call + 3, kind=kind, **fields)

        polled = (consumed, consumed + 1)
        consumed += 0 if aborted else 2
        rows.append(
            at(2, Kind.FETCH, offset=polled[0], values=polled, isolation=Isolation.READ_COMMITTED,
               last_stable_offset=2 * EACH, high_watermark=2 * EACH)
        )  # fmt: skip
        rows += [at(5, Kind.PRODUCE, topic=name, offset=first, values=(one,)) for name in ("left", "right")]
        rows.append(at(12, Kind.COMMIT_OFFSETS, group=1, offset=polled[0] + 2))
        end = Kind.ABORT if aborted else Kind.COMMIT
        rows.append(at(20, end, topic="", offset=UNKNOWN, outcome=Outcome.INFO if unknown else Outcome.OK))
        if one % READ == READ - 1:
            stable = 2 * (one - 2) - 1
            part = [(offset, value) for offset, value in shown if position <= offset < stable]
            rows.append(
                attrs.evolve(
                    blank, kind=Kind.FETCH, process=CLIENTS + 1, topic="left", call=begin + 5, returned=begin + 9,
                    offset=position, values=tuple(value for _, value in part), isolation=Isolation.READ_COMMITTED,
                    offsets=tuple(offset for offset, _ in part), last_stable_offset=stable,
                )
            )  # fmt: skip
            position = part[-1][0] + 1 if part else position
    ordered = sorted(rows, key=lambda row: row.call)
    return Operations.of(attrs.evolve(row, history=number, index=index) for index, row in enumerate(ordered))


def repeated(operations: Operations, times: int) -> Operations:
    """The same histories under other numbers, `times` over."""
    shifted = [attrs.evolve(operations, history=operations.history + DISTINCT * number) for number in range(times)]
    return concatenate(shifted)


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds of `work`, and what it returned."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def main(words: Sequence[str] | None = None) -> None:
    """Print the table."""
    options = parser("transactions", __doc__)
    options.add_argument("--transactions", type=int, default=640_000, help="how many are checked")
    wanted = options.parse_args(words).transactions
    distinct = concatenate([drawn(number) for number in range(DISTINCT)])
    operations = repeated(distinct, max(1, wanted // (DISTINCT * EACH)))
    transactions = len(operations.history_starts[:-1]) * EACH
    (plain, _), *_ = generate(20_000, 50, SEED)
    title = f"one core; load of the machine {os.getloadavg()[0]:.1f}"
    table = Table("what", "per CPU second", "beside the first", title=title)
    seconds, verdicts = min((timed(partial(check, plain)) for _ in range(3)), key=first)
    assert verdicts.valid
    base = len(plain) / seconds
    table.add_row("log checker, operations", f"{base / 1e6:.2f} M", "1")
    add_checks(table, "arrays", operations, transactions, base)
    seconds, _ = min((timed(partial(check, operations, named=0)) for _ in range(3)), key=first)
    rate = transactions / seconds
    table.add_row("with what that covers, transactions", f"{rate / 1e6:.2f} M", f"{rate / base:.2f}")
    bounds = list(pairwise(distinct.history_starts.tolist()))
    seconds, _ = timed(lambda: [check_history(distinct.slice(*one), Level.KAFKA) for one in bounds])
    rate = DISTINCT * EACH / seconds
    table.add_row("row by row, transactions", f"{rate / 1e6:.3f} M", f"{rate / base:.4f}")
    if find_spec("numba") is not None:
        import_module("tidegauge.linearizability.transactions.compiled")  # what is loaded is used
        check(distinct)
        add_checks(table, "compiled", operations, transactions, base)
    Console().print(table)


def add_checks(table: Table, code: str, operations: Operations, transactions: int, base: float) -> None:
    """The rates at which `code` checks the operations, and the transactions in them."""
    seconds, verdicts = min((timed(partial(check, operations)) for _ in range(3)), key=first)
    assert verdicts.valid, verdicts.anomalies[0]
    for what, count in (("operations", len(operations)), ("transactions", transactions)):
        rate = count / seconds
        table.add_row(f"check ({code}), {what}", f"{rate / 1e6:.2f} M", f"{rate / base:.2f}")


def first(one: tuple[float, object]) -> float:
    """The seconds."""
    return one[0]


if __name__ == "__main__":
    main()

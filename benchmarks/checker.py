"""How fast histories are checked: one history of 10k and 100k operations, a million small ones, and loading apart.

`python -m benchmarks.checker [--histories N]`; times are CPU time of one core, the best of a few runs where so short
that others on the machine would show.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import attrs
from rich.console import Console
from rich.table import Table

from benchmarks.options import parser
from tidegauge.linearizability import files
from tidegauge.linearizability.check import check
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.history import Operations
from tidegauge.linearizability.log import Level, screen

SEED = 20_260_101
SMALL = 50
RATE = 0.005
T = TypeVar("T")


@attrs.frozen
class Row:
    what: str
    operations: int
    seconds: float
    note: str = ""


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds of `work`, and what it returned."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def best_of(runs: int, work: Callable[[], object]) -> float:
    """The least CPU seconds of `runs` runs."""
    return min(timed(work)[0] for _ in range(runs))


def one_history(operations: int, level: Level) -> Row:
    """A valid history of one partition, 30 clients, 1 % unknown outcomes."""
    ((rows, _),) = generate(1, operations, SEED, partitions=1, clients=30, unknown_rate=0.01)
    assert check(rows, level).valid
    seconds = best_of(30, lambda: screen(rows, level))
    return Row(f"one history, {level.value}", operations, seconds, "valid; 30 clients, 1 % unknown; kernel")


def small_histories(histories: int) -> list[Row]:
    """Histories of 50 operations on 2 partitions with injected anomalies: kernel alone, and verdicts with witnesses."""
    kernel = verdicts = 0.0
    operations = spoiled = 0
    for rows, truth in generate(histories, SMALL, SEED, RATE):
        operations += len(rows)
        kernel += timed(lambda rows=rows: screen(rows))[0]  # type: ignore[misc]
        seconds, checked = timed(lambda rows=rows: check(rows))  # type: ignore[misc]
        verdicts += seconds
        found = {one.history for one in checked.anomalies}
        assert found == set(truth.histories.tolist()), "the anomalies found are not the anomalies injected"
        spoiled += len(found)
    note = f"{spoiled:,} anomalies injected, exactly those found"
    return [
        Row(f"{histories:,} histories of {SMALL}, kernel", operations, kernel),
        Row(f"{histories:,} histories of {SMALL}, verdicts", operations, verdicts, note),
    ]


def loading(histories: int) -> list[Row]:
    """Parquet to arrays, and back."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "histories.parquet"
        blocks: list[Operations] = [rows for rows, _ in generate(histories, SMALL, SEED)]
        operations = sum(map(len, blocks))

        def write() -> None:
            with files.HistoryWriter(path) as writer:
                for rows in blocks:
                    writer.write(rows)

        writing = best_of(1, write)
        reading = best_of(3, lambda: files.read(path))
        size = path.stat().st_size / operations
    return [
        Row("Parquet to arrays", operations, reading, f"{size:.1f} B an operation on disk"),
        Row("arrays to Parquet", operations, writing),
    ]


def main(words: Sequence[str] | None = None) -> None:
    options = parser("checker", __doc__)
    options.add_argument("--histories", type=int, default=1_000_000, help="how many small histories")
    histories = options.parse_args(words).histories
    rows = [one_history(operations, level) for operations in (10_000, 100_000) for level in Level]
    rows += small_histories(histories)
    rows += loading(min(histories, 40_000))
    table = Table(title=f"checker, one core (seed {SEED})")
    for heading in ("what", "operations", "ms", "M operations/s"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    table.add_column("")
    for row in rows:
        rate = row.operations / row.seconds / 1e6
        table.add_row(row.what, f"{row.operations:,}", f"{row.seconds * 1e3:,.2f}", f"{rate:.1f}", row.note)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()

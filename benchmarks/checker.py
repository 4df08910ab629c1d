"""How fast histories are checked: one of 10k, 100k and a million operations, the last with each anomaly, small ones.

`python -m benchmarks.checker [--histories N]`; times are CPU time of one core, the best of a few runs where so short
that others on the machine would show. Where numba is installed, the kernel runs in compiled code as well. Beside the
kernel's times is how often it would have taken one pass of numpy over the same bytes, in this run: that moves little
with the load of the machine.
"""

from __future__ import annotations

import os
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import attrs
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.options import parser
from tidegauge.linearizability import files
from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import check
from tidegauge.linearizability.compiled_code import SCREENED
from tidegauge.linearizability.generator import generate
from tidegauge.linearizability.history import History, Kind, Operations
from tidegauge.linearizability.log import Level, screen
from tidegauge.model_tests.linearizability.spoiled import spoiled, with_batches

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
    passes: float | None = None
    """The same time in passes of numpy over the bytes that were looked at."""


def one_pass(rows: Operations) -> int:
    """One pass of numpy over the columns that the kernel looks at."""
    columns = (
        rows.kind, rows.outcome, rows.acks, rows.offset, rows.starts, rows.values, rows.high_watermark, rows.call,
        rows.returned,
    )  # fmt: skip
    return sum(int(column.max(initial=0)) for column in columns)


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds of `work`, and what it returned."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def best_of(runs: int, work: Callable[[], object]) -> float:
    """The least CPU seconds of `runs` runs."""
    return min(timed(work)[0] for _ in range(runs))


def one_history(operations: int, level: Level, code: str) -> Row:
    """A valid history of one partition, 30 clients, 1 % unknown outcomes; `code` says how it is screened."""
    ((rows, _),) = generate(1, operations, SEED, partitions=1, clients=30, unknown_rate=0.01)
    assert check(rows, level).valid
    runs = 30 if operations < 1_000_000 else 5
    seconds, once = best_of(runs, lambda: screen(rows, level)), best_of(runs, lambda: one_pass(rows))
    note = f"valid; kernel, goal {operations / 10_000 * 0.3:g} ms"
    return Row(f"one history, {level.value}, {code}", operations, seconds, note, seconds / once)


def anomalies(operations: int) -> list[Row]:
    """A history of one partition with one anomaly of each kind: time beside the valid one in this run, and memory."""
    ((rows, _),) = generate(1, operations, SEED, partitions=1, clients=30, unknown_rate=0.01)
    valid = best_of(3, lambda: check(rows))
    found = []
    for name, spoilt in spoiled(rows).items():
        level = Level.STRICT if name in (Name.STALE_READ, Name.END_OFFSET_REGRESSION) else Level.KAFKA
        seconds, verdicts = timed(lambda spoilt=spoilt, level=level: check(spoilt, level))  # type: ignore[misc]
        assert name in {one.name for one in verdicts.anomalies}, f"{name} is not found"
        tracemalloc.start()
        check(spoilt, level)
        peak = tracemalloc.get_traced_memory()[1] >> 20
        tracemalloc.stop()
        note = f"{seconds / valid:.1f} × the valid one (goal 2 s); {peak} MiB beside the history"
        found.append(Row(f"with {name.value}", len(spoilt), seconds, note))
    batches = with_batches(operations, SEED)
    seconds, verdicts = timed(lambda: check(batches))
    assert verdicts.valid
    return [*found, Row("with holes that batches fill", operations, seconds, f"{seconds / valid:.1f} × the valid one")]


def verdict_rows(histories: int, code: str) -> Row:
    """Small histories from a file of Parquet to rows of verdicts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "histories.parquet"
        with files.HistoryWriter(path) as writer:
            for rows, _ in generate(histories, SMALL, SEED, RATE):
                writer.write(rows)

        def rows_of_verdicts() -> int:
            operations, malformed = files.read_sound(path)
            assert not malformed
            return len(check(operations, named=3).table())

        seconds = best_of(5, rows_of_verdicts)
    what = f"{histories:,} histories of {SMALL}, from Parquet to rows, {code}"
    return Row(what, histories * SMALL, seconds, "goal 10 M/s")


def small_histories(histories: int, code: str) -> list[Row]:
    """Histories of 50 operations on 2 partitions with injected anomalies: kernel alone, and verdicts with witnesses."""
    kernel = verdicts = once = 0.0
    operations = spoiled = 0
    for rows, truth in generate(histories, SMALL, SEED, RATE):
        operations += len(rows)
        kernel += timed(lambda rows=rows: screen(rows))[0]  # type: ignore[misc]
        once += timed(lambda rows=rows: one_pass(rows))[0]  # type: ignore[misc]
        seconds, checked = timed(lambda rows=rows: check(rows))  # type: ignore[misc]
        verdicts += seconds
        found = {one.history for one in checked.anomalies}
        assert found == set(truth.histories.tolist()), "the anomalies found are not the anomalies injected"
        spoiled += len(found)
    note = f"{spoiled:,} anomalies injected, exactly those found"
    return [
        Row(f"{histories:,} histories of {SMALL}, kernel, {code}", operations, kernel, "goal 30 M/s", kernel / once),
        Row(f"{histories:,} histories of {SMALL}, verdicts, {code}", operations, verdicts, note, verdicts / once),
    ]


def turns(members: int, generations: int, partitions: int, records: int) -> Operations:
    """A valid history of one group: in each generation its members share out the partitions, deliver and commit."""
    history, clock = History(), count()
    settled = dict.fromkeys(range(partitions), 0)

    def done(kind: Kind, process: int, generation: int, told: Mapping[str, Any], **asked: Any) -> int:
        index = history.invoke(
            process=process, kind=kind, call=next(clock), group=0, generation=generation, member=process, **asked
        )
        history.ok(index, returned=next(clock), **told)
        return index

    for generation in range(generations):
        said: dict[str, Any] = {"group": 0, "generation": generation}
        for process in range(members):
            history.declare(Kind.MEMBER, call=next(clock), process=process, topic="", **said)
        everything = tuple(range(partitions))
        history.declare(Kind.EXPECT, call=next(clock), process=0, values=everything, **said)
        for process in range(members):
            mine = [one for one in everything if (one + generation) % members == process]
            done(Kind.ASSIGN, process, generation, {"values": mine})
            for partition in mine:
                offset = settled[partition]
                values = range(offset, offset + records)
                done(Kind.DELIVER, process, generation, {"offset": offset, "values": values}, partition=partition)
                settled[partition] += records
                after = settled[partition]
                commit = done(Kind.COMMIT_OFFSETS, process, generation, {}, partition=partition, position=after)
                asked: dict[str, Any] = {"process": process, "group": 0, "partition": partition}
                index = history.invoke(kind=Kind.READ_OFFSETS, call=next(clock), **asked)
                history.ok(index, returned=next(clock), offset=after, found=commit)
        for process in range(members):
            mine = [one for one in everything if (one + generation) % members == process]
            if mine:
                history.declare(Kind.RELEASE, call=next(clock), process=process, group=0, values=tuple(mine))
    for partition, end in settled.items():
        history.settled(call=next(clock), partition=partition, group=0, offset=end)
    return history.operations()


def groups(histories: int) -> list[Row]:
    """Many small groups at once, of which each hundredth commits for a former generation; and a large one."""
    one = turns(members=3, generations=3, partitions=3, records=2)
    rows, size = np.tile(np.arange(len(one)), histories), len(one)
    many = attrs.evolve(one.take(rows), history=np.repeat(np.arange(histories), size))
    assert many.membership is not None
    last = size * np.arange(0, histories, 100) + np.flatnonzero(one.kind == Kind.COMMIT_OFFSETS)[-1]
    many.membership.generation[last] = 0
    seconds, verdicts = timed(lambda: check(many))
    assert set(verdicts.histories[verdicts.verdicts != 0].tolist()) == set(range(0, histories, 100))
    note = f"{len(last):,} commits of a former generation, exactly those found"
    found = [Row(f"{histories:,} groups of {size}, verdicts", len(many), seconds, note)]
    for generations in (100, 1_000):
        large = turns(members=10, generations=generations, partitions=30, records=2)
        assert check(large).valid
        seconds = best_of(3, lambda large=large: check(large))  # type: ignore[misc]
        what = f"one group, {generations:,} generations"
        found.append(Row(what, len(large), seconds, "valid; 10 members, 30 partitions"))
    return found


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


def screening(histories: int, code: str) -> list[Row]:
    """The kernel over one history of each size, and over many small ones."""
    rows = [one_history(operations, level, code) for operations in (10_000, 100_000, 1_000_000) for level in Level]
    return rows + small_histories(histories, code)


def main(words: Sequence[str] | None = None) -> None:
    arguments = parser("checker", __doc__)
    arguments.add_argument("--histories", type=int, default=1_000_000, help="how many small histories")
    arguments.add_argument("--operations", type=int, default=1_000_000, help="of a history with one anomaly")
    options = arguments.parse_args(words)
    histories = options.histories
    SCREENED.operations = -(1 << 60)  # compiled code is not loaded by itself
    rows = screening(histories, "arrays")
    rows += anomalies(options.operations)
    rows.append(verdict_rows(min(histories, 40_000), "arrays"))
    if find_spec("numba") is not None:
        import_module("tidegauge.linearizability.compiled")  # what is loaded is used
        check(next(generate(1, SMALL, SEED))[0])
        rows += screening(histories, "compiled")
        rows.append(verdict_rows(min(histories, 40_000), "compiled"))
    rows += groups(max(100, histories // 50))
    rows += loading(min(histories, 40_000))
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    table = Table(title=f"checker, one core (seed {SEED}); load of the machine {load}")
    for heading in ("what", "operations", "ms", "M operations/s", "passes"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    table.add_column("")
    for row in rows:
        rate = row.operations / row.seconds / 1e6
        passes = "" if row.passes is None else f"{row.passes:.1f}"
        table.add_row(row.what, f"{row.operations:,}", f"{row.seconds * 1e3:,.2f}", f"{rate:.1f}", passes, row.note)
    Console(width=150).print(table)


if __name__ == "__main__":
    main()

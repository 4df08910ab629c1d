"""A million histories of 50 operations, checked by Spark on 2 cores; every injected anomaly is found, and nothing else.

`python -m benchmarks.spark [--histories N] [--cores N] [--unclustered]`. The histories are generated once, into
benchmarks/results/spark. The bar: at most 10 s of wall time after start-up on two quiet cores, and 1.5 GiB for the JVM
and the workers. Wall time means little on a machine that does other work: the load is printed beside it, and the share
of the scan limit is of CPU time: what it takes to read the same columns with pyarrow in one thread, and do nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Thread

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.options import parser
from tidegauge.linearizability.check import Verdict
from tidegauge.linearizability.files import ROW_GROUP, HistoryWriter
from tidegauge.linearizability.generator import BLOCK_OPERATIONS, INJECTED, generate
from tidegauge.linearizability.history import Ints, Operations, blocks
from tidegauge.spark_check.job import open_job
from tidegauge.spark_check.reading import COLUMNS, OPTIONAL
from tidegauge.spark_check.session import local_session
from tidegauge.spark_check.summary import Summary

RESULTS = Path(__file__).parent / "results" / "spark"
SEED = 20_260_101
OPERATIONS = 50
RATE = 0.005
LONGEST = 10.0
MOST_MIB = 1_536
HISTORIES_IN_A_BLOCK = BLOCK_OPERATIONS // OPERATIONS
MOST_BLOCKS = 1_000


def histories_file(histories: int, unclustered: bool) -> tuple[Path, Path]:
    """The file of histories and the file of what was injected into them; generated if they are not there."""
    name = f"{histories}x{OPERATIONS}-seed{SEED}-rate{RATE}"
    name += "-unclustered" if unclustered else ""
    rows, truth = RESULTS / f"{name}.parquet", RESULTS / f"{name}.truth"
    if rows.exists() and truth.exists():
        return rows, truth
    RESULTS.mkdir(parents=True, exist_ok=True)
    ids: list[Ints] = []
    kinds: list[Ints] = []
    with HistoryWriter(rows) as writer:
        for number, (operations, injected) in enumerate(generate(histories, OPERATIONS, SEED, RATE)):
            for part in _scattered(operations, number) if unclustered else _by_row_group(operations):
                writer.write(part)
            ids.append(_scatter(injected.histories, number) if unclustered else injected.histories)
            kinds.append(injected.anomalies)
    pq.write_table(pa.table({"history": np.concatenate(ids), "anomaly": np.concatenate(kinds)}), truth)
    return rows, truth


def _by_row_group(operations: Operations) -> Iterator[Operations]:
    for start, stop in blocks(operations, ROW_GROUP):
        yield operations.slice(start, stop)


def _scattered(operations: Operations, block: int) -> Iterator[Operations]:
    """Ids from the whole range in every row group, and the rows of a history as far apart as the block allows."""
    order = np.argsort(operations.index, kind="stable")
    renumbered = attrs.evolve(operations, history=_scatter(operations.history, block))
    for start in range(0, len(order), ROW_GROUP):
        yield renumbered.take(order[start : start + ROW_GROUP])


def _scatter(ids: Ints, block: int) -> Ints:
    """Ids of one block of histories, so that all blocks range over the same numbers."""
    first = block * HISTORIES_IN_A_BLOCK
    scattered: Ints = (ids - first) * MOST_BLOCKS + block
    return scattered


@attrs.define(slots=False)
class Meter:
    """Memory and CPU time of this process's descendants, looked at several times a second (Linux)."""

    peak: int = 0
    jvm: int = 0
    worker: int = 0
    cpu: dict[int, float] = attrs.field(factory=dict)
    java: set[int] = attrs.field(factory=set)
    _over: Event = attrs.field(factory=Event)

    def __enter__(self) -> Meter:
        self._over.clear()
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.look()

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            self.look()

    def look(self) -> None:
        """One look at all descendants."""
        total = 0
        for process, name, seconds, memory in _descendants(os.getpid()):
            self.cpu[process] = seconds
            total += memory
            if name == "java":
                self.java.add(process)
                self.jvm = max(self.jvm, memory)
            else:
                self.worker = max(self.worker, memory)
        self.peak = max(self.peak, total)

    @property
    def seconds(self) -> float:
        """CPU seconds so far."""
        return sum(self.cpu.values())

    @property
    def shares(self) -> tuple[float, float]:
        """CPU seconds so far of the JVM, and of the workers."""
        jvm = sum(seconds for process, seconds in self.cpu.items() if process in self.java)
        return jvm, self.seconds - jvm


def _descendants(ancestor: int) -> Iterator[tuple[int, str, float, int]]:
    """(process, name, CPU seconds, resident bytes) of each."""
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    parents: dict[int, int] = {}
    facts: dict[int, tuple[str, float, int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            before, _, after = (entry / "stat").read_text().rpartition(")")
        except OSError:
            continue  # it ended meanwhile
        fields = after.split()
        parents[int(entry.name)] = int(fields[1])
        cpu = (int(fields[11]) + int(fields[12])) / tick
        facts[int(entry.name)] = (before.partition("(")[2], cpu, int(fields[21]) * page)
    for process, fact in facts.items():
        at = process
        while at in parents and at != ancestor:
            at = parents[at]
        if at == ancestor and process != ancestor:
            yield process, *fact


def found_and_injected(summary: Summary, truth: Path) -> tuple[int, int, int, int]:
    """Histories found, injected, in one and not the other, and those found under the name that was injected."""
    injected = pq.read_table(truth)
    ids = injected.column("history").to_numpy()
    table = pq.read_table(
        f"{summary.out}/verdicts", columns=["history", "verdict"], filters=[("verdict", "!=", Verdict.VALID)]
    )
    found = table.column("history").to_numpy()
    anomalies = pq.read_table(f"{summary.out}/anomalies", columns=["history", "anomaly"])
    names = set(zip(anomalies.column("history").to_pylist(), anomalies.column("anomaly").to_pylist(), strict=True))
    kinds = injected.column("anomaly").to_pylist()
    named = sum((one, INJECTED[kind].value) in names for one, kind in zip(ids.tolist(), kinds, strict=True))
    return len(found), len(ids), len(np.setxor1d(found, ids)), named


def scan(file: Path) -> float:
    """CPU seconds to read the columns that are checked, in one thread."""
    began = time.process_time()
    with pq.ParquetFile(file) as opened:
        columns = [name for name in COLUMNS if name in opened.schema_arrow.names and name not in OPTIONAL]
        for group in range(opened.num_row_groups):
            opened.read_row_group(group, columns=columns, use_threads=False)
    return time.process_time() - began


def main(words: Sequence[str] | None = None) -> int:
    """Print the table; 1 if what was found is not what was injected."""
    known = parser("spark", __doc__)
    known.add_argument("--histories", type=int, default=1_000_000, help="how many (default: a million)")
    known.add_argument("--cores", type=int, default=2, help="that Spark may use (default: 2)")
    known.add_argument("--unclustered", action="store_true", help="interleave the histories' rows, so Spark shuffles")
    options = known.parse_args(words)
    rows, truth = histories_file(options.histories, options.unclustered)
    began = time.perf_counter()
    spark = local_session(options.cores)
    started = time.perf_counter() - began
    spark.sparkContext.parallelize(range(options.cores), options.cores).map(lambda _: os.getpid()).collect()
    ready = time.perf_counter() - began
    limit = scan(rows)
    load = os.getloadavg()[0]
    out = RESULTS / "out"
    shutil.rmtree(out, ignore_errors=True)
    with Meter() as meter:
        meter.look()
        before = (*meter.shares, time.process_time())
        summary = open_job([rows], out).run(spark)
    used = [now - then for now, then in zip((*meter.shares, time.process_time()), before, strict=True)]
    cpu = sum(used)
    found, injected, differ, named = found_and_injected(summary, truth)
    per_core = summary.operations / cpu / 1e6
    megabytes = [number / 2**20 for number in (meter.peak, meter.jvm, meter.worker, rows.stat().st_size)]
    lines = [
        ("input", f"{summary.histories:,} histories, {summary.operations:,} operations, {megabytes[3]:.0f} MiB"),
        ("start-up", f"{started:.1f} s to a session, {ready:.1f} s to the first Python task"),
        (
            "wall time",
            f"{summary.seconds:.1f} s on {options.cores} cores (bar: {LONGEST:.0f} s for a million, clustered), "
            f"load {load:.1f} before and {os.getloadavg()[0]:.1f} after",
        ),
        ("rate", f"{summary.operations / summary.seconds / 1e6:.2f} M operations/s, {summary.units} units"),
        ("CPU time", f"{cpu:.1f} s, {per_core:.2f} M operations/s a core"),
        ("of it", "JVM {:.1f} s, workers {:.1f} s, driver {:.1f} s".format(*used)),
        (
            "scan limit",
            f"{summary.operations / limit / 1e6:.1f} M operations/s a core; {limit / cpu:.0%} of it reached",
        ),
        (
            "peak memory",
            f"{megabytes[0]:,.0f} MiB (bar: {MOST_MIB:,}): JVM {megabytes[1]:,.0f}, largest worker {megabytes[2]:,.0f}",
        ),
        ("anomalies", f"{found:,} histories found, {injected:,} injected, {differ:,} differ"),
        ("named", f"{named:,} of them by the name of what was injected"),
    ]
    table = Table(title="histories checked by Spark", show_header=False)
    for line in [*lines, *(("note", note) for note in summary.notes)]:
        table.add_row(*line)
    Console().print(table)
    spark.stop()
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

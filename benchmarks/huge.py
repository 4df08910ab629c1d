"""One history of one partition, judged by Spark in blocks, beside the single pass of one task: the same verdict.

`python -m benchmarks.huge [--operations N] [--anomaly] [--blocks-alone]`. The history is generated once, into
benchmarks/results/huge. 100 million operations are `--operations 100000000 --blocks-alone`: one task would need tens of
GiB for them. Wall time means little on a machine that does other work: the load is printed beside it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.options import parser
from benchmarks.spark import Meter
from tidegauge.linearizability.files import ROW_GROUP, HistoryWriter
from tidegauge.linearizability.generator import UNWRITTEN_VALUE, generate
from tidegauge.linearizability.history import NEVER, UNKNOWN, Kind, Operations, Outcome
from tidegauge.spark_check.job import open_job
from tidegauge.spark_check.session import local_session

RESULTS = Path(__file__).parent / "results" / "huge"
SEED = 20_260_101
PART = 2 * ROW_GROUP


@attrs.frozen
class Run:
    """One way to judge the history: who did it, and what it cost."""

    who: str
    seconds: float
    cpu: float
    worker: int
    """Bytes of the largest process of a worker."""
    peak: int
    """Bytes of all processes together."""
    load: float
    verdicts: tuple[str, ...]


def parts(operations: int, anomaly: bool) -> Iterator[Operations]:
    """The rows of the history, part by part: each goes on where the log of the one before it has ended."""
    index = length = time = 0
    for number, left in enumerate(range(operations, 0, -PART)):
        last = left <= PART
        rate = float(anomaly and last)
        ((rows, _),) = generate(1, min(PART, left), SEED + number, rate, partitions=1, clients=30, unknown_rate=0.01)
        returned = rows.returned != NEVER
        shifted = attrs.evolve(
            rows,
            index=rows.index + np.int32(index),
            offset=np.where(rows.offset == UNKNOWN, UNKNOWN, rows.offset + length),
            values=rows.values + number * 2 * UNWRITTEN_VALUE,
            high_watermark=np.where(rows.high_watermark == UNKNOWN, UNKNOWN, rows.high_watermark + length),
            call=rows.call + time,
            returned=np.where(returned, rows.returned + time, NEVER),
        )
        yield shifted
        index += len(rows)
        time = int(max(shifted.call.max(), shifted.returned[returned].max())) + 1
        length = _end(shifted, length)


def _end(rows: Operations, length: int) -> int:
    """How long the log is known to be at the end."""
    told = (rows.offset != UNKNOWN) & (rows.outcome == Outcome.OK)
    ends = rows.offset + np.where((rows.kind == Kind.PRODUCE) | (rows.counts > 0), rows.counts, 0)
    return max(length, int(ends[told].max()), int(rows.high_watermark.max()))


def history_file(operations: int, anomaly: bool) -> Path:
    """The file of the history; generated if it is not there."""
    path = RESULTS / f"{operations}-seed{SEED}{'-anomaly' if anomaly else ''}.parquet"
    if not path.exists():
        RESULTS.mkdir(parents=True, exist_ok=True)
        with HistoryWriter(path) as writer:
            for part in parts(operations, anomaly):
                writer.write(part)
    return path


def run(path: Path, who: str, huge: int, cores: int) -> Run:
    """Judge the history; one of more than `huge` operations in blocks."""
    spark = local_session(cores)
    spark.sparkContext.parallelize(range(cores), cores).map(lambda _: os.getpid()).collect()
    out = RESULTS / "out"
    shutil.rmtree(out, ignore_errors=True)
    with Meter() as meter:
        meter.look()
        before = meter.seconds
        summary = open_job([path], out, huge=huge).run(spark)
    rows = pq.read_table(out / "verdicts").to_pylist() + pq.read_table(out / "anomalies").to_pylist()
    said = tuple(sorted(str(row) for row in rows))
    spark.stop()
    return Run(who, summary.seconds, meter.seconds - before, meter.worker, meter.peak, os.getloadavg()[0], said)


def main(words: Sequence[str] | None = None) -> int:
    """Print the table; 1 if the verdicts differ."""
    known = parser("huge", __doc__)
    known.add_argument("--operations", type=int, default=2_000_000, help="how many (default: 2 million)")
    known.add_argument("--anomaly", action="store_true", help="with one anomaly, near the end")
    known.add_argument("--blocks-alone", action="store_true", help="not by one task")
    known.add_argument("--cores", type=int, default=2, help="that Spark may use (default: 2)")
    options = known.parse_args(words)
    path = history_file(options.operations, options.anomaly)
    runs = [run(path, "in blocks", 0, options.cores)]
    if not options.blocks_alone:
        runs.append(run(path, "by one task", options.operations, options.cores))
    table = Table(title=f"one history of {options.operations:,} operations, {path.stat().st_size >> 20} MiB")
    for column in ("judged", "wall time", "CPU time", "µs an operation", "largest worker", "all processes", "load"):
        table.add_column(column, justify="left" if column == "judged" else "right")
    for one in runs:
        per = one.cpu / options.operations * 1e6
        sizes = [f"{size / 2**20:,.0f} MiB" for size in (one.worker, one.peak)]
        table.add_row(one.who, f"{one.seconds:.1f} s", f"{one.cpu:.1f} s", f"{per:.2f}", *sizes, f"{one.load:.1f}")
    console = Console()
    console.print(table)
    for said in runs[0].verdicts:
        console.print(said, highlight=False)
    same = len({one.verdicts for one in runs}) == 1
    if len(runs) > 1:
        console.print("the same verdict" if same else "[bold]the verdicts differ[/]")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())

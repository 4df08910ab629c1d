"""A billion histories planned by the driver: how long, and in how much memory. The footers are simulated.

`python -m benchmarks.planning [--histories N] [--row-group N]`. The bar: 2 GiB. What is planned is what the driver of a
job holds: a piece for each row group, as a task that reads footers sends them, the units, and the check of who owns
which history. Each way has a process of its own, so that its peak is its own.
"""

from __future__ import annotations

import os
import pickle
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.options import parser
from tidegauge.spark_check.planner import Piece, plan
from tidegauge.spark_check.reconciling import check_owners

HISTORIES = 1_000_000_000
OPERATIONS = 50
ROW_GROUPS_IN_A_FILE = 16
FILES_IN_A_TASK = 16
LARGEST_MIB = 2_048


def footers(histories: int, row_group: int, unclustered: bool) -> Iterator[list[Piece]]:
    """The row groups of each task's files: histories together, each row group beginning in the last one's last history,
    or in no order, every row group having ids from the whole range."""
    groups = histories * OPERATIONS // row_group
    held: list[Piece] = []
    for group in range(groups):
        low, high = group * row_group // OPERATIONS, (group + 1) * row_group // OPERATIONS
        ids = (group % 7, histories - 1 - group % 5) if unclustered else (low, min(high, histories - 1))
        held.append(Piece(f"s3a://histories/{group // ROW_GROUPS_IN_A_FILE:08d}.parquet", group, row_group, *ids))
        if len(held) == ROW_GROUPS_IN_A_FILE * FILES_IN_A_TASK:
            yield pickle.loads(pickle.dumps(held))
            held = []
    yield held


def measure(histories: int, row_group: int, unclustered: bool) -> None:
    """Plan, and print what it took."""
    began = time.process_time()
    pieces = [piece for task in footers(histories, row_group, unclustered) for piece in task]
    simulated = time.process_time()
    planned = plan(pieces)
    check_owners(planned.units)
    seconds = time.process_time() - simulated
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(len(pieces), len(planned.units), planned.rows, round(simulated - began, 1), round(seconds, 1), peak)


def main(words: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a plan takes more memory than it should."""
    known = parser("planning", __doc__)
    known.add_argument("--histories", type=int, default=HISTORIES, help="how many (default: a billion)")
    known.add_argument("--row-group", type=int, default=500_000, help="operations in a row group")
    known.add_argument("--one", choices=["together", "in no order"], help="plan here, and print the figures")
    options = known.parse_args(words)
    if options.one:
        measure(options.histories, options.row_group, options.one == "in no order")
        return 0
    table = Table(title=f"{options.histories:,} histories planned, load {os.getloadavg()[0]:.1f}")
    for name in ("histories", "row groups", "units", "CPU s, simulation", "CPU s, plan", "peak, MiB"):
        table.add_column(name, justify="right")
    largest = 0
    for way in ("together", "in no order"):
        size = ["--histories", str(options.histories), "--row-group", str(options.row_group)]
        command = [sys.executable, "-m", "benchmarks.planning", *size, "--one", way]
        pieces, units, rows, simulated, seconds, peak = subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout.split()
        assert int(rows) == int(pieces) * options.row_group
        table.add_row(way, f"{int(pieces):,}", f"{int(units):,}", simulated, seconds, f"{int(peak):,}")
        largest = max(largest, int(peak))
    Console().print(table)
    return 1 if largest > LARGEST_MIB else 0


if __name__ == "__main__":
    sys.exit(main())

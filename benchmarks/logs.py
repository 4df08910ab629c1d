"""What many logs cost: made, written, closed and opened again, by themselves and under a broker that restarts.

`python -m benchmarks.logs [--quick] [--data DIR] [--beside PATH]` prints microseconds of CPU for each log. A round is a
process of its own, pinned to one core where the system can do that, which does all of it several times; the least of
all counts, since other work on the machine makes it dearer and never cheaper. Files are in memory, or under DIR. The
last line is the load of the machine, by `os.getloadavg`. `--memory` prints the bytes of Python objects that a partition
keeps in a broker and its controller instead, which no load changes.

`--beside PATH` compares with another checkout of this project, an earlier one perhaps: its rounds alternate with this
one's. The figures are taken by `benchmarks/beside/one_life.py`, which runs in both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.broker import MEMORY
from benchmarks.options import parser
from tidegauge.model_tests.tidy import ROOT

LIFE: Final = ROOT / "benchmarks" / "beside" / "one_life.py"
TIMES: Final = 4
"""How often a round does all of it."""
Figures = dict[str, float]


def one_round(checkout: Path, data: str, logs: int, partitions: int, times: int) -> Figures:
    """Microseconds by what was done, in a process of its own."""
    command = [sys.executable, "-P", str(LIFE), data, str(logs), str(partitions), str(times)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: Figures = json.loads(done.stdout)
    return found


def least(rounds: Sequence[Figures]) -> Figures:
    return {name: min(one[name] for one in rounds) for name in rounds[0]}


def table(here: Figures, others: Mapping[str, Figures], title: str) -> Table:
    headings = [word for name in others for word in (name, "×")]
    result = Table("", "here", *headings, title=title, box=None, pad_edge=False)
    for name, figure in here.items():
        cells = [word for other in others.values() for word in (f"{other[name]:.0f}", f"{figure / other[name]:.2f}")]
        result.add_row(name, f"{figure:.0f}", *cells)
    return result


def main(words: Sequence[str] | None = None) -> None:
    options = parser("logs", __doc__, quick="two rounds of 50 logs")
    options.add_argument("--data", metavar="DIR", default=MEMORY, help="where the files are")
    options.add_argument("--beside", metavar="PATH", type=Path, action="append", default=[], help="another checkout")
    options.add_argument("--memory", action="store_true", help="the bytes of a partition instead")
    options.add_argument("--rounds", metavar="N", type=int, default=6, help="how many (default: 6)")
    options.add_argument("--logs", metavar="N", type=int, default=250, help="how many by themselves (default: 250)")
    options.add_argument("--partitions", metavar="N", type=int, default=500, help="how many of a broker (default: 500)")
    chosen = options.parse_args(words)
    logs, partitions, rounds = (50, 50, 2) if chosen.quick else (chosen.logs, chosen.partitions, chosen.rounds)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    checkouts = [ROOT, *(path.resolve() for path in chosen.beside)]
    title = f"µs of CPU a log: {logs:,} of one record each, and a broker with {partitions:,} partitions"
    times = TIMES
    if chosen.memory:
        title, times, rounds = f"a broker with {partitions:,} partitions of one record each", 0, 1
    found: dict[Path, list[Figures]] = {path: [] for path in checkouts}
    for number in range(rounds):
        for path in checkouts if number % 2 else reversed(checkouts):
            found[path].append(one_round(path, chosen.data, logs, partitions, times))
    here, *others = map(least, found.values())
    console = Console(width=110)
    console.print(table(here, {path.name: one for path, one in zip(chosen.beside, others, strict=True)}, title))
    console.print(f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()

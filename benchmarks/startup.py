"""How long a test suite waits for its Kafka: import, start, first acknowledged record, end; in fresh interpreters.

`python -m benchmarks.startup [--quick]` prints a table. Every row is the best of several runs, each of them a process
of its own, in milliseconds of wall time and of CPU time (of all threads); the ratio is to starting a bare interpreter.
The first record is produced by confluent-kafka with acks=all, to a topic that is there; for one broker and for three
with three replicas. In the same run: librdkafka's mock cluster, which does not replicate, with the same client.

All modules are compiled before, as an installer does it, also where Python is told to write no bytecode: to compile
the sources of a checkout takes as long as everything else that an import does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from benchmarks.options import parser

STOPWATCH = """
import json, time
marks = []
def mark(name):
    marks.append((name, time.perf_counter(), time.process_time()))
mark("")
"""
IMPORT = (
    STOPWATCH
    + """
from tidegauge import running_cluster
mark("import tidegauge's embedding face")
"""
)
PRODUCE = """
def first_record(settings):
    from confluent_kafka import Producer
    mark("import the client")
    producer = Producer({**settings, "linger.ms": 0, "acks": "all", "log_level": 0})
    acknowledged = []
    producer.produce("orders", b"first", callback=lambda error, message: acknowledged.append(error))
    while not acknowledged:
        producer.poll(0.1)
    assert acknowledged == [None], acknowledged
"""
CLUSTER = (
    IMPORT
    + PRODUCE
    + """
with running_cluster(brokers=BROKERS, trace=False) as cluster:
    mark("BROKERS broker(s): ready")
    cluster.create_topic("orders")
    mark("BROKERS broker(s): a topic")
    first_record({"bootstrap.servers": cluster.bootstrap_servers})
    mark("BROKERS broker(s): the first record acknowledged")
mark("BROKERS broker(s): ended")
"""
)
MOCK = (
    STOPWATCH
    + PRODUCE
    + """
first_record({"test.mock.num.brokers": BROKERS})
mark("librdkafka's mock, BROKERS broker(s): the first record acknowledged")
"""
)
REPORT = "\nprint(json.dumps(marks))\n"

Marks = list[tuple[str, float, float]]
Figures = dict[str, tuple[float, float]]
"""What was done -> (wall, CPU) seconds, the best of all runs."""


def marks_of(program: str, bytecode: str) -> Marks:
    """Run a program in a fresh interpreter, which keeps bytecode in a directory."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    ended = subprocess.run(
        [sys.executable, "-c", program + REPORT], capture_output=True, text=True, check=True, env=environment
    )
    marks: Marks = json.loads(ended.stdout)
    return marks


def best(programs: list[str], runs: int) -> Figures:
    """Each step of the programs, and from the beginning to the first record."""
    figures: Figures = {}
    with TemporaryDirectory() as bytecode:
        for program in programs:
            marks_of(program, bytecode)
        for program in programs * runs:
            marks = marks_of(program, bytecode)
            for (_, began, cpu), (name, ended, cpu_then) in pairwise(marks):
                note(figures, name, ended - began, cpu_then - cpu)
            for name, ended, cpu_then in marks:
                if "first record" in name and "librdkafka" not in name:
                    client = next(i for i, (step, _, _) in enumerate(marks) if step == "import the client")
                    its = marks[client][1] - marks[client - 1][1], marks[client][2] - marks[client - 1][2]
                    began, cpu = marks[0][1] + its[0], marks[0][2] + its[1]
                    note(figures, f"{name}, all from the import on", ended - began, cpu_then - cpu)
    return figures


def note(figures: Figures, name: str, wall: float, cpu: float) -> None:
    least = figures.get(name, (wall, cpu))
    figures[name] = min(least[0], wall), min(least[1], cpu)


def bare_interpreter(runs: int) -> float:
    """Seconds of wall time."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        times.append(time.perf_counter() - began)
    return min(times)


def main(words: Sequence[str] | None = None) -> None:
    runs = 2 if parser("startup", __doc__, quick="two runs in place of seven").parse_args(words).quick else 7
    bare = bare_interpreter(runs)
    programs = [IMPORT]
    if find_spec("confluent_kafka") is not None:
        programs += [CLUSTER.replace("BROKERS", "1"), CLUSTER.replace("BROKERS", "3")]
        programs += [MOCK.replace("BROKERS", "1"), MOCK.replace("BROKERS", "3")]
    figures = best(programs, runs)
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("", "ms", "CPU ms", "× bare interpreter"):
        table.add_column(column, justify="right" if column else "left")
    table.add_row("a bare interpreter", f"{bare * 1000:.0f}", "", "1.0")
    for name, (wall, cpu) in figures.items():
        table.add_row(name, f"{wall * 1000:.0f}", f"{cpu * 1000:.0f}", f"{wall / bare:.1f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()

"""How long a test suite waits for its Kafka: import, start, first acknowledged record, end; in fresh interpreters.

`python -m benchmarks.startup [--quick]` prints a table. Every row is the best of several runs, each of them a process
of its own, in milliseconds of wall time and of CPU time (of all threads); the ratio is to starting a bare interpreter.
The first record is produced by confluent-kafka with acks=all, to a topic that is there; for one broker and for three
with three replicas. In the same run: librdkafka's mock cluster, which does not replicate, with the same client.

The last column leaves out what Python's garbage collector took. Some 50,000 objects come to life here, so it goes
through all of them once, for 10 to 25 ms, and in which step it does is chance: one object more moves it elsewhere.

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
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.options import parser

STOPWATCH = """
import gc, json, time
marks = []
collecting = [0.0, 0.0]
def note_collection(phase, _):
    if phase == "start":
        collecting[1] = time.thread_time()
    else:
        collecting[0] += time.thread_time() - collecting[1]
gc.callbacks.append(note_collection)
def mark(name):
    cpu = time.process_time()
    marks.append((name, time.perf_counter(), cpu, cpu - collecting[0]))
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


class Mark(NamedTuple):
    """When a step ended, in seconds of each clock."""

    step: str
    wall: float
    cpu: float
    uncollected: float
    """CPU time without that of the garbage collector."""


class Seconds(NamedTuple):
    """What a step took by each clock."""

    wall: float
    cpu: float
    uncollected: float


Figures = dict[str, Seconds]
"""What was done -> the best of all runs, by each clock."""


def marks_of(program: str, bytecode: str) -> list[Mark]:
    """Run a program in a fresh interpreter, which keeps bytecode in a directory."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    ended = subprocess.run(
        [sys.executable, "-c", program + REPORT], capture_output=True, text=True, check=True, env=environment
    )
    return [Mark(*mark) for mark in json.loads(ended.stdout)]


def between(begun: Mark, ended: Mark) -> Seconds:
    return Seconds(ended.wall - begun.wall, ended.cpu - begun.cpu, ended.uncollected - begun.uncollected)


def best(programs: list[str], runs: int) -> Figures:
    """Each step of the programs, and from the beginning to the first record."""
    figures: Figures = {}
    with TemporaryDirectory() as bytecode:
        for program in programs:
            marks_of(program, bytecode)
        for program in programs * runs:
            marks = marks_of(program, bytecode)
            for begun, ended in pairwise(marks):
                note(figures, ended.step, between(begun, ended))
            for mark in marks:
                if "first record" in mark.step and "librdkafka" not in mark.step:
                    client = next(i for i, earlier in enumerate(marks) if earlier.step == "import the client")
                    of_client, whole = between(marks[client - 1], marks[client]), between(marks[0], mark)
                    ours = Seconds(*(all_of - its for all_of, its in zip(whole, of_client, strict=True)))
                    note(figures, f"{mark.step}, all from the import on", ours)
    return figures


def note(figures: Figures, name: str, taken: Seconds) -> None:
    least = figures.get(name, taken)
    figures[name] = Seconds(*map(min, least, taken))


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
    for column in ("", "ms", "× bare\ninterpreter", "CPU ms", "without the\ncollector"):
        table.add_column(column, justify="right" if column else "left")
    table.add_row("a bare interpreter", f"{bare * 1000:.0f}", "1.0", "", "")
    for name, (wall, cpu, uncollected) in figures.items():
        times = f"{wall * 1000:.0f}", f"{wall / bare:.1f}", f"{cpu * 1000:.0f}", f"{uncollected * 1000:.0f}"
        table.add_row(name, *times)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()

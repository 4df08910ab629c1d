"""Trials: a process of its own for each mutant, which puts it in place and goes through the parts until one fails.

The process is a fork of one that has imported and collected everything, so it costs milliseconds. A part has the CPU
time that it takes without a mutant, several times over, and each trial a limit of memory: a mutant that hangs is killed
by them, and counts as killed by the ring that it hung in. One that sleeps is killed too, and not one that has to wait
for the processors.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Final

import attrs
from coverage import Coverage

from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.mutants.patching import ROOT, Patcher
from tidegauge.model_tests.mutants.rings import Part, Ring

Tell = Callable[[Mapping[str, Any]], None]

TIMES_OVER: Final = 6
LEAST_SECONDS: Final = 3.0
"""A part may take so many times its CPU seconds, and so many more."""
WALL_SECONDS: Final = 600.0
"""Of real time in which a mutant that sleeps uses less than `AWAKE` of a processor."""
AWAKE: Final = 0.1
MEASURING_SECONDS: Final = 1_800.0
"""Of real time, for parts without a mutant that are run in one process."""
MORE_BYTES: Final = 2 << 30
"""Of memory beyond what the process has."""
LIMIT: Final = "the time limit"
TEMPORARY_FILES: Final = "PYTEST_DEBUG_TEMPROOT"
"""Where pytest has `tmp_path`. With one folder for all, the first test of a process removes what others have there."""


@attrs.frozen
class Measured:
    """A part without a mutant."""

    seconds: float
    """Of CPU."""
    lines: Mapping[str, int]
    """The lines that it runs of each file that has mutants, from the root: a bit for each line."""

    def runs(self, path: str, lines: range) -> bool:
        """Whether it runs one of these lines."""
        return bool(self.lines.get(path, 0) & bits(lines))

    def runs_any(self, paths: Collection[str]) -> bool:
        """Whether it runs a line of one of these files."""
        return any(self.lines.get(path) for path in paths)


def running_all(part: Part) -> Measured:
    """A part of which the files that it may run are known: it counts as running every line of them."""
    return Measured(part.seconds, dict.fromkeys(part.runs or (), -1))


def bits(lines: Iterable[int]) -> int:
    """One number for some lines."""
    return sum(1 << line for line in lines)


@attrs.frozen
class Killed:
    """The ring that noticed a mutant, by what, and why it did."""

    ring: Ring
    part: str
    why: str


def in_child(
    work: Callable[[Tell], None], wall_seconds: float = WALL_SECONDS, *, awake: float = AWAKE
) -> tuple[list[dict[str, Any]], int]:
    """Run `work` in a fork; returns what it told and its wait status. What it prints is dropped.

    It is ended after `wall_seconds` in which it used less than `awake` of a processor: inf, however much it used.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            os.setpgid(0, 0)  # what it starts ends with it
            _be_quiet()
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                os.environ[TEMPORARY_FILES] = folder
                work(lambda told: _write(writing, told))
                os.chdir("/")
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    told = _read(reading, child, wall_seconds, awake)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(child, signal.SIGKILL)
    return told, os.waitpid(child, 0)[1]


def _be_quiet() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)


def _write(pipe: int, told: Mapping[str, Any]) -> None:
    os.write(pipe, json.dumps(told).encode() + b"\n")


def _read(pipe: int, child: int, wall_seconds: float, awake: float) -> list[dict[str, Any]]:
    content = bytearray()
    deadline, used = time.monotonic() + wall_seconds, 0.0
    while True:
        if select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = os.read(pipe, 1 << 16)
            if not piece:
                break
            content += piece
        elif time.monotonic() >= deadline:
            before, used = used, processor_seconds(child)
            if used - before < awake * wall_seconds:
                break
            deadline = time.monotonic() + wall_seconds
    os.close(pipe)
    return [json.loads(line) for line in content.split(b"\n")[:-1]]


def processor_seconds(process: int) -> float:
    """What a process has used of the processors, all its threads."""
    with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class UnsoundError(Exception):
    """A part fails without any mutant."""


# --- without a mutant ------------------------------------------------------------------------------------------------


def measured(parts: Sequence[Part], patcher: Patcher) -> dict[str, Measured | str]:
    """The CPU time of each part and the lines that it runs, by its name, or the words of its failure.

    They are run in one process, which has another one's memory. One that ends the process is the last in the result.
    """

    def work(tell: Tell) -> None:
        lines = Coverage(data_file=None, config_file=False, include=[str(ROOT / path) for path in patcher.paths])
        for part in parts:
            patcher.forget()  # what one part has remembered, the next one does not run
            lines.erase()
            began = time.process_time()
            lines.start()
            failed = outcome(part, None)
            lines.stop()
            seconds = time.process_time() - began
            tell({"seconds": seconds, "failed": failed[-1500:], "lines": _lines_run(lines)})

    told, _ = in_child(work, MEASURING_SECONDS, awake=inf)
    found: dict[str, Measured | str] = {
        part.name: f"{part.name} fails without any mutant: {one['failed']}"
        if one["failed"]
        else Measured(one["seconds"], one["lines"])
        for part, one in zip(parts, told, strict=False)
    }
    if len(told) < len(parts):
        name = parts[len(told)].name
        found[name] = f"{name} ends its process without any mutant, or runs for {MEASURING_SECONDS:.0f} s"
    return found


def _lines_run(lines: Coverage) -> dict[str, int]:
    data = lines.get_data()
    files = {Path(file): data.lines(file) or [] for file in data.measured_files()}
    return {file.relative_to(ROOT).as_posix(): bits(numbers) for file, numbers in files.items()}


# --- with one --------------------------------------------------------------------------------------------------------


def trial(install: Callable[[], Roles | None], parts: Sequence[tuple[Part, float]]) -> Killed | None:
    """Put a mutant in place and go through the parts, each with the seconds that it takes; None if it survives."""

    def work(tell: Tell) -> None:
        limit = _memory() + MORE_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        roles = install()
        for number, (part, seconds) in enumerate(parts):
            tell({"begun": number})
            signal.setitimer(signal.ITIMER_PROF, seconds * TIMES_OVER + LEAST_SECONDS)
            failed = outcome(part, roles)
            signal.setitimer(signal.ITIMER_PROF, 0)
            if failed:
                tell({"killed": failed.strip().splitlines()[-1][:300]})
                return
        tell({"survived": True})

    told, status = in_child(work)
    if told and told[-1].get("survived"):
        return None
    begun = [one["begun"] for one in told if "begun" in one]
    if not begun:
        raise RuntimeError(
            f"a trial ended before its first part, with status {status}: can the mutant be put in place?"
        )
    part = parts[begun[-1]][0]
    return Killed(part.ring, part.name, told[-1].get("killed", LIMIT))


def outcome(part: Part, roles: Roles | None) -> str:
    """What failed; an exception is a failure."""
    try:
        return part.check(roles)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def _memory() -> int:
    """Bytes of address space that this process has."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()

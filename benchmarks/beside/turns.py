"""What the workers of the plain engine would take if each had a core of its own, by their CPU seconds.

Workers wait for each other after each turn, and the searching process works between turns. So a search takes as long as
that process and the longest worker of each turn: that is known on a loaded machine, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidegauge.spec.kernel.shared.processes import Processes
from tidegauge.spec.kernel.shared.search import Watch

__all__ = ["Turns"]


class Turns:
    """CPU seconds of the longest worker in each turn."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Each turn counts from here on."""
        call = Processes.call

        def timed(
            crew: Processes, method: str, arguments: Sequence[tuple[Any, ...]], watch: Watch | None = None
        ) -> list[Any]:
            pids = [process.pid for process in crew._processes]
            before = [cpu_s(pid) for pid in pids]
            try:
                return call(crew, method, arguments, watch)
            finally:
                self.longest_s += max(cpu_s(pid) - since for pid, since in zip(pids, before, strict=True))

        Processes.call = timed  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            Processes.call = call  # type: ignore[method-assign]


def cpu_s(pid: int | None) -> float:
    """CPU seconds of the first thread of a process; 0 of one that is gone."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    except FileNotFoundError:
        return 0.0

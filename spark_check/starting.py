"""Why Spark did not start, in one line; what its JVM prints meanwhile is held back, and is told where Spark starts.

`TIDEGAUGE_TRACEBACK=1` shows all of it at once.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from threading import Lock, Thread

from tidegauge.spark_check.errors import CannotRun

logger = logging.getLogger("tidegauge.spark_check")

TRACEBACK = "TIDEGAUGE_TRACEBACK"
MASTERS = "local[N], spark://HOST:PORT, yarn or k8s://https://HOST:PORT"
_LOCAL = r"local(\[(0*[1-9]\d*|\*)(\s*,\s*\d+)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
_MASTER = re.compile(rf"{_LOCAL}|spark://.+|yarn|k8s://.+")
"""What Spark's SparkContext and SparkSubmit take."""
_ADDRESS = re.compile(r"\[?([^\[\],/]+?)\]?:(\d{1,5})")
CONNECT_SECONDS = 3.0

_THROWN = re.compile(r"(?:: |Exception in thread \S+ |Caused by: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error): (.+)")
_KILLED = re.compile(r"Application has been killed\. Reason: (.+)")
_CHATTER = re.compile(
    r"WARNING: |Using Spark's default|Setting default log level|To adjust logging|\d\d/\d\d/\d\d |\s+at "
)


class NoSpark(CannotRun):
    """PySpark is not installed, or its JVM does not start."""


def check_master(name: str, master: str) -> None:
    """Raise NoSpark for what can be no master of Spark's; `name` is that of the option or setting."""
    if _MASTER.fullmatch(master) is None:
        raise NoSpark(f"{name} {master}: Spark has no such master: give {MASTERS}")


def unreachable(master: str) -> str:
    """Why no host of a `spark://` master can be reached; empty if one can, or the master names none."""
    reasons = []
    for host, port in _ADDRESS.findall(master.removeprefix("spark://")) if master.startswith("spark://") else ():
        try:
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
        except (OSError, OverflowError, UnicodeError) as error:
            reasons.append(f"{host}:{port}: {getattr(error, 'strerror', None) or error}")
        else:
            return ""
    return "; ".join(reasons)


def reason_of(error: Exception, printed: Sequence[str] = ()) -> str:
    """Why Spark did not start, in its own words: of what was raised, or of what the JVM has printed."""
    lines = str(error).splitlines()
    for pattern, where in ((_KILLED, printed), (_THROWN, lines), (_THROWN, printed)):
        for line in where:
            if found := pattern.search(line):
                return found[1].strip()
    words = [line.strip() for line in printed if line.strip() and not _CHATTER.match(line)]
    return (words or [line for line in lines if line.strip()] or [type(error).__name__])[0]


class JvmOutput:
    """The standard error of the JVM: a pipe whose lines are held back until it is known whether Spark starts."""

    def __init__(self) -> None:
        self._reading, self.descriptor = os.pipe()
        self._lock, self._held = Lock(), list[str]()
        self._holds, self._goes_on = not os.environ.get(TRACEBACK), True
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def lines(self) -> list[str]:
        """What was held back so far; all of it, once the JVM has ended."""
        self.close()
        self._reader.join(1.0)
        with self._lock:
            return list(self._held)

    def let_go(self, *, goes_on: bool) -> None:
        """Spark has started: show what was held back and what comes, or drop both unless it `goes_on`."""
        self.close()
        with self._lock:
            self._holds, self._goes_on = False, goes_on or not self._holds
            for line in self._held if self._goes_on else ():
                _show(line)
            self._held.clear()

    def close(self) -> None:
        """Close our copy of what the JVM writes to, so that its end is seen."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _read(self) -> None:
        for line in _lines_of(self._reading):
            with self._lock:
                if self._holds:
                    self._held.append(line)
                elif self._goes_on:
                    _show(line)


def _lines_of(descriptor: int) -> Iterator[str]:
    with open(descriptor, encoding="utf-8", errors="replace") as pipe:
        for line in pipe:
            yield line.rstrip("\n")


def _show(line: str) -> None:
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)

"""The process that reads what passes a tap, and writes the recording: `python -m tidegauge.commands.tap_reader FD`.

It is begun by the tap, and ends when the tap has: by itself, also where the tap was killed. Signals of a terminal are
for the tap. One socket goes between them: a line with the order there, a line that says how it began back, copies of
what passes there, and when they have ended a line that says what was written back.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from tidegauge.impl.ports.clock import steady_ns
from tidegauge.impl.tap.copies import READS, Copies
from tidegauge.impl.tap.loading import load
from tidegauge.impl.tap.memory import Memory
from tidegauge.impl.tap.observer import Observer
from tidegauge.impl.tap.reader import Reader
from tidegauge.impl.tap.recording import FolderRecording, Rotation
from tidegauge.linearizability.json_objects import each_name_once
from tidegauge.log_output import LogLevel, write_log_lines


@attrs.frozen
class Written:
    """What became of a recording."""

    operations: int | None
    """None where nobody can say."""
    failure: str | None
    """Why it ended early."""


@attrs.define(eq=False)
class ReadingProcess:
    """A process that reads, and where to write what it reads."""

    copies: Copies
    began: int
    """The recording's time 0, in steady nanoseconds of all processes."""
    folder: Path
    process: subprocess.Popen[bytes]
    _socket: socket.socket

    @classmethod
    def start(
        cls, folder: Path, about: dict[str, Any], rotation: Rotation, memory: int, log_level: LogLevel
    ) -> ReadingProcess:
        """Make a recording in a folder. Raises OSError; FileExistsError where one is."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = (sys.executable, "-m", __name__, str(theirs.fileno()))
            process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
        order = {"folder": str(folder), "about": about, "memory": memory, "log_level": log_level}
        _tell(ours, {**order, "rotation": attrs.asdict(rotation)})
        told = _told(ours)
        if told is None or "why" in told:
            process.wait()
            ours.close()
            why = "the process that writes it did not begin" if told is None else told["why"]
            raise FileExistsError(why) if told is not None and told["exists"] else OSError(why)
        return cls(Copies(ours), told["began"], folder, process, ours)

    def now(self) -> int:
        """The recording's time, nanoseconds."""
        return steady_ns() - self.began

    def close(self) -> Written:
        """Wait until all is read and written."""
        self.copies.finish()
        told = _told(self._socket)
        self.process.wait()
        self.copies.close()
        if told is None:
            return Written(None, "the process that writes it ended early")
        return Written(told["operations"], told["failure"])


def _tell(there: socket.socket, what: dict[str, Any]) -> None:
    there.sendall(json.dumps(what).encode() + b"\n")


def _told(there: socket.socket) -> dict[str, Any] | None:
    """The next line, byte by byte: what follows it is for others. None where there is none."""
    line = bytearray()
    while not line.endswith(b"\n"):
        try:
            byte = there.recv(1)
        except OSError:
            return None
        if not byte:
            return None
        line += byte
    found: dict[str, Any] = json.loads(line, object_pairs_hook=each_name_once)
    return found


def main(descriptor: str) -> None:
    """Read what comes on a socket that the tap has left open, to its end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=int(descriptor)) as there:
        order = _told(there)
        if order is not None:
            write_log_lines(order["log_level"])
            _read(there, order, lambda what: _tell(there, what))


def _read(there: socket.socket, order: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> None:
    try:
        recording = FolderRecording(Path(order["folder"]), order["about"], Rotation(**order["rotation"]))
    except OSError as error:
        tell({"why": error.strerror or str(error), "exists": isinstance(error, FileExistsError)})
        return
    load(READS)
    tell({"began": recording.began})
    Reader(there, Observer(recording), Memory(order["memory"])).run()
    recording.close()
    with suppress(OSError):  # the tap was killed
        tell({"operations": recording.operations, "failure": recording.failure})


if __name__ == "__main__":
    main(sys.argv[1])

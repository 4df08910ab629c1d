"""A recording on disk: a folder with parts, JSON lines, of which a crash loses the last second at most.

Lines are held until the next snapshot, twice a second or when there are many of them. A snapshot writes them together
with the operations that have no end yet, ends with a line of its own, and is synced. A reader leaves out what comes
after the last such line, so that it sees all that was known at one time and nothing later.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import attrs

from tidegauge.impl.ports.clock import steady_ns
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.tap.exchange import Exchange, Line

LOGGER: Final = logging.getLogger(__name__)

ABOUT: Final = "tap.json"
FORMAT: Final = 1
BETWEEN_SNAPSHOTS: Final = 0.4
"""Seconds."""
MOST_HELD: Final = 4 << 20
"""Bytes of lines that bring about a snapshot; with four times as many, who brings more waits for it."""
_encode: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


@attrs.frozen
class Rotation:
    """When a part ends, and how many are kept."""

    most_bytes: int = 64 << 20
    most_seconds: float = 3600.0
    keep: int | None = None
    """The oldest parts beyond so many are deleted; None keeps all."""


class FolderRecording:
    """Lines of many threads, written by one of its own. Times in it are steady nanoseconds since it began."""

    def __init__(self, folder: Path, about: dict[str, Any], rotation: Rotation = Rotation()) -> None:
        """Make the folder and say in it what is recorded. Raises OSError; FileExistsError where a recording is."""
        self.folder = folder
        self.failure: str | None = None
        """Why nothing is recorded any more."""
        self.operations = 0
        self._rotation = rotation
        self.began = steady_ns()
        """Its time 0."""
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._held: list[str] = []
        self._size = 0
        self._open: dict[int, Exchange] = {}
        self._wake = threading.Event()
        self._stopped = False
        self._file = -1
        self._number = 0
        self._written = 0
        self._part_began = 0
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / ABOUT, "x", encoding="utf-8") as out:
            out.write(json.dumps({"tap": FORMAT, **about}) + "\n")
            out.flush()
            os.fsync(out.fileno())
        self._next_part()
        self._thread = threading.Thread(target=self._run, name="tap-recording", daemon=True)
        self._thread.start()

    def now(self) -> int:
        """Nanoseconds since the recording began."""
        return steady_ns() - self.began

    def begin(self, exchange: Exchange) -> None:
        with self._lock:
            self._open[exchange.number] = exchange

    def finish(self, exchange: Exchange, lines: Iterable[Line]) -> None:
        encoded = [_encode(line) for line in lines]
        with self._lock:
            self._open.pop(exchange.number, None)
            self._hold(encoded)

    def emit(self, lines: Iterable[Line]) -> None:
        encoded = [_encode(line) for line in lines]
        if encoded:
            with self._lock:
                self._hold(encoded)

    def _hold(self, encoded: list[str]) -> None:
        if self.failure is not None:
            return
        self.operations += len(encoded)
        self._held += encoded
        self._size += sum(map(len, encoded))
        if self._size > MOST_HELD:
            self._wake.set()
            while self._size > 4 * MOST_HELD and self.failure is None:
                self._room.wait()

    def close(self) -> None:
        """Write what is left, and end."""
        self._stopped = True
        self._wake.set()
        self._thread.join()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait(BETWEEN_SNAPSHOTS)
            self._wake.clear()
            self._guarded(self._snapshot)
        self._guarded(self._snapshot)

    def _guarded(self, write: Callable[[], None]) -> None:
        """What cannot be written ends the recording; clients are served all the same."""
        try:
            if self.failure is None:
                write()
        except OSError as error:
            with self._lock:
                self.failure = error.strerror or str(error)
                self._held, self._size = [], 0
                self._room.notify_all()
            log_event(
                LOGGER,
                logging.ERROR,
                "recording ended",
                folder=self.folder,
                why=self.failure,
                next="clients are served, and what they do is not recorded",
            )

    def _snapshot(self) -> None:
        """Write what is held, and which operations are open, as one piece."""
        with self._lock:
            held, self._held, self._size = self._held, [], 0
            opened = [one for one in self._open.values() if one.lines and not one.told]
            for one in opened:
                one.told = True
            self._room.notify_all()
        at = self.now()
        if not held and not opened:
            return
        lines = [_encode({**line, "open": True}) for one in opened for line in one.lines or ()]
        data = "\n".join([*lines, *held, _encode({"kind": "snapshot", "at": at}), ""]).encode()
        self._write(data)
        os.fdatasync(self._file)
        if self._written >= self._rotation.most_bytes or at - self._part_began >= self._rotation.most_seconds * 1e9:
            self._next_part()

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._file, left) :]
        self._written += len(data)

    def _next_part(self) -> None:
        """Begin a part, and delete those that are not to be kept."""
        if self._file >= 0:
            os.close(self._file)
        self._number += 1
        self._written = 0
        self._part_began = self.now()
        self._file = os.open(self._path(self._number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        directory = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        if self._rotation.keep is not None and self._number > self._rotation.keep:
            self._path(self._number - self._rotation.keep).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:06}.jsonl"

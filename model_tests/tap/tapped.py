"""A tap in this process before a cluster, and what its recording amounts to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from tidegauge.impl.ports.network import Address
from tidegauge.impl.tap.memory import Memory
from tidegauge.impl.tap.reader import ReadingThread
from tidegauge.impl.tap.recording import FolderRecording
from tidegauge.impl.tap.tap import Tap, load_messages
from tidegauge.linearizability.check import Verdicts, check
from tidegauge.linearizability.history import Operations
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.tapped.reading import Reader
from tidegauge.linearizability.tapped.resolving import Resolved, resolve

load_messages()  # the cluster's thread imports as well


@attrs.define(eq=False)
class Tapped:
    """A running tap, and later its recording."""

    folder: Path
    tap: Tap
    bootstrap: str

    @property
    def resolved(self) -> Resolved:
        reader = Reader.of(self.folder)
        reader.read_on()
        return resolve(reader)

    @property
    def operations(self) -> Operations:
        return self.resolved.operations

    def verdicts(self, level: Level = Level.KAFKA) -> Verdicts:
        return check(self.operations, level)


@contextmanager
def tapped(bootstrap: str, folder: Path, *, alone: bool = True, memory: int = 64 << 20) -> Iterator[Tapped]:
    """Run a tap before a cluster; nobody else sends records, unless `alone` is false."""
    upstream = [Address(host, int(port)) for host, _, port in (one.rpartition(":") for one in bootstrap.split(","))]
    recording = FolderRecording(folder, {"alone": alone})
    reading = ReadingThread.start(recording, Memory(memory))
    tap = Tap(tuple(upstream), reading.copies, recording.now, memory=Memory(memory))
    try:
        address = tap.start()
        yield Tapped(folder, tap, str(address))
    finally:
        tap.stop()
        reading.close()
        recording.close()

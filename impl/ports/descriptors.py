"""How many files a process keeps open: the least recently used are closed, and opened again when they are used.

Theory of operation
-------------------
A process may have so many descriptors, and others than its files take them: connections, the program's own modules,
whatever else its host does. When it has none left, a file that has to be opened takes the place of the one that was
used least recently, as long as one is open (`open_for_long`). A file that is open for a moment, in any thread, gets one
of a few spare descriptors that are kept for that (`open_for_a_moment`), and gives it back. So what is to be
written or decided need not wait for a descriptor.
"""

from __future__ import annotations

import os
import resource
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, TypeVar

import trio

from tidegauge.impl.ports.disk_errors import NO_DESCRIPTORS

_MOST_LATE: Final = 8
_MOST_CLOSED: Final = 3
"""Files that are closed for one: others may take what becomes free, and must not have all files closed."""
SPARE: Final = 6
"""More than a disk does at a time, in the background and beside that."""

T = TypeVar("T")


class OpenFile(Protocol):
    """A file whose descriptor may be closed."""

    @property
    def is_synced(self) -> bool:
        """Whether all that was written to it is on stable storage, or need not be."""

    def suspend(self, *, sync: bool) -> None:
        """Close the descriptor; with `sync`, write back first."""

    def failed_late(self, error: OSError) -> None:
        """Remember that a sync in the background has failed."""


class LateSync(Protocol):
    """What writes a file back whose descriptor was closed."""

    @property
    def file(self) -> OpenFile: ...

    def run(self) -> None:
        """Raises OSError."""


class Descriptors:
    """The files that are open, of all disks that share it: the least recently used are closed to keep to the limit."""

    def __init__(self, limit: int | None = None) -> None:
        """Without a limit a third of what the process may have, for there are sockets and others' files as well."""
        self.limit = max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 3) if limit is None else limit
        assert self.limit > 0, f"the limit of open files must be positive, not {limit}"
        self.open: OrderedDict[OpenFile, int] = OrderedDict()
        self._late: list[LateSync] = []
        self._is_short = False
        """Whether a descriptor is needed now, and not when a thread has synced its file."""
        self._spare: list[int] = []
        self._lock = threading.Lock()

    @property
    def late(self) -> int:
        """How many files are being written back after they were closed."""
        return len(self._late)

    # --- files that stay open -----------------------------------------------------------------------------------------

    def open_for_long(self, opening: Callable[[], int]) -> int:
        """What `opening` returns, which opens a file that others make room for; in the disk's own thread.

        Raises OSError as it does: without a descriptor only if no other file is left that could be closed.
        """
        while len(self.open) >= self.limit:
            file, _ = self.open.popitem(last=False)
            file.suspend(sync=True)
        for _ in range(_MOST_CLOSED):
            try:
                return opening()
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS or not self._close_one():
                    raise
        return opening()

    def _close_one(self) -> bool:
        """The one used least recently of those that need no sync, if there are such; False when none makes room."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        files = [file for file, descriptor in self.open.items() if descriptor < limit]
        if not files:
            return False
        file = next((one for one in files if one.is_synced), files[0])
        del self.open[file]
        self._is_short = True
        try:
            file.suspend(sync=True)
        finally:
            self._is_short = False
        return True

    def sync_late(self, sync: LateSync) -> None:
        """Write back what was closed unsynced, in a thread; should many be at it, here."""
        if self._is_short or len(self._late) >= _MOST_LATE:
            self._sync(sync)
            return
        self._late.append(sync)
        trio.lowlevel.start_thread_soon(lambda: self._sync(sync), lambda _: self._late.remove(sync))

    @staticmethod
    def _sync(sync: LateSync) -> None:
        try:
            sync.run()
        except OSError as error:
            sync.file.failed_late(error)

    # --- files for a moment -------------------------------------------------------------------------------------------

    def open_for_a_moment(self, opening: Callable[[], T]) -> T:
        """What `opening` returns, which needs one descriptor, or a spare one; `fill` is to follow. In any thread."""
        for _ in range(SPARE):
            try:
                return opening()
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS:
                    raise
                self._give_spare()
        return opening()

    def _give_spare(self) -> None:
        with self._lock:
            if self._spare:
                os.close(self._spare.pop())

    def fill(self) -> None:
        """Keep spare descriptors while files are open; in any thread."""
        if len(self._spare) == (SPARE if self.open else 0):
            return
        with self._lock, suppress(OSError):
            while not self.open and self._spare:
                os.close(self._spare.pop())
            while self.open and len(self._spare) < SPARE:
                self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

"""How many files a process keeps open: the least recently used are closed, and opened again when they are used."""

from __future__ import annotations

import resource
from collections import OrderedDict
from typing import Final, Protocol

import trio

_MOST_LATE: Final = 8


class OpenFile(Protocol):
    """A file whose descriptor may be closed."""

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

    @property
    def late(self) -> int:
        """How many files are being written back after they were closed."""
        return len(self._late)

    def make_room(self) -> None:
        """For one more."""
        while len(self.open) >= self.limit:
            file, _ = self.open.popitem(last=False)
            file.suspend(sync=True)

    def sync_late(self, sync: LateSync) -> None:
        """Write back what was closed unsynced, in a thread; should many be at it, here."""
        if len(self._late) >= _MOST_LATE:
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

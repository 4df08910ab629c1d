"""A disk that can be told to fail: a wrapper around any other, the real one or the simulated one.

Theory of operation
-------------------
Every operation on the disk and on its files first asks the *failures* that are in force. A failure names the operations
it concerns, the directory under which, the error, and how often; the operation then raises that `OSError` and has done
nothing. A *full* directory lets appends write what fits and raises ENOSPC for the rest, as file systems do. A *slow*
one waits before each operation.

Without anything in force an operation costs one test more.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from typing import Final, TypeVar

import attrs

from tidegauge.impl.ports.disk import ENDLESS, Buffer, DescribedFile, Disk, DiskLock, File, PendingSync

T = TypeVar("T")


class Operation(Enum):
    """What can be done to a disk."""

    OPEN = "open"
    READ = "read"
    APPEND = "append"
    TRUNCATE = "truncate"
    SYNC = "sync"
    RENAME = "rename"
    REMOVE = "remove"
    LIST = "list"
    MAKE_DIRECTORY = "make directory"
    SYNC_DIRECTORY = "sync directory"


EVERYTHING: Final = frozenset(Operation)
WRITES: Final = EVERYTHING - {Operation.OPEN, Operation.READ, Operation.LIST}
SYNCS: Final = frozenset({Operation.SYNC, Operation.SYNC_DIRECTORY})


@attrs.define(eq=False)
class Failure:
    """Operations under a path that fail, until `times` is used up (None: never) or the failure is lifted."""

    under: str
    operations: Collection[Operation]
    error: int
    times: int | None

    def concerns(self, operation: Operation, path: str) -> bool:
        return operation in self.operations and is_under(path, self.under)


@attrs.define(eq=False)
class Quota:
    """How many more bytes may be appended under a path."""

    under: str
    free_bytes: int


class FailingDisk:
    """A disk, and what is wrong with it."""

    def __init__(self, disk: Disk, wait: Callable[[float], None] | None = None) -> None:
        """`wait` lets time pass for a slow disk, given in seconds; without it the disk's own does, if it has one."""
        self.disk = disk
        self._wait = wait or getattr(disk, "wait", None)
        self._failures: list[Failure] = []
        self._quotas: list[Quota] = []
        self._delays: dict[str, float] = {}
        self._counting = threading.Lock()  # syncs come from several threads
        self.watch: Callable[[Operation, str], None] | None = None
        """Called before every operation, with its path."""
        self.armed = False
        """Whether anything is in force."""

    # What can be wrong with it

    def fail(
        self,
        under: str = "",
        *,
        operations: Collection[Operation] = EVERYTHING,
        error: int = errno.EIO,
        times: int | None = None,
    ) -> None:
        """Let operations under a path fail with an error number, the next `times` or all of them."""
        self._failures.append(Failure(under, frozenset(operations), error, times))
        self._arm()

    def fill(self, under: str = "", free_bytes: int = 0) -> None:
        """Leave only so many bytes free under a path: what is appended beyond raises ENOSPC."""
        self._quotas = [quota for quota in self._quotas if quota.under != under]
        self._quotas.append(Quota(under, free_bytes))
        self._arm()

    def slow(self, seconds: float, under: str = "") -> None:
        """Let every operation under a path take so much longer; 0 ends it. Raises ValueError where time cannot pass."""
        if self._wait is None:
            raise ValueError("this disk cannot wait: its host's time is not the disk's to spend")
        self._delays.pop(under, None)
        if seconds > 0:
            self._delays[under] = seconds
        self._arm()

    def end_slowness(self) -> None:
        """Make no operation take longer any more."""
        self._delays = {}
        self._arm()

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Let a bit of a file rot, at a position in bytes; nobody is told, and nothing heals it."""
        self.disk.flip_bit(path, position, bit)  # type: ignore[attr-defined]

    def heal(self, under: str | None = None) -> None:
        """Lift what is in force for a path, or everything."""
        self._failures = [f for f in self._failures if under is not None and f.under != under]
        self._quotas = [q for q in self._quotas if under is not None and q.under != under]
        self._delays = {path: s for path, s in self._delays.items() if under is not None and path != under}
        self._arm()

    def _arm(self) -> None:
        self.armed = bool(self._failures or self._quotas or self._delays or self.watch)

    def watched_by(self, watch: Callable[[Operation, str], None] | None) -> None:
        """Call a function before every operation; None: no more."""
        self.watch = watch
        self._arm()

    def meet(self, operation: Operation, path: str) -> None:
        """Whatever is in force for this operation. Raises OSError."""
        if self.watch is not None:
            self.watch(operation, path)
        if self._wait is not None:
            for under, seconds in list(self._delays.items()):
                if is_under(path, under):
                    self._wait(seconds)
        with self._counting:
            for failure in self._failures:
                if failure.concerns(operation, path):
                    if failure.times is not None:
                        failure.times -= 1
                        if failure.times == 0:
                            self._failures.remove(failure)
                            self._arm()
                    raise OSError(failure.error, os.strerror(failure.error), path)

    def take_room(self, path: str, size: int) -> int:
        """How many of `size` bytes there is room for; they are taken."""
        for quota in self._quotas:
            if is_under(path, quota.under):
                size = max(0, min(size, quota.free_bytes))
        for quota in self._quotas:
            if is_under(path, quota.under):
                quota.free_bytes -= size
        return size

    # The disk port

    def open(self, path: str, *, create: bool = False) -> FailingFile:
        if self.armed:
            self.meet(Operation.OPEN, path)
        return self._failing(path, self.disk.open(path, create=create))

    def open_apart(self, path: str, *, create: bool = False) -> FailingFile:
        if self.armed:
            self.meet(Operation.OPEN, path)
        return self._failing(path, self.disk.open_apart(path, create=create))

    def read_whole(self, path: str, most: int = ENDLESS) -> bytes | None:
        if self.armed:
            self.meet(Operation.OPEN, path)
            self.meet(Operation.READ, path)
        return self.disk.read_whole(path, most)

    def _failing(self, path: str, file: File) -> FailingFile:
        kind = FailingDescribedFile if isinstance(file, DescribedFile) else FailingFile
        return kind(self, path, file)

    def exists(self, path: str) -> bool:
        return self.disk.exists(path)

    def size(self, path: str) -> int:
        return self.disk.size(path)

    def list_directory(self, path: str) -> Sequence[str]:
        if self.armed:
            self.meet(Operation.LIST, path)
        return self.disk.list_directory(path)

    def rename(self, source: str, target: str) -> None:
        if self.armed:
            self.meet(Operation.RENAME, source)
        self.disk.rename(source, target)

    def remove(self, path: str) -> None:
        if self.armed:
            self.meet(Operation.REMOVE, path)
        self.disk.remove(path)

    def make_directory(self, path: str) -> None:
        if self.armed:
            self.meet(Operation.MAKE_DIRECTORY, path)
        self.disk.make_directory(path)

    def create_directory(self, path: str) -> bool:
        if self.armed:
            self.meet(Operation.MAKE_DIRECTORY, path)
        return self.disk.create_directory(path)

    def remove_directory(self, path: str) -> None:
        if self.armed:
            self.meet(Operation.REMOVE, path)
        self.disk.remove_directory(path)

    def sync_directory(self, path: str) -> None:
        if self.armed:
            self.meet(Operation.SYNC_DIRECTORY, path)
        self.disk.sync_directory(path)

    def lock(self, path: str) -> DiskLock:
        if self.armed:
            self.meet(Operation.OPEN, path)
        return self.disk.lock(path)

    def space(self, path: str) -> tuple[int, int]:
        return self.disk.space(path)

    async def in_background(self, work: Callable[[], T]) -> T:
        return await self.disk.in_background(work)

    def all_at_once(self, works: Iterable[Callable[[], None]]) -> None:
        self.disk.all_at_once(works)


class FailingFile:
    """A file on such a disk."""

    def __init__(self, disk: FailingDisk, path: str, file: File) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, *parts: Buffer) -> None:
        if self._disk.armed:
            self._disk.meet(Operation.APPEND, self._path)
            size = sum(map(len, parts))
            room = self._disk.take_room(self._path, size)
            if room < size:
                self._file.append(b"".join(parts)[:room])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        self._file.append(*parts)

    def read(self, position: int, size: int) -> bytes:
        if self._disk.armed:
            self._disk.meet(Operation.READ, self._path)
        return self._file.read(position, size)

    def truncate(self, size: int) -> None:
        if self._disk.armed:
            self._disk.meet(Operation.TRUNCATE, self._path)
        self._file.truncate(size)

    def sync(self) -> None:
        if self._disk.armed:
            self._disk.meet(Operation.SYNC, self._path)
        self._file.sync()

    def begin_sync(self) -> FailingSync:
        return FailingSync(self._disk, self._path, self._file.begin_sync())

    def close(self) -> None:
        self._file.close()


class FailingSync:
    """A sync that is yet to be done, and may fail then."""

    def __init__(self, disk: FailingDisk, path: str, sync: PendingSync) -> None:
        self._disk = disk
        self._path = path
        self._sync = sync

    def run(self) -> None:
        try:
            if self._disk.armed:
                self._disk.meet(Operation.SYNC, self._path)
        except OSError:
            self._sync.drop()
            raise
        self._sync.run()

    def drop(self) -> None:
        self._sync.drop()


class FailingDescribedFile(FailingFile, DescribedFile):
    """One that the operating system knows by a descriptor."""

    def descriptor(self) -> int:
        """Good until the next use of the disk. A failure of reading is met here: what follows is not seen."""
        if self._disk.armed:
            self._disk.meet(Operation.READ, self._path)
        found: int = self._file.descriptor()  # type: ignore[attr-defined]
        return found

    def reaches(self, size: int) -> bool:
        found: bool = self._file.reaches(size)  # type: ignore[attr-defined]
        return found


def is_under(path: str, under: str) -> bool:
    """Whether a path is a directory, or in it; everything is under ""."""
    return not under or path == under or path.startswith(f"{under.rstrip('/')}/")

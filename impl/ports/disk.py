"""The disk port: the few file operations that a log needs, and the real disk.

Theory of operation
-------------------
Everything durable in a broker goes through `Disk` and `File`. The port is synchronous (a file-system call does not
yield to other tasks) and narrow: files grow at the end, are read at any position, are cut, and are synced. What a
caller may rely on is what POSIX promises and no more:

* bytes are on stable storage after `File.sync` returned, and may be lost or torn before;
* the *name* of a file is on stable storage after `Disk.sync_directory` of its directory returned; creating, renaming or
  removing it may be undone by a crash before;
* `rename` replaces its target atomically: a crash shows the old file or the new one, never a mixture.

A failed operation raises `OSError`, as the operating system would. After a failed `sync` nothing is known about the
bytes written since the last good one, and a later successful `sync` does not bring them back (the page cache forgets
that they were dirty): so stop using the file, and recover it by reading it again.

A sync takes long and nothing else does, so that is what may be done elsewhere: `File.begin_sync` gives what has to be
done as a `PendingSync`, which any thread may run, and `Disk.in_background` and `Disk.all_at_once` are the threads.
Where a disk takes no time they do it at once, in order, in the caller's.

Two implementations: `RealDisk` here, `SimulatedDisk` in `simulated_disk`.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

import trio

from tidegauge.impl.ports.descriptors import Descriptors
from tidegauge.impl.ports.disk_errors import NO_DESCRIPTORS
from tidegauge.impl.ports.side_by_side import do_side_by_side

Buffer: TypeAlias = bytes | bytearray | memoryview

T = TypeVar("T")

MAX_VECTORS = 512
"""Buffers handed to one vectored write; every POSIX system takes at least 16, Linux and macOS 1024."""
BACKGROUND_THREADS: Final = 4
"""What one disk does in the background at a time."""
ENDLESS: Final = 1 << 63
"""More bytes than any file has."""


class PendingSync(Protocol):
    """A sync that is yet to be done: of the bytes that a file had when it was made."""

    def run(self) -> None:
        """Return once they are on stable storage; once, in any thread. Raises OSError."""

    def drop(self) -> None:
        """Instead of `run`: leave it."""


class File(Protocol):
    """One open file."""

    @property
    def size(self) -> int:
        """Length in bytes, unsynced appends included."""

    def append(self, *parts: Buffer) -> None:
        """Write the parts one after the other at the end.

        Raises OSError (ENOSPC, EIO); then any prefix of the parts may have been written: cut it off with `truncate`.
        """

    def read(self, position: int, size: int) -> bytes:
        """The bytes [position, position + size), fewer where the file ends."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes (not more than it has). Durable only after `sync`."""

    def sync(self) -> None:
        """Return once all bytes, and the length, are on stable storage."""

    def begin_sync(self) -> PendingSync:
        """What `sync` would do now, for later; it outlives `close`."""

    def close(self) -> None:
        """Let go of the file. Does not sync."""


class DiskLockedError(OSError):
    """Somebody else holds the lock."""


class DiskLock(Protocol):
    """A lock that is held."""

    def release(self) -> None:
        """Let go of it; a process that dies lets go as well."""


class Disk(Protocol):
    """A file system with '/'-separated paths."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for reading and appending. Raises FileNotFoundError when it is missing and not created.

        PermissionError where a pipe or a device has its name: it could not be read again.
        """

    def open_apart(self, path: str, *, create: bool = False) -> File:
        """As `open`, for a moment and in any thread; nobody else uses the file meanwhile."""

    def read_whole(self, path: str, most: int = ENDLESS) -> bytes | None:
        """A file's content, in any thread; None when it has more than `most` bytes. Raises as `open` and `read` do."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""

    def size(self, path: str) -> int:
        """Length of a file in bytes."""

    def list_directory(self, path: str) -> Sequence[str]:
        """Names (not paths) in a directory, sorted."""

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name in the same directory, replacing a file of that name atomically."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def make_directory(self, path: str) -> None:
        """Create a directory and those above it, durably; one that exists is fine."""

    def create_directory(self, path: str) -> bool:
        """Create a directory in one that is there; False when it exists. Its name is not yet durable.

        Raises FileNotFoundError when the one above is missing.
        """

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def sync_directory(self, path: str) -> None:
        """Return once the names in this directory are on stable storage."""

    def lock(self, path: str) -> DiskLock:
        """Lock a file, made if it is missing, for as long as the process lives. Raises DiskLockedError if it is."""

    def space(self, path: str) -> tuple[int, int]:
        """(total, usable) bytes of the file system that holds a directory; (-1, -1) where nobody knows."""

    async def in_background(self, work: Callable[[], T]) -> T:
        """Do what waits for the disk while other tasks go on, and is not cancelled; at once where nothing waits."""

    def all_at_once(self, works: Iterable[Callable[[], None]]) -> None:
        """Do all of it, in any order, and return when all is done. Raises the first OSError among them."""


_sync_data = getattr(os, "fdatasync", os.fsync)


def _name_file(error: OSError, path: str) -> None:
    """Have an error of a descriptor say which file it is about."""
    if error.filename is None:
        error.filename = path


@contextmanager
def _naming(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _name_file(error, path)
        raise


class DescriptorHolder(Protocol):
    """The owner of files' descriptors."""

    def descriptor_of(self, file: "RealFile") -> int: ...

    def release(self, file: "RealFile") -> None: ...

    def sync_late(self, sync: "RealSync") -> None: ...


class DescribedFile:
    """A file that the operating system knows by a descriptor.

    This is a plain base class because every large read tests for it with `isinstance`, which is slow for a protocol.
    """

    def read(self, position: int, size: int) -> bytes:
        """The bytes [position, position + size), as `File.read`."""
        raise NotImplementedError

    def descriptor(self) -> int:
        """Good until the next use of the disk."""
        raise NotImplementedError

    def reaches(self, size: int) -> bool:
        """Whether the file has so many bytes now, as the file system says. Raises OSError."""
        raise NotImplementedError


class RealFile(DescribedFile):
    """A file of the operating system whose descriptor the disk may close and reopen to stay within its limit."""

    def __init__(self, disk: "DescriptorHolder", path: str, descriptor: int, *, is_lasting: bool = True) -> None:
        """`is_lasting`: as for the disk (`RealDisk`)."""
        self._disk = disk
        self.path = path
        self.is_lasting = is_lasting
        """Its present name; "" when another file has taken it."""
        self._descriptor: int | None = descriptor
        self._size = _size_of(descriptor, path)
        self.changes = 0
        """How often it was written or cut."""
        self.synced_changes = 0
        """How many of them are known to be on stable storage."""
        self._error: OSError | None = None
        self._closed = False

    @property
    def size(self) -> int:
        return self._size

    def append(self, *parts: Buffer) -> None:
        descriptor = self._disk.descriptor_of(self)
        self.changes += 1
        try:
            if len(parts) == 1:
                (data,) = parts
                written = os.pwrite(descriptor, data, self._size)
                self._size += written
                if written != len(data):
                    self._write(descriptor, memoryview(data)[written:])
                return
            for first in range(0, len(parts), MAX_VECTORS):
                chunk = parts[first : first + MAX_VECTORS]
                written = os.pwritev(descriptor, chunk, self._size)
                self._size += written
                if written != sum(map(len, chunk)):
                    self._write(descriptor, memoryview(b"".join(chunk))[written:])
        except OSError as error:
            _name_file(error, self.path)
            raise

    def _write(self, descriptor: int, data: Buffer) -> None:
        while data:
            written = os.pwrite(descriptor, data, self._size)
            self._size += written
            data = memoryview(data)[written:]

    def read(self, position: int, size: int) -> bytes:
        descriptor = self._disk.descriptor_of(self)
        try:
            data = os.pread(descriptor, size, position)
            if len(data) == size or position + len(data) >= self._size:
                return data
            parts = [data]
            position, size = position + len(data), size - len(data)
            while size and (more := os.pread(descriptor, size, position)):
                parts.append(more)
                position, size = position + len(more), size - len(more)
            return b"".join(parts)
        except OSError as error:
            _name_file(error, self.path)
            raise

    def descriptor(self) -> int:
        return self._disk.descriptor_of(self)

    def reaches(self, size: int) -> bool:
        with _naming(self.path):
            return os.fstat(self.descriptor()).st_size >= size

    def truncate(self, size: int) -> None:
        assert 0 <= size <= self._size, f"cannot cut {self.path} of {self._size} bytes to {size}"
        descriptor = self._disk.descriptor_of(self)
        with _naming(self.path):
            os.ftruncate(descriptor, size)
        self._size = size
        self.changes += 1

    def sync(self) -> None:
        descriptor = self._disk.descriptor_of(self)
        self.raise_late_error()
        with _naming(self.path):
            if self.is_lasting:
                _sync_data(descriptor)
        self.synced_changes = self.changes

    def begin_sync(self) -> PendingSync:
        """Where no descriptor is left for the sync, the file is synced here: what is open needs no other one."""
        descriptor = self._disk.descriptor_of(self)
        self.raise_late_error()
        try:
            return RealSync(self, os.dup(descriptor), self.changes)
        except OSError as error:
            if error.errno not in NO_DESCRIPTORS:
                _name_file(error, self.path)
                raise
        try:
            self.sync()
        except OSError as error:
            self.failed_late(error)
        return SyncedFile(self)

    def close(self) -> None:
        self._closed = True
        self._disk.release(self)

    def reopen(self) -> int:
        """A descriptor again, after `suspend`. Raises what the sync at that time had to report."""
        self.raise_late_error()
        if self._closed:
            raise ValueError(f"{self.path} is closed")
        self._descriptor = _opened(self.path, create=False)
        return self._descriptor

    @property
    def is_synced(self) -> bool:
        return not self.is_lasting or self.synced_changes >= self.changes

    def suspend(self, *, sync: bool) -> None:
        """Close the descriptor; with `sync`, write back first, for a sync on a later descriptor may miss the error."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        if sync and not self.is_synced:
            self._disk.sync_late(RealSync(self, descriptor, self.changes))
        else:
            os.close(descriptor)

    def failed_late(self, error: OSError) -> None:
        """Remember that a sync in the background has failed: every later sync of the file raises its error."""
        self._error = error

    def raise_late_error(self) -> None:
        """Raise what a sync in the background had to report, if anything."""
        if self._error is not None:
            raise self._error


class SyncedFile:
    """A sync that was done when it was asked for."""

    def __init__(self, file: RealFile) -> None:
        self._file = file

    def run(self) -> None:
        self._file.raise_late_error()

    def drop(self) -> None:
        pass


class RealSync:
    """A sync that is yet to be done, with a descriptor of its own."""

    def __init__(self, file: RealFile, descriptor: int, changes: int) -> None:
        self.file = file
        self._descriptor = descriptor
        self._changes = changes

    def run(self) -> None:
        try:
            if self.file.is_lasting:
                _sync_data(self._descriptor)
        except OSError as error:
            _name_file(error, self.file.path)
            self.file.failed_late(error)
            raise
        finally:
            os.close(self._descriptor)
        self.file.raise_late_error()  # the system tells of a failure once, to the first of several syncs
        self.file.synced_changes = max(self.file.synced_changes, self._changes)

    def drop(self) -> None:
        os.close(self._descriptor)


class _Apart:
    """Holds one descriptor until it is released."""

    def __init__(self, descriptor: int, descriptors: Descriptors) -> None:
        self._descriptor = descriptor
        self._descriptors = descriptors

    def descriptor_of(self, file: RealFile) -> int:
        return self._descriptor

    def release(self, file: RealFile) -> None:
        file.suspend(sync=False)
        self._descriptors.fill()

    def sync_late(self, sync: RealSync) -> None:
        raise AssertionError("it is never closed before it is released")


class RealDisk:
    """The operating system's file system, with no more files open at any time than its `descriptors` allow."""

    def __init__(
        self, max_open_files: int | None = None, descriptors: Descriptors | None = None, *, is_lasting: bool = True
    ) -> None:
        """`is_lasting`: whether the files are to outlast this process; others need not survive a power failure, so
        that their syncs leave them to the system, which writes them back when it likes or not at all.
        """
        self.is_lasting = is_lasting
        self.descriptors = Descriptors(max_open_files) if descriptors is None else descriptors
        self._open = self.descriptors.open
        self._threads: trio.CapacityLimiter | None = None
        self._files: dict[str, tuple[RealFile, ...]] = {}
        """Files that are in use, with a descriptor or without, by their present names; hardly ever two of one name."""
        self._newest: RealFile | None = None

    def open(self, path: str, *, create: bool = False) -> RealFile:
        descriptor = self.descriptors.open_for_long(partial(_opened, path, create=create))
        file = RealFile(self, path, descriptor, is_lasting=self.is_lasting)
        self._open[file] = descriptor
        self.descriptors.fill()
        self._files[path] = (*self._files.get(path, ()), file)
        self._newest = file
        return file

    def open_apart(self, path: str, *, create: bool = False) -> RealFile:
        descriptor = self._opened_for_a_moment(path, create=create)
        return RealFile(_Apart(descriptor, self.descriptors), path, descriptor, is_lasting=self.is_lasting)

    def _opened_for_a_moment(self, path: str, *, create: bool = False) -> int:
        return self.descriptors.open_for_a_moment(partial(_opened, path, create=create))

    def read_whole(self, path: str, most: int = ENDLESS) -> bytes | None:
        descriptor = self._opened_for_a_moment(path)
        size = _size_of(descriptor, path)
        try:
            data = os.read(descriptor, size) if size <= most else None
            while data is not None and len(data) < size and (more := os.read(descriptor, size - len(data))):
                data += more
        except OSError as error:
            _name_file(error, path)
            raise
        finally:
            os.close(descriptor)
            self.descriptors.fill()
        return data

    def sync_late(self, sync: RealSync) -> None:
        self.descriptors.sync_late(sync)

    def descriptor_of(self, file: RealFile) -> int:
        """The file's descriptor, reopened if need be; marks the file as used most recently."""
        descriptor = self._open.get(file)
        if descriptor is None:
            descriptor = self._open[file] = self.descriptors.open_for_long(file.reopen)
        elif file is not self._newest:
            self._open.move_to_end(file)
        self._newest = file
        return descriptor

    def release(self, file: RealFile) -> None:
        """Close the file's descriptor for good."""
        self._open.pop(file, None)
        if namesakes := tuple(one for one in self._files.pop(file.path, ()) if one is not file):
            self._files[file.path] = namesakes
        file.suspend(sync=False)
        self.descriptors.fill()

    @property
    def open_files(self) -> int:
        """Descriptors open now."""
        return len(self._open)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def list_directory(self, path: str) -> Sequence[str]:
        names = self.descriptors.open_for_a_moment(partial(os.listdir, path))
        self.descriptors.fill()
        return sorted(names)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)
        for replaced in self._files.pop(target, ()):
            replaced.path = ""  # it has no name any more: without its descriptor it is gone
        moved = self._files.pop(source, None)
        for file in moved or ():
            file.path = target
        if moved:
            self._files[target] = moved

    def remove(self, path: str) -> None:
        os.remove(path)

    def make_directory(self, path: str) -> None:
        if os.path.isdir(path):
            return
        parent = os.path.dirname(os.path.abspath(path))
        self.make_directory(parent)
        os.mkdir(path)
        self.sync_directory(parent)

    def create_directory(self, path: str) -> bool:
        try:
            os.mkdir(path)
        except FileExistsError:
            return False
        return True

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = self.descriptors.open_for_a_moment(partial(os.open, path, flags))
        try:
            with _naming(path):
                if self.is_lasting:
                    os.fsync(descriptor)
        finally:
            os.close(descriptor)
            self.descriptors.fill()

    async def in_background(self, work: Callable[[], T]) -> T:
        if self._threads is None:
            self._threads = trio.CapacityLimiter(BACKGROUND_THREADS)
        return await trio.to_thread.run_sync(work, limiter=self._threads)

    def all_at_once(self, works: Iterable[Callable[[], None]]) -> None:
        do_side_by_side(works)

    def wait(self, seconds: float) -> None:
        """Let time pass, for a disk that is told to be slow."""
        time.sleep(seconds)

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Let a bit of a file rot."""
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            (byte,) = os.pread(descriptor, 1, position)
            os.pwrite(descriptor, bytes((byte ^ 1 << bit,)), position)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> "RealLock":
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DiskLockedError(errno.EAGAIN, "locked by another process", path) from None
        except OSError:
            os.close(descriptor)
            raise
        return RealLock(descriptor)

    def space(self, path: str) -> tuple[int, int]:
        stats = os.statvfs(path)
        return stats.f_frsize * stats.f_blocks, stats.f_frsize * stats.f_bavail


def _opened(path: str, *, create: bool) -> int:
    return os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)


def _size_of(descriptor: int, path: str) -> int:
    """Of a file; a pipe or a device under its name has none, is closed again and refused as a forbidden name is."""
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode):
        return found.st_size
    os.close(descriptor)
    raise PermissionError(errno.EPERM, "it is no regular file", path)


class RealLock:
    """A lock of the operating system, bound to one open file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

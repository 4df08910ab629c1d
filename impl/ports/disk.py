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
that they were dirty): the only right answer is to stop using the file and to recover it by reading it again.

Two implementations: `RealDisk` here, `SimulatedDisk` in `simulated_disk`.
"""

import errno
import fcntl
import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_VECTORS = 512
"""Buffers handed to one vectored write; every POSIX system takes at least 16, Linux and macOS 1024."""


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
        """Open a file for reading and appending. Raises FileNotFoundError when it is missing and not created."""

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

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def sync_directory(self, path: str) -> None:
        """Return once the names in this directory are on stable storage."""

    def lock(self, path: str) -> DiskLock:
        """Lock a file, made if it is missing, for as long as the process lives. Raises DiskLockedError if it is."""

    def space(self, path: str) -> tuple[int, int]:
        """(total, usable) bytes of the file system that holds a directory; (-1, -1) where nobody knows."""


_sync_data = getattr(os, "fdatasync", os.fsync)


class RealFile:
    """A file of the operating system whose descriptor the disk may close and reopen to stay within its limit."""

    def __init__(self, disk: "RealDisk", path: str, descriptor: int) -> None:
        self._disk = disk
        self.path = path
        """Its present name; "" when another file has taken it."""
        self._descriptor: int | None = descriptor
        self._size = os.fstat(descriptor).st_size
        self._unsynced = False
        self._error: OSError | None = None
        self._closed = False

    @property
    def size(self) -> int:
        return self._size

    def append(self, *parts: Buffer) -> None:
        descriptor = self._disk.descriptor_of(self)
        self._unsynced = True
        if len(parts) == 1:
            self._write(descriptor, parts[0])
            return
        for first in range(0, len(parts), MAX_VECTORS):
            chunk = parts[first : first + MAX_VECTORS]
            written = os.pwritev(descriptor, chunk, self._size)
            self._size += written
            if written != sum(map(len, chunk)):
                self._write(descriptor, memoryview(b"".join(chunk))[written:])

    def _write(self, descriptor: int, data: Buffer) -> None:
        written = os.pwrite(descriptor, data, self._size)
        self._size += written
        while written != len(data):
            data = memoryview(data)[written:]
            written = os.pwrite(descriptor, data, self._size)
            self._size += written

    def read(self, position: int, size: int) -> bytes:
        descriptor = self._disk.descriptor_of(self)
        data = os.pread(descriptor, size, position)
        if len(data) == size or position + len(data) >= self._size:
            return data
        parts = [data]
        position, size = position + len(data), size - len(data)
        while size and (more := os.pread(descriptor, size, position)):
            parts.append(more)
            position, size = position + len(more), size - len(more)
        return b"".join(parts)

    def descriptor(self) -> int:
        """Good until the next use of the disk."""
        return self._disk.descriptor_of(self)

    def truncate(self, size: int) -> None:
        assert 0 <= size <= self._size, f"cannot cut {self.path} of {self._size} bytes to {size}"
        os.ftruncate(self._disk.descriptor_of(self), size)
        self._size = size
        self._unsynced = True

    def sync(self) -> None:
        _sync_data(self._disk.descriptor_of(self))
        self._unsynced = False

    def close(self) -> None:
        self._closed = True
        self._disk.release(self)

    def reopen(self) -> int:
        """A descriptor again, after `suspend`. Raises what the sync at that time had to report."""
        if self._error is not None:
            raise self._error
        if self._closed:
            raise ValueError(f"{self.path} is closed")
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        return self._descriptor

    def suspend(self, *, sync: bool) -> None:
        """Close the descriptor; with `sync`, write back first, for a sync on a later descriptor may miss the error."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if sync and self._unsynced:
                _sync_data(descriptor)
                self._unsynced = False
        except OSError as error:
            self._error = error
        finally:
            os.close(descriptor)


class RealDisk:
    """The operating system's file system, with at most `max_open_files` descriptors open at any time."""

    def __init__(self, max_open_files: int = 512) -> None:
        assert max_open_files > 0, f"max_open_files must be positive, not {max_open_files}"
        self._max_open_files = max_open_files
        self._open: OrderedDict[RealFile, int] = OrderedDict()
        self._files: dict[str, set[RealFile]] = {}
        """Files that are in use, with a descriptor or without, by their present names."""
        self._newest: RealFile | None = None

    def open(self, path: str, *, create: bool = False) -> RealFile:
        self._make_room()
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        descriptor = os.open(path, flags, 0o644)
        file = RealFile(self, path, descriptor)
        self._open[file] = descriptor
        self._files.setdefault(path, set()).add(file)
        self._newest = file
        return file

    def descriptor_of(self, file: RealFile) -> int:
        """The file's descriptor, reopened if need be; marks the file as used most recently."""
        descriptor = self._open.get(file)
        if descriptor is None:
            self._make_room()
            descriptor = self._open[file] = file.reopen()
        elif file is not self._newest:
            self._open.move_to_end(file)
        self._newest = file
        return descriptor

    def release(self, file: RealFile) -> None:
        """Close the file's descriptor for good."""
        self._open.pop(file, None)
        namesakes = self._files.get(file.path, set())
        namesakes.discard(file)
        if not namesakes:
            self._files.pop(file.path, None)
        file.suspend(sync=False)

    def _make_room(self) -> None:
        while len(self._open) >= self._max_open_files:
            file, _ = self._open.popitem(last=False)
            file.suspend(sync=True)

    @property
    def open_files(self) -> int:
        """Descriptors open now."""
        return len(self._open)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def list_directory(self, path: str) -> Sequence[str]:
        return sorted(os.listdir(path))

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

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

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


class RealLock:
    """A lock of the operating system, bound to one open file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

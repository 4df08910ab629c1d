"""The simulated disk: one broker's files in memory, with everything that a disk can do to them.

Theory of operation
-------------------
A file is its bytes and how many of them are *synced*; a directory is its names and a journal of the changes to them
since it was last synced. Reading sees everything. A crash keeps what is synced and, of the rest,

* of every file some prefix of the bytes that were appended since (torn in the middle of a batch, as likely as not); a
  cut that was not synced either happened, or not, and then later appends are lost;
* of every directory some prefix of the changes to its names: files that were created may be missing with all their
  bytes, renamed ones have their old name, removed ones are back.

Which prefixes is up to the random generator that the disk was given, or to the caller of `crash`, in bytes if need
be. The disk is off after a crash until `power_on`, and files opened before stay dead for ever, so that tasks of the
dead broker that still run cannot touch what the next one finds.

Other faults are asked for beforehand: `fail_next_sync` (the sync raises EIO, and the bytes that it should have saved
never become synced, though later syncs claim so: that is what Linux does), `lose_next_sync` (the same without a
word), `sync_delay`, `flip_bit`, `zero`, and a `capacity` in bytes beyond which appends are cut short with ENOSPC.
"""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, TypeVar

import trio

from tidegauge.impl.ports.disk import ENDLESS, Buffer, DiskLockedError

T = TypeVar("T")


LONGEST_NAME: Final = 255
"""Bytes in a name, as in most file systems."""


class CrashOutcome(Enum):
    """What becomes of unsynced things in a crash."""

    SEEDED = "seeded"
    """The random generator picks a prefix."""
    LOST = "lost"
    KEPT = "kept"


class _FileNode:
    def __init__(self) -> None:
        self.content = bytearray()
        self.synced = 0
        """Length of the prefix of the content that is on stable storage."""
        self.uncut = b""
        """What stable storage holds after that prefix: bytes cut off since the last sync."""
        self.dropped_pages = False
        """A sync failed: what was unsynced then will never be synced."""

    def truncate(self, size: int) -> None:
        if size < self.synced:
            self.uncut = bytes(self.content[size : self.synced]) + self.uncut
            self.synced = size
        del self.content[size:]

    def sync(self) -> None:
        if not self.dropped_pages:
            self.synced, self.uncut = len(self.content), b""

    def crash(self, kept: int, *, uncut: bool) -> None:
        """Keep so many unsynced bytes; with `uncut`, the bytes that were cut off come back instead."""
        del self.content[self.synced + (0 if uncut else kept) :]
        if uncut:
            self.content += self.uncut
        self.synced, self.uncut, self.dropped_pages = len(self.content), b"", False


class _DirectoryNode:
    def __init__(self) -> None:
        self.entries: dict[str, _Node] = {}
        self.stable: dict[str, _Node] = {}
        self.journal: list[dict[str, _Node | None]] = []

    def change(self, names: dict[str, _Node | None]) -> None:
        """Give names (None: take them away), all at once."""
        self.journal.append(names)
        _apply(self.entries, names)

    def sync(self) -> None:
        self.stable = dict(self.entries)
        self.journal.clear()

    def crash(self, kept: int) -> None:
        """Keep the first `kept` changes since the last sync."""
        for names in self.journal[:kept]:
            _apply(self.stable, names)
        self.entries = dict(self.stable)
        self.journal.clear()


_Node = _FileNode | _DirectoryNode


def _apply(entries: dict[str, _Node], names: Mapping[str, _Node | None]) -> None:
    for name, node in names.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class SimulatedFile:
    """A file opened on a simulated disk; dead after the disk's next crash."""

    def __init__(self, disk: SimulatedDisk, path: str, node: _FileNode) -> None:
        self._disk = disk
        self._path = _normal(path)
        self._node = node
        self._boot = disk.boots
        self._is_open = True
        disk.open_files[self._path] += 1

    def _check(self) -> None:
        if self._boot != self._disk.boots or not self._disk.online:
            raise OSError(errno.EIO, "opened before the disk's last crash", self._path)

    def _check_open(self) -> None:
        self._check()
        if not self._is_open:
            raise ValueError(f"{self._path} is closed")

    @property
    def size(self) -> int:
        return len(self._node.content)

    def append(self, *parts: Buffer) -> None:
        self._check_open()
        for part in parts:
            room = self._disk.reserve(len(part))
            self._node.content += part if room == len(part) else memoryview(part)[:room]
            if room < len(part):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)

    def read(self, position: int, size: int) -> bytes:
        self._check_open()
        with memoryview(self._node.content) as view:
            return bytes(view[position : position + size])

    def truncate(self, size: int) -> None:
        self._check_open()
        assert 0 <= size <= self.size, f"cannot cut {self._path} of {self.size} bytes to {size}"
        self._disk.reserve(size - self.size)
        self._node.truncate(size)

    def sync(self) -> None:
        self._check()
        if self._disk.take_lost_sync(self._path):
            self._node.dropped_pages = True
        if self._disk.take_failed_sync(self._path):
            self._node.dropped_pages = True
            raise OSError(errno.EIO, os.strerror(errno.EIO), self._path)
        self._node.sync()

    def begin_sync(self) -> SimulatedSync:
        return SimulatedSync(self)

    def close(self) -> None:
        if self._is_open and self._boot == self._disk.boots and self._disk.online:
            self._disk.open_files[self._path] -= 1
        self._is_open = False


class SimulatedSync:
    """A sync that is yet to be done."""

    def __init__(self, file: SimulatedFile) -> None:
        self._file = file

    def run(self) -> None:
        self._file.sync()

    def drop(self) -> None:
        """Nothing is held."""


class SimulatedLock:
    """A lock that goes with the machine."""

    def __init__(self, locks: set[str], path: str) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        self._locks.discard(self._path)


class SimulatedDisk:
    """One broker's disk. All choices come from `rng`; the same calls with the same generator give the same bytes."""

    def __init__(
        self,
        rng: random.Random,
        capacity: int | None = None,
        until_running: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """
        capacity: in bytes of file contents; None: without end. May be changed at any time.
        until_running: waits for a process that stands still, before it learns that a delayed sync is done.
        """
        self._until_running = until_running
        self.capacity = capacity
        self.used = 0
        """Bytes in all files."""
        self.online = True
        self.boots = 0
        """How many times it was switched on again."""
        self.syncs = 0
        """How many times a file was synced."""
        self.open_files = Counter[str]()
        """How often each file is open, by the path that it was opened by; a crash closes all."""
        self.sync_delay = 0.0
        """Seconds that work in the background waits, which is syncs: a crash meanwhile finds them not done."""
        self.waiting = 0
        """How much of that work waits now."""
        self._rng = rng
        self._root = _DirectoryNode()
        self._failing_syncs: list[str] = []
        self._lost_syncs: list[str] = []
        self._locks: set[str] = set()

    # The disk port

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        directory, name = self._parent(path)
        node = directory.entries.get(name)
        if node is None and create:
            node = _FileNode()
            directory.change({name: node})
        if not isinstance(node, _FileNode):
            raise _not_found(path) if node is None else IsADirectoryError(errno.EISDIR, "is a directory", path)
        return SimulatedFile(self, path, node)

    def open_apart(self, path: str, *, create: bool = False) -> SimulatedFile:
        return self.open(path, create=create)

    def read_whole(self, path: str, most: int = ENDLESS) -> bytes | None:
        file = self.open(path)
        return file.read(0, file.size) if file.size <= most else None

    def exists(self, path: str) -> bool:
        self._check_online()
        return self._find(path) is not None

    def size(self, path: str) -> int:
        return len(self._file(path).content)

    def list_directory(self, path: str) -> Sequence[str]:
        return sorted(self._directory(path).entries)

    def rename(self, source: str, target: str) -> None:
        directory, name = self._parent(source)
        target_directory, target_name = self._parent(target)
        assert directory is target_directory, f"{source} and {target} are not in the same directory"
        node = directory.entries.get(name)
        if node is None:
            raise _not_found(source)
        replaced = directory.entries.get(target_name)
        if isinstance(replaced, _DirectoryNode) and replaced.entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        if isinstance(replaced, _FileNode) and replaced is not node:
            self.used -= len(replaced.content)
        directory.change({name: None, target_name: node})

    def remove(self, path: str) -> None:
        directory, name = self._parent(path)
        self.used -= len(self._file(path).content)
        directory.change({name: None})

    def make_directory(self, path: str) -> None:
        self._check_online()
        directory = self._root
        for name in _components(path):
            node = directory.entries.get(name)
            if node is None:
                node = _DirectoryNode()
                directory.change({name: node})
                directory.sync()
            if not isinstance(node, _DirectoryNode):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            directory = node

    def create_directory(self, path: str) -> bool:
        directory, name = self._parent(path)
        if name in directory.entries:
            return False
        directory.change({name: _DirectoryNode()})
        return True

    def remove_directory(self, path: str) -> None:
        directory, name = self._parent(path)
        if self._directory(path).entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        directory.change({name: None})

    def sync_directory(self, path: str) -> None:
        self._directory(path).sync()

    def lock(self, path: str) -> SimulatedLock:
        self._check_online()
        if path in self._locks:
            raise DiskLockedError(errno.EAGAIN, "locked by another process", path)
        self.open(path, create=True)
        self._locks.add(path)
        return SimulatedLock(self._locks, path)

    def space(self, path: str) -> tuple[int, int]:
        self._directory(path)
        return (-1, -1) if self.capacity is None else (self.capacity, max(0, self.capacity - self.used))

    async def in_background(self, work: Callable[[], T]) -> T:
        if self.sync_delay:
            self.waiting += 1
            try:
                await trio.sleep(self.sync_delay)
                if self._until_running is not None:
                    await self._until_running()
            finally:
                self.waiting -= 1
        return work()

    def all_at_once(self, works: Iterable[Callable[[], None]]) -> None:
        failure = None
        for work in works:
            try:
                work()
            except OSError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    # Faults

    def crash(
        self,
        keep: Mapping[str, int] | None = None,
        *,
        tails: CrashOutcome = CrashOutcome.SEEDED,
        names: CrashOutcome = CrashOutcome.SEEDED,
    ) -> None:
        """Lose what is not synced, and switch off.

        `tails` says what becomes of unsynced bytes, `names` of unsynced changes to directories; `keep` says of some
        files (by path, as they are called before the crash) exactly how many bytes of the unsynced tail survive.
        """
        chosen = {_normal(path): kept for path, kept in (keep or {}).items()}
        paths = {id(node): path for path, node in self._walk()}
        unknown = sorted(set(chosen) - set(paths.values()))
        assert not unknown, f"there is no file {unknown[0] if unknown else None} to keep bytes of"
        self._crash_directory(self._root, names)
        for path, node in list(self._walk()):
            if isinstance(node, _FileNode):
                before = paths.get(id(node), path)
                self._crash_file(node, before, chosen.get(before), tails)
        self.used = sum(len(node.content) for _, node in self._walk() if isinstance(node, _FileNode))
        self._failing_syncs.clear()
        self._lost_syncs.clear()
        self._locks = set()
        self.online = False
        self.open_files.clear()

    def _crash_directory(self, directory: _DirectoryNode, outcome: CrashOutcome) -> None:
        directory.crash(self._prefix(len(directory.journal), outcome))
        for _, node in sorted(directory.entries.items()):
            if isinstance(node, _DirectoryNode):
                self._crash_directory(node, outcome)

    def _crash_file(self, node: _FileNode, path: str, chosen: int | None, outcome: CrashOutcome) -> None:
        unsynced = len(node.content) - node.synced
        if chosen is not None:
            assert 0 <= chosen <= unsynced, f"cannot keep {chosen} bytes of the {unsynced} unsynced ones of {path}"
            node.crash(chosen, uncut=False)
            return
        uncut = bool(node.uncut) and self._prefix(1, outcome) == 0
        node.crash(self._prefix(unsynced, outcome), uncut=uncut)

    def _prefix(self, length: int, outcome: CrashOutcome) -> int:
        if outcome is not CrashOutcome.SEEDED or length == 0:
            return length if outcome is CrashOutcome.KEPT else 0
        # All and nothing are as likely as everything between them together.
        return self._rng.choice((0, length, self._rng.randint(0, length), self._rng.randint(0, length)))

    def power_on(self) -> None:
        """Serve again, with what survived."""
        self.online = True
        self.boots += 1

    def fail_next_sync(self, under: str = "") -> None:
        """Let the next sync of a file under a path raise EIO; what was unsynced then never becomes synced."""
        self._failing_syncs.append(_normal(under))

    def lose_next_sync(self, under: str = "") -> None:
        """Let the next sync of a file under a path do nothing, and those after it, until a crash."""
        self._lost_syncs.append(_normal(under))

    @property
    def loses_next_sync(self) -> bool:
        """Whether a sync that is to be lost is yet to come."""
        return bool(self._lost_syncs)

    def flip_bit(self, path: str, position: int | None = None, bit: int = 0) -> int:
        """Let a bit of a file rot, at a position in bytes or somewhere; returns the position."""
        content = self._file(path).content
        where = self._rng.randrange(len(content)) if position is None else position
        content[where] ^= 1 << bit
        return where

    def zero(self, path: str, start: int, end: int) -> None:
        """Let a place of a file be lost: it reads as zeroes."""
        self._file(path).content[start:end] = bytes(end - start)

    # What tests and harnesses look at

    def unsynced(self, path: str) -> int:
        """Bytes at the end of a file that a crash may take."""
        node = self._file(path)
        return len(node.content) - node.synced

    def unsynced_names(self, path: str) -> frozenset[str]:
        """The names in a directory that a crash may take, give back, or give to another file."""
        return frozenset(name for names in self._directory(path).journal for name in names)

    def files(self) -> dict[str, bytes]:
        """Every file's bytes, by path."""
        return {path: bytes(node.content) for path, node in self._walk() if isinstance(node, _FileNode)}

    # For open files

    def reserve(self, size: int) -> int:
        """Take up to `size` bytes of the capacity, or give some back (negative); returns how many there were."""
        if self.capacity is not None and size > 0:
            size = max(0, min(size, self.capacity - self.used))
        self.used += size
        return size

    def take_failed_sync(self, path: str) -> bool:
        """Whether this sync is one that shall fail."""
        self.syncs += 1
        return _take(self._failing_syncs, path)

    def take_lost_sync(self, path: str) -> bool:
        """Whether this sync is one that shall be lost."""
        return _take(self._lost_syncs, path)

    # The tree

    def _check_online(self) -> None:
        if not self.online:
            raise OSError(errno.EIO, "the disk is off since its crash: call power_on() first")

    def _find(self, path: str) -> _Node | None:
        node: _Node | None = self._root
        for name in _components(path):
            node = node.entries.get(name) if isinstance(node, _DirectoryNode) else None
        return node

    def _directory(self, path: str) -> _DirectoryNode:
        self._check_online()
        node = self._find(path)
        if not isinstance(node, _DirectoryNode):
            raise _not_found(path) if node is None else NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return node

    def _file(self, path: str) -> _FileNode:
        node = self._find(path)
        if not isinstance(node, _FileNode):
            raise _not_found(path)
        return node

    def _parent(self, path: str) -> tuple[_DirectoryNode, str]:
        directory, _, name = path.rstrip("/").rpartition("/")
        if len(name.encode()) > LONGEST_NAME:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
        return self._directory(directory), name

    def _walk(self, directory: _DirectoryNode | None = None, prefix: str = "") -> Iterator[tuple[str, _Node]]:
        for name, node in sorted((directory or self._root).entries.items()):
            path = f"{prefix}/{name}" if prefix else name
            yield path, node
            if isinstance(node, _DirectoryNode):
                yield from self._walk(node, path)


def _components(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _normal(path: str) -> str:
    return "/".join(_components(path))


def _take(armed: list[str], path: str) -> bool:
    for under in armed:
        if not under or path == under or path.startswith(f"{under}/"):
            armed.remove(under)
            return True
    return False


def _not_found(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

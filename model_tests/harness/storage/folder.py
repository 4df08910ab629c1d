"""States of a search in files of a folder, and its checkpoints.

A checkpoint is `checkpoint.json`: what it is of, and for each array its file, how much of it counts, and a checksum.
What counts of a file is not written to again: a search appends, or begins another file. So a checkpoint stays whole
while the search goes on, until the next one takes its place in one step; only then files are removed that it alone had.
A process may therefore be killed, or run out of disk, at any moment.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pickle
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tidegauge.model_tests.harness.storage.identity import differences
from tidegauge.model_tests.harness.storage.mapped_file import MappedFile
from tidegauge.model_tests.harness.storage.unpickling import loaded
from tidegauge.spec.kernel.json_objects import each_name_once
from tidegauge.spec.kernel.storage import CheckpointError, StorageError

__all__ = ["EVERY_S", "Folder", "begun", "passing", "resumed"]

EVERY_S = 60.0
"""Seconds between two checkpoints."""
MANIFEST = "checkpoint.json"
FORMAT = 1
_RESIDENT = 8
"""What part of the memory the files may take."""


@contextmanager
def passing(memory: int | None, parent: Path | None = None) -> Iterator[Folder]:
    """Files for a search that leaves none behind, in a new folder under `parent`, or under that of temporary files."""
    with tempfile.TemporaryDirectory(prefix="tidegauge-states-", dir=parent) as path, _locked(Path(path)):
        yield Folder(Path(path), None, memory, EVERY_S)


@contextmanager
def begun(path: Path, identity: Mapping[str, str], memory: int | None, every_s: float = EVERY_S) -> Iterator[Folder]:
    """A folder for the checkpoints of a new search. Raises CheckpointError if it has one."""
    path.mkdir(parents=True, exist_ok=True)
    if others := [entry.name for entry in path.iterdir() if not _is_ours(entry.name)]:  # no lock is left with them
        raise CheckpointError(f"{path} has other files ({', '.join(sorted(others)[:3])}): name another folder")
    with _locked(path):
        if (path / MANIFEST).exists():
            raise CheckpointError(f"{path} has a checkpoint: resume it, or name another folder")
        folder = Folder(path, identity, memory, every_s)
        with folder:
            yield folder


@contextmanager
def resumed(path: Path, identity: Mapping[str, str], memory: int | None, every_s: float = EVERY_S) -> Iterator[Folder]:
    """The folder of a search to go on with. Raises CheckpointError if it has no checkpoint of it, or a damaged one."""
    if not (path / MANIFEST).exists():
        raise CheckpointError(f"{path} has no checkpoint: name the folder of an earlier one, or begin a new search")
    with _locked(path):
        folder = Folder(path, identity, memory, every_s)
        try:
            folder.read()
        except CheckpointError as error:
            told = f"the checkpoint in {path} cannot be resumed: {error}: begin a new search in another folder"
            raise CheckpointError(told) from error.__cause__
        with folder:
            yield folder


class Folder:
    """A storage (`tidegauge.spec.kernel.storage`) whose arrays are files. Without an identity nothing is saved."""

    def __init__(
        self, path: Path, identity: Mapping[str, str] | None, memory: int | None, every_s: float = EVERY_S
    ) -> None:
        self.path, self.identity, self.memory, self.every_s = path, identity, memory, every_s
        self.clock: Callable[[], float] = time.monotonic
        self.checkpoints = 0
        """Saved by this process."""
        self._files: dict[str, MappedFile] = {}
        self._content: Mapping[str, Any] | None = None
        self._made = 0
        self._last = self.clock()
        self._saved_files: frozenset[str] = frozenset()
        """Those of the checkpoint."""
        if not (path / MANIFEST).exists():
            self._remove_others()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing but the checkpoint."""
        for name in [*self._files]:
            self._files.pop(name).close()
        self._remove_others()

    # --- arrays ------------------------------------------------------------------------------------------------------

    def array(self, name: str, kind: type[np.generic], count: int, lanes: int = 0) -> npt.NDArray[Any]:
        with self._told():
            if name in self._files:
                self.remove(name)
            file = self._files[name] = MappedFile(self._new(name), np.dtype(kind), count, lanes)
            return file.array

    def grown(self, name: str, least: int) -> npt.NDArray[Any]:
        """It has an eighth more: nothing is copied, and twice as much may take half of the disk for nothing."""
        with self._told():
            file = self._files[name]
            file.grow(max(least, len(file.array) + len(file.array) // 8))
            return file.array

    def remove(self, name: str) -> None:
        file = self._files.pop(name)
        file.close()
        if self.identity is None:
            file.path.unlink(missing_ok=True)

    def opened(self, name: str) -> npt.NDArray[Any]:
        return self._files[name].array

    def begin(self) -> None:
        self._content = None
        for name in [*self._files]:
            self.remove(name)

    def release(self) -> None:
        if self.memory is not None and _mapped_bytes() > self.memory // _RESIDENT:
            for file in self._files.values():
                file.release()

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def is_due(self) -> bool:
        return self.identity is not None and self.clock() - self._last >= self.every_s

    def save(self, counts: Mapping[str, int], content: Mapping[str, Any]) -> None:
        if self.identity is None:
            return
        with self._told():
            arrays = {name: self._saved(self._files[name], count) for name, count in counts.items()}
            packed = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
            file = self._new("content")
            _write(file, packed)
            kept = {"file": file.name, "bytes": len(packed), "crc32": zlib.crc32(packed)}
            manifest = {"format": FORMAT, "of": dict(self.identity), "arrays": arrays, "content": kept}
            text = json.dumps({"sha256": _hash_of(manifest), **manifest}, indent=1)
            partial = self.path / f".{MANIFEST}.part"
            _write(partial, text.encode())
            partial.replace(self.path / MANIFEST)
            _sync_folder(self.path)
        self._saved_files = frozenset([file.name, *[array["file"] for array in arrays.values()]])
        self._remove_others()
        self.checkpoints += 1
        self._last = self.clock()

    def saved(self) -> Mapping[str, Any] | None:
        return self._content

    def read(self) -> None:
        """Read and check the checkpoint. Raises CheckpointError."""
        manifest = _manifest_in(self.path / MANIFEST)
        if found := differences(manifest["of"], self.identity or {}):
            raise CheckpointError(found)
        for name, saved in manifest["arrays"].items():
            self._files[name] = self._checked(saved)
        kept = manifest["content"]
        try:
            packed = (self.path / kept["file"]).read_bytes()
        except OSError as error:
            raise CheckpointError(f"{kept['file']} cannot be read ({error.strerror})") from error
        if len(packed) != kept["bytes"] or zlib.crc32(packed) != kept["crc32"]:
            raise CheckpointError(f"{kept['file']} is damaged")
        try:
            self._content = loaded(packed)
        except Exception as error:
            raise CheckpointError(f"{kept['file']} cannot be read: {error}") from error
        self._saved_files = frozenset([kept["file"], *[saved["file"] for saved in manifest["arrays"].values()]])
        self._made = max(int(name.rpartition(".")[2]) for name in self._saved_files)
        self._remove_others()

    def _checked(self, saved: Mapping[str, Any]) -> MappedFile:
        path, kind = self.path / saved["file"], np.dtype(saved["kind"])
        size = saved["count"] * kind.itemsize * (saved["lanes"] or 1)
        there = path.stat().st_size if path.exists() else -1
        if there < size:
            raise CheckpointError(
                f"{path.name} has {there:,} bytes, not {size:,}" if there >= 0 else f"{path.name} is gone"
            )
        file = MappedFile(path, kind, max(saved["count"], saved["room"]), saved["lanes"], is_new=False)
        if file.checksum(saved["count"]) != saved["crc32"]:
            raise CheckpointError(f"{path.name} is damaged")
        return file

    def _saved(self, file: MappedFile, count: int) -> dict[str, Any]:
        checksum = file.checksum(count)
        file.sync()
        kept = {"file": file.path.name, "kind": file.kind.str, "lanes": file.lanes, "count": count}
        return {**kept, "room": len(file.array), "crc32": checksum}

    def _new(self, name: str) -> Path:
        self._made += 1
        return self.path / f"{name}.{self._made}"

    def _remove_others(self) -> None:
        kept = {*self._saved_files, *[file.path.name for file in self._files.values()], MANIFEST, LOCK}
        with suppress(OSError):  # the folder may have gone, which a search is told when it writes
            for entry in [*self.path.iterdir()]:
                if entry.name not in kept and _is_ours(entry.name):
                    with suppress(OSError):
                        entry.unlink()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What remains, for a search that cannot go on."""
        try:
            yield
        except (OSError, StorageError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            remains = "no checkpoint was saved"
            if (self.path / MANIFEST).exists():
                remains = f"the last checkpoint in {self.path} is whole: make room, and resume it"
            raise StorageError(f"states cannot be kept in {self.path}: {why}; {remains}") from error


LOCK = "lock"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One search at a time has the folder. Raises CheckpointError."""
    descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CheckpointError(f"another search uses {path}") from None
        yield
    finally:
        os.close(descriptor)


def _is_ours(name: str) -> bool:
    stem, _, number = name.rpartition(".")
    return name in {MANIFEST, LOCK, f".{MANIFEST}.part"} or (bool(stem) and number.isdecimal())


def _manifest_in(path: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(path.read_bytes(), object_pairs_hook=each_name_once)
        told = manifest.pop("sha256")
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{path.name} is damaged") from error
    if told != _hash_of(manifest):
        raise CheckpointError(f"{path.name} is damaged")
    if manifest["format"] != FORMAT:
        raise CheckpointError(f"{path.name} has format {manifest['format']}, not {FORMAT}")
    return manifest


def _hash_of(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mapped_bytes() -> int:
    """Memory that files take in this process; where the system does not say, more than any limit."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[2])
    except OSError:
        return 2**62
    return pages * os.sysconf("SC_PAGE_SIZE")

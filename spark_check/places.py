"""Files and folders by path or URI, on whatever file system pyarrow or fsspec can reach.

A local path and a `file://` URI are the same place. `s3a://` (and `s3n://`) is `s3://`; S3, Google Cloud Storage, Azure
and HDFS are read by pyarrow, whose URIs may end in options (`s3://bucket/folder?endpoint_override=…`); every other
scheme is read by the fsspec implementation of that name, if it is installed. Credentials come from where these file
systems look for them on the machine in question: environment, profile, role.

`put` is atomic everywhere. An object store shows an object once its last byte is there; elsewhere the file is written
under the name of the attempt and renamed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
import pyarrow as pa
import pyarrow.fs as pafs

from tidegauge.linearizability.parquet import ParquetTable, open_parquet
from tidegauge.spark_check.errors import CannotRun

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/?]*)(.*)", re.DOTALL)
_OPTIONS = re.compile(r"\?\w+=[^?]*$")
_SYNONYMS = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
OBJECT_STORES = frozenset({"s3", "gs", "abfs", "abfss"})
"""Schemes at which pyarrow writes an object, which is there as a whole or not at all."""
BY_PYARROW = OBJECT_STORES | {"hdfs", "viewfs"}
_MAGIC = re.compile(r"[*?[]")
PARTIAL = ".partial"


class Unreachable(CannotRun):
    """A file system that is not installed, not there, or does not let us in."""


@attrs.frozen(order=True)
class Place:
    """A file or a folder. `uri` is an absolute path if it is local. Pickled, it means the same on another machine."""

    uri: str
    size: int | None = attrs.field(default=None, eq=False, order=False)
    """Bytes, if a listing has said so."""
    modified: int | None = attrs.field(default=None, eq=False, order=False)
    """Nanoseconds since 1970, likewise."""
    table: str | None = attrs.field(default=None, eq=False, order=False)
    """The table that the file is a part of: its histories may go on in other files of that."""

    @classmethod
    def of(cls, place: str | Path | Place) -> Place:
        """The place that a user names. Local links are followed; two names of one file are one place."""
        if isinstance(place, Place):
            return place
        found = _URI.fullmatch(place) if isinstance(place, str) else None
        if found is None:
            return cls(str(Path(place).resolve()))
        scheme, authority, rest = found[1].lower(), found[2], found[3]
        if scheme == "file":
            return cls(str(Path(rest or "/").resolve()))
        options = _OPTIONS.search(rest)
        path = rest[: options.start()] if options else rest
        return cls(f"{scheme}://{authority}{path.rstrip('/')}{options[0] if options else ''}")

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> Place:
        uri, options = _split(self.uri)
        return Place(f"{uri.rstrip('/')}/{name}{options}")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return _split(self.uri)[0].rpartition("/")[2]

    @property
    def parent(self) -> Place:
        """The folder in which this is; itself, if it is the whole file system or bucket."""
        uri, options = _split(self.uri)
        above = uri.rstrip("/").rpartition("/")[0]
        return Place((above or "/") + options) if not above.endswith("/") else self

    @property
    def suffix(self) -> str:
        """What the name ends in, from its last dot on."""
        return Path(self.name).suffix

    @property
    def stem(self) -> str:
        """The name without the suffix."""
        return Path(self.name).stem

    @property
    def local(self) -> bool:
        """Whether it is on this machine's file system."""
        return "://" not in self.uri

    @property
    def for_spark(self) -> str:
        """The URI as Spark takes it: without pyarrow's options."""
        return _split(self.uri)[0]

    @property
    def file_system(self) -> tuple[pafs.FileSystem, str]:
        """The file system, and the path in it. Raises Unreachable."""
        uri, options = _split(self.uri)
        found = _URI.fullmatch(uri)
        if found is None:
            return _local(), self.uri
        scheme, authority, path = _SYNONYMS.get(found[1], found[1]), found[2], found[3]
        try:
            if scheme in BY_PYARROW:
                files, root = _by_pyarrow(f"{scheme}://{authority}/{options}")
                return files, f"{root.rstrip('/')}/{path.lstrip('/')}".rstrip("/") or "/"
            return _by_fsspec(uri)
        except CannotRun:
            raise
        except Exception as error:  # each file system has errors of its own
            raise Unreachable(f"{self.uri} cannot be reached: {error}") from error

    def info(self) -> pafs.FileInfo:
        """What is there. Raises Unreachable."""
        files, path = self.file_system
        try:
            return files.get_file_info(path)
        except OSError as error:
            raise Unreachable(f"{self.uri} cannot be reached: {error}") from error

    def exists(self) -> bool:
        """Whether there is a file or a folder."""
        return bool(self.info().type != pafs.FileType.NotFound)

    def is_folder(self) -> bool:
        """Whether there is a folder; on an object store, whether something lies under the name."""
        return bool(self.info().type == pafs.FileType.Directory)

    def files(self, recursive: bool = False) -> Iterator[Place]:
        """The files in this folder; none if it does not exist."""
        for place, kind in self._inside(recursive):
            if kind == pafs.FileType.File:
                yield place

    def is_empty(self) -> bool:
        """Whether nothing lies in this folder."""
        return next(self._inside(False), None) is None

    def _inside(self, recursive: bool) -> Iterator[tuple[Place, pafs.FileType]]:
        files, path = self.file_system
        uri, options = _split(self.uri)
        try:
            found = files.get_file_info(pafs.FileSelector(path, recursive=recursive, allow_not_found=True))
        except OSError as error:
            raise Unreachable(f"{self.uri} cannot be listed: {error}") from error
        for one in found:
            inside = one.path.removeprefix(path).lstrip("/")
            if inside:
                size = one.size if one.type == pafs.FileType.File else None
                yield Place(f"{uri.rstrip('/')}/{inside}{options}", size, one.mtime_ns), one.type

    def matches(self) -> list[Place]:
        """The files and folders that the pattern names: `*`, `?`, `[…]` in a name, `**` for any folders.

        None of them stands for a dot or an underscore that a name begins with.
        """
        uri, options = _split(self.uri)
        parts = uri.split("/")
        first = next(number for number, part in enumerate(parts) if _MAGIC.search(part))
        base = Place("/".join(parts[:first]) + options if first > 1 or parts[0] else "/")
        return sorted(set(_matching(base, parts[first:])))

    @property
    def is_pattern(self) -> bool:
        """Whether the path has characters of a pattern."""
        return bool(_MAGIC.search(_split(self.uri)[0]))

    @contextmanager
    def open_parquet(self) -> Iterator[ParquetTable]:
        """The Parquet file. Raises OSError and ArrowException."""
        files, path = self.file_system
        with open_parquet(files, path, pre_buffer=not self.local) as table:
            yield table

    def read(self, start: int = 0, stop: int | None = None) -> bytes:
        """The content, or a part of it. Raises OSError."""
        files, path = self.file_system
        with files.open_input_file(path) as file:
            content: bytes = file.read_at((file.size() if stop is None else stop) - start, start)
        return content

    def put(self, content: bytes | pa.Buffer) -> None:
        """Write the file: as a whole or not at all. Raises OSError.

        All who put a file here put the same: what another attempt has put is as good as ours.
        """
        files, path = self.file_system
        if _is_object_store(self.uri):
            _write(files, path, content)
            return
        folder, _, name = path.rpartition("/")
        beside = f"{folder}/.{name}.{uuid4().hex[:12]}{PARTIAL}"
        try:
            _write(files, beside, content)
            try:
                files.move(beside, path)
            except OSError:
                # HDFS does not rename onto a file that is there, and a twin of this job may have swept ours away.
                if files.get_file_info(path).type != pafs.FileType.File:
                    raise
            else:
                # Over WebHDFS a rename that was not done is no error.
                if not self.local and files.get_file_info(path).type != pafs.FileType.File:
                    raise OSError(f"{self.uri} was written, and is not there: it could not be renamed")
        finally:
            if files.get_file_info(beside).type == pafs.FileType.File:
                files.delete_file(beside)

    def try_to_put(self) -> None:
        """Raise OSError if `put` could not put a file here. What is here stays as it is."""
        files, path = self.file_system
        folder, _, name = path.rpartition("/")
        beside = f"{folder}/.{name}.{uuid4().hex[:12]}{PARTIAL}"
        _write(files, beside, b"")
        with suppress(OSError):  # who may write objects may not be allowed to delete any
            files.delete_file(beside)

    def has_folder(self) -> bool:
        """Whether the folder is there in which this is; an object store needs none. Raises Unreachable."""
        files, path = self.file_system
        folder = path.rpartition("/")[0]
        try:
            return _is_object_store(self.uri) or files.get_file_info(folder or "/").type == pafs.FileType.Directory
        except OSError as error:
            raise Unreachable(f"{self.uri} cannot be reached: {error}") from error

    def is_within(self, folder: Place) -> bool:
        """Whether this is `folder`, or in it, by what they are called: `s3://` is `s3a://`."""
        return f"{_called(self.uri)}/".startswith(f"{_called(folder.uri)}/")

    def make_folder(self) -> None:
        """Make the folder and those above it; an object store has none. Raises OSError."""
        files, path = self.file_system
        if not _is_object_store(self.uri):
            files.create_dir(path, recursive=True)

    def delete(self) -> None:
        """Delete the file, if it is there."""
        files, path = self.file_system
        if files.get_file_info(path).type == pafs.FileType.File:
            files.delete_file(path)


def _is_object_store(uri: str) -> bool:
    found = _URI.fullmatch(uri)
    return found is not None and _SYNONYMS.get(found[1], found[1]) in OBJECT_STORES


def _split(uri: str) -> tuple[str, str]:
    """The URI without its options, and the options. A `?` of a pattern begins none."""
    options = _OPTIONS.search(uri) if "://" in uri else None
    return (uri[: options.start()], options[0]) if options else (uri, "")


def _called(uri: str) -> str:
    """The URI without options, under the one name of its scheme."""
    scheme, separator, rest = _split(uri)[0].rstrip("/").partition("://")
    return f"{_SYNONYMS.get(scheme, scheme)}{separator}{rest}"


def _write(files: pafs.FileSystem, path: str, content: bytes | pa.Buffer) -> None:
    with files.open_output_stream(path) as stream:
        stream.write(content)


@cache
def _local() -> pafs.LocalFileSystem:
    return pafs.LocalFileSystem()


@cache
def _by_pyarrow(root: str) -> tuple[pafs.FileSystem, str]:
    """One file system for each bucket or host: to find a bucket's region takes a request."""
    files, path = pafs.FileSystem.from_uri(root)
    return files, path


def _by_fsspec(uri: str) -> tuple[pafs.FileSystem, str]:
    scheme = uri.partition("://")[0]
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise Unreachable(
            f"{uri}: pyarrow has no file system {scheme}://, and fsspec is not installed. Way out: pip install fsspec, "
            f"and its package for {scheme}"
        ) from None
    files, path = url_to_fs(uri)
    return pafs.PyFileSystem(_ByFsspec(files)), path


class _ByFsspec(pafs.FSSpecHandler):  # type: ignore[misc]  # pyarrow has no types
    """Knows when a file was written where fsspec says it in HDFS's words."""

    @staticmethod
    def _create_file_info(path: str, info: dict[str, Any]) -> pafs.FileInfo:
        written = info.get("modificationTime")
        named = info if written is None else {**info, "mtime": written / 1000}
        return pafs.FSSpecHandler._create_file_info(path, named)


def _matching(base: Place, parts: list[str]) -> Iterator[Place]:
    """What below `base` has a path like `parts`."""
    if not parts:
        yield base
        return
    part, rest = parts[0], parts[1:]
    if part == "**":
        yield from _matching(base, rest)
    elif not _MAGIC.search(part):
        below = base / part
        if rest or below.exists():
            yield from _matching(below, rest)
        return
    for place, kind in base._inside(False):
        folder = kind == pafs.FileType.Directory
        if place.name.startswith((".", "_")) and not part.startswith(place.name[0]):
            continue
        if part == "**":
            if folder:
                yield from _matching(place, parts)
            elif not folder and not rest:
                yield place
        elif fnmatchcase(place.name, part) and (folder or not rest):
            yield from _matching(place, rest)

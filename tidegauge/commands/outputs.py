"""Where a command writes to: found to be unusable before the work is done, and never left half-written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from tidegauge.exits import Unusable
from tidegauge.linearizability.report.document import BEGINNING, may_replace


def check_folder(option: str, folder: Path, way_out: str = "name another folder") -> None:
    """Raise Unusable unless files can be written to `folder`, which need not exist yet; leaves nothing behind."""
    if folder.exists() and not folder.is_dir():
        raise Unusable(f"{option} {folder} is a file: name a folder")
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    with _told(option, folder, way_out):
        _try_to_write(existing)


def check_file(option: str, file: Path) -> None:
    """Raise Unusable unless `file` can be written, in a folder that exists; changes nothing."""
    if file.is_dir():
        raise Unusable(f"{option} {file} is a folder: name a file")
    if not file.parent.is_dir():
        raise Unusable(f"{option} {file}: there is no folder {file.parent}: make it first")
    with _told(option, file, "name another file"):
        if not file.exists():
            _try_to_write(file.parent)
        elif file.is_file():
            with open(file, "ab"):
                pass


def check_page_size(option: str, size: int, most: int) -> None:
    """Raise Unusable for a page of nothing, and for one that no browser shows, which takes minutes to make."""
    if size < 1:
        raise Unusable(f"{option} {size} leaves nothing to walk through: give at least 1")
    if size > most:
        raise Unusable(f"{option} {size}: no browser shows so long a page: give at most {most}")


def check_page(option: str, file: Path) -> None:
    """Raise Unusable unless a page can be written to `file`: like `check_file`, and only in the place of a page."""
    check_file(option, file)
    with _told(option, file, "name another file"):
        if not file.is_file():
            return
        with open(file, "rb") as there:
            beginning = there.read(BEGINNING)
    if not may_replace(beginning):
        raise Unusable(f"{option} {file} is there, and is no page: name another file")


def write_text(option: str, file: Path, text: str) -> None:
    """Write `file`, whole or not at all; a pipe or a device is written to as it is."""
    with _told(option, file, "name another file"):
        if file.exists() and not file.is_file():
            file.write_text(text, encoding="utf-8")
            return
        partial = file.with_name(f".{file.name}.{os.getpid()}.part")
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(file)
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)


def _try_to_write(folder: Path) -> None:
    with TemporaryFile(dir=folder):
        pass


@contextmanager
def _told(option: str, place: Path, way_out: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unusable(f"{option} {place} cannot be written ({error.strerror or error}): {way_out}") from error

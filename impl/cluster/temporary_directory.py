"""Removing a directory of many: each partition has one, and some file systems take milliseconds to remove one.

That is time in which the file system makes its caller wait, and several are waited for at once: one in each log
directory. It lets one caller at a time change a directory, so that two in the same one gain nothing, and take three
times the processor's time to wait for each other.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

AT_ONCE: Final = 8
FEW: Final = 32
"""Up to so many directories it does not matter."""
MANY_IN_ONE: Final = 8
"""A directory of so many directories is taken for a log directory: nobody looks into them before they are removed."""


def remove_directory(root: Path) -> None:
    """Remove a directory with all that is in it. Raises OSError."""
    replicas = list(_in_log_directories(str(root)))
    if sum(map(len, replicas)) > FEW:
        # At the end of the interpreter no thread begins (RuntimeError): then what is below removes all.
        with suppress(RuntimeError), ThreadPoolExecutor(AT_ONCE) as threads:
            for _ in threads.map(_remove_each, replicas):
                pass
    shutil.rmtree(root)


def _in_log_directories(root: str) -> Iterator[list[str]]:
    """The directories of each directory of many."""
    with os.scandir(root) as entries:
        found = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    if len(found) >= MANY_IN_ONE:
        yield found
    else:
        for directory in found:
            yield from _in_log_directories(directory)


def _remove_each(directories: Sequence[str]) -> None:
    for directory in directories:
        remove_innermost(directory)


def remove_innermost(directory: str) -> None:
    """Remove a directory, if no directory is in it. Raises OSError."""
    with os.scandir(directory) as entries:
        files = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    if not any(is_directory for _, is_directory in files):
        for path, _ in files:
            os.unlink(path)
        os.rmdir(directory)

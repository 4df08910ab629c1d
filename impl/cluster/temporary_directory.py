"""Removing a directory of many: each partition has one, and some file systems take milliseconds to remove one.

That is time in which the file system makes its caller wait, and several are waited for at once: one in each log
directory. It lets one caller at a time change a directory, so that two in the same one gain nothing, and take three
times the processor's time to wait for each other.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

AT_ONCE: Final = 8
FEW: Final = 32
"""Up to so many directories it does not matter."""


def remove_directory(root: Path) -> None:
    """Remove a directory with all that is in it. Raises OSError."""
    innermost = _innermost(root)
    if sum(map(len, innermost)) > FEW:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for _ in threads.map(_remove_each, innermost):
                pass
    shutil.rmtree(root)


def _innermost(root: Path) -> list[list[str]]:
    """Directories without directories in them, those of one directory together."""
    found = defaultdict[str, list[str]](list)
    for where, directories, _ in os.walk(root):
        if not directories:
            found[os.path.dirname(where)].append(where)
    return list(found.values())


def _remove_each(directories: Sequence[str]) -> None:
    for directory in directories:
        remove_innermost(directory)


def remove_innermost(directory: str) -> None:
    """Remove a directory without directories in it. Raises OSError."""
    for name in os.listdir(directory):
        os.unlink(f"{directory}/{name}")
    os.rmdir(directory)

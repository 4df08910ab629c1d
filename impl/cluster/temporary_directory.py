"""Removing a directory of many: each partition has one, and some file systems take milliseconds to remove one.

That is time in which the file system makes its caller wait, and several are waited for at once. So a cluster of
thousands of replicas is gone in a moment, whatever its file system.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

AT_ONCE: Final = 8
FEW: Final = 32
"""Up to so many directories it does not matter."""


def remove_directory(root: Path) -> None:
    """Remove a directory with all that is in it. Raises OSError."""
    innermost = list(_innermost(root))
    if len(innermost) > FEW:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for _ in threads.map(shutil.rmtree, innermost):
                pass
    shutil.rmtree(root)


def _innermost(root: Path) -> Iterator[str]:
    """Directories without directories in them."""
    return (where for where, directories, _ in os.walk(root) if not directories)

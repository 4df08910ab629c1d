"""Strays: replicas that the metadata do not know, kept until somebody orders otherwise (KIP-858).

A stray's directory is `topic-N.<32 hex digits>-stray`. No broker opens, counts or removes it. `tidegauge strays` lists
and deletes them. A stray becomes a replica again when its directory gets its old name while the broker is down, and the
metadata know its topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.storage.partition_directory import STRAY_SUFFIX, remove_directory

BY_ORDER: Final = "it is kept until it is deleted by order: tidegauge strays"
"""What becomes of a stray, for log lines."""


def strays(disk: Disk, path: str) -> Sequence[str]:
    """The names of the strays in a log directory, sorted. Raises OSError."""
    return [name for name in disk.list_directory(path) if name.endswith(STRAY_SUFFIX)]


def delete_stray(disk: Disk, path: str, name: str) -> None:
    """Delete a stray for good. Raises ValueError for a name that is none's, and OSError."""
    if name not in strays(disk, path):
        known = ", ".join(strays(disk, path)) or "none"
        raise ValueError(f"{name!r} is no stray in {path}: there are {known}")
    remove_directory(disk, f"{path}/{name}")
    disk.sync_directory(path)

"""A partition's directory: creating it, and removing it in a way that a crash cannot leave half of it as a log."""

from __future__ import annotations

from typing import Final

from tidegauge.impl.ports.disk import Disk

DELETED_SUFFIX: Final = "-delete"
"""How the name of a directory ends that is to be removed."""


def create_directory(disk: Disk, directory: str) -> bool:
    """Create a directory; False when it was there."""
    try:
        return disk.create_directory(directory)
    except FileNotFoundError:
        disk.make_directory(directory)
        return True


def remove_directory(disk: Disk, path: str) -> None:
    """Remove a directory and the files in it."""
    for name in disk.list_directory(path):
        disk.remove(f"{path}/{name}")
    disk.remove_directory(path)


def delete_directory(disk: Disk, path: str) -> None:
    """Remove a partition's directory. A crash half-way leaves it under a name that ends in `-delete`."""
    renamed = f"{path}{DELETED_SUFFIX}"
    if disk.exists(renamed):
        remove_directory(disk, renamed)
    disk.rename(path, renamed)
    disk.sync_directory(path.rpartition("/")[0] or ".")
    remove_directory(disk, renamed)

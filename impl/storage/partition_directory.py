"""A partition's directory: its names, creating it, and removing it so that a crash cannot leave half of it as a log.

A name that is given on the way out or in (`name_with_suffix`) has a random part and a suffix. It is cut to what file
systems take, as Kafka cuts it: a topic's name may be so long that there is no room for more.
"""

from __future__ import annotations

from typing import Final

from tidegauge.impl.ports.disk import Disk

DELETED_SUFFIX: Final = "-delete"
"""How the name of a directory ends that is to be removed."""
FUTURE_SUFFIX: Final = "-future"
"""How the name of a directory ends that a replica moves into."""
LEFT_SUFFIX: Final = "-left"
"""How the name of a directory ends that a replica has moved away from."""
STRAY_SUFFIX: Final = "-stray"
"""How the name of a directory ends whose topic the metadata do not know."""
LONGEST_NAME: Final = 255
"""Bytes in a name that every file system of ours takes."""


def name_with_suffix(topic: str, partition: int, number: int, suffix: str) -> str:
    """`topic-N.<32 hex digits><suffix>`, with as much of the topic's name as there is room for."""
    rest = f"-{partition}.{number:032x}{suffix}"
    return topic[: LONGEST_NAME - len(rest)] + rest


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
    parent, slash, name = path.rpartition("/")
    renamed = f"{parent}{slash}{name[: LONGEST_NAME - len(DELETED_SUFFIX)]}{DELETED_SUFFIX}"
    if disk.exists(renamed):
        remove_directory(disk, renamed)
    disk.rename(path, renamed)
    disk.sync_directory(parent or ".")
    remove_directory(disk, renamed)


def partition_of(name: str) -> tuple[str, int] | None:
    """The topic and partition that a directory is named after; None for other names."""
    topic, dash, number = name.rpartition("-")
    return (topic, int(number)) if dash and topic and number.isascii() and number.isdigit() else None

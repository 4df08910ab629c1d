"""What a crash of a simulated disk is to keep of one log's files, by the offset at which the log shall end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.storage.surviving_logs import TopicPartition, unsynced_bytes_below


def check_kept(
    disk: SimulatedDisk,
    directories: Sequence[str],
    log: TopicPartition,
    keep: Mapping[str, int],
    *,
    end: int,
    refused: Sequence[int],
) -> None:
    """Raises AssertionError unless so many bytes of these files lie below `end`, and no other offset can be kept.

    `refused` are offsets that are not there, or below which something is on stable storage that would be lost.
    """
    found = unsynced_bytes_below(disk, directories, {log: end})
    assert found == keep, f"{found} of these files lie below offset {end}, and not {keep}"
    for offset in refused:
        try:
            unsynced_bytes_below(disk, directories, {log: offset})
        except ValueError:
            continue
        raise AssertionError(f"a crash is to keep all up to {offset}, and no more")

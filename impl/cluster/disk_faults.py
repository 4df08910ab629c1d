"""Faults of the brokers' disks.

An error takes a log directory offline, with the replicas in it. A broker whose only directory fails stops (KIP-112).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from tidegauge.impl.cluster.hosts import SimulatedHost, UnsupportedFaultError
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.cluster.nodes import Nodes
from tidegauge.impl.ports.failing_disk import EVERYTHING, SYNCS, WRITES, FailingDisk, Operation
from tidegauge.impl.storage.strays import delete_stray, strays

DiskOperations: TypeAlias = Literal["everything", "writes", "syncs"]

DISK_OPERATIONS: Final[Mapping[str, frozenset[Operation]]] = {
    "everything": EVERYTHING,
    "writes": WRITES,
    "syncs": SYNCS,
}


class DiskFaults:
    """Faults of disks."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes

    def fill_disk(self, broker_id: int, free_bytes: int = 0, *, directory: str | None = None) -> None:
        """Leave only so many bytes free on a broker's disk, or on one of its `log.dirs`.

        An append beyond fails with KAFKA_STORAGE_ERROR; the broker serves what it has. `heal_disk` makes room, and the
        broker takes records again. Raises ValueError.
        """
        if type(free_bytes) is not int or free_bytes < 0:
            raise ValueError(f"free_bytes is {free_bytes!r}: give a whole number from 0")
        self._disk(broker_id).fill(self._path(broker_id, directory), free_bytes)

    def fail_disk(
        self,
        broker_id: int,
        what: DiskOperations = "everything",
        times: int | None = None,
        *,
        directory: str | None = None,
    ) -> None:
        """Let a broker's disk, or one of its `log.dirs`, fail with EIO: at writes, at syncs, or at everything.

        It fails from now on, or the next `times` times. Raises ValueError.
        """
        if what not in DISK_OPERATIONS:
            raise ValueError(f"what is {what!r}: use one of {', '.join(map(repr, DISK_OPERATIONS))}")
        if times is not None and (type(times) is not int or times < 1):
            raise ValueError(f"times is {times!r}: give at least 1, or None for ever")
        self._disk(broker_id).fail(self._path(broker_id, directory), operations=DISK_OPERATIONS[what], times=times)

    def fail_next_sync(self, broker_id: int) -> None:
        """Let the broker's next flush fail, and with it the log directory, or the broker when it has no other."""
        self._disk(broker_id).fail(operations=DISK_OPERATIONS["syncs"], times=1)

    def slow_disk(self, broker_id: int, seconds: float, *, directory: str | None = None) -> None:
        """Let each operation on a broker's disk, or on one of its `log.dirs`, take so much longer; 0 ends it.

        The disk is slow for the whole process. On the simulated host a disk takes no time: pause the broker there.
        """
        if isinstance(self.nodes.host, SimulatedHost):
            raise UnsupportedFaultError("a slow disk needs host='tcp': pause the broker instead")
        self._disk(broker_id).slow(seconds, self._path(broker_id, directory))

    def strays(self, broker_id: int) -> list[str]:
        """The names of a broker's strays: replicas that the metadata do not know, kept until `delete_stray`."""
        return [name for directory, names in self._strays(broker_id).items() for name in names]

    def delete_stray(self, broker_id: int, name: str) -> None:
        """Delete one of a broker's strays for good. Raises ValueError for a name that is none's."""
        for directory, names in self._strays(broker_id).items():
            if name in names:
                delete_stray(self._disk(broker_id), directory, name)
                return
        known = ", ".join(map(repr, self.strays(broker_id))) or "none"
        raise ValueError(f"name is {name!r}: broker {broker_id} has {known}")

    def _strays(self, broker_id: int) -> dict[str, Sequence[str]]:
        disk = self._disk(broker_id)
        directories = self.nodes.broker(broker_id).replicas.directories.online
        return {directory.path: strays(disk, directory.path) for directory in directories}

    def heal_disk(self, broker_id: int) -> None:
        """Mend a full or failing disk. Logs of a disk that has failed are back after a restart of the broker."""
        self._disk(broker_id).heal()

    def end_slowness(self) -> None:
        """Let no disk be slow any more; full and failing ones stay so."""
        if not isinstance(self.nodes.host, SimulatedHost):
            for broker_id in self.nodes.broker_ids:
                self.nodes.host.disk(broker_name(broker_id)).end_slowness()

    def _disk(self, broker_id: int) -> FailingDisk:
        self.nodes.task(broker_id)
        return self.nodes.host.disk(broker_name(broker_id))

    def _path(self, broker_id: int, directory: str | None) -> str:
        """The path below which a fault applies: one of `log.dirs`, by name or path, or "" for all of the disk."""
        if directory is None:
            return ""
        paths = self.nodes.broker(broker_id).replicas.directories.paths
        found = [path for path in paths if directory in (path, path.rpartition("/")[2])]
        if len(found) != 1:
            known = ", ".join(map(repr, sorted(paths)))
            raise ValueError(f"directory is {directory!r}: broker {broker_id} has {known}")
        return found[0]

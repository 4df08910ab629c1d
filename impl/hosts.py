"""The hosts on which a cluster's nodes run: what stands behind their ports, and what can be done to them.

A host gives each node its network, disk and clock, by name. On the simulated host all of them are in memory, depend on
the seed alone, and can fail in every way; on the real host they are TCP on the loopback interface, a directory, and the
system's clock, and a node can be stopped hard but nothing else can be done to it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Protocol

from impl.ports.clock import Clock, SimulatedClock, SystemClock
from impl.ports.disk import Disk, RealDisk
from impl.ports.network import Address, Network, TcpNetwork
from impl.ports.simulated_disk import Fate, SimulatedDisk
from impl.ports.simulated_network import SimulatedNetwork

KAFKA_PORT = 9092


class UnsupportedFaultError(Exception):
    """This host cannot do that to a node."""


class Host(Protocol):
    """Where nodes run."""

    def network(self, node: str) -> Network: ...

    def disk(self, node: str) -> Disk: ...

    def clock(self, node: str) -> Clock: ...

    def directory(self, node: str) -> str:
        """Where the node's files are, on its disk."""

    def listen_address(self, node: str) -> Address:
        """Where a node that starts for the first time is to listen."""

    def cut(self, node: str, keep: Mapping[str, int] | None = None) -> None:
        """Take network and disk away from a node that dies; `keep`: how many unsynced bytes survive, by path."""

    def power_on(self, node: str) -> None:
        """Give a node that was cut its disk back, with what survived."""

    def close(self) -> None:
        """Leave nothing behind."""


class SimulatedHost:
    """Everything in memory, from one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.wires = SimulatedNetwork(seed)
        self.disks: dict[str, SimulatedDisk] = {}
        self.clocks: dict[str, SimulatedClock] = {}

    def network(self, node: str) -> Network:
        return self.wires.host(node)

    def disk(self, node: str) -> SimulatedDisk:
        if node not in self.disks:
            self.disks[node] = SimulatedDisk(Random(f"{self.seed}/disk/{node}"))
        return self.disks[node]

    def clock(self, node: str) -> SimulatedClock:
        if node not in self.clocks:
            self.clocks[node] = SimulatedClock()
        return self.clocks[node]

    def directory(self, node: str) -> str:
        return "data"

    def listen_address(self, node: str) -> Address:
        return Address(node, KAFKA_PORT)

    def cut(
        self, node: str, keep: Mapping[str, int] | None = None, *, tails: Fate = Fate.SEEDED, lose_sent: bool = True
    ) -> None:
        self.clock(node).go_on()
        self.disk(node).crash(keep, tails=tails, names=Fate.KEPT if keep is not None else Fate.SEEDED)
        self.wires.crash(node, lose_sent=lose_sent)

    def power_on(self, node: str) -> None:
        self.disk(node).power_on()

    def close(self) -> None:
        self.wires.unhold()


class TcpHost:
    """TCP on the loopback interface, files in a directory, the system's clock."""

    def __init__(self, directory: str | Path | None = None) -> None:
        """`directory` is kept; without one a temporary directory is made, and removed at the end."""
        self._temporary = directory is None
        self.root = Path(tempfile.mkdtemp(prefix="tidegauge-") if directory is None else directory)
        self._disk = RealDisk()
        self._network = TcpNetwork()
        self._clock = SystemClock()

    def network(self, node: str) -> Network:
        return self._network

    def disk(self, node: str) -> Disk:
        return self._disk

    def clock(self, node: str) -> Clock:
        return self._clock

    def directory(self, node: str) -> str:
        return str(self.root / node)

    def listen_address(self, node: str) -> Address:
        return Address("127.0.0.1", 0)

    def cut(self, node: str, keep: Mapping[str, int] | None = None) -> None:
        if keep is not None:
            raise UnsupportedFaultError("files of the real host keep everything that was written: crash without `keep`")

    def power_on(self, node: str) -> None:
        """The disk was never off."""

    def close(self) -> None:
        if self._temporary:
            shutil.rmtree(self.root)

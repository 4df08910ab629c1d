"""The hosts on which a cluster's nodes run: the implementations of their ports, and the faults of these.

A host gives each node its network, disk and clock, by name. On the simulated host all of them are in memory, depend on
the seed alone, and can fail in every way. On the real host they are TCP, a directory and the system's clock. TCP takes
no faults, so there the servers inject the faults of links into requests (`impl.faults.links`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from tidegauge.impl.cluster.names import BROKER, CONTROLLER, LOOPBACK
from tidegauge.impl.cluster.temporary_directory import remove_directory
from tidegauge.impl.faults.links import Links
from tidegauge.impl.ports.clock import SimulatedClock, StoppableClock, SystemClock
from tidegauge.impl.ports.descriptors import Descriptors
from tidegauge.impl.ports.disk import DiskLock, DiskLockedError, RealDisk
from tidegauge.impl.ports.failing_disk import FailingDisk
from tidegauge.impl.ports.network import Address, Network, TcpNetwork
from tidegauge.impl.ports.randomness import Randomness, SeededRandomness, SystemRandomness

if TYPE_CHECKING:
    from tidegauge.impl.ports.link_faults import LinkFaults
    from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
    from tidegauge.impl.ports.simulated_network import SimulatedNetwork

KAFKA_PORT: Final = 9092


class UnsupportedFaultError(Exception):
    """The host does not have this fault."""


class LinkControl(Protocol):
    """The faults of links, on every host."""

    def block(self, source: str, destination: str) -> None: ...

    def isolate(self, node: str, *, inbound: bool = True, outbound: bool = True) -> None: ...

    def heal(self, node: str | None = None) -> None: ...

    def is_blocked(self, source: str, destination: str) -> bool: ...

    def pause(self, node: str) -> None: ...

    def resume(self, node: str) -> None: ...

    def is_paused(self, node: str) -> bool: ...

    def set_faults(self, faults: LinkFaults, source: str | None = None, destination: str | None = None) -> None: ...

    def clear_faults(self) -> None: ...

    def rule(self, source: str | None = None, destination: str | None = None) -> LinkFaults: ...


class Host(Protocol):
    """Where nodes run."""

    @property
    def links(self) -> LinkControl:
        """The links between the nodes."""

    def network(self, node: str) -> Network: ...

    def disk(self, node: str) -> FailingDisk:
        """The node's disk, with its faults."""

    def clock(self, node: str) -> StoppableClock: ...

    def randomness(self, node: str) -> Randomness: ...

    def internal_host(self, node: str) -> str:
        """Where the node listens for brokers alone."""

    def directory(self, node: str) -> str:
        """Where the node's files are, on its disk."""

    def listen_address(self, node: str) -> Address:
        """Where a node that starts for the first time is to listen."""

    def cut(self, node: str, keep: Mapping[str, int] | None = None) -> None:
        """Take network and disk from a node that crashes; `keep`: how many unsynced bytes survive, by path."""

    def power_on(self, node: str) -> None:
        """Give a node that was cut its disk back, with what survived."""

    def close(self) -> None:
        """Release and remove what is temporary."""

    @property
    def keeps_files(self) -> bool:
        """Whether the nodes' files outlive the cluster; else its end brings nothing to stable storage."""

    def simulated(self, what: str) -> SimulatedHost:
        """This host, if it is simulated. Raises UnsupportedFaultError that says what needs it."""


class SimulatedHost:
    """Everything in memory, from one seed. Network and disks are imported here, since clusters on TCP need neither."""

    def __init__(self, seed: int) -> None:
        from tidegauge.impl.ports.simulated_network import SimulatedNetwork

        self.seed = seed
        self._links = SimulatedNetwork(seed)
        self.disks: dict[str, SimulatedDisk] = {}
        self._failing: dict[str, FailingDisk] = {}
        self.clocks: dict[str, SimulatedClock] = {}
        self._randomness: dict[str, SeededRandomness] = {}

    @property
    def links(self) -> SimulatedNetwork:
        return self._links

    def network(self, node: str) -> Network:
        return self._links.host(node)

    def disk(self, node: str) -> FailingDisk:
        if node not in self._failing:
            self._failing[node] = FailingDisk(self.medium(node))
        return self._failing[node]

    def medium(self, node: str) -> SimulatedDisk:
        """The simulated disk behind the node's: what is synced, what a crash loses, how many bytes there are."""
        if node not in self.disks:
            from tidegauge.impl.ports.simulated_disk import SimulatedDisk

            until_running = self.clock(node).until_running
            self.disks[node] = SimulatedDisk(Random(f"{self.seed}/disk/{node}"), until_running=until_running)
        return self.disks[node]

    def clock(self, node: str) -> SimulatedClock:
        if node not in self.clocks:
            first = next(iter(self.clocks.values()), None)  # a node that joins later does not begin with the first time
            self.clocks[node] = SimulatedClock(started=None if first is None else first.started)
        return self.clocks[node]

    def randomness(self, node: str) -> SeededRandomness:
        return self._randomness.setdefault(node, SeededRandomness(self.seed, node))

    def internal_host(self, node: str) -> str:
        return node

    def directory(self, node: str) -> str:
        return "data"

    def listen_address(self, node: str) -> Address:
        return Address(node, KAFKA_PORT)

    def cut(
        self,
        node: str,
        keep: Mapping[str, int] | None = None,
        *,
        tails: CrashOutcome | None = None,
        lose_sent: bool = True,
    ) -> None:
        """Without `tails` the seed decides what is left of each file's unsynced bytes."""
        from tidegauge.impl.ports.simulated_disk import CrashOutcome

        self.clock(node).go_on()
        self.medium(node).crash(
            keep,
            tails=tails or CrashOutcome.SEEDED,
            names=CrashOutcome.KEPT if keep is not None or tails is CrashOutcome.KEPT else CrashOutcome.SEEDED,
        )
        self._links.crash(node, lose_sent=lose_sent)

    def power_on(self, node: str) -> None:
        self.medium(node).power_on()

    def close(self) -> None:
        self._links.unhold()

    @property
    def keeps_files(self) -> bool:
        return True  # who made the host may look at its disks

    def simulated(self, what: str) -> SimulatedHost:
        return self


class TcpHost:
    """TCP, files in a directory, the system's clock."""

    def __init__(
        self, directory: str | Path | None = None, *, seed: int = 0, listen: str = LOOPBACK, port: int = 0
    ) -> None:
        """
        directory: where files are kept; without one a temporary directory is made, and removed at the end.
        listen, port: where broker 0 listens, the others on the ports that follow; 0 picks free ones. The controller
            listens on the loopback interface, on a free port.

        Raises ValueError for a directory that holds something else, or that another process uses.
        """
        self._temporary = directory is None
        self.root = Path(tempfile.mkdtemp(prefix="tidegauge-") if directory is None else directory)
        if not self._temporary:
            refuse_foreign(self.root)
        self._lock = lock_directory(self.root)
        self._links = Links(seed)
        self._disks: dict[str, FailingDisk] = {}
        self._descriptors = Descriptors()
        self._network = TcpNetwork()
        self._clocks: dict[str, SystemClock] = {}
        self._listen = listen
        self._port = port

    @property
    def links(self) -> Links:
        return self._links

    def network(self, node: str) -> Network:
        return self._network

    def disk(self, node: str) -> FailingDisk:
        if node not in self._disks:
            self._disks[node] = FailingDisk(RealDisk(descriptors=self._descriptors, is_lasting=self.keeps_files))
        return self._disks[node]

    def clock(self, node: str) -> StoppableClock:
        return self._clocks.setdefault(node, SystemClock())

    def randomness(self, node: str) -> SystemRandomness:
        return SystemRandomness()

    def internal_host(self, node: str) -> str:
        return LOOPBACK

    def directory(self, node: str) -> str:
        return str(self.root / node)

    def listen_address(self, node: str) -> Address:
        if not node.startswith(BROKER):
            return Address(LOOPBACK, 0)
        return Address(self._listen, self._port + int(node.removeprefix(BROKER)) if self._port else 0)

    def cut(self, node: str, keep: Mapping[str, int] | None = None) -> None:
        if keep is not None:
            raise UnsupportedFaultError("files of the real host keep everything that was written: crash without `keep`")
        self.clock(node).go_on()
        self._links.resume(node)

    def power_on(self, node: str) -> None:
        """Nothing to do: `cut` takes no disk here."""

    def close(self) -> None:
        self._lock.release()
        if not self.keeps_files:
            remove_directory(self.root)

    @property
    def keeps_files(self) -> bool:
        return not self._temporary

    def simulated(self, what: str) -> SimulatedHost:
        raise UnsupportedFaultError(f"{what} needs the simulated host: host='simulated'")


def lock_directory(root: Path) -> DiskLock:
    """Make a directory, and lock it, as Kafka locks its log directories.

    Raises ValueError when it cannot be made or written to, and when another process holds the lock.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        return RealDisk().lock(str(root / ".lock"))
    except DiskLockedError:
        raise ValueError(
            f"directory is {str(root)!r}: another cluster uses it; end that one, or name another directory"
        ) from None
    except OSError as error:
        raise ValueError(
            f"directory is {str(root)!r}: no files can be kept there ({error.strerror}: {error.filename}); name a "
            "directory that you may write to"
        ) from error


def refuse_foreign(root: Path) -> None:
    """Raise ValueError for a path that is no directory, or a directory with files that no cluster wrote."""
    if root.exists() and not root.is_dir():
        raise ValueError(f"directory is {str(root)!r}: that is a file; name a directory")
    names = sorted(path.name for path in root.iterdir()) if root.exists() else []
    ours = [name for name in names if name == CONTROLLER or name.startswith(BROKER)]
    others = [name for name in names if not name.startswith(".") and name not in ours]
    if others and not ours:
        raise ValueError(
            f"directory is {str(root)!r}: it holds {others[0]!r}, which no cluster wrote; name an empty directory, a "
            "new one, or one that a cluster has used"
        )


def refuse_fewer(root: Path, brokers: int) -> None:
    """Raise ValueError for a directory with files of brokers that a cluster of so many would not start."""
    ids = [path.name.removeprefix(BROKER) for path in root.glob(f"{BROKER}*") if path.is_dir()]
    left_out = sorted(int(each) for each in ids if each.isdecimal() and int(each) >= brokers)
    if left_out:
        names = ", ".join(f"{BROKER}{each}" for each in left_out)
        away = ", ".join(str(root / f"{BROKER}{each}") for each in left_out)
        raise ValueError(
            f"brokers is {brokers}: directory {str(root)!r} holds {names} too, whose records no broker would "
            f"serve; start {left_out[-1] + 1} brokers, or move {away} away"
        )

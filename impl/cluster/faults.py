"""What can befall a cluster's nodes, links and disks: each fault is a method, and so is its cure.

Brokers are named by id; where a link is meant, "controller" and the ids of clients are names of nodes too. On the real
host links are struck at the servers: a request that has come counts as on its way until the link lets it through, and
so does an answer that is ready (`impl.faults.links`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs
import trio

from tidegauge.impl.cluster.hosts import BROKER, CONTROLLER, Host, SimulatedHost, UnsupportedFaultError
from tidegauge.impl.cluster.running import Running
from tidegauge.impl.faults.fault_log import FaultLog, logged
from tidegauge.impl.faults.request_faults import RequestFaults
from tidegauge.impl.ports.failing_disk import EVERYTHING, SYNCS, WRITES, Operation
from tidegauge.impl.ports.link_faults import LinkFaults
from tidegauge.impl.ports.simulated_disk import Fate
from tidegauge.impl.ports.simulated_network import SimulatedNetwork
from tidegauge.impl.server import trace
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.server.controller.node import ControllerNode
from tidegauge.impl.storage.surviving_logs import survivors, unsynced_bytes_below

NodeName: TypeAlias = int | str
"""A broker's id, "controller", or a client's id."""

DiskOperations: TypeAlias = Literal["everything", "writes", "syncs"]

DISK_OPERATIONS: Final[Mapping[str, frozenset[Operation]]] = {
    "everything": EVERYTHING,
    "writes": WRITES,
    "syncs": SYNCS,
}


class Faults:
    """The faults of a cluster; mixed into `Cluster`."""

    timers: bool
    size: int
    _nodes: dict[str, Running]
    _client_ids: set[str]

    @property
    def host(self) -> Host:
        raise NotImplementedError

    @property
    def fault_log(self) -> FaultLog:
        raise NotImplementedError

    @property
    def request_faults(self) -> RequestFaults:
        raise NotImplementedError

    @property
    def controller(self) -> ControllerNode:
        raise NotImplementedError

    def broker(self, broker_id: int) -> Broker:
        raise NotImplementedError

    def _running(self, broker_id: int) -> Running:
        raise NotImplementedError

    async def _start_broker(self, broker_id: int) -> None:
        raise NotImplementedError

    async def _start_controller(self) -> None:
        raise NotImplementedError

    @property
    def network(self) -> SimulatedNetwork:
        """The simulated network, for faults beyond those here (`hold`, `partition`, `set_faults`, …)."""
        return self._simulated("the network's faults").wires

    # --- processes ---------------------------------------------------------------------------------------------

    @logged
    async def crash(
        self, broker_id: int, *, keep: Mapping[tuple[str, int], int] | None = None, lose_unsynced: bool | None = None
    ) -> None:
        """The broker's machine dies: its connections break, what was on its way is lost, and so are unsynced bytes.

        How much of them is drawn from the seed, torn batches included, unless `lose_unsynced` says all (True) or
        nothing (False), or `keep` says up to which log end offset each (topic, partition) survives. Raises ValueError
        when the broker is down already, or `keep` asks for what cannot be.
        """
        running = self._running(broker_id)
        if not running.alive:
            raise ValueError(f"broker {broker_id} is down already: restart it first")
        name = _name(broker_id)
        if isinstance(self.host, SimulatedHost):
            host = self.host
            directories = self.broker(broker_id).replicas.directories.paths
            kept = None if keep is None else unsynced_bytes_below(host.medium(name), directories, keep)
            host.cut(name, kept, tails=_fate(lose_unsynced))
        else:
            if lose_unsynced:
                raise UnsupportedFaultError(
                    "files of the real host keep everything that was written: crash without `lose_unsynced`"
                )
            self.host.cut(name, None if keep is None else {})
        await self._buried(broker_id)

    async def _buried(self, broker_id: int) -> None:
        """A node that was cut ends; what its disk has kept is told, and there for the next process."""
        running, broker, name = self._running(broker_id), self.broker(broker_id), _name(broker_id)
        await running.kill()
        self.host.power_on(name)
        # What is wrong with the disk concerns the broker, not whoever looks at what it holds.
        if broker.tracer.trace is not None:
            disk = self.host.disk(name).disk
            left = survivors(disk, broker.replicas.directories.paths)
            broker.tracer.record(trace.events.Crash, kept=left.ends, starts=left.starts)
        running.abandon()

    @logged
    async def restart(self, broker_id: int) -> None:
        """Start a crashed broker again, or one that stopped because its disk failed, from what its disk kept.

        With timers it registers, catches up and rejoins by itself; without them it only runs. Raises ValueError when
        the broker is up.
        """
        if self._running(broker_id).alive:
            raise ValueError(f"broker {broker_id} is up: crash it first")
        if self.broker(broker_id).halted is not None and self._running(broker_id).has_files:
            self.host.cut(_name(broker_id))
            await self._buried(broker_id)
        await self._start_broker(broker_id)

    @logged
    def pause(self, broker_id: int) -> None:
        """Stop the broker's process as SIGSTOP does: it keeps its connections, what is sent to it piles up, and it
        does not know that time goes by. After `resume` it is a zombie that acts on what it knew.
        """
        name = self._alive(broker_id)
        self.host.links.pause(name)
        self.host.clock(name).stop()
        tracer = self.broker(broker_id).tracer
        if tracer.trace is not None:
            tracer.record(trace.events.Pause)

    @logged
    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on."""
        name = self._alive(broker_id)
        tracer = self.broker(broker_id).tracer
        if tracer.trace is not None:
            tracer.record(trace.events.Resume)
        self.host.clock(name).go_on()
        self.host.links.resume(name)

    @logged
    def jump_clock(self, broker_id: int, ms: int) -> None:
        """Let the broker's wall clock jump, forwards or back: what it stamps and how old it thinks records are changes,
        not when its timers fire.
        """
        self._running(broker_id)
        self.host.clock(_name(broker_id)).offset_ms += ms

    @logged
    async def restart_controller(self) -> None:
        """The controller's process dies and a new one takes over from its log: the controller epoch rises.

        Requests on their way to the old one are lost; answers that it had sent still arrive.
        """
        running = self._nodes[CONTROLLER]
        if isinstance(self.host, SimulatedHost):
            self.host.cut(CONTROLLER, {}, tails=Fate.LOST, lose_sent=False)
        else:
            self.host.cut(CONTROLLER)
        await running.kill()
        running.abandon()
        self.host.power_on(CONTROLLER)
        await self._start_controller()

    # --- network -----------------------------------------------------------------------------------------------

    @logged
    def isolate(self, *nodes: NodeName, inbound: bool = True, outbound: bool = True) -> None:
        """Cut nodes off from all others, clients and controller included, in either or both directions."""
        if not nodes:
            raise ValueError("isolate names no node: give broker ids, 'controller' or client ids")
        for name in [self._node_name(node) for node in nodes]:
            self.host.links.isolate(name, inbound=inbound, outbound=outbound)

    @logged
    def block(self, source: NodeName, destination: NodeName) -> None:
        """Let nothing pass from one node to another; the way back stays open."""
        self.host.links.block(self._node_name(source), self._node_name(destination))

    @logged
    def heal(self, *nodes: NodeName) -> None:
        """Undo `isolate` and `block`, for these nodes or for all."""
        if not nodes:
            self.host.links.heal()
        for name in [self._node_name(node) for node in nodes]:
            self.host.links.heal(name)

    @logged
    def drop(self, loss: float = 1.0, source: NodeName | None = None, destination: NodeName | None = None) -> None:
        """Lose frames of the links from `source` to `destination` (None: any) with this probability.

        The connection stays, and the answer never comes.
        """
        self._set(source, destination, loss=loss)

    @logged
    def delay(
        self, least_ms: float, most_ms: float, source: NodeName | None = None, destination: NodeName | None = None
    ) -> None:
        """Let frames of these links take between so many milliseconds, drawn for each; a connection's order is kept."""
        self._set(source, destination, delay_ms=(least_ms, most_ms))

    @logged
    def duplicate(
        self, probability: float, source: NodeName | None = None, destination: NodeName | None = None
    ) -> None:
        """Deliver frames of these links twice with this probability. TCP never does; retransmission above it may."""
        self._simulated("a frame that comes twice")
        self._set(source, destination, duplicate=probability)

    @logged
    def reorder(self, probability: float, source: NodeName | None = None, destination: NodeName | None = None) -> None:
        """Let frames of these links be overtaken by later ones with this probability."""
        self._simulated("a frame that is overtaken")
        self._set(source, destination, reorder=probability)

    @logged
    def clear_faults(self) -> None:
        """End loss, delay, duplication and reordering on all links, and all injections; partitions and pauses stay."""
        self.host.links.clear_faults()
        self.request_faults.clear()

    @logged
    def reset_connections(self, node: NodeName, peer: NodeName | None = None) -> int:
        """Break the connections between two nodes (or all of one): what is on its way is lost. Returns how many."""
        ends = self._node_name(node), None if peer is None else self._node_name(peer)
        if isinstance(self.host, SimulatedHost):
            return self.host.wires.reset(*ends)
        cut = self.request_faults.connections_of(*ends)
        for connection in cut:
            connection.reset()
        return len(cut)

    @logged
    async def recover(self) -> None:
        """Undo every fault that has a cure: crashed brokers run again, paused ones go on, links and disks are whole.

        Returns when all brokers are back in the cluster; replicas may still have to catch up.
        """
        self.clear_faults()
        for broker_id in range(self.size):
            name = _name(broker_id)
            if self._running(broker_id).alive and self.host.links.is_paused(name):
                self.resume(broker_id)
        self.heal()
        for broker_id in range(self.size):
            self._heal_disk(broker_id)
            if not self._running(broker_id).alive:
                await self.restart(broker_id)
        for broker_id in range(self.size if self.timers else 0):
            await self.broker(broker_id).unfenced.wait()  # this process has been, …
            while not self.controller.controller.image.is_unfenced(broker_id):  # noqa: ASYNC110 - … and still is
                await trio.sleep(0.001)

    def _set(self, source: NodeName | None, destination: NodeName | None, **changes: Any) -> None:
        link = (
            None if source is None else self._node_name(source),
            None if destination is None else self._node_name(destination),
        )
        faults: LinkFaults = attrs.evolve(self.host.links.rule(*link), **changes)
        self.host.links.set_faults(faults, *link)

    # --- membership and elections ------------------------------------------------------------------------------

    @logged
    async def expire_session(self, broker_id: int) -> bool:
        """Let the controller fence a broker as if it had not heard from it; False when it is fenced already.

        The broker does not know, until it reads the metadata or heartbeats; its next heartbeat brings it back.
        """
        self._running(broker_id)
        return await self.controller.actions.expire_session(broker_id)

    @logged
    async def elect(self, topic: str, partition: int = 0, *, unclean: bool = False) -> None:
        """Give a partition's leadership to its preferred replica or, with `unclean`, give a partition without a leader
        any live replica: what only lost replicas had is lost. Raises KafkaError when the controller refuses.
        """
        async with self.client("admin") as admin:  # type: ignore[attr-defined]
            await admin.elect_leaders(topic, partition, unclean=unclean)

    # --- disks -------------------------------------------------------------------------------------------------

    @logged
    def fill_disk(self, broker_id: int, free_bytes: int = 0, *, directory: str | None = None) -> None:
        """Leave only so many bytes free on a broker's disk. An append beyond fails with KAFKA_STORAGE_ERROR, and takes
        the log directory offline, or the broker when it has no other (KIP-112): heal the disk, then restart it.
        `directory` is one of `log.dirs`, if only that one is to be full.
        """
        self._running(broker_id)
        if type(free_bytes) is not int or free_bytes < 0:
            raise ValueError(f"free_bytes is {free_bytes!r}: give a whole number from 0")
        self.host.disk(_name(broker_id)).fill(self._under(broker_id, directory), free_bytes)

    @logged
    def fail_disk(
        self,
        broker_id: int,
        what: DiskOperations = "everything",
        times: int | None = None,
        *,
        directory: str | None = None,
    ) -> None:
        """Let a broker's disk, or one of its `log.dirs`, fail with EIO, from now on or the next `times`: at writes, at
        syncs, or at everything.

        A log directory that fails takes its replicas offline; a broker whose only one fails ends (KIP-112).
        """
        self._running(broker_id)
        if what not in DISK_OPERATIONS:
            raise ValueError(f"what is {what!r}: use one of {', '.join(map(repr, DISK_OPERATIONS))}")
        if times is not None and (type(times) is not int or times < 1):
            raise ValueError(f"times is {times!r}: give at least 1, or None for ever")
        self.host.disk(_name(broker_id)).fail(
            self._under(broker_id, directory), operations=DISK_OPERATIONS[what], times=times
        )

    @logged
    def slow_disk(self, broker_id: int, seconds: float, *, directory: str | None = None) -> None:
        """Let each operation on a broker's disk, or on one of its `log.dirs`, take so much longer; 0 ends it.

        The disk is slow for the whole process, as a file system that does not answer is. On the simulated host a disk
        takes no time: pause the broker there.
        """
        if isinstance(self.host, SimulatedHost):
            raise UnsupportedFaultError("a slow disk needs host='tcp': pause the broker instead")
        self.host.disk(_name(broker_id)).slow(seconds, self._under(broker_id, directory))

    def _quicken_disks(self) -> None:
        """Make no disk slow any more; full and failing ones stay so."""
        if isinstance(self.host, SimulatedHost):
            return
        for broker_id in range(self.size):
            self.host.disk(_name(broker_id)).quicken()

    @logged
    def heal_disk(self, broker_id: int) -> None:
        """Make a full or failing disk whole again. Logs that have failed are back after a restart of the broker."""
        self._running(broker_id)
        self._heal_disk(broker_id)

    @logged
    def fail_next_sync(self, broker_id: int) -> None:
        """Let the broker's next flush fail, and with it the log directory, or the broker when it has no other."""
        self._running(broker_id)
        self.host.disk(_name(broker_id)).fail(operations=DISK_OPERATIONS["syncs"], times=1)

    def _under(self, broker_id: int, directory: str | None) -> str:
        """The path under which a fault is, for one of `log.dirs` by name or path; "" is all of the broker's disk."""
        if directory is None:
            return ""
        paths = self.broker(broker_id).replicas.directories.paths
        found = [path for path in paths if directory in (path, path.rpartition("/")[2])]
        if len(found) != 1:
            known = ", ".join(map(repr, sorted(paths)))
            raise ValueError(f"directory is {directory!r}: broker {broker_id} has {known}")
        return found[0]

    def _heal_disk(self, broker_id: int) -> None:
        self.host.disk(_name(broker_id)).heal()

    # --- within --------------------------------------------------------------------------------------------------

    def _node_name(self, node: NodeName) -> str:
        """A node's name in the network. Raises ValueError for a name that is no node's."""
        if not isinstance(node, str):
            self._running(node)
            return _name(node)
        clients = {**dict.fromkeys(sorted(self._client_ids)), **self.request_faults.client_ids}
        if node in self._nodes or node in clients:
            return node
        known = ", ".join(repr(name) for name in list(clients)[-10:])
        raise ValueError(
            f"{node!r} names no node: give a broker's id from 0 to {self.size - 1}, {CONTROLLER!r}, or the id of a "
            "client that has been made or has sent a request" + (f" ({known})" if known else ", of which there is none")
        )

    def _simulated(self, what: str) -> SimulatedHost:
        if not isinstance(self.host, SimulatedHost):
            raise UnsupportedFaultError(f"{what} needs the simulated host: host='simulated'")
        return self.host

    def _alive(self, broker_id: int) -> str:
        if not self._running(broker_id).alive:
            raise ValueError(f"broker {broker_id} is down: restart it first")
        return _name(broker_id)

    def _can_hear(self, broker_id: int) -> bool:
        """Whether the broker runs and can reach the controller."""
        if not self._running(broker_id).alive:
            return False
        links, name = self.host.links, _name(broker_id)
        apart = links.is_blocked(name, CONTROLLER) or links.is_blocked(CONTROLLER, name)
        return not apart and not links.is_paused(name)


def _name(node: NodeName) -> str:
    return f"{BROKER}{node}" if isinstance(node, int) else node


def _fate(lose_unsynced: bool | None) -> Fate:
    if lose_unsynced is None:
        return Fate.SEEDED
    return Fate.LOST if lose_unsynced else Fate.KEPT

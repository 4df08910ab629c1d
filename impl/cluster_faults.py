"""What can befall a cluster: each fault is a method, and so is its cure.

Brokers are named by id; where a link is meant, "controller" and the ids of clients are names of nodes too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from impl.hosts import Host, SimulatedHost, UnsupportedFaultError
from impl.ports.simulated_disk import Fate
from impl.ports.simulated_network import LinkFaults, SimulatedNetwork
from impl.server.broker import Broker
from impl.server.controller_node import ControllerNode
from impl.server.running import Running
from impl.server.surviving_logs import surviving_end_offsets, unsynced_bytes_below

NodeName: TypeAlias = int | str
"""A broker's id, "controller", or a client's id."""

CONTROLLER = "controller"


class Faults:
    """The faults of a cluster; mixed into `Cluster`."""

    timers: bool
    _nodes: dict[str, Running]

    @property
    def host(self) -> Host:
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
        broker = self.broker(broker_id)
        if isinstance(self.host, SimulatedHost):
            host = self.host
            disk, directory = host.disk(name), host.directory(name)
            kept = None if keep is None else unsynced_bytes_below(disk, directory, keep)
            host.cut(name, kept, tails=_fate(lose_unsynced))
        else:
            self.host.cut(name, None if keep is None else {})
        await running.kill()
        self.host.power_on(name)
        survived = surviving_end_offsets(self.host.disk(name), self.host.directory(name))
        broker.tracer.record("Crash", kept=tuple((*key, end) for key, end in survived.items()))
        broker.partitions.abandon()

    async def restart(self, broker_id: int) -> None:
        """Start a crashed broker again, from what its disk kept.

        With timers it registers, catches up and rejoins by itself; without them it only runs. Raises ValueError when
        the broker is up.
        """
        if self._running(broker_id).alive:
            raise ValueError(f"broker {broker_id} is up: crash it first")
        await self._start_broker(broker_id)

    def pause(self, broker_id: int) -> None:
        """Stop the broker's process as SIGSTOP does: it keeps its connections, what is sent to it piles up, and it
        does not know that time goes by. After `resume` it is a zombie that acts on what it knew.
        """
        host = self._simulated("a pause")
        name = self._alive(broker_id)
        host.wires.pause(name)
        host.clock(name).stop()
        self.broker(broker_id).tracer.record("Pause")

    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on."""
        host = self._simulated("a pause")
        name = self._alive(broker_id)
        self.broker(broker_id).tracer.record("Resume")
        host.clock(name).go_on()
        host.wires.resume(name)

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
        self.host.power_on(CONTROLLER)
        await self._start_controller()

    # --- network -----------------------------------------------------------------------------------------------

    def isolate(self, *nodes: NodeName, inbound: bool = True, outbound: bool = True) -> None:
        """Cut nodes off from all others, clients and controller included, in either or both directions."""
        for node in nodes:
            self.network.isolate(self._node_name(node), inbound=inbound, outbound=outbound)

    def block(self, source: NodeName, destination: NodeName) -> None:
        """Let nothing pass from one node to another; the way back stays open."""
        self.network.block(self._node_name(source), self._node_name(destination))

    def heal(self, *nodes: NodeName) -> None:
        """Undo `isolate` and `block`, for these nodes or for all."""
        if not nodes:
            self.network.heal()
        for node in nodes:
            self.network.heal(self._node_name(node))

    def drop(self, loss: float = 1.0, source: NodeName | None = None, destination: NodeName | None = None) -> None:
        """Lose frames of the links from `source` to `destination` (None: any) with this probability."""
        self._set(source, destination, loss=loss)

    def delay(
        self, least_ms: float, most_ms: float, source: NodeName | None = None, destination: NodeName | None = None
    ) -> None:
        """Let frames of these links take between so many milliseconds, drawn for each; a connection's order is kept."""
        self._set(source, destination, delay_ms=(least_ms, most_ms))

    def duplicate(
        self, probability: float, source: NodeName | None = None, destination: NodeName | None = None
    ) -> None:
        """Deliver frames of these links twice with this probability. TCP never does; retransmission above it may."""
        self._set(source, destination, duplicate=probability)

    def reorder(self, probability: float, source: NodeName | None = None, destination: NodeName | None = None) -> None:
        """Let frames of these links be overtaken by later ones with this probability."""
        self._set(source, destination, reorder=probability)

    def clear_faults(self) -> None:
        """End loss, delay, duplication and reordering on all links; partitions and pauses stay."""
        self.network.clear_faults()

    def reset_connections(self, node: NodeName, peer: NodeName | None = None) -> int:
        """Break the connections between two nodes (or all of one): what is on its way is lost. Returns how many."""
        return self.network.reset(self._node_name(node), None if peer is None else self._node_name(peer))

    def _set(self, source: NodeName | None, destination: NodeName | None, **changes: Any) -> None:
        link = (
            None if source is None else self._node_name(source),
            None if destination is None else self._node_name(destination),
        )
        faults: LinkFaults = attrs.evolve(self.network.rule(*link), **changes)
        self.network.set_faults(faults, *link)

    # --- membership and elections ------------------------------------------------------------------------------

    def lapse_session(self, broker_id: int) -> bool:
        """Let the controller fence a broker as if it had not heard from it; False when it is fenced already.

        The broker does not know, until it reads the metadata or heartbeats; its next heartbeat brings it back.
        """
        self._running(broker_id)
        return self.controller.trigger.lapse_session(broker_id)

    async def elect(self, topic: str, partition: int = 0, *, unclean: bool = False) -> None:
        """Give a partition's leadership to its preferred replica or, with `unclean`, give a partition without a leader
        any live replica: what only lost replicas had is lost. Raises KafkaError when the controller refuses.
        """
        async with self.client("admin") as admin:  # type: ignore[attr-defined]
            await admin.elect_leaders(topic, partition, unclean=unclean)

    # --- disks -------------------------------------------------------------------------------------------------

    def fill_disk(self, broker_id: int, free_bytes: int = 0) -> None:
        """Leave only so many bytes free on a broker's disk: appends beyond fail with KAFKA_STORAGE_ERROR."""
        self._running(broker_id)
        disk = self._simulated("a full disk").disk(_name(broker_id))
        disk.capacity = disk.used + free_bytes

    def free_disk(self, broker_id: int) -> None:
        """Give a full disk room again."""
        self._running(broker_id)
        self._simulated("a full disk").disk(_name(broker_id)).capacity = None

    def fail_next_sync(self, broker_id: int) -> None:
        """Let the broker's next flush fail: its logs refuse appends until it is restarted."""
        self._running(broker_id)
        self._simulated("a failing disk").disk(_name(broker_id)).fail_next_sync()

    # --- within --------------------------------------------------------------------------------------------------

    def _node_name(self, node: NodeName) -> str:
        """A node's name in the network. Raises ValueError for the id of no broker."""
        if not isinstance(node, str):
            self._running(node)
        return _name(node)

    def _simulated(self, what: str) -> SimulatedHost:
        if not isinstance(self.host, SimulatedHost):
            raise UnsupportedFaultError(f"{what} needs the simulated host: leave out host='tcp'")
        return self.host

    def _alive(self, broker_id: int) -> str:
        if not self._running(broker_id).alive:
            raise ValueError(f"broker {broker_id} is down: restart it first")
        return _name(broker_id)

    def _can_hear(self, broker_id: int) -> bool:
        """Whether the broker runs and can reach the controller."""
        if not self._running(broker_id).alive:
            return False
        if not isinstance(self.host, SimulatedHost):
            return True
        wires, name = self.host.wires, _name(broker_id)
        apart = wires.is_blocked(name, CONTROLLER) or wires.is_blocked(CONTROLLER, name)
        return not apart and not wires.is_paused(name)


def _name(node: NodeName) -> str:
    return f"broker-{node}" if isinstance(node, int) else node


def _fate(lose_unsynced: bool | None) -> Fate:
    if lose_unsynced is None:
        return Fate.SEEDED
    return Fate.LOST if lose_unsynced else Fate.KEPT

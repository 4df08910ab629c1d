"""The entry point for embedding: a whole cluster inside your program.

    async with Cluster(brokers=3, seed=7) as cluster:
        await cluster.create_topic("orders", partitions=1, replication_factor=3)
        async with cluster.client() as client:
            offset = await client.produce("orders", b"hello")

It runs in the caller's trio loop. On the simulated host, the default, network, disks and clocks are in memory. Their
faults are the methods below, and `seed` decides everything random. Under trio's MockClock time is free, and a run
depends on nothing but its seed. With `host="tcp"` the same brokers serve any Kafka client over TCP and keep files in a
directory; docs/embedding.md says which faults each host has. For threads and asyncio there is
`tidegauge.running_cluster`.

A crash is not a cancellation. The node first loses its network and its disk; only then are its tasks cancelled, so that
nothing observes the clean-up code of a crashed node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import trio

from tidegauge.impl.cluster.admin import Admin
from tidegauge.impl.cluster.clients import Clients
from tidegauge.impl.cluster.disk_faults import DiskFaults
from tidegauge.impl.cluster.hosts import Host, SimulatedHost, TcpHost, refuse_fewer
from tidegauge.impl.cluster.injections import RequestInjections
from tidegauge.impl.cluster.names import CONTROLLER, LOOPBACK, broker_name
from tidegauge.impl.cluster.network_faults import NetworkFaults
from tidegauge.impl.cluster.options import ClusterOptions
from tidegauge.impl.cluster.parts import Delegate, Parts
from tidegauge.impl.cluster.process_faults import ProcessFaults
from tidegauge.impl.cluster.security import Security
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.faults.fault_log import FaultLog, logged
from tidegauge.impl.faults.request_faults import RequestFaults
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.ports.background_tasks import BackgroundTasks, require_trio
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.server.controller.node import ControllerNode
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.impl.server.trace.tracer import Trace

if TYPE_CHECKING:
    from tidegauge.impl.coordinators.transactions.rules import TransactionRules
    from tidegauge.impl.ports.simulated_network import SimulatedNetwork

START_TIMEOUT_S: Final = 30.0
LEAVE_TIMEOUT_S: Final = 2.0
NOT_RUNNING: Final = "the cluster is not running: use it as `async with Cluster(...) as cluster:`"

CLIENTS: Final = Delegate(lambda parts: parts.clients)
ADMIN: Final = Delegate(lambda parts: parts.admin)
PROCESSES: Final = Delegate(lambda parts: parts.processes)
NETWORK: Final = Delegate(lambda parts: parts.network)
DISKS: Final = Delegate(lambda parts: parts.disks)
REQUESTS: Final = Delegate(lambda parts: parts.requests)


class Cluster:
    """Brokers and a controller. Use it as `async with`. Its parts have its methods (`impl.cluster.parts`)."""

    def __init__(
        self,
        brokers: int = 3,
        seed: int = 0,
        config: Mapping[str, Any] | None = None,
        *,
        host: Literal["simulated", "tcp"] = "simulated",
        directory: str | Path | None = None,
        listen: str = LOOPBACK,
        port: int = 0,
        advertised_host: str | None = None,
        racks: Sequence[str] | None = None,
        security: Security | None = None,
        timers: bool = True,
        trace: bool = True,
        replica_class: type[PartitionReplica] = PartitionReplica,
        controller_class: type[Controller] = Controller,
        transaction_rules: TransactionRules | None = None,
    ) -> None:
        """
        brokers: how many, with ids from 0.
        config: settings under Kafka's names, for all nodes (`impl.server.settings.server_config`).
        directory: where `host="tcp"` keeps its files; without it a temporary directory, removed at the end.
        listen, port: where broker 0 listens with `host="tcp"`, the others on the ports that follow; 0 picks free ones.
        advertised_host: the host name that clients are told, when it is not `listen`.
        racks: each broker's rack.
        security: listeners, certificates, users and ACLs (`impl.cluster.security`); without it all is allowed.
        timers: without them no node does anything by itself; call the `broker.actions`.
        trace: whether decisions are recorded in `cluster.trace`.
        replica_class, controller_class, transaction_rules: the cores to run; for experiments with one rule changed.
            `transaction_rules` is None for the correct ones.

        Raises ValueError that names what is wrong, its value and the way out.
        """
        self.options = ClusterOptions(
            brokers=brokers,
            seed=seed,
            properties=dict(config or {}),
            host=host,
            directory=directory,
            listen=listen,
            port=port,
            advertised_host=advertised_host,
            racks=racks,
            security=security,
            timers=timers,
            replica_class=replica_class,
            controller_class=controller_class,
            transaction_rules=transaction_rules,
        )
        self.size = brokers
        self.seed = seed
        self.timers = timers
        self.trace = Trace()
        self._tracing = trace
        self._parts: Parts | None = None
        self._entered = False
        self._background = BackgroundTasks()

    # --- running ------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Cluster:
        require_trio("a cluster")
        if self._entered:
            raise RuntimeError("a cluster runs once: make a new one")
        self._entered = True
        host = self._make_host()
        nodes = (parts := Parts.of(self.options, host, self.trace if self._tracing else None)).nodes
        self._parts = parts
        nursery = await self._background.__aenter__()
        try:
            if isinstance(host, SimulatedHost):
                nursery.start_soon(host.links.run)
            await nodes.start(nursery)
            await self._bring_up()
        except BaseException as error:
            try:
                if isinstance(error, Exception):  # one node refuses to start: the others end as they began
                    self._stop_nodes()
            finally:
                await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    def _stop_nodes(self) -> None:
        """Close the files of the nodes that run, if they are to be kept."""
        if self.parts.host.keeps_files:
            for task in self.parts.nodes.tasks.values():
                if task.alive:
                    task.stop()

    def _make_host(self) -> Host:
        options = self.options
        if options.host == "simulated":
            return SimulatedHost(options.seed)
        if options.directory is not None:
            refuse_fewer(Path(options.directory), options.brokers)
        return TcpHost(options.directory, seed=options.seed, listen=options.listen, port=options.port)

    async def _bring_up(self) -> None:
        """Return when all brokers are unfenced and each knows it of all.

        Raises TimeoutError, and NodeEndedError when one ends instead.
        """
        if not self.timers:
            for broker in self.brokers:
                await broker.actions.register()
                await broker.actions.apply_metadata()
                await broker.actions.heartbeat()
            for broker in self.brokers:
                await broker.actions.apply_metadata()
        with trio.move_on_after(START_TIMEOUT_S) as scope:
            for broker in self.brokers:
                await self.parts.nodes.task(broker.id).until_ended_or(broker.unfenced.wait)
            unfenced_at = self.controller.controller.image.offset
            for broker in self.brokers:
                await broker.metadata.until_in_force(unfenced_at)
        security = self.options.security
        if security is not None and security.acls and self.controller.is_new:
            await self.create_acls(security.acls)
        if scope.cancelled_caught:
            raise TimeoutError(f"the brokers did not join the controller within {START_TIMEOUT_S:.0f} s")

    async def __aexit__(self, *error: Any) -> None:
        parts = self.parts
        tasks = parts.nodes.tasks
        parts.disks.end_slowness()  # an end waits for its last writes
        try:
            if error[0] is None and parts.host.keeps_files:
                await self._let_brokers_leave()
                self._stop_nodes()
        finally:
            parts.nodes.have_ended = True
            try:
                await self._background.__aexit__(*error)
            finally:
                try:
                    for task in tasks.values():
                        task.abandon()
                finally:
                    parts.host.close()

    async def _let_brokers_leave(self) -> None:
        """Let the brokers that reach the controller leave in good order, all at once."""
        nodes = self.parts.nodes
        if not self.timers or not nodes.tasks[CONTROLLER].alive:
            return
        with trio.move_on_after(LEAVE_TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                for broker in self.brokers:
                    if nodes.reaches_controller(broker.id):
                        nursery.start_soon(partial(broker.membership.leave, patient=False))

    # --- its parts ----------------------------------------------------------------------------------------------------

    @property
    def parts(self) -> Parts:
        """What it consists of. Raises RuntimeError before the cluster was entered."""
        if self._parts is None:
            raise RuntimeError(NOT_RUNNING)
        return self._parts

    @property
    def host(self) -> Host:
        """Where the nodes run. Raises RuntimeError before the cluster was entered."""
        return self.parts.host

    @property
    def network(self) -> SimulatedNetwork:
        """The simulated network, for faults beyond those here (`hold`, `partition`, `set_faults`, …).

        Raises UnsupportedFaultError on TCP.
        """
        return self.host.simulated("the network's faults").links

    @property
    def request_faults(self) -> RequestFaults:
        """The injections that are in force, and the connections that they can apply to."""
        return self.parts.nodes.request_faults

    @property
    def fault_log(self) -> FaultLog:
        """The faults that were injected, in order."""
        return self.parts.fault_log

    @property
    def config(self) -> ServerConfig:
        """The settings of every node."""
        return self.options.config

    @property
    def bootstrap_servers(self) -> str:
        """Where clients begin: `host:port` of every broker, separated by commas. A restart keeps the ports."""
        return ",".join(str(broker.advertised) for broker in self.brokers)

    @property
    def controller(self) -> ControllerNode:
        """The controller's latest process."""
        return self.parts.nodes.controller

    @property
    def brokers(self) -> list[Broker]:
        """The latest process of each broker, by id."""
        return self.parts.nodes.brokers

    def broker(self, broker_id: int) -> Broker:
        """A broker's latest process. Raises ValueError for an id that no broker has."""
        return self.parts.nodes.broker(broker_id)

    def replica(self, broker_id: int, topic: str, partition: int = 0) -> PartitionReplica:
        """A broker's replica of a partition. Raises ValueError when the broker does not host it."""
        hosted = self.broker(broker_id).replicas.get(topic, partition)
        if hosted is None:
            raise ValueError(f"broker {broker_id} does not host {topic}-{partition}")
        return hosted.replica

    def is_alive(self, broker_id: int) -> bool:
        """Whether the broker's process runs; it may be paused, isolated or fenced."""
        return self.parts.nodes.task(broker_id).alive

    # --- clients, topics, access --------------------------------------------------------------------------------------

    client = CLIENTS.method(Clients.client)
    create_topic = ADMIN.method(Admin.create_topic)
    delete_topic = ADMIN.method(Admin.delete_topic)
    create_partitions = ADMIN.method(Admin.create_partitions)
    reassign = ADMIN.method(Admin.reassign)
    is_reassigned = ADMIN.method(Admin.is_reassigned)
    leader = ADMIN.method(Admin.leader)
    isr = ADMIN.method(Admin.isr)
    replicas = ADMIN.method(Admin.replicas)
    wait_for_isr = ADMIN.method(Admin.wait_for_isr)
    wait_for_leader = ADMIN.method(Admin.wait_for_leader)
    settle_metadata = ADMIN.method(Admin.settle_metadata)
    bootstrap_servers_of = ADMIN.method(Admin.bootstrap_servers_of)
    create_acls = ADMIN.method(Admin.create_acls)
    delete_acls = ADMIN.method(Admin.delete_acls)
    elect = ADMIN.fault(Admin.elect)

    # --- faults of processes ------------------------------------------------------------------------------------------

    crash = PROCESSES.fault(ProcessFaults.crash)
    restart = PROCESSES.fault(ProcessFaults.restart)
    shutdown = PROCESSES.fault(ProcessFaults.shutdown)
    pause = PROCESSES.fault(ProcessFaults.pause)
    resume = PROCESSES.fault(ProcessFaults.resume)
    jump_clock = PROCESSES.fault(ProcessFaults.jump_clock)
    jump_controller_clock = PROCESSES.fault(ProcessFaults.jump_controller_clock)
    restart_controller = PROCESSES.fault(ProcessFaults.restart_controller)
    expire_session = PROCESSES.fault(ProcessFaults.expire_session)

    # --- faults of links ----------------------------------------------------------------------------------------------

    isolate = NETWORK.fault(NetworkFaults.isolate)
    block = NETWORK.fault(NetworkFaults.block)
    heal = NETWORK.fault(NetworkFaults.heal)
    drop = NETWORK.fault(NetworkFaults.drop)
    delay = NETWORK.fault(NetworkFaults.delay)
    duplicate = NETWORK.fault(NetworkFaults.duplicate)
    reorder = NETWORK.fault(NetworkFaults.reorder)
    reset_connections = NETWORK.fault(NetworkFaults.reset_connections)

    # --- faults of disks ----------------------------------------------------------------------------------------------

    fill_disk = DISKS.fault(DiskFaults.fill_disk)
    fail_disk = DISKS.fault(DiskFaults.fail_disk)
    fail_next_sync = DISKS.fault(DiskFaults.fail_next_sync)
    strays = DISKS.method(DiskFaults.strays)
    delete_stray = DISKS.method(DiskFaults.delete_stray)
    slow_disk = DISKS.fault(DiskFaults.slow_disk)
    heal_disk = DISKS.fault(DiskFaults.heal_disk)

    # --- faults of requests -------------------------------------------------------------------------------------------

    fail_requests = REQUESTS.fault(RequestInjections.fail_requests)
    fail_produces = REQUESTS.fault(RequestInjections.fail_produces)
    hold_requests = REQUESTS.fault(RequestInjections.hold_requests)
    hold_acks = REQUESTS.fault(RequestInjections.hold_acks)
    slow_responses = REQUESTS.fault(RequestInjections.slow_responses)
    drop_connections = REQUESTS.fault(RequestInjections.drop_connections)

    # --- the end of faults --------------------------------------------------------------------------------------------

    @logged
    def clear_faults(self) -> None:
        """End loss, delay, duplication and reordering on all links, and all injections; partitions and pauses stay."""
        self.host.links.clear_faults()
        self.request_faults.clear()

    @logged
    async def recover(self) -> None:
        """Undo every fault that can be undone: brokers run again and go on, links and disks are healed.

        Returns when all brokers are back in the cluster; replicas may still have to catch up.
        """
        self.clear_faults()
        for broker_id in range(self.size):
            if self.is_alive(broker_id) and self.host.links.is_paused(broker_name(broker_id)):
                self.resume(broker_id)
        self.heal()
        for broker_id in range(self.size):
            self.parts.disks.heal_disk(broker_id)
            if not self.is_alive(broker_id):
                await self.restart(broker_id)
        for broker_id in range(self.size if self.timers else 0):
            await self.broker(broker_id).unfenced.wait()  # this process has been unfenced, …
            while not self.controller.controller.image.is_unfenced(broker_id):  # noqa: ASYNC110 - … and still is
                await trio.sleep(0.001)

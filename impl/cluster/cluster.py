"""The way in: a whole cluster inside your program.

    async with Cluster(brokers=3, seed=7) as cluster:
        await cluster.create_topic("orders", partitions=1, replication_factor=3)
        async with cluster.client() as client:
            offset = await client.produce("orders", b"hello")

It runs in the caller's trio loop, on the simulated host by default: network, disks and clocks in memory, each with
faults that the methods below cause, everything that is random drawn from `seed`. With trio's MockClock time is free,
and a run depends on nothing but its seed. With `host="tcp"` the same brokers talk TCP and keep files in a directory,
for any Kafka client; what can be done to nodes, links and requests there is much the same (docs/embedding.md has the
table). For threads and asyncio there is `tidegauge.running_cluster`.

A crash is not a cancellation: the node loses its network and its disk first, and only then are its tasks cancelled, so
that no clean-up code of a dying node is seen by anybody.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import trio

from tidegauge.impl.cluster.access import Access
from tidegauge.impl.cluster.background import Background, require_trio
from tidegauge.impl.cluster.changes import Changes
from tidegauge.impl.cluster.hosts import BROKER, CONTROLLER, LOOPBACK, Host, SimulatedHost, TcpHost, refuse_fewer
from tidegauge.impl.cluster.injections import Injections
from tidegauge.impl.cluster.running import Running
from tidegauge.impl.cluster.security import Security
from tidegauge.impl.controller.config import DEFAULT_CONTROLLER_ID
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.faults.fault_log import FaultLog
from tidegauge.impl.faults.request_faults import RequestFaults
from tidegauge.impl.metadata.topic_configs import config_value
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.ports.network import Address
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.server.config import ServerConfig
from tidegauge.impl.server.controller.node import ControllerNode
from tidegauge.impl.server.node import Node
from tidegauge.impl.server.trace.tracer import Trace, Tracer
from tidegauge.impl.server.transport.security.listeners import ListenerSpec, plan_listeners

if TYPE_CHECKING:
    from tidegauge.impl.client.client import Client, ClientConfig
    from tidegauge.impl.client.observer import Observer

CLUSTER_ID: Final = "tidegauge"
START_TIMEOUT: Final = 30.0
GOODBYE_TIMEOUT: Final = 2.0
NOT_RUNNING: Final = "the cluster is not running: use it as `async with Cluster(...) as cluster:`"
OVER: Final = "the cluster is over, its `async with` has ended: make a new one"

DEFAULTS: Final[Mapping[str, Any]] = {"replica.fetch.backoff.ms": 100, "broker.heartbeat.interval.ms": 1_000}
"""Where a small cluster in one process does better than with Kafka's defaults."""


class Cluster(Changes, Injections, Access):
    """Brokers and a controller. Use it as `async with`."""

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
    ) -> None:
        """
        brokers: how many, with ids from 0.
        config: settings under Kafka's names, for all nodes (`impl.server.config`).
        directory: where `host="tcp"` keeps its files; without one in a temporary directory that goes at the end.
        listen, port: where broker 0 listens with `host="tcp"`, the others on the ports that follow; 0 picks free ones.
        advertised_host: the host name that clients are told, when it is not `listen`.
        racks: each broker's rack.
        security: listeners, certificates, users and rights (`impl.cluster.security`); without it all is allowed.
        timers: without them no node does anything by itself; call the actions of `broker.actions`.
        trace: whether decisions are recorded in `cluster.trace`.
        replica_class, controller_class: the cores to run; for experiments with one rule changed.

        Raises ValueError naming what is wrong, its value and the way out.
        """
        _check(brokers, seed, host, directory, racks)
        _check_listening(brokers, host, listen, port, advertised_host)
        if security is not None and not isinstance(security, Security):
            raise ValueError(f"security is {security!r}: give a Security, such as Security('SASL_PLAINTEXT', users=…)")
        self.size = brokers
        self.seed = seed
        self.given_config = dict(config or {})
        secured = {} if security is None else security.properties()
        self.config = ServerConfig.from_properties({**DEFAULTS, **secured, **(config or {})})
        _check_ports(plan_listeners(self.config), brokers, host)
        self._security = security
        self.timers = timers
        self.trace = Trace()
        self._tracing = trace
        self._racks = racks
        self._host_kind = host
        self._directory = directory
        self._listen, self._port, self._advertised_host = listen, port, advertised_host
        self._replica_class = replica_class
        self._controller_class = controller_class
        self._host: Host | None = None
        self._nodes: dict[str, Running] = {}
        self._addresses: dict[str, Address] = {}
        self._bound: dict[str, Mapping[str, Address]] = {}
        self._client_ids: set[str] = set()
        self._fault_log: FaultLog | None = None
        self._request_faults: RequestFaults | None = None
        self._entered = False
        self._is_over = False
        self._background = Background()

    # --- running ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Cluster:
        require_trio("a cluster")
        if self._entered:
            raise RuntimeError("a cluster runs once: make a new one")
        self._entered = True
        self._host = self._make_host()
        self._fault_log = FaultLog(self._host.clock(CONTROLLER).now_ms())
        names = [CONTROLLER, *map(broker_name, range(self.size))]
        self._request_faults = RequestFaults(
            self.seed, names, self._host.links if isinstance(self._host, TcpHost) else None
        )
        self._nursery = await self._background.__aenter__()
        try:
            if isinstance(self._host, SimulatedHost):
                self._nursery.start_soon(self._host.wires.run)
            await self._start_controller()
            for broker_id in range(self.size):
                await self._start_broker(broker_id)
            await self._bring_up()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    def _make_host(self) -> Host:
        if self._host_kind == "simulated":
            return SimulatedHost(self.seed)
        if self._directory is not None:
            refuse_fewer(Path(self._directory), self.size)
        return TcpHost(self._directory, seed=self.seed, listen=self._listen, port=self._port)

    async def _bring_up(self) -> None:
        if not self.timers:
            for broker in self.brokers:
                await broker.actions.register()
                await broker.actions.apply_metadata()
                await broker.actions.heartbeat()
            for broker in self.brokers:
                await broker.actions.apply_metadata()
        with trio.move_on_after(START_TIMEOUT) as scope:
            for broker in self.brokers:
                await broker.unfenced.wait()
        if self._security is not None and self._security.acls and self.controller.is_new:
            await self.create_acls(self._security.acls)
        if scope.cancelled_caught:
            raise TimeoutError(f"the brokers did not join the controller within {START_TIMEOUT:.0f} s")

    async def __aexit__(self, *error: Any) -> None:
        self._quicken_disks()  # an end waits for its last writes
        try:
            if error[0] is None:
                await self._say_goodbye()
                for running in self._nodes.values():
                    if running.alive:
                        running.stop()
        finally:
            self._is_over = True
            try:
                await self._background.__aexit__(*error)
            finally:
                try:
                    for running in self._nodes.values():
                        running.abandon()
                finally:
                    self.host.close()

    async def _say_goodbye(self) -> None:
        """The brokers leave in good order, all at once and waiting for nobody, as far as they reach the controller."""
        if not self.timers or not self._nodes[CONTROLLER].alive:
            return
        with trio.move_on_after(GOODBYE_TIMEOUT):
            async with trio.open_nursery() as nursery:
                for broker in self.brokers:
                    if self._can_hear(broker.id):
                        nursery.start_soon(partial(broker.membership.leave, patient=False))

    async def _start_controller(self) -> None:
        node = self._node(CONTROLLER, DEFAULT_CONTROLLER_ID)
        server = ControllerNode(node, seed=self.seed, controller_class=self._controller_class)
        await self._start(CONTROLLER, server)

    async def _start_broker(self, broker_id: int) -> None:
        name = broker_name(broker_id)
        server = Broker(self._node(name, broker_id), self._addresses[CONTROLLER], replica_class=self._replica_class)
        await self._start(name, server)

    async def _start(self, name: str, server: Broker | ControllerNode) -> None:
        running = self._nodes[name] = Running(server)
        self._addresses[name] = await self._nursery.start(running.run)
        if isinstance(server, Broker):
            self._bound[name] = server.listeners.bound

    def _node(self, name: str, node_id: int) -> Node:
        clock = self.host.clock(name)
        return Node(
            id=node_id,
            network=self.host.network(name),
            disk=self.host.disk(name),
            clock=clock,
            tracer=Tracer(self.trace if self._tracing else None, node_id, clock),
            directory=self.host.directory(name),
            listen=(name not in self._bound and self._addresses.get(name)) or self.host.listen_address(name),
            cluster_id=CLUSTER_ID,
            config=self.config,
            rack=None if self._racks is None or name == CONTROLLER else self._racks[node_id],
            timers=self.timers,
            request_faults=self.request_faults,
            advertised_host=self._advertised_host if name != CONTROLLER else None,
            randomness=self.host.randomness(name),
            internal_host=self.host.internal_host(name),
            bound=self._bound.get(name, {}),
        )

    # --- looking ---------------------------------------------------------------------------------------------------

    @property
    def host(self) -> Host:
        """Where the nodes run. Raises RuntimeError before the cluster was entered."""
        if self._host is None:
            raise RuntimeError(NOT_RUNNING)
        return self._host

    @property
    def request_faults(self) -> RequestFaults:
        """The orders that servers obey; the methods of `impl.cluster.injections` give them."""
        if self._request_faults is None:
            raise RuntimeError(NOT_RUNNING)
        return self._request_faults

    @property
    def fault_log(self) -> FaultLog:
        """What was done to the cluster on purpose."""
        if self._fault_log is None:
            raise RuntimeError(NOT_RUNNING)
        return self._fault_log

    @property
    def bootstrap_servers(self) -> str:
        """Where clients begin: `host:port` of every broker, separated by commas; ports stay over a restart."""
        return ",".join(str(broker.advertised) for broker in self.brokers)

    @property
    def brokers(self) -> list[Broker]:
        """The brokers by id; one that was crashed is its last process, until it is restarted."""
        return [self.broker(broker_id) for broker_id in range(self.size)]

    def broker(self, broker_id: int) -> Broker:
        """One broker. Raises ValueError when there is none with this id."""
        server = self._running(broker_id).server
        assert isinstance(server, Broker), "broker ids name brokers"
        return server

    @property
    def controller(self) -> ControllerNode:
        """The controller's node."""
        server = self._nodes[CONTROLLER].server
        assert isinstance(server, ControllerNode), "the controller's name names the controller"
        return server

    def replica(self, broker_id: int, topic: str, partition: int = 0) -> PartitionReplica:
        """A broker's replica of a partition. Raises ValueError when the broker does not host it."""
        hosted = self.broker(broker_id).replicas.get(topic, partition)
        if hosted is None:
            raise ValueError(f"broker {broker_id} does not host {topic}-{partition}")
        return hosted.replica

    def is_alive(self, broker_id: int) -> bool:
        """Whether the broker's process runs (it may be paused, isolated or fenced all the same)."""
        return self._running(broker_id).alive

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition by the controller's word; -1 for none. Raises ValueError."""
        registration = self.controller.controller.image.partition(topic, partition)
        if registration is None:
            raise ValueError(f"there is no partition {topic}-{partition}")
        return registration.leader

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """The in-sync replicas of a partition by the controller's word, sorted. Raises ValueError."""
        registration = self.controller.controller.image.partition(topic, partition)
        if registration is None:
            raise ValueError(f"there is no partition {topic}-{partition}")
        return tuple(sorted(registration.isr))

    def _running(self, broker_id: int) -> Running:
        if type(broker_id) is not int:
            raise ValueError(f"a broker's id is {broker_id!r}: give a whole number from 0 to {self.size - 1}")
        running = self._nodes.get(broker_name(broker_id))
        if running is None:
            raise ValueError(f"there is no broker {broker_id}: ids go from 0 to {self.size - 1}")
        return running

    # --- using -----------------------------------------------------------------------------------------------------

    def client(
        self,
        client_id: str | None = None,
        *,
        config: ClientConfig | None = None,
        observer: Observer | None = None,
    ) -> Client:
        """A client, to be used as `async with`; on the simulated host its id is its name in the network.

        Without a config of its own it sends what the cluster's message.max.bytes lets brokers take.
        """
        if self._is_over:
            raise RuntimeError(OVER)
        from tidegauge.impl.client.client import Client, ClientConfig  # whoever brings a client need not wait for ours

        host = self.host
        name = client_id or f"client-{len(self._client_ids) + 1}"
        self._client_ids.add(name)
        if config is None:
            config = ClientConfig(message_max_bytes=config_value({}, "max.message.bytes", self.config.topic_defaults))
        bootstrap = [self._addresses[broker_name(broker_id)] for broker_id in range(self.size)]
        return Client(host.network(name), bootstrap, host.clock(name), client_id=name, config=config, observer=observer)

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        assignments: Sequence[Sequence[int]] = (),
    ) -> None:
        """Create a topic and wait until its brokers know of it.

        `replication_factor` is the number of brokers unless it is given; `assignments` names each partition's brokers
        by hand, the preferred leader first. Raises KafkaError.
        """
        configs = {key: _config_text(value) for key, value in (config or {}).items()}
        factor = self.size if replication_factor is None else replication_factor
        async with self.client("admin") as admin:
            await admin.create_topic(name, partitions, factor, configs=configs, assignments=assignments)
        await self.settle_metadata()

    async def settle_metadata(self, timeout: float = 10.0) -> None:  # noqa: ASYNC109 - a bound on a convenience
        """Wait until every broker that can has applied all of the metadata log; those that cannot are left out."""
        end_offset = self.controller.log.end_offset
        with trio.move_on_after(timeout):
            for broker in self.brokers:
                while self._can_hear(broker.id) and broker.metadata.offset_in_force < end_offset:
                    if self.timers:
                        await trio.sleep(0.001)
                    else:
                        await broker.actions.apply_metadata()

    async def wait_for_isr(self, topic: str, members: Collection[int], partition: int = 0) -> None:
        """Wait until the ISR is exactly `members`; bound it with a trio timeout of yours."""
        while set(self.isr(topic, partition)) != set(members):  # noqa: ASYNC110 - for tests, which bound it
            await trio.sleep(0.01)

    async def wait_for_leader(self, topic: str, partition: int = 0, *, other_than: int = -1) -> int:
        """Wait until a partition has a leader (another than one), and that broker knows; returns it."""
        while True:
            leader = self.leader(topic, partition)
            if leader not in (-1, other_than) and self.is_alive(leader):
                hosted = self.broker(leader).replicas.get(topic, partition)
                if hosted is not None and hosted.replica.is_leader:
                    return leader
            await trio.sleep(0.01)


def broker_name(broker_id: int) -> str:
    """A broker's name in the simulated network."""
    return f"{BROKER}{broker_id}"


def _config_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check(brokers: int, seed: int, host: str, directory: object, racks: Sequence[str] | None) -> None:
    if type(brokers) is not int:
        raise ValueError(f"brokers is {brokers!r}: give a whole number from 1")
    if brokers < 1:
        raise ValueError(f"brokers is {brokers}: ask for at least 1")
    if type(seed) is not int:
        raise ValueError(f"seed is {seed!r}: give a whole number, so that the run can be had again")
    if host not in ("simulated", "tcp"):
        raise ValueError(f"host is {host!r}: use 'simulated' or 'tcp'")
    if directory is not None and host != "tcp":
        raise ValueError(f"directory is {str(directory)!r}: only host='tcp' keeps files; leave it out")
    if isinstance(racks, str):
        raise ValueError(f"racks is {racks!r}: give a list with one for each broker")
    if racks is not None and len(racks) != brokers:
        raise ValueError(f"racks has {len(racks)} entries for {brokers} brokers: give one for each")


def _check_ports(listeners: Sequence[ListenerSpec], brokers: int, host: str) -> None:
    for listener in listeners:
        if listener.port and brokers > 1 and host == "tcp":
            raise ValueError(
                f"listeners has {listener.name} at port {listener.port} for {brokers} brokers: leave the port out of "
                "one listener, which gets the broker's own, and say 0 for the others"
            )


def _check_listening(brokers: int, host: str, listen: str, port: int, advertised_host: str | None) -> None:
    if host != "tcp" and (listen, port, advertised_host) != (LOOPBACK, 0, None):
        raise ValueError(f"listen is {listen!r}, port {port!r}: only host='tcp' listens; leave them out")
    if type(port) is not int or not 0 <= port <= 65536 - brokers:
        raise ValueError(f"port is {port!r}: give 0 for free ports, or one from 1 to {65536 - brokers}")
    if listen in ("0.0.0.0", "::") and advertised_host is None:
        raise ValueError(
            f"listen is {listen!r}: give advertised_host as well, for clients have to be told where to connect"
        )
    for name, value in (("listen", listen), ("advertised_host", advertised_host)):
        if value is not None and (not isinstance(value, str) or not value):
            raise ValueError(f"{name} is {value!r}: give a host name or an address")

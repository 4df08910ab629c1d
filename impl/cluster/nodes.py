"""The nodes of a cluster: starting their processes, and finding them by id or name."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import trio

from tidegauge.impl.cluster.hosts import Host, SimulatedHost, TcpHost
from tidegauge.impl.cluster.names import CONTROLLER, NodeName, broker_name
from tidegauge.impl.cluster.node_task import NodeTask
from tidegauge.impl.cluster.options import ClusterOptions
from tidegauge.impl.controller.config import DEFAULT_CONTROLLER_ID
from tidegauge.impl.faults.request_faults import RequestFaults
from tidegauge.impl.ports.log_lines import logging_as
from tidegauge.impl.ports.network import Address
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.server.controller.node import ControllerNode
from tidegauge.impl.server.node import Node
from tidegauge.impl.server.trace.tracer import Trace, Tracer
from tidegauge.impl.server.transport.security.cluster_secret import ClusterSecret
from tidegauge.impl.server.transport.security.inter_broker import InterBroker
from tidegauge.impl.server.transport.security.listeners import plan_listeners


@attrs.define(eq=False, repr=False)
class Nodes:
    """The latest process of every node."""

    options: ClusterOptions
    host: Host
    trace: Trace | None
    tasks: dict[str, NodeTask] = attrs.field(factory=dict)
    """By the node's name. A process that has ended stays here until the node is started again."""
    addresses: dict[str, Address] = attrs.field(factory=dict)
    client_ids: set[str] = attrs.field(factory=set)
    """The ids of the clients that the cluster has made."""
    have_ended: bool = False
    """Whether the cluster's block has ended."""
    request_faults: RequestFaults = attrs.field(init=False)
    secret: ClusterSecret = attrs.field(init=False)
    """By which nodes know each other, and the cluster's own clients."""
    _bound: dict[str, Mapping[str, Address]] = attrs.field(factory=dict)
    """Where each broker's first process listened, by listener."""
    _nursery: trio.Nursery = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        names = [CONTROLLER, *map(broker_name, self.broker_ids)]
        links = self.host.links if isinstance(self.host, TcpHost) else None
        self.secret = ClusterSecret.generate(self.host.randomness("cluster"))
        self.request_faults = RequestFaults(self.options.seed, names, links)

    @property
    def broker_ids(self) -> range:
        """The ids of all brokers."""
        return range(self.options.brokers)

    # --- starting -----------------------------------------------------------------------------------------------------

    async def start(self, nursery: trio.Nursery) -> None:
        """Start every node in this nursery, the controller first."""
        self._nursery = nursery
        await self.start_controller()
        for broker_id in self.broker_ids:
            await self.start_broker(broker_id)

    async def start_controller(self) -> None:
        """Start a process of the controller."""
        node = self._node(CONTROLLER, DEFAULT_CONTROLLER_ID)
        with logging_as(CONTROLLER):
            server = ControllerNode(node, seed=self.options.seed, controller_class=self.options.controller_class)
            await self._start(CONTROLLER, server)

    async def start_broker(self, broker_id: int) -> None:
        """Start a process of a broker."""
        name = broker_name(broker_id)
        node = self._node(name, broker_id)
        with logging_as(name):
            server = Broker(
                node,
                [self.addresses[CONTROLLER]],
                replica_class=self.options.replica_class,
                transaction_rules=self.options.transaction_rules,
            )
            await self._start(name, server)

    async def _start(self, name: str, server: Broker | ControllerNode) -> None:
        task = self.tasks[name] = NodeTask(server, name)
        self.addresses[name] = await self._nursery.start(task.run)
        if isinstance(server, Broker):
            self._bound[name] = server.listeners.bound

    def _node(self, name: str, node_id: int) -> Node:
        options, clock = self.options, self.host.clock(name)
        is_broker = name != CONTROLLER
        return Node(
            id=node_id,
            network=self.host.network(name),
            disk=self.host.disk(name),
            clock=clock,
            tracer=Tracer(self.trace, node_id, clock),
            directory=self.host.directory(name),
            listen=(name not in self._bound and self.addresses.get(name)) or self.host.listen_address(name),
            cluster_id=self.controller.cluster_id if is_broker else None,
            secret=self.secret,
            config=options.config,
            rack=options.racks[node_id] if is_broker and options.racks is not None else None,
            timers=options.timers,
            request_faults=self.request_faults,
            advertised_host=options.advertised_host if is_broker else None,
            randomness=self.host.randomness(name),
            internal_host=self.host.internal_host(name),
            bound=self._bound.get(name, {}),
        )

    def ways(self, client_id: str) -> InterBroker:
        """How a client of the cluster's own connects to brokers: by their listener for each other, as they do."""
        config, randomness = self.options.config, self.host.randomness(client_id)
        return InterBroker(
            plan_listeners(config)[0],
            lambda: config,
            self.host.network(client_id),
            randomness,
            secret_login=self.secret.login(client_id, randomness),
        )

    # --- finding ------------------------------------------------------------------------------------------------------

    @property
    def controller(self) -> ControllerNode:
        """The controller's latest process."""
        server = self.tasks[CONTROLLER].server
        assert isinstance(server, ControllerNode), "the controller's name is the controller's"
        return server

    @property
    def brokers(self) -> list[Broker]:
        """The latest process of each broker, by id."""
        return [self.broker(broker_id) for broker_id in self.broker_ids]

    def broker(self, broker_id: int) -> Broker:
        """A broker's latest process. Raises ValueError for an id that no broker has."""
        server = self.task(broker_id).server
        assert isinstance(server, Broker), "broker names are brokers'"
        return server

    def task(self, broker_id: int) -> NodeTask:
        """The task of a broker's latest process. Raises ValueError for an id that no broker has."""
        if type(broker_id) is not int:
            raise ValueError(
                f"a broker's id is {broker_id!r}: give a whole number from 0 to {self.options.brokers - 1}"
            )
        task = self.tasks.get(broker_name(broker_id))
        if task is None:
            raise ValueError(f"there is no broker {broker_id}: ids go from 0 to {self.options.brokers - 1}")
        return task

    def alive(self, broker_id: int) -> str:
        """The name of a broker that is up. Raises ValueError when it is down."""
        if not self.task(broker_id).alive:
            raise ValueError(f"broker {broker_id} is down: restart it first")
        return broker_name(broker_id)

    def name(self, node: NodeName) -> str:
        """A node's name in the network. Raises ValueError for a name that no node has."""
        if not isinstance(node, str):
            self.task(node)
            return broker_name(node)
        clients = {**dict.fromkeys(sorted(self.client_ids)), **self.request_faults.client_ids}
        if node in self.tasks or node in clients:
            return node
        known = ", ".join(repr(name) for name in list(clients)[-10:])
        raise ValueError(
            f"{node!r} names no node: give a broker's id from 0 to {self.options.brokers - 1}, {CONTROLLER!r}, or the "
            "id of a client that has been made or has sent a request"
            + (f" ({known})" if known else ", of which there is none")
        )

    def reaches_controller(self, broker_id: int) -> bool:
        """Whether the broker runs and can talk to the controller."""
        if not self.task(broker_id).alive:
            return False
        links, name = self.host.links, broker_name(broker_id)
        apart = links.is_blocked(name, CONTROLLER) or links.is_blocked(CONTROLLER, name)
        return not apart and not links.is_paused(name)

    def simulated(self, what: str) -> SimulatedHost:
        """The simulated host. Raises UnsupportedFaultError, which says what needs it, when the cluster is on TCP."""
        return self.host.simulated(what)

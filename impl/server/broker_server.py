"""A broker: the shell around the replicas' cores.

Theory of operation
-------------------
A broker is one nursery. In it run a task for each connection, a fetcher for each leader that it follows, and a handful
of timers. None of them decides anything: decisions are the cores' (`impl.partition`), and every task does the same
three things, hand an event to a core, record what it decided in the trace, carry out its effects.

Everything that a broker does by itself, and not because a message came, is an `BrokerActions` method: fetch, pull
metadata, heartbeat, shrink ISRs, checkpoint, flush. Timers call these methods and do nothing else; a broker without
timers does only what it is told to, one action at a time, which is how the specification drives it.

The broker knows its network, disk and clock as ports and cannot tell which host it is on. It never flushes because it
is cancelled: a crash is the host's doing (it cuts disk and network, then cancels), a clean stop is `stop`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import trio

from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.ports.network import Address, peer_host
from tidegauge.impl.server.apis.api_versions import api_versions_response, invalid_request, names_its_software
from tidegauge.impl.server.broker.actions import BrokerActions
from tidegauge.impl.server.broker.collaborators import BrokerCollaborators
from tidegauge.impl.server.broker.controller_link import ControllerLink
from tidegauge.impl.server.broker.directory_failures import DirectoryFailures
from tidegauge.impl.server.broker.directory_moves import DirectoryMoves
from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
from tidegauge.impl.server.broker.fetch_sessions import LARGEST_SESSION_ID, FetchSessions
from tidegauge.impl.server.broker.isr_proposals import IsrProposals
from tidegauge.impl.server.broker.listener import BrokerListener
from tidegauge.impl.server.broker.log_cleaner import LogCleaner
from tidegauge.impl.server.broker.log_upkeep import LogUpkeep
from tidegauge.impl.server.broker.metadata_cache import MetadataCache
from tidegauge.impl.server.broker.peers import Peers
from tidegauge.impl.server.broker.producer_ids import ProducerIdAllocator
from tidegauge.impl.server.broker.quotas import Quotas
from tidegauge.impl.server.broker.registration import Registration
from tidegauge.impl.server.broker.replica_fetchers import ReplicaFetchers
from tidegauge.impl.server.broker.replica_manager import ReplicaManager
from tidegauge.impl.server.broker.tasks import BrokerTasks
from tidegauge.impl.server.broker_handlers import BROKER_HANDLERS
from tidegauge.impl.server.node import Node
from tidegauge.impl.server.transport.connection import Service
from tidegauge.impl.server.transport.context import RequestContext
from tidegauge.impl.server.transport.failed_requests import FailedRequests
from tidegauge.impl.server.transport.handlers import Handlers
from tidegauge.impl.server.transport.idle_connections import IdleConnections
from tidegauge.impl.server.transport.security.acl_authorizer import make_authorizer
from tidegauge.impl.server.transport.security.listeners import plan_listeners
from tidegauge.impl.storage.log_directories import LogDirectories
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey

if TYPE_CHECKING:
    from tidegauge.impl.faults.request_faults import RequestFaults, ServerRequestFaults


class Broker:
    """One broker. `await nursery.start(broker.run)` returns when it listens."""

    def __init__(
        self, node: Node, controller: Address, *, replica_class: type[PartitionReplica] = PartitionReplica
    ) -> None:
        self.id = node.id
        self.config = DynamicConfig(node.id, node.config)
        self.network = node.network
        self.clock = node.clock
        self.disk = node.disk
        self.tracer = node.tracer
        self.failed_requests = FailedRequests(f"broker {node.id}", node.tracer)
        self.cluster_id = node.cluster_id
        self.rack = node.rack
        self.timers = node.timers
        self.address = node.listen
        """Where it listens for other brokers, and for whoever is trusted like one."""
        self.registration = Registration(node.id)
        self.tasks = BrokerTasks()
        self.controller: ControllerLink
        self.metadata = MetadataCache()
        directories = LogDirectories.open(
            node.disk,
            node.log_directories,
            cluster_id=node.cluster_id,
            node_id=node.id,
            new_id=lambda: UUID(bytes=node.randomness.token(16), version=4),
        )
        self.replicas = ReplicaManager(
            node.id, directories, node.config, node.clock, node.tracer, replica_class, node.disk.all_at_once
        )
        self.directory_failures = DirectoryFailures(self)
        self.directory_moves = DirectoryMoves(self)
        self.cleaner = LogCleaner(self)
        self.upkeep = LogUpkeep(self)
        self.idle_connections = IdleConnections(node.clock, node.config.connections_max_idle_ms)
        self.fetch_sessions = FetchSessions(
            node.config.max_incremental_fetch_session_cache_slots,
            lambda: int.from_bytes(node.randomness.token(4), "big") % LARGEST_SESSION_ID + 1,
        )
        self.peers = Peers(self)
        self.fetchers = ReplicaFetchers(self)
        self.proposals = IsrProposals(self)
        self.producer_ids = ProducerIdAllocator(self)
        self.actions = BrokerActions(self)
        self.replicas.on_proposal = self.proposals.propose
        self.replicas.on_leadership = self.fetchers.leader_changed
        self.replicas.on_roll = self.upkeep.rolled
        self.node = node
        self._controller_address = controller
        self._connections = 0
        self.quotas = Quotas(self.clock, node.config, lambda: self.metadata.image)
        self._versions = {
            key: BROKER_APIS[key] for key in BROKER_APIS if key in {*BROKER_HANDLERS, ApiKey.API_VERSIONS}
        }
        self.authorizer = make_authorizer(node.config, lambda: self.metadata.image.acls)
        service = self._service(node)
        self.listeners = [BrokerListener(self, spec, service, node.randomness) for spec in plan_listeners(node.config)]
        """The first is for other brokers."""
        self.closed_connections: list[str] = []
        """Why connections were closed that broke the rules or were lost; the latest ones."""

    def _service(self, node: Node) -> Service:
        """What the listeners have in common."""
        handlers = Handlers(BROKER_HANDLERS, self._collaborators, self.quotas.governing)
        handlers[ApiKey.API_VERSIONS] = self._handle_api_versions
        return Service(
            handlers,
            self._versions,
            self.clock,
            node.config.socket_request_max_bytes,
            request_faults=self._request_faults(node.request_faults),
            on_failure=self.failed_requests.note,
            turns=trio.Semaphore(node.config.queued_max_requests),
            idle=self.idle_connections,
        )

    def _collaborators(self) -> BrokerCollaborators:
        return BrokerCollaborators(metadata=self.metadata, producer_ids=self.producer_ids, broker=self)

    def _request_faults(self, faults: RequestFaults | None) -> ServerRequestFaults | None:
        if faults is None:
            return None
        return faults.at(f"broker-{self.id}", lambda topic_id: self.metadata.topic_name(str(topic_id)))

    @property
    def advertised(self) -> Address:
        """Where clients are told that the broker listens, by the listener that was configured first."""
        return next(iter(self.endpoints.values()))

    @property
    def endpoints(self) -> dict[str, Address]:
        """Where clients are told that the broker listens, by listener, in the order of `listeners`."""
        open_to_clients = [listener for listener in self.listeners if not listener.spec.trusted]
        return {listener.spec.name: listener.advertised for listener in self._as_configured(open_to_clients)}

    def _as_configured(self, listeners: list[BrokerListener]) -> list[BrokerListener]:
        names = [text.partition(":")[0] for text in self.node.config.listeners]
        return sorted(listeners, key=lambda listener: names.index(listener.spec.name) if names else 0)

    @property
    def bound(self) -> dict[str, Address]:
        """Where it listens, by listener."""
        return {listener.spec.name: listener.address for listener in self.listeners}

    @property
    def halted(self) -> str | None:
        """Why the broker has stopped by itself; None while it has not."""
        return self.tasks.halted

    @property
    def unfenced(self) -> trio.Event:
        """Set when a heartbeat has first shown this process unfenced."""
        return self.registration.unfenced

    @property
    def stopped_cleanly_in(self) -> int:
        """The broker epoch of the process that used the log directories last, if it stopped cleanly and this one has
        not registered yet; else -1."""
        return self.replicas.directories.stopped_cleanly_in if self.registration.broker_epoch < 0 else -1

    def reconfigure(self) -> None:
        """Bring into force what the metadata says of brokers' settings and of clients' quotas."""
        image = self.metadata.image
        if self.config.apply(image):
            self.replicas.reconfigure(self.config.current)
        self.quotas.apply(image.client_quotas)

    async def run(self, task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Starts with the address on which the broker listens."""
        try:
            for listener in sorted(self.listeners, key=lambda listener: listener.spec.port == 0):
                await listener.open(self.node)  # those that take any free port last
            async with trio.open_nursery() as nursery:
                self.tasks.nursery = nursery
                self.address = self.listeners[0].address
                self.controller = ControllerLink(self, self._controller_address)
                for listener in self.listeners:
                    nursery.start_soon(listener.serve)
                task_status.started(self.address)
                if self.timers:
                    nursery.start_soon(self.actions.run_timers)
                    nursery.start_soon(self.idle_connections.run)
        finally:
            with trio.CancelScope(shield=True):
                for listener in self.listeners:
                    await listener.aclose()

    async def serve_connection(self, listener: BrokerListener, stream: trio.abc.Stream) -> None:
        """Serve a peer that came by a listener, unless there are too many."""
        if self._connections >= self.config.current.max_connections:
            return
        self._connections += 1
        try:
            if wait_ms := self.quotas.connection_wait_ms(peer_host(stream)):
                await trio.sleep(wait_ms / 1000)
            if (reason := await listener.serve_stream(stream)) is not None:
                self.closed_connections = [*self.closed_connections[-99:], reason]
        finally:
            self._connections -= 1

    async def _handle_api_versions(self, request: Any, context: RequestContext) -> Any:
        if not names_its_software(request, context.api_version):
            return invalid_request()
        return api_versions_response(self._versions, self.metadata.image.offset, context.api_version)

    def stop(self) -> None:
        """A clean shutdown's last act, before the nursery is cancelled: logs flushed, checkpoints written."""
        self.replicas.close(self.registration.broker_epoch)

    def abandon(self) -> None:
        """Let go of all files as they are, when the nursery was cancelled without a `stop`."""
        self.replicas.abandon()

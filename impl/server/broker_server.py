"""A broker: the shell around the replicas' cores, put together from its parts.

Theory of operation
-------------------
A broker is one nursery. In it run a task for each connection, a fetcher for each leader that the broker follows, and a
handful of timers. None of them decides anything: the cores decide (`impl.partition`). Every task does the same three
things: it hands an event to a core, records the core's decision in the trace, and carries out the core's effects.

What a broker does by itself, and not because a request came, is a method of `BrokerActions`: fetch, pull metadata,
send heartbeats, shrink ISRs, checkpoint, flush. Timers only call these methods. A broker without timers does one action
at a time, as a driver orders it; so the specification drives it.

A broker knows its network, disk and clock as ports, and cannot tell which host it runs on. It never flushes because it
is cancelled. A crash is the host's doing: it cuts disk and network, then cancels. A clean stop is `stop`.

This module makes the parts and gives each one the parts that it needs. No part knows the `Broker`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import trio

from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.ports.network import Address
from tidegauge.impl.server.broker.actions import BrokerActions
from tidegauge.impl.server.broker.collaborators import BrokerCollaborators
from tidegauge.impl.server.broker.controller_link import ControllerLink
from tidegauge.impl.server.broker.coordinators import Coordinators
from tidegauge.impl.server.broker.directory_failures import DirectoryFailures
from tidegauge.impl.server.broker.directory_moves import DirectoryMoves
from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
from tidegauge.impl.server.broker.fetch_sessions import LARGEST_SESSION_ID, FetchSessions
from tidegauge.impl.server.broker.follower_fetches import FollowerFetches
from tidegauge.impl.server.broker.forwarding import Forwarder
from tidegauge.impl.server.broker.internal_topics import InternalTopics
from tidegauge.impl.server.broker.isr_proposals import IsrProposals
from tidegauge.impl.server.broker.listener import BrokerListener
from tidegauge.impl.server.broker.listeners import BrokerListeners
from tidegauge.impl.server.broker.log_cleaner import LogCleaner
from tidegauge.impl.server.broker.log_upkeep import LogUpkeep
from tidegauge.impl.server.broker.membership import Membership
from tidegauge.impl.server.broker.metadata_cache import MetadataCache
from tidegauge.impl.server.broker.metadata_loader import MetadataLoader
from tidegauge.impl.server.broker.metadata_notes import MetadataNotes
from tidegauge.impl.server.broker.peers import Peers
from tidegauge.impl.server.broker.producer_ids import ProducerIdAllocator
from tidegauge.impl.server.broker.quotas import Quotas
from tidegauge.impl.server.broker.readiness import Readiness
from tidegauge.impl.server.broker.registration import Registration
from tidegauge.impl.server.broker.replica_fetchers import ReplicaFetchers
from tidegauge.impl.server.broker.replica_manager import ReplicaManager
from tidegauge.impl.server.broker.replica_selection import ReplicaSelector
from tidegauge.impl.server.broker.tasks import BrokerTasks
from tidegauge.impl.server.broker.timers import BrokerTimers
from tidegauge.impl.server.broker.transaction_verifier import TransactionVerifier
from tidegauge.impl.server.broker_handlers import BROKER_HANDLERS
from tidegauge.impl.server.node import Node
from tidegauge.impl.server.requests.api_versions import api_versions_response, invalid_request, names_its_software
from tidegauge.impl.server.transport.context import RequestContext
from tidegauge.impl.server.transport.failed_requests import FailedRequests
from tidegauge.impl.server.transport.handlers import Handlers
from tidegauge.impl.server.transport.idle_connections import IdleConnections
from tidegauge.impl.server.transport.security.acl_authorizer import make_authorizer
from tidegauge.impl.server.transport.security.inter_broker import InterBroker
from tidegauge.impl.server.transport.security.listeners import plan_listeners
from tidegauge.impl.server.transport.service import Service
from tidegauge.impl.storage.log_directories import LogDirectories
from tidegauge.impl.wire.apis import BROKER_APIS, UNSTABLE_APIS, ApiKey

if TYPE_CHECKING:
    from tidegauge.impl.coordinators.transactions.rules import TransactionRules
    from tidegauge.impl.server.broker.groups import Groups
    from tidegauge.impl.server.broker.transactions import Transactions
    from tidegauge.impl.server.transport.request_hook import RequestHook, RequestHooks


class Broker:
    """One broker. `await nursery.start(broker.run)` returns when it listens."""

    def __init__(
        self,
        node: Node,
        voters: Sequence[Address],
        *,
        replica_class: type[PartitionReplica] = PartitionReplica,
        transaction_rules: TransactionRules | None = None,
    ) -> None:
        """`voters` are the controllers' addresses, at least one; `replica_class` is the core of its replicas, and its
        transaction coordinator rules by `transaction_rules`, or by the correct ones.
        """
        assert node.cluster_id is not None, "a broker is told its cluster, by its controller at the latest"
        self.node = node
        self.id = node.id
        self.clock, self.disk, self.tracer = node.clock, node.disk, node.tracer
        self.address = node.listen
        """Where it listens for other brokers, and for peers that are trusted like brokers."""
        self.config = DynamicConfig(node.id, node.config)
        incarnation_id = UUID(bytes=node.randomness.token(16), version=4)
        self.registration = Registration(node.id, node.cluster_id, node.rack, incarnation_id)
        self.tasks = BrokerTasks()
        self.metadata = MetadataCache()
        self.failed_requests = FailedRequests(node.tracer)
        self._transaction_rules = transaction_rules
        self.replicas = self._make_replicas(replica_class)
        self.quotas = Quotas(node.clock, node.config, lambda: self.metadata.image)
        self._make_links(voters)
        self._make_replication()
        self._make_upkeep()
        self._make_actions()
        self._make_service()

    # --- the parts ---------------------------------------------------------------------------------------------

    def _make_replicas(self, replica_class: type[PartitionReplica]) -> ReplicaManager:
        """What its disk has, before it knows anything of the cluster."""
        node = self.node
        directories = LogDirectories.open(
            node.disk,
            node.log_directories,
            cluster_id=self.registration.cluster_id,
            node_id=node.id,
            new_id=lambda: UUID(bytes=node.randomness.token(16), version=4),
            check_bytes=node.config.log_check_on_start_max_bytes,
        )
        try:
            self._metadata_notes = MetadataNotes(directories)
            replicas = ReplicaManager(
                node.id,
                directories,
                self.metadata,
                self.config,
                clock=node.clock,
                disk=node.disk,
                tracer=node.tracer,
                selector=ReplicaSelector(node.config, self.metadata, node.rack),
                replica_class=replica_class,
            )
            directories.require_one()
        except BaseException:
            directories.abandon()
            raise
        return replicas

    def _make_links(self, voters: Sequence[Address]) -> None:
        """What connects it to the controller and to other brokers."""
        node, config = self.node, self.node.config
        timeout_ms = config.controller_quorum_request_timeout_ms
        self.controller = ControllerLink(
            self.registration,
            self.replicas.directories,
            self.tasks,
            node.network,
            voters,
            login=node.login(),
            response_timeout_ms=node.response_timeout_ms(timeout_ms),
            metadata_timeout_ms=node.response_timeout_ms(timeout_ms + config.metadata_fetch_wait_max_ms),
        )
        self.membership = Membership(self.registration, self.controller, self.metadata, self.config, node.tracer)
        self.loader = MetadataLoader(
            self.metadata,
            self.controller,
            self.replicas,
            self._apply_settings,
            config,
            clock=node.clock,
            disk=node.disk,
            tracer=node.tracer,
            timers=node.timers,
            notes=self._metadata_notes,
        )
        self.forwarder = Forwarder(
            self.controller, self.loader, retry_backoff_ms=config.retry_backoff_ms if node.timers else None
        )
        self.internal_topics = InternalTopics(self.metadata, self.controller, self.loader, self.config)
        self.producer_ids = ProducerIdAllocator(self.registration, self.controller)
        self.peers = Peers(
            self.metadata,
            InterBroker(
                plan_listeners(config)[0], self.config.of_now, node.network, node.randomness, secret_login=node.login()
            ),
            self.tasks,
            client_id=node.name,
            response_timeout_ms=node.response_timeout_ms(config.replica_socket_timeout_ms),
        )
        self.coordinators = Coordinators(
            self.replicas.effects,
            self.tasks,
            make_groups=self._make_groups,
            make_transactions=self._make_transactions,
        )
        self.transaction_verifier = TransactionVerifier(self.metadata, self.peers, self.config, node.clock)
        self.readiness = Readiness(self.registration, self.metadata, self.loader, self.peers)

    def _make_groups(self) -> Groups:
        from tidegauge.impl.server.broker.groups import Groups

        node = self.node
        return Groups(
            self.replicas,
            self.metadata,
            self.tasks,
            self.config,
            node.randomness,
            clock=node.clock,
            timers=node.timers,
            tracer=node.tracer,
        )

    def _make_transactions(self) -> Transactions:
        from tidegauge.impl.server.broker.transactions import Transactions

        node = self.node
        return Transactions(
            self.replicas,
            self.metadata,
            self.producer_ids,
            self.peers,
            self.tasks,
            self.config,
            clock=node.clock,
            tracer=node.tracer,
            timers=node.timers,
            rules=self._transaction_rules,
        )

    def _make_replication(self) -> None:
        """What makes replicas follow, and leaders keep their ISR."""
        node = self.node
        self.fetches = FollowerFetches(
            self.replicas, self.peers, self.registration, node.config, clock=node.clock, tracer=node.tracer
        )
        self.fetchers = ReplicaFetchers(self.fetches, self.tasks, node.config, broker_id=node.id, clock=node.clock)
        self.proposals = IsrProposals(
            self.replicas,
            self.controller,
            self.registration,
            self.tasks,
            clock=node.clock,
            tracer=node.tracer,
            retry_backoff_ms=node.config.retry_backoff_ms if node.timers else None,
        )
        self.fetch_sessions = FetchSessions(
            node.config.max_incremental_fetch_session_cache_slots,
            lambda: int.from_bytes(node.randomness.token(4), "big") % LARGEST_SESSION_ID + 1,
            self.replicas.effects.follower_fetches if node.tracer.trace is None else None,
        )

    def _make_upkeep(self) -> None:
        """What looks after logs and log directories."""
        node = self.node
        self.directory_failures = DirectoryFailures(
            self.replicas,
            self.registration,
            self.membership,
            self.metadata,
            self.controller,
            self.tasks,
            tracer=node.tracer,
            timers=node.timers,
        )
        self.directory_moves = DirectoryMoves(
            self.replicas,
            self.directory_failures,
            self.tasks,
            clock=node.clock,
            timers=node.timers,
            new_id=lambda: UUID(bytes=node.randomness.token(16), version=4),
        )
        self.cleaner = LogCleaner(self.replicas, self.config, clock=node.clock, disk=node.disk)
        self.upkeep = LogUpkeep(
            self.replicas, node.config, clock=node.clock, disk=node.disk, tracer=node.tracer, timers=node.timers
        )
        self.replicas.effects.attach(
            isr_proposals=self.proposals,
            fetchers=self.fetchers if node.timers else None,
            upkeep=self.upkeep,
            failures=self.directory_failures,
        )

    def _make_actions(self) -> None:
        """What it does by itself, and when."""
        node = self.node
        self.actions = BrokerActions(
            self.replicas,
            self.registration,
            self.membership,
            self.loader,
            self.fetches,
            self.proposals,
            self.tasks,
            self.config,
            clock=node.clock,
            tracer=node.tracer,
        )
        self._timers = BrokerTimers(
            self.actions,
            self.registration,
            self.loader,
            self.directory_failures,
            self.upkeep,
            self.cleaner,
            self.tasks,
            node.config,
            node.clock,
        )

    def _make_service(self) -> None:
        """What serves requests."""
        node, config = self.node, self.node.config
        self.idle_connections = IdleConnections(node.clock, config.connections_max_idle_ms)
        self.authorizer = make_authorizer(config, lambda: self.metadata.image.acls)
        make_listener = partial(
            BrokerListener,
            config=config,
            authorizer=self.authorizer,
            registration=self.registration,
            metadata=self.metadata,
            clock=node.clock,
            randomness=node.randomness,
            secret=node.secret,
        )
        self.listeners = BrokerListeners(map(make_listener, plan_listeners(config)), self.config, self.quotas)
        self._versions = {
            key: BROKER_APIS[key] for key in BROKER_APIS if key in {*BROKER_HANDLERS, ApiKey.API_VERSIONS}
        }
        if config.unstable_api_versions_enable:
            self._versions |= UNSTABLE_APIS
        handlers = Handlers(BROKER_HANDLERS, self._collaborators, self.quotas.enforced)
        handlers[ApiKey.API_VERSIONS] = self._handle_api_versions
        self.listeners.attach(
            Service(
                handlers,
                self._versions,
                node.clock,
                config.socket_request_max_bytes,
                request_hook=self._request_hook(node.request_faults),
                on_failure=self.failed_requests.note,
                turns=trio.Semaphore(config.queued_max_requests),
                idle=self.idle_connections,
                apart=node.disk.in_background,
            )
        )

    def _collaborators(self) -> BrokerCollaborators:
        """The parts that handlers may name."""
        return BrokerCollaborators(
            registration=self.registration,
            config=self.config,
            metadata=self.metadata,
            loader=self.loader,
            forwarder=self.forwarder,
            replicas=self.replicas,
            fetch_sessions=self.fetch_sessions,
            directory_moves=self.directory_moves,
            producer_ids=self.producer_ids,
            internal_topics=self.internal_topics,
            coordinators=self.coordinators,
            transaction_verifier=self.transaction_verifier,
            listeners=self.listeners,
            clock=self.clock,
            disk=self.disk,
        )

    def _request_hook(self, faults: RequestHooks | None) -> RequestHook | None:
        if faults is None:
            return None
        return faults.at(f"broker-{self.id}", lambda topic_id: self.metadata.topic_name(str(topic_id)))

    def _apply_settings(self, image: ClusterImage) -> None:
        """Bring into force what the metadata say of the broker's settings and of clients' quotas."""
        if self.config.apply(image):
            self.replicas.hosted.reconfigure(self.config.current)
            self.listeners.reconfigure()
            self.cleaner.reconfigure()
        self.quotas.apply(image.client_quotas)

    async def _handle_api_versions(self, request: Any, context: RequestContext) -> Any:
        if not names_its_software(request, context.api_version):
            return invalid_request()
        image = self.metadata.image
        return api_versions_response(self._versions, image.offset, image.feature_level, context.api_version)

    @property
    def groups(self) -> Groups:
        """The coordinator of groups."""
        return self.coordinators.groups

    @property
    def transactions(self) -> Transactions:
        """The coordinator of transactions."""
        return self.coordinators.transactions

    # --- what embedders ask --------------------------------------------------------------------------------------

    @property
    def advertised(self) -> Address:
        """Where clients are told to connect, by the listener that was configured first."""
        return next(iter(self.listeners.advertised.values()))

    @property
    def halted(self) -> str | None:
        """Why the broker has stopped by itself; None while it has not."""
        return self.tasks.halted

    @property
    def unfenced(self) -> trio.Event:
        """Set when a heartbeat has first shown this process unfenced."""
        return self.registration.unfenced

    @property
    def closed_connections(self) -> list[str]:
        """Why connections were closed that broke the rules or were lost; the last hundred."""
        return self.listeners.closed_connections

    # --- running -------------------------------------------------------------------------------------------------

    async def run(self, task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Starts with the address on which the broker listens for other brokers."""
        try:
            await self.listeners.open(self.node)
            self.registration.endpoints = self.listeners.endpoints
            async with trio.open_nursery() as nursery:
                self.tasks.nursery = nursery
                self.address = self.listeners.address
                self.listeners.serve(nursery)
                task_status.started(self.address)
                if self.node.timers:
                    nursery.start_soon(self._timers.run)
                    nursery.start_soon(self.idle_connections.run)
        finally:
            with trio.CancelScope(shield=True):
                await self.listeners.aclose()

    def stop(self) -> None:
        """Stop cleanly: flush logs, write checkpoints, close files. The caller cancels `run` after it."""
        self.replicas.close(self.registration.broker_epoch)

    def abandon(self) -> None:
        """Close all files as they are, when `run` was cancelled without a `stop`."""
        self.replicas.abandon()

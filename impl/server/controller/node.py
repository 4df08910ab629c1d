"""The controller as a node: the shell around `impl.controller`, with its metadata log.

It serves brokers only: registrations, heartbeats, ISR proposals, forwarded requests, and the metadata log,
which brokers fetch like any partition. The node decides only while it leads the log (`impl.metadata.log`). The log of a
quorum of one elects its node at each start: a new controller epoch, and a full session for every broker that was live.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.config import ControllerConfig
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.metadata.log import Leadership, NotLeaderError
from tidegauge.impl.ports.log_lines import NODE
from tidegauge.impl.ports.network import Address, Listener
from tidegauge.impl.server.controller.actions import ControllerActions
from tidegauge.impl.server.controller.broker_processes import BrokerProcesses
from tidegauge.impl.server.controller.collaborators import ControllerCollaborators
from tidegauge.impl.server.controller.decisions import Decisions
from tidegauge.impl.server.controller.draws import Draws
from tidegauge.impl.server.controller.handlers import CONTROLLER_HANDLERS
from tidegauge.impl.server.controller.identity import found_identity, made_identity
from tidegauge.impl.server.controller.metadata_damage import DamagedMetadataLogError
from tidegauge.impl.server.controller.metadata_fetches import MetadataFetches, handle_fetch
from tidegauge.impl.server.controller.metadata_log import (
    METADATA_DIRECTORY,
    ServedMetadataLog,
    StoredMetadataLog,
    has_metadata_log,
)
from tidegauge.impl.server.error_responses.refused import refused
from tidegauge.impl.server.error_responses.table import error_response, making_error_response
from tidegauge.impl.server.requests.api_versions import api_versions_response
from tidegauge.impl.server.requests.rights import cluster_error
from tidegauge.impl.server.settings.server_config import DYNAMIC_CONFIGS, group_settings
from tidegauge.impl.server.settings.voters import check_membership
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.server.transport.connection import Connection
from tidegauge.impl.server.transport.context import Handler, RequestContext
from tidegauge.impl.server.transport.failed_requests import FailedRequests
from tidegauge.impl.server.transport.handlers import Handlers
from tidegauge.impl.server.transport.security.cluster_secret import NodesOnly
from tidegauge.impl.server.transport.security.failed_logins import FailedLogins
from tidegauge.impl.server.transport.service import Service
from tidegauge.impl.storage.log_directories import lock_directory
from tidegauge.impl.wire.apis import CONTROLLER_APIS, ApiKey

if TYPE_CHECKING:
    from tidegauge.impl.metadata.credentials import ScramCredential, ScramMechanism
    from tidegauge.impl.server.node import Node

LISTENER = "CONTROLLER"
"""The name of the controller's one listener."""


class ControllerNode:
    """The controller's process. `await nursery.start(node.run)` returns when it listens."""

    def __init__(
        self,
        node: Node,
        *,
        seed: int,
        controller_class: type[Controller] = Controller,
        log: ServedMetadataLog | None = None,
    ) -> None:
        """Without a `log` of its own the node is a quorum of one, with a log on its disk.

        Raises ValueError for voters (`controller.quorum.voters`) of which this node is none, or not the only one.
        """
        check_membership(node.config.controller_quorum_voters, node.id, is_alone=log is None)
        self.id = node.id
        self.address = node.listen
        self.failed_requests = FailedRequests(node.tracer)
        self.failed_logins = FailedLogins(LISTENER)
        self.halted: str | None = None
        """Why the controller has stopped by itself; None while it has not."""
        self._node = node
        self.is_new = False
        """Whether it has become the first controller of its cluster."""
        self._log_name = ""
        """Its name in log lines."""
        self._nursery: trio.Nursery | None = None
        self._lock = lock_directory(node.disk, node.directory, "controller")
        try:
            self.log = self._open_log(log)
        except BaseException:
            self._lock.release()
            raise
        self.controller = controller_class(
            node.id,
            ControllerConfig(
                node.config.broker_session_timeout_ms,
                node.config.topic_defaults,
                DYNAMIC_CONFIGS,
                group_settings(node.config.properties),
            ),
        )
        self.controller.replay(self.log.take_found() if isinstance(self.log, StoredMetadataLog) else self.log.read(0))
        self.decisions = Decisions(
            self.controller, self.log, node.tracer, on_commit=lambda: self.fetches.wake(), on_failure=self.halt
        )
        self.fetches = MetadataFetches(self.controller, self.decisions, self.log, node.clock, self.cluster_id)
        self.actions = ControllerActions(self.controller, self.decisions, self.log, node.clock, node.config, self.halt)
        self._service = self._make_service(seed)

    def _open_log(self, log: ServedMetadataLog | None) -> ServedMetadataLog:
        """The metadata log, once it is certain whose the directory is."""
        node = self._node
        identity = found_identity(node, has_log=log is None and has_metadata_log(node.disk, node.directory))
        if log is None:
            log = StoredMetadataLog(node.disk, f"{node.directory}/{METADATA_DIRECTORY}", node.clock, node.id)
        self.cluster_id = (identity or made_identity(node)).cluster_id
        """Of the cluster that it is a controller of."""
        return log

    def _make_service(self, seed: int) -> Service:
        node = self._node
        collaborators = ControllerCollaborators(
            controller=self.controller,
            decisions=self.decisions,
            fetches=self.fetches,
            draws=Draws(seed),
            config=node.config,
            clock=node.clock,
            cluster_id=self.cluster_id,
            processes=BrokerProcesses(),
            timers=node.timers,
        )
        handlers = Handlers(CONTROLLER_HANDLERS, lambda: collaborators, self._only_while_active)
        handlers[ApiKey.FETCH] = self._handle_fetch
        handlers[ApiKey.API_VERSIONS] = self._handle_api_versions
        return Service(
            handlers,
            CONTROLLER_APIS,
            node.clock,
            node.config.socket_request_max_bytes,
            request_hook=None if (faults := node.request_faults) is None else faults.at("controller", lambda _: None),
            on_failure=self.failed_requests.note,
            authorizer=NodesOnly(),
            listener=LISTENER,
            gate=node.secret.gate(node.clock, node.randomness, node.config, self.failed_logins),
        )

    async def run(self, task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Starts with the address on which the controller listens.

        Raises OSError when the metadata log cannot be written at the start.
        """
        self._log_name = NODE.get()
        listener = await self._node.network.listen(self.address)
        try:
            self.address = listener.address
            leadership = self.log.leadership
            if leadership.leader_id == self.id:
                await self._take_over()
            await self._run(listener, leadership, task_status)
        finally:
            with trio.CancelScope(shield=True):
                await listener.aclose()

    async def _run(self, listener: Listener, leadership: Leadership, task_status: trio.TaskStatus[Address]) -> None:
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(listener.serve, self._serve)
                task_status.started(self.address)
                if self._node.timers:
                    nursery.start_soon(self.actions.run_timers)
                    nursery.start_soon(self.actions.run_rebalancing)
                    nursery.start_soon(self.actions.run_disk_checks)
                await self._follow_leadership(leadership)
        except* OSError:
            if self.halted is None:
                raise

    async def _follow_leadership(self, known: Leadership) -> None:
        """Take over whenever the log elects this node, and resign when it elects another one, until cancelled.

        A decision that is being committed then is given up, since its commit is shielded from cancellation.
        """
        try:
            while True:
                known = await self.log.leadership_after(known)
                self.fetches.wake()
                if known.leader_id != self.id:
                    await self.decisions.resign()
                else:
                    with suppress(NotLeaderError):
                        await self._take_over()
        finally:
            self.decisions.end("the controller has stopped")

    async def _take_over(self) -> None:
        """Become the active controller, which the log says that this node is."""
        host = self._node.advertised_host or self.address.host
        self.is_new = await self.decisions.take_over(self._node.clock.steady_ms(), (host, self.address.port))
        if self.is_new and self._node.config.sasl_users:
            async with self.decisions.turn() as turn:
                await turn.commit(self.controller.scram_credentials.install(self._initial_credentials()))

    def _initial_credentials(self) -> Sequence[tuple[str, ScramMechanism, ScramCredential]]:
        from tidegauge.impl.server.transport.security.authentication import initial_credentials

        return initial_credentials(self._node.config, self._node.randomness)

    def _only_while_active(self, handler: Handler) -> Handler:
        """The handler, with the response NOT_CONTROLLER from a node that is not the active controller.

        Every request needs CLUSTER_ACTION, as Kafka's envelopes of forwarded requests do: brokers send on what clients
        may ask, and do not say for whom.
        """

        async def handle(request: Any, context: RequestContext) -> Any:
            if (error := cluster_error(Operation.CLUSTER_ACTION, context)) is not ErrorCode.none:
                return await refused(context.pace, request, making_error_response, error)
            if self.decisions.is_active:
                with suppress(NotLeaderError):
                    return await handler(request, context)
            return await refused(context.pace, request, making_error_response, ErrorCode.not_controller)

        return handle

    async def _handle_fetch(self, request: Any, context: RequestContext) -> Any:
        if (error := cluster_error(Operation.CLUSTER_ACTION, context)) is not ErrorCode.none:
            return error_response(request, error)
        try:
            return await handle_fetch(request, context, fetches=self.fetches)
        except DamagedMetadataLogError as error:
            self.decisions.fail(str(error))
            return error_response(request, ErrorCode.kafka_storage_error)

    async def _serve(self, stream: trio.abc.Stream) -> None:
        NODE.set(self._log_name)  # on a simulated network the task is started by a task of the peer
        await Connection(stream, self._service).serve()

    async def _handle_api_versions(self, _request: Any, _context: RequestContext) -> Any:
        level = self.controller.image.feature_level
        return api_versions_response(CONTROLLER_APIS, self.controller.controller_epoch, level)

    def halt(self, reason: str) -> None:
        """End it at once, as a crash does."""
        self.halted = reason
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def stop(self) -> None:
        """A clean shutdown's last act."""
        self.log.close()
        self._lock.release()

    def abandon(self) -> None:
        """Let go of all files as they are, when the nursery was cancelled without a `stop`."""
        self.log.abandon()
        self._lock.release()

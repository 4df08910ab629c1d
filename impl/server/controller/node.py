"""The controller as a node: the shell around `impl.controller`, with its metadata log.

It serves brokers and nobody else: registrations, heartbeats, ISR proposals, forwarded requests, and the metadata log,
which brokers fetch like any partition. The node decides only while it leads the log (`impl.metadata.log`). The log of a
quorum of one elects its node at each start: a new controller epoch, and a full session for every broker that was live.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import trio

from tidegauge.impl.controller.config import ControllerConfig
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.metadata.topic_names import METADATA_TOPIC
from tidegauge.impl.ports.network import Address
from tidegauge.impl.server import trace
from tidegauge.impl.server.api_versions import api_versions_response
from tidegauge.impl.server.config import DYNAMIC_CONFIGS
from tidegauge.impl.server.controller.actions import ControllerActions
from tidegauge.impl.server.controller.collaborators import ControllerCollaborators
from tidegauge.impl.server.controller.decisions import Decisions
from tidegauge.impl.server.controller.draws import Draws
from tidegauge.impl.server.controller.metadata_fetches import MetadataFetches
from tidegauge.impl.server.controller.metadata_log import ServedMetadataLog, StoredMetadataLog
from tidegauge.impl.server.controller.voters import Voters
from tidegauge.impl.server.controller_handlers import CONTROLLER_HANDLERS
from tidegauge.impl.server.transport.connection import Connection, Service
from tidegauge.impl.server.transport.context import RequestContext
from tidegauge.impl.server.transport.failed_requests import FailedRequests
from tidegauge.impl.server.transport.handlers import Handlers
from tidegauge.impl.wire.apis import CONTROLLER_APIS, ApiKey

if TYPE_CHECKING:
    from tidegauge.impl.metadata.credentials import ScramCredential, ScramMechanism
    from tidegauge.impl.server.node import Node

METADATA_DIRECTORY = f"{METADATA_TOPIC}-0"
NO_EPOCH = -1
"""The controller epoch of a metadata log in which nobody has decided anything."""


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
        """Without a `log` of its own the node is a quorum of one, with a log on its disk."""
        self.id = node.id
        self.address = node.listen
        self.failed_requests = FailedRequests("the controller", node.tracer)
        self.halted: str | None = None
        """Why the controller has stopped by itself; None while it has not."""
        self._node = node
        self._nursery: trio.Nursery | None = None
        node.disk.make_directory(node.directory)
        directory = f"{node.directory}/{METADATA_DIRECTORY}"
        self.log = StoredMetadataLog(node.disk, directory, node.clock, node.id) if log is None else log
        self.controller = controller_class(
            node.id,
            ControllerConfig(node.config.broker_session_timeout_ms, node.config.topic_defaults, DYNAMIC_CONFIGS),
        )
        self.controller.replay(self.log.read(0))
        self.is_new = self.controller.controller_epoch == NO_EPOCH
        """Whether it is the first controller of its cluster."""
        self.fetches = MetadataFetches(self.controller, self.log, node.clock)
        self.decisions = Decisions(
            self.controller, self.log, node.tracer, on_commit=self.fetches.wake, on_failure=self.halt
        )
        self.voters = Voters(node.id, {node.id: node.listen})
        self.actions = ControllerActions(self.controller, self.decisions, self.log, node.clock, node.config, self.halt)
        self._service = self._make_service(seed)

    def _make_service(self, seed: int) -> Service:
        node = self._node
        collaborators = ControllerCollaborators(
            controller=self.controller,
            decisions=self.decisions,
            fetches=self.fetches,
            voters=self.voters,
            draws=Draws(seed),
            config=node.config,
            clock=node.clock,
        )
        handlers = Handlers(CONTROLLER_HANDLERS, lambda: collaborators)
        handlers[ApiKey.API_VERSIONS] = self._handle_api_versions
        return Service(
            handlers,
            CONTROLLER_APIS,
            node.clock,
            node.config.socket_request_max_bytes,
            request_faults=None if (faults := node.request_faults) is None else faults.at("controller", lambda _: None),
            on_failure=self.failed_requests.note,
        )

    async def run(self, task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Starts with the address on which the controller listens.

        Raises OSError when the metadata log cannot be written at the start.
        """
        await self._take_over()
        listener = await self._node.network.listen(self.address)
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self.address = listener.address
                self.voters.addresses = {self.id: self.address}
                nursery.start_soon(listener.serve, self._serve)
                task_status.started(self.address)
                if self._node.timers:
                    nursery.start_soon(self.actions.run_timers)
                    nursery.start_soon(self.actions.run_rebalancing)
                    nursery.start_soon(self.actions.run_disk_checks)
                await self._give_up_at_end()
        except* OSError:
            if self.halted is None:
                raise
        finally:
            with trio.CancelScope(shield=True):
                await listener.aclose()

    async def _give_up_at_end(self) -> None:
        """When the node is cancelled, a decision that is being committed is given up: its commit is shielded."""
        try:
            await trio.sleep_forever()
        finally:
            self.decisions.end("the controller has stopped")

    async def _take_over(self) -> None:
        """Become the active controller, which the log says that this node is."""
        async with self.decisions.turn() as turn:
            now_ms = self._node.clock.now_ms()
            await turn.commit(self.controller.take_over(self.log.leadership.epoch, now_ms))
            if self.is_new and self._node.config.sasl_users:
                await turn.commit(self.controller.scram_credentials.install(self._initial_credentials()))
            if turn.is_traced:
                turn.changed()
                turn.tracer.record(
                    trace.events.ControllerFailover,
                    controller_epoch=self.controller.controller_epoch,
                    metadata_offset=self.log.end_offset,
                    changed=(),
                )

    def _initial_credentials(self) -> Sequence[tuple[str, ScramMechanism, ScramCredential]]:
        from tidegauge.impl.server.transport.security.authentication import initial_credentials

        return initial_credentials(self._node.config, self._node.randomness)

    async def _serve(self, stream: trio.abc.Stream) -> None:
        await Connection(stream, self._service).serve()

    async def _handle_api_versions(self, _request: Any, _context: RequestContext) -> Any:
        return api_versions_response(CONTROLLER_APIS, self.controller.controller_epoch)

    def halt(self, reason: str) -> None:
        """End it at once, as a crash does."""
        self.halted = reason
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def stop(self) -> None:
        """A clean shutdown's last act."""
        self.log.close()

    def abandon(self) -> None:
        """Let go of all files as they are, when the nursery was cancelled without a `stop`."""
        self.log.abandon()

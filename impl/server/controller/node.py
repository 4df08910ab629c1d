"""The controller as a node: the shell around `impl.controller`, a quorum of one with its metadata log on disk.

It serves brokers and nobody else: registrations, heartbeats, ISR proposals, forwarded requests, and the metadata log,
which brokers fetch like any partition. What it decides is on its disk before anyone is told. Each start is a takeover:
a new controller epoch, and a full session for every broker that was live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import trio

from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.state import ControllerConfig
from tidegauge.impl.partition.messages import PartitionFetchResponse
from tidegauge.impl.ports.network import Address
from tidegauge.impl.server import trace
from tidegauge.impl.server.apis.api_versions import api_versions_response
from tidegauge.impl.server.config import DYNAMIC_CONFIGS
from tidegauge.impl.server.controller.collaborators import ControllerCollaborators
from tidegauge.impl.server.controller.elections import rebalance_leaders
from tidegauge.impl.server.controller.metadata_log import StoredMetadataLog
from tidegauge.impl.server.controller.observers import ObserverState
from tidegauge.impl.server.controller_handlers import CONTROLLER_HANDLERS
from tidegauge.impl.server.purgatory import Purgatory
from tidegauge.impl.server.transport.connection import Connection, Service
from tidegauge.impl.server.transport.context import RequestContext
from tidegauge.impl.server.transport.failed_requests import FailedRequests
from tidegauge.impl.server.transport.handlers import Handlers
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.wire.apis import CONTROLLER_APIS, ApiKey

if TYPE_CHECKING:
    from tidegauge.impl.server.node import Node
    from tidegauge.impl.server.trace.events import ChangedPartition

METADATA_DIRECTORY = "__cluster_metadata-0"
DISK_CHECK_INTERVAL_MS: Final = 5_000
"""How often a controller that decides nothing finds out whether it still could."""


class ControllerNode:
    """The controller's process. `await nursery.start(node.run)` returns when it listens."""

    def __init__(self, node: Node, *, seed: int, controller_class: type[Controller] = Controller) -> None:
        self.id = node.id
        self.config = node.config
        self.clock = node.clock
        self.disk = node.disk
        self.tracer = node.tracer
        self.failed_requests = FailedRequests("the controller", node.tracer)
        self.address = node.listen
        self.actions = ControllerActions(self)
        self.halted: str | None = None
        """Why the controller has stopped by itself; None while it has not."""
        self.waiting: Purgatory[str] = Purgatory(node.clock)
        """Brokers' fetches of metadata that found nothing new."""
        self.observers: dict[int, ObserverState] = {}
        """How far each broker is with the metadata log, by its last fetch."""
        self._node = node
        self._seed = seed
        node.disk.make_directory(node.directory)
        directory = f"{node.directory}/{METADATA_DIRECTORY}"
        self.log = StoredMetadataLog(Log.open(node.disk, directory, LogConfig(), node.clock.now_ms()), node.clock)
        self.controller = controller_class.activate(
            self.log,
            now_ms=node.clock.now_ms(),
            node_id=node.id,
            config=ControllerConfig(node.config.broker_session_timeout_ms, node.config.topic_defaults, DYNAMIC_CONFIGS),
        )
        self.is_new = self.controller.controller_epoch == 0
        """Whether it is the first controller of its cluster."""
        if self.is_new and node.config.sasl_users:
            self._install_users()
        self._told = self.registrations()
        if self.tracer.trace is not None:
            self.tracer.record(
                trace.events.ControllerFailover,
                controller_epoch=self.controller.controller_epoch,
                metadata_offset=self.log.end_offset,
                changed=(),
            )
        handlers = Handlers(CONTROLLER_HANDLERS, lambda: ControllerCollaborators(node=self))
        handlers[ApiKey.API_VERSIONS] = self._handle_api_versions
        self._service = Service(
            handlers,
            CONTROLLER_APIS,
            self.clock,
            self.config.socket_request_max_bytes,
            request_faults=None if (faults := node.request_faults) is None else faults.at("controller", lambda _: None),
            on_failure=self.failed_requests.note,
        )

    def _install_users(self) -> None:
        from tidegauge.impl.server.transport.security.authentication import initial_credentials

        for user, mechanism, made in initial_credentials(self.config, self._node.randomness):
            self.controller.install_scram_credential(user, mechanism, made)

    async def run(self, task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Starts with the address on which the controller listens."""
        listener = await self._node.network.listen(self.address)
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self.address = listener.address
                nursery.start_soon(listener.serve, self._serve)
                task_status.started(self.address)
                if self._node.timers:
                    nursery.start_soon(self.actions.run_timers)
                    nursery.start_soon(self.actions.run_rebalancing)
                    nursery.start_soon(self.actions.run_disk_checks)
        except* OSError:
            if self.halted is None:
                raise
        finally:
            with trio.CancelScope(shield=True):
                await listener.aclose()

    async def _serve(self, stream: trio.abc.Stream) -> None:
        await Connection(stream, self._service).serve()

    async def _handle_api_versions(self, _request: Any, _context: RequestContext) -> Any:
        return api_versions_response(CONTROLLER_APIS, self.controller.controller_epoch)

    # --- deciding ----------------------------------------------------------------------------------------------

    @contextmanager
    def decision(self) -> Iterator[Callable[[], tuple[ChangedPartition, ...]]]:
        """Around each call of the core that may decide something: afterwards brokers that wait are told.

        Yields a function that says, once the core was called, which partitions it has changed. A decision that its log
        does not take ends the controller, whose image is ahead of the log then: the next one never knew of it. So does
        one that fails once the log has taken some of it; one that fails before has changed nothing.
        """
        if self.halted is not None:
            raise OSError(self.halted)
        end_offset = self.log.end_offset
        try:
            yield self._changed
        except OSError as error:
            self.halt(f"the metadata log cannot be written: {error}")
            raise
        except Exception as error:
            if self.log.end_offset != end_offset:
                self.halt(f"a decision failed halfway: {error!r}")
            raise
        if self.controller.take_effects():
            self.waiting.wake(METADATA_DIRECTORY)

    def halt(self, reason: str) -> None:
        """End it at once, as a crash does."""
        self.halted = reason
        self._nursery.cancel_scope.cancel()

    def registrations(self) -> dict[tuple[str, int], int]:
        """The partition epoch of each partition."""
        return {(topic, index): r.partition_epoch for topic, index, r in self.controller.image.partitions()}

    def _changed(self) -> tuple[ChangedPartition, ...]:
        """The partitions that changed since the last call; none when no trace is kept."""
        if self.tracer.trace is None:
            return ()
        before, self._told = self._told, self.registrations()
        return tuple(
            trace.events.ChangedPartition(topic, index, registration, self.log.end_offset)
            for topic, index, registration in self.controller.image.partitions()
            if before.get((topic, index)) != registration.partition_epoch
        )

    def metadata(self, offset: int, max_bytes: int) -> PartitionFetchResponse:
        """The metadata log from `offset` on, for a broker."""
        log = self.log.log
        return PartitionFetchResponse(
            leader=self.id,
            leader_epoch=self.controller.controller_epoch,
            high_watermark=log.log_end_offset,
            log_start_offset=log.log_start_offset,
            records=log.read(offset, max_bytes) if offset < log.log_end_offset else b"",
        )

    def draw(self, *purpose: str) -> int:
        """A random number of 128 bits, for the cluster's seed and this purpose."""
        digest = blake2b("/".join((str(self._seed), *purpose)).encode(), digest_size=16).digest()
        return int.from_bytes(digest, "big")

    def stop(self) -> None:
        """A clean shutdown's last act."""
        self.log.log.close()

    def abandon(self) -> None:
        """Let go of all files as they are, when the nursery was cancelled without a `stop`."""
        self.log.log.abandon()


class ControllerActions:
    """What a controller does by itself."""

    def __init__(self, node: ControllerNode) -> None:
        self._node = node

    def lapse_session(self, broker_id: int) -> bool:
        """Fence a broker as if nothing had been heard of it for too long; False when it is fenced or unknown."""
        node = self._node
        with node.decision() as changed:
            lapsed = node.controller.lapse_session(broker_id)
            if lapsed and node.tracer.trace is not None:
                epoch = node.controller.image.brokers[broker_id].broker_epoch
                fenced = trace.events.LapseSession
                node.tracer.record(fenced, broker=broker_id, broker_epoch=epoch, changed=changed())
        return lapsed

    def expire_sessions(self) -> list[int]:
        """Fence the brokers whose session's time is over; returns their ids."""
        now_ms = self._node.clock.now_ms()
        overdue = [b for b, deadline in sorted(self._node.controller.sessions.items()) if deadline <= now_ms]
        return [broker_id for broker_id in overdue if self.lapse_session(broker_id)]

    async def run_timers(self) -> None:
        """Expire sessions on time until cancelled.

        A controller that has overslept cannot tell who is gone from who was as fast asleep in the same process: it
        first waits for the next heartbeats, two of them since one may have been lost in the meantime.
        """
        node = self._node
        interval = node.config.broker_heartbeat_interval_ms / 1000
        while True:
            deadline = node.controller.next_deadline_ms
            wait_ms = node.config.broker_session_timeout_ms if deadline is None else deadline - node.clock.now_ms()
            alarm = trio.current_time() + max(1, wait_ms) / 1000
            await trio.sleep_until(alarm)
            await node.clock.until_running()
            if trio.current_time() - alarm > interval:
                await trio.sleep(2 * interval)
            self.expire_sessions()

    async def check_disk(self) -> bool:
        """Write beside the metadata log, in the background; a disk that does not take it ends the controller."""
        node, log = self._node, self._node.log.log
        try:
            flush = log.begin_check()
            await node.disk.in_background(flush.work)
            log.finish_flush(flush)
        except OSError as error:
            node.halt(f"the metadata log cannot be written: {error}")
            return False
        return True

    async def run_disk_checks(self) -> None:
        """Check the disk on time until cancelled."""
        while True:
            await trio.sleep(DISK_CHECK_INTERVAL_MS / 1000)
            await self._node.clock.until_running()
            await self.check_disk()

    async def run_rebalancing(self) -> None:
        """Put preferred leaders back on time until cancelled."""
        node = self._node
        while node.config.auto_leader_rebalance_enable:
            await trio.sleep(node.config.leader_imbalance_check_interval_seconds)
            await node.clock.until_running()
            rebalance_leaders(node)

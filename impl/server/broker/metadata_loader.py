"""Loading metadata: a broker pulls the metadata log and brings what it says into force.

What is in force here is behind what the log has: the broker must open logs and tell its replicas first. A heartbeat
tells the controller the offset that is in force.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

import trio

from tidegauge.impl.partition.messages import NO_EPOCH
from tidegauge.impl.server import trace
from tidegauge.impl.storage.offset_notes import OffsetNote
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError

if TYPE_CHECKING:
    from tidegauge.impl.metadata.image import ClusterImage
    from tidegauge.impl.metadata.records import MetadataRecord
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.ports.disk import Disk
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.metadata_notes import MetadataNotes
    from tidegauge.impl.server.broker.replica_manager import ReplicaManager
    from tidegauge.impl.server.settings.server_config import ServerConfig
    from tidegauge.impl.server.trace.tracer import Tracer

CATCH_UP_MS: Final = 500
"""How long a client that has changed something waits, at most, until its broker has the change."""


class MetadataSource(Protocol):
    """The metadata log at the controller. Both methods raise UnreachableError or NoResponseError."""

    async def metadata_since(
        self, offset: int, max_wait_ms: int, epoch: int = NO_EPOCH
    ) -> tuple[list[MetadataRecord], int]:
        """The records from `offset` on, and the end of the log; `epoch` is that of the record before `offset`."""
        ...

    async def metadata_end(self, offset: int, epoch: int = NO_EPOCH) -> int:
        """The end of the log now."""
        ...


class MetadataLoader:
    """The metadata of one broker: pulled from the controller, applied to its replicas and settings."""

    def __init__(
        self,
        metadata: MetadataCache,
        controller: MetadataSource,
        replicas: ReplicaManager,
        apply_settings: Callable[[ClusterImage], None],
        config: ServerConfig,
        *,
        clock: Clock,
        disk: Disk,
        tracer: Tracer,
        timers: bool,
        notes: MetadataNotes,
    ) -> None:
        """`apply_settings` brings into force what an image has besides replicas: settings and quotas.

        `timers`: whether `pull` runs, so that others need only wait for what it loads.
        """
        self._metadata = metadata
        self._controller = controller
        self._replicas = replicas
        self._apply_settings = apply_settings
        self._config = config
        self._clock = clock
        self._disk = disk
        self._tracer = tracer
        self._timers = timers
        self._notes = notes
        self._is_same_log = notes.found is None
        """Whether the log is the one that the processes before this one have read."""
        self._pulling = trio.Lock()
        self._applied_offset = -1
        """The offset of the image that was last applied."""

    async def apply_metadata(self, max_wait_ms: int = 0) -> int:
        """Pull the metadata log to its end and apply it; returns the image's offset.

        Waits up to `max_wait_ms` for a new record. Raises UnreachableError or NoResponseError.
        """
        metadata = self._metadata
        async with self._pulling:
            image = metadata.image
            if not self._is_same_log and (known := self._notes.found) is not None:
                await self._controller.metadata_end(known.end_offset, known.epoch)
                self._is_same_log = True
            while True:
                records, end_offset = await self._controller.metadata_since(
                    image.offset, max_wait_ms, image.controller_epoch
                )
                metadata.replay(records)
                if image.offset >= end_offset:
                    break
                if not records:
                    raise NoResponseError(f"nothing came of the metadata log from {image.offset} to {end_offset}")
            await self._clock.until_running()
            await trio.lowlevel.checkpoint_if_cancelled()  # a broker that has stopped has closed its logs
            if image.offset != self._applied_offset:
                if self._tracer.trace is not None:
                    self._tracer.record(trace.events.PullMetadata, metadata_offset=image.offset)
                self._applied_offset = image.offset
            self._apply_settings(image)
            try:
                hosted, changed = self._replicas.hosted, metadata.take_changed()
                for work in hosted.apply_metadata(image, changed, metadata.removed_topics):
                    if work is not None:
                        await self._disk.in_background(work)
                    await trio.lowlevel.checkpoint()
            except trio.Cancelled:
                self._replicas.hosted.look_at_all()  # the client that asked is gone: the next call does what is left
                raise
            metadata.note_in_force()
            self._notes.write(OffsetNote(image.offset, image.controller_epoch))
            return image.offset

    async def catch_up(self) -> None:
        """Wait until what the controller has decided by now is in force here; `CATCH_UP_MS` at most.

        So a client that was told of a change sees it at the broker that told it. Without timers only a driver applies
        metadata, and this returns at once.
        """
        if not self._timers:
            return
        with trio.move_on_after(CATCH_UP_MS / 1000):
            try:
                end_offset = await self._controller.metadata_end(self._metadata.image.offset)
            except (UnreachableError, NoResponseError):
                return
            await self._metadata.until_in_force(end_offset)

    async def learn(self) -> None:
        """Bring the newest metadata into force, as `catch_up` does; without timers by pulling them here and now."""
        if self._timers:
            await self.catch_up()  # a pull of its own would wait behind the one that the controller holds
            return
        try:
            await self.apply_metadata()
        except (UnreachableError, NoResponseError):
            return

    async def pull(self) -> None:
        """Pull and apply metadata until cancelled; after an error again in retry.backoff.ms."""
        while True:
            await self._clock.until_running()
            try:
                await self.apply_metadata(self._clock.coalesced_ms(self._config.metadata_fetch_wait_max_ms))
            except (UnreachableError, NoResponseError):
                await trio.sleep(self._config.retry_backoff_ms / 1000)

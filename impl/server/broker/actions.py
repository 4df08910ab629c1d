"""What a broker does by itself, one method an action, and the timers that call them.

The timers hold no state and take no decision; a driver that has turned them off calls the same methods in any order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.controller_link import RegistrationRefusedError
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.wire.channel import NoAnswerError, UnreachableError

if TYPE_CHECKING:
    from tidegauge.impl.server.broker_server import Broker

_AGAIN = (ErrorCode.broker_id_not_registered, ErrorCode.stale_broker_epoch)


class BrokerActions:
    """The actions of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._pulling = trio.Lock()
        self._acted_on = -1
        """The metadata offset of the image that replicas were last told of."""

    # --- membership ----------------------------------------------------------------------------------------------

    async def register(self) -> int:
        """Register this process with the controller; returns its broker epoch.

        Raises UnreachableError, NoAnswerError or RegistrationRefusedError.
        """
        self._broker.registration.broker_epoch = await self._broker.controller.register()
        self._broker.directory_failures.forget()
        return self._broker.registration.broker_epoch

    async def heartbeat(self) -> bool:
        """Renew the session; True when the controller says that this broker is unfenced.

        Raises UnreachableError or NoAnswerError.
        """
        answer = await self._broker.controller.heartbeat(self._broker.metadata.offset_in_force)
        if answer.error_code in _AGAIN:
            await self.register()
            return False
        if answer.error_code is ErrorCode.none and not answer.is_fenced:
            self._broker.registration.unfenced.set()
            return True
        return False

    async def apply_metadata(self, max_wait_ms: int = 0) -> int:
        """Pull the metadata log to its end and tell every replica the newest word; returns the image's offset.

        Waits up to `max_wait_ms` for something new. Raises UnreachableError or NoAnswerError.
        """
        broker = self._broker
        async with self._pulling:
            image = broker.metadata.image
            while True:
                records, end_offset = await broker.controller.metadata_since(image.offset, max_wait_ms)
                broker.metadata.replay(records)
                if image.offset >= end_offset or not records:
                    break
            await broker.clock.until_running()
            await trio.lowlevel.checkpoint_if_cancelled()  # a broker that has stopped has closed its logs
            if image.offset != self._acted_on:
                if broker.tracer.trace is not None:
                    broker.tracer.record(trace.events.PullMetadata, metadata_offset=image.offset)
                self._acted_on = image.offset
            broker.reconfigure()
            try:
                for work in broker.replicas.apply_metadata(image, broker.metadata.take_changed()):
                    await broker.disk.in_background(work)
                    await trio.lowlevel.checkpoint()
            except trio.Cancelled:
                broker.replicas.look_at_all()  # a client that asked for it has gone: what is left is done next time
                raise
            broker.metadata.note_in_force()
            return image.offset

    async def catch_up(self) -> None:
        """Wait until what the controller has decided by now is in force here; metadata.fetch.wait.max.ms at most.

        So whoever was told that a change is made sees it at the broker that told them. Without timers metadata come
        only when a driver says so, and there is nothing to wait for.
        """
        broker = self._broker
        if not broker.timers:
            return
        with trio.move_on_after(broker.config.current.metadata_fetch_wait_max_ms / 1000):
            try:
                end_offset = await broker.controller.metadata_end(broker.metadata.image.offset)
            except (UnreachableError, NoAnswerError):
                return
            await broker.metadata.until_in_force(end_offset)

    async def learn(self) -> None:
        """Have the newest metadata in force, as `catch_up` does; without timers by reading it here and now."""
        if self._broker.timers:
            await self.catch_up()  # its own reading would begin when the one that the controller holds is over
            return
        try:
            await self.apply_metadata()
        except (UnreachableError, NoAnswerError):
            return

    # --- replication -----------------------------------------------------------------------------------------------

    def send_fetch(self, topic: str, partition: int, max_wait_ms: int = 0) -> None:
        """Send one fetch for a partition to its leader; the answer is handled when it comes.

        Raises ValueError when the partition follows nobody or still waits for an answer in this epoch.
        """
        hosted = self._hosted(topic, partition)
        fetch = hosted.replica.fetch_request(self._broker.registration.broker_epoch)
        if fetch is None:
            raise ValueError(f"broker {self._broker.id} follows nobody for {topic}-{partition}")
        if hosted.awaits_response():
            raise ValueError(f"broker {self._broker.id} still waits for an answer for {topic}-{partition}")
        self._broker.tasks.start_soon(self._broker.fetchers.fetch, hosted.replica.leader, [hosted], max_wait_ms)

    def shrink_isr(
        self, topic: str | None = None, partition: int | None = None, *, lagging: Collection[int] | None = None
    ) -> list[tuple[str, int]]:
        """Propose to drop followers that lag, in all partitions or in one; returns where something was proposed.

        `lagging` says who has been behind for longer than replica.lag.time.max.ms, and that the others have not;
        without it the clock says so.
        """
        if topic is not None and partition is not None:
            chosen = [self._hosted(topic, partition)]
        else:
            chosen = list(self._broker.replicas)
        return [hosted.key for hosted in chosen if self._shrink(hosted, lagging)]

    def _shrink(self, hosted: Partition, lagging: Collection[int] | None) -> bool:
        broker, replica = self._broker, hosted.replica
        now_ms = broker.clock.now_ms()
        if lagging is not None:
            for follower, remote in replica.remote_replicas.items():
                late = replica.config.replica_lag_time_max_ms + 1 if follower in lagging else 0
                remote.last_caught_up_ms = now_ms - late
        if not replica.shrink_isr(now_ms):
            return False
        if broker.tracer.trace is not None:
            broker.tracer.replica(trace.events.ShrinkIsr, hosted.topic, hosted.index, replica)
        broker.replicas.carry_out(hosted)
        return True

    def retry_alter_partition(self, topic: str, partition: int) -> bool:
        """Send the open ISR proposal again, unless one is on its way; False when there is nothing to send."""
        return self._broker.proposals.retry(self._hosted(topic, partition))

    # --- disk --------------------------------------------------------------------------------------------------

    def checkpoint_high_watermark(self) -> None:
        """Write the high watermarks to the disk."""
        self._broker.replicas.checkpoint_high_watermarks()

    def flush(self) -> None:
        """Bring every log to stable storage."""
        self._broker.replicas.flush()

    def expire_producers(self) -> None:
        """Forget the idempotent producers that have been idle for producer.id.expiration.ms."""
        broker = self._broker
        for hosted in broker.replicas:
            hosted.replica.producers.expire(broker.clock.now_ms(), broker.config.current.producer_id_expiration_ms)

    def _hosted(self, topic: str, partition: int) -> Partition:
        hosted = self._broker.replicas.get(topic, partition)
        if hosted is None:
            raise ValueError(f"broker {self._broker.id} does not host {topic}-{partition}")
        return hosted

    # --- timers ------------------------------------------------------------------------------------------------

    async def run_timers(self) -> None:
        """Join the cluster, then act on time until cancelled."""
        config = self._broker.config.current
        await self._join()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pull_metadata)
            nursery.start_soon(self._every, config.broker_heartbeat_interval_ms, self._heartbeat_in_time)
            nursery.start_soon(self._every, max(1, config.replica_lag_time_max_ms // 2), self._shrink_all)
            checkpoint_ms = config.replica_high_watermark_checkpoint_interval_ms
            nursery.start_soon(self._every, checkpoint_ms, self._broker.upkeep.checkpoint_high_watermarks)
            nursery.start_soon(self._broker.upkeep.run)
            nursery.start_soon(self._every, config.producer_id_expiration_check_interval_ms, self._expire_producers)
            nursery.start_soon(self._broker.cleaner.run)

    async def _join(self) -> None:
        """Register, catch up, and be unfenced; again until it works."""
        while not self._broker.registration.unfenced.is_set():
            try:
                if self._broker.registration.broker_epoch < 0:
                    await self.register()
                await self.apply_metadata()
                if await self.heartbeat():
                    return
            except (UnreachableError, NoAnswerError, RegistrationRefusedError):
                pass
            await self._sleep(self._broker.config.current.retry_backoff_ms)

    async def _sleep(self, interval_ms: int) -> None:
        await trio.sleep(interval_ms / 1000)
        await self._broker.clock.until_running()

    async def _every(self, interval_ms: int, action: Callable[[], Awaitable[Any]]) -> None:
        while True:
            await self._sleep(interval_ms)
            await action()

    async def _pull_metadata(self) -> None:
        while True:
            await self._broker.clock.until_running()
            try:
                await self.apply_metadata(self._broker.config.current.metadata_fetch_wait_max_ms)
            except (UnreachableError, NoAnswerError):
                await self._sleep(self._broker.config.current.retry_backoff_ms)

    async def _heartbeat_in_time(self) -> None:
        try:
            await self._broker.directory_failures.assign()
            await self.heartbeat()
        except (UnreachableError, NoAnswerError, RegistrationRefusedError):
            return

    async def _shrink_all(self) -> None:
        self.shrink_isr()

    async def _expire_producers(self) -> None:
        self.expire_producers()

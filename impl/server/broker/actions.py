"""What a broker does by itself, and not because a request came: one method an action.

Timers call these methods (`impl.server.broker.timers`). A driver that has turned the timers off calls the same methods
in any order; so the specification drives a broker.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tidegauge.impl.ports.log_lines import NODE, logging_as_its_node
from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.partition import Partition, TopicPartition

if TYPE_CHECKING:
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.follower_fetches import FollowerFetches
    from tidegauge.impl.server.broker.isr_proposals import IsrProposals
    from tidegauge.impl.server.broker.membership import Membership
    from tidegauge.impl.server.broker.metadata_loader import MetadataLoader
    from tidegauge.impl.server.broker.registration import Registration
    from tidegauge.impl.server.broker.replica_manager import ReplicaManager
    from tidegauge.impl.server.broker.tasks import BrokerTasks
    from tidegauge.impl.server.trace.tracer import Tracer


class BrokerActions:
    """The actions of one broker."""

    def __init__(
        self,
        replicas: ReplicaManager,
        registration: Registration,
        membership: Membership,
        loader: MetadataLoader,
        fetches: FollowerFetches,
        proposals: IsrProposals,
        tasks: BrokerTasks,
        config: DynamicConfig,
        *,
        clock: Clock,
        tracer: Tracer,
    ) -> None:
        self._replicas = replicas
        self._registration = registration
        self._membership = membership
        self._loader = loader
        self._fetches = fetches
        self._proposals = proposals
        self._tasks = tasks
        self._config = config
        self._clock = clock
        self._tracer = tracer
        self.log_name = NODE.get()

    # --- membership ----------------------------------------------------------------------------------------------

    @logging_as_its_node
    async def register(self) -> int:
        """Register this process with the controller; returns its broker epoch.

        Raises UnreachableError, NoResponseError or RegistrationRefusedError.
        """
        return await self._membership.register()

    @logging_as_its_node
    async def heartbeat(self) -> bool:
        """Renew the session; True when the controller says that this broker is unfenced.

        Raises UnreachableError, NoResponseError or RegistrationRefusedError.
        """
        return await self._membership.heartbeat()

    @logging_as_its_node
    async def apply_metadata(self, max_wait_ms: int = 0) -> int:
        """Pull the metadata log to its end and apply it; returns the image's offset.

        Waits up to `max_wait_ms` for a new record. Raises UnreachableError or NoResponseError.
        """
        return await self._loader.apply_metadata(max_wait_ms)

    # --- replication -----------------------------------------------------------------------------------------------

    @logging_as_its_node
    def send_fetch(self, topic: str, partition: int, max_wait_ms: int = 0) -> None:
        """Send one fetch for a partition to its leader; its response is applied when it comes.

        Raises ValueError when the partition follows no leader, or a fetch of this leader epoch is outstanding.
        """
        hosted, broker_id = self._hosted(topic, partition), self._registration.broker_id
        fetch = hosted.replica.fetch_request(self._registration.broker_epoch)
        if fetch is None:
            raise ValueError(f"broker {broker_id} follows no leader for {topic}-{partition}")
        if hosted.awaits_response():
            raise ValueError(f"broker {broker_id} still waits for a response for {topic}-{partition}")
        self._tasks.start_soon(self._fetches.fetch, hosted.replica.leader, [hosted], max_wait_ms)

    @logging_as_its_node
    def shrink_isr(
        self, topic: str | None = None, partition: int | None = None, *, lagging: Collection[int] | None = None
    ) -> list[TopicPartition]:
        """Propose to drop followers that lag, in one partition or in all; returns where there was a proposal.

        `lagging` names the followers that are behind for longer than replica.lag.time.max.ms; without it the clock
        decides.
        """
        if topic is not None and partition is not None:
            chosen = [self._hosted(topic, partition)]
        else:
            chosen = list(self._replicas)
        return [hosted.key for hosted in chosen if self._shrink(hosted, lagging)]

    def _shrink(self, hosted: Partition, lagging: Collection[int] | None) -> bool:
        replica, now_ms = hosted.replica, self._clock.steady_ms()
        if lagging is not None:
            for follower, remote in replica.remote_replicas.items():
                late_ms = replica.config.replica_lag_time_max_ms + 1 if follower in lagging else 0
                remote.last_caught_up_ms = now_ms - late_ms
        if not replica.shrink_isr(now_ms):
            return False
        if self._tracer.trace is not None:
            self._tracer.replica(trace.events.ShrinkIsr, *hosted.key, replica)
        self._replicas.carry_out(hosted)
        return True

    @logging_as_its_node
    def retry_alter_partition(self, topic: str, partition: int) -> bool:
        """Send the open ISR proposal again, unless one is outstanding; False when there is nothing to send."""
        return self._proposals.retry(self._hosted(topic, partition))

    # --- disk --------------------------------------------------------------------------------------------------

    @logging_as_its_node
    def checkpoint_high_watermark(self) -> None:
        """Write the high watermarks to the disk."""
        self._replicas.checkpoint_high_watermarks()

    @logging_as_its_node
    def flush(self) -> None:
        """Bring every log to stable storage."""
        self._replicas.flushes.flush_all()

    @logging_as_its_node
    def expire_producers(self) -> None:
        """Forget the idempotent producers that have been idle for producer.id.expiration.ms."""
        now_ms, expiration_ms = self._clock.now_ms(), self._config.current.producer_id_expiration_ms
        for hosted in self._replicas:
            forgot = hosted.replica.producers.forgot
            expired = hosted.replica.producers.expire(now_ms, expiration_ms)
            hosted.replica.verifications.forget_old()
            if self._tracer.trace is not None and (expired or hosted.replica.producers.forgot != forgot):
                forgets = trace.events.ExpireProducers
                self._tracer.log(forgets, *hosted.key, hosted.replica, expired=tuple(expired))

    def _hosted(self, topic: str, partition: int) -> Partition:
        hosted = self._replicas.get(topic, partition)
        if hosted is None:
            raise ValueError(f"broker {self._registration.broker_id} does not host {topic}-{partition}")
        return hosted

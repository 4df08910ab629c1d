"""What an operator changes about a cluster: topics that go or grow, partitions that move, brokers that leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from tidegauge.impl.cluster.hosts import BROKER, SimulatedHost
from tidegauge.impl.faults.fault_log import FaultLog, logged
from tidegauge.impl.server import trace
from tidegauge.impl.storage.surviving_logs import survivors

if TYPE_CHECKING:
    from typing import Any

    from tidegauge.impl.client.client import Client
    from tidegauge.impl.cluster.hosts import Host
    from tidegauge.impl.cluster.running import Running
    from tidegauge.impl.server.broker_server import Broker
    from tidegauge.impl.server.controller.node import ControllerNode


class Changes:
    """The cluster's methods about its topics' places and its brokers' leaving; mixed into `Cluster`."""

    if TYPE_CHECKING:
        timers: bool

        @property
        def host(self) -> Host: ...

        @property
        def fault_log(self) -> FaultLog: ...

        @property
        def controller(self) -> ControllerNode: ...

        def broker(self, broker_id: int) -> Broker: ...

        def client(self, client_id: str | None = None) -> Client: ...

        def _running(self, broker_id: int) -> Running: ...

        async def settle_metadata(self) -> None: ...

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until its brokers have removed it; one that is down removes it when it returns.

        Raises KafkaError.
        """
        from tidegauge.impl.client import topic_requests

        await self._administer(topic_requests.delete_topic(name), f"topic {name} was not deleted")

    async def create_partitions(self, name: str, count: int, *, assignments: Sequence[Sequence[int]] = ()) -> None:
        """Let a topic grow to `count` partitions and wait until its brokers know of them.

        `assignments` names the brokers of each new partition, the preferred leader first. Raises KafkaError.
        """
        from tidegauge.impl.client import topic_requests

        request = topic_requests.create_partitions(name, count, assignments)
        await self._administer(request, f"topic {name} did not grow")

    async def reassign(
        self, topic: str, brokers: Sequence[int] | None, partition: int = 0, *, wait: bool = True
    ) -> None:
        """Move a partition to these brokers, the preferred leader first, while it is written to (KIP-455).

        Returns when it has moved or, without `wait`, when the move has begun; bound it with a trio timeout of yours.
        None for `brokers` takes a move back that is under way. Raises KafkaError.
        """
        from tidegauge.impl.client import topic_requests

        request = topic_requests.reassign(topic, partition, brokers)
        await self._administer(request, f"{topic}-{partition} was not reassigned")
        while wait and self.timers and self.is_reassigned(topic, partition):  # noqa: ASYNC110 - callers bound it
            await trio.sleep(0.01)
        await self.settle_metadata()

    def is_reassigned(self, topic: str, partition: int = 0) -> bool:
        """Whether the partition is on its way to other brokers."""
        registration = self.controller.controller.image.partition(topic, partition)
        return registration is not None and registration.is_reassigned

    def replicas(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """The partition's brokers, the preferred leader first. Raises ValueError when there is no such partition."""
        registration = self.controller.controller.image.partition(topic, partition)
        if registration is None:
            raise ValueError(f"there is no {topic}-{partition}")
        return registration.replicas

    @logged
    async def shutdown(self, broker_id: int, *, patient: bool = True) -> None:
        """Let a broker leave in good order, as SIGTERM does: it hands over what it leads, flushes its logs and stops.

        Where it is the last in sync of a partition it waits controlled.shutdown.retry.backoff.ms for another one, up
        to controlled.shutdown.max.retries times, unless it is not `patient`; then it leaves, and the partition waits
        for it. `restart` starts it again. Raises ValueError when the broker is down already.
        """
        running = self._running(broker_id)
        if not running.alive:
            raise ValueError(f"broker {broker_id} is down already: restart it first")
        broker = self.broker(broker_id)
        await broker.membership.leave(patient=patient)
        if not running.alive:
            return
        await running.kill()
        running.stop()
        name = f"{BROKER}{broker_id}"
        if isinstance(self.host, SimulatedHost):
            self.host.cut(name, lose_sent=False)
        else:
            self.host.cut(name)
        self.host.power_on(name)
        if broker.tracer.trace is not None:
            disk = self.host.disk(name).disk
            left = survivors(disk, broker.replicas.directories.paths)
            broker.tracer.record(trace.events.Stop, kept=left.ends, starts=left.starts)

    async def _administer(self, request: Any, what: str) -> None:
        from tidegauge.impl.client import topic_requests

        async with self.client("admin") as admin:
            topic_requests.check(await admin.ask_once(request), what)
        await self.settle_metadata()

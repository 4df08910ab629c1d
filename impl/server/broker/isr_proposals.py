"""ISR proposals: the AlterPartition requests of a broker's leaders to the controller (KIP-497).

The core proposes at most one ISR of a partition at a time. The proposal is open until the controller or newer metadata
have settled it. It is sent at once. When no response comes, or the response is an error that may pass, it is sent again
after retry.backoff.ms, for as long as it is open. A proposal that was refused as out of date is not sent again: newer
metadata will settle it. The core ignores a response to a proposal that it has given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import AlterPartitionRequest
from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.partition import Partition, TopicPartition
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError

if TYPE_CHECKING:
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.broker.controller_link import ControllerLink
    from tidegauge.impl.server.broker.registration import Registration
    from tidegauge.impl.server.broker.replica_manager import ReplicaManager
    from tidegauge.impl.server.broker.tasks import BrokerTasks
    from tidegauge.impl.server.trace.tracer import Tracer

OUT_OF_DATE: Final = frozenset(
    {
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.invalid_request,
        ErrorCode.new_leader_elected,
    }
)
"""Errors after which a proposal is not sent again."""


class IsrProposals:
    """The open proposals of one broker."""

    def __init__(
        self,
        replicas: ReplicaManager,
        controller: ControllerLink,
        registration: Registration,
        tasks: BrokerTasks,
        *,
        clock: Clock,
        tracer: Tracer,
        retry_backoff_ms: int | None,
    ) -> None:
        """Without `retry_backoff_ms` only a driver sends a proposal again."""
        self._replicas = replicas
        self._controller = controller
        self._registration = registration
        self._tasks = tasks
        self._clock = clock
        self._tracer = tracer
        self._retry_backoff_ms = retry_backoff_ms
        self._outstanding: dict[TopicPartition, list[AlterPartitionRequest]] = {}

    def outstanding(self, topic: str, partition: int) -> tuple[AlterPartitionRequest, ...]:
        """The proposals of a partition that were sent and have no response yet."""
        return tuple(self._outstanding.get((topic, partition), ()))

    def propose(self, partition: Partition) -> None:
        """Send the core's open proposal."""
        request = partition.replica.alter_partition_request(self._registration.broker_epoch)
        if request is not None:
            self._outstanding.setdefault(partition.key, []).append(request)
            self._tasks.start_soon(self._send, partition, request)

    def retry(self, partition: Partition) -> bool:
        """Send the open proposal again, unless one is outstanding; False when there is nothing to send."""
        request = partition.replica.alter_partition_request(self._registration.broker_epoch)
        if partition.is_gone or request is None or self._outstanding.get(partition.key):
            return False
        if self._tracer.trace is not None:
            retry = trace.events.RetryAlterPartition
            self._tracer.replica(retry, *partition.key, partition.replica, request=request)
        self.propose(partition)
        return True

    async def _send(self, partition: Partition, request: AlterPartitionRequest) -> None:
        try:
            response = await self._controller.alter_partition(partition, request)
        except (UnreachableError, NoResponseError):
            response = None
        await self._clock.until_running()
        self._outstanding[partition.key].remove(request)
        if partition.is_gone:
            return
        if response is None:
            error = ErrorCode.network_exception
        else:
            partition.replica.receive_alter_partition_response(request, response)
            error = response.error
        if self._tracer.trace is not None:
            events = trace.events
            self._tracer.replica(
                events.DisconnectController if response is None else events.ReceiveAlterPartitionResponse,
                *partition.key,
                partition.replica,
                request=request,
                error=error,
            )
        self._replicas.carry_out(partition)
        if self._retry_backoff_ms is not None and error not in OUT_OF_DATE:
            await trio.sleep(self._retry_backoff_ms / 1000)
            await self._clock.until_running()
            self.retry(partition)

"""AlterPartition from the leader's side: proposals of an ISR on their way to the controller.

The core proposes, at most one ISR for a partition at a time, and keeps the proposal open until the controller or
newer metadata has settled it. Here it is sent at once; when its answer is lost, or is an error that may pass, it is
sent again after a backoff for as long as it is open. A proposal that was refused because it is out of date is not:
the metadata will tell what has happened. The core ignores the answer to a proposal that it has given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from kio.schema.alter_partition.v3 import request as wire_request
from kio.schema.alter_partition.v3.request import AlterPartitionRequest as WireRequest
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import AlterPartitionRequest, AlterPartitionResponse
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.partition import Partition, TopicPartition
from tidegauge.impl.wire.channel import NoAnswerError, UnreachableError
from tidegauge.impl.wire.primitives import BrokerId, i32, i64, topic_uuid

if TYPE_CHECKING:
    from kio.schema.alter_partition.v3.response import AlterPartitionResponse as WireResponse

    from tidegauge.impl.server.broker_server import Broker


OUT_OF_DATE: Final = frozenset(
    {
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.invalid_request,
        ErrorCode.new_leader_elected,
    }
)


class IsrProposals:
    """The open proposals of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._on_their_way: dict[TopicPartition, list[AlterPartitionRequest]] = {}

    def on_their_way(self, topic: str, partition: int) -> tuple[AlterPartitionRequest, ...]:
        """Proposals that were sent and not answered yet."""
        return tuple(self._on_their_way.get((topic, partition), ()))

    def propose(self, partition: Partition) -> None:
        """Send the core's open proposal."""
        request = partition.replica.alter_partition_request(self._broker.registration.broker_epoch)
        if request is not None:
            self._on_their_way.setdefault(partition.key, []).append(request)
            self._broker.tasks.start_soon(self._send, partition, request)

    def retry(self, partition: Partition) -> bool:
        """Send the open proposal again, unless one is on its way; False when there is nothing to send."""
        request = partition.replica.alter_partition_request(self._broker.registration.broker_epoch)
        if partition.is_gone or request is None or self._on_their_way.get(partition.key):
            return False
        if self._broker.tracer.trace is not None:
            retry = trace.events.RetryAlterPartition
            self._broker.tracer.replica(retry, partition.topic, partition.index, partition.replica, request=request)
        self.propose(partition)
        return True

    async def _send(self, partition: Partition, request: AlterPartitionRequest) -> None:
        broker = self._broker
        try:
            response = await broker.controller.alter_partition(partition, request)
        except (UnreachableError, NoAnswerError):
            response = None
        await broker.clock.until_running()
        self._on_their_way[partition.key].remove(request)
        if partition.is_gone:
            return
        if response is None:
            error = ErrorCode.network_exception
        else:
            partition.replica.receive_alter_partition_response(request, response)
            error = response.error
        if broker.tracer.trace is not None:
            kinds = trace.events
            broker.tracer.replica(
                kinds.DisconnectController if response is None else kinds.ReceiveAlterPartitionResponse,
                *(partition.topic, partition.index, partition.replica),
                request=request,
                error=error,
            )
        broker.replicas.carry_out(partition)
        if broker.timers and error not in OUT_OF_DATE:
            await trio.sleep(broker.config.current.retry_backoff_ms / 1000)
            await broker.clock.until_running()
            self.retry(partition)


def wire_request_of(topic_id: str, partition: int, request: AlterPartitionRequest) -> WireRequest:
    """The core's request as kio's message."""
    members = tuple(
        wire_request.BrokerState(broker_id=BrokerId(member), broker_epoch=i64(epoch)) for member, epoch in request.isr
    )
    data = wire_request.PartitionData(
        partition_index=i32(partition),
        leader_epoch=i32(request.leader_epoch),
        new_isr_with_epochs=members,
        partition_epoch=i32(request.partition_epoch),
    )
    topic = wire_request.TopicData(topic_id=topic_uuid(topic_id), partitions=(data,))
    return WireRequest(broker_id=BrokerId(request.broker_id), broker_epoch=i64(request.broker_epoch), topics=(topic,))


def core_response_of(message: WireResponse, replicas: tuple[int, ...], controller_epoch: int) -> AlterPartitionResponse:
    """kio's message as the core's answer; the request was for one partition."""
    if message.error_code is not ErrorCode.none or not message.topics:
        return AlterPartitionResponse(message.error_code, controller_epoch)
    data = message.topics[0].partitions[0]
    if data.error_code is not ErrorCode.none:
        return AlterPartitionResponse(data.error_code, controller_epoch)
    registration = PartitionRegistration(
        replicas=replicas,
        leader=data.leader_id,
        leader_epoch=data.leader_epoch,
        partition_epoch=data.partition_epoch,
        isr=frozenset(int(member) for member in data.isr),
    )
    return AlterPartitionResponse(ErrorCode.none, controller_epoch, registration)

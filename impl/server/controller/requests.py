"""What brokers ask of the controller, request by request: kio's messages in and out, decisions by the core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.alter_partition.v3 import response as alter_response
from kio.schema.alter_partition.v3.response import AlterPartitionResponse as WireAlterPartitionResponse
from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse
from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.topic_names import METADATA_TOPIC_ID
from tidegauge.impl.partition.messages import AlterPartitionRequest, PartitionFetchResponse
from tidegauge.impl.server import trace
from tidegauge.impl.server.controller.directories import note_offline_directories
from tidegauge.impl.server.controller.observers import observe
from tidegauge.impl.server.reads import PartitionRead, ReadOutcome, fetch_response, partition_reads
from tidegauge.impl.wire.fetch_messages import FetchRequest, FetchResponse
from tidegauge.impl.wire.primitives import NO_WAIT, BrokerId, i32, i64

if TYPE_CHECKING:
    from kio.schema.alter_partition.v3.request import AlterPartitionRequest as WireAlterPartitionRequest
    from kio.schema.alter_partition.v3.request import PartitionData as AlterData
    from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
    from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest

    from tidegauge.impl.server.controller.node import ControllerNode
    from tidegauge.impl.server.trace.events import SessionDecision
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_registration(
    request: BrokerRegistrationRequest, _: RequestContext, *, node: ControllerNode
) -> BrokerRegistrationResponse:
    """A broker's process joins and gets its broker epoch."""
    if not request.listeners:
        return BrokerRegistrationResponse(throttle_time=NO_WAIT, error_code=ErrorCode.invalid_registration)
    listener = request.listeners[0]  # the one for other brokers comes first
    with node.decision() as changed:
        epoch = node.controller.register_broker(
            request.broker_id,
            host=listener.host,
            port=listener.port,
            rack=request.rack,
            listeners=tuple(
                (one.name, one.host, int(one.port), int(one.security_protocol)) for one in request.listeners
            ),
            directories=tuple(map(str, request.log_dirs)),
            stopped_cleanly_in=request.previous_broker_epoch,
        )
        if node.tracer.trace is not None:
            registered = trace.events.Register
            node.tracer.record(registered, broker=request.broker_id, broker_epoch=epoch, changed=changed())
    return BrokerRegistrationResponse(throttle_time=NO_WAIT, error_code=ErrorCode.none, broker_epoch=i64(epoch))


async def handle_heartbeat(
    request: BrokerHeartbeatRequest, _: RequestContext, *, node: ControllerNode
) -> BrokerHeartbeatResponse:
    """A broker's session is renewed; one that has caught up is unfenced, one that wants to stop is let go."""
    note_offline_directories(node, request)
    image, broker_id = node.controller.image, request.broker_id
    before = image.is_unfenced(broker_id), image.is_shutting_down(broker_id)
    with node.decision() as changed:
        answer = node.controller.heartbeat(
            broker_id,
            request.broker_epoch,
            request.current_metadata_offset,
            node.clock.now_ms(),
            want_fence=request.want_fence,
            want_shut_down=request.want_shut_down,
        )
        after = image.is_unfenced(broker_id), image.is_shutting_down(broker_id)
        if node.tracer.trace is not None and (decided := _session_decision(before, after)) is not None:
            node.tracer.record(decided, broker=broker_id, broker_epoch=request.broker_epoch, changed=changed())
    return BrokerHeartbeatResponse(
        throttle_time=NO_WAIT,
        error_code=answer.error,
        is_caught_up=answer.is_caught_up,
        is_fenced=answer.is_fenced,
        should_shut_down=answer.should_shut_down,
    )


def _session_decision(before: tuple[bool, bool], after: tuple[bool, bool]) -> type[SessionDecision] | None:
    """What a heartbeat has done, by what the broker was before and is after it: (unfenced, about to stop)."""
    events = trace.events
    decisions: dict[tuple[tuple[bool, bool], tuple[bool, bool]], type[SessionDecision]] = {
        ((False, False), (True, False)): events.Unfence,
        ((True, False), (False, False)): events.LapseSession,
        ((True, False), (True, True)): events.BeginShutdown,
        ((True, False), (False, True)): events.Shutdown,
        ((True, True), (False, True)): events.GrantShutdown,
    }
    return decisions.get((before, after))


async def handle_fetch(request: FetchRequest, context: RequestContext, *, node: ControllerNode) -> FetchResponse:
    """Brokers fetch the metadata log, and wait for what comes."""
    asked = tuple(partition_reads(request))
    if any(not _is_metadata(one) for one in asked):
        unknown = PartitionFetchResponse(ErrorCode.unknown_topic_id)
        return fetch_response([ReadOutcome(one, unknown) for one in asked])
    for one in asked:
        observe(node, request.replica_id, one.offset)

    def answers() -> list[ReadOutcome]:
        return [ReadOutcome(one, node.metadata(one.offset, one.max_bytes)) for one in asked]

    def news() -> list[ReadOutcome] | None:
        found = answers()
        return found if any(one.response.has_news for one in found) else None

    wait_ms = request.max_wait_ms
    found = news()
    if found is None and wait_ms > 0:
        found = await context.while_connected(
            lambda: node.waiting.until([_METADATA_KEY], news, wait_ms),
        )
    return fetch_response(answers() if found is None else found)


_METADATA_KEY: Final = "__cluster_metadata-0"


def _is_metadata(asked: PartitionRead) -> bool:
    return asked.topic_id == METADATA_TOPIC_ID and asked.partition == 0


async def handle_alter_partition(
    request: WireAlterPartitionRequest, _: RequestContext, *, node: ControllerNode
) -> WireAlterPartitionResponse:
    """Leaders propose ISRs; each is written or refused by itself."""
    names = {image.topic_id: name for name, image in node.controller.image.topics.items()}
    return WireAlterPartitionResponse(
        throttle_time=NO_WAIT,
        error_code=ErrorCode.none,
        topics=tuple(
            alter_response.TopicData(
                topic_id=topic.topic_id,
                partitions=tuple(
                    _alter(node, request, names.get(str(topic.topic_id)), data) for data in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _alter(
    node: ControllerNode, request: WireAlterPartitionRequest, topic: str | None, data: AlterData
) -> alter_response.PartitionData:
    if topic is None:
        return _refused(data, ErrorCode.unknown_topic_id)
    proposal = AlterPartitionRequest(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        leader_epoch=data.leader_epoch,
        partition_epoch=data.partition_epoch,
        isr=tuple((int(member.broker_id), int(member.broker_epoch)) for member in data.new_isr_with_epochs),
    )
    with node.decision() as changed:
        answer = node.controller.alter_partition(topic, data.partition_index, proposal)
        if node.tracer.trace is not None:
            node.tracer.record(
                trace.events.ReceiveAlterPartition,
                topic=topic,
                partition=int(data.partition_index),
                request=proposal,
                error=answer.error,
                changed=changed(),
            )
    now = answer.registration
    if answer.error is not ErrorCode.none or now is None:
        return _refused(data, answer.error)
    return alter_response.PartitionData(
        partition_index=data.partition_index,
        error_code=ErrorCode.none,
        leader_id=BrokerId(now.leader),
        leader_epoch=i32(now.leader_epoch),
        isr=tuple(BrokerId(member) for member in sorted(now.isr)),
        partition_epoch=i32(now.partition_epoch),
    )


def _refused(data: AlterData, error: ErrorCode) -> alter_response.PartitionData:
    return alter_response.PartitionData(
        partition_index=data.partition_index,
        error_code=error,
        leader_id=BrokerId(-1),
        leader_epoch=data.leader_epoch,
        partition_epoch=data.partition_epoch,
    )

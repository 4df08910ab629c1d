"""What brokers ask of the controller, request by request: kio's messages in and out, decisions by the core."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from kio.schema.alter_partition.v3 import response as alter_response
from kio.schema.alter_partition.v3.request import AlterPartitionRequest as WireAlterPartitionRequest
from kio.schema.alter_partition.v3.request import PartitionData as AlterData
from kio.schema.alter_partition.v3.response import AlterPartitionResponse as WireAlterPartitionResponse
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest
from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse
from kio.schema.create_topics.v7 import response as create_response
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.elect_leaders.v2 import response as elect_response
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
from kio.schema.errors import ErrorCode

from impl.controller.topics import CreatedTopic
from impl.partition.messages import AlterPartitionRequest, FetchAnswer
from impl.server.controller_configs import (
    handle_alter_client_quotas,
    handle_alter_configs,
    handle_incremental_alter_configs,
)
from impl.server.controller_link import METADATA_TOPIC_ID
from impl.server.controller_producer_ids import handle_allocate_producer_ids
from impl.server.fetch_messages import (
    AnsweredPartition,
    AskedPartition,
    FetchRequest,
    FetchResponse,
    asked_partitions,
    response,
)
from impl.server.quorum import handle_describe_quorum, handle_update_features, observe
from impl.server.security.acl_requests import create_acls, delete_acls
from impl.server.security.scram_requests import alter_scram_credentials
from impl.server.trace import request_fields
from impl.wire.apis import ApiKey
from impl.wire.primitives import NO_WAIT, BrokerId, TopicName, i16, i32, i64, topic_uuid

if TYPE_CHECKING:
    from impl.server.context import RequestContext
    from impl.server.controller_node import ControllerNode

PREFERRED: Final = 0
UNCLEAN: Final = 1
DEFAULT: Final = -1


async def handle_registration(
    node: ControllerNode, request: BrokerRegistrationRequest, _: RequestContext
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
        )
        node.tracer.record("Register", broker=request.broker_id, broker_epoch=epoch, changed=changed())
    return BrokerRegistrationResponse(throttle_time=NO_WAIT, error_code=ErrorCode.none, broker_epoch=i64(epoch))


async def handle_heartbeat(
    node: ControllerNode, request: BrokerHeartbeatRequest, _: RequestContext
) -> BrokerHeartbeatResponse:
    """A broker's session is renewed; a fenced broker that has caught up with the metadata is unfenced."""
    was_unfenced = node.controller.image.is_unfenced(request.broker_id)
    with node.decision() as changed:
        answer = node.controller.heartbeat(
            request.broker_id, request.broker_epoch, request.current_metadata_offset, node.clock.now_ms()
        )
        if not was_unfenced and node.controller.image.is_unfenced(request.broker_id):
            node.tracer.record(
                "Unfence", broker=request.broker_id, broker_epoch=request.broker_epoch, changed=changed()
            )
    return BrokerHeartbeatResponse(
        throttle_time=NO_WAIT,
        error_code=answer.error,
        is_caught_up=answer.is_caught_up,
        is_fenced=answer.is_fenced,
        should_shut_down=False,
    )


async def handle_fetch(node: ControllerNode, request: FetchRequest, context: RequestContext) -> FetchResponse:
    """Brokers fetch the metadata log, and wait for what comes."""
    asked = tuple(asked_partitions(request))
    if any(not _is_metadata(one) for one in asked):
        unknown = FetchAnswer(ErrorCode.unknown_topic_id)
        return response([AnsweredPartition(one.topic_id, one.partition, unknown) for one in asked])
    for one in asked:
        observe(node, request.replica_id, one.fetch_offset)

    def answers() -> list[AnsweredPartition]:
        return [AnsweredPartition(one.topic_id, 0, node.metadata(one.fetch_offset, one.max_bytes)) for one in asked]

    def news() -> list[AnsweredPartition] | None:
        found = answers()
        return found if any(one.answer.has_news for one in found) else None

    wait_ms = request.max_wait_ms
    found = news()
    if found is None and wait_ms > 0:
        found = await context.while_connected(
            lambda: node.waiting.until([_METADATA_KEY], news, wait_ms),
        )
    return response(answers() if found is None else found)


_METADATA_KEY: Final = "__cluster_metadata-0"


def _is_metadata(asked: AskedPartition) -> bool:
    return asked.topic_id == METADATA_TOPIC_ID and asked.partition == 0


async def handle_alter_partition(
    node: ControllerNode, request: WireAlterPartitionRequest, _: RequestContext
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
        node.tracer.record(
            "ReceiveAlterPartition",
            topic=topic,
            partition=data.partition_index,
            error=answer.error.name,
            **request_fields(proposal),
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


async def handle_create_topics(
    node: ControllerNode, request: CreateTopicsRequest, _: RequestContext
) -> CreateTopicsResponse:
    """Topics are created one by one, each wholly or not at all."""
    return CreateTopicsResponse(
        throttle_time=NO_WAIT, topics=tuple(_create(node, topic, request.validate_only) for topic in request.topics)
    )


def _create(node: ControllerNode, asked: CreatableTopic, validate_only: bool) -> create_response.CreatableTopicResult:
    topic_id = _new_topic_id(node, asked.name)
    if validate_only:
        created = CreatedTopic(ErrorCode.invalid_request, "validate_only is not supported: topics are created at once")
    else:
        with node.decision() as changed:
            created = _place(node, asked, topic_id)
            if created.error is ErrorCode.none:
                node.tracer.record("CreateTopic", topic=asked.name, changed=changed())
    ok = created.error is ErrorCode.none
    partitions = node.controller.image.topics[asked.name].partitions if ok else {}
    return create_response.CreatableTopicResult(
        name=TopicName(asked.name),
        topic_id=topic_uuid(topic_id) if ok else None,
        error_code=created.error,
        error_message=created.message or None,
        num_partitions=i32(len(partitions) if ok else -1),
        replication_factor=i16(len(partitions[0].replicas) if ok else -1),
        configs=(),
    )


def _place(node: ControllerNode, asked: CreatableTopic, topic_id: str) -> CreatedTopic:
    """By hand where the request says so, else by the core's placement with random numbers from the cluster's seed."""
    configs = {config.name: config.value for config in asked.configs if config.value is not None}
    if asked.assignments:
        by_index = {int(a.partition_index): tuple(int(b) for b in a.broker_ids) for a in asked.assignments}
        if sorted(by_index) != list(range(len(asked.assignments))):
            return CreatedTopic(
                ErrorCode.invalid_replica_assignment, f"partitions {sorted(by_index)}: number them from 0 without gaps"
            )
        replicas = tuple(by_index[index] for index in range(len(by_index)))
        return node.controller.create_topic_on(asked.name, topic_id, replicas, configs)
    partitions = node.config.num_partitions if asked.num_partitions == DEFAULT else asked.num_partitions
    factor = asked.replication_factor
    live = max(1, len(node.controller.image.unfenced_brokers()))
    return node.controller.create_topic(
        asked.name,
        topic_id,
        partitions,
        node.config.default_replication_factor if factor == DEFAULT else factor,
        configs=configs,
        start=node.draw("start", asked.name) % live,
        shift=node.draw("shift", asked.name) % live,
    )


def _new_topic_id(node: ControllerNode, name: str) -> str:
    """A topic id in the form of a random UUID (version 4)."""
    number = node.draw("topic id", name, str(node.log.end_offset))
    text = f"{number & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


async def handle_elect_leaders(
    node: ControllerNode, request: ElectLeadersRequest, _: RequestContext
) -> ElectLeadersResponse:
    """Preferred (0) or unclean (1) election of the partitions named, or of all."""
    results: dict[str, list[elect_response.PartitionResult]] = {}
    for topic, partition in _to_elect(node, request):
        error = _elect(node, topic, partition, request.election_type)
        if request.topic_partitions is None and error is ErrorCode.election_not_needed:
            continue
        message = None if error is ErrorCode.none else error.name
        results.setdefault(topic, []).append(
            elect_response.PartitionResult(partition_id=i32(partition), error_code=error, error_message=message)
        )
    return ElectLeadersResponse(
        throttle_time=NO_WAIT,
        error_code=ErrorCode.none,
        replica_election_results=tuple(
            elect_response.ReplicaElectionResult(topic=TopicName(topic), partition_result=tuple(partitions))
            for topic, partitions in results.items()
        ),
    )


def _to_elect(node: ControllerNode, request: ElectLeadersRequest) -> Iterator[tuple[str, int]]:
    if request.topic_partitions is None:
        yield from [(topic, partition) for topic, partition, _ in node.controller.image.partitions()]
    else:
        for named in request.topic_partitions:
            for partition in named.partitions:
                yield named.topic, partition


def _elect(node: ControllerNode, topic: str, partition: int, election_type: int) -> ErrorCode:
    if election_type not in (PREFERRED, UNCLEAN):
        return ErrorCode.invalid_request
    preferred = election_type == PREFERRED
    with node.decision() as changed:
        elect = node.controller.elect_preferred if preferred else node.controller.elect_uncleanly
        error = elect(topic, partition)
        if error is ErrorCode.none:
            name = "PreferredElection" if preferred else "UncleanElection"
            node.tracer.record(name, topic=topic, partition=partition, changed=changed())
    return error


CONTROLLER_HANDLERS: Final[dict[ApiKey, Callable[[ControllerNode, Any, RequestContext], Awaitable[Any]]]] = {
    ApiKey.FETCH: handle_fetch,
    ApiKey.CREATE_TOPICS: handle_create_topics,
    ApiKey.ELECT_LEADERS: handle_elect_leaders,
    ApiKey.ALTER_PARTITION: handle_alter_partition,
    ApiKey.BROKER_REGISTRATION: handle_registration,
    ApiKey.BROKER_HEARTBEAT: handle_heartbeat,
    ApiKey.ALLOCATE_PRODUCER_IDS: handle_allocate_producer_ids,
    ApiKey.ALTER_CONFIGS: handle_alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: handle_incremental_alter_configs,
    ApiKey.ALTER_CLIENT_QUOTAS: handle_alter_client_quotas,
    ApiKey.DESCRIBE_QUORUM: handle_describe_quorum,
    ApiKey.UPDATE_FEATURES: handle_update_features,
    ApiKey.CREATE_ACLS: create_acls,
    ApiKey.DELETE_ACLS: delete_acls,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_scram_credentials,
}

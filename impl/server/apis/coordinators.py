"""FindCoordinator: which broker leads the partition of an internal topic that has a group or a transactional id.

The topic is created when its first coordinator is asked for (KIP-98, KIP-699).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from tidegauge.impl.coordinators.hashing import partition_for
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.impl.server.error_responses.explanation import explain_error
from tidegauge.impl.server.pace import ELEMENT
from tidegauge.impl.server.requests.rights import group_error, transaction_error
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.wire.primitives import NO_WAIT, BrokerId, i32

if TYPE_CHECKING:
    from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

    from tidegauge.impl.server.broker.internal_topics import InternalTopics
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.transport.context import RequestContext

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
NOWHERE: Final = -1
TOPICS: Final = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE}
NO_SHARE_GROUPS: Final = "there are no share groups here"


async def handle_find_coordinator(
    request: FindCoordinatorRequest,
    context: RequestContext,
    *,
    metadata: MetadataCache,
    internal_topics: InternalTopics,
) -> FindCoordinatorResponse:
    """The broker that coordinates each key; COORDINATOR_NOT_AVAILABLE while there is none."""
    coordinators = []
    for key in request.coordinator_keys:
        await context.pace.did(ELEMENT)
        coordinators.append(await _coordinator(request.key_type, key, context, metadata, internal_topics))
    return FindCoordinatorResponse(throttle_time=NO_WAIT, coordinators=tuple(coordinators))


async def _coordinator(
    key_type: int,
    key: str,
    context: RequestContext,
    metadata: MetadataCache,
    internal_topics: InternalTopics,
) -> Coordinator:
    error, message = _refusal(key_type, key, context)
    if error is not ErrorCode.none:
        return _nobody(key, error, message)
    name = TOPICS[key_type]
    if name not in metadata.image.topics:
        message = await context.wait_briefly(partial(internal_topics.require, name))
        if message:
            return _nobody(key, ErrorCode.coordinator_not_available, message)
    topic = metadata.image.topics[name]
    broker_id = topic.partitions[partition_for(key, len(topic.partitions))].leader
    address = metadata.endpoint(broker_id, context.listener)
    if address is None:
        return _nobody(key, ErrorCode.coordinator_not_available, "the coordinator has no live broker now: ask again")
    return Coordinator(
        key=key,
        node_id=BrokerId(broker_id),
        host=address.host,
        port=i32(address.port),
        error_code=ErrorCode.none,
        error_message=None,
    )


def _nobody(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=BrokerId(NOWHERE),
        host="",
        port=i32(NOWHERE),
        error_code=error,
        error_message=explain_error(error, message),
    )


def _refusal(key_type: int, key: str, context: RequestContext) -> tuple[ErrorCode, str]:
    if key_type == GROUP:
        return group_error(Operation.DESCRIBE, key, context), ""
    if key_type == TRANSACTION:
        return transaction_error(Operation.DESCRIBE, key, context), ""
    if key_type == SHARE:
        return ErrorCode.invalid_request, NO_SHARE_GROUPS
    return ErrorCode.invalid_request, f"key type {key_type} is none: use 0 for groups, 1 for transactions"

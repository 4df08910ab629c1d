"""Groups, transactions, share groups and streams groups, of which there are none here yet.

A broker answers every request about them as Kafka does where nothing of the kind exists or where the feature is off:

- questions find nothing: no groups are listed, a group that is described is not there, and has no offsets;
- what would begin something is refused with UNSUPPORTED_VERSION, Kafka's answer where a feature is off. Clients give up
  on it at once and say so, where COORDINATOR_NOT_AVAILABLE would have them try again for ever;
- what would go on with something is answered as to one who is not known (UNKNOWN_MEMBER_ID,
  INVALID_PRODUCER_ID_MAPPING, …).

Each broker says of itself that it is the coordinator of a group, so that a consumer that was assigned partitions by
hand can ask for its offsets, learn that there are none, and go on. Of transactions nobody is the coordinator, and
nobody may use any: TRANSACTIONAL_ID_AUTHORIZATION_FAILED is the one answer upon which librdkafka does not ask again
for ever, and it passes on the message.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kio.schema.describe_groups.v6.response import DescribedGroup, DescribeGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.list_groups.v5.response import ListGroupsResponse
from kio.schema.list_transactions.v2.response import ListTransactionsResponse
from kio.schema.offset_fetch.v10.response import OffsetFetchResponsePartitions

from tidegauge.impl.server.broker.forwarding import Check
from tidegauge.impl.server.error_responses.table import error_response
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.offset_unions import (
    AnyOffsetCommitRequest,
    AnyOffsetCommitResponse,
    AnyOffsetFetchRequest,
    AnyOffsetFetchResponse,
    CommittedTopic,
    FetchedGroup,
    FetchedGroupAnswer,
    FetchedTopic,
    FetchedTopicAnswer,
)
from tidegauge.impl.wire.primitives import NO_WAIT, BrokerId, i32, i64
from tidegauge.impl.wire.unions import UNASKED

if TYPE_CHECKING:
    from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
    from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
    from kio.schema.list_groups.v5.request import ListGroupsRequest
    from kio.schema.list_transactions.v2.request import ListTransactionsRequest

    from tidegauge.impl.server.broker_server import Broker
    from tidegauge.impl.server.transport.context import RequestContext
    from tidegauge.impl.server.transport.handlers import HandlerFunction

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
NOWHERE: Final = -1
NO_GROUPS: Final = "there are no consumer groups here yet: assign partitions by hand, and keep offsets yourself"
NO_TRANSACTIONS: Final = "there are no transactions here yet: produce without a transactional id"
NO_SHARE_GROUPS: Final = "there are no share groups here"
NOT_FOUND_FROM: Final = 6
"""The version of DescribeGroups from which a group that is not there is an error, and not one that is dead."""
TRANSACTION_STATES: Final = frozenset(
    {"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence"}
)


def refusing(error: ErrorCode, check: Check | None = None, message: str = "") -> HandlerFunction:
    """A handler that answers everything that a request names with an error, or with that of `check`."""

    async def handle(request: Any, context: RequestContext) -> Any:
        denied = ErrorCode.none if check is None else check(request, context)
        return error_response(request, error, message) if denied is ErrorCode.none else error_response(request, denied)

    return handle


def refusing_each(
    array: str,
    answers: str,
    error: ErrorCode,
    check: Callable[[Any, RequestContext], ErrorCode],
    message: str = "",
) -> HandlerFunction:
    """A handler that answers each item of a request's array with an error, or with that of `check` for the item."""

    async def handle(request: Any, context: RequestContext) -> Any:
        answered: list[Any] = []
        for item in getattr(request, array):
            denied = check(item, context)
            refused = (error, message) if denied is ErrorCode.none else (denied, "")
            one = dataclasses.replace(request, **{array: (item,)})
            answered.extend(getattr(error_response(one, *refused), answers))
        empty = error_response(dataclasses.replace(request, **{array: ()}), ErrorCode.none)
        return dataclasses.replace(empty, **{answers: tuple(answered)})

    return handle


def on_group(operation: Operation) -> Check:
    """The check for requests about one group."""

    def check(request: Any, context: RequestContext) -> ErrorCode:
        return group_error(operation, request.group_id or "", context)

    return check


def on_each_group(operation: Operation) -> Callable[[Any, RequestContext], ErrorCode]:
    """The check for items that are groups' ids, or have one."""

    def check(item: Any, context: RequestContext) -> ErrorCode:
        return group_error(operation, item if isinstance(item, str) else item.group_id, context)

    return check


def group_error(operation: Operation, group_id: str, context: RequestContext) -> ErrorCode:
    """GROUP_AUTHORIZATION_FAILED for who may not do this to the group."""
    allowed = context.allowed(operation, ResourceType.GROUP, group_id)
    return ErrorCode.none if allowed else ErrorCode.group_authorization_failed


def on_transaction(operation: Operation, *, group: bool = False) -> Callable[[Any, RequestContext], ErrorCode]:
    """The check for requests or items about one transactional id, and with `group` about a group that is read."""

    def check(item: Any, context: RequestContext) -> ErrorCode:
        name = item if isinstance(item, str) else item.transactional_id
        if not context.allowed(operation, ResourceType.TRANSACTIONAL_ID, name):
            return ErrorCode.transactional_id_authorization_failed
        return group_error(Operation.READ, item.group_id, context) if group else ErrorCode.none

    return check


# --- coordinators ----------------------------------------------------------------------------------------------------


async def handle_find_coordinator(
    request: FindCoordinatorRequest, context: RequestContext, *, broker: Broker
) -> FindCoordinatorResponse:
    """This broker, for groups; nobody for transactions and share groups."""
    return FindCoordinatorResponse(
        throttle_time=NO_WAIT,
        coordinators=tuple(_coordinator(broker, request.key_type, key, context) for key in request.coordinator_keys),
    )


def _coordinator(broker: Broker, key_type: int, key: str, context: RequestContext) -> Coordinator:
    error, message = _coordinator_error(key_type, key, context)
    if error is ErrorCode.none:
        for known, address, _ in broker.metadata.endpoints(context.listener):
            if known == broker.id:
                return Coordinator(
                    key=key,
                    node_id=BrokerId(broker.id),
                    host=address.host,
                    port=i32(address.port),
                    error_code=ErrorCode.none,
                    error_message=None,
                )
        error, message = ErrorCode.coordinator_not_available, "this broker has not joined its cluster yet"
    return Coordinator(
        key=key, node_id=BrokerId(NOWHERE), host="", port=i32(NOWHERE), error_code=error, error_message=message or None
    )


def _coordinator_error(key_type: int, key: str, context: RequestContext) -> tuple[ErrorCode, str]:
    if key_type == GROUP:
        return group_error(Operation.DESCRIBE, key, context), ""
    if key_type == TRANSACTION:
        if not context.allowed(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
            return ErrorCode.transactional_id_authorization_failed, ""
        return ErrorCode.transactional_id_authorization_failed, NO_TRANSACTIONS
    if key_type == SHARE:
        return ErrorCode.invalid_request, NO_SHARE_GROUPS
    return ErrorCode.invalid_request, f"key type {key_type} is none: use 0 for groups, 1 for transactions"


# --- questions that find nothing -------------------------------------------------------------------------------------


async def handle_describe_groups(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    """No group is there: an error, or a dead group to older clients."""
    return DescribeGroupsResponse(
        throttle_time=NO_WAIT,
        groups=tuple(_described(group, request.include_authorized_operations, context) for group in request.groups),
    )


def _described(group: str, include_operations: bool, context: RequestContext) -> DescribedGroup:
    error = group_error(Operation.DESCRIBE, group, context)
    allowed = error is ErrorCode.none
    missing = allowed and context.api_version >= NOT_FOUND_FROM
    return DescribedGroup(
        error_code=ErrorCode.group_id_not_found if missing else error,
        error_message=f"there is no group {group!r}" if missing else None,
        group_id=group,  # type: ignore[arg-type]
        group_state="Dead" if allowed else "",
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=i32(
            context.operations(ResourceType.GROUP, group) if include_operations and allowed else UNASKED
        ),
    )


async def handle_list_groups(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    """There are none."""
    return ListGroupsResponse(throttle_time=NO_WAIT, error_code=ErrorCode.none, groups=())


async def handle_list_transactions(
    request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    """There are none; states that were asked for and are none of Kafka's are told."""
    unknown = tuple(state for state in request.state_filters if state not in TRANSACTION_STATES)
    return ListTransactionsResponse(
        throttle_time=NO_WAIT, error_code=ErrorCode.none, unknown_state_filters=unknown, transaction_states=()
    )


# --- offsets ---------------------------------------------------------------------------------------------------------


async def handle_offset_fetch(
    request: AnyOffsetFetchRequest, context: RequestContext, *, broker: Broker
) -> AnyOffsetFetchResponse:
    """A group that is not there has no offsets: -1 for each partition asked for, and no error."""
    return AnyOffsetFetchResponse(
        throttle_time=NO_WAIT, groups=tuple(_fetched_group(broker, group, context) for group in request.groups)
    )


def _fetched_group(broker: Broker, group: FetchedGroup, context: RequestContext) -> FetchedGroupAnswer:
    error = group_error(Operation.DESCRIBE, group.group_id, context)
    return FetchedGroupAnswer(
        group_id=group.group_id,
        error_code=error,
        topics=tuple(
            FetchedTopicAnswer(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=_no_offsets(
                    topic.partition_indexes,
                    error if error is not ErrorCode.none else _topic_error(broker, topic, Operation.DESCRIBE, context),
                ),
            )
            for topic in group.topics or ()
        ),
    )


def _no_offsets(partitions: Sequence[int], error: ErrorCode) -> tuple[OffsetFetchResponsePartitions, ...]:
    return tuple(
        OffsetFetchResponsePartitions(
            partition_index=i32(index),
            committed_offset=i64(NOWHERE),
            committed_leader_epoch=i32(NOWHERE),
            metadata="",
            error_code=error,
        )
        for index in partitions
    )


def _topic_error(
    broker: Broker, topic: FetchedTopic | CommittedTopic, operation: Operation, context: RequestContext
) -> ErrorCode:
    name = broker.metadata.topic_name(str(topic.topic_id)) if topic.topic_id is not None else topic.name
    if name is None:
        return ErrorCode.unknown_topic_id
    allowed = context.allowed(operation, ResourceType.TOPIC, name)
    return ErrorCode.none if allowed else ErrorCode.topic_authorization_failed


async def handle_offset_commit(
    request: AnyOffsetCommitRequest, context: RequestContext, *, broker: Broker
) -> AnyOffsetCommitResponse:
    """Nothing keeps offsets yet, so that none are taken."""
    denied = group_error(Operation.READ, request.group_id, context)
    answers = []
    for topic in request.topics:
        error = denied if denied is not ErrorCode.none else _topic_error(broker, topic, Operation.READ, context)
        refused = error_response(
            dataclasses.replace(request, topics=(topic,)),
            ErrorCode.unsupported_version if error is ErrorCode.none else error,
        )
        answers.extend(refused.topics)
    return AnyOffsetCommitResponse(throttle_time=NO_WAIT, topics=tuple(answers))

"""Versions that put the same things in another place.

`impl.wire.versions` converts messages by the names of their fields. Here are the fields that it cannot find that way:
where one version has one key, group, member or transaction at the top of the message and later ones have a list of
them, or where a list of names became a list of structures.

Requests are converted to the canonical version, and responses from it. Each function makes one field of the target: at
once (`TAKEN`), or in slices where there may be many elements (`MADE`). The classes of the messages are imported when
the first such message comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tidegauge.impl.records.slices import Sliced, mapped, mapped_in_slices
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.budget import READ_UNITS

if TYPE_CHECKING:
    from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest as AddPartitionsToTxnRequestV3
    from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTransaction
    from kio.schema.add_partitions_to_txn.v5.response import AddPartitionsToTxnResponse
    from kio.schema.alter_partition.v2.request import PartitionData as PartitionDataV2
    from kio.schema.alter_partition.v3.request import BrokerState
    from kio.schema.delete_topics.v5.request import DeleteTopicsRequest as DeleteTopicsRequestV5
    from kio.schema.delete_topics.v6.request import DeleteTopicState
    from kio.schema.errors import ErrorCode
    from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest as FindCoordinatorRequestV3
    from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse
    from kio.schema.leave_group.v2.request import LeaveGroupRequest as LeaveGroupRequestV2
    from kio.schema.leave_group.v5.request import MemberIdentity
    from kio.schema.leave_group.v5.response import LeaveGroupResponse
    from kio.schema.offset_fetch.v7.request import OffsetFetchRequest as OffsetFetchRequestV7

    from tidegauge.impl.wire.offset_unions import AnyOffsetFetchResponse, FetchedGroup

Convert: TypeAlias = Callable[[Any, type[Any]], Sliced[Any]]
"""`impl.wire.versions.converting`: (message, class of another version) -> the same message in that version."""

Make: TypeAlias = Callable[[Any, type[Any], Convert], Sliced[object]]
"""(source message, class of the items of the target's field if it is an array of structures, convert) -> the value."""


Take: TypeAlias = Callable[[Any], object]
"""Source message -> the value."""


# --- OffsetFetch: one group before version 8 -------------------------------------------------------------------------


def _groups(message: OffsetFetchRequestV7, _: type[Any], convert: Convert) -> Sliced[tuple[FetchedGroup, ...]]:
    from tidegauge.impl.wire.offset_unions import FetchedGroup, FetchedTopic

    topics = None
    if message.topics is not None:
        topics = yield from mapped_in_slices(message.topics, lambda topic: convert(topic, FetchedTopic), READ_UNITS)
    return (FetchedGroup(group_id=message.group_id, topics=topics),)


def _topics_of_group(message: AnyOffsetFetchResponse, topic: type[Any], convert: Convert) -> Sliced[tuple[Any, ...]]:
    return mapped_in_slices(message.groups[0].topics, lambda fetched: convert(fetched, topic), READ_UNITS)


def _error_of_group(message: AnyOffsetFetchResponse) -> ErrorCode:
    return message.groups[0].error_code


# --- AddPartitionsToTxn: one transaction before version 4 ------------------------------------------------------------


def _transactions(
    message: AddPartitionsToTxnRequestV3, _: type[Any], convert: Convert
) -> Sliced[tuple[AddPartitionsToTxnTransaction, ...]]:
    from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction

    topics = yield from mapped_in_slices(
        message.v3_and_below_topics, lambda topic: convert(topic, AddPartitionsToTxnTopic), READ_UNITS
    )
    return (
        AddPartitionsToTxnTransaction(
            transactional_id=message.v3_and_below_transactional_id,
            producer_id=message.v3_and_below_producer_id,
            producer_epoch=message.v3_and_below_producer_epoch,
            topics=topics,
        ),
    )


def _topics_of_transactions(
    message: AddPartitionsToTxnResponse, topic: type[Any], convert: Convert
) -> Sliced[tuple[Any, ...]]:
    results = [one for result in message.results_by_transaction for one in result.topic_results]
    return mapped_in_slices(results, lambda one: convert(one, topic), READ_UNITS)


# --- lists of names, and of numbers ----------------------------------------------------------------------------------


def _topics_by_name(message: DeleteTopicsRequestV5, _: type[Any], __: Convert) -> Sliced[tuple[DeleteTopicState, ...]]:
    from kio.schema.delete_topics.v6.request import DeleteTopicState

    return mapped(message.topic_names, lambda name: DeleteTopicState(name=name, topic_id=None), READ_UNITS)


def _any_process_of_each(message: PartitionDataV2, _: type[Any], __: Convert) -> Sliced[tuple[BrokerState, ...]]:
    """Before version 3 a leader does not say which process of a broker it means: -1 is whichever is registered."""
    from kio.schema.alter_partition.v3.request import BrokerState

    return mapped(message.new_isr, lambda broker: BrokerState(broker_id=broker), READ_UNITS)


# --- LeaveGroup: one member before version 3 -------------------------------------------------------------------------


def _members(message: LeaveGroupRequestV2) -> tuple[MemberIdentity, ...]:
    from kio.schema.leave_group.v5.request import MemberIdentity

    return (MemberIdentity(member_id=message.member_id),)


def _error_of_member(message: LeaveGroupResponse) -> ErrorCode:
    """Before version 3 there are no members: the error of the one member stands for the response's."""
    return message.error_code or next((member.error_code for member in message.members), message.error_code)


# --- FindCoordinator: one key before version 4 -----------------------------------------------------------------------


def _keys(message: FindCoordinatorRequestV3) -> tuple[str, ...]:
    return (message.key,)


def _error_of_key(message: FindCoordinatorResponse) -> ErrorCode:
    return message.coordinators[0].error_code


def _error_message_of_key(message: FindCoordinatorResponse) -> str | None:
    return message.coordinators[0].error_message


def _node_of_key(message: FindCoordinatorResponse) -> int:
    return message.coordinators[0].node_id


def _host_of_key(message: FindCoordinatorResponse) -> str:
    return message.coordinators[0].host


def _port_of_key(message: FindCoordinatorResponse) -> int:
    return message.coordinators[0].port


TAKEN: Final[dict[tuple[int, str], tuple[str, Take]]] = {
    (ApiKey.FIND_COORDINATOR, "coordinator_keys"): ("key", _keys),
    (ApiKey.FIND_COORDINATOR, "error_code"): ("coordinators", _error_of_key),
    (ApiKey.FIND_COORDINATOR, "error_message"): ("coordinators", _error_message_of_key),
    (ApiKey.FIND_COORDINATOR, "node_id"): ("coordinators", _node_of_key),
    (ApiKey.FIND_COORDINATOR, "host"): ("coordinators", _host_of_key),
    (ApiKey.FIND_COORDINATOR, "port"): ("coordinators", _port_of_key),
    (ApiKey.OFFSET_FETCH, "error_code"): ("groups", _error_of_group),
    (ApiKey.LEAVE_GROUP, "members"): ("member_id", _members),
    (ApiKey.LEAVE_GROUP, "error_code"): ("members", _error_of_member),
}
"""(API, field of the target) -> the source's field that it is taken from, and how; only where the target has no field
of the source's name."""

MADE: Final[dict[tuple[int, str], tuple[str, Make]]] = {
    (ApiKey.OFFSET_FETCH, "groups"): ("group_id", _groups),
    (ApiKey.OFFSET_FETCH, "topics"): ("groups", _topics_of_group),
    (ApiKey.ADD_PARTITIONS_TO_TXN, "transactions"): ("v3_and_below_transactional_id", _transactions),
    (ApiKey.ADD_PARTITIONS_TO_TXN, "results_by_topic_v3_and_below"): (
        "results_by_transaction",
        _topics_of_transactions,
    ),
    (ApiKey.DELETE_TOPICS, "topics"): ("topic_names", _topics_by_name),
    (ApiKey.ALTER_PARTITION, "new_isr_with_epochs"): ("new_isr", _any_process_of_each),
}
"""The same of what is made in slices."""

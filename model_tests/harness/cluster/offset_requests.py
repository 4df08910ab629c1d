"""The requests of a group's offsets on the wire, and what their responses say."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.offset_commit.v4 import request as v4
from kio.schema.offset_delete.v0 import request as deleting
from kio.schema.offset_fetch.v9 import request as fetching
from kio.schema.txn_offset_commit.v5 import request as in_transaction
from kio.schema.types import GroupId, ProducerId, TransactionalId
from kio.schema.write_txn_markers.v1 import request as markers
from kio.static.primitive import i32Timedelta, i64Timedelta

from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS
from tidegauge.impl.records.payload import ProducerIdentity
from tidegauge.impl.wire.primitives import TopicName, i16, i32, i64
from tidegauge.model_tests.harness.cores.offset_abstraction import KEY
from tidegauge.spec.offsets.state import NONE

PLACE: Final = i32(KEY.partition)
TOPIC: Final = TopicName(KEY.topic)
GROUP: Final = GroupId(KEY.group)
MILLISECOND: Final = timedelta(milliseconds=1)
FOR_LONG: Final = i32Timedelta.parse(timedelta(minutes=10))


def init(transactional_id: str) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=TransactionalId(transactional_id), transaction_timeout=FOR_LONG)


def commit(value: int, generation: int, retention_ms: int) -> v4.OffsetCommitRequest:
    """OffsetCommit of a client that is no member; of version 4, the last that may name a time."""
    partition = v4.OffsetCommitRequestPartition(
        partition_index=PLACE, committed_offset=i64(value), committed_metadata=""
    )
    return v4.OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=i32(generation),
        member_id="",
        retention_time=i64Timedelta.parse(retention_ms * MILLISECOND),
        topics=(v4.OffsetCommitRequestTopic(name=TOPIC, partitions=(partition,)),),
    )


def commit_in_transaction(
    value: int, generation: int, transactional_id: str, producer: ProducerIdentity
) -> in_transaction.TxnOffsetCommitRequest:
    """TxnOffsetCommit, by which the group's partition joins the transaction."""
    partition = in_transaction.TxnOffsetCommitRequestPartition(
        partition_index=PLACE, committed_offset=i64(value), committed_metadata=""
    )
    return in_transaction.TxnOffsetCommitRequest(
        transactional_id=TransactionalId(transactional_id),
        group_id=GROUP,
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.producer_epoch),
        generation_id=i32(generation),
        member_id="",
        topics=(in_transaction.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=(partition,)),),
    )


def end(producer: ProducerIdentity, *, commits: bool) -> markers.WriteTxnMarkersRequest:
    """What the transaction's coordinator sends."""
    topic = markers.WritableTxnMarkerTopic(name=TopicName(CONSUMER_OFFSETS), partition_indexes=(i32(0),))
    marker = markers.WritableTxnMarker(
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.producer_epoch),
        transaction_result=commits,
        topics=(topic,),
        coordinator_epoch=i32(0),
    )
    return markers.WriteTxnMarkersRequest(markers=(marker,))


def delete() -> deleting.OffsetDeleteRequest:
    partition = deleting.OffsetDeleteRequestPartition(partition_index=PLACE)
    topic = deleting.OffsetDeleteRequestTopic(name=TOPIC, partitions=(partition,))
    return deleting.OffsetDeleteRequest(group_id=GROUP, topics=(topic,))


def fetch(*, is_all: bool, require_stable: bool) -> fetching.OffsetFetchRequest:
    """OffsetFetch of the one offset, or of all that the group has."""
    topic = fetching.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(PLACE,))
    group = fetching.OffsetFetchRequestGroup(group_id=GROUP, topics=None if is_all else (topic,))
    return fetching.OffsetFetchRequest(groups=(group,), require_stable=require_stable)


def fetched(response: Any) -> int | ErrorCode:
    """What the response to `fetch` says of the offset; NONE where there is none."""
    (group,) = response.groups
    if group.error_code is not ErrorCode.none:
        whole: ErrorCode = group.error_code
        return whole
    found = [one for topic in group.topics for one in topic.partitions]
    if not found:
        return NONE
    (one,) = found
    error: ErrorCode = one.error_code
    return int(one.committed_offset) if error is ErrorCode.none else error


def error_of(response: Any) -> ErrorCode:
    """The error of a response, or that of the one offset that it is about."""
    found = response
    if hasattr(response, "groups"):
        told = fetched(response)
        return told if isinstance(told, ErrorCode) else ErrorCode.none
    if hasattr(response, "markers"):
        found = response.markers[0].topics[0].partitions[0]
    elif getattr(response, "error_code", ErrorCode.none) is ErrorCode.none:
        found = response.topics[0].partitions[0]
    error: ErrorCode = found.error_code
    return error

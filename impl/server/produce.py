"""Produce: append at the leader, and wait for as much replication as the producer asked for.

acks=0 gets no answer, acks=1 one as soon as the leader has appended, acks=all (-1) one when the high watermark has
passed the batch. An acks=all request that runs into its timeout gets REQUEST_TIMED_OUT, and one whose leader loses its
epoch NOT_LEADER_OR_FOLLOWER: either way the records may still be committed, and nobody can tell. Such an answer carries
the base offset all the same, as Kafka's does; an error without one says that nothing was appended. An error that
nobody can be told, because acks is 0, closes the connection, so that the producer looks for the leader anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from kio.schema.errors import ErrorCode

from impl.partition.leader import ACKS_ALL
from impl.partition.messages import Appended
from impl.server.authorization import Operation, ResourceType
from impl.server.connection import RefusedError
from impl.server.partitions import Partition
from impl.storage.validation import RecordsRefusedError, RefusedRecord
from impl.wire.fields import Buffer
from impl.wire.produce_messages import (
    NodeEndpoint,
    PartitionProduced,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    RecordErrorIndex,
    TopicProduced,
    produce_error,
)
from impl.wire.records import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
    Compression,
    InvalidRecordError,
    RecordError,
    UnsupportedCompressionError,
    compression_of,
)

if TYPE_CHECKING:
    from impl.server.broker import Broker
    from impl.server.context import RequestContext

TOPIC_IDS_FROM: Final = 13
ZSTD_FROM: Final = 7
"""KIP-110."""
LONG_MS: Final = 60_000
"""A wait that may last longer ends when the producer goes away."""
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
ADMIN_CLIENT_ID: Final = "__admin_client"
"""The client id that may write to internal topics, as at Kafka."""

_ACKS: Final = (0, 1, ACKS_ALL)
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = 22
"""The byte of the attributes that has the compression and the flags."""


class NoOpenTransactionError(RecordError):
    """A batch of a transaction that is not open."""

    error_code = ErrorCode.invalid_txn_state


@attrs.define(eq=False)
class _Append:
    """One partition's part of a request, and what became of it; `error` is None while that is open."""

    topic: str
    index: int
    partition: Partition | None = None
    appended: Appended | None = None
    error: ErrorCode | None = None
    message: str | None = None
    record_errors: tuple[RefusedRecord, ...] = ()
    log_append_time_ms: int = -1


async def handle_produce(broker: Broker, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    """Append, and answer when the producer's acks are met; None (no answer) for acks=0."""
    if not _may_write_transactions(request, context):
        return _unless_unacknowledged(request, produce_error(request, ErrorCode.transactional_id_authorization_failed))
    appends = [_append_all(broker, topic, request.acks, context) for topic in request.topics]
    flat = appends[0] if len(appends) == 1 else [append for topic in appends for append in topic]
    if request.acks != 0 and not _settle(flat):
        keys = [append.partition.key for append in flat if append.error is None and append.partition is not None]
        await context.while_connected(
            lambda: broker.partitions.produces.until(keys, lambda: _settle(flat) or None, request.timeout_ms),
            watched=request.timeout_ms > LONG_MS,
        )
    return _unless_unacknowledged(request, _response(broker, request, appends, context))


def _unless_unacknowledged(request: ProduceRequest, response: ProduceResponse) -> ProduceResponse | None:
    """The response, or with acks=0 none; Raises RefusedError for an error that cannot be told."""
    if request.acks != 0:
        return response
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code is not ErrorCode.none:
                raise RefusedError(f"{partition.error_code.name.upper()} for a produce with acks=0")
    return None


def _may_write_transactions(request: ProduceRequest, context: RequestContext) -> bool:
    if not _is_transactional(request):
        return True
    return request.transactional_id is not None and context.allowed(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id
    )


def _is_transactional(request: ProduceRequest) -> bool:
    return any(
        partition.records is not None
        and len(partition.records) >= HEADER_SIZE
        and partition.records[_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG
        for topic in request.topics
        for partition in topic.partitions
    )


def _append_all(broker: Broker, topic: ProduceTopic, acks: int, context: RequestContext) -> list[_Append]:
    """Append to the partitions of one topic."""
    name, refusal = _topic(broker, topic, acks, context)
    appends = []
    for data in topic.partitions:
        append = _Append(name, data.index)
        if refusal is not None:
            append.error, append.message = refusal
        else:
            _append(broker, append, topic.topic_id, data.records, acks, context)
        appends.append(append)
    return appends


def _topic(
    broker: Broker, topic: ProduceTopic, acks: int, context: RequestContext
) -> tuple[str, tuple[ErrorCode, str | None] | None]:
    """The topic's name, and why nothing is appended to it."""
    name = topic.name
    if topic.topic_id:
        name = broker.metadata.topic_name(topic.topic_id) or ""
    if not name:
        named_by_id = context.api_version >= TOPIC_IDS_FROM
        return "", (ErrorCode.unknown_topic_id if named_by_id else ErrorCode.unknown_topic_or_partition, None)
    if not context.allowed(Operation.WRITE, ResourceType.TOPIC, name):
        return name, (ErrorCode.topic_authorization_failed, None)
    if acks not in _ACKS:
        return name, (ErrorCode.invalid_required_acks, f"acks is {acks}: use 0, 1 or -1 (all)")
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        return name, (ErrorCode.invalid_topic_exception, f"{name} is the cluster's own: clients don't write to it")
    return name, None


def _append(
    broker: Broker, append: _Append, topic_id: str, records: Buffer | None, acks: int, context: RequestContext
) -> None:
    partition = append.partition = broker.partitions.get(append.topic, append.index)
    if partition is None:
        known = broker.metadata.image.partition(append.topic, append.index) is not None
        append.error = broker.partitions.absence(append.topic, append.index, known=known)
    elif topic_id and partition.topic_id != topic_id:
        append.partition, append.error = None, ErrorCode.unknown_topic_id
    else:
        try:
            _append_here(broker, partition, checked(records, context.api_version), acks, append)
        except (RecordError, OSError) as error:
            append.error, append.message = broker.partitions.storage_failed(partition, error), str(error)
            if isinstance(error, RecordsRefusedError):
                append.record_errors = error.record_errors


def checked(records: Buffer | None, version: int) -> Buffer:
    """What a producer may send in this version: one record batch. Raises RecordError; the log looks at the rest."""
    if records is None or len(records) < HEADER_SIZE:
        raise InvalidRecordError(f"no record batch in {0 if records is None else len(records)} bytes")
    if records[_MAGIC_AT] != MAGIC:
        raise InvalidRecordError(f"message format {records[_MAGIC_AT]}: send record batches (magic {MAGIC})")
    if records[_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG:
        raise NoOpenTransactionError("the batch is of a transaction, and none is open: there are none here yet")
    size = int.from_bytes(records[_LENGTH_AT : _LENGTH_AT + 4], "big", signed=True) + LENGTH_OVERHEAD
    if HEADER_SIZE <= size < len(records):
        raise InvalidRecordError(f"{len(records)} bytes where the batch has {size}: send one batch for each partition")
    if version < ZSTD_FROM and compression_of(records[_ATTRIBUTES_AT]) is Compression.ZSTD:
        raise UnsupportedCompressionError(f"zstd in Produce {version}: it takes version {ZSTD_FROM} or later")
    return records


def _append_here(broker: Broker, partition: Partition, batches: Buffer, acks: int, append: _Append) -> None:
    replica, base_offset, now_ms = partition.replica, partition.log.log_end_offset, broker.clock.now_ms()
    try:
        result = replica.append(batches, acks, now_ms)
    except OSError:
        if partition.log.log_end_offset > base_offset:
            # Written and not synced: what is answered has to say that a restart may find the records.
            append.appended = Appended(base_offset, partition.log.log_end_offset, replica.leader_epoch)
        raise
    if isinstance(result, Appended):
        append.appended = result
        append.error = None if acks == ACKS_ALL else ErrorCode.none
        if not result.repeated:  # a repeat has the time of its first append, which is not kept
            append.log_append_time_ms = partition.log.append_time_ms(now_ms)
            broker.tracer.replica(
                "Append",
                partition.topic,
                partition.index,
                replica,
                acks=acks,
                base_offset=result.base_offset,
                records=result.end_offset - result.base_offset,
            )
    else:
        append.error = result
    broker.partitions.carry_out(partition)


def _settle(appends: list[_Append]) -> bool:
    """Look at every append whose outcome is open; True when none is left."""
    for append in appends:
        if append.error is None:
            assert append.partition is not None, "only a hosted partition is appended to"
            assert append.appended is not None, "only what was appended waits"
            if append.partition.is_offline:
                append.error = ErrorCode.kafka_storage_error
            else:
                append.error = append.partition.replica.append_outcome(append.appended)
    return all(append.error is not None for append in appends)


def _response(
    broker: Broker, request: ProduceRequest, appends: list[list[_Append]], context: RequestContext
) -> ProduceResponse:
    response = ProduceResponse(
        [
            TopicProduced(topic.name, topic.topic_id, [_produced(broker, append) for append in made])
            for topic, made in zip(request.topics, appends, strict=True)
        ]
    )
    leaders = {partition.leader_id for topic in response.topics for partition in topic.partitions}
    response.node_endpoints = node_endpoints(broker, leaders, context)
    return response


def _produced(broker: Broker, append: _Append) -> PartitionProduced:
    error = ErrorCode.request_timed_out if append.error is None else append.error
    partition, appended = append.partition, append.appended
    produced = PartitionProduced(
        append.index,
        error,
        -1 if appended is None else appended.base_offset,
        log_append_time_ms=append.log_append_time_ms,
        log_start_offset=-1 if partition is None else partition.log.log_start_offset,
        record_errors=[RecordErrorIndex(number, message) for number, message in append.record_errors],
        error_message=append.message,
    )
    if error is ErrorCode.not_leader_or_follower:
        produced.leader_id, produced.leader_epoch = known_leader(broker, append.topic, append.index)
    return produced


def known_leader(broker: Broker, topic: str, index: int) -> tuple[int, int]:
    """(leader, leader epoch) by what the replica here knows, or else by the metadata; -1 each when neither does."""
    if (partition := broker.partitions.get(topic, index)) is not None:
        return partition.replica.leader, partition.replica.leader_epoch
    registration = broker.metadata.image.partition(topic, index)
    return (-1, -1) if registration is None else (registration.leader, registration.leader_epoch)


def node_endpoints(broker: Broker, leaders: set[int], context: RequestContext) -> list[NodeEndpoint]:
    """Where these brokers listen, for a client that has to go there."""
    if not leaders - {-1}:
        return []
    return [
        NodeEndpoint(leader, address.host, address.port, rack)
        for leader, address, rack in broker.metadata.endpoints(context.connection.listener, fenced=True)
        if leader in leaders
    ]

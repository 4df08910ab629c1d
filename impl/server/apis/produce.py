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

from tidegauge.impl.partition.leader import ACKS_ALL
from tidegauge.impl.partition.messages import Appended
from tidegauge.impl.records.batches import (
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
from tidegauge.impl.server import trace
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.server.transport.connection import RefusedError
from tidegauge.impl.storage.validation import RecordsRefusedError
from tidegauge.impl.wire.fields import Buffer
from tidegauge.impl.wire.produce_messages import (
    NodeEndpoint,
    PartitionProduced,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    RecordErrorIndex,
    TopicProduced,
    produce_error,
)

if TYPE_CHECKING:
    from tidegauge.impl.server.broker_server import Broker
    from tidegauge.impl.server.transport.context import RequestContext

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
class _Undecided:
    """One partition's part of an acks=all request, appended and perhaps not committed yet.

    `produced` is its answer: REQUEST_TIMED_OUT, until the outcome is known.
    """

    partition: Partition
    appended: Appended
    produced: PartitionProduced


async def handle_produce(request: ProduceRequest, context: RequestContext, *, broker: Broker) -> ProduceResponse | None:
    """Append, and answer when the producer's acks are met; None (no answer) for acks=0."""
    if not _may_write_transactions(request, context):
        return _unless_unacknowledged(request, produce_error(request, ErrorCode.transactional_id_authorization_failed))
    undecided: list[_Undecided] = []
    response = ProduceResponse(
        [_append_all(broker, topic, request.acks, context, undecided) for topic in _once_each(request.topics)]
    )
    if undecided and not _settle(undecided):
        keys = [one.partition.key for one in undecided if one.produced.error_code is ErrorCode.request_timed_out]
        await context.while_connected(
            lambda: broker.replicas.produces.until(keys, lambda: _settle(undecided) or None, request.timeout_ms),
            watched=request.timeout_ms > LONG_MS,
        )
    _show_leaders(broker, response, context)
    return response if request.acks != 0 else _unless_unacknowledged(request, response)


def _once_each(topics: list[ProduceTopic]) -> list[ProduceTopic]:
    """The topics with each partition once: of one that is named more often the last records count, as at Kafka."""
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        return topics
    last: dict[tuple[str, str, int], ProducePartition] = {}
    for topic in topics:
        for data in topic.partitions:
            last[topic.name, topic.topic_id, data.index] = data
    if len(last) == sum(len(topic.partitions) for topic in topics):
        return topics
    kept = set(map(id, last.values()))
    shortened = [(topic, [data for data in topic.partitions if id(data) in kept]) for topic in topics]
    return [attrs.evolve(topic, partitions=partitions) for topic, partitions in shortened if partitions]


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
    for topic in request.topics:
        for data in topic.partitions:
            records = data.records
            if records is not None and len(records) >= HEADER_SIZE and records[_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG:
                return True
    return False


def _append_all(
    broker: Broker, topic: ProduceTopic, acks: int, context: RequestContext, undecided: list[_Undecided]
) -> TopicProduced:
    """Append to the partitions of one topic; those whose outcome acks=all has to wait for go to `undecided`."""
    name, refusal = _topic(broker, topic, acks, context)
    answers = []
    for data in topic.partitions:
        produced = PartitionProduced(data.index)
        if refusal is None:
            _append(broker, name, topic.topic_id, data.records, acks, context, produced, undecided)
        else:
            produced.error_code, produced.error_message = refusal
        answers.append(produced)
    return TopicProduced(topic.name, topic.topic_id, answers)


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
    broker: Broker,
    topic: str,
    topic_id: str,
    records: Buffer | None,
    acks: int,
    context: RequestContext,
    produced: PartitionProduced,
    undecided: list[_Undecided],
) -> None:
    """Append to one partition; `produced` is its answer."""
    partition = broker.replicas.get(topic, produced.index)
    if partition is None:
        known = broker.metadata.image.partition(topic, produced.index) is not None
        produced.error_code = broker.replicas.absence(topic, produced.index, known=known)
    elif topic_id and partition.topic_id != topic_id:
        produced.error_code = ErrorCode.unknown_topic_id
    else:
        produced.log_start_offset = partition.log.log_start_offset
        try:
            appended = _append_here(broker, partition, checked(records, context.api_version), acks, produced)
            if appended is not None and acks == ACKS_ALL:
                produced.error_code = ErrorCode.request_timed_out
                undecided.append(_Undecided(partition, appended, produced))
        except (RecordError, OSError) as error:
            produced.error_code, produced.error_message = broker.replicas.storage_failed(partition, error), str(error)
            if isinstance(error, RecordsRefusedError):
                produced.record_errors = [RecordErrorIndex(number, message) for number, message in error.record_errors]


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


def _append_here(
    broker: Broker, partition: Partition, batches: Buffer, acks: int, produced: PartitionProduced
) -> Appended | None:
    """Append at this replica and note in the answer what became of it; None where an error did."""
    replica, log, now_ms = partition.replica, partition.log, broker.clock.now_ms()
    base_offset = log.log_end_offset
    try:
        result = replica.append(batches, acks, now_ms)
    except OSError:
        if log.log_end_offset > base_offset:
            # Written and not synced: what is answered has to say that a restart may find the records.
            produced.base_offset = base_offset
        raise
    if isinstance(result, Appended):
        produced.base_offset = result.base_offset
        if result.repeated:
            produced.log_append_time_ms = result.timestamp
        else:
            produced.log_append_time_ms = log.append_time_ms(now_ms)
            if broker.tracer.trace is not None:
                _trace(broker, partition, result, acks)
        broker.replicas.carry_out(partition)
        return result
    produced.error_code = result
    broker.replicas.carry_out(partition)
    return None


def _trace(broker: Broker, partition: Partition, appended: Appended, acks: int) -> None:
    broker.tracer.replica(
        trace.events.Append,
        partition.topic,
        partition.index,
        partition.replica,
        acks=acks,
        base_offset=appended.base_offset,
        records=appended.end_offset - appended.base_offset,
    )


def _settle(undecided: list[_Undecided]) -> bool:
    """Look at every append whose outcome is open; True when none is left."""
    settled = True
    for one in undecided:
        if one.produced.error_code is not ErrorCode.request_timed_out:
            continue
        if one.partition.is_offline:
            one.produced.error_code = ErrorCode.kafka_storage_error
        elif (outcome := one.partition.replica.append_outcome(one.appended)) is not None:
            one.produced.error_code = outcome
        else:
            settled = False
    return settled


def _show_leaders(broker: Broker, response: ProduceResponse, context: RequestContext) -> None:
    """Say beside NOT_LEADER_OR_FOLLOWER who leads, and where that is (KIP-951)."""
    leaders: set[int] = set()
    for topic in response.topics:
        for produced in topic.partitions:
            if produced.error_code is ErrorCode.not_leader_or_follower:
                name = topic.name or broker.metadata.topic_name(topic.topic_id) or ""
                produced.leader_id, produced.leader_epoch = known_leader(broker, name, produced.index)
                leaders.add(produced.leader_id)
    if leaders:
        response.node_endpoints = node_endpoints(broker, leaders, context)


def known_leader(broker: Broker, topic: str, index: int) -> tuple[int, int]:
    """(leader, leader epoch) by what the replica here knows, or else by the metadata; -1 each when neither does."""
    if (partition := broker.replicas.get(topic, index)) is not None:
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

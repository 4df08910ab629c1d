"""Produce: what a producer may write, and what it is told of its append (`ReplicaManager.append`).

acks=0 has no response. acks=1 has one as soon as the leader has appended, acks=all (-1) when the high watermark has
passed the batch. An append that is still pending at the request's timeout gets REQUEST_TIMED_OUT, and one whose leader
has lost its epoch NOT_LEADER_OR_FOLLOWER. In both cases the records may still be committed. Such a response has a base
offset, as Kafka's has; an error without one says that nothing was appended. With acks=0 an error closes the connection,
so that the producer looks for the leader again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.topic_names import INTERNAL_TOPICS
from tidegauge.impl.partition.leader import ACKS_ALL
from tidegauge.impl.records.batches import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    Compression,
    InvalidRecordError,
    UnsupportedCompressionError,
    compression_of,
)
from tidegauge.impl.records.checked import CheckedBatch
from tidegauge.impl.server.broker.appends import PENDING, AppendOutcome, PartitionAppend
from tidegauge.impl.server.broker.leaders import node_endpoints
from tidegauge.impl.server.broker.metadata_cache import MetadataCache
from tidegauge.impl.server.broker.replica_manager import ReplicaManager
from tidegauge.impl.server.broker.transaction_verifier import TransactionVerifier, Unverified
from tidegauge.impl.server.error_responses.explanation import explain_error
from tidegauge.impl.server.pace import ELEMENT
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.server.transport.refused import RefusedError
from tidegauge.impl.wire.produce_messages import (
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
    from tidegauge.impl.server.pace import Pace
    from tidegauge.impl.server.transport.context import RequestContext

TOPIC_IDS_FROM: Final = 13
ZSTD_FROM: Final = 7
"""KIP-110."""
LONG_MS: Final = 60_000
"""A wait that may last longer than this ends when the producer disconnects."""
ADMIN_CLIENT_ID: Final = "__admin_client"
"""The client id that may write to internal topics, as in Kafka."""

ABORTABLE_KNOWN_FROM: Final = 11
"""The version from which producers know TRANSACTION_ABORTABLE (KIP-890)."""
ADDS_FROM: Final = 12
"""The version by which partitions join a transaction: producers of version 2 add none themselves."""
NONE_REFUSED: Final[Mapping[int, AppendOutcome]] = {}

_ACKS: Final = (0, 1, ACKS_ALL)
PART: Final = 250
"""Partitions of a topic after which others may have their turn."""
_GLANCE: Final = struct.Struct(">8xi4xB")
"""A batch's length and its magic."""
_ATTRIBUTES_AT: Final = 22
"""The byte of the attributes that has the compression and the flags."""

_Refusal: TypeAlias = tuple[ErrorCode, str | None]
"""Why nothing is appended, and the message that goes with it."""


async def handle_produce(
    request: ProduceRequest,
    context: RequestContext,
    *,
    replicas: ReplicaManager,
    metadata: MetadataCache,
    transaction_verifier: TransactionVerifier,
) -> ProduceResponse | None:
    """Append, and respond when the producer's acks are met; None (no response) for acks=0."""
    is_transactional = _is_transactional(request)
    if is_transactional and not _may_write_transactions(request, context):
        return _unless_unacknowledged(request, produce_error(request, ErrorCode.transactional_id_authorization_failed))
    topics: list[tuple[ProduceTopic, str, _Refusal | None]] = []
    appends: list[PartitionAppend] = []
    requested = request.topics
    if len(requested) != 1 or len(requested[0].partitions) > 1:
        requested = await _once_each(requested, context.pace)
    several = len(requested) > 1
    for topic in requested:
        if several:
            await context.pace.did(ELEMENT)
        name, refusal = _topic(topic, request.acks, context, metadata)
        topics.append((topic, name, refusal))
        if refusal is None:
            for number, data in enumerate(topic.partitions, 1):
                appends.append(PartitionAppend(name, data.index, data.records, topic.topic_id))
                if not number % PART:
                    await context.pace.did(PART)
    refused = (
        await _refused(request.transactional_id or "", appends, context, replicas, transaction_verifier)
        if is_transactional
        else NONE_REFUSED
    )
    outcomes = await replicas.append(
        [append for append in appends if id(append) not in refused] if refused else appends,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        check=checked if context.api_version >= ZSTD_FROM else checked_before_zstd,
        wait=context.while_connected if request.timeout_ms > LONG_MS else context.wait_briefly,
        pace=context.pace,
    )
    responses: list[TopicProduced] = []
    leaders: set[int] = set()
    done = iter(_in_order(appends, outcomes, refused) if refused else outcomes)
    for topic, name, refusal in topics:
        if several:
            await context.pace.did(ELEMENT)
        produced: list[PartitionProduced] = []
        responses.append(TopicProduced(topic.name, topic.topic_id, produced))
        if refusal is None:
            for number, data in enumerate(topic.partitions, 1):
                one = _produced(data.index, next(done))
                if one.error_code is ErrorCode.not_leader_or_follower:  # say who leads (KIP-951)
                    one.leader_id, one.leader_epoch = replicas.known_leader(name, one.index)
                    leaders.add(one.leader_id)
                produced.append(one)
                if not number % PART:
                    await context.pace.did(PART)
        else:
            error, message = refusal
            produced += [
                PartitionProduced(data.index, error, error_message=explain_error(error, message))
                for data in topic.partitions
            ]
    response = ProduceResponse(responses)
    if leaders:
        response.node_endpoints = node_endpoints(metadata, leaders, context.listener)
    return response if request.acks != 0 else _unless_unacknowledged(request, response)


async def _refused(
    transactional_id: str,
    appends: list[PartitionAppend],
    context: RequestContext,
    replicas: ReplicaManager,
    verifier: TransactionVerifier,
) -> Mapping[int, AppendOutcome]:
    """The appends, by their identity, that no coordinator verifies, as outcomes."""
    unverified = []
    for append in appends:
        partition, records = replicas.get(append.topic, append.partition), append.records
        if partition is None or records is None or isinstance(records, CheckedBatch) or len(records) < HEADER_SIZE:
            continue
        header = BatchHeader.parse(records)
        if header.is_transactional and partition.replica.verification(header) is not None:
            unverified.append(Unverified(partition, header.producer_id, header.producer_epoch))
    if not unverified:
        return NONE_REFUSED
    refusals = await context.wait_briefly(
        lambda: verifier.verify(
            transactional_id,
            unverified,
            adds=context.api_version >= ADDS_FROM,
            knows_abortable=context.api_version >= ABORTABLE_KNOWN_FROM,
        )
    )
    return {
        id(append): AppendOutcome(error=refusal.error, message=refusal.message)
        for append in appends
        if (refusal := refusals.get((append.topic, append.partition))) is not None
    }


def _in_order(
    appends: Iterable[PartitionAppend], outcomes: Iterable[AppendOutcome], refused: Mapping[int, AppendOutcome]
) -> list[AppendOutcome]:
    """An outcome for each append, refused or not."""
    others = iter(outcomes)
    return [refused[id(append)] if id(append) in refused else next(others) for append in appends]


def _produced(index: int, outcome: AppendOutcome) -> PartitionProduced:
    """An outcome as a part of the response. One that is still pending has timed out."""
    error = ErrorCode.request_timed_out if outcome.state is PENDING else outcome.error
    return PartitionProduced(
        index,
        error,
        outcome.base_offset,
        outcome.log_append_time_ms,
        outcome.log_start_offset,
        [RecordErrorIndex(*each) for each in outcome.record_errors] if outcome.record_errors else [],
        explain_error(error, outcome.message),
    )


async def _once_each(topics: list[ProduceTopic], pace: Pace) -> list[ProduceTopic]:
    """The topics with each partition once: of one that is named more often the last records count, as in Kafka."""
    last: dict[tuple[str, str, int], ProducePartition] = {}
    for topic in topics:
        async for data in pace.each(topic.partitions, units=2):
            last[topic.name, topic.topic_id, data.index] = data
    if len(last) == sum(len(topic.partitions) for topic in topics):
        return topics
    kept = set(map(id, last.values()))
    shortened = [(topic, [data for data in topic.partitions if id(data) in kept]) for topic in topics]
    return [attrs.evolve(topic, partitions=partitions) for topic, partitions in shortened if partitions]


def _unless_unacknowledged(request: ProduceRequest, response: ProduceResponse) -> ProduceResponse | None:
    """The response, or with acks=0 none. Raises RefusedError for an error, which cannot be told then."""
    if request.acks != 0:
        return response
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code is not ErrorCode.none:
                raise RefusedError(f"{partition.error_code.name.upper()} for a produce with acks=0")
    return None


def _may_write_transactions(request: ProduceRequest, context: RequestContext) -> bool:
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


def _topic(
    topic: ProduceTopic, acks: int, context: RequestContext, metadata: MetadataCache
) -> tuple[str, _Refusal | None]:
    """The topic's name, and why nothing is appended to it."""
    name = topic.name
    if topic.topic_id:
        name = metadata.topic_name(topic.topic_id) or ""
    if not name:
        named_by_id = context.api_version >= TOPIC_IDS_FROM
        return "", (ErrorCode.unknown_topic_id if named_by_id else ErrorCode.unknown_topic_or_partition, None)
    if not context.allowed(Operation.WRITE, ResourceType.TOPIC, name):
        return name, (ErrorCode.topic_authorization_failed, None)
    if acks not in _ACKS:
        return name, (ErrorCode.invalid_required_acks, f"acks is {acks}: use 0, 1 or -1 (all)")
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        return name, (ErrorCode.invalid_topic_exception, f"{name} is internal: clients must not write to it")
    return name, None


def checked(records: Buffer | None) -> Buffer:
    """What a producer may send: one record batch. Raises RecordError; the log checks the rest."""
    if records is None or len(records) < HEADER_SIZE:
        raise InvalidRecordError(f"no record batch in {0 if records is None else len(records)} bytes")
    length, magic = _GLANCE.unpack_from(records)
    if magic != MAGIC:
        raise InvalidRecordError(f"message format {magic}: send record batches (magic {MAGIC})")
    size = length + LENGTH_OVERHEAD
    if HEADER_SIZE <= size < len(records):
        raise InvalidRecordError(f"{len(records)} bytes where the batch has {size}: send one batch for each partition")
    return records


def checked_before_zstd(records: Buffer | None) -> Buffer:
    """The same for the versions before zstd."""
    if compression_of(checked(records)[_ATTRIBUTES_AT]) is Compression.ZSTD:
        raise UnsupportedCompressionError(f"zstd needs Produce version {ZSTD_FROM} or later")
    return checked(records)

"""Fetch: what followers and consumers may read, and what of it the response says (`ReplicaManager.read`).

A fetch session (`fetch_sessions`) leaves out of the response what has not changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import PartitionFetchResponse
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.ports.clock import Clock
from tidegauge.impl.records.batches import Compression
from tidegauge.impl.server.broker.fetch_sessions import FetchSessions
from tidegauge.impl.server.broker.leaders import node_endpoints
from tidegauge.impl.server.broker.metadata_cache import MetadataCache
from tidegauge.impl.server.broker.replica_manager import ReplicaManager
from tidegauge.impl.server.broker.replica_reader import LEADER_MOVED
from tidegauge.impl.server.pace import ELEMENT
from tidegauge.impl.server.requests.reads import (
    READ_COMMITTED,
    PartitionRead,
    ReadOutcome,
    fetch_response,
    partition_reads,
)
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.server.transport.refused import RefusedError
from tidegauge.impl.wire.fetch_messages import CONSUMER, FetchRequest, FetchResponse

if TYPE_CHECKING:
    from tidegauge.impl.server.transport.context import RequestContext

FEW: Final = 64
"""Partitions that are read in less than a slice of work."""
MOST_OF_CONSUMER: Final = 10_000
"""Partitions that a consumer may name in one request."""
LATE_FOLLOWER: Final = 1_000
"""Partitions that a follower may fetch though there are less: it may not know yet that they are deleted."""
ASKED_UNITS: Final = 4
STORAGE_ERROR_FROM: Final = 6
"""The version that has KAFKA_STORAGE_ERROR (KIP-112). Older clients look for the leader again at another error."""
ZSTD_FROM: Final = 10
"""KIP-110."""
RACKS_FROM: Final = 11
"""KIP-392."""
TOPIC_IDS_FROM: Final = 13
"""KIP-516."""
LEADERS_FROM: Final = 16
"""KIP-951; versions from 12 on have a field for it, which is Raft's."""


async def handle_fetch(
    request: FetchRequest,
    context: RequestContext,
    *,
    replicas: ReplicaManager,
    metadata: MetadataCache,
    fetch_sessions: FetchSessions,
    clock: Clock,
) -> FetchResponse:
    """Respond to a fetch, at once or when there is news."""
    is_follower = request.replica_id > CONSUMER
    asked = None
    if not _names_few(request):
        if is_follower:
            _check_follower(request, metadata)
        else:
            asked = await _each_once(request, context)
    uses_topic_ids = context.api_version >= TOPIC_IDS_FROM
    session = fetch_sessions.begin(request, uses_topic_ids=uses_topic_ids, now_ms=clock.steady_ms(), asked=asked)
    if isinstance(session, ErrorCode):
        return FetchResponse([], error_code=session)
    if session.has_resting and not context.allowed(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        session.rouse_all()
    reads = session.reads
    refused = {}
    if is_follower or len(reads) <= FEW:
        refused = _refused(reads, context, metadata)
    else:
        for first in range(0, len(reads), FEW):
            refused |= _refused(reads[first : first + FEW], context, metadata)
            await context.pace.did(ELEMENT * FEW)
    outcomes = await replicas.read(
        [read for read in reads if id(read) not in refused] if refused else reads,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        timeout_ms=0 if refused else request.max_wait_ms,
        only_leader=is_follower or context.api_version < RACKS_FROM,
        rack=request.rack_id,
        read_committed=request.isolation_level == READ_COMMITTED and not is_follower,
        wait=context.while_connected,
        session=None if refused else session,
        pace=None if is_follower else context.pace,
        sent=None if is_follower else context.connection.sent,
    )
    if refused:
        read = iter(outcomes)
        outcomes = [refused.get(id(one)) or next(read) for one in reads]
    to_send = session.to_send(outcomes)
    session.rest(outcomes, lambda topic, index: _leader(replicas, topic, index))
    if context.api_version < ZSTD_FROM:
        to_send = [_for_old_version(one, context.api_version, replicas) for one in to_send]
    if len(to_send) > FEW:
        await context.pace.did(ELEMENT * len(to_send))
    response = fetch_response(to_send)
    response.session_id = session.session_id
    _tell_leaders(response, context, metadata, is_follower=is_follower)
    return response


def _leader(replicas: ReplicaManager, topic: str, index: int) -> PartitionReplica | None:
    partition = replicas.get(topic, index)
    return None if partition is None else partition.replica


_partitions: Final = attrgetter("partitions")


def _names_few(request: FetchRequest) -> bool:
    topics = request.topics
    if len(topics) == 1:
        return len(topics[0].partitions) <= FEW
    return len(topics) <= FEW and sum(len(topic.partitions) for topic in topics) <= FEW


def _check_follower(request: FetchRequest, metadata: MetadataCache) -> None:
    """Raises RefusedError for a follower that fetches more partitions than there are: it reads them in one go."""
    count = sum(map(len, map(_partitions, request.topics)))
    most = LATE_FOLLOWER + sum(len(topic.partitions) for topic in metadata.image.topics.values())
    if count > most:
        raise RefusedError(f"a follower that fetches {count} partitions, and may fetch {most}")


async def _each_once(request: FetchRequest, context: RequestContext) -> list[PartitionRead]:
    """What a consumer asks for, each partition once: of one that is named more often the last time counts, as in Kafka.

    Raises RefusedError for more partitions than a consumer may name.
    """
    last: dict[tuple[str, int], PartitionRead] = {}
    async for read in context.pace.each(partition_reads(request), units=ASKED_UNITS):
        last[read.topic_id or read.topic, read.partition] = read
        if len(last) > MOST_OF_CONSUMER:
            raise RefusedError(f"a consumer that fetches more than {MOST_OF_CONSUMER} partitions at once")
    return list(last.values())


def _refused(
    reads: Iterable[PartitionRead], context: RequestContext, metadata: MetadataCache
) -> dict[int, ReadOutcome]:
    """Find the topics' names, and check what the peer may read; returns the outcomes of refused reads by their `id`."""
    topics: dict[str, tuple[str, ErrorCode | None]] = {}
    refused: dict[int, ReadOutcome] = {}
    for read in reads:
        key = read.topic_id or read.topic
        if (topic := topics.get(key)) is None:
            topic = topics[key] = _topic(read, context, metadata)
        read.topic, error = topic
        if error is not None:
            refused[id(read)] = ReadOutcome(read, PartitionFetchResponse(error))
    return refused


def _topic(read: PartitionRead, context: RequestContext, metadata: MetadataCache) -> tuple[str, ErrorCode | None]:
    """The topic's name, and why the peer may not read it."""
    name = (metadata.topic_name(read.topic_id) or "") if read.topic_id else read.topic
    if not name:
        named_by_id = context.api_version >= TOPIC_IDS_FROM
        return "", ErrorCode.unknown_topic_id if named_by_id else ErrorCode.unknown_topic_or_partition
    if read.follower is not None:
        may_read = context.allowed(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    else:
        may_read = context.allowed(Operation.READ, ResourceType.TOPIC, name)
    return name, None if may_read else ErrorCode.topic_authorization_failed


def _for_old_version(outcome: ReadOutcome, version: int, replicas: ReplicaManager) -> ReadOutcome:
    """The outcome without what its version does not have: topics that are zstd, the error of a failed directory."""
    partition = replicas.get(outcome.read.topic, outcome.read.partition)
    if partition is not None and partition.log.config.compression_type == Compression.ZSTD.name.lower():
        return attrs.evolve(outcome, response=PartitionFetchResponse(ErrorCode.unsupported_compression_type))
    if outcome.response.error is ErrorCode.kafka_storage_error and version < STORAGE_ERROR_FROM:
        return attrs.evolve(outcome, response=PartitionFetchResponse(ErrorCode.not_leader_or_follower))
    return outcome


def _tell_leaders(
    response: FetchResponse, context: RequestContext, metadata: MetadataCache, *, is_follower: bool
) -> None:
    """Say where the leaders are that partitions have moved to; older versions learn it from Metadata.

    Clients are told the leader with the errors that mean a move, other brokers with every error.
    """
    has_leaders = context.api_version >= LEADERS_FROM
    leaders: set[int] = set()
    for topic in response.topics:
        for partition in topic.partitions:
            if not partition.error_code:
                continue  # without an error no leader is named
            if has_leaders and partition.error_code in LEADER_MOVED:
                leaders.add(partition.leader_id)
            elif not (has_leaders and is_follower):
                partition.leader_id = partition.leader_epoch = -1
    if leaders:
        response.node_endpoints = node_endpoints(metadata, leaders, context.listener)

"""The client's requests and responses: kio's messages from and to plain values. An error in a response is raised."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import attrs
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.records.batches import BatchHeader, RecordError, checked_header, extents
from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.records.payload import Record, build_batch, decode_records
from tidegauge.impl.wire.fetch_messages import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionFetched,
)
from tidegauge.impl.wire.primitives import NO_WAIT, BrokerId, TopicName, i8, i16, i32, i64, millis
from tidegauge.impl.wire.produce_messages import ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.response import CreateTopicsResponse
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
    from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
    from kio.schema.list_offsets.v11.request import ListOffsetsRequest
    from kio.schema.list_offsets.v11.response import ListOffsetsResponse
    from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest
    from kio.schema.offset_for_leader_epoch.v4.response import OffsetForLeaderEpochResponse

    from tidegauge.impl.client.route import Route

TIMEOUT = millis(4_000)
"""How long a broker may look for the controller: less than the client waits, so that the broker says what is wrong."""

_CONSUMER = BrokerId(-1)


@attrs.frozen
class Fetched:
    """What a fetch brought: records from the offset asked for on, and the partition's high watermark.

    Markers of transactions are left out, and of a fetch with read_committed the records of aborted ones.
    """

    records: tuple[Record, ...]
    high_watermark: int
    log_start_offset: int
    last_stable_offset: int = -1
    """Where read_committed ends."""
    next_offset: int = -1
    """Where to fetch next: behind all that came, what was left out included."""

    @property
    def values(self) -> tuple[bytes | None, ...]:
        return tuple(record.value for record in self.records)


@attrs.frozen
class ListedOffset:
    """An offset that was looked up, with its record's timestamp (-1 for earliest and latest) and leader epoch."""

    offset: int
    timestamp: int
    leader_epoch: int


class EndOfEpoch(NamedTuple):
    """The largest leader epoch that is not after the one asked for, and the offset behind its last record."""

    leader_epoch: int
    offset: int


def batch(values: Sequence[bytes], timestamp_ms: int, max_bytes: int | None = None) -> bytes:
    """One record batch with these values. Raises KafkaError, as the leader would, if it is larger than that."""
    check_size(sum(memoryview(value or b"").nbytes for value in values), max_bytes)  # before any is copied
    built = build_batch([Record(nth, timestamp_ms, None, value) for nth, value in enumerate(values)])
    check_size(len(built), max_bytes)
    return built


def check_size(size: int, max_bytes: int | None) -> None:
    """Raise KafkaError for a batch of too many bytes."""
    if max_bytes is not None and size > max_bytes:
        message = f"a batch of at least {size} bytes: message.max.bytes is {max_bytes}; send less, or raise it"
        raise KafkaError(ErrorCode.message_too_large, message)


def produce(route: Route, records: bytes, acks: int, timeout_ms: int) -> ProduceRequest:
    topic = ProduceTopic(route.topic, route.topic_id, [ProducePartition(route.partition, records)])
    return ProduceRequest(acks, timeout_ms, [topic])


def produced(response: ProduceResponse) -> int:
    """The base offset. With an error, a base offset says that the records are in the leader's log."""
    data = response.topics[0].partitions[0]
    if data.error_code is not ErrorCode.none:
        message = data.error_message or "the records were not accepted"
        raise KafkaError(data.error_code, message, maybe_done=data.base_offset >= 0)
    return data.base_offset


def fetch(
    route: Route, offset: int, max_wait_ms: int, min_bytes: int, max_bytes: int, *, read_committed: bool = False
) -> FetchRequest:
    asked = FetchPartition(route.partition, offset, max_bytes, route.leader_epoch)
    topic = FetchTopic(route.topic, route.topic_id, [asked])
    return FetchRequest([topic], max_wait_ms, min_bytes, max_bytes, isolation_level=int(read_committed))


def fetched(response: FetchResponse, offset: int) -> Fetched:
    """The records from `offset` on; a batch that begins before it is cut. One that is not intact is never taken."""
    if response.error_code is not ErrorCode.none:
        raise KafkaError(response.error_code, "the fetch was refused")
    data = response.topics[0].partitions[0]
    batches, last = fetched_batches(data, offset)
    records = tuple(record for _, those in batches for record in those)
    end = offset if last is None else last.next_offset
    return Fetched(records, data.high_watermark, data.log_start_offset, data.last_stable_offset, max(offset, end))


def fetched_batches(
    data: PartitionFetched, offset: int
) -> tuple[list[tuple[BatchHeader, list[Record]]], BatchHeader | None]:
    """The records from `offset` on, by their batches, and the last batch, whether it has any of them or not."""
    if data.error_code is not ErrorCode.none:
        raise KafkaError(data.error_code, f"nothing can be fetched from offset {offset}")
    batches = in_memory(data.records or b"")
    try:
        checked = [(extent.position, checked_header(batches, extent.position)) for extent in extents(batches)]
        aborted = [(one.first_offset, one.producer_id) for one in data.aborted_transactions or ()]
        visible = [
            (header, [record for record in decode_records(batches, position) if record.offset >= offset])
            for position, header in _visible(checked, aborted)
        ]
    except RecordError as error:
        raise KafkaError(ErrorCode.corrupt_message, f"what was fetched from offset {offset}: {error}") from error
    return visible, checked[-1][1] if checked else None


def _visible(
    batches: Iterable[tuple[int, BatchHeader]], aborted: list[tuple[int, int]]
) -> Iterator[tuple[int, BatchHeader]]:
    """The batches that are neither markers nor parts of these (first offset, producer id).

    An aborted transaction of a producer begins at its first offset, and ends with that producer's next marker.
    """
    waiting = deque(sorted(aborted))
    skipped: set[int] = set()
    for position, header in batches:
        while waiting and waiting[0][0] <= header.last_offset:
            skipped.add(waiting.popleft()[1])
        if header.is_control:
            skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            yield position, header


def list_offsets(route: Route, timestamp: int, *, read_committed: bool = False) -> ListOffsetsRequest:
    """With `read_committed`, the end of the log is where undecided transactions begin."""
    from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

    asked = ListOffsetsPartition(
        partition_index=i32(route.partition),
        current_leader_epoch=i32(route.leader_epoch),
        timestamp=i64(timestamp),
    )
    topic = ListOffsetsTopic(name=TopicName(route.topic), partitions=(asked,))
    return ListOffsetsRequest(
        replica_id=_CONSUMER, isolation_level=i8(read_committed), topics=(topic,), timeout=NO_WAIT
    )


def listed_offset(response: ListOffsetsResponse) -> ListedOffset:
    data = response.topics[0].partitions[0]
    if data.error_code is not ErrorCode.none:
        raise KafkaError(data.error_code, "the offset could not be looked up")
    return ListedOffset(data.offset, data.timestamp, data.leader_epoch)


def end_of_epoch(route: Route, leader_epoch: int) -> OffsetForLeaderEpochRequest:
    """Where this leader epoch ends in the leader's log (KIP-320)."""
    from kio.schema.offset_for_leader_epoch.v4.request import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
        OffsetForLeaderTopic,
    )

    asked = OffsetForLeaderPartition(
        partition=i32(route.partition),
        current_leader_epoch=i32(route.leader_epoch),
        leader_epoch=i32(leader_epoch),
    )
    topic = OffsetForLeaderTopic(topic=TopicName(route.topic), partitions=(asked,))
    return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=(topic,))


def told_end_of_epoch(response: OffsetForLeaderEpochResponse) -> EndOfEpoch:
    data = response.topics[0].partitions[0]
    if data.error_code is not ErrorCode.none:
        raise KafkaError(data.error_code, "the end of a leader epoch could not be looked up")
    return EndOfEpoch(data.leader_epoch, data.end_offset)


def metadata(topics: Sequence[str] | None) -> MetadataRequest:
    """Of these topics; None: of all."""
    named = None if topics is None else tuple(MetadataRequestTopic(topic_id=None, name=TopicName(t)) for t in topics)
    return MetadataRequest(topics=named, allow_auto_topic_creation=False, include_topic_authorized_operations=False)


def create_topic(
    name: str,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    assignments: Sequence[Sequence[int]],
) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=TopicName(name),
        num_partitions=i32(-1 if assignments else partitions),
        replication_factor=i16(-1 if assignments else replication_factor),
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=i32(index), broker_ids=brokers_of(brokers, f"partition {index}"))
            for index, brokers in enumerate(assignments)
        ),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
    )
    return CreateTopicsRequest(topics=(topic,), timeout=TIMEOUT)


def brokers_of(given: Sequence[int], what: str) -> tuple[BrokerId, ...]:
    """The brokers that are to hold a partition. Raises ValueError for what is no list of ids."""
    if isinstance(given, str) or not isinstance(given, Iterable) or any(type(broker) is not int for broker in given):
        raise ValueError(f"the brokers of {what} are {given!r}: list their ids, the preferred one first, as in [0, 1]")
    return tuple(map(BrokerId, given))


def check_created(response: CreateTopicsResponse) -> None:
    for topic in response.topics:
        if topic.error_code is not ErrorCode.none:
            raise KafkaError(topic.error_code, topic.error_message or f"topic {topic.name} was not created")


def elect_leaders(topic: str, partition: int, *, unclean: bool) -> ElectLeadersRequest:
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions

    named = TopicPartitions(topic=TopicName(topic), partitions=(i32(partition),))
    return ElectLeadersRequest(election_type=i8(1 if unclean else 0), topic_partitions=(named,), timeout=TIMEOUT)


def check_elected(response: ElectLeadersResponse) -> None:
    if response.error_code is not ErrorCode.none:
        raise KafkaError(response.error_code, "no election was held")
    for topic in response.replica_election_results:
        for result in topic.partition_result:
            if result.error_code is not ErrorCode.none:
                raise KafkaError(result.error_code, f"no leader was elected for {topic.topic}-{result.partition_id}")

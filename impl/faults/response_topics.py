"""Where responses have their topics and partitions, for the APIs of `impl.faults.request_topics`.

The classes of the messages are imported by type checkers alone: an API that nobody uses costs nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs

from tidegauge.impl.faults.message_topics import MessageTopics, TopicPartitions
from tidegauge.impl.wire.apis import ApiKey

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.response import (
        AlterPartitionReassignmentsResponse,
        ReassignablePartitionResponse,
        ReassignableTopicResponse,
    )
    from kio.schema.alter_share_group_offsets.v0.response import (
        AlterShareGroupOffsetsResponse,
        AlterShareGroupOffsetsResponsePartition,
        AlterShareGroupOffsetsResponseTopic,
    )
    from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult
    from kio.schema.create_topics.v7.response import CreatableTopicResult, CreateTopicsResponse
    from kio.schema.delete_records.v2.response import (
        DeleteRecordsPartitionResult,
        DeleteRecordsResponse,
        DeleteRecordsTopicResult,
    )
    from kio.schema.delete_share_group_offsets.v0.response import (
        DeleteShareGroupOffsetsResponse,
        DeleteShareGroupOffsetsResponseTopic,
    )
    from kio.schema.delete_share_group_state.v0.response import DeleteShareGroupStateResponse, DeleteStateResult
    from kio.schema.delete_share_group_state.v0.response import PartitionResult as DeleteShareGroupStatePartitionResult
    from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
    from kio.schema.describe_producers.v0.response import DescribeProducersResponse, PartitionResponse, TopicResponse
    from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse, PartitionData, TopicData
    from kio.schema.describe_topic_partitions.v0.response import (
        DescribeTopicPartitionsResponse,
        DescribeTopicPartitionsResponsePartition,
        DescribeTopicPartitionsResponseTopic,
    )
    from kio.schema.initialize_share_group_state.v0.response import (
        InitializeShareGroupStateResponse,
        InitializeStateResult,
        PartitionResult,
    )
    from kio.schema.list_offsets.v11.response import (
        ListOffsetsPartitionResponse,
        ListOffsetsResponse,
        ListOffsetsTopicResponse,
    )
    from kio.schema.list_partition_reassignments.v0.response import (
        ListPartitionReassignmentsResponse,
        OngoingPartitionReassignment,
        OngoingTopicReassignment,
    )
    from kio.schema.metadata.v13.response import MetadataResponsePartition, MetadataResponseTopic
    from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition
    from kio.schema.offset_delete.v0.response import (
        OffsetDeleteResponse,
        OffsetDeleteResponsePartition,
        OffsetDeleteResponseTopic,
    )
    from kio.schema.offset_for_leader_epoch.v4.response import (
        EpochEndOffset,
        OffsetForLeaderEpochResponse,
        OffsetForLeaderTopicResult,
    )
    from kio.schema.read_share_group_state.v0.response import PartitionResult as ReadShareGroupStatePartitionResult
    from kio.schema.read_share_group_state.v0.response import ReadShareGroupStateResponse, ReadStateResult
    from kio.schema.read_share_group_state_summary.v1.response import (
        PartitionResult as ReadShareGroupStateSummaryPartitionResult,
    )
    from kio.schema.read_share_group_state_summary.v1.response import (
        ReadShareGroupStateSummaryResponse,
        ReadStateSummaryResult,
    )
    from kio.schema.share_acknowledge.v2.response import PartitionData as ShareAcknowledgePartitionData
    from kio.schema.share_acknowledge.v2.response import ShareAcknowledgeResponse, ShareAcknowledgeTopicResponse
    from kio.schema.share_fetch.v2.response import PartitionData as ShareFetchPartitionData
    from kio.schema.share_fetch.v2.response import ShareFetchableTopicResponse, ShareFetchResponse
    from kio.schema.txn_offset_commit.v5.response import (
        TxnOffsetCommitResponse,
        TxnOffsetCommitResponsePartition,
        TxnOffsetCommitResponseTopic,
    )
    from kio.schema.write_share_group_state.v1.response import PartitionResult as WriteShareGroupStatePartitionResult
    from kio.schema.write_share_group_state.v1.response import WriteShareGroupStateResponse, WriteStateResult

    from tidegauge.impl.wire.fetch_messages import FetchResponse, PartitionFetched, TopicFetched
    from tidegauge.impl.wire.offset_unions import AnyOffsetCommitResponse, CommittedTopicResponse
    from tidegauge.impl.wire.produce_messages import PartitionProduced, ProduceResponse, TopicProduced
    from tidegauge.impl.wire.unions import AnyMetadataResponse

PRODUCE: MessageTopics[ProduceResponse, TopicProduced, PartitionProduced] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: attrs.evolve(message, topics=list(topics)),
    name=lambda topic: topic.name,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: attrs.evolve(topic, partitions=list(partitions)),
        lambda partition: partition.index,
    ),
)

FETCH: MessageTopics[FetchResponse, TopicFetched, PartitionFetched] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: attrs.evolve(message, topics=list(topics)),
    name=lambda topic: topic.name,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: attrs.evolve(topic, partitions=list(partitions)),
        lambda partition: partition.index,
    ),
)

LIST_OFFSETS: MessageTopics[
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    ListOffsetsPartitionResponse,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

METADATA: MessageTopics[AnyMetadataResponse, MetadataResponseTopic, MetadataResponsePartition] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

OFFSET_COMMIT: MessageTopics[
    AnyOffsetCommitResponse,
    CommittedTopicResponse,
    OffsetCommitResponsePartition,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

CREATE_TOPICS: MessageTopics[CreateTopicsResponse, CreatableTopicResult, Any] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
    topic_id=lambda topic: topic.topic_id,
)

DELETE_TOPICS: MessageTopics[DeleteTopicsResponse, DeletableTopicResult, Any] = MessageTopics(
    lambda message: message.responses,
    lambda message, topics: dataclasses.replace(message, responses=topics),
    name=lambda topic: topic.name,
    topic_id=lambda topic: topic.topic_id,
)

DELETE_RECORDS: MessageTopics[
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    DeleteRecordsPartitionResult,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

OFFSET_FOR_LEADER_EPOCH: MessageTopics[
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
    EpochEndOffset,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.topic,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition,
    ),
)

TXN_OFFSET_COMMIT: MessageTopics[
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
    TxnOffsetCommitResponsePartition,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

CREATE_PARTITIONS: MessageTopics[CreatePartitionsResponse, CreatePartitionsTopicResult, Any] = MessageTopics(
    lambda message: message.results,
    lambda message, topics: dataclasses.replace(message, results=topics),
    name=lambda topic: topic.name,
)

ALTER_PARTITION_REASSIGNMENTS: MessageTopics[
    AlterPartitionReassignmentsResponse,
    ReassignableTopicResponse,
    ReassignablePartitionResponse,
] = MessageTopics(
    lambda message: message.responses,
    lambda message, topics: dataclasses.replace(message, responses=topics),
    name=lambda topic: topic.name,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

LIST_PARTITION_REASSIGNMENTS: MessageTopics[
    ListPartitionReassignmentsResponse,
    OngoingTopicReassignment,
    OngoingPartitionReassignment,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

OFFSET_DELETE: MessageTopics[
    OffsetDeleteResponse,
    OffsetDeleteResponseTopic,
    OffsetDeleteResponsePartition,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

DESCRIBE_QUORUM: MessageTopics[DescribeQuorumResponse, TopicData, PartitionData] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.topic_name,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

DESCRIBE_PRODUCERS: MessageTopics[DescribeProducersResponse, TopicResponse, PartitionResponse] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

DESCRIBE_TOPIC_PARTITIONS: MessageTopics[
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    DescribeTopicPartitionsResponsePartition,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

SHARE_FETCH: MessageTopics[ShareFetchResponse, ShareFetchableTopicResponse, ShareFetchPartitionData] = MessageTopics(
    lambda message: message.responses,
    lambda message, topics: dataclasses.replace(message, responses=topics),
    name=lambda _: None,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

SHARE_ACKNOWLEDGE: MessageTopics[
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
    ShareAcknowledgePartitionData,
] = MessageTopics(
    lambda message: message.responses,
    lambda message, topics: dataclasses.replace(message, responses=topics),
    name=lambda _: None,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

INITIALIZE_SHARE_GROUP_STATE: MessageTopics[
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
] = MessageTopics(
    lambda message: message.results,
    lambda message, topics: dataclasses.replace(message, results=topics),
    name=lambda _: None,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition,
    ),
)

READ_SHARE_GROUP_STATE: MessageTopics[
    ReadShareGroupStateResponse,
    ReadStateResult,
    ReadShareGroupStatePartitionResult,
] = MessageTopics(
    lambda message: message.results,
    lambda message, topics: dataclasses.replace(message, results=topics),
    name=lambda _: None,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition,
    ),
)

WRITE_SHARE_GROUP_STATE: MessageTopics[
    WriteShareGroupStateResponse,
    WriteStateResult,
    WriteShareGroupStatePartitionResult,
] = MessageTopics(
    lambda message: message.results,
    lambda message, topics: dataclasses.replace(message, results=topics),
    name=lambda _: None,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition,
    ),
)

DELETE_SHARE_GROUP_STATE: MessageTopics[
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    DeleteShareGroupStatePartitionResult,
] = MessageTopics(
    lambda message: message.results,
    lambda message, topics: dataclasses.replace(message, results=topics),
    name=lambda _: None,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition,
    ),
)

READ_SHARE_GROUP_STATE_SUMMARY: MessageTopics[
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
    ReadShareGroupStateSummaryPartitionResult,
] = MessageTopics(
    lambda message: message.results,
    lambda message, topics: dataclasses.replace(message, results=topics),
    name=lambda _: None,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition,
    ),
)

ALTER_SHARE_GROUP_OFFSETS: MessageTopics[
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponseTopic,
    AlterShareGroupOffsetsResponsePartition,
] = MessageTopics(
    lambda message: message.responses,
    lambda message, topics: dataclasses.replace(message, responses=topics),
    name=lambda topic: topic.topic_name,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

DELETE_SHARE_GROUP_OFFSETS: MessageTopics[
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
    Any,
] = MessageTopics(
    lambda message: message.responses,
    lambda message, topics: dataclasses.replace(message, responses=topics),
    name=lambda topic: topic.topic_name,
    topic_id=lambda topic: topic.topic_id,
)

RESPONSE_TOPICS: Final[Mapping[int, MessageTopics[Any, Any, Any]]] = MappingProxyType(
    {
        ApiKey.PRODUCE: PRODUCE,
        ApiKey.FETCH: FETCH,
        ApiKey.LIST_OFFSETS: LIST_OFFSETS,
        ApiKey.METADATA: METADATA,
        ApiKey.OFFSET_COMMIT: OFFSET_COMMIT,
        ApiKey.CREATE_TOPICS: CREATE_TOPICS,
        ApiKey.DELETE_TOPICS: DELETE_TOPICS,
        ApiKey.DELETE_RECORDS: DELETE_RECORDS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: OFFSET_FOR_LEADER_EPOCH,
        ApiKey.TXN_OFFSET_COMMIT: TXN_OFFSET_COMMIT,
        ApiKey.CREATE_PARTITIONS: CREATE_PARTITIONS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: LIST_PARTITION_REASSIGNMENTS,
        ApiKey.OFFSET_DELETE: OFFSET_DELETE,
        ApiKey.DESCRIBE_QUORUM: DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_PRODUCERS: DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.SHARE_FETCH: SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE: SHARE_ACKNOWLEDGE,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE: READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE: WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE: DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: READ_SHARE_GROUP_STATE_SUMMARY,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: DELETE_SHARE_GROUP_OFFSETS,
    }
)
"""By API."""

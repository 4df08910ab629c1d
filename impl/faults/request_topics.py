"""Where requests have their topics and partitions: the APIs whose requests name topics, one by one.

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
    from kio.schema.alter_partition_reassignments.v1.request import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )
    from kio.schema.alter_share_group_offsets.v0.request import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestPartition,
        AlterShareGroupOffsetsRequestTopic,
    )
    from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
    from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
    from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
    from kio.schema.delete_share_group_offsets.v0.request import (
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsRequestTopic,
    )
    from kio.schema.delete_share_group_state.v0.request import DeleteShareGroupStateRequest, DeleteStateData
    from kio.schema.delete_share_group_state.v0.request import PartitionData as DeleteShareGroupStatePartitionData
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
    from kio.schema.describe_log_dirs.v5.request import DescribableLogDirTopic, DescribeLogDirsRequest
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
    from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
    from kio.schema.describe_topic_partitions.v0.request import TopicRequest as DescribeTopicPartitionsTopicRequest
    from kio.schema.initialize_share_group_state.v0.request import InitializeShareGroupStateRequest, InitializeStateData
    from kio.schema.initialize_share_group_state.v0.request import (
        PartitionData as InitializeShareGroupStatePartitionData,
    )
    from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
    from kio.schema.list_partition_reassignments.v0.request import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsTopics,
    )
    from kio.schema.metadata.v13.request import MetadataRequestTopic
    from kio.schema.offset_commit.v10.request import OffsetCommitRequestPartition
    from kio.schema.offset_delete.v0.request import (
        OffsetDeleteRequest,
        OffsetDeleteRequestPartition,
        OffsetDeleteRequestTopic,
    )
    from kio.schema.offset_for_leader_epoch.v4.request import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
        OffsetForLeaderTopic,
    )
    from kio.schema.read_share_group_state.v0.request import PartitionData as ReadShareGroupStatePartitionData
    from kio.schema.read_share_group_state.v0.request import ReadShareGroupStateRequest, ReadStateData
    from kio.schema.read_share_group_state_summary.v1.request import (
        PartitionData as ReadShareGroupStateSummaryPartitionData,
    )
    from kio.schema.read_share_group_state_summary.v1.request import (
        ReadShareGroupStateSummaryRequest,
        ReadStateSummaryData,
    )
    from kio.schema.share_acknowledge.v2.request import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
    from kio.schema.share_fetch.v2.request import FetchPartition as ShareFetchFetchPartition
    from kio.schema.share_fetch.v2.request import FetchTopic as ShareFetchFetchTopic
    from kio.schema.share_fetch.v2.request import ShareFetchRequest
    from kio.schema.txn_offset_commit.v5.request import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitRequestPartition,
        TxnOffsetCommitRequestTopic,
    )
    from kio.schema.write_share_group_state.v1.request import PartitionData as WriteShareGroupStatePartitionData
    from kio.schema.write_share_group_state.v1.request import WriteShareGroupStateRequest, WriteStateData
    from kio.static.primitive import i32

    from tidegauge.impl.wire.fetch_messages import FetchPartition, FetchRequest, FetchTopic
    from tidegauge.impl.wire.offset_unions import AnyOffsetCommitRequest, CommittedTopic
    from tidegauge.impl.wire.produce_messages import ProducePartition, ProduceRequest, ProduceTopic
    from tidegauge.impl.wire.unions import AnyMetadataRequest

PRODUCE: MessageTopics[ProduceRequest, ProduceTopic, ProducePartition] = MessageTopics(
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

FETCH: MessageTopics[FetchRequest, FetchTopic, FetchPartition] = MessageTopics(
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

LIST_OFFSETS: MessageTopics[ListOffsetsRequest, ListOffsetsTopic, ListOffsetsPartition] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

METADATA: MessageTopics[AnyMetadataRequest, MetadataRequestTopic, Any] = MessageTopics(
    lambda message: message.topics or (),
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
    topic_id=lambda topic: topic.topic_id,
)

OFFSET_COMMIT: MessageTopics[AnyOffsetCommitRequest, CommittedTopic, OffsetCommitRequestPartition] = MessageTopics(
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

CREATE_TOPICS: MessageTopics[CreateTopicsRequest, CreatableTopic, Any] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
)

DELETE_TOPICS: MessageTopics[DeleteTopicsRequest, DeleteTopicState, Any] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
    topic_id=lambda topic: topic.topic_id,
)

DELETE_RECORDS: MessageTopics[DeleteRecordsRequest, DeleteRecordsTopic, DeleteRecordsPartition] = MessageTopics(
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
    OffsetForLeaderEpochRequest,
    OffsetForLeaderTopic,
    OffsetForLeaderPartition,
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
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitRequestPartition,
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

DESCRIBE_LOG_DIRS: MessageTopics[DescribeLogDirsRequest, DescribableLogDirTopic, i32] = MessageTopics(
    lambda message: message.topics or (),
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.topic,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        int,
    ),
)

CREATE_PARTITIONS: MessageTopics[CreatePartitionsRequest, CreatePartitionsTopic, Any] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
)

ALTER_PARTITION_REASSIGNMENTS: MessageTopics[
    AlterPartitionReassignmentsRequest,
    ReassignableTopic,
    ReassignablePartition,
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

LIST_PARTITION_REASSIGNMENTS: MessageTopics[
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    i32,
] = MessageTopics(
    lambda message: message.topics or (),
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
    partitions=TopicPartitions(
        lambda topic: topic.partition_indexes,
        lambda topic, partitions: dataclasses.replace(topic, partition_indexes=partitions),
        int,
    ),
)

OFFSET_DELETE: MessageTopics[
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteRequestPartition,
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

DESCRIBE_QUORUM: MessageTopics[DescribeQuorumRequest, TopicData, PartitionData] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.topic_name,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

DESCRIBE_PRODUCERS: MessageTopics[DescribeProducersRequest, TopicRequest, i32] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
    partitions=TopicPartitions(
        lambda topic: topic.partition_indexes,
        lambda topic, partitions: dataclasses.replace(topic, partition_indexes=partitions),
        int,
    ),
)

DESCRIBE_TOPIC_PARTITIONS: MessageTopics[
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopicRequest,
    Any,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.name,
)

SHARE_FETCH: MessageTopics[ShareFetchRequest, ShareFetchFetchTopic, ShareFetchFetchPartition] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda _: None,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

SHARE_ACKNOWLEDGE: MessageTopics[ShareAcknowledgeRequest, AcknowledgeTopic, AcknowledgePartition] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda _: None,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

INITIALIZE_SHARE_GROUP_STATE: MessageTopics[
    InitializeShareGroupStateRequest,
    InitializeStateData,
    InitializeShareGroupStatePartitionData,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda _: None,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition,
    ),
)

READ_SHARE_GROUP_STATE: MessageTopics[
    ReadShareGroupStateRequest,
    ReadStateData,
    ReadShareGroupStatePartitionData,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda _: None,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition,
    ),
)

WRITE_SHARE_GROUP_STATE: MessageTopics[
    WriteShareGroupStateRequest,
    WriteStateData,
    WriteShareGroupStatePartitionData,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda _: None,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition,
    ),
)

DELETE_SHARE_GROUP_STATE: MessageTopics[
    DeleteShareGroupStateRequest,
    DeleteStateData,
    DeleteShareGroupStatePartitionData,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda _: None,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition,
    ),
)

READ_SHARE_GROUP_STATE_SUMMARY: MessageTopics[
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
    ReadShareGroupStateSummaryPartitionData,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda _: None,
    topic_id=lambda topic: topic.topic_id,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition,
    ),
)

ALTER_SHARE_GROUP_OFFSETS: MessageTopics[
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsRequestPartition,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.topic_name,
    partitions=TopicPartitions(
        lambda topic: topic.partitions,
        lambda topic, partitions: dataclasses.replace(topic, partitions=partitions),
        lambda partition: partition.partition_index,
    ),
)

DELETE_SHARE_GROUP_OFFSETS: MessageTopics[
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    Any,
] = MessageTopics(
    lambda message: message.topics,
    lambda message, topics: dataclasses.replace(message, topics=topics),
    name=lambda topic: topic.topic_name,
)

REQUEST_TOPICS: Final[Mapping[int, MessageTopics[Any, Any, Any]]] = MappingProxyType(
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
        ApiKey.DESCRIBE_LOG_DIRS: DESCRIBE_LOG_DIRS,
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

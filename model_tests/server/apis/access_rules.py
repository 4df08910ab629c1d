"""The operations that each API requires, as in Apache Kafka: the table of docs/security.md, and a test for each row.

A case is a request and its requirements: without any one of them it is refused. An API with several kinds of request
has several cases. What a broker does for every client (ApiVersions, DescribeCluster, …) has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeAlias
from uuid import UUID

import attrs
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from tidegauge.impl.metadata.access import CLUSTER_NAME, Operation, ResourceType
from tidegauge.impl.wire.apis import ApiKey

TOPIC: Final = "orders"
GROUP: Final = "billing"
TRANSACTION: Final = "invoices"

SECOND: Final = i32Timedelta.parse(timedelta(seconds=1))

Fields: TypeAlias = Mapping[str, Any]
"""A message by its fields' names; arrays of messages as lists of such mappings, and what is left out is Kafka's
default."""


@attrs.frozen
class Required:
    """What a principal must be allowed, and the error code of a request without it."""

    operation: Operation
    resource_type: ResourceType
    name: str
    error: ErrorCode

    def __str__(self) -> str:
        return f"{self.operation.name} {self.resource_type.name}"


def on_topic(operation: Operation, error: ErrorCode = ErrorCode.topic_authorization_failed) -> Required:
    return Required(operation, ResourceType.TOPIC, TOPIC, error)


def on_group(operation: Operation) -> Required:
    return Required(operation, ResourceType.GROUP, GROUP, ErrorCode.group_authorization_failed)


def on_cluster(operation: Operation, error: ErrorCode = ErrorCode.cluster_authorization_failed) -> Required:
    return Required(operation, ResourceType.CLUSTER, CLUSTER_NAME, error)


def on_transaction(operation: Operation) -> Required:
    return Required(
        operation, ResourceType.TRANSACTIONAL_ID, TRANSACTION, ErrorCode.transactional_id_authorization_failed
    )


@attrs.frozen
class Fixtures:
    """What the test has created for requests to name."""

    topic_id: UUID
    records: bytes
    """A batch of one record."""
    transactional: bytes
    """Such a batch of a transaction."""


@attrs.frozen
class Case:
    """A request, and all that it requires."""

    api: ApiKey
    fields: Callable[[Fixtures], Fields]
    requirements: tuple[Required, ...]
    variant: str = ""
    """Which kind of request of the API this is."""
    version: int | None = None
    """The version of the request; the newest unless given."""

    def __str__(self) -> str:
        return f"{self.api.name}{' ' + self.variant if self.variant else ''}"


def case(
    api: ApiKey,
    fields: Fields | Callable[[Fixtures], Fields],
    *requirements: Required,
    variant: str = "",
    version: int | None = None,
) -> Case:
    return Case(api, fields if callable(fields) else lambda _: fields, requirements, variant, version)


O = Operation  # noqa: E741 - a column of a table
EPOCH_0: Final = {
    "replica_id": -1,
    "topics": [{"topic": TOPIC, "partitions": [{"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1}]}],
}
PARTITION_0: Final = [{"partition_index": 0}]
CLUSTER_CONFIG: Final = {"resource_type": 4, "resource_name": "0"}
GROUP_CONFIG: Final = {"resource_type": 32, "resource_name": GROUP}
TIMEOUT: Final = {"name": "consumer.session.timeout.ms", "value": "50000"}
TOPIC_CONFIG: Final = {"resource_type": 2, "resource_name": TOPIC}


def _produce(fixtures: Fixtures, records: bytes) -> Fields:
    data = [{"topic_id": fixtures.topic_id, "partition_data": [{"index": 0, "records": records}]}]
    return {"acks": -1, "timeout": SECOND, "topic_data": data}


def _fetch(fixtures: Fixtures) -> Fields:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000, "current_leader_epoch": -1}
    topics = [{"topic_id": fixtures.topic_id, "partitions": [partition]}]
    return {"max_bytes": 1_000, "session_epoch": -1, "topics": topics}


DATA: Final = (
    case(ApiKey.PRODUCE, lambda fixtures: _produce(fixtures, fixtures.records), on_topic(O.WRITE)),
    case(
        ApiKey.PRODUCE,
        lambda fixtures: {**_produce(fixtures, fixtures.transactional), "transactional_id": TRANSACTION},
        on_transaction(O.WRITE),
        on_topic(O.WRITE),
        variant="in a transaction",
    ),
    case(ApiKey.FETCH, lambda fixtures: _fetch(fixtures), on_topic(O.READ)),
    case(
        ApiKey.FETCH,
        lambda fixtures: {**_fetch(fixtures), "replica_state": {"replica_id": 7, "replica_epoch": -1}},
        on_cluster(O.CLUSTER_ACTION, ErrorCode.topic_authorization_failed),
        variant="by a broker",
    ),
    case(
        ApiKey.LIST_OFFSETS,
        {
            "replica_id": -1,
            "topics": [
                {"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]}
            ],
        },
        on_topic(O.DESCRIBE),
    ),
    case(ApiKey.OFFSET_FOR_LEADER_EPOCH, EPOCH_0, on_topic(O.DESCRIBE)),
    case(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        EPOCH_0,
        on_cluster(O.CLUSTER_ACTION, ErrorCode.topic_authorization_failed),
        variant="by a broker",
    ),
    case(
        ApiKey.DELETE_RECORDS,
        {"timeout": SECOND, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": -1}]}]},
        on_topic(O.DELETE),
    ),
    case(
        ApiKey.DESCRIBE_PRODUCERS,
        {"topics": [{"name": TOPIC, "partition_indexes": (0,)}]},
        on_topic(O.READ),
    ),
)

METADATA: Final = (
    case(ApiKey.METADATA, {"topics": [{"name": TOPIC}]}, on_topic(O.DESCRIBE), variant="by name"),
    case(
        ApiKey.METADATA,
        lambda fixtures: {"topics": [{"topic_id": fixtures.topic_id, "name": None}]},
        on_topic(O.DESCRIBE),
        variant="by id",
    ),
    case(
        ApiKey.METADATA,
        {"topics": [{"name": "new"}], "allow_auto_topic_creation": True},
        Required(O.DESCRIBE, ResourceType.TOPIC, "new", ErrorCode.topic_authorization_failed),
        Required(O.CREATE, ResourceType.TOPIC, "new", ErrorCode.topic_authorization_failed),
        variant="of a topic that it creates",
    ),
    case(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        {"topics": [{"name": TOPIC}], "response_partition_limit": 10, "cursor": None},
        on_topic(O.DESCRIBE),
    ),
    case(
        ApiKey.DESCRIBE_QUORUM,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": PARTITION_0}]},
        on_cluster(O.DESCRIBE),
    ),
)

TOPICS: Final = (
    case(
        ApiKey.CREATE_TOPICS,
        {"timeout": SECOND, "topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}]},
        Required(O.CREATE, ResourceType.TOPIC, "new", ErrorCode.topic_authorization_failed),
        variant="of a name",
    ),
    case(
        ApiKey.CREATE_TOPICS,
        {"timeout": SECOND, "topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}]},
        on_cluster(O.CREATE, ErrorCode.topic_authorization_failed),
        variant="of any name",
    ),
    case(ApiKey.DELETE_TOPICS, {"timeout": SECOND, "topics": [{"name": TOPIC}]}, on_topic(O.DELETE), variant="by name"),
    case(
        ApiKey.DELETE_TOPICS,
        lambda fixtures: {"timeout": SECOND, "topics": [{"name": None, "topic_id": fixtures.topic_id}]},
        on_topic(O.DELETE),
        variant="by id",
    ),
    case(
        ApiKey.DELETE_TOPICS,
        {"timeout": SECOND, "topics": [{"name": TOPIC}]},
        on_cluster(O.DELETE, ErrorCode.topic_authorization_failed),
        variant="any",
    ),
    case(
        ApiKey.CREATE_PARTITIONS,
        {"timeout": SECOND, "topics": [{"name": TOPIC, "count": 2, "assignments": None}]},
        on_topic(O.ALTER),
    ),
    case(
        ApiKey.ELECT_LEADERS,
        {"timeout": SECOND, "topic_partitions": [{"topic": TOPIC, "partitions": (0,)}]},
        on_cluster(O.ALTER),
    ),
    case(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        {
            "timeout": SECOND,
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": (0,)}]}],
        },
        on_cluster(O.ALTER),
    ),
    case(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        {"timeout": SECOND, "topics": [{"name": TOPIC, "partition_indexes": (0,)}]},
        on_cluster(O.DESCRIBE),
    ),
)

CONFIGS: Final = (
    case(
        ApiKey.DESCRIBE_CONFIGS,
        {"resources": [{**TOPIC_CONFIG, "configuration_keys": None}]},
        on_topic(O.DESCRIBE_CONFIGS),
        variant="of a topic",
    ),
    case(
        ApiKey.DESCRIBE_CONFIGS,
        {"resources": [{**CLUSTER_CONFIG, "configuration_keys": None}]},
        on_cluster(O.DESCRIBE_CONFIGS),
        variant="of a broker",
    ),
    case(
        ApiKey.DESCRIBE_CONFIGS,
        {"resources": [{**GROUP_CONFIG, "configuration_keys": None}]},
        on_group(O.DESCRIBE_CONFIGS),
        variant="of a group",
    ),
    case(
        ApiKey.ALTER_CONFIGS,
        {"resources": [{**TOPIC_CONFIG, "configs": [{"name": "flush.ms", "value": "7"}]}]},
        on_topic(O.ALTER_CONFIGS),
        variant="of a topic",
    ),
    case(
        ApiKey.ALTER_CONFIGS,
        {"resources": [{**CLUSTER_CONFIG, "configs": [{"name": "max.connections", "value": "70"}]}]},
        on_cluster(O.ALTER_CONFIGS),
        variant="of a broker",
    ),
    case(
        ApiKey.ALTER_CONFIGS,
        {"resources": [{**GROUP_CONFIG, "configs": [TIMEOUT]}]},
        on_group(O.ALTER_CONFIGS),
        variant="of a group",
    ),
    case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        {"resources": [{**TOPIC_CONFIG, "configs": [{"name": "flush.ms", "value": "7"}]}]},
        on_topic(O.ALTER_CONFIGS),
        variant="of a topic",
    ),
    case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        {"resources": [{**CLUSTER_CONFIG, "configs": [{"name": "max.connections", "value": "70"}]}]},
        on_cluster(O.ALTER_CONFIGS),
        variant="of a broker",
    ),
    case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        {"resources": [{**GROUP_CONFIG, "configs": [TIMEOUT]}]},
        on_group(O.ALTER_CONFIGS),
        variant="of a group",
    ),
    case(ApiKey.LIST_CONFIG_RESOURCES, {}, on_cluster(O.DESCRIBE_CONFIGS)),
    case(ApiKey.DESCRIBE_CLIENT_QUOTAS, {}, on_cluster(O.DESCRIBE_CONFIGS)),
    case(
        ApiKey.ALTER_CLIENT_QUOTAS,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "bob"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1e6, "remove": False}],
                }
            ]
        },
        on_cluster(O.ALTER_CONFIGS),
    ),
)

CLUSTER: Final = (
    case(
        ApiKey.DESCRIBE_ACLS,
        {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1},
        on_cluster(O.DESCRIBE),
    ),
    case(
        ApiKey.CREATE_ACLS,
        {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": TOPIC,
                    "resource_pattern_type": 3,
                    "principal": "User:bob",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
        on_cluster(O.ALTER),
    ),
    case(
        ApiKey.DELETE_ACLS,
        {"filters": [{"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}]},
        on_cluster(O.ALTER),
    ),
    case(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None}, on_cluster(O.DESCRIBE)),
    case(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        {"deletions": [{"name": "bob", "mechanism": 1}]},
        on_cluster(O.ALTER),
    ),
    case(ApiKey.UPDATE_FEATURES, {"timeout": SECOND}, on_cluster(O.ALTER)),
    case(ApiKey.UNREGISTER_BROKER, {"broker_id": 7}, on_cluster(O.ALTER)),
    case(ApiKey.ADD_RAFT_VOTER, {"voter_id": 7}, on_cluster(O.ALTER)),
    case(ApiKey.REMOVE_RAFT_VOTER, {"voter_id": 7}, on_cluster(O.ALTER)),
    case(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        {"dirs": [{"path": "/x", "topics": [{"name": TOPIC, "partitions": (0,)}]}]},
        on_cluster(O.ALTER),
    ),
    case(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, on_cluster(O.DESCRIBE)),
)

GROUPS: Final = (
    case(
        ApiKey.FIND_COORDINATOR,
        {"key_type": 0, "coordinator_keys": (GROUP,)},
        on_group(O.DESCRIBE),
        variant="of a group",
    ),
    case(
        ApiKey.JOIN_GROUP,
        {"group_id": GROUP, "protocol_type": "consumer", "protocols": [{"name": "range"}]},
        on_group(O.READ),
    ),
    case(
        ApiKey.SYNC_GROUP,
        {"group_id": GROUP, "protocol_type": "consumer", "protocol_name": "range"},
        on_group(O.READ),
    ),
    case(ApiKey.HEARTBEAT, {"group_id": GROUP}, on_group(O.READ)),
    case(ApiKey.LEAVE_GROUP, {"group_id": GROUP, "members": [{"member_id": "m"}]}, on_group(O.READ)),
    case(ApiKey.DESCRIBE_GROUPS, {"groups": (GROUP,)}, on_group(O.DESCRIBE)),
    case(ApiKey.DELETE_GROUPS, {"groups_names": (GROUP,)}, on_group(O.DELETE)),
    case(
        ApiKey.OFFSET_COMMIT,
        {
            "group_id": GROUP,
            "generation_id_or_member_epoch": -1,
            "topics": [{"name": TOPIC, "partitions": PARTITION_0}],
        },
        on_group(O.READ),
        on_topic(O.READ),
        version=9,
    ),
    case(
        ApiKey.OFFSET_FETCH,
        {"groups": [{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": (0,)}]}]},
        on_group(O.DESCRIBE),
        on_topic(O.DESCRIBE),
        version=9,
    ),
    case(
        ApiKey.OFFSET_DELETE,
        {"group_id": GROUP, "topics": [{"name": TOPIC, "partitions": PARTITION_0}]},
        on_group(O.DELETE),
        on_topic(O.READ),
    ),
    case(ApiKey.CONSUMER_GROUP_HEARTBEAT, {"group_id": GROUP, "member_id": "m"}, on_group(O.READ)),
    case(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        {"group_id": GROUP, "member_id": "m", "subscribed_topic_names": (TOPIC,)},
        on_group(O.READ),
        on_topic(O.DESCRIBE),
        variant="for a topic",
    ),
    case(ApiKey.CONSUMER_GROUP_DESCRIBE, {"group_ids": (GROUP,)}, on_group(O.DESCRIBE)),
    case(ApiKey.SHARE_GROUP_HEARTBEAT, {"group_id": GROUP, "member_id": "m"}, on_group(O.READ)),
    case(ApiKey.SHARE_GROUP_DESCRIBE, {"group_ids": (GROUP,)}, on_group(O.DESCRIBE)),
    case(ApiKey.SHARE_FETCH, {"group_id": GROUP, "member_id": "m"}, on_group(O.READ)),
    case(ApiKey.SHARE_ACKNOWLEDGE, {"group_id": GROUP, "member_id": "m"}, on_group(O.READ)),
    case(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, {"groups": [{"group_id": GROUP, "topics": None}]}, on_group(O.DESCRIBE)),
    case(ApiKey.ALTER_SHARE_GROUP_OFFSETS, {"group_id": GROUP}, on_group(O.READ)),
    case(ApiKey.DELETE_SHARE_GROUP_OFFSETS, {"group_id": GROUP}, on_group(O.DELETE)),
    case(ApiKey.STREAMS_GROUP_HEARTBEAT, {"group_id": GROUP, "member_id": "m"}, on_group(O.READ)),
    case(ApiKey.STREAMS_GROUP_DESCRIBE, {"group_ids": (GROUP,)}, on_group(O.DESCRIBE)),
    *(
        case(key, {"group_id": GROUP, "topics": [{"partitions": [{"partition": 0}]}]}, on_cluster(O.CLUSTER_ACTION))
        for key in (
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE,
            ApiKey.WRITE_SHARE_GROUP_STATE,
            ApiKey.DELETE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        )
    ),
)

TRANSACTIONS: Final = (
    case(
        ApiKey.FIND_COORDINATOR,
        {"key_type": 1, "coordinator_keys": (TRANSACTION,)},
        on_transaction(O.DESCRIBE),
        variant="of a transactional id",
    ),
    case(
        ApiKey.INIT_PRODUCER_ID,
        {"transactional_id": TRANSACTION, "transaction_timeout": SECOND, "producer_id": -1, "producer_epoch": -1},
        on_transaction(O.WRITE),
        variant="of a transactional id",
    ),
    case(
        ApiKey.INIT_PRODUCER_ID,
        {"transactional_id": None, "producer_id": -1, "producer_epoch": -1},
        on_cluster(O.IDEMPOTENT_WRITE),
        variant="by an ACL of the cluster",
    ),
    case(
        ApiKey.INIT_PRODUCER_ID,
        {"transactional_id": None, "producer_id": -1, "producer_epoch": -1},
        Required(O.WRITE, ResourceType.TOPIC, TOPIC, ErrorCode.cluster_authorization_failed),
        variant="by an ACL of any topic",
    ),
    case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        {
            "v3_and_below_transactional_id": TRANSACTION,
            "v3_and_below_topics": [{"name": TOPIC, "partitions": (0,)}],
        },
        on_transaction(O.WRITE),
        on_topic(O.WRITE),
        version=3,
    ),
    case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        {
            "transactions": [{"transactional_id": TRANSACTION, "topics": [{"name": TOPIC, "partitions": (0,)}]}],
        },
        on_cluster(O.CLUSTER_ACTION),
        variant="by a broker",
    ),
    case(
        ApiKey.ADD_OFFSETS_TO_TXN,
        {"transactional_id": TRANSACTION, "group_id": GROUP},
        on_transaction(O.WRITE),
        on_group(O.READ),
    ),
    case(ApiKey.END_TXN, {"transactional_id": TRANSACTION}, on_transaction(O.WRITE)),
    case(
        ApiKey.TXN_OFFSET_COMMIT,
        {
            "transactional_id": TRANSACTION,
            "group_id": GROUP,
            "topics": [{"name": TOPIC, "partitions": PARTITION_0}],
        },
        on_transaction(O.WRITE),
        on_group(O.READ),
        on_topic(O.READ),
    ),
    case(
        ApiKey.WRITE_TXN_MARKERS,
        {"markers": [{"topics": [{"name": TOPIC, "partition_indexes": (0,)}]}]},
        on_cluster(O.CLUSTER_ACTION),
        variant="by a broker",
    ),
    case(
        ApiKey.WRITE_TXN_MARKERS,
        {"markers": [{"topics": [{"name": TOPIC, "partition_indexes": (0,)}]}]},
        on_cluster(O.ALTER),
        variant="by an operator",
    ),
    case(ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": (TRANSACTION,)}, on_transaction(O.DESCRIBE)),
)

CASES: Final = (*DATA, *METADATA, *TOPICS, *CONFIGS, *CLUSTER, *GROUPS, *TRANSACTIONS)

OPEN: Final = {
    ApiKey.API_VERSIONS: "open to all clients, unauthenticated ones included",
    ApiKey.SASL_HANDSHAKE: "open to all clients, unauthenticated ones included",
    ApiKey.SASL_AUTHENTICATE: "open to all clients, unauthenticated ones included",
    ApiKey.DESCRIBE_CLUSTER: "open to every authenticated client",
    ApiKey.LIST_GROUPS: "shows the groups that the peer may DESCRIBE; with DESCRIBE on the cluster all",
    ApiKey.LIST_TRANSACTIONS: "shows the transactional ids that the peer may DESCRIBE",
    ApiKey.CREATE_DELEGATION_TOKEN: "not enabled: DELEGATION_TOKEN_AUTH_DISABLED",
    ApiKey.RENEW_DELEGATION_TOKEN: "not enabled: DELEGATION_TOKEN_AUTH_DISABLED",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "not enabled: DELEGATION_TOKEN_AUTH_DISABLED",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "not enabled: DELEGATION_TOKEN_AUTH_DISABLED",
}
"""APIs without a requirement, and what they do."""


def table() -> str:
    """The rules as a table in Markdown."""
    lines = ["| request | requires | otherwise |", "|---|---|---|"]
    for one in sorted(CASES, key=lambda case: case.api):
        required = " and ".join(
            f"`{each.operation.name}` on the {_NAMES[each.resource_type]}" for each in one.requirements
        )
        errors = ", ".join(dict.fromkeys(f"`{each.error.name.upper()}`" for each in one.requirements))
        lines.append(f"| {api_title(one.api)}{f', {one.variant}' if one.variant else ''} | {required} | {errors} |")
    lines += [f"| {api_title(api)} | nothing | {words} |" for api, words in sorted(OPEN.items())]
    return "\n".join(lines) + "\n"


_NAMES: Final = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: "cluster",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
}


def api_title(api: ApiKey) -> str:
    return "".join(part.capitalize() for part in api.name.split("_"))

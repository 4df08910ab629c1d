"""Who answers what at a broker: one line an API.

What is needed by every producer and consumer is imported at once, the rest at its first request
(`impl.server.deferred`); APIs that have no line here are those of `impl.server.absent_apis`.
"""

from __future__ import annotations

from typing import Final

from impl.server.authorization import Operation
from impl.server.deferred import ServerHandler, deferred
from impl.server.fetch import handle_fetch
from impl.server.forwarding import forwarding, on_cluster
from impl.server.metadata_requests import handle_metadata
from impl.server.produce import handle_produce
from impl.wire.apis import BROKER_APIS, ApiKey

HANDLERS: Final[dict[ApiKey, ServerHandler]] = {
    **{key: deferred("absent_apis", "ABSENT", key) for key in BROKER_APIS if key is not ApiKey.API_VERSIONS},
    ApiKey.PRODUCE: handle_produce,
    ApiKey.FETCH: handle_fetch,
    ApiKey.LIST_OFFSETS: deferred("offsets", "handle_list_offsets"),
    ApiKey.METADATA: handle_metadata,
    ApiKey.CREATE_TOPICS: deferred("topics", "handle_create_topics"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: deferred("offsets", "handle_offset_for_leader_epoch"),
    ApiKey.DELETE_TOPICS: deferred("topics", "handle_delete_topics"),
    ApiKey.DELETE_RECORDS: deferred("delete_records", "handle_delete_records"),
    ApiKey.CREATE_PARTITIONS: deferred("topics", "handle_create_partitions"),
    ApiKey.ELECT_LEADERS: forwarding(on_cluster(Operation.ALTER)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: forwarding(on_cluster(Operation.ALTER)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: forwarding(on_cluster(Operation.DESCRIBE)),
    ApiKey.UNREGISTER_BROKER: forwarding(on_cluster(Operation.ALTER)),
    ApiKey.INIT_PRODUCER_ID: deferred("producer_ids", "handle_init_producer_id"),
    ApiKey.DESCRIBE_PRODUCERS: deferred("describe_producers", "handle_describe_producers"),
    ApiKey.DESCRIBE_CONFIGS: deferred("configs", "handle_describe_configs"),
    ApiKey.ALTER_CONFIGS: deferred("configs", "handle_alter_configs"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: deferred("configs", "handle_incremental_alter_configs"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: deferred("quota_requests", "handle_describe_client_quotas"),
    ApiKey.ALTER_CLIENT_QUOTAS: deferred("quota_requests", "handle_alter_client_quotas"),
    ApiKey.DESCRIBE_QUORUM: forwarding(on_cluster(Operation.DESCRIBE)),
    ApiKey.UPDATE_FEATURES: deferred("update_features", "handle_update_features"),
    ApiKey.DESCRIBE_CLUSTER: deferred("describe_cluster", "handle_describe_cluster"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: deferred("log_dirs", "handle_alter_replica_log_dirs"),
    ApiKey.DESCRIBE_LOG_DIRS: deferred("log_dirs", "handle_describe_log_dirs"),
    ApiKey.LIST_CONFIG_RESOURCES: deferred("describe_cluster", "handle_list_config_resources"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: deferred("describe_cluster", "handle_describe_topic_partitions"),
    ApiKey.SASL_HANDSHAKE: deferred("security.sasl_requests", "handle_sasl_handshake"),
    ApiKey.SASL_AUTHENTICATE: deferred("security.sasl_requests", "handle_sasl_authenticate"),
    ApiKey.DESCRIBE_ACLS: deferred("security.acl_requests", "handle_describe_acls"),
    ApiKey.CREATE_ACLS: deferred("security.acl_requests", "handle_alter_acls"),
    ApiKey.DELETE_ACLS: deferred("security.acl_requests", "handle_alter_acls"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: deferred("security.scram_requests", "handle_describe_scram_credentials"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: forwarding(on_cluster(Operation.ALTER)),
    ApiKey.CREATE_DELEGATION_TOKEN: deferred("security.delegation_tokens", "handle_create_delegation_token"),
    ApiKey.RENEW_DELEGATION_TOKEN: deferred("security.delegation_tokens", "handle_delegation_token"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: deferred("security.delegation_tokens", "handle_delegation_token"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: deferred("security.delegation_tokens", "handle_delegation_token"),
}
"""Each is called with (broker, request, context)."""

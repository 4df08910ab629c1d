"""Who answers what at a broker: one line an API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from impl.server.absent_apis import ABSENT
from impl.server.authorization import Operation
from impl.server.configs import handle_alter_configs, handle_describe_configs, handle_incremental_alter_configs
from impl.server.describe_cluster import (
    handle_describe_cluster,
    handle_describe_topic_partitions,
    handle_list_config_resources,
)
from impl.server.describe_producers import handle_describe_producers
from impl.server.fetch import handle_fetch
from impl.server.forwarding import forwarding, on_cluster
from impl.server.log_dirs import handle_alter_replica_log_dirs, handle_describe_log_dirs
from impl.server.metadata_requests import handle_metadata
from impl.server.offsets import handle_list_offsets, handle_offset_for_leader_epoch
from impl.server.produce import handle_produce
from impl.server.producer_ids import handle_init_producer_id
from impl.server.quota_requests import handle_alter_client_quotas, handle_describe_client_quotas
from impl.server.security.acl_requests import handle_alter_acls, handle_describe_acls
from impl.server.security.delegation_tokens import handle_create_delegation_token, handle_delegation_token
from impl.server.security.sasl_requests import handle_sasl_authenticate, handle_sasl_handshake
from impl.server.security.scram_requests import handle_describe_scram_credentials
from impl.server.topics import handle_create_partitions, handle_create_topics, handle_delete_topics
from impl.wire.apis import ApiKey

HANDLERS: Final[dict[ApiKey, Callable[..., Awaitable[Any]]]] = {
    **ABSENT,
    ApiKey.PRODUCE: handle_produce,
    ApiKey.FETCH: handle_fetch,
    ApiKey.LIST_OFFSETS: handle_list_offsets,
    ApiKey.METADATA: handle_metadata,
    ApiKey.CREATE_TOPICS: handle_create_topics,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: handle_offset_for_leader_epoch,
    ApiKey.DELETE_TOPICS: handle_delete_topics,
    ApiKey.CREATE_PARTITIONS: handle_create_partitions,
    ApiKey.ELECT_LEADERS: forwarding(on_cluster(Operation.ALTER)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: forwarding(on_cluster(Operation.ALTER)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: forwarding(on_cluster(Operation.DESCRIBE)),
    ApiKey.UNREGISTER_BROKER: forwarding(on_cluster(Operation.ALTER)),
    ApiKey.INIT_PRODUCER_ID: handle_init_producer_id,
    ApiKey.DESCRIBE_PRODUCERS: handle_describe_producers,
    ApiKey.DESCRIBE_CONFIGS: handle_describe_configs,
    ApiKey.ALTER_CONFIGS: handle_alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: handle_incremental_alter_configs,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: handle_describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: handle_alter_client_quotas,
    ApiKey.DESCRIBE_QUORUM: forwarding(on_cluster(Operation.DESCRIBE)),
    ApiKey.UPDATE_FEATURES: forwarding(on_cluster(Operation.ALTER)),
    ApiKey.DESCRIBE_CLUSTER: handle_describe_cluster,
    ApiKey.ALTER_REPLICA_LOG_DIRS: handle_alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: handle_describe_log_dirs,
    ApiKey.LIST_CONFIG_RESOURCES: handle_list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: handle_describe_topic_partitions,
    ApiKey.SASL_HANDSHAKE: handle_sasl_handshake,
    ApiKey.SASL_AUTHENTICATE: handle_sasl_authenticate,
    ApiKey.DESCRIBE_ACLS: handle_describe_acls,
    ApiKey.CREATE_ACLS: handle_alter_acls,
    ApiKey.DELETE_ACLS: handle_alter_acls,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: handle_describe_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: forwarding(on_cluster(Operation.ALTER)),
    ApiKey.CREATE_DELEGATION_TOKEN: handle_create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: handle_delegation_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: handle_delegation_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: handle_delegation_token,
}
"""Each is called with (broker, request, context)."""

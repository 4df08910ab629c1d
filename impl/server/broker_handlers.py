"""The handlers of a broker's requests: one line an API.

What every producer and consumer needs is imported at once, the rest when its first request comes
(`impl.server.transport.handlers`). APIs that have no line here are those of `impl.server.apis.absent_apis`.
"""

from __future__ import annotations

from typing import Final

from tidegauge.impl.server.apis.fetch import handle_fetch
from tidegauge.impl.server.apis.metadata import handle_metadata
from tidegauge.impl.server.apis.produce import handle_produce
from tidegauge.impl.server.broker.forwarding import forwarding, on_cluster
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.server.transport.handlers import Deferred, Registered
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey

BROKER_HANDLERS: Final[dict[ApiKey, Registered]] = {
    **{key: Deferred("apis.absent_apis", "ABSENT", key) for key in BROKER_APIS if key is not ApiKey.API_VERSIONS},
    ApiKey.PRODUCE: handle_produce,
    ApiKey.FETCH: handle_fetch,
    ApiKey.LIST_OFFSETS: Deferred("apis.offsets", "handle_list_offsets"),
    ApiKey.METADATA: handle_metadata,
    ApiKey.CREATE_TOPICS: Deferred("apis.topics", "handle_create_topics"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Deferred("apis.offsets", "handle_offset_for_leader_epoch"),
    ApiKey.DELETE_TOPICS: Deferred("apis.topics", "handle_delete_topics"),
    ApiKey.DELETE_RECORDS: Deferred("apis.delete_records", "handle_delete_records"),
    ApiKey.CREATE_PARTITIONS: Deferred("apis.topics", "handle_create_partitions"),
    ApiKey.ELECT_LEADERS: forwarding(on_cluster(Operation.ALTER)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: forwarding(on_cluster(Operation.ALTER)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: forwarding(on_cluster(Operation.DESCRIBE)),
    ApiKey.UNREGISTER_BROKER: forwarding(on_cluster(Operation.ALTER)),
    ApiKey.INIT_PRODUCER_ID: Deferred("apis.producer_ids", "handle_init_producer_id"),
    ApiKey.DESCRIBE_PRODUCERS: Deferred("apis.describe_producers", "handle_describe_producers"),
    ApiKey.DESCRIBE_CONFIGS: Deferred("apis.configs", "handle_describe_configs"),
    ApiKey.ALTER_CONFIGS: Deferred("apis.configs", "handle_alter_configs"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Deferred("apis.configs", "handle_incremental_alter_configs"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Deferred("apis.client_quotas", "handle_describe_client_quotas"),
    ApiKey.ALTER_CLIENT_QUOTAS: Deferred("apis.client_quotas", "handle_alter_client_quotas"),
    ApiKey.DESCRIBE_QUORUM: forwarding(on_cluster(Operation.DESCRIBE)),
    ApiKey.UPDATE_FEATURES: Deferred("apis.update_features", "handle_update_features"),
    ApiKey.DESCRIBE_CLUSTER: Deferred("apis.describe_cluster", "handle_describe_cluster"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Deferred("apis.log_dirs", "handle_alter_replica_log_dirs"),
    ApiKey.DESCRIBE_LOG_DIRS: Deferred("apis.log_dirs", "handle_describe_log_dirs"),
    ApiKey.LIST_CONFIG_RESOURCES: Deferred("apis.describe_cluster", "handle_list_config_resources"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Deferred("apis.describe_cluster", "handle_describe_topic_partitions"),
    ApiKey.SASL_HANDSHAKE: Deferred("apis.sasl", "handle_sasl_handshake"),
    ApiKey.SASL_AUTHENTICATE: Deferred("apis.sasl", "handle_sasl_authenticate"),
    ApiKey.DESCRIBE_ACLS: Deferred("apis.acls", "handle_describe_acls"),
    ApiKey.CREATE_ACLS: Deferred("apis.acls", "handle_alter_acls"),
    ApiKey.DELETE_ACLS: Deferred("apis.acls", "handle_alter_acls"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Deferred("apis.scram_credentials", "handle_describe_scram_credentials"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: forwarding(on_cluster(Operation.ALTER)),
    ApiKey.CREATE_DELEGATION_TOKEN: Deferred("apis.delegation_tokens", "handle_create_delegation_token"),
    ApiKey.RENEW_DELEGATION_TOKEN: Deferred("apis.delegation_tokens", "handle_delegation_token"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Deferred("apis.delegation_tokens", "handle_delegation_token"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Deferred("apis.delegation_tokens", "handle_delegation_token"),
}
"""Their collaborators are those of `impl.server.broker.collaborators`."""

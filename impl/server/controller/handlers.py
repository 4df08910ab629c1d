"""The handlers of the controller's requests: one line an API.

What every start of a broker needs is imported at once, the rest when its first request comes
(`impl.server.transport.handlers`).
"""

from __future__ import annotations

from typing import Final

from tidegauge.impl.server.controller.membership import handle_heartbeat, handle_registration
from tidegauge.impl.server.controller.metadata_fetches import handle_fetch
from tidegauge.impl.server.transport.handlers import Deferred, Registered
from tidegauge.impl.wire.apis import ApiKey

CONTROLLER_HANDLERS: Final[dict[ApiKey, Registered]] = {
    ApiKey.FETCH: handle_fetch,
    ApiKey.CREATE_TOPICS: Deferred("controller.topics", "handle_create_topics"),
    ApiKey.DELETE_TOPICS: Deferred("controller.topics", "handle_delete_topics"),
    ApiKey.CREATE_PARTITIONS: Deferred("controller.topics", "handle_create_partitions"),
    ApiKey.ELECT_LEADERS: Deferred("controller.elections", "handle_elect_leaders"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Deferred("controller.reassignments", "handle_alter_partition_reassignments"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Deferred("controller.reassignments", "handle_list_partition_reassignments"),
    ApiKey.UNREGISTER_BROKER: Deferred("controller.unregister_broker", "handle_unregister_broker"),
    ApiKey.ALTER_PARTITION: Deferred("controller.alter_partition", "handle_alter_partition"),
    ApiKey.BROKER_REGISTRATION: handle_registration,
    ApiKey.BROKER_HEARTBEAT: handle_heartbeat,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Deferred("controller.directories", "handle_assign_replicas_to_dirs"),
    ApiKey.ALLOCATE_PRODUCER_IDS: Deferred("controller.producer_ids", "handle_allocate_producer_ids"),
    ApiKey.ALTER_CONFIGS: Deferred("controller.configs", "handle_alter_configs"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Deferred("controller.configs", "handle_incremental_alter_configs"),
    ApiKey.ALTER_CLIENT_QUOTAS: Deferred("controller.client_quotas", "handle_alter_client_quotas"),
    ApiKey.DESCRIBE_QUORUM: Deferred("controller.quorum", "handle_describe_quorum"),
    ApiKey.DESCRIBE_CLUSTER: Deferred("controller.describe_cluster", "handle_describe_cluster"),
    ApiKey.UPDATE_FEATURES: Deferred("controller.features", "handle_update_features"),
    ApiKey.CREATE_ACLS: Deferred("controller.acls", "handle_create_acls"),
    ApiKey.DELETE_ACLS: Deferred("controller.acls", "handle_delete_acls"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Deferred("controller.scram_credentials", "handle_alter_scram_credentials"),
}
"""Their collaborators are those of `impl.server.controller.collaborators`."""

"""The handlers of a broker's requests: one line an API.

What every producer and consumer needs is imported at once, the rest when its first request comes
(`impl.server.transport.handlers`). The modules `absent_…` stand for what is not there yet.
"""

from __future__ import annotations

from typing import Final

from tidegauge.impl.server.apis.fetch import handle_fetch
from tidegauge.impl.server.apis.metadata import handle_metadata
from tidegauge.impl.server.apis.produce import handle_produce
from tidegauge.impl.server.transport.handlers import Deferred, Registered
from tidegauge.impl.wire.apis import ApiKey

BROKER_HANDLERS: Final[dict[ApiKey, Registered]] = {
    ApiKey.PRODUCE: handle_produce,
    ApiKey.FETCH: handle_fetch,
    ApiKey.LIST_OFFSETS: Deferred("apis.offsets", "handle_list_offsets"),
    ApiKey.METADATA: handle_metadata,
    ApiKey.OFFSET_COMMIT: Deferred("apis.group_offsets", "handle_offset_commit"),
    ApiKey.OFFSET_FETCH: Deferred("apis.group_offsets", "handle_offset_fetch"),
    ApiKey.FIND_COORDINATOR: Deferred("apis.coordinators", "handle_find_coordinator"),
    ApiKey.JOIN_GROUP: Deferred("apis.group_members", "handle_join_group"),
    ApiKey.HEARTBEAT: Deferred("apis.group_members", "handle_heartbeat"),
    ApiKey.LEAVE_GROUP: Deferred("apis.group_members", "handle_leave_group"),
    ApiKey.SYNC_GROUP: Deferred("apis.group_members", "handle_sync_group"),
    ApiKey.DESCRIBE_GROUPS: Deferred("apis.groups", "handle_describe_groups"),
    ApiKey.LIST_GROUPS: Deferred("apis.groups", "handle_list_groups"),
    ApiKey.SASL_HANDSHAKE: Deferred("apis.sasl", "handle_sasl_handshake"),
    ApiKey.CREATE_TOPICS: Deferred("apis.topics", "handle_create_topics"),
    ApiKey.DELETE_TOPICS: Deferred("apis.topics", "handle_delete_topics"),
    ApiKey.DELETE_RECORDS: Deferred("apis.delete_records", "handle_delete_records"),
    ApiKey.INIT_PRODUCER_ID: Deferred("apis.producer_ids", "handle_init_producer_id"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Deferred("apis.offsets", "handle_offset_for_leader_epoch"),
    ApiKey.ADD_PARTITIONS_TO_TXN: Deferred("apis.transactions", "handle_add_partitions_to_txn"),
    ApiKey.ADD_OFFSETS_TO_TXN: Deferred("apis.transaction_offsets", "handle_add_offsets_to_txn"),
    ApiKey.END_TXN: Deferred("apis.transactions", "handle_end_txn"),
    ApiKey.WRITE_TXN_MARKERS: Deferred("apis.transaction_markers", "handle_write_txn_markers"),
    ApiKey.TXN_OFFSET_COMMIT: Deferred("apis.transaction_offsets", "handle_txn_offset_commit"),
    ApiKey.DESCRIBE_ACLS: Deferred("apis.acls", "handle_describe_acls"),
    ApiKey.CREATE_ACLS: Deferred("apis.acls", "handle_create_acls"),
    ApiKey.DELETE_ACLS: Deferred("apis.acls", "handle_delete_acls"),
    ApiKey.DESCRIBE_CONFIGS: Deferred("apis.configs", "handle_describe_configs"),
    ApiKey.ALTER_CONFIGS: Deferred("apis.configs", "handle_alter_configs"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Deferred("apis.log_dirs", "handle_alter_replica_log_dirs"),
    ApiKey.DESCRIBE_LOG_DIRS: Deferred("apis.log_dirs", "handle_describe_log_dirs"),
    ApiKey.SASL_AUTHENTICATE: Deferred("apis.sasl", "handle_sasl_authenticate"),
    ApiKey.CREATE_PARTITIONS: Deferred("apis.topics", "handle_create_partitions"),
    ApiKey.CREATE_DELEGATION_TOKEN: Deferred("apis.delegation_tokens", "handle_create_delegation_token"),
    ApiKey.RENEW_DELEGATION_TOKEN: Deferred("apis.delegation_tokens", "handle_renew_delegation_token"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Deferred("apis.delegation_tokens", "handle_expire_delegation_token"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Deferred("apis.delegation_tokens", "handle_describe_delegation_token"),
    ApiKey.DELETE_GROUPS: Deferred("apis.groups", "handle_delete_groups"),
    ApiKey.ELECT_LEADERS: Deferred("apis.reassignments", "handle_elect_leaders"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Deferred("apis.configs", "handle_incremental_alter_configs"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Deferred("apis.reassignments", "handle_alter_partition_reassignments"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Deferred("apis.reassignments", "handle_list_partition_reassignments"),
    ApiKey.OFFSET_DELETE: Deferred("apis.group_offsets", "handle_offset_delete"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Deferred("apis.client_quotas", "handle_describe_client_quotas"),
    ApiKey.ALTER_CLIENT_QUOTAS: Deferred("apis.client_quotas", "handle_alter_client_quotas"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Deferred("apis.scram_credentials", "handle_describe_scram_credentials"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Deferred("apis.scram_credentials", "handle_alter_scram_credentials"),
    ApiKey.DESCRIBE_QUORUM: Deferred("apis.quorum", "handle_describe_quorum"),
    ApiKey.UPDATE_FEATURES: Deferred("apis.update_features", "handle_update_features"),
    ApiKey.DESCRIBE_CLUSTER: Deferred("apis.describe_cluster", "handle_describe_cluster"),
    ApiKey.DESCRIBE_PRODUCERS: Deferred("apis.describe_producers", "handle_describe_producers"),
    ApiKey.UNREGISTER_BROKER: Deferred("apis.quorum", "handle_unregister_broker"),
    ApiKey.DESCRIBE_TRANSACTIONS: Deferred("apis.transactions", "handle_describe_transactions"),
    ApiKey.LIST_TRANSACTIONS: Deferred("apis.transactions", "handle_list_transactions"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Deferred("apis.consumer_groups", "handle_consumer_group_heartbeat"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Deferred("apis.consumer_groups", "handle_consumer_group_describe"),
    ApiKey.LIST_CONFIG_RESOURCES: Deferred("apis.describe_cluster", "handle_list_config_resources"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Deferred("apis.describe_cluster", "handle_describe_topic_partitions"),
    ApiKey.SHARE_GROUP_HEARTBEAT: Deferred("apis.absent_share_groups", "handle_share_group_heartbeat"),
    ApiKey.SHARE_GROUP_DESCRIBE: Deferred("apis.absent_share_groups", "handle_share_group_describe"),
    ApiKey.SHARE_FETCH: Deferred("apis.absent_share_groups", "handle_share_fetch"),
    ApiKey.SHARE_ACKNOWLEDGE: Deferred("apis.absent_share_groups", "handle_share_acknowledge"),
    ApiKey.ADD_RAFT_VOTER: Deferred("apis.quorum", "handle_add_raft_voter"),
    ApiKey.REMOVE_RAFT_VOTER: Deferred("apis.quorum", "handle_remove_raft_voter"),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Deferred(
        "apis.absent_share_group_state", "handle_initialize_share_group_state"
    ),
    ApiKey.READ_SHARE_GROUP_STATE: Deferred("apis.absent_share_group_state", "handle_read_share_group_state"),
    ApiKey.WRITE_SHARE_GROUP_STATE: Deferred("apis.absent_share_group_state", "handle_write_share_group_state"),
    ApiKey.DELETE_SHARE_GROUP_STATE: Deferred("apis.absent_share_group_state", "handle_delete_share_group_state"),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Deferred(
        "apis.absent_share_group_state", "handle_read_share_group_state_summary"
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Deferred("apis.absent_streams_groups", "handle_streams_group_heartbeat"),
    ApiKey.STREAMS_GROUP_DESCRIBE: Deferred("apis.absent_streams_groups", "handle_streams_group_describe"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Deferred("apis.absent_share_groups", "handle_describe_share_group_offsets"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Deferred("apis.absent_share_groups", "handle_alter_share_group_offsets"),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Deferred("apis.absent_share_groups", "handle_delete_share_group_offsets"),
}
"""Their collaborators are those of `impl.server.broker.collaborators`."""

"""The response to a request that fails as a whole: every item that the request names, with the error.

Clients look for the error of each item that they asked for. A response that left them out would read as one about
nothing. Each API has a function of its own, `(request, error, message) -> response`, which works in slices, for a
request may name much; the table says where it is. It is imported when the first such response is made: the classes of
one API's messages take some milliseconds to make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tidegauge.impl.records.slices import Sliced, at_once
from tidegauge.impl.wire.apis import ApiKey

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

ErrorResponse: TypeAlias = "Callable[[Any, ErrorCode, str], Sliced[Any]]"
"""(request, error, message) -> the response; without a message the error's name stands for it."""


def error_response(request: Any, error: ErrorCode, message: str = "") -> Any:
    """The response that gives a canonical request this error, and everything that the request names."""
    return at_once(making_error_response(request, error, message))


def making_error_response(request: Any, error: ErrorCode, message: str = "") -> Sliced[Any]:
    """The same in slices."""
    return function_of(ApiKey(request.__api_key__))(request, error, message)


@cache
def function_of(api_key: ApiKey) -> ErrorResponse:
    """The function that makes an API's error response. Raises KeyError for an API without one."""
    module, _, name = ERROR_RESPONSES[api_key].partition(".")
    function: ErrorResponse = getattr(import_module(f"tidegauge.impl.server.error_responses.{module}"), name)
    return function


ERROR_RESPONSES: Final[Mapping[ApiKey, str]] = MappingProxyType(
    {
        ApiKey.PRODUCE: "records.produce_error",
        ApiKey.FETCH: "records.fetch_error",
        ApiKey.LIST_OFFSETS: "offsets.list_offsets_error",
        ApiKey.METADATA: "metadata.metadata_error",
        ApiKey.OFFSET_COMMIT: "group_offsets.offset_commit_error",
        ApiKey.OFFSET_FETCH: "group_offsets.offset_fetch_error",
        ApiKey.FIND_COORDINATOR: "group_offsets.find_coordinator_error",
        ApiKey.JOIN_GROUP: "groups.join_group_error",
        ApiKey.HEARTBEAT: "groups.heartbeat_error",
        ApiKey.LEAVE_GROUP: "groups.leave_group_error",
        ApiKey.SYNC_GROUP: "groups.sync_group_error",
        ApiKey.DESCRIBE_GROUPS: "groups.describe_groups_error",
        ApiKey.LIST_GROUPS: "groups.list_groups_error",
        ApiKey.SASL_HANDSHAKE: "credentials.sasl_handshake_error",
        ApiKey.API_VERSIONS: "features.api_versions_error",
        ApiKey.CREATE_TOPICS: "topics.create_topics_error",
        ApiKey.DELETE_TOPICS: "topics.delete_topics_error",
        ApiKey.DELETE_RECORDS: "offsets.delete_records_error",
        ApiKey.INIT_PRODUCER_ID: "transactions.init_producer_id_error",
        ApiKey.OFFSET_FOR_LEADER_EPOCH: "offsets.offset_for_leader_epoch_error",
        ApiKey.ADD_PARTITIONS_TO_TXN: "transactions.add_partitions_to_txn_error",
        ApiKey.ADD_OFFSETS_TO_TXN: "transactions.add_offsets_to_txn_error",
        ApiKey.END_TXN: "transactions.end_txn_error",
        ApiKey.WRITE_TXN_MARKERS: "transactions.write_txn_markers_error",
        ApiKey.TXN_OFFSET_COMMIT: "transactions.txn_offset_commit_error",
        ApiKey.DESCRIBE_ACLS: "acls.describe_acls_error",
        ApiKey.CREATE_ACLS: "acls.create_acls_error",
        ApiKey.DELETE_ACLS: "acls.delete_acls_error",
        ApiKey.DESCRIBE_CONFIGS: "configs.describe_configs_error",
        ApiKey.ALTER_CONFIGS: "configs.alter_configs_error",
        ApiKey.ALTER_REPLICA_LOG_DIRS: "log_dirs.alter_replica_log_dirs_error",
        ApiKey.DESCRIBE_LOG_DIRS: "log_dirs.describe_log_dirs_error",
        ApiKey.SASL_AUTHENTICATE: "credentials.sasl_authenticate_error",
        ApiKey.CREATE_PARTITIONS: "topics.create_partitions_error",
        ApiKey.CREATE_DELEGATION_TOKEN: "credentials.create_delegation_token_error",
        ApiKey.RENEW_DELEGATION_TOKEN: "credentials.renew_delegation_token_error",
        ApiKey.EXPIRE_DELEGATION_TOKEN: "credentials.expire_delegation_token_error",
        ApiKey.DESCRIBE_DELEGATION_TOKEN: "credentials.describe_delegation_token_error",
        ApiKey.DELETE_GROUPS: "groups.delete_groups_error",
        ApiKey.ELECT_LEADERS: "elections.elect_leaders_error",
        ApiKey.INCREMENTAL_ALTER_CONFIGS: "configs.incremental_alter_configs_error",
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: "reassignments.alter_partition_reassignments_error",
        ApiKey.LIST_PARTITION_REASSIGNMENTS: "reassignments.list_partition_reassignments_error",
        ApiKey.OFFSET_DELETE: "group_offsets.offset_delete_error",
        ApiKey.DESCRIBE_CLIENT_QUOTAS: "client_quotas.describe_client_quotas_error",
        ApiKey.ALTER_CLIENT_QUOTAS: "client_quotas.alter_client_quotas_error",
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "credentials.describe_user_scram_credentials_error",
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "credentials.alter_user_scram_credentials_error",
        ApiKey.DESCRIBE_QUORUM: "cluster.describe_quorum_error",
        ApiKey.ALTER_PARTITION: "brokers.alter_partition_error",
        ApiKey.UPDATE_FEATURES: "features.update_features_error",
        ApiKey.DESCRIBE_CLUSTER: "cluster.describe_cluster_error",
        ApiKey.DESCRIBE_PRODUCERS: "offsets.describe_producers_error",
        ApiKey.BROKER_REGISTRATION: "brokers.broker_registration_error",
        ApiKey.BROKER_HEARTBEAT: "brokers.broker_heartbeat_error",
        ApiKey.UNREGISTER_BROKER: "brokers.unregister_broker_error",
        ApiKey.DESCRIBE_TRANSACTIONS: "transactions.describe_transactions_error",
        ApiKey.LIST_TRANSACTIONS: "transactions.list_transactions_error",
        ApiKey.ALLOCATE_PRODUCER_IDS: "brokers.allocate_producer_ids_error",
        ApiKey.CONSUMER_GROUP_HEARTBEAT: "groups.consumer_group_heartbeat_error",
        ApiKey.CONSUMER_GROUP_DESCRIBE: "groups.consumer_group_describe_error",
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: "log_dirs.assign_replicas_to_dirs_error",
        ApiKey.LIST_CONFIG_RESOURCES: "configs.list_config_resources_error",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: "cluster.describe_topic_partitions_error",
        ApiKey.SHARE_GROUP_HEARTBEAT: "share_groups.share_group_heartbeat_error",
        ApiKey.SHARE_GROUP_DESCRIBE: "share_groups.share_group_describe_error",
        ApiKey.SHARE_FETCH: "share_groups.share_fetch_error",
        ApiKey.SHARE_ACKNOWLEDGE: "share_groups.share_acknowledge_error",
        ApiKey.ADD_RAFT_VOTER: "features.add_raft_voter_error",
        ApiKey.REMOVE_RAFT_VOTER: "features.remove_raft_voter_error",
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: "share_group_state.initialize_share_group_state_error",
        ApiKey.READ_SHARE_GROUP_STATE: "share_group_state.read_share_group_state_error",
        ApiKey.WRITE_SHARE_GROUP_STATE: "share_group_state.write_share_group_state_error",
        ApiKey.DELETE_SHARE_GROUP_STATE: "share_group_state.delete_share_group_state_error",
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "share_group_state.read_share_group_state_summary_error",
        ApiKey.STREAMS_GROUP_HEARTBEAT: "groups.streams_group_heartbeat_error",
        ApiKey.STREAMS_GROUP_DESCRIBE: "groups.streams_group_describe_error",
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "share_groups.describe_share_group_offsets_error",
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: "share_groups.alter_share_group_offsets_error",
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: "share_groups.delete_share_group_offsets_error",
    }
)
"""Module and function of each API."""

"""Which API is answered how while `impl.server.apis.absent_coordinators` stands for what is not there."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.server.apis.absent_coordinators import (
    NO_SHARE_GROUPS,
    handle_describe_groups,
    handle_find_coordinator,
    handle_list_groups,
    handle_list_transactions,
    handle_offset_commit,
    handle_offset_fetch,
    on_each_group,
    on_group,
    on_transaction,
    refusing,
    refusing_each,
)
from tidegauge.impl.server.apis.absent_topics import (
    handle_add_partitions_to_txn,
    handle_consumer_group_heartbeat,
    handle_offset_delete,
    handle_txn_offset_commit,
)
from tidegauge.impl.server.broker.forwarding import on_cluster
from tidegauge.impl.server.transport.authorization import Operation
from tidegauge.impl.server.transport.handlers import HandlerFunction
from tidegauge.impl.wire.apis import ApiKey

READ, WRITE, DESCRIBE, DELETE = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.DELETE
ALTER, CLUSTER_ACTION = Operation.ALTER, Operation.CLUSTER_ACTION
OFF: Final = ErrorCode.unsupported_version
STRANGER: Final = ErrorCode.unknown_member_id
NOT_FOUND: Final = ErrorCode.group_id_not_found
NO_TRANSACTION: Final = ErrorCode.invalid_producer_id_mapping
NO_STREAMS_GROUPS: Final = "there are no streams groups here"
ONE_VOTER: Final = "the quorum's voters do not change: kraft.version is 0"

_GROUPS: Final[dict[ApiKey, HandlerFunction]] = {
    ApiKey.FIND_COORDINATOR: handle_find_coordinator,
    ApiKey.OFFSET_COMMIT: handle_offset_commit,
    ApiKey.OFFSET_FETCH: handle_offset_fetch,
    ApiKey.JOIN_GROUP: refusing(OFF, on_group(READ)),
    ApiKey.HEARTBEAT: refusing(STRANGER, on_group(READ)),
    ApiKey.LEAVE_GROUP: refusing(STRANGER, on_group(READ)),
    ApiKey.SYNC_GROUP: refusing(STRANGER, on_group(READ)),
    ApiKey.DESCRIBE_GROUPS: handle_describe_groups,
    ApiKey.LIST_GROUPS: handle_list_groups,
    ApiKey.DELETE_GROUPS: refusing_each("groups_names", "results", NOT_FOUND, on_each_group(DELETE)),
    ApiKey.OFFSET_DELETE: handle_offset_delete,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: handle_consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: refusing_each("group_ids", "groups", NOT_FOUND, on_each_group(DESCRIBE)),
}

_TRANSACTIONS: Final[dict[ApiKey, HandlerFunction]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: handle_add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: refusing(NO_TRANSACTION, on_transaction(WRITE, group=True)),
    ApiKey.END_TXN: refusing(NO_TRANSACTION, on_transaction(WRITE)),
    ApiKey.WRITE_TXN_MARKERS: refusing(OFF, on_cluster(CLUSTER_ACTION)),
    ApiKey.TXN_OFFSET_COMMIT: handle_txn_offset_commit,
    ApiKey.DESCRIBE_TRANSACTIONS: refusing_each(
        "transactional_ids", "transaction_states", ErrorCode.transactional_id_not_found, on_transaction(DESCRIBE)
    ),
    ApiKey.LIST_TRANSACTIONS: handle_list_transactions,
}

_SHARE_GROUPS: Final[dict[ApiKey, HandlerFunction]] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: refusing(OFF, on_group(READ), NO_SHARE_GROUPS),
    ApiKey.SHARE_GROUP_DESCRIBE: refusing_each("group_ids", "groups", OFF, on_each_group(DESCRIBE), NO_SHARE_GROUPS),
    ApiKey.SHARE_FETCH: refusing(OFF, on_group(READ), NO_SHARE_GROUPS),
    ApiKey.SHARE_ACKNOWLEDGE: refusing(OFF, on_group(READ), NO_SHARE_GROUPS),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: refusing(OFF, on_cluster(CLUSTER_ACTION), NO_SHARE_GROUPS),
    ApiKey.READ_SHARE_GROUP_STATE: refusing(OFF, on_cluster(CLUSTER_ACTION), NO_SHARE_GROUPS),
    ApiKey.WRITE_SHARE_GROUP_STATE: refusing(OFF, on_cluster(CLUSTER_ACTION), NO_SHARE_GROUPS),
    ApiKey.DELETE_SHARE_GROUP_STATE: refusing(OFF, on_cluster(CLUSTER_ACTION), NO_SHARE_GROUPS),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: refusing(OFF, on_cluster(CLUSTER_ACTION), NO_SHARE_GROUPS),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: refusing_each(
        "groups", "groups", OFF, on_each_group(DESCRIBE), NO_SHARE_GROUPS
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: refusing(OFF, on_group(READ), NO_SHARE_GROUPS),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: refusing(OFF, on_group(DELETE), NO_SHARE_GROUPS),
}

_OTHERS: Final[dict[ApiKey, HandlerFunction]] = {
    ApiKey.STREAMS_GROUP_HEARTBEAT: refusing(OFF, on_group(READ), NO_STREAMS_GROUPS),
    ApiKey.STREAMS_GROUP_DESCRIBE: refusing_each(
        "group_ids", "groups", OFF, on_each_group(DESCRIBE), NO_STREAMS_GROUPS
    ),
    ApiKey.ADD_RAFT_VOTER: refusing(OFF, on_cluster(ALTER), ONE_VOTER),
    ApiKey.REMOVE_RAFT_VOTER: refusing(OFF, on_cluster(ALTER), ONE_VOTER),
}

ABSENT: Final[dict[ApiKey, HandlerFunction]] = {**_GROUPS, **_TRANSACTIONS, **_SHARE_GROUPS, **_OTHERS}
"""The handlers of what is not there."""

"""The state of share groups, which brokers keep for each other (KIP-932): UNSUPPORTED_VERSION, for there is none."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.server.error_responses.share_group_state import (
    delete_share_group_state_error,
    initialize_share_group_state_error,
    read_share_group_state_error,
    read_share_group_state_summary_error,
    write_share_group_state_error,
)
from tidegauge.impl.server.requests.refusals import on_cluster, refuse
from tidegauge.impl.server.transport.authorization import Operation

NO_SHARE_GROUPS: Final = "there are no share groups here"
OFF: Final = ErrorCode.unsupported_version
_BROKERS_ONLY: Final = on_cluster(Operation.CLUSTER_ACTION)

handle_initialize_share_group_state: Final = refuse(
    initialize_share_group_state_error, _BROKERS_ONLY, OFF, NO_SHARE_GROUPS
)
handle_read_share_group_state: Final = refuse(read_share_group_state_error, _BROKERS_ONLY, OFF, NO_SHARE_GROUPS)
handle_write_share_group_state: Final = refuse(write_share_group_state_error, _BROKERS_ONLY, OFF, NO_SHARE_GROUPS)
handle_delete_share_group_state: Final = refuse(delete_share_group_state_error, _BROKERS_ONLY, OFF, NO_SHARE_GROUPS)
handle_read_share_group_state_summary: Final = refuse(
    read_share_group_state_summary_error, _BROKERS_ONLY, OFF, NO_SHARE_GROUPS
)

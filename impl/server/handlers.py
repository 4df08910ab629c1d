"""Who answers what at a broker: one line an API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from impl.server.cluster_requests import handle_create_topics, handle_elect_leaders
from impl.server.fetch import handle_fetch
from impl.server.metadata_requests import handle_metadata
from impl.server.offsets import handle_list_offsets, handle_offset_for_leader_epoch
from impl.server.produce import handle_produce
from impl.wire.apis import ApiKey

HANDLERS: Final[dict[ApiKey, Callable[..., Awaitable[Any]]]] = {
    ApiKey.PRODUCE: handle_produce,
    ApiKey.FETCH: handle_fetch,
    ApiKey.LIST_OFFSETS: handle_list_offsets,
    ApiKey.METADATA: handle_metadata,
    ApiKey.CREATE_TOPICS: handle_create_topics,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: handle_offset_for_leader_epoch,
    ApiKey.ELECT_LEADERS: handle_elect_leaders,
}
"""Each is called with (broker, request, context)."""

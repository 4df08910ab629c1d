"""How many elements a request of each API may have.

The limit of an API follows from how its handler goes through the elements: in slices, by decisions of the controller
one after the other, or all at once. A new handler has the smallest until it is written in slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegauge.impl.wire.apis import INTER_BROKER_APIS, ApiKey
from tidegauge.impl.wire.budget import MAX_ELEMENTS

IN_SLICES: Final = 10_000
"""Of a request whose handler goes through its elements in slices."""
DECIDED: Final = 20_000
"""Of a request that the controller decides about; Kafka bounds one decision to 10,000 records."""
AT_ONCE: Final = 1_000
"""Of a request whose handler goes through its elements at once."""

_IN_SLICES: Final = (
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.PRODUCE,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.SYNC_GROUP,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DELETE_RECORDS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
)
_DECIDED: Final = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.ELECT_LEADERS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.ALTER_CLIENT_QUOTAS,
)
ELEMENT_LIMITS: Final[Mapping[int, int]] = {
    **dict.fromkeys(_IN_SLICES, IN_SLICES),
    **dict.fromkeys((ApiKey.FETCH, *INTER_BROKER_APIS), MAX_ELEMENTS),
    **dict.fromkeys(_DECIDED, DECIDED),
}
"""By API; one that is not here has `AT_ONCE`. Between nodes there are as many as there are partitions."""


def most_elements(api_key: int) -> int:
    """Elements that a request of this API may have."""
    return ELEMENT_LIMITS.get(api_key, AT_ONCE)

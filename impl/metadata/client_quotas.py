"""Client quotas: whom one is for, and what it limits (KIP-13, KIP-124, KIP-546, KIP-599, KIP-612).

A quota belongs to an entity: a user, a client id, both together, or an IP address. A part of an entity may be the
default, which stands for every client that has no quota of its own. The controller writes quotas, brokers enforce them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
"""Bytes per second."""
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
"""Bytes per second."""
REQUEST_PERCENTAGE: Final = "request_percentage"
"""Percent of the time of one thread."""
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
"""Partitions created or deleted per second."""
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
"""Connections per second."""


class QuotaEntity(NamedTuple):
    """Whom a quota is for. None: that part is not in the entity. "": the default of that part."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

"""The way from a client to a partition's leader."""

from __future__ import annotations

import attrs

from tidegauge.impl.ports.network import Address


@attrs.frozen
class Route:
    """A partition, and its leader as far as a client knows."""

    topic: str
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    address: Address

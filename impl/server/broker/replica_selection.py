"""Replica selection: the replica that a consumer should read from (KIP-392).

With the rack-aware selector a leader tells a consumer that names its rack which replica to read from, and the consumer
reads from that replica until it is told otherwise. The replica is a follower in the ISR, in the consumer's rack, with
the offset that the consumer asks for; of several, the one with the most records. A leader in the consumer's rack names
no other replica. A follower serves records below the high watermark that it knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.impl.server.requests.reads import NO_PREFERENCE
from tidegauge.impl.server.settings.server_config import RACK_AWARE_SELECTOR

if TYPE_CHECKING:
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.partition import Partition
    from tidegauge.impl.server.settings.server_config import ServerConfig


class ReplicaSelector:
    """The replica.selector.class of one broker."""

    def __init__(self, config: ServerConfig, metadata: MetadataCache, rack: str | None) -> None:
        """`rack` is the broker's own."""
        self._is_rack_aware = config.replica_selector_class == RACK_AWARE_SELECTOR
        self._metadata = metadata
        self._rack = rack

    def preferred(self, partition: Partition, rack: str, offset: int) -> int:
        """The follower that a consumer in `rack` should read from at `offset`; -1 for the leader."""
        if not rack or not self._is_rack_aware:
            return NO_PREFERENCE
        replica, brokers = partition.replica, self._metadata.image.brokers
        if not replica.is_leader or self._rack == rack:
            return NO_PREFERENCE
        in_rack = [
            (remote.log_end_offset, remote.last_caught_up_ms, follower)
            for follower, remote in replica.remote_replicas.items()
            if follower in replica.isr
            and remote.log_end_offset >= offset
            and (registered := brokers.get(follower)) is not None
            and not registered.fenced
            and registered.rack == rack
        ]
        return max(in_rack)[-1] if in_rack else NO_PREFERENCE

"""Which replica a consumer had better read from (KIP-392).

A leader tells a consumer that names its rack of a replica there, and the consumer reads from that one until it is told
otherwise. Only followers of the ISR count that hold the offset asked for; among those in the rack it is the one that
holds most, and the leader itself where it is in the rack. A follower serves what is below the high watermark that it
knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidegauge.impl.server.broker.partition import Partition
    from tidegauge.impl.server.broker_server import Broker

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
NO_PREFERENCE: Final = -1


def preferred_read_replica(broker: Broker, partition: Partition, rack: str, offset: int) -> int:
    """The follower from which a consumer in `rack` had better read; -1 for the leader, which this broker is."""
    if not rack or broker.config.current.replica_selector_class != RACK_AWARE_SELECTOR:
        return NO_PREFERENCE
    replica, brokers = partition.replica, broker.metadata.image.brokers
    if not replica.is_leader or broker.rack == rack:
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

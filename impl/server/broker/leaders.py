"""Who leads a partition, and where that broker listens: for clients that have asked another one (KIP-951)."""

from __future__ import annotations

from collections.abc import Collection

from tidegauge.impl.server.broker.hosted_partitions import HostedPartitions
from tidegauge.impl.server.broker.metadata_cache import MetadataCache
from tidegauge.impl.wire.produce_messages import NodeEndpoint

UNKNOWN_LEADER = (-1, -1)


def known_leader(hosted: HostedPartitions, metadata: MetadataCache, topic: str, index: int) -> tuple[int, int]:
    """(leader, leader epoch) as the replica here knows them, or else the metadata; -1 each when neither does."""
    if (partition := hosted.get(topic, index)) is not None:
        return partition.replica.leader, partition.replica.leader_epoch
    registration = metadata.image.partition(topic, index)
    return UNKNOWN_LEADER if registration is None else (registration.leader, registration.leader_epoch)


def node_endpoints(metadata: MetadataCache, leaders: Collection[int], listener: str) -> list[NodeEndpoint]:
    """Where these brokers listen, for a client that came by `listener`; -1 among the leaders stands for none."""
    if not any(leader >= 0 for leader in leaders):
        return []
    return [
        NodeEndpoint(leader, address.host, address.port, rack)
        for leader, address, rack in metadata.endpoints(listener, fenced=True)
        if leader in leaders
    ]

"""The cluster as clients are told of it: what Metadata, DescribeCluster and DescribeTopicPartitions have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.primitives import BrokerId

if TYPE_CHECKING:
    from tidegauge.impl.server.transport.context import RequestContext

NO_BROKER: Final = -1


def a_live_broker(image: ClusterImage) -> BrokerId:
    """The broker that clients take for the controller. They cannot reach that one, and any broker forwards to it."""
    live = image.unfenced_brokers()
    return BrokerId(live[0].broker_id if live else NO_BROKER)


def cluster_operations(context: RequestContext) -> int:
    """The operations that a client may do to the cluster, as a bit field; 0 for one that may not describe it."""
    may_describe = context.allowed(Operation.DESCRIBE, ResourceType.CLUSTER)
    return context.operations(ResourceType.CLUSTER) if may_describe else 0


def without_listener(image: ClusterImage, listener: str) -> frozenset[int]:
    """The brokers without a listener of this name, which a client of that listener cannot reach."""
    return frozenset(broker_id for broker_id, broker in image.brokers.items() if broker.endpoint(listener) is None)


def broker_ids(brokers: Iterable[int]) -> tuple[BrokerId, ...]:
    """Brokers as they stand in responses."""
    return tuple(map(BrokerId, brokers))


def offline_replicas(
    image: ClusterImage, registration: PartitionRegistration, unreachable: frozenset[int]
) -> tuple[BrokerId, ...]:
    """The replicas of a partition whose broker is fenced or unreachable, or whose log directory has failed."""
    return broker_ids(
        replica
        for replica in registration.replicas
        if not image.is_unfenced(replica) or replica in unreachable or replica in registration.offline_replicas
    )

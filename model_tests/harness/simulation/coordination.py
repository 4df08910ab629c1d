"""The coordinators of a simulated cluster, looked at from outside: which transactions are under way, and where.

Nodes notice nothing of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from tidegauge.impl.client.coordinators import GROUP, TRANSACTION
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.coordinators.transactions.metadata import PREPARED, TransactionMetadata, TransactionStatus
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.wire.primitives import i8
from tidegauge.model_tests.harness.simulation.transacting import GROUP as GROUP_ID

COORDINATED: Final = {TRANSACTION: TRANSACTION_STATE, GROUP: CONSUMER_OFFSETS}
UNDER_WAY: Final = (TransactionStatus.ONGOING, *PREPARED)

PREPARED_CUT: Final = "a coordinator crashed with a prepared transaction"
OPEN_CUT: Final = "a leader crashed with an open transaction"
OFFSETS_CUT: Final = "a coordinator of a group crashed while a transaction had offsets pending"
CUT: Final = (PREPARED_CUT, OPEN_CUT, OFFSETS_CUT)
"""What a crash may cut in two."""


async def begin_coordinating(cluster: Cluster) -> None:
    """Have the logs of the coordinators created, and wait until they are replicated as they are to be."""
    async with cluster.client("before") as client:
        for key_type in COORDINATED:
            await client.ask_once(FindCoordinatorRequest(key_type=i8(key_type), coordinator_keys=(GROUP_ID,)))
    for topic in COORDINATED.values():
        for partition in cluster.controller.controller.image.topics[topic].partitions:
            await cluster.wait_for_isr(topic, cluster.replicas(topic, partition), partition)


def coordinated(cluster: Cluster, broker: int) -> Iterator[tuple[str, TransactionMetadata]]:
    """(transactional id, what the broker knows of it) of those that it coordinates."""
    for partition in cluster.broker(broker).transactions.core().partitions.values():
        for transactional_id, one in partition.ids.items():
            if one.cached is not None:
                yield transactional_id, one.cached


def led(cluster: Cluster) -> Iterator[tuple[str, Partition]]:
    """(topic and number, as its leader has it) of every partition with a live leader that knows that it leads."""
    for name, topic in sorted(cluster.controller.controller.image.topics.items()):
        for partition, known in topic.partitions.items():
            if known.leader >= 0 and cluster.is_alive(known.leader):
                hosted = cluster.broker(known.leader).replicas.get(name, partition)
                if hosted is not None and hosted.replica.is_leader:
                    yield f"{name}-{partition}", hosted


def undecided(cluster: Cluster) -> Iterator[str]:
    """Transactions that are not at their end, at coordinators and at leaders, and readers that are held back."""
    for broker in range(cluster.size):
        for transactional_id, known in coordinated(cluster, broker) if cluster.is_alive(broker) else ():
            if known.status in UNDER_WAY:
                yield f"the transaction of {transactional_id!r} at broker {broker} is {known.status.name}"
    for name, partition in led(cluster):
        replica = partition.replica
        for producer in replica.log.producers.transactions.open:
            yield f"{name} has an open transaction of producer {producer}"
        if replica.last_stable_offset != replica.high_watermark:
            yield f"{name} is stable to {replica.last_stable_offset}, its high watermark is {replica.high_watermark}"


def cut_in_two(cluster: Cluster, broker: int) -> Counter[str]:
    """What of transactions a crash of a broker interrupts."""
    seen: Counter[str] = Counter()
    seen[PREPARED_CUT] += any(known.status in PREPARED for _, known in coordinated(cluster, broker))
    for name, partition in led(cluster):
        if cluster.broker(broker).replicas.get(*partition.key) is partition:
            is_open = bool(partition.replica.log.producers.transactions.open)
            seen[OFFSETS_CUT if name.startswith(CONSUMER_OFFSETS) else OPEN_CUT] += is_open
    return seen

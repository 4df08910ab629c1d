"""When a healed cluster has settled: nothing that clients or operators asked for is under way, and its partitions have
converged.

A client that gives up takes back nothing of what it has sent. Its request may wait at a broker that waits for the
controller, and be carried out seconds later. Until then no look at the cluster says how it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import CONTROLLER, broker_name
from tidegauge.impl.records.payload import decode_batches
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.storage.log import Log
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.model_tests.harness.simulation.options import Options
from tidegauge.model_tests.harness.simulation.recreation import partitions_of

FORWARDED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.UNREGISTER_BROKER,
    }
)
"""What operators ask of the controller, by way of a broker."""


def under_way(cluster: Cluster) -> Iterator[str]:
    """Requests of clients and operators that may still be carried out."""
    nodes = {CONTROLLER, *map(broker_name, range(cluster.size))}
    for source, destination, api_key in cluster.host.simulated("requests under way").links.under_way():
        if source not in nodes or api_key in FORWARDED:
            yield f"a request of {source} to {destination} is under way: {ApiKey(api_key).name}"


def unsettled(cluster: Cluster, options: Options) -> list[str]:
    """Why the partitions have not converged; empty when they have."""
    found: list[str] = []
    for topic, partition in partitions_of(options):
        name, replicas = f"{topic}-{partition}", cluster.replicas(topic, partition)
        leader, isr = cluster.leader(topic, partition), cluster.isr(topic, partition)
        believers = [broker.id for broker in cluster.brokers if thinks_it_leads(broker, topic, partition)]
        if leader == -1:
            found.append(f"{name} has no leader")
        elif believers != [leader]:
            found.append(f"{name} is led by broker {leader}, and brokers {believers} think that they lead it")
        elif cluster.is_reassigned(topic, partition):
            found.append(f"{name} is still on its way to {replicas}")
        elif isr != tuple(sorted(replicas)):
            found.append(f"{name} has the ISR {isr} of {replicas}")
        else:
            logs = [cluster.broker(broker).replicas.get(topic, partition) for broker in replicas]
            start = max((hosted.log.log_start_offset for hosted in logs if hosted is not None), default=0)
            contents = {
                (hosted.replica.high_watermark, hosted.log.log_end_offset, read_from(hosted.log, start))
                for hosted in logs
                if hosted is not None
            }
            if None in logs or len(contents) != 1:
                found.append(f"the replicas of {name} differ")
            elif any(high_watermark != end for high_watermark, end, _ in contents):
                found.append(f"the high watermark of {name} is behind its end")
    return found


def thinks_it_leads(broker: Broker, topic: str, partition: int) -> bool:
    """Whether a broker leads, or has not yet applied the metadata by which another does."""
    hosted = broker.replicas.get(topic, partition)
    return hosted is not None and hosted.replica.is_leader


def read_from(log: Log, offset: int) -> tuple[tuple[int, bytes | None], ...]:
    """(offset, value) of every record from `offset` on, whatever segments they are in."""
    found: list[tuple[int, bytes | None]] = []
    while offset < log.log_end_offset:
        records = [record for record in decode_batches(log.read(offset, log.size + 1)) if record.offset >= offset]
        found += [(record.offset, record.value) for record in records]
        offset = records[-1].offset + 1
    return tuple(found)

"""A description of a cluster, for the report of a test that failed."""

from __future__ import annotations

from collections.abc import Iterator

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name


def describe(cluster: Cluster, decisions: int = 0) -> Iterator[str]:
    """Lines: how it was made, which brokers are up, the faults injected, and the latest decisions of its nodes.

    Every time is in seconds since it began to start; a decision's is by the clock of its node, which a fault may have
    set. Reads only, and may be called from any thread.
    """
    yield f"brokers={cluster.size} seed={cluster.seed} config={dict(cluster.options.properties)}"
    for broker_id in range(cluster.size):
        yield f"broker {broker_id}: {_state(cluster, broker_id)}"
    faults = cluster.fault_log.entries
    yield f"faults injected ({len(faults)}):" if faults else "no faults injected"
    yield from (f"  {fault}" for fault in faults)
    applied = [injection for injection in cluster.request_faults.injections if injection.hits or injection.remaining]
    for injection in applied:
        yield f"  in force: {type(injection).__name__} of {injection.where}, applied to {injection.hits} requests"
    if decisions and cluster.trace:
        yield f"the last {min(decisions, len(cluster.trace))} of {len(cluster.trace)} decisions (time, node, decision):"
        for event in cluster.trace[-decisions:]:
            _, _, decided = str(event).partition(" ")
            yield f"  {(event.time - cluster.fault_log.started_ms) / 1000:9.3f} s  {decided}"


def _state(cluster: Cluster, broker_id: int) -> str:
    if not cluster.is_alive(broker_id):
        return "down"
    return "paused" if cluster.host.links.is_paused(broker_name(broker_id)) else "up"

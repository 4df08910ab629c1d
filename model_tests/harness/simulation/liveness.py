"""Liveness before everything is healed: a leader crashes and stays down, and the others go on without it.

When the faults of a run have ended and what they have broken is whole again, a leader crashes, before anything has
settled. Two things must happen while that broker is down:

* Within its session time and `MARGIN` (see `replaced_within`), each partition has a live leader, which knows of it.
  That is asked where a candidate lives: a member of the ISR or of the ELR, or the last known leader where both are
  empty. It is the goal "a live candidate leads" of the specification, with a time.
* Within a further `replica.lag.time.max.ms`, each partition takes a produce with acks=all. That is asked where as many
  replicas live as min.insync.replicas wants, one of them as the leader. It is asked no more where min.insync.replicas
  has been raised meanwhile: an operator's request may have been on its way for as long as a connection takes to be
  given up.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import attrs
import trio

from tidegauge.impl.client.client import ALL, Client
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.partition.registration import NO_LEADER, PartitionRegistration
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.model_tests.harness.simulation.faults import Injector
from tidegauge.model_tests.harness.simulation.options import Options
from tidegauge.model_tests.harness.simulation.recorder import Recorder
from tidegauge.model_tests.harness.simulation.workload import CLIENT, TOPIC

MARGIN = 0.5
"""Virtual seconds: a heartbeat, two fetches of metadata, an ISR change."""
SURVIVORS = "survivors"
FIRST_VALUE = 2_000_000_000
"""Values that no other client writes begin here."""


@attrs.frozen
class WithoutALeader:
    """How the cluster went on."""

    problems: tuple[str, ...] = ()
    replaced: int = 0
    """Partitions that the crashed broker led and that another one leads now."""
    written: int = 0
    """Partitions that took a write while it was down."""


async def without_a_leader(
    cluster: Cluster, options: Options, recorder: Recorder, injector: Injector
) -> WithoutALeader:
    """End all faults, crash a leader, and see that the others go on; the broker stays down."""
    await injector.heal()
    leaders = [cluster.leader(TOPIC, partition) for partition in range(options.partitions)]
    victim = next((leader for leader in leaders if is_up(cluster, leader) and not injector.spares(leader)), None)
    if victim is None:
        return WithoutALeader()
    led = [partition for partition, leader in enumerate(leaders) if leader == victim]
    await injector.kill(victim)
    began, limit = trio.current_time(), replaced_within(cluster.config)
    with trio.move_on_at(began + limit):
        while any(leaderless(cluster, options)):  # noqa: ASYNC110 - there is no one event to wait for
            await trio.sleep(0.05)
    late = [f"{why} {limit:.1f} s after broker {victim} crashed" for why in leaderless(cluster, options)]
    replaced = sum(leads(cluster, cluster.leader(TOPIC, partition), partition) for partition in led)
    if late:
        return WithoutALeader(tuple(late), replaced)
    limit += cluster.config.replica_lag_time_max_ms / 1000
    writable = list(writable_partitions(cluster, options))
    refused = list(writable)
    with trio.move_on_at(began + limit):
        async with cluster.client(SURVIVORS, config=CLIENT, observer=recorder) as client:
            values = count(FIRST_VALUE)
            while refused:
                await write(client, refused[0], next(values))
                refused.pop(0)
    problems = [
        f"{TOPIC}-{partition} has taken no write {limit:.1f} s after broker {victim} crashed, "
        f"led by broker {cluster.leader(TOPIC, partition)} with the ISR {cluster.isr(TOPIC, partition)}"
        for partition in refused
        if has_enough(cluster, partition)
    ]
    return WithoutALeader(tuple(problems), replaced, len(writable) - len(refused))


def replaced_within(config: ServerConfig) -> float:
    """Virtual seconds after which a crashed leader is replaced, and its successor knows.

    That is the session's time and `MARGIN`; or more, where the response to a fetch of metadata was lost just before,
    which the broker finds out by the request's timeout.
    """
    lost_ms = config.controller_quorum_request_timeout_ms + config.metadata_fetch_wait_max_ms
    return max(config.broker_session_timeout_ms, lost_ms) / 1000 + MARGIN


async def write(client: Client, partition: int, value: int) -> None:
    """Try until one attempt is acknowledged; each is a new record of the history."""
    for attempt in count():
        try:
            await client.produce(TOPIC, b"%d" % (value + 1_000_000 * attempt), partition=partition, acks=ALL)
            return
        except KafkaError:
            await trio.sleep(0.05)


def is_up(cluster: Cluster, broker: int) -> bool:
    return broker != NO_LEADER and cluster.is_alive(broker)


def registration(cluster: Cluster, partition: int) -> PartitionRegistration:
    """What the controller has committed of a partition."""
    found = cluster.controller.controller.image.partition(TOPIC, partition)
    assert found is not None, "nobody deletes the topic"
    return found


def hosts(cluster: Cluster, broker: int, partition: int) -> bool:
    """Whether a replica lives: its broker runs and has its log."""
    return cluster.is_alive(broker) and cluster.broker(broker).replicas.get(TOPIC, partition) is not None


def leads(cluster: Cluster, broker: int, partition: int) -> bool:
    """Whether the broker lives and knows that it leads."""
    return (
        broker != NO_LEADER
        and hosts(cluster, broker, partition)
        and cluster.replica(broker, TOPIC, partition).is_leader
    )


def leaderless(cluster: Cluster, options: Options) -> Iterator[str]:
    """Partitions that a live candidate should lead, and that no live broker leads."""
    for partition in range(options.partitions):
        known = registration(cluster, partition)
        candidates = (known.isr | known.elr or {known.last_known_leader}) - known.offline_replicas - known.lost_replicas
        live = sorted(broker for broker in candidates if is_up(cluster, broker) and hosts(cluster, broker, partition))
        if live and not leads(cluster, known.leader, partition):
            yield f"{TOPIC}-{partition} has no live leader (candidates {live}, leader {known.leader})"


def writable_partitions(cluster: Cluster, options: Options) -> Iterator[int]:
    """Partitions with a live leader and as many live replicas as a write needs."""
    for partition in range(options.partitions):
        if leads(cluster, registration(cluster, partition).leader, partition) and has_enough(cluster, partition):
            yield partition


def has_enough(cluster: Cluster, partition: int) -> bool:
    """Whether as many replicas of a partition live as a write needs."""
    controller, replicas = cluster.controller.controller, registration(cluster, partition).replicas
    live = [broker for broker in replicas if hosts(cluster, broker, partition)]
    return len(live) >= min(controller.config.min_insync_replicas(controller.image, TOPIC), len(replicas))

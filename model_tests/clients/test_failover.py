"""The leader crashes in mid-stream: with acks=all real clients lose and duplicate nothing, as the checker confirms."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tidegauge import running_cluster
from tidegauge.linearizability.check import check
from tidegauge.linearizability.history import Kind, Outcome
from tidegauge.model_tests.harness.recording.clients import LIBRARIES, library
from tidegauge.model_tests.harness.recording.workload import Recording, Workload

QUICK = {"broker.session.timeout.ms": 600, "broker.heartbeat.interval.ms": 100, "replica.lag.time.max.ms": 1_000}


def crash_leaders(cluster: Any, topic: str, times: int) -> None:
    for _ in range(times):
        time.sleep(1.0)
        leader = cluster.leader(topic, 0)
        cluster.crash(leader)
        time.sleep(1.0)
        cluster.restart(leader)


@pytest.mark.parametrize("client", LIBRARIES)
def test_a_leader_crashes_and_nothing_is_lost_or_doubled(client: str) -> None:
    with running_cluster(brokers=3, config=QUICK) as cluster:
        cluster.create_topic("t", partitions=2, replication_factor=3, config={"min.insync.replicas": 2})
        faults = threading.Thread(target=crash_leaders, args=(cluster, "t", 1))
        workload = Workload(str(cluster.bootstrap_servers), "t", partitions=2, seconds=4, rate=50)
        faults.start()
        recorded = Recording(workload, library(client)).run()
        faults.join()
    operations = recorded.operations
    assert recorded.unsettled == ()
    verdicts = check(operations)
    assert verdicts.valid, "\n".join(str(anomaly) for anomaly in verdicts.anomalies)
    acknowledged = (operations.kind == Kind.PRODUCE) & (operations.outcome == Outcome.OK)
    assert acknowledged.sum() > 50

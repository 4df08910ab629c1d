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


SECONDS = 60.0
"""At most; the recording ends as soon as enough has happened."""


def crash_the_leader_in_mid_stream(cluster: Any, topic: str, recording: Recording) -> None:
    """Between two times at which the clients make progress."""
    await_progress(recording)
    leader = cluster.leader(topic, 0)
    cluster.crash(leader)
    time.sleep(1.0)
    cluster.restart(leader)
    await_progress(recording)
    recording.stop()


def await_progress(recording: Recording, operations: int = 150) -> None:
    enough, deadline = recording.operations + operations, time.monotonic() + SECONDS / 2
    while recording.operations < enough and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.mark.parametrize("client", LIBRARIES)
def test_a_leader_crashes_and_nothing_is_lost_or_doubled(client: str) -> None:
    with running_cluster(brokers=3, config=QUICK) as cluster:
        cluster.create_topic("t", partitions=2, replication_factor=3, config={"min.insync.replicas": 2})
        workload = Workload(str(cluster.bootstrap_servers), "t", partitions=2, seconds=SECONDS, rate=50)
        recording = Recording(workload, library(client))
        faults = threading.Thread(target=crash_the_leader_in_mid_stream, args=(cluster, "t", recording))
        faults.start()
        recorded = recording.run()
        faults.join()
    operations = recorded.operations
    assert recorded.unsettled == ()
    verdicts = check(operations)
    assert verdicts.valid, "\n".join(str(anomaly) for anomaly in verdicts.anomalies)
    acknowledged = (operations.kind == Kind.PRODUCE) & (operations.outcome == Outcome.OK)
    assert acknowledged.sum() > 50

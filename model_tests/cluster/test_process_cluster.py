"""A cluster of processes: kills, stops and pauses are the operating system's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegauge import ProcessCluster
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.process_cluster import ProcessEndedError
from tidegauge.model_tests.cluster.real_clients import WAIT_S, produce, producer, read

QUICK = {
    "broker.session.timeout.ms": 1_000,
    "broker.heartbeat.interval.ms": 100,
    "replica.lag.time.max.ms": 1_000,
    "min.insync.replicas": 2,
}
IMPATIENT = {"request_timeout_ms": 1_000, "socket_timeout_ms": 1_000, "topic_metadata_refresh_interval_ms": 200}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ProcessCluster]:
    with ProcessCluster(brokers=3, config=QUICK) as running:
        yield running


def is_running(pid: int) -> bool:
    """Whether there is such a process that is more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_was_acknowledged_outlives_the_kill_of_each_leader(cluster: ProcessCluster) -> None:
    cluster.create_topic("kills")
    values = []
    with producer(cluster.bootstrap_servers, enable_idempotence=True, **IMPATIENT) as client:
        for nth in range(3):
            values.append(b"%d" % nth)
            assert produce(client, "kills", values[-1]) == nth
            leader = cluster.leader("kills")
            cluster.kill(leader)
            assert not cluster.is_alive(leader)
            cluster.wait_for_leader("kills", other_than=leader)
            cluster.restart(leader)
            cluster.wait_for_isr("kills", {0, 1, 2})
    assert read(cluster.bootstrap_servers, "kills", 3) == values


def test_a_stopped_broker_comes_back_on_its_port(cluster: ProcessCluster) -> None:
    cluster.create_topic("stops")
    before, pid = cluster.bootstrap_servers, cluster.pid(1)
    cluster.stop(1)
    assert not is_running(pid)
    with pytest.raises(ValueError, match="broker 1 is down: restart it first"):
        cluster.kill(1)
    cluster.restart(1)
    assert cluster.bootstrap_servers == before
    assert cluster.pid(1) != pid
    with pytest.raises(ValueError, match="broker 1 is up: kill or stop it first"):
        cluster.restart(1)
    cluster.wait_for_isr("stops", {0, 1, 2})


def test_a_paused_leader_is_replaced_and_catches_up_when_it_goes_on(cluster: ProcessCluster) -> None:
    cluster.create_topic("pauses", assignments=[[0, 1, 2]])
    with producer(cluster.bootstrap_servers, **IMPATIENT) as client:
        assert produce(client, "pauses", b"a") == 0
        cluster.pause(0)
        cluster.wait_for_leader("pauses", other_than=0)
        assert produce(client, "pauses", b"b") == 1
        cluster.resume(0)
        cluster.wait_for_isr("pauses", {0, 1, 2})


def test_a_topic_waits_for_the_brokers_that_run_to_be_live(cluster: ProcessCluster) -> None:
    cluster.create_topic("before")
    cluster.pause(2)
    cluster.wait_for_isr("before", {0, 1})
    with pytest.raises(KafkaError, match="INVALID_REPLICATION_FACTOR: replication factor 3 with 2 live brokers"):
        cluster.create_topic("during")
    cluster.resume(2)
    cluster.create_topic("after")
    cluster.wait_for_isr("after", {0, 1, 2})


def test_the_controller_may_be_killed_too(cluster: ProcessCluster) -> None:
    cluster.restart_controller()
    cluster.create_topic("controllers")
    cluster.wait_for_isr("controllers", {0, 1, 2})


def test_wrong_ids_are_named(cluster: ProcessCluster) -> None:
    for wrong in (3, -1, True, "0"):
        with pytest.raises(ValueError, match=rf"there is no broker {wrong!r}: ids go from 0 to 2"):
            cluster.kill(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is no partition nothing-0"):
        cluster.leader("nothing")


def test_bad_arguments_are_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="brokers is 0"):
        ProcessCluster(brokers=0)
    with pytest.raises(ValueError, match=r"did you mean 'num\.partitions'"):
        ProcessCluster(config={"num.partition": 3})
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ValueError, match=r"it holds 'thesis\.tex'"), ProcessCluster(directory=tmp_path):
        pass


def test_a_node_that_does_not_start_says_why_and_the_others_end(tmp_path: Path) -> None:
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "thesis.tex").touch()
    with pytest.raises(ProcessEndedError, match=r"holds 'thesis\.tex', which no node"):
        ProcessCluster(brokers=2, directory=tmp_path).__enter__()
    with pytest.raises(ValueError, match="there is no broker 0"):
        ProcessCluster(brokers=2).pid(0)


def test_nodes_stop_in_order_at_the_end_unless_their_files_are_temporary(tmp_path: Path) -> None:
    codes = {}
    for directory in (tmp_path, None):
        with ProcessCluster(brokers=1, directory=directory) as cluster:
            process = cluster._nodes["broker-0"].process
        codes[directory] = process.returncode
    assert codes == {tmp_path: 0, None: -signal.SIGKILL}


def test_no_node_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import os, signal, tidegauge\n"
        "with tidegauge.ProcessCluster(brokers=1, config={'controlled.shutdown.retry.backoff.ms': 50}) as cluster:\n"
        "    print(cluster.pid(0), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    pid, patience = int(ended.stdout), time.monotonic() + WAIT_S
    while is_running(pid):
        assert time.monotonic() < patience, f"process {pid} is still there"
        time.sleep(0.02)


def test_the_cluster_asks_its_brokers_as_they_ask_each_other_where_all_have_to_log_in() -> None:
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.users": "node:node-secret",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="node" password="node-secret";'
        ),
    }
    with ProcessCluster(brokers=1, config=config) as secured:
        secured.create_topic("orders")
        secured.wait_for_isr("orders", {0})
        assert secured.leader("orders") == 0

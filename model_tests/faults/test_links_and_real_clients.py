"""Faults of nodes and links on the real host, as real clients and the controller see them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException

from tidegauge import RunningCluster, running_cluster
from tidegauge.model_tests.cluster.real_clients import WAIT_S, produce, producer, read

QUICK = {
    "broker.session.timeout.ms": 1_500,
    "broker.heartbeat.interval.ms": 200,
    "replica.lag.time.max.ms": 1_000,
    "replica.socket.timeout.ms": 1_000,
    "replica.fetch.wait.max.ms": 50,
}

IMPATIENT = {"request_timeout_ms": 500, "socket_timeout_ms": 500, "topic_metadata_refresh_interval_ms": 100}
"""Settings of a client that soon asks another broker."""


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningCluster]:
    with running_cluster(brokers=3, config=QUICK, seed=4) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: RunningCluster) -> Iterator[RunningCluster]:
    yield shared
    shared.recover()


@pytest.fixture
def topic(cluster: RunningCluster, request: pytest.FixtureRequest) -> str:
    """A topic that broker 0 leads."""
    name = str(request.node.name)
    cluster.create_topic(name, assignments=[[0, 1, 2]])
    return name


def end_offsets(cluster: RunningCluster, topic: str) -> list[int]:
    return [cluster.run(lambda c, b=b: c.replica(b, topic).log_end_offset) for b in range(3)]


def wait_for_end_offsets(cluster: RunningCluster, topic: str, wanted: list[int]) -> None:
    patience = time.monotonic() + WAIT_S
    while (found := end_offsets(cluster, topic)) != wanted:
        assert time.monotonic() < patience, f"{found}, not {wanted}"
        time.sleep(0.01)


def test_a_paused_leader_does_not_respond_is_replaced_and_resumes_as_a_follower(
    cluster: RunningCluster, topic: str
) -> None:
    with producer(cluster.bootstrap_servers, **IMPATIENT) as client:
        assert produce(client, topic, b"a") == 0
        cluster.pause(0)
        assert produce(client, topic, b"b") == 1
        assert cluster.leader(topic) != 0
        assert cluster.run(lambda c: c.replica(0, topic).is_leader), "it knows nothing of that"
        assert end_offsets(cluster, topic)[0] == 1
        cluster.resume(0)
        cluster.wait_for_isr(topic, {0, 1, 2})
        assert end_offsets(cluster, topic) == [2, 2, 2]


def test_a_paused_follower_takes_nothing_until_it_wakes(cluster: RunningCluster, topic: str) -> None:
    cluster.pause(2)
    with producer(cluster.bootstrap_servers) as client:
        assert produce(client, topic, b"a") == 0
    assert end_offsets(cluster, topic) == [1, 1, 0]
    cluster.resume(2)
    wait_for_end_offsets(cluster, topic, [1, 1, 1])


def test_an_isolated_leader_loses_its_leadership_and_what_only_it_had(cluster: RunningCluster, topic: str) -> None:
    with producer(cluster.bootstrap_servers, **IMPATIENT) as client:
        assert produce(client, topic, b"a") == 0
        cluster.isolate(0)
        cluster.wait_for_leader(topic, other_than=0)
        assert produce(client, topic, b"b") == 1
        cluster.heal(0)
        cluster.wait_for_isr(topic, {0, 1, 2})
        assert read(cluster.bootstrap_servers, topic, 2) == [b"a", b"b"]


def test_one_direction_of_one_link_is_blocked(cluster: RunningCluster, topic: str) -> None:
    cluster.block(2, 0)  # 2's fetches don't reach 0, its heartbeats reach the controller
    with producer(cluster.bootstrap_servers) as client:
        assert produce(client, topic, b"a") == 0, "the fetch that waits at 0 came before, and may complete"
        assert produce(client, topic, b"b") == 1
    assert cluster.isr(topic) == (0, 1)
    assert end_offsets(cluster, topic)[:2] == [2, 2]
    assert end_offsets(cluster, topic)[2] < 2
    cluster.heal()
    cluster.wait_for_isr(topic, {0, 1, 2})


def test_one_client_alone_is_cut_off(cluster: RunningCluster, topic: str) -> None:
    with (
        producer(cluster.bootstrap_servers, client_id="unlucky", message_timeout_ms=800) as unlucky,
        producer(cluster.bootstrap_servers) as client,
    ):
        assert produce(unlucky, topic, b"a") == 0
        cluster.isolate("unlucky")
        with pytest.raises(KafkaException, match="_MSG_TIMED_OUT"):
            produce(unlucky, topic, b"b")
        assert produce(client, topic, b"c") == 1
        cluster.heal("unlucky")


def test_lost_responses_make_clients_retry(cluster: RunningCluster, topic: str) -> None:
    with producer(cluster.bootstrap_servers, client_id="retrier", socket_timeout_ms=300) as client:
        assert produce(client, topic, b"a") == 0
        cluster.drop(source=0, destination="retrier")
        healing = threading.Timer(0.5, cluster.clear_faults)
        healing.start()
        assert produce(client, topic, b"b") >= 2
        healing.join()


def test_delay_is_drawn_from_the_seed_and_slows_one_link(cluster: RunningCluster, topic: str) -> None:
    with producer(cluster.bootstrap_servers, client_id="far away") as client:
        assert produce(client, topic, b"a") == 0
        cluster.delay(150, 200, source="far away")
        began = time.monotonic()
        assert produce(client, topic, b"b") == 1
        assert time.monotonic() - began >= 0.15


def test_broken_connections_are_made_again(cluster: RunningCluster, topic: str) -> None:
    with producer(cluster.bootstrap_servers, client_id="cut") as client:
        assert produce(client, topic, b"a") == 0
        assert cluster.reset_connections("cut") >= 1
        assert produce(client, topic, b"b") == 1
    assert cluster.reset_connections(0, 1) >= 1
    cluster.wait_for_isr(topic, {0, 1, 2})


def test_a_jump_of_the_clock_shows_in_what_the_broker_stamps(cluster: RunningCluster, topic: str) -> None:
    before = cluster.run(lambda c: c.broker(0).clock.now_ms())
    cluster.jump_clock(0, 86_400_000)
    assert cluster.run(lambda c: c.broker(0).clock.now_ms()) >= before + 86_400_000
    assert cluster.run(lambda c: c.broker(1).clock.now_ms()) < before + 86_400_000
    cluster.jump_clock(0, -86_400_000)


def test_a_crashed_broker_comes_back_on_its_port_with_what_it_had(cluster: RunningCluster, topic: str) -> None:
    where = cluster.bootstrap_servers
    with producer(where) as client:
        assert produce(client, topic, b"a") == 0
        cluster.crash(2)
        assert produce(client, topic, b"b") == 1
        cluster.restart(2)
        cluster.wait_for_isr(topic, {0, 1, 2})
    assert cluster.run(lambda c: c.bootstrap_servers) == where
    assert end_offsets(cluster, topic) == [2, 2, 2]


def test_a_failed_disk_ends_its_broker_and_the_others_go_on(cluster: RunningCluster, topic: str) -> None:
    with producer(cluster.bootstrap_servers) as client:
        assert produce(client, topic, b"a") == 0
        cluster.fail_disk(0, "writes")
        assert produce(client, topic, b"b") == 1
        cluster.wait_for_leader(topic, other_than=0)
        assert not cluster.is_alive(0)
        cluster.heal_disk(0)
        cluster.restart(0)
        cluster.wait_for_isr(topic, {0, 1, 2})


def test_a_full_disk_takes_what_fits(cluster: RunningCluster, topic: str) -> None:
    cluster.fill_disk(1, free_bytes=2_000)
    with producer(cluster.bootstrap_servers, enable_idempotence=True) as client:  # it may have to send once more
        for nth in range(3):
            assert produce(client, topic, bytes(1_000)) == nth
        assert cluster.isr(topic) == (0, 2)
        assert cluster.is_alive(1)
        cluster.heal_disk(1)
        cluster.wait_for_isr(topic, {0, 1, 2})


def test_an_expired_session_and_an_unclean_election(cluster: RunningCluster, topic: str) -> None:
    with producer(cluster.bootstrap_servers) as client:
        assert produce(client, topic, b"a") == 0
        cluster.expire_session(0)
        assert cluster.leader(topic) == 1
        cluster.wait_for_isr(topic, {0, 1, 2})
        cluster.elect(topic)
        assert cluster.leader(topic) == 0


def test_everything_is_undone_at_once(cluster: RunningCluster, topic: str) -> None:
    cluster.crash(0)
    cluster.pause(1)
    cluster.isolate(2)
    cluster.drop(0.5)
    cluster.fill_disk(2)
    cluster.fail_produces("NOT_CONTROLLER", None)
    cluster.recover()
    cluster.wait_for_isr(topic, {0, 1, 2})
    with producer(cluster.bootstrap_servers) as client:
        assert produce(client, topic, b"a") == 0


def test_a_controller_that_fails_over_is_followed(cluster: RunningCluster, topic: str) -> None:
    epoch = cluster.run(lambda c: c.controller.controller.controller_epoch)
    cluster.restart_controller()
    assert cluster.run(lambda c: c.controller.controller.controller_epoch) == epoch + 1
    cluster.create_topic(f"{topic}-after")
    with producer(cluster.bootstrap_servers) as client:
        assert produce(client, f"{topic}-after", b"a") == 0

"""Errors, waits and closed connections in the requests of real clients, and what is in the log afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError
from kio.schema.errors import ErrorCode

from tidegauge import RunningCluster, running_cluster
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.model_tests.cluster.real_clients import WAIT_S, produce, producer, read


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningCluster]:
    with running_cluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: RunningCluster) -> Iterator[RunningCluster]:
    yield shared
    shared.recover()


@pytest.fixture
def topic(cluster: RunningCluster, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "")
    cluster.create_topic(name, partitions=2, assignments=[[0, 1], [0, 1]])
    return str(name)


def log_end_offset(cluster: RunningCluster, topic: str, partition: int = 0) -> int:
    return int(cluster.run(lambda c: c.replica(c.leader(topic, partition), topic, partition).log_end_offset))


def test_the_next_produces_fail_and_leave_nothing_behind(cluster: RunningCluster, topic: str) -> None:
    with producer(cluster.bootstrap_servers) as client:
        failure = cluster.fail_produces("NOT_ENOUGH_REPLICAS", 3)
        assert produce(client, topic, b"a") == 0, "it was tried again until it went well"
        assert (failure.hits, log_end_offset(cluster, topic)) == (3, 1)


def test_a_fatal_error_reaches_the_application(cluster: RunningCluster, topic: str) -> None:
    with producer(cluster.bootstrap_servers) as client:
        cluster.fail_requests("Produce", ErrorCode.topic_authorization_failed)
        with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
            produce(client, topic, b"a")
    with producer(cluster.bootstrap_servers) as another:
        assert produce(another, topic, b"b") == 0


def test_an_error_after_the_append_doubles_the_record_of_a_plain_producer(cluster: RunningCluster, topic: str) -> None:
    with producer(cluster.bootstrap_servers) as client:
        cluster.fail_produces("REQUEST_TIMED_OUT", topic=topic, carried_out=True)
        assert produce(client, topic, b"a") == 1
        assert read(cluster.bootstrap_servers, topic, 2) == [b"a", b"a"]


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_lost_acknowledgement_doubles_the_record_unless_the_producer_is_idempotent(
    cluster: RunningCluster, topic: str, idempotent: bool
) -> None:
    with producer(cluster.bootstrap_servers, enable_idempotence=idempotent) as client:
        lost = cluster.drop_connections("Produce", topic=topic, carried_out=True)
        produce(client, topic, b"a")
        assert lost.hits == 1
        assert produce(client, topic, b"b") == (1 if idempotent else 2)


def test_a_connection_is_closed_instead_of_a_response(cluster: RunningCluster, topic: str) -> None:
    with producer(cluster.bootstrap_servers) as client:
        dropped = cluster.drop_connections("Produce", 2)
        assert produce(client, topic, b"a") == 0
        assert (dropped.hits, log_end_offset(cluster, topic)) == (2, 1)


def test_only_one_partition_of_a_request_fails(cluster: RunningCluster, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=200, retries=0) as client:
        client.send(topic, b"warm", partition=0).get(10)
        failure = cluster.fail_produces("INVALID_RECORD", topic=topic, partition=1)
        good, bad = client.send(topic, b"a", partition=0), client.send(topic, b"b", partition=1)
        assert good.get(10).offset == 1
        with pytest.raises(PythonKafkaError, match="InvalidRecord"):
            bad.get(10)
    assert failure.hits == 1
    assert (log_end_offset(cluster, topic, 0), log_end_offset(cluster, topic, 1)) == (2, 0)


def test_a_fault_may_be_of_one_client_or_broker_only(cluster: RunningCluster, topic: str) -> None:
    with producer(cluster.bootstrap_servers, client_id="victim") as victim:
        elsewhere = cluster.fail_produces("NOT_ENOUGH_REPLICAS", None, broker=1)
        others = cluster.fail_produces("NOT_ENOUGH_REPLICAS", None, client="somebody else")
        failure = cluster.fail_produces("TOPIC_AUTHORIZATION_FAILED", client="victim", broker=0)
        with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
            produce(victim, topic, b"a")
        assert (elsewhere.hits, others.hits, failure.hits) == (0, 0, 1)


def test_acks_are_held_until_they_are_released(cluster: RunningCluster, topic: str) -> None:
    acknowledged: list[int] = []
    with producer(cluster.bootstrap_servers) as client:
        with cluster.hold_acks(topic) as hold:
            sending = threading.Thread(target=lambda: acknowledged.append(produce(client, topic, b"a")))
            sending.start()
            hold.wait_for(1)
            assert (hold.waiting, acknowledged, log_end_offset(cluster, topic)) == (1, [], 1)
            assert read(cluster.bootstrap_servers, topic, 1) == [b"a"], "it is committed, whatever its producer knows"
        sending.join()
        assert acknowledged == [0]
        assert produce(client, topic, b"b") == 1


def test_held_requests_go_one_by_one(cluster: RunningCluster, topic: str) -> None:
    done: list[str] = []
    hold = cluster.hold_requests("Produce", topic=topic)
    threads = []
    for name in ("one", "two"):

        def send(name: str = name) -> None:
            with producer(cluster.bootstrap_servers, client_id=name) as client:
                produce(client, topic, name.encode())
                done.append(name)

        threads.append(threading.Thread(target=send))
        threads[-1].start()
        hold.wait_for(len(threads))
    assert log_end_offset(cluster, topic) == 0
    hold.release(1)
    threads[0].join()
    assert done == ["one"]
    hold.release()
    threads[1].join()
    assert read(cluster.bootstrap_servers, topic, 2) == [b"one", b"two"]


def test_a_held_client_that_goes_away_is_forgotten(cluster: RunningCluster, topic: str) -> None:
    hold = cluster.hold_requests("Produce", topic=topic)
    impatience = {"socket_timeout_ms": 300, "message_timeout_ms": 500}
    with (
        producer(cluster.bootstrap_servers, **impatience) as client,
        pytest.raises(KafkaException, match="_MSG_TIMED_OUT"),
    ):
        produce(client, topic, b"a")
    wait_until(lambda: hold.waiting == 0)
    hold.release()
    assert log_end_offset(cluster, topic) == 0


def wait_until(holds: Callable[[], bool]) -> None:
    patience = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < patience, f"not within {WAIT_S} s"
        time.sleep(0.01)


def test_fetches_fail_for_a_topic_though_their_requests_do_not_name_it(cluster: RunningCluster, topic: str) -> None:
    with producer(cluster.bootstrap_servers) as client:
        produce(client, topic, b"a")
    failure = cluster.fail_requests("Fetch", "NOT_LEADER_OR_FOLLOWER", 2, topic=topic)
    assert read(cluster.bootstrap_servers, topic, 1) == [b"a"]
    assert failure.hits == 2


def test_metadata_of_one_topic_is_not_available(cluster: RunningCluster, topic: str) -> None:
    failure = cluster.fail_requests("Metadata", "LEADER_NOT_AVAILABLE", 2, topic=topic)
    with producer(cluster.bootstrap_servers) as client:
        assert produce(client, topic, b"a") == 0
    assert failure.hits == 2


def test_responses_are_slow(cluster: RunningCluster, topic: str) -> None:
    with producer(cluster.bootstrap_servers, socket_timeout_ms=200, message_timeout_ms=10_000) as client:
        produce(client, topic, b"warm")
        slowness = cluster.slow_responses(3_000, api="Produce", count=1)  # librdkafka looks once a second
        assert produce(client, topic, b"a") == 2, "the client lost patience and sent it again"
        assert slowness.hits == 1


def test_brokers_are_spared_unless_they_are_meant(cluster: RunningCluster, topic: str) -> None:
    spared = cluster.fail_requests("Fetch", "UNKNOWN_SERVER_ERROR", None, topic=topic)
    with producer(cluster.bootstrap_servers) as client:
        assert produce(client, topic, b"a") == 0
        assert spared.hits == 0
        meant = cluster.hold_requests("Fetch", client=1, broker=0)
        with (
            pytest.raises(KafkaException, match="_MSG_TIMED_OUT"),
            producer(cluster.bootstrap_servers, message_timeout_ms=700) as impatient,
        ):
            produce(impatient, topic, b"b")
        assert meant.waiting > 0
        meant.release()
        produce(client, topic, b"c")


def test_an_injection_that_is_over_does_nothing(cluster: RunningCluster, topic: str) -> None:
    with producer(cluster.bootstrap_servers) as client, cluster.fail_produces("NOT_ENOUGH_REPLICAS", None) as failure:
        failure.cancel()
        cluster.hold_acks()
        cluster.clear_faults()
        assert produce(client, topic, b"a") == 0
        assert failure.hits == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.fail_requests("Prodcue", 6), "api is 'Prodcue': did you mean 'PRODUCE'?"),
        (lambda c: c.fail_requests(999, 6), "api is 999: brokers serve no such API"),
        (lambda c: c.fail_requests(True, 6), "api is True"),
        (lambda c: c.fail_produces("NOT_LEADER"), "error is 'NOT_LEADER': did you mean 'NOT_LEADER_OR_FOLLOWER'?"),
        (lambda c: c.fail_produces(12345), "error is 12345: Kafka has no such code"),
        (lambda c: c.fail_produces("NONE"), "error is 'NONE': that is no error"),
        (lambda c: c.fail_produces(6, 0), "count is 0: give at least 1, or None for all"),
        (lambda c: c.fail_produces(6, partition=1), "partition is 1: name its topic as well"),
        (lambda c: c.fail_produces(6, topic="t", partition=-1), "partition is -1: give a whole number from 0"),
        (lambda c: c.fail_produces(6, topic=5), "topic is 5: give a topic's name"),
        (lambda c: c.fail_requests("FindCoordinator", 15, topic="t"), "topic is 't': FIND_COORDINATOR names no topics"),
        (lambda c: c.fail_produces(6, broker=7), "there is no broker 7: ids go from 0 to 1"),
        (lambda c: c.fail_produces(6, client=7), "there is no broker 7"),
        (lambda c: c.slow_responses(-1), "least_ms is -1 and most_ms -1: give 0 <= least_ms <= most_ms"),
        (lambda c: c.slow_responses(5, 2), "least_ms is 5 and most_ms 2"),
        (lambda c: c.drop(source="typo"), "'typo' names no node: give a broker's id from 0 to 1, 'controller', or"),
        (lambda c: c.isolate(), "isolate names no node"),
        (lambda c: c.isolate(9), "there is no broker 9"),
        (lambda c: c.fill_disk(0, -1), "free_bytes is -1: give a whole number from 0"),
        (lambda c: c.fail_disk(0, "reads"), "what is 'reads': use one of 'everything', 'writes', 'syncs'"),
        (lambda c: c.fail_disk(0, times=0), "times is 0: give at least 1"),
        (lambda c: c.drop(1.5), "loss is a probability between 0 and 1, not 1.5"),
        (lambda c: c.delay(5, 2), "delay_ms is \\(least, most\\) in milliseconds"),
    ],
)
def test_bad_arguments_name_the_value_and_the_way_out(cluster: RunningCluster, call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        call(cluster)


def test_apis_and_errors_have_their_names_in_any_spelling(cluster: RunningCluster) -> None:
    for api in ("ListOffsets", "list_offsets", "LIST_OFFSETS", 2, ApiKey.LIST_OFFSETS):
        for error in ("UNKNOWN_SERVER_ERROR", "UnknownServerError", -1, ErrorCode.unknown_server_error):
            with cluster.fail_requests(api, error) as failure:
                assert "LIST_OFFSETS" in cluster.describe()
                assert failure.hits == 0


def test_only_a_hold_releases(cluster: RunningCluster) -> None:
    with cluster.fail_produces("NOT_ENOUGH_REPLICAS") as failure, pytest.raises(TypeError, match="holds nothing"):
        failure.release()

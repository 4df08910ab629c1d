"""The pytest plugin, in test suites of its own: fixtures, marker, reports, and what it costs who does not use it."""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.util import find_spec

import pytest

PLUGIN = "tidegauge.pytest_plugin"
INSTALLED = any(point.value == PLUGIN for point in entry_points(group="pytest11"))

SYNC_TEST = """
    import pytest
    from confluent_kafka import Producer

    def produced(bootstrap, topic, value=b"x"):
        ended = []
        client = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "message.timeout.ms": 10_000})
        client.produce(topic, value, callback=lambda error, message: ended.append((error, message.offset())))
        client.flush(10)
        assert ended[0][0] is None
        return ended[0][1]
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A directory for a test suite, whose pytest has the plugin."""
    pytester.makeini("[pytest]\naddopts = --strict-markers\n")
    return pytester


def run(suite: pytest.Pytester, *words: str, here: bool = False) -> pytest.RunResult:
    """Run the suite in a process of its own; `here`, which is faster, if no cluster is started."""
    words = ("-p", "no:cacheprovider", *(() if INSTALLED else ("-p", PLUGIN)), *words)
    return suite.runpytest_inprocess(*words) if here else suite.runpytest_subprocess(*words, timeout=60)


def test_a_test_of_any_kind_has_a_cluster_of_its_own_as_its_marker_says(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        SYNC_TEST
        + """
    def test_one_broker_without_a_marker(kafka_cluster, kafka_bootstrap):
        assert kafka_bootstrap == kafka_cluster.bootstrap_servers
        assert kafka_cluster.size == 1
        kafka_cluster.create_topic("orders")
        assert produced(kafka_bootstrap, "orders") == 0

    @pytest.mark.kafka(brokers=3, config={"min.insync.replicas": 2}, seed=7, topics=["orders", "payments"])
    def test_three_brokers(kafka_cluster):
        assert (kafka_cluster.size, kafka_cluster.seed) == (3, 7)
        kafka_cluster.crash(kafka_cluster.leader("orders"))
        assert produced(kafka_cluster.bootstrap_servers, "payments") == 0

    @pytest.mark.kafka(brokers=2)
    class TestClass:
        def test_the_class_says_how_many(self, kafka_cluster):
            assert kafka_cluster.size == 2

        @pytest.mark.kafka(seed=5)
        def test_the_closest_marker_adds_to_it(self, kafka_cluster):
            assert (kafka_cluster.size, kafka_cluster.seed) == (2, 5)

    import asyncio, trio
    from aiokafka import AIOKafkaProducer

    def test_aiokafka(kafka_cluster):
        kafka_cluster.create_topic("orders")

        async def main():
            producer = AIOKafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
            await producer.start()
            try:
                kafka_cluster.drop_connections("Produce")
                return (await producer.send_and_wait("orders", b"x")).offset
            finally:
                await producer.stop()

        assert asyncio.run(main()) == 0

    def test_trio(kafka_cluster):
        async def main():
            await trio.to_thread.run_sync(kafka_cluster.create_topic, "orders")
            return kafka_cluster.leader("orders")

        assert trio.run(main) == 0
    """
    )
    run(suite).assert_outcomes(passed=6)


def test_a_session_has_one_cluster_and_each_test_its_topic(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        """
    import pytest

    @pytest.fixture(scope="session")
    def kafka_session_options():
        return {"brokers": 2, "config": {"broker.session.timeout.ms": 500, "broker.heartbeat.interval.ms": 100}}
    """
    )
    suite.makepyfile(
        SYNC_TEST
        + """
    seen = []

    def test_harms_it(kafka_session_cluster, kafka_topic):
        seen.append((kafka_session_cluster, kafka_topic))
        kafka_session_cluster.crash(1)
        kafka_session_cluster.fail_produces("NOT_CONTROLLER", None)
        kafka_session_cluster.isolate(0)

    @pytest.mark.parametrize("odd", ["a b/c*", "ü"])
    def test_finds_it_whole_and_with_another_topic(odd, kafka_session_bootstrap, kafka_session_cluster, kafka_topic):
        assert kafka_session_cluster is seen[0][0]
        assert kafka_topic not in [topic for _, topic in seen]
        seen.append((kafka_session_cluster, kafka_topic))
        assert kafka_session_cluster.is_alive(1)
        kafka_session_cluster.wait_for_isr(kafka_topic, {0, 1})
        assert produced(kafka_session_bootstrap, kafka_topic) == 0

    def test_makes_more_topics(kafka_new_topic, kafka_session_cluster):
        one, other = kafka_new_topic(partitions=3), kafka_new_topic(config={"retention.ms": 1000})
        assert one != other
        assert kafka_session_cluster.leader(one, 2) in (0, 1)
    """
    )
    run(suite).assert_outcomes(passed=4)


def test_a_test_may_delete_its_topics_and_the_others_that_it_made_go_all_the_same(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
    import pytest

    def test_that_deletes_the_first_of_its_topics(kafka_session_cluster, kafka_new_topic):
        first, _ = kafka_new_topic(), kafka_new_topic()
        kafka_session_cluster.delete_topic(first)

    def test_whose_topic_is_refused(kafka_new_topic):
        with pytest.raises(Exception, match="INVALID_REPLICATION_FACTOR"):
            kafka_new_topic(replication_factor=7)

    def test_nothing_of_them_is_left(kafka_session_cluster):
        assert not kafka_session_cluster.run(lambda cluster: list(cluster.controller.controller.image.topics))
    """
    )
    run(suite).assert_outcomes(passed=3)


def test_a_failing_test_says_what_was_done_to_its_cluster(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
    import pytest

    @pytest.mark.kafka(brokers=2, seed=11, config={"num.partitions": 4}, topics=["orders"])
    def test_fails(kafka_cluster):
        kafka_cluster.crash(1)
        kafka_cluster.fail_produces("NOT_LEADER_OR_FOLLOWER", topic="orders")
        assert kafka_cluster.isr("orders") == "wrong"

    def test_fails_in_the_session(kafka_session_cluster):
        kafka_session_cluster.pause(0)
        assert False

    def test_fails_without_a_cluster():
        assert False
    """
    )
    result = run(suite)
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "*- kafka_cluster -*",
            "brokers=2 seed=11 config={*'num.partitions': 4}",
            "broker 1: down",
            "faults injected (2):",
            "*s  crash(1)",
            "*NOT_LEADER_OR_FOLLOWER*",
            "the last * decisions (time, node, decision):",
            "* Crash *",
            "*- kafka_session_cluster -*",
            "*s  pause(0)",
            "*test_fails_without_a_cluster*",
        ]
    )
    assert (
        "kafka" not in result.stdout.str().partition("_ test_fails_without_a_cluster _")[2].partition("short test")[0]
    )


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("@pytest.mark.kafka(3)", "give its arguments by keyword, as in brokers=3"),
        (
            '@pytest.mark.kafka(topics="orders")',
            "give a list of names, as in topics=['orders']",
        ),
        ("@pytest.mark.kafka(broker=3)", "@pytest.mark.kafka has no option 'broker': there are brokers, config"),
        ("@pytest.mark.kafka(brokers=0)", "brokers is 0: ask for at least 1"),
        ("@pytest.mark.kafka(config={'num.partition': 3})", "did you mean 'num.partitions'"),
    ],
)
def test_a_wrong_marker_is_told(suite: pytest.Pytester, marker: str, message: str) -> None:
    suite.makepyfile(f"import pytest\n{marker}\ndef test_it(kafka_cluster): pass")
    result = run(suite, here=True)
    result.assert_outcomes(errors=1)
    assert message in result.stdout.str()


def test_the_marker_and_the_fixtures_are_listed(suite: pytest.Pytester) -> None:
    run(suite, "--markers", here=True).stdout.fnmatch_lines(
        ["@pytest.mark.kafka(brokers=1, config={}, seed=0, topics=[[]], *"]
    )
    listed = run(suite, "--fixtures", "-k", "kafka", here=True).stdout.str()
    for name in ("kafka_cluster", "kafka_bootstrap", "kafka_session_cluster", "kafka_topic", "kafka_new_topic"):
        assert f"\n{name}" in listed


@pytest.mark.deep
@pytest.mark.skipif(find_spec("xdist") is None, reason="pytest-xdist is not installed")
def test_each_worker_of_xdist_has_a_session_cluster(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
    import os, pytest

    @pytest.mark.parametrize("nth", range(2))
    def test_it(nth, kafka_session_cluster, kafka_topic):
        kafka_session_cluster.crash(0)
        print(os.environ["PYTEST_XDIST_WORKER"])
    """
    )
    run(suite, "-n", "2").assert_outcomes(passed=2)


def test_who_does_not_use_it_does_not_pay_for_it(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
    import sys

    def test_it():
        heavy = {"impl", "trio", "kio", "tidegauge.impl.cluster.running_cluster", "attrs"}
        assert sorted(heavy & set(sys.modules)) == []
    """
    )
    run(suite).assert_outcomes(passed=1)

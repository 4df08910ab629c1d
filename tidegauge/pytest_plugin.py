"""pytest fixtures with a Kafka cluster behind them; found by entry point once tidegauge is installed.

| fixture | scope | is |
|---|---|---|
| `kafka_cluster` | test | a running cluster of its own (`tidegauge.RunningCluster`), as the marker `kafka` says |
| `kafka_bootstrap` | test | its bootstrap servers |
| `kafka_session_cluster` | session | one running cluster for all tests; faults are undone after each test |
| `kafka_session_bootstrap` | session | its bootstrap servers |
| `kafka_topic` | test | the name of a fresh topic in the session's cluster, deleted after the test |
| `kafka_new_topic` | test | makes more of them: `kafka_new_topic(partitions=3, config={…})` |
| `kafka_session_options` | session | override it: what the session's cluster is made with, `{"brokers": 3}` |

A test that fails says in its report which cluster it had, what was done to it, and what the brokers decided last.

Nothing of the cluster is imported before a test asks for one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tidegauge.impl.cluster.running_cluster import RunningCluster

MARKER = "kafka"
OPTIONS = (
    "brokers",
    "config",
    "seed",
    "racks",
    "host",
    "directory",
    "listen",
    "port",
    "advertised_host",
    "patience_s",
    "trace",
    "topics",
)
TRACE_SHOWN = 40
"""How many of the latest decisions a failing test's report shows."""

_CLUSTERS = pytest.StashKey["dict[str, RunningCluster]"]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kafka(brokers=1, config={}, seed=0, topics=[], …): what the fixture kafka_cluster is made with; all arguments "
        "are by keyword, those of tidegauge.running_cluster, and topics to create",
    )


# --- a cluster for each test ---------------------------------------------------------------------------------------


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[RunningCluster]:
    """A running cluster for this test alone, made as the marker `kafka` says: one broker without it."""
    yield from _running(request.node, _marked(request.node))


@pytest.fixture
def kafka_bootstrap(kafka_cluster: RunningCluster) -> str:
    """The bootstrap servers of `kafka_cluster`."""
    return kafka_cluster.bootstrap_servers


# --- a cluster for the session -------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def kafka_session_options() -> dict[str, Any]:
    """What `kafka_session_cluster` is made with; override it in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def kafka_session_cluster(request: pytest.FixtureRequest, kafka_session_options: Any) -> Iterator[RunningCluster]:
    """A running cluster for all tests of the session (of each worker, with pytest-xdist)."""
    _check_options(kafka_session_options, "the fixture kafka_session_options")
    yield from _running(request.session, dict(kafka_session_options))


@pytest.fixture(scope="session")
def kafka_session_bootstrap(kafka_session_cluster: RunningCluster) -> str:
    """The bootstrap servers of `kafka_session_cluster`."""
    return kafka_session_cluster.bootstrap_servers


@pytest.fixture
def kafka_new_topic(
    request: pytest.FixtureRequest, kafka_session_cluster: RunningCluster
) -> Iterator[Callable[..., str]]:
    """Makes topics in the session's cluster, each with a name of its own; they are deleted after the test."""
    made: list[str] = []
    stem = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:80].strip("-.") or "topic"

    def new_topic(partitions: int = 1, replication_factor: int | None = None, **options: Any) -> str:
        name = f"{stem}-{next(_NUMBERS)}"
        made.append(name)  # before it is known whether it was made: a call that took too long may have made it
        kafka_session_cluster.create_topic(name, partitions, replication_factor, **options)
        return name

    yield new_topic
    if kafka_session_cluster.is_running:
        kafka_session_cluster.recover()  # from what the test has done to it
        _delete_all(kafka_session_cluster, made)


@pytest.fixture
def kafka_topic(kafka_new_topic: Callable[..., str]) -> str:
    """The name of a fresh topic with one partition in the session's cluster."""
    return kafka_new_topic()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Whatever a test did to the session's cluster is undone before the next one."""
    yield
    cluster = item.session.stash.get(_CLUSTERS, {}).get("kafka_session_cluster")
    if cluster is not None and "kafka_session_cluster" in getattr(item, "fixturenames", ()) and cluster.is_running:
        cluster.recover()


# --- reports -------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failing test says which cluster it had, what was done to it, and what its nodes decided last."""
    report = yield
    if report.failed:
        for holder in (item, item.session):
            for name, cluster in holder.stash.get(_CLUSTERS, {}).items():
                if name in getattr(item, "fixturenames", ()):
                    report.sections.append((name, cluster.describe(TRACE_SHOWN)))
    return report


# --- within ----------------------------------------------------------------------------------------------------------

_NUMBERS = itertools.count(1)


def _running(node: pytest.Item | pytest.Session, options: dict[str, Any]) -> Iterator[RunningCluster]:
    from tidegauge.impl.cluster.running_cluster import running_cluster

    topics = options.pop("topics", ())
    with running_cluster(**options) as cluster:
        name = "kafka_session_cluster" if isinstance(node, pytest.Session) else "kafka_cluster"
        node.stash.setdefault(_CLUSTERS, {})[name] = cluster
        for topic in topics:
            cluster.create_topic(topic)
        yield cluster


def _delete_all(cluster: RunningCluster, topics: Iterable[str]) -> None:
    """Delete these topics, those aside that the test has deleted itself. Raises the last error when all were tried."""
    from kio.schema.errors import ErrorCode

    from tidegauge.impl.client.errors import KafkaError

    failed: Exception | None = None
    for topic in topics:
        try:
            cluster.delete_topic(topic)
        except Exception as error:
            if not isinstance(error, KafkaError) or error.code is not ErrorCode.unknown_topic_or_partition:
                failed = error
    if failed is not None:
        raise failed


def _marked(node: pytest.Item) -> dict[str, Any]:
    """The options of the markers, the closest one first."""
    options: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(
                f"@pytest.mark.kafka{marker.args!r}: give its arguments by keyword, as in brokers=3"
            )
        _check_options(marker.kwargs, "@pytest.mark.kafka")
        options.update(marker.kwargs)
    return options


def _check_options(options: Any, what: str) -> None:
    if not isinstance(options, dict):
        raise pytest.UsageError(f"{what} gives {options!r}: give a dictionary, as in {{'brokers': 3}}")
    for name in options:
        if name not in OPTIONS:
            raise pytest.UsageError(f"{what} has no option {name!r}: there are {', '.join(OPTIONS)}")
    if isinstance(topics := options.get("topics"), str):
        raise pytest.UsageError(f"{what} has the topics {topics!r}: give a list of names, as in topics=[{topics!r}]")

"""Clusters for real clients: one broker and three, each up for all tests of the room; topics are new in every test."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidegauge import running_cluster

FreshTopic = Callable[..., str]

PATIENCE = 20.0


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether something comes to hold: brokers learn of topics one after the other, as Kafka's do."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


_numbers = itertools.count()


@pytest.fixture(scope="package")
def clusters() -> Iterator[dict[int, Any]]:
    with running_cluster(brokers=1) as one, running_cluster(brokers=3) as three:
        yield {1: one, 3: three}


@pytest.fixture(params=[1, 3], ids=["one broker", "three brokers"])
def cluster(request: pytest.FixtureRequest, clusters: dict[int, Any]) -> Any:
    """Used by tests that do it no harm."""
    return clusters[request.param]


@pytest.fixture
def bootstrap(cluster: Any) -> str:
    return str(cluster.bootstrap_servers)


@pytest.fixture
def fresh_topic(cluster: Any) -> FreshTopic:
    """Makes a topic and returns its name."""

    def make(partitions: int = 1, **config: Any) -> str:
        name = f"topic-{next(_numbers)}"
        cluster.create_topic(name, partitions=partitions, config={k.replace("_", "."): v for k, v in config.items()})
        return name

    return make
